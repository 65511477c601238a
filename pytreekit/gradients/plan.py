"""What a call is going to differentiate, what it leaves alone, and what it maps."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp

from ..batching.call import Call
from ..batching.plan import LEAF_COLUMNS, PlannedLeaf, leaf_rows, plan_call
from ..show import table, values
from ..trees import paths
from .floats import Floats, is_float
from .loss import Loss


class PlannedGradient(NamedTuple):
    """A leaf of an argument that is differentiated.

    Attributes:
        argument: The name of the argument.
        path: The path of the leaf there, as `jax.tree_util.keystr` prints it.
        found: Its dtype and shape, `"f32[32,8]"`, or its type.
        left: Why it is left alone, and its gradient None; `""` where it is differentiated.
        bytes: What its gradient takes, of one example; under ghost clipping what stands for it.
        bound: The entry of clip_norm that it is clipped by, `""` for none.
        how: Under ghost clipping, `"ghost"` if no example has a gradient of its own, `"itself"` if
            each has one, `"unused"` if there is none; else `""`.
        why: What the leaf is used in, or why it is not recognised.
        flops: How many operations its norm and the sum take, of one example, if that was counted.
        source: The line of source that decides on it, `"model.py:12 (loss)"`.
    """

    argument: str
    path: str
    found: str
    left: str
    bytes: int
    bound: str = ""
    how: str = ""
    why: str = ""
    flops: int = 0
    source: str = ""


@dataclasses.dataclass(frozen=True)
class GradientPlan:
    """What a call is going to differentiate, and over what it is mapped.

    Made by the `.plan(...)` of what takes gradients, which raises on a faulty call. `print(plan)`
    shows it as tables.

    Attributes:
        function: What is done, and to which loss: `"per_example_grad(loss)"`.
        axis_size: The number of examples.
        chunk_size: How many are differentiated at once, None for all.
        gradients: A `PlannedGradient` for each leaf of what is differentiated.
        examples: What `ptk.vmap` does with each leaf of the other arguments.

    Examples:
        >>> import jax.numpy as jnp
        >>> import pytreekit as ptk
        >>> params = {"w": jnp.ones(3), "step": 0}
        >>> gradients = ptk.per_example_grad(lambda params, x: params["w"] @ x)
        >>> plan = gradients.plan(params, jnp.ones((8, 3)))
        >>> plan.axis_size, plan.bytes_at_once, [leaf.left for leaf in plan.gradients]
        (8, 96, ['i32 is no float', ''])
    """

    function: str
    axis_size: Any
    chunk_size: int | None
    gradients: tuple[PlannedGradient, ...]
    examples: tuple[PlannedLeaf, ...]

    @property
    def bytes_at_once(self) -> int:
        """What the gradients of the examples that are differentiated at once take."""
        at_once = min(self.chunk_size or self.axis_size, self.axis_size)
        return at_once * sum(leaf.bytes for leaf in self.gradients)

    def table(self) -> str:
        """The plan as plain tables, 88 columns wide at most."""
        return table.plain_all(self._tables())

    def __str__(self) -> str:
        return self.table()

    def __rich__(self) -> Any:
        return table.rich_all(self._tables())

    def _title(self) -> str:
        return f"{self.function} of {values.count(self.axis_size, 'example')}, {self._chunks}"

    @property
    def _chunks(self) -> str:
        return f"{self.chunk_size} at a time" if self.chunk_size else "all at once"

    def _tables(self) -> Iterator[table.Table]:
        bounds = any(leaf.bound for leaf in self.gradients)
        columns = ("leaf", "found", "differentiated", "bytes", *["clipped by"] * bounds)
        rows = [
            (
                leaf.argument + leaf.path,
                leaf.found,
                f"no: {leaf.left}" if leaf.left else "yes",
                f"{leaf.bytes:,}",
                *[leaf.bound] * bounds,
            )
            for leaf in self.gradients
        ]
        yield table.Head(self._title(), columns, ("bytes",)), rows
        judged = [leaf for leaf in self.gradients if leaf.how]
        if judged:
            yield _JUDGED, [_told(leaf) for leaf in judged]
        yield table.Head("mapped over", LEAF_COLUMNS), leaf_rows(self.examples)


_JUDGED = table.Head("how, of one example", ("leaf", "how", "FLOPs", "used in", "at"), ("FLOPs",))


def _told(leaf: PlannedGradient) -> tuple[str, ...]:
    place = leaf.argument + leaf.path
    return place, leaf.how, f"{leaf.flops:,}", leaf.why, leaf.source


def planned(
    loss: Loss, call: Call, bounds: Sequence[str] = ()
) -> tuple[Any, tuple[PlannedGradient, ...], tuple[PlannedLeaf, ...]]:
    """The number of examples, the leaves that are differentiated, and all others.

    Args:
        loss: The loss.
        call: A call without fault.
        bounds: The entry of clip_norm for each leaf that is differentiated.
    """
    plan = plan_call(call)
    floats = loss.floats(call.args, call.kwargs)
    places = loss.argnums.places(loss.fun, call.args, call.kwargs)
    names = [call.passed[place].name if isinstance(place, int) else str(place) for place in places]
    rows = [(name, *row) for name, tree in zip(names, floats.trees, strict=True)
            for row in paths.leaves_with_paths(tree)]  # fmt: skip
    taken = set(floats.indices)
    entry = dict(zip(floats.indices, bounds, strict=True)) if bounds else {}
    gradients = tuple(
        PlannedGradient(
            name,
            paths.text(path),
            values.leaf(leaf),
            "" if index in taken else _why(leaf),
            _bytes(leaf) if index in taken else 0,
            entry.get(index, ""),
        )
        for index, (name, path, leaf) in enumerate(rows)
    )
    others = tuple(leaf for leaf in plan.leaves if leaf.argument not in names)
    return plan.axis_size, gradients, others


def gradient_bytes(floats: Floats) -> int:
    """What the gradient of one example takes."""
    return sum(map(_bytes, floats.leaves))


def _why(leaf: Any) -> str:
    """Why a leaf is not differentiated."""
    if is_float(leaf):
        return "left out by where"
    aval = values.typeof(leaf)
    return "no array" if aval is None else f"{values.short_dtype(str(aval.dtype))} is no float"


def _bytes(leaf: Any) -> int:
    aval = values.typeof(leaf)
    return math.prod(aval.shape) * jnp.dtype(aval.dtype).itemsize
