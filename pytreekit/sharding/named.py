"""`ptk.named_shardings` and `ptk.spec_of`: from specs to what JAX takes, and back from arrays."""

from __future__ import annotations

from typing import Any

import jax
from jax.sharding import NamedSharding, PartitionSpec, Sharding

from ..faults import Fault
from ..show import values as shown
from ..show.errors import raise_faults
from ..trees import paths
from ..trees.sorts import check_sorts
from .check import spec_problems
from .meshes import Axes, axes_of
from .plan import SpecPlan
from .resolve import axes_by_dimension, normal


def named_shardings(mesh: Any, specs: Any) -> Any:
    """A tree of `NamedSharding`s of a tree of specs, all that is wrong with them told at once.

    What `jax.device_put` and `jax.jit` take, also as a prefix.

    Args:
        mesh: A `Mesh`, or an `AbstractMesh`; a dict of axis names and sizes gives shardings of an
            abstract mesh; None is the mesh that `jax.set_mesh` has set.
        specs: A tree of specs, or a plan. None in it is left as it is.

    Returns:
        A tree of the structure of `specs`.

    Raises:
        SpecError: PTK301, if there is no such mesh axis; PTK304, if one is used twice; PTK001, if
            something is no `PartitionSpec`, or one that JAX does not take.

    Examples:
        >>> import jax
        >>> from jax.sharding import PartitionSpec as P
        >>> import pytreekit as ptk
        >>> mesh = jax.make_mesh((1,), ("model",))
        >>> ptk.named_shardings(mesh, {"w": P(None, "model")})["w"].spec
        P(None, 'model')
    """
    specs = specs.specs if isinstance(specs, SpecPlan) else specs
    axes = axes_of(mesh, "named_shardings")
    raise_faults(check_sorts(specs, "specs"), doing="named_shardings")
    known: dict[Any, NamedSharding] = {}
    faults: list[Fault] = []
    rows, structure = jax.tree_util.tree_flatten_with_path(specs)
    for path, spec in rows:
        if isinstance(spec, PartitionSpec) and spec in known:
            continue
        wrong = _faults(path, spec, axes)
        faults += wrong
        if not wrong:
            known[spec] = NamedSharding(axes.mesh, spec)
    raise_faults(faults, doing="named_shardings", where="specs")
    return structure.unflatten([known[spec] for _, spec in rows])


def _faults(path: Any, spec: Any, axes: Axes) -> list[Fault]:
    where = "specs" + paths.text(path)
    if not isinstance(spec, PartitionSpec):
        fact = f"must be a PartitionSpec, this is {shown.kind(spec)}"
        return [Fault("PTK001", "", "", where, "", shown.spec(spec), fact=fact)]
    shape = (0,) * len(spec)  # of so many dimensions, which all divide
    return [
        Fault(one.code, "", "", where, "", shown.spec(spec), fact=one.fact, note=one.note)
        for one in spec_problems(spec, shape, axes)
    ]


def spec_of(arrays: Any) -> Any:
    """The PartitionSpecs that arrays have now.

    Args:
        arrays: Any pytree. What has no sharding, as arrays of NumPy, or is on one device, is `P()`.

    Returns:
        A tree of the structure of `arrays`, of specs without None at their end.

    Raises:
        SpecError: PTK001, if an array is laid out in a way that no spec says.

    Examples:
        >>> import jax, jax.numpy as jnp
        >>> from jax.sharding import NamedSharding, PartitionSpec as P
        >>> import pytreekit as ptk
        >>> mesh = jax.make_mesh((1,), ("model",))
        >>> w = jax.device_put(jnp.ones((4, 2)), NamedSharding(mesh, P("model", None)))
        >>> ptk.spec_of({"w": w, "b": jnp.ones(2)})
        {'b': P(), 'w': P('model',)}
    """
    raise_faults(check_sorts(arrays, "arrays"), doing="spec_of")
    rows, structure = jax.tree_util.tree_flatten_with_path(arrays)
    specs: list[PartitionSpec] = []
    faults: list[Fault] = []
    for path, leaf in rows:
        sharding = getattr(leaf, "sharding", None)
        if isinstance(sharding, NamedSharding):
            specs.append(_normal(sharding.spec))
            continue
        specs.append(PartitionSpec())
        if isinstance(sharding, Sharding) and not sharding.is_fully_replicated:
            kind = type(sharding).__name__
            fact, note = "no PartitionSpec says how it is laid out", f"its sharding is a {kind}"
            place = paths.text(path), "", shown.leaf(leaf), ""
            faults.append(Fault("PTK001", "arrays", *place, fact=fact, note=note))
    raise_faults(faults, doing="spec_of")
    return structure.unflatten(specs)


def _normal(spec: PartitionSpec) -> PartitionSpec:
    """A spec in normal form; one that is not of arrays, as it stands."""
    if any(part is PartitionSpec.UNCONSTRAINED for part in spec.partitions):
        return spec
    return normal(axes_by_dimension(spec))
