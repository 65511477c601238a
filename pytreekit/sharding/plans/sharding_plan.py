"""`ptk.ShardingPlan`: how a tree lies on a mesh, and all that can be done with that."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...faults import Fault
from ...trees.difference import TreeDiff
from ..plan import SpecPlan
from ..states.optimizer_specs import specs_of_state
from . import as_json, comparing, constrain, initial, place, verify
from .planned import Planned, planned
from .view import PlanView


class ShardingPlan(PlanView):
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
        2 leaves over data=2, model=4
        2.0 KiB, 512 bytes per device, 0% whole on all
        +------+---+-----------------+------------+----------+
        | leaf | n | split           | per device | why      |
        +------+---+-----------------+------------+----------+
        | down | 1 | f32[32/model,8] |  256 bytes | specs[1] |
        | up   | 1 | f32[8,32/model] |  256 bytes | specs[0] |
        +------+---+-----------------+------------+----------+
    """

    def __init__(self, params: Any, specs: Any = None, mesh: Any = None) -> None:
        specs = specs._spec_plan() if isinstance(specs, ShardingPlan) else specs  # noqa: SLF001
        self._its = planned(params, specs, mesh)

    @classmethod
    def _of(cls, its: Planned) -> ShardingPlan:
        plan = cls.__new__(cls)
        plan._its = its  # noqa: SLF001  its own
        return plan

    def place(self, tree: Any, *, cast: bool = False, progress: bool | None = None) -> Any:
        """The values of a tree, each piece on the devices that are to have it.

        Values on the host are read piece by piece, and no device has anything whole that it is not
        to have whole; at no time is there a second copy of more than one piece. What is no array
        is handed on.

        Args:
            tree: A tree like the one that the plan is of: of arrays of NumPy or JAX, or of what has
                a shape, a dtype and is read by indexing, such as variables of HDF5, memory maps, or
                what `get_slice` of safetensors returns. Or a function `(path, leaf) -> values` that
                is called for one array after the other, with its path as text and a
                `jax.ShapeDtypeStruct`.
            cast: Whether values of other dtypes are cast, on the host.
            progress: Whether to show a progress bar; None does on a terminal, if it takes longer
                than a second.

        Returns:
            The tree, of `jax.Array`s.

        Raises:
            SpecError: PTK205, if the tree is another, or has other shapes or dtypes; PTK001, if the
                plan has no devices.

        Examples:
            >>> import jax, numpy as np
            >>> import pytreekit as ptk
            >>> mesh = jax.sharding.Mesh(jax.devices()[:1], ("model",))
            >>> plan = ptk.ShardingPlan({"w": np.ones((8, 4), "f")}, [("w", "model")], mesh)
            >>> plan.place({"w": np.zeros((8, 4), "f")})["w"].sharding.spec
            P('model',)
            >>> plan.place(lambda path, leaf: np.full(leaf.shape, 2.0, "f"))["w"][0]
            Array([2., 2., 2., 2.], dtype=float32)
        """
        return place.place(self._its, tree, cast=cast, show_progress=progress)

    def init(self, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """What a function returns, made where it is to be: each device computes its own pieces.

        Args:
            fn: A function that returns a tree like the one that the plan is of, traced by JAX.
            args: Its arguments, as `jax.jit` takes them.
            kwargs: Its keywords.

        Returns:
            What `fn` returns, laid out by the plan.

        Raises:
            SpecError: PTK205, if `fn` returns another tree, as soon as it returns; PTK001, if the
                plan has no devices.

        Examples:
            >>> import jax
            >>> import pytreekit as ptk
            >>> mesh = jax.sharding.Mesh(jax.devices()[:1], ("model",))
            >>> init = lambda key: {"w": jax.random.normal(key, (8, 4))}
            >>> shapes = jax.eval_shape(init, jax.random.key(0))
            >>> plan = ptk.ShardingPlan(shapes, [("w", "model")], mesh)
            >>> plan.init(init, jax.random.key(0))["w"].sharding.spec
            P('model',)
        """
        return initial.init(self._its, fn, args, kwargs)

    def for_state(self, state: Any, *, init: Any = None, rules: Any = None) -> ShardingPlan:
        """The plan of an optimizer's state, from that of the parameters: `ptk.optimizer_specs`.

        Args:
            state: The state, or a whole training state: arrays, or shapes, as
                `jax.eval_shape(tx.init, params)` gives them.
            init: The optimizer, or its `init`, as for `ptk.optimizer_specs`.
            rules: Rules that win over all, as for `ptk.optimizer_specs`.

        Returns:
            A plan on the same mesh. With `its` for it, that of ZeRO-1 is
            `ptk.ShardingPlan(state, ptk.fsdp_plan(state, its.specs, axis="data"), mesh)`.

        Raises:
            SpecError: What `ptk.optimizer_specs` raises: PTK308 and PTK309, if the spec of a leaf
                does not follow from the parameters.

        Examples:
            >>> import jax, jax.numpy as jnp, optax
            >>> import pytreekit as ptk
            >>> params = {"w": jnp.ones((8, 4))}
            >>> plan = ptk.ShardingPlan(params, [("w", "model")], {"model": 4})
            >>> tx = optax.adam(1e-3)
            >>> plan.for_state(jax.eval_shape(tx.init, params)).specs[0].mu
            {'w': P('model',)}
        """
        its = self._its
        given = its.tree(its.parts), its.tree(its.specs)
        told = {"init": init, "rules": rules, "mesh": self.mesh}
        found = specs_of_state(state, *given, doing="plan.for_state", **told)
        return ShardingPlan(state, found.plan(), self.mesh)

    def constrain(self, tree: Any) -> Any:
        """The tree, laid out by the plan, within a function that JAX compiles.

        It takes `jax.lax.with_sharding_constraint` for Auto axes of the mesh, for Explicit ones
        `jax.sharding.reshard`, and both where there are both. A plan without devices goes by
        the mesh that `jax.set_mesh` has set. Dtypes may differ from those of the
        plan, shapes may not: where a dimension does not divide, some versions of JAX make the array
        whole, without a word.

        Args:
            tree: A tree like the one that the plan is of.

        Returns:
            The tree.

        Raises:
            SpecError: PTK205, if the tree is another, or has other shapes; PTK312, if an Auto axis
                stands before an Explicit one in one dimension; PTK001, if there are no devices.

        Examples:
            >>> import jax, jax.numpy as jnp
            >>> import pytreekit as ptk
            >>> mesh = jax.sharding.Mesh(jax.devices()[:1], ("model",))
            >>> plan = ptk.ShardingPlan({"w": jnp.ones((8, 4))}, [("w", "model")], mesh)
            >>> double = jax.jit(lambda tree: plan.constrain(jax.tree.map(lambda x: 2 * x, tree)))
            >>> plan.verify(double({"w": jnp.ones((8, 4))}))
            ()
        """
        return constrain.constrain(self._its, tree)

    def verify(self, what: Any) -> tuple[Fault, ...]:
        """Every way in which something is not as the plan says, by what JAX holds for equivalent.

        Args:
            what: A tree of arrays; or a tree of shardings, such as `compiled.output_shardings`; or
                a compiled function, `jax.jit(f).lower(...).compile()`, whose argument with the
                plan's structure and shapes is looked at, of several the least deep, then the first.
                What it makes no use of has no sharding.

        Returns:
            PTK310 for each leaf that is laid out otherwise; PTK205 where the tree is another, or
            has other shapes or dtypes. None where all is well.

        Examples:
            >>> import jax, jax.numpy as jnp
            >>> import pytreekit as ptk
            >>> plan = ptk.ShardingPlan({"w": jnp.ones((8, 4))}, [("w", "model")], {"model": 4})
            >>> for fault in plan.verify({"w": jnp.ones((8, 4))}):
            ...     print(fault.code, fault.place, fault.title, fault.wanted, fault.note, sep="; ")
            PTK310; arrays['w']; is laid out otherwise; P('model',); it has a SingleDeviceSharding
        """
        return verify.verify(self._its, what)

    def diff(self, other: ShardingPlan | str, *, names: tuple[str, str] = ("a", "b")) -> TreeDiff:
        """Everything in which two plans differ, by path: leaves, specs and meshes.

        Args:
            other: Another plan, or the JSON of one.
            names: What the text calls the two.

        Returns:
            The differences, as those of `ptk.diff`; `kind` is also `"spec"` or `"mesh"`.

        Examples:
            >>> import jax.numpy as jnp
            >>> import pytreekit as ptk
            >>> params = {"w": jnp.ones((8, 4)), "b": jnp.ones(4)}
            >>> a, b = (ptk.ShardingPlan(params, [("w", text), ("b", "_")], {"model": 4})
            ...         for text in ("model _", "_ model"))
            >>> print(a.diff(b))
            1 difference between a and b
            <BLANKLINE>
              spec    ['w']   a has P('model',); b has P(None, 'model')
        """
        is_plan = isinstance(other, ShardingPlan)
        its = other._its if is_plan else as_json.listed(other)  # noqa: SLF001
        return comparing.diff(self._its, its, names)

    def to_json(self) -> str:
        """The plan as JSON, a leaf in each line, for `ShardingPlan.from_json`."""
        return as_json.written(self._its)

    @classmethod
    def from_json(cls, text: str, tree: Any = None, mesh: Any = None) -> ShardingPlan:
        """The plan that `to_json` wrote. Nothing in it is run.

        Args:
            text: What `to_json` returned.
            tree: The tree that it is of, arrays or shapes; needed where it has nodes that are no
                dict, list or tuple, or leaves that are no arrays.
            mesh: The mesh; by default one with the axes that are in the file, without devices.

        Raises:
            SpecError: PTK001, if it is no plan, or needs a tree; PTK205, if the tree is another;
                PTK301 to PTK304, if the specs do not fit the mesh.

        Examples:
            >>> import jax.numpy as jnp
            >>> import pytreekit as ptk
            >>> plan = ptk.ShardingPlan({"w": jnp.ones((8, 4))}, [("w", "model")], {"model": 4})
            >>> ptk.ShardingPlan.from_json(plan.to_json()) == plan
            True
        """
        return cls._of(as_json.read(text, tree, mesh))

    def _spec_plan(self) -> SpecPlan:
        its = self._its
        return SpecPlan(self.specs, its.places, its.notes, its.axes.sizes)

    def __eq__(self, other: object) -> bool:
        """Whether both say the same of the same tree, on meshes of the same axes."""
        if not isinstance(other, ShardingPlan):
            return NotImplemented
        return comparing.same(self._its, other._its)

    def __hash__(self) -> int:
        return hash((self._its.specs, comparing.axes_told(self._its)))
