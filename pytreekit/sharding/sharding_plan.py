"""`ptk.ShardingPlan`: how a tree lies on a mesh, and all that can be done with that."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax

from ..faults import Fault
from ..show import plan_picture, table
from ..show import values as shown
from ..show.errors import raise_faults
from ..show.sizes import in_bytes, percent
from ..trees.difference import TreeDiff
from . import comparing, constrain, explain, initial, memory, place, plan_json, verify
from .memory import PlanMemory
from .plan import SpecNote, grouped
from .planned import Planned, ShardedLeaf, planned


class ShardingPlan:
    """How a tree of arrays lies on a mesh: a value, checked once, and used everywhere.

    Everything that `ptk.partition_specs` checks is checked when the plan is made, before anything
    is placed. Arrays are not kept, only their shapes and dtypes. What is no array passes by.

    Args:
        params: Any pytree: of arrays, of `jax.ShapeDtypeStruct`s as `jax.eval_shape` gives them.
        specs: A tree of specs, a prefix of `params`; or rules, as for `ptk.partition_specs`; or
            what `ptk.partition_plan` or `ptk.fsdp_plan` returned, whose reasons are kept; or
            another `ShardingPlan`, for another mesh.
        mesh: A `Mesh`; or an `AbstractMesh` or a dict of axis names and sizes, for all that needs
            no devices; by default the mesh that `jax.set_mesh` has set, else that of `specs`.

    Raises:
        SpecError: What `ptk.partition_specs` raises: PTK301 to PTK304 if a spec does not fit its
            leaf or the mesh, PTK305 to PTK307 for rules, PTK201 to PTK204 for trees of specs.

    Attributes:
        specs: The tree of specs.
        shardings: The tree of `NamedSharding`s, for `jax.jit` and `jax.device_put`.
        leaves: A `ShardedLeaf` for each leaf, in flattening order.
        notes: A `SpecNote` for all that is right, and might still not be meant.
        mesh: The mesh; an abstract one, if it came as a dict.

    Examples:
        >>> import jax, jax.numpy as jnp, numpy as np
        >>> from jax.sharding import Mesh, PartitionSpec as P
        >>> import pytreekit as ptk
        >>> params = {"up": np.ones((8, 32), np.float32), "down": np.ones((32, 8), np.float32)}
        >>> mesh = Mesh(np.array(jax.devices()[:1]).reshape(1, 1), ("data", "model"))
        >>> plan = ptk.ShardingPlan(params, [("up", "_ model"), ("down", "model _")], mesh)
        >>> placed = plan.place(params)
        >>> placed["up"].sharding.spec, plan.verify(placed)
        (P(None, 'model'), ())
        >>> print(ptk.ShardingPlan(params, plan, {"data": 2, "model": 4}))
        2 leaves over data=2, model=4: 2.0 KiB, 512 bytes on each device, 0% whole on all
        +------+--------+-----------+------------+------------+---------------+
        | leaf | leaves | found     | split      | per device | why           |
        +------+--------+-----------+------------+------------+---------------+
        | down |      1 | f32[32,8] | 32/model 8 |  256 bytes | rules[1] down |
        | up   |      1 | f32[8,32] | 8 32/model |  256 bytes | rules[0] up   |
        +------+--------+-----------+------------+------------+---------------+
    """

    def __init__(self, params: Any, specs: Any = None, mesh: Any = None) -> None:
        specs = specs._spec_plan() if isinstance(specs, ShardingPlan) else specs  # noqa: SLF001
        self._its = planned(params, specs, mesh)

    @classmethod
    def _of(cls, its: Planned) -> ShardingPlan:
        plan = cls.__new__(cls)
        plan._its = its
        return plan
