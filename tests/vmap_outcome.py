"""Runs one drawn call under jax.vmap or under ptk.vmap and notes all that can be compared."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .strategies import Call, Recipe
from .vmap_nodes import build, is_array


@dataclasses.dataclass
class Log:
    """What the user's function saw."""

    entered: int = 0
    returned: int = 0
    seen: Any = None
    axis_size: Any = None


@dataclasses.dataclass
class Outcome:
    """What came of one call."""

    log: Log
    wrapped: bool = False
    error: BaseException | None = None
    jaxpr: str = ""
    shapes: Any = None

    @property
    def accepted(self) -> bool:
        """Whether nothing was raised."""
        return self.error is None

    @property
    def stage(self) -> str:
        """How far it came: to 'wrap', or to 'before', 'inside' or 'after' the function."""
        if not self.wrapped:
            return "wrap"
        if not self.log.entered:
            return "before"
        return "after" if self.log.returned == self.log.entered else "inside"


def sight(leaf: Any) -> tuple[str, Any]:
    """What can be known of a leaf inside the function: a tracer's type, or the very object."""
    if isinstance(leaf, jax.core.Tracer):
        return type(leaf).__name__, str(jax.typeof(leaf))
    return "itself", id(leaf)


def cook(recipe: Recipe, flat: list[Any], axis_name: str | None) -> Any:
    """Makes one output."""
    constants: dict[str, Callable[[], Any]] = {
        "index": lambda: jax.lax.axis_index(axis_name),
        "size": lambda: jax.lax.axis_size(axis_name),
        "arange": lambda: jnp.arange(3.0),
        "numpy": lambda: np.ones(2, np.float32),
        "scalar": lambda: 1.5,
        "text": lambda: "tag",
    }
    if recipe.what in constants:
        return constants[recipe.what]()
    leaf = flat[recipe.source]
    if not is_array(leaf):  # damage has put something else here
        return 0.0
    if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return jax.random.key_data(leaf).sum() if recipe.what == "total" else leaf
    if recipe.what == "total":
        return jnp.sum(leaf)
    return jax.lax.add(leaf, leaf) if recipe.what == "twice" and leaf.dtype != bool else leaf


def function(call: Call, logs: list[Log]) -> Callable[..., Any]:
    """The user's function of a call, which notes what it sees in the last of `logs`."""

    def fun(*args: Any, **kwargs: Any) -> Any:
        log = logs[-1]
        log.entered += 1
        flat, tree = jax.tree.flatten((args, kwargs))
        log.seen = str(tree), [sight(leaf) for leaf in flat]
        if call.axis_name is not None:
            log.axis_size = jax.lax.axis_size(call.axis_name)
        out = build(call.output, lambda recipe: cook(recipe, flat, call.axis_name))
        log.returned += 1
        return out

    if call.names:
        kinds = inspect.Parameter
        parameters = [kinds(name, kinds.POSITIONAL_OR_KEYWORD) for name in call.names]
        fun.__signature__ = inspect.Signature([*parameters, kinds("extra", kinds.VAR_KEYWORD)])
    return fun


def split(call: Call, pick: Callable[[Any], bool]) -> tuple[list[Any], Callable[[list[Any]], Any]]:
    """The leaves that `pick` picks, and how to put others in their places."""
    whole = (call.args, call.kwargs)
    try:
        flat, tree = jax.tree.flatten(whole)
    except (TypeError, ValueError):  # keys that cannot be sorted
        return [], lambda _: whole
    places = [i for i, leaf in enumerate(flat) if pick(leaf)]

    def join(arrays: list[Any]) -> Any:
        if not places:
            return whole
        merged = list(flat)
        for place, value in zip(places, arrays, strict=True):
            merged[place] = value
        return jax.tree.unflatten(tree, merged)

    return [flat[i] for i in places], join


def run(wrapped: Callable[..., Any], call: Call, log: Log, *, as_inputs: bool) -> Outcome:
    """Traces one call of a mapped function that notes in `log` what it sees."""
    outcome = Outcome(log, wrapped=True)
    inputs, join = split(call, is_array if as_inputs else lambda _: False)

    def body(arrays: list[Any]) -> Any:
        args, kwargs = join(arrays)
        try:
            return wrapped(*args, **kwargs)
        except Exception as error:
            outcome.error = error
            raise

    try:
        jaxpr, outcome.shapes = jax.make_jaxpr(body, return_shape=True)(inputs)
    except Exception as error:
        if outcome.error is not error:
            raise
    else:
        outcome.jaxpr = str(jaxpr)
    return outcome


def trace(vmap: Callable[..., Any], call: Call, *, as_inputs: bool) -> Outcome:
    """Wraps and traces; the arrays are inputs of the jaxpr, or constants that it closes over."""
    log = Log()
    try:
        wrapped = vmap(function(call, [log]), **call.options)
    except Exception as error:
        return Outcome(log, error=error)
    return run(wrapped, call, log, as_inputs=as_inputs)


def trace_in_turn(vmap: Callable[..., Any], calls: list[Call], *, as_inputs: bool) -> list[Outcome]:
    """Traces several calls, which differ in their arguments alone, of one mapped function."""
    logs: list[Log] = []
    wrapped = vmap(function(calls[0], logs), **calls[0].options)
    outcomes = []
    for call in calls:
        logs.append(Log())
        outcomes.append(run(wrapped, call, logs[-1], as_inputs=as_inputs))
    return outcomes
