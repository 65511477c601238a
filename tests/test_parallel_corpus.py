"""Cases that users run into: what is refused, and that its message has what mends it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import pytreekit as ptk

CASES: dict[str, Case] = {}


@dataclasses.dataclass(frozen=True)
class Case:
    """A call, and what its message must hold; `None` for a call that is taken."""

    run: Callable[[], Any]
    holds: tuple[str, ...] | None


def case(name: str, *holds: str) -> Callable[[Callable[[], Any]], None]:
    def put(run: Callable[[], Any]) -> None:
        CASES[name] = Case(run, holds or None)

    return put


def mesh() -> Mesh:
    kinds = (AxisType.Auto,) * 2
    return jax.make_mesh((2, 2), ("dp", "tp"), axis_types=kinds, devices=jax.devices()[:4])


def sharded(fun: Any, args: Any, in_specs: Any, out_specs: Any, *, check_vma: bool = True) -> Any:
    options = {"in_specs": in_specs, "out_specs": out_specs, "check_vma": check_vma}
    return ptk.shard_map(fun, mesh=mesh(), **options)(*args)


X = jnp.arange(32.0).reshape(8, 4)
PARAMS = {"w": X, "b": jnp.ones(4)}
ROWS = jnp.arange(8.0).reshape(4, 2)


@case("unknown axis", "PTK301", "x ", "in_specs", "'model'", "dp=2, tp=2")
def _() -> Any:
    return sharded(lambda x: x, (X,), P("model"), P("model"))


@case("spec too long", "PTK302", "params['b']", "f32[4]", "1 dimension", "2 entries", "P('tp',)")
def _() -> Any:
    return sharded(lambda params, x: x, (PARAMS, X), (P("dp", "tp"), P("dp")), P("dp"))


@case("duplicate axis", "PTK304", "in_specs", "'dp'", "dimension 0 and dimension 1")
def _() -> Any:
    return sharded(lambda x: x, (X,), P("dp", "dp"), P("dp"))


@case("missing key", "PTK201", "params['b']", "in_specs[0]")
def _() -> Any:
    return sharded(lambda params, x: x, (PARAMS, X), ({"w": P()}, P("dp")), P("dp"))


@case("scalar split", "PTK302", "lr ", "f32[]", "fix: in_specs[0] = P()")
def _() -> Any:
    return sharded(lambda lr, x: lr * x, (2.0, X), (P("dp"), P("dp")), P("dp"))


@case("keyword argument", "PTK504", "w ", "fix: pass w by position")
def _() -> Any:
    add = ptk.shard_map(
        lambda x, w: x + w, mesh=mesh(), in_specs=(P("dp"), P("dp")), out_specs=P("dp")
    )
    return add(X, w=X)


@case("unreplicated output", "PTK505", "out_specs = P()", "'dp'", "psum")
def _() -> Any:
    return sharded(lambda x: x.sum(), (X,), P("dp"), P())


@case("unreplicated output, unchecked")
def _() -> Any:
    its = sharded(lambda x: x.sum(), (X,), P("dp"), P(), check_vma=False)
    assert float(its) != float(X.sum())


@case("output that grows")
def _() -> Any:
    assert sharded(lambda x: x, (X,), P(), P("dp")).shape == (16, 4)


@case("None is replicated")
def _() -> Any:
    assert sharded(lambda x: x, (X,), (None,), P()).shape == (8, 4)


@case("a key for all shards")
def _() -> Any:
    def noise(key: Any, x: Any) -> Any:
        return jax.random.normal(key, x.shape)

    its = sharded(jax.jit(noise), (jax.random.key(0), X), (P(), P("dp")), P("dp"), check_vma=False)
    assert (its[:4] == its[4:]).all()


def shardings(tree: Any, its: Any) -> None:
    ptk.raise_faults(ptk.check_shardings(tree, its), doing="check")


@case("NamedSharding of an unknown axis", "PTK301", "'model'", "dp=2, tp=2")
def _() -> Any:
    ptk.named_shardings(mesh(), {"x": P("model")})


@case("placing what does not divide", "PTK303", "tree['x']", "f32[7,4]", "of 7", "by 2", "dp=2")
def _() -> Any:
    shardings({"x": jnp.ones((7, 4))}, {"x": NamedSharding(mesh(), P("dp"))})


@case("shardings without a key", "PTK201", "tree['b']")
def _() -> Any:
    shardings(PARAMS, {"w": NamedSharding(mesh(), P("dp"))})


@case("None among shardings")
def _() -> Any:
    shardings(PARAMS, {"w": NamedSharding(mesh(), P("dp")), "b": None})


@case("one sharding for an optimizer state", "PTK302", "[0].count", "i32[]")
def _() -> Any:
    shardings(optax.adam(1e-3).init({"w": X}), NamedSharding(mesh(), P("dp")))


@case("pmap: list of axes")
def _() -> Any:
    its = ptk.pmap(lambda x, y: x + y, in_axes=[0, None])(ROWS, jnp.ones(2))
    assert its.tolist() == (ROWS + 1).tolist()


@case("pmap: fewer than devices")
def _() -> Any:
    assert ptk.pmap(lambda x: x)(ROWS[:2]).shape == (2, 2)


@case("pmap: negative axis")
def _() -> Any:
    assert ptk.pmap(lambda x: x, in_axes=-1)(ROWS.T).tolist() == ROWS.tolist()


@case("pmap: scalar", "PTK101", "lr ", "there is no axis 0", "fix: in_axes = (0, None)")
def _() -> Any:
    return ptk.pmap(lambda x, lr: x * lr)(ROWS, 2.0)


@case("pmap: out_axes drops", "PTK108", "out ", "out_axes = None", "fix: out_axes = 0")
def _() -> Any:
    return ptk.pmap(lambda x: x.sum(), out_axes=None)(ROWS)


@case("pmap: nothing mapped", "PTK103", "in_axes = None")
def _() -> Any:
    return ptk.pmap(lambda x: x, in_axes=None)(ROWS)


@case("pmap: missing key", "PTK201", "params['b']", "in_axes[0]")
def _() -> Any:
    return ptk.pmap(lambda params: params["w"], in_axes=({"w": 0},))({"w": ROWS, "b": ROWS})


@pytest.mark.parametrize("name", CASES)
def test_case(name: str) -> None:
    its = CASES[name]
    if its.holds is None:
        its.run()
        return
    with pytest.raises(ptk.SpecError) as caught:
        its.run()
    text = str(caught.value)
    assert all(fact in text for fact in its.holds), text
    assert np.all([len(line) <= 88 for line in text.splitlines()])
