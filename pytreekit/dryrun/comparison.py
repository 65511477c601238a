"""Dry runs side by side, as data, a table and a picture."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping
from typing import Any

from ..sharding.plans.sharding_plan import ShardingPlan
from ..show import table
from ..show.picture import Bar, Chart, svg
from ..show.sizes import in_bytes, in_flops, in_seconds
from .result import DryRun

COLUMNS = ("plan", "memory", "fits", "sent", "collectives", "FLOPs", "findings")
NUMBERS = ("memory", "sent", "at least", "collectives", "FLOPs")


@dataclasses.dataclass(frozen=True)
class Comparison:
    """One step under several plans: what `ptk.compare` and `ptk.suggest` return.

    Attributes:
        runs: A `ptk.DryRun` for each plan, by name.
        memory: The bytes of a device's memory, None where they are not given.
        left_out: Plans that were not compiled, and why.
        plans: The plans that `ptk.suggest` made, by name.
    """

    runs: Mapping[str, DryRun]
    memory: float | int | None
    left_out: Mapping[str, str]
    plans: Mapping[str, ShardingPlan] = dataclasses.field(default_factory=dict)

    @property
    def best(self) -> str | None:
        """The name of the plan that fits in the memory and communicates least; None if none fits.

        Least is what takes least time where a `bandwidth` is given, its collectives one after the
        other, else what sends fewest bytes; of equal ones, what takes least memory.
        """
        fit = [name for name, run in self.runs.items() if self.fits(run)]
        return min(fit, key=lambda name: _cost(self.runs[name]), default=None)

    @property
    def plan(self) -> ShardingPlan | None:
        """The plan of `ptk.suggest` with that name; None if none fits, or after `ptk.compare`."""
        return None if self.best is None else self.plans.get(self.best)

    def fits(self, run: DryRun) -> bool:
        """Whether a run stays within the memory."""
        return self.memory is None or run.memory.peak <= self.memory

    def to_json(self) -> str:
        """The whole as JSON."""
        runs = {name: json.loads(run.to_json()) for name, run in self.runs.items()}
        its = {"runs": runs, "memory": self.memory, "left_out": dict(self.left_out)}
        return json.dumps({**its, "best": self.best}, indent=1)

    def table(self) -> str:
        """The runs side by side, as a plain table, 88 columns wide at most."""
        return table.plain_all(self._tables())

    def picture(self) -> str:
        """Bars of the memory that each plan takes, and of what it sends: an SVG file."""
        return svg(list(self._charts()))

    def __str__(self) -> str:
        return self.table()

    def __rich__(self) -> Any:
        return table.rich_all(self._tables())

    def _repr_html_(self) -> str:
        return table.html_all(self._tables()) + self.picture()

    def _title(self) -> str:
        best = self.best
        within = "" if self.memory is None else f" in {in_bytes(round(self.memory))}"
        if best is None:
            return f"no plan fits{within}"
        does = "takes least time" if self._is_timed else "sends least"
        return f"{best} {does} of what fits{within}" if within else f"{best} {does}"

    @property
    def _is_timed(self) -> bool:
        """Whether a `bandwidth` was given, so that plans are held against each other by time."""
        return any(run.seconds is not None for run in self.runs.values())

    def _tables(self) -> Iterator[table.Table]:
        columns = (*COLUMNS[:4], "at least", *COLUMNS[4:]) if self._is_timed else COLUMNS
        columns = tuple(name for name in columns if name != "fits" or self.memory is not None)
        rows = [self._row(name, run, columns) for name, run in self.runs.items()]
        yield table.Head(self._title(), columns, NUMBERS), rows
        if self.left_out:
            left = [(name, why) for name, why in self.left_out.items()]
            yield table.Head("Not compiled", ("plan", "why")), left

    def _row(self, name: str, run: DryRun, columns: tuple[str, ...]) -> tuple[str, ...]:
        cells = {
            "plan": name,
            "memory": in_bytes(run.memory.peak),
            "fits": "yes" if self.fits(run) else "no",
            "sent": in_bytes(round(run.communication)),
            "at least": "" if run.seconds is None else in_seconds(run.seconds),
            "collectives": str(sum(one.times for one in run.collectives)),
            "FLOPs": in_flops(run.flops).removesuffix("FLOPs").strip(),
            "findings": " ".join(dict.fromkeys(one.code for one in run.findings)),
        }
        return tuple(cells[column] for column in columns)

    def _charts(self) -> Iterator[Chart]:
        runs = self.runs.items()
        memory = [Bar(name, run.memory.peak, in_bytes(run.memory.peak)) for name, run in runs]
        if self.memory is not None:
            memory.append(Bar("(a device)", self.memory, in_bytes(round(self.memory))))
        yield Chart("memory per device", memory)
        sent = [(name, run.communication) for name, run in runs]
        yield Chart(
            "sent per device and step", [Bar(*one, in_bytes(round(one[1]))) for one in sent]
        )


def _cost(run: DryRun) -> tuple[float, float, int]:
    return run.seconds or 0.0, run.communication, run.memory.peak
