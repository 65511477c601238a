"""`ptk.partition_specs`, `ptk.partition_plan`: the spec of each leaf of a tree."""

from __future__ import annotations

from typing import Any

from ..show.errors import raise_faults
from .assigning import Assigned, assign
from .mending import repaired
from .options import options_of
from .plan import SpecPlan


def partition_specs(
    tree: Any,
    rules: Any = None,
    *,
    mesh: Any = None,
    axes: Any = None,
    stack: Any = None,
    on_indivisible: Any = "error",
    missing_axes: str = "error",
) -> Any:
    """A tree of PartitionSpecs for a tree, by path rules, checked against its shapes and a mesh.

    What a rule says of a leaf is a `PartitionSpec`, a tuple of its entries, None, or text with a
    token for each dimension: `_` leaves it whole, `a` splits it over the mesh axis `a`, `a+b` over
    both, `a|b|_` over the first that is free and divides it, `a?` unless it does not divide. One
    `...` stands for as many `_` as the leaf needs, also in a `PartitionSpec`; `replicate` stands
    for no entry. Scalars and arrays of one element are `P()` and need no rule.

    Everything is checked at once, before JAX sees any of it: that there are such mesh axes, that
    none is used twice, that a leaf has as many dimensions as its spec has entries, and that they
    divide.

    Args:
        tree: Any pytree: of arrays, of `jax.ShapeDtypeStruct`s, also in boxes. What is no array is
            `P()`.
        rules: `ptk.Rules`, or a list of pairs for it; or a tree of specs, a prefix of `tree`; or
            None for the metadata of flax alone. A leaf that no rule matches has what its metadata
            say; where both say something, rules win.
        mesh: A `Mesh`, an `AbstractMesh`, or a dict of axis names and sizes, which needs no
            devices; by default the mesh that `jax.set_mesh` has set.
        axes: Logical names, for entries that are no mesh axes: pairs of a name and a mesh axis, a
            tuple of them, or None, as flax has them. Earlier pairs come first; a name may have
            several, of which the later ones serve where the mesh axes are taken or do not divide.
        stack: Rules of the dimensions that are stacks of layers, `{"decoder/layers/**": 0}`. What
            rules say speaks of the other dimensions; these stay whole.
        on_indivisible: `"error"`, or `"replicate"` to leave out mesh axes, from the right, until a
            dimension divides; or a dict of these by mesh axis.
        missing_axes: `"error"`, or `"drop"` to leave out mesh axes that this mesh lacks.

    Returns:
        A tree of the structure of `tree`, with a `PartitionSpec` for each leaf: never with `...`,
        with None at its end, or with more entries than dimensions.

    Raises:
        SpecError: PTK301, if there is no such mesh axis; PTK302, if a spec has more entries than
            its leaf has dimensions; PTK303, if a dimension does not divide; PTK304, if a mesh axis
            is used twice; PTK307, if there is no such logical name, or no mesh axis is left for it;
            PTK305, if no rule matches; PTK306, if a rule cannot be read; PTK201 to PTK204, if a
            tree of specs does not fit; PTK001, if an argument is of a wrong kind. All in one error,
            whose `.repaired` are the rules to use, where its hints mend everything.

    Examples:
        >>> import jax.numpy as jnp
        >>> import pytreekit as ptk
        >>> params = {"up": {"kernel": jnp.ones((64, 256)), "bias": jnp.ones(256)}}
        >>> rules = [("kernel", "... model"), ("bias", "replicate")]
        >>> ptk.partition_specs(params, rules, mesh={"data": 4, "model": 2})
        {'up': {'bias': P(), 'kernel': P(None, 'model')}}
        >>> table = [("embed", None), ("mlp", "model")]
        >>> ptk.partition_specs(params, [("kernel", "embed mlp"), ("bias", "mlp")],
        ...                     mesh={"data": 4, "model": 2}, axes=table)
        {'up': {'bias': P('model',), 'kernel': P(None, 'model')}}

    Logical names are resolved as `flax.linen.logical_to_mesh_axes` does where every name gets what
    the table has for it, and all dimensions divide.
    """
    its = {"stack": stack, "on_indivisible": on_indivisible, "missing_axes": missing_axes}
    return _assigned(tree, rules, "partition_specs", mesh=mesh, axes=axes, **its).tree


def partition_plan(
    tree: Any,
    rules: Any = None,
    *,
    mesh: Any = None,
    axes: Any = None,
    stack: Any = None,
    on_indivisible: Any = "error",
    missing_axes: str = "error",
) -> SpecPlan:
    """As `ptk.partition_specs`, with the reason for each spec, and with notes.

    Notes tell what is right, and might still not be meant: mesh axes that were left out, second
    choices, specs that speak of the first dimensions alone, leaves that no rule matches, large
    arrays that are whole on every device, metadata that say something else, mesh axes that split
    nothing.

    Args:
        tree: As for `ptk.partition_specs`.
        rules: As for `ptk.partition_specs`.
        mesh: As for `ptk.partition_specs`.
        axes: As for `ptk.partition_specs`.
        stack: As for `ptk.partition_specs`.
        on_indivisible: As for `ptk.partition_specs`.
        missing_axes: As for `ptk.partition_specs`.

    Returns:
        A `SpecPlan`: `.specs`, `.leaves`, `.notes`, and a table for `print` and notebooks.

    Raises:
        SpecError: What `ptk.partition_specs` raises.

    Examples:
        >>> import jax, jax.numpy as jnp
        >>> import pytreekit as ptk
        >>> vocabulary = jax.ShapeDtypeStruct((50257, 768), jnp.float32)
        >>> rules = [("table", "model? fsdp"), ("scale", "replicate")]
        >>> plan = ptk.partition_plan({"table": vocabulary, "scale": jnp.ones(768)}, rules,
        ...                           mesh={"fsdp": 4, "model": 2})
        >>> plan.notes[0].note
        'dimension 0 of 50257 does not divide: model=2 left out'
        >>> print(plan)
        2 leaves over fsdp=4, model=2
        +-------+---+----------------+-----------+----------+
        | leaf  | n | found          | spec      | why      |
        +-------+---+----------------+-----------+----------+
        | scale | 1 | f32[768]       | replicate | rules[1] |
        | table | 1 | f32[50257,768] | _ fsdp    | rules[0] |
        +-------+---+----------------+-----------+----------+
        <BLANKLINE>
        2 notes
        +-------+---+-----------+--------------------------------------------------------+
        | leaf  | n | note      |                                                        |
        +-------+---+-----------+--------------------------------------------------------+
        | table | 1 | dropped   | dimension 0 of 50257 does not divide: model=2 left out |
        |       | 1 | idle-axis | model splits nothing                                   |
        +-------+---+-----------+--------------------------------------------------------+
    """
    its = {"stack": stack, "on_indivisible": on_indivisible, "missing_axes": missing_axes}
    return _assigned(tree, rules, "partition_plan", mesh=mesh, axes=axes, **its).plan()


def _assigned(
    tree: Any,
    rules: Any,
    doing: str,
    *,
    mesh: Any,
    axes: Any,
    stack: Any,
    on_indivisible: Any,
    missing_axes: Any,
) -> Assigned:
    options = options_of(mesh, axes, on_indivisible, missing_axes, doing)
    found = assign(tree, rules, options, stack, doing)
    instead = repaired(found) if found.faults else None
    its = {"where": "rules", "when": "before placing", "repaired": instead}
    raise_faults(found.faults, doing=doing, **its)
    return found
