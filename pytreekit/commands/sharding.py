"""What `pytreekit shard` shows: the spec of each leaf, its memory, and what each rule took."""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..files.opening import said
from ..sharding.plans import report
from ..sharding.plans.memory import PlanMemory
from ..sharding.plans.planned import of_specs
from ..sharding.plans.sharding_plan import ShardingPlan
from ..sharding.specs import partition_plan
from ..show import values as shown
from ..show.errors import SpecError
from ..show.sizes import in_bytes, percent
from ..specs.rules import Rules
from . import shard_tables
from .answers import DONE, Answer, Unusable, bundled, opened, write

STYLES = ("bold cyan", "bold yellow", "bold green", "bold magenta", "bold blue", "bold red")


def show(
    answer: Answer,
    file: str | None,
    rules: str | None,
    *,
    every_leaf: bool,
    strict: bool,
    out: str | None,
    html: str | None,
    **options: Any,
) -> int:
    """Show the specs of a tree and the audit of the rules, and what is wrong.

    Args:
        answer: Where to.
        file: The file, as for `opened`.
        rules: A file of rules, None for those of GPT-2.
        every_leaf: Whether each leaf has a row, instead of one for all that are alike.
        strict: Whether rules that take nothing, and leaves with the default, are faults.
        out: Where the plan is to be written, None for nowhere.
        html: Where the report is to be written, None for nowhere.
        options: Those of `ptk.partition_plan`.
    """
    its, read = opened(file), _rules(rules)
    places = {"FILE": its.places, "--rules": (_rule_file(rules),)}
    _keep_apart(places, {"--out": out, "--html": html})
    answer.data(file=its.name, form=its.form, mesh=options["mesh"])
    audit = read.audit(its.tree)
    try:
        specs = partition_plan(its.tree, read, **options)
        numbers = read.assign(its.tree).numbers
        plan = ShardingPlan._of(of_specs(its.tree, specs))  # noqa: SLF001  its own
        found = plan.memory()
        if strict:
            audit.raise_if(unused=True, shadowed=True, defaulted=True)
        if out is not None:  # first: who reads what is shown may stop to, as `head` does
            write(out, plan.to_json())
        if html is not None:
            write(html, report.html(plan, its.name))
        colours = {f"'{name}'": STYLES[n % len(STYLES)] for n, name in enumerate(specs.mesh)}
        head, rows = shard_tables.planned(found, plan.leaves, numbers, joined=not every_leaf)
        answer.table(head, rows, styles={"spec": colours})
        answer.text(_memory(found))
        answer.text(shard_tables.notes(specs))
        answer.more(lambda: _data(plan, found, numbers))
    finally:
        answer.table(*shard_tables.audited(audit), column=1)
        answer.data(rules=[_rule(rule) for rule in audit.rules])
    return DONE


def _keep_apart(read: Mapping[str, Sequence[Path]], written: Mapping[str, str | None]) -> None:
    """Refuse what would be written over what is read, or over what is written before.

    Args:
        read: The files that are read, and folders all of which is, by what they are called.
        written: The files that are to be written.
    """
    known = {its: name for name, places in read.items() for place in places for its in _ids(place)}
    for name, file in written.items():
        if file is None:
            continue
        place = Path(os.path.realpath(file.replace("\0", "")))
        above = (its for one in (place, *place.parents) for its in _ids(one))
        over = next((known[its] for its in above if its in known), None)
        if over is not None:
            raise Unusable(f"{name} would overwrite {over}: {file!a}")
        known.update(dict.fromkeys(_ids(place), name))


def _ids(place: Path) -> Iterator[Any]:
    """What tells that a file, or a folder, is the same as another, by whatever name."""
    yield os.path.realpath(place)
    with contextlib.suppress(OSError):
        its = place.stat()
        yield its.st_dev, its.st_ino


def _rules(file: str | None) -> Rules:
    try:
        return Rules.load(_rule_file(file))
    except SpecError:
        raise
    except (OSError, ValueError) as error:  # a ValueError of a zero byte in its name
        raise Unusable(f"cannot read {file!r}: {said(error)}") from None


def _rule_file(file: str | None) -> Path:
    return bundled(".toml") if file is None else Path(file)


def _memory(found: PlanMemory) -> str:
    devices = shown.count(math.prod(found.mesh.values()), "device")
    each = f"{in_bytes(found.per_device)} on each of {devices}"
    whole = percent(found.replicated)
    return f"memory: {in_bytes(found.total)} in all, {each}, {whole} whole on all"


def _data(plan: ShardingPlan, found: PlanMemory, numbers: list[int]) -> dict[str, Any]:
    """A plan for programs."""
    leaves = [
        {
            "path": leaf.path,
            "text": leaf.text,
            "dtype": leaf.dtype,
            "shape": list(leaf.shape or ()),
            "spec": [list(entry) if isinstance(entry, tuple) else entry for entry in leaf.spec],
            "rule": number if number >= 0 else None,
            "bytes": leaf.bytes,
            "device_bytes": leaf.device_bytes,
        }
        for leaf, number in zip(plan.leaves, numbers, strict=True)
    ]
    sizes = {"total": found.total, "per_device": found.per_device, "replicated": found.replicated}
    notes = [note._asdict() for note in plan.notes]
    return {"memory": sizes, "leaves": leaves, "notes": notes}


def _rule(rule: Any) -> dict[str, Any]:
    value = rule.value if isinstance(rule.value, str) else repr(rule.value)
    told = {"number": rule.number, "pattern": rule.pattern, "value": value}
    return {**told, "leaves": rule.leaves, "bytes": rule.bytes, "shadowed_by": rule.shadowed_by}
