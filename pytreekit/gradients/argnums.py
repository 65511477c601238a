"""Which arguments of a loss are differentiated: by position, or by the name of a parameter."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from ..faults import Fault
from ..show import values
from ..specs import arguments, by_name


class Argnums(NamedTuple):
    """What is differentiated.

    Attributes:
        which: Positions and names of parameters.
        single: Whether it was one alone: its gradient is no tuple then.
    """

    which: tuple[Any, ...]
    single: bool

    def names(self, fun: Callable[..., Any]) -> list[str]:
        """The name of each parameter, `""` where a position has none."""
        return [
            its if isinstance(its, str) else arguments.parameter_name(fun, its)
            for its in self.which
        ]

    def places(
        self, fun: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> list[int | str | None]:
        """Where a call passes each: at a position or by a keyword; None where it does not."""
        by_position = arguments.positional_names(fun, len(args))
        return [self._place(its, fun, by_position, kwargs) for its in self.which]

    @staticmethod
    def _place(
        its: Any, fun: Callable[..., Any], by_position: list[str], kwargs: Mapping[str, Any]
    ) -> int | str | None:
        if isinstance(its, int) and its < len(by_position):
            return its
        name = its if isinstance(its, str) else arguments.parameter_name(fun, its)
        if name in kwargs:
            return name
        return by_position.index(name) if name in by_position else None


def read(argnums: Any) -> Argnums:
    """What is written as argnums; a list counts as a tuple."""
    single = not isinstance(argnums, tuple | list)
    return Argnums((argnums,) if single else tuple(argnums), single)


def check_argnums(fun: Callable[..., Any], argnums: Argnums) -> list[Fault]:
    """PTK001: no position and no name; PTK105: no such parameter."""
    place = "argnums"
    if not argnums.which:
        return [Fault("PTK001", "", "", place, "", "()", fact="nothing is to be differentiated")]
    faults = []
    for index, its in enumerate(argnums.which):
        where = place if argnums.single else f"{place}[{index}]"
        is_one = type(its) is str or (type(its) is int and its >= 0)
        if not is_one:
            fact = "must be a position, counted from 0, or the name of a parameter"
            faults.append(Fault("PTK001", "", "", where, "", values.spec(its), fact=fact))
        else:
            faults += _unknown(fun, its, where)
    if not faults and len({*argnums.names(fun)} - {""}) < len([*filter(None, argnums.names(fun))]):
        fact = "names a parameter twice"
        faults.append(Fault("PTK001", "", "", place, "", values.spec(argnums.which), fact=fact))
    return faults


def _unknown(fun: Callable[..., Any], its: Any, where: str) -> list[Fault]:
    names, anything = by_name.free_names(fun)
    rest = arguments.rest_name(fun)
    if anything or its in names or (type(its) is int and (rest or its < len(names))):
        return []
    close = difflib.get_close_matches(its, names, n=1) if isinstance(its, str) else []
    known = f"its parameters are {values.listing(names)}" if names else "it has no parameters"
    return [
        Fault(
            "PTK105", "", "", where, "", values.spec(its),
            fact=f"{values.function(fun)} has no parameter {its!r}",
            note=f"did you mean {close[0]!r}?" if close else known,
        )
    ]  # fmt: skip
