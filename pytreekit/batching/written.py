"""PTK107: what is written as in_axes and out_axes, checked once, when the function is wrapped."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.core import Tracer

from ..faults import Fault
from ..show import values
from ..show.errors import common_spec, raise_faults
from ..specs import arguments
from ..specs.bind import check_sorts
from ..specs.finding import Finding
from ..specs.hints import with_hints
from ..specs.names import unknown_names
from ..specs.repair import change
from ..specs.rest import Rest
from ..specs.ruled import is_rules
from ..trees import paths
from ..trees.paths import KeyPath
from ..trees.replace import replaced
from .chunks import Fold, check_chunks
from .forms import is_axis, is_form
from .infer import INFER


class Write(NamedTuple):
    """Write `spec` at `path` of in_axes or out_axes."""

    name: str
    path: KeyPath
    spec: Any


@dataclasses.dataclass(frozen=True)
class Written:
    """The options of `vmap` as they are written, before any call.

    The last three are for what is built on it: what messages call that, whether an example keeps
    its batch axis, of size one, and what chunks come to where they are not put together.
    """

    fun: Callable[..., Any]
    in_axes: Any
    out_axes: Any
    axis_name: Any = None
    spmd_axis_name: Any = None
    chunk_size: Any = None
    remat: bool = False
    check_types: bool = True
    doing: str = "vmap"
    keep_axis: bool = False
    fold: Fold | None = None

    @property
    def is_plain(self) -> bool:
        """Whether these options are in the form of `jax.vmap`, right or wrong."""
        if isinstance(self.in_axes, dict) or self.infers or self.chunk_size is not None:
            return False
        try:
            leaves = jax.tree.leaves(self.in_axes, is_leaf=lambda node: isinstance(node, Rest))
        except ValueError:  # a dict whose keys do not sort
            return True
        return not any(isinstance(leaf, Rest) or is_form(leaf) for leaf in leaves)

    @property
    def infers(self) -> bool:
        """Whether in_axes are to be inferred from annotations."""
        return isinstance(self.in_axes, str) and self.in_axes == INFER

    def repaired(self, repairs: Sequence[Write]) -> Written:
        """A copy with repairs written into it."""
        new: dict[str, dict[KeyPath, Any]] = {}
        for name, path, spec in repairs:
            new.setdefault(name, {})[path] = spec
        repaired = {name: replaced(getattr(self, name), its) for name, its in new.items()}
        return dataclasses.replace(self, **repaired)

    def change(self, new: Written, repairs: Sequence[Write]) -> str:
        """What to write to get from here to `new`."""
        names = dict.fromkeys(name for name, _, _ in repairs)
        return "; ".join(change(name, getattr(self, name), getattr(new, name)) for name in names)


def check_written(options: Written) -> list[Finding]:
    """Every axis must be one, and in_axes one axis, a tuple, or a dict by parameter name."""
    found = [] if options.infers else _check_container(options) or _check_axes("in_axes", options)
    names = ("axis_name", "spmd_axis_name")
    return [
        *_check_names(options),
        *found,
        *check_chunks(options.chunk_size, options.axis_name),
        *_check_axes("out_axes", options),
        *(_unhashable(name, getattr(options, name)) for name in names
          if not isinstance(getattr(options, name), Hashable)),
    ]  # fmt: skip


def _check_names(options: Written) -> list[Finding]:
    if not isinstance(options.in_axes, dict):
        return []
    return [
        Finding(fault, tuple(Write("in_axes", (), spec) for spec in specs))
        for fault, specs in unknown_names(options.fun, options.in_axes, "in_axes")
    ]


def _check_container(options: Written) -> list[Finding]:
    axes = options.in_axes
    if type(axes) in (tuple, dict, Rest) or is_axis(axes) or paths.is_leaf(axes):
        return []
    single = arguments.parameters(options.fun)
    fault = Fault(
        "PTK107",
        argument=single[0].name if len(single) == 1 else "",
        path="",
        spec_path="in_axes",
        found="",
        wanted=values.spec(axes),
        fact=f"in_axes is a {type(axes).__name__}, not a tuple with an entry for each argument",
    )
    entries = [tuple(axes)] if isinstance(axes, tuple) else []
    return [Finding(fault, tuple(Write("in_axes", (), spec) for spec in [(axes,), *entries]))]


def _check_axes(name: str, options: Written) -> list[Finding]:
    spec = getattr(options, name)
    unsortable = check_sorts(spec, Fault("PTK104", "", "", name, "", ""))
    if unsortable:
        return unsortable
    leaves = paths.leaves_with_paths(spec, lambda node: node is None)
    of_rules = [
        finding
        for path, value in leaves
        if is_rules(value) and name == "in_axes"
        for finding in _check_rules(path, value, options.fun)
    ]
    return of_rules + [
        Finding(_no_axis(name, path, value, options.fun), _meant(name, path, value))
        for path, value in leaves
        if not is_axis(value) and not (name == "in_axes" and is_form(value))
    ]


def _check_rules(path: KeyPath, rules: Any, fun: Callable[..., Any]) -> list[Finding]:
    """What rules say must be axes, too."""
    rows = [(f"[{its.pattern.text!r}]", its.value) for its in rules.entries]
    rows += [(".default", rules.default)] * rules.has_default
    found = []
    for place, value in rows:
        if not is_axis(value) and not is_form(value):
            fault = _no_axis("in_axes", path, value, fun)
            found.append(Finding(dataclasses.replace(fault, spec_path=fault.spec_path + place)))
    return found


def _no_axis(name: str, path: KeyPath, value: Any, fun: Callable[..., Any]) -> Fault:
    kind = type(value)
    qualified = (
        kind.__name__ if kind.__module__ == "builtins" else f"{_module(kind)}.{kind.__name__}"
    )
    argument = ""
    if name == "in_axes" and path:
        first = paths.plain(path[0])
        argument = first if isinstance(first, str) else ""
        if isinstance(first, int):
            argument = arguments.parameter_name(fun, first)
    axis = _as_axis(value)
    return Fault(
        "PTK107",
        argument=argument,
        path=paths.text(path[1:]) if argument else "",
        spec_path=name + paths.text(path),
        found="",
        wanted=values.spec(value),
        fact=f"an axis must be an int or None, this is a {qualified}",
        note=f"for axis {axis}" if type(axis) is int and kind is not bool else "",
    )


def _module(kind: type) -> str:
    """`np.int64` and `jax.Array` are in modules that nobody writes."""
    root = kind.__module__.partition(".")[0]
    return {"numpy": "np", "jaxlib": "jax"}.get(root, root)


def _as_axis(value: Any) -> Any:
    """The axis that was meant, `...` where none can be told."""
    if isinstance(value, bool | np.bool_):
        return 0 if value else None
    if value is Ellipsis:
        return None
    if isinstance(value, int | np.integer | enum.IntEnum):
        return int(value)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    aval = values.typeof(value)
    concrete = isinstance(value, jax.Array | np.ndarray) and not isinstance(value, Tracer)
    if concrete and aval is not None and aval.shape == () and np.issubdtype(aval.dtype, np.integer):
        return int(value)
    return ...


def _meant(name: str, path: KeyPath, value: Any) -> tuple[Write, ...]:
    axis = _as_axis(value)
    return () if axis is ... else (Write(name, path, axis),)


def _unhashable(name: str, value: Any) -> Finding:
    fault = Fault(
        "PTK001", "", "", name, "", values.spec(value),
        fact=f"{name} must be hashable, such as a str, this is a {type(value).__name__}",
    )  # fmt: skip
    return Finding(fault)


def raise_written(written: Written) -> None:
    """Nothing, if the options are in order.

    Raises:
        SpecError: With all that is wrong with them.
    """
    faults, repaired = with_hints(written, check_written)
    where = common_spec(faults)
    raise_faults(
        faults,
        f"{written.doing}({values.function(written.fun)})",
        where=where,
        when="on wrapping",
        repaired=getattr(repaired, where, None) if where and repaired else None,
    )
