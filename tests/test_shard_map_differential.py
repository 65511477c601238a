"""ptk.shard_map against jax.shard_map: accepted if and only if JAX accepts, and the same jaxpr.

PYTREEKIT_EXAMPLES sets how many calls each test draws.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import jax
from hypothesis import given, settings
from jax.sharding import AxisType
from jax.sharding import PartitionSpec as P

import pytreekit as ptk

from .shard_cases import Drawn, calls

EXAMPLES = int(os.environ.get("PYTREEKIT_EXAMPLES", "0"))


def traced(shard_map: Callable[..., Any], call: Drawn) -> str | Exception:
    """The jaxpr of a call, or what was raised."""
    leaves, structure = jax.tree.flatten(call.args)
    abstract = [n for n, leaf in enumerate(leaves) if isinstance(leaf, jax.ShapeDtypeStruct)]

    def body(arrays: list[Any]) -> Any:
        its = list(leaves)
        for place, array in zip(abstract, arrays, strict=True):
            its[place] = array
        return shard_map(call.fun, **call.options)(*structure.unflatten(its))

    with jax.sharding.use_abstract_mesh(call.options["mesh"]):
        try:
            return str(jax.make_jaxpr(body)([leaves[place] for place in abstract]))
        except Exception as error:
            return error


def is_twice(spec: Any) -> bool:
    if not isinstance(spec, P):
        return False
    names = [n for part in spec for n in (part if isinstance(part, tuple) else (part,)) if n]
    return any(names.count(name) > 1 for name in names if isinstance(name, str))


def compare(call: Drawn) -> None:
    theirs, ours = traced(jax.shard_map, call), traced(ptk.shard_map, call)
    if isinstance(theirs, str) and isinstance(ours, ptk.SpecError):
        # The one stated exception: a mesh axis twice in a spec, which JAX refuses in an eager call,
        # or of an output that is not None.
        assert {fault.code for fault in ours.faults} == {"PTK304"}
        both = call.options["in_specs"], call.options["out_specs"]
        assert any(map(is_twice, jax.tree.leaves(both)))
    elif isinstance(theirs, str):
        assert ours == theirs
    elif AxisType.Explicit in call.options["mesh"].axis_types and not is_told(ours):
        assert str(ours) == str(theirs)  # the function cannot compute on what goes as it is
    else:
        assert is_told(ours), theirs


def is_told(outcome: Any) -> bool:
    return isinstance(outcome, ptk.SpecError)


@settings(max_examples=EXAMPLES or 150)
@given(calls())
def test_auto_meshes(call: Drawn) -> None:
    compare(call)


@settings(max_examples=EXAMPLES or 80)
@given(calls(explicit=True))
def test_explicit_meshes(call: Drawn) -> None:
    compare(call)
