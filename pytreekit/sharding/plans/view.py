"""What there is to see of a sharding plan, with no device: its parts, tables, memory, reasons."""

from __future__ import annotations

from typing import Any

import jax
from jax.sharding import AbstractMesh, Mesh

from ...faults import Fault
from ...show import values as shown
from ...show.errors import raise_faults
from ..plan import SpecNote
from . import explain, memory, tables
from .memory import PlanMemory
from .planned import Planned, ShardedLeaf


class PlanView:
    """What a `ShardingPlan` shows of itself."""

    _its: Planned

    @property
    def specs(self) -> Any:
        """The tree of specs."""
        return self._its.tree(self._its.specs)

    @property
    def shardings(self) -> Any:
        """The tree of `NamedSharding`s."""
        return self._its.tree(self._its.shardings)

    @property
    def leaves(self) -> tuple[ShardedLeaf, ...]:
        """A `ShardedLeaf` for each leaf."""
        return self._its.leaves

    @property
    def notes(self) -> tuple[SpecNote, ...]:
        """What is right, and might still not be meant."""
        return self._its.notes

    @property
    def mesh(self) -> Mesh | AbstractMesh:
        """The mesh."""
        return self._its.axes.mesh

    def abstract(self) -> Any:
        """The tree of `jax.ShapeDtypeStruct`s with their shardings; what is no array, as it is.

        It is what `jax.jit(...).lower` and the restore functions of orbax take.

        Examples:
            >>> import jax.numpy as jnp
            >>> import pytreekit as ptk
            >>> plan = ptk.ShardingPlan({"w": jnp.ones((8, 4))}, [("w", "model")], {"model": 4})
            >>> plan.abstract()["w"].sharding.spec
            P('model',)
        """
        pairs = zip(self._its.parts, self._its.shardings, strict=True)
        return self._its.tree([_with_sharding(part, sharding) for part, sharding in pairs])

    def check(self, *, max_replicated: float | int = 0.02) -> tuple[Fault, ...]:
        """The arrays that every device has whole, if these take too large a share of the bytes.

        Args:
            max_replicated: The share of the bytes that may be whole, from 0 to 1. Of the arrays
                that are, the largest are told, until the others together stay below it.

        Returns:
            PTK311 for each, with the axes of the mesh that would divide it.

        Raises:
            SpecError: PTK001, if `max_replicated` is no number from 0 to 1.

        Examples:
            >>> import jax.numpy as jnp
            >>> import pytreekit as ptk
            >>> plan = ptk.ShardingPlan({"w": jnp.ones((8, 4))}, [("w", "_")], {"model": 4})
            >>> for fault in plan.check():
            ...     print(fault.place, fault.title, fault.note, sep="; ")
            plan['w']; is whole on each of 4 devices: 128 bytes, 100.0% of all;
            model=4 divides dimension 0 or 1
        """
        is_share = isinstance(max_replicated, float | int) and 0 <= max_replicated <= 1
        if not is_share or isinstance(max_replicated, bool):
            fact = f"must be a number from 0 to 1, this is {shown.spec(max_replicated, 24)}"
            fault = Fault("PTK001", "max_replicated", "", "", "", "", fact=fact)
            raise_faults([fault], doing="plan.check")
        return memory.check(self._its, float(max_replicated))

    def memory(self) -> PlanMemory:
        """What the arrays take of memory: in all, on each device, whole on each, the largest.

        Returns:
            A `PlanMemory`: data, and a table for `print`.

        Examples:
            >>> import jax.numpy as jnp
            >>> import pytreekit as ptk
            >>> params = {"w": jnp.ones((8, 4)), "b": jnp.ones(4)}
            >>> plan = ptk.ShardingPlan(params, [("w", "model"), ("b", "_")], {"model": 4})
            >>> found = plan.memory()
            >>> found.total, found.per_device, round(found.replicated, 3)
            (144, 48, 0.111)
        """
        return memory.memory(self._its)

    def table(self) -> str:
        """The plan as plain tables, 88 columns wide at most; alike leaves in one row."""
        return tables.plain(self._its)

    def treemap(self) -> str:
        """The whole tree as a map, an SVG file: area by bytes, colour by the axes that split it.

        It loads nothing, and follows light and dark. In a notebook a plan shows it by itself.

        Examples:
            >>> import jax.numpy as jnp
            >>> import pytreekit as ptk
            >>> plan = ptk.ShardingPlan({"w": jnp.ones((8, 4))}, [("w", "model")], {"model": 4})
            >>> plan.treemap()[:34]
            '<svg xmlns="http://www.w3.org/2000'
        """
        return tables.picture_of(self._its, alone=True)

    def explain(self, path: str) -> str:
        """Why leaves have their specs: what says so, what each dimension gets, what was noted.

        Args:
            path: The path of a leaf, with `/` between its keys or as JAX prints it; or a glob, as
                in `ptk.Rules`.

        Raises:
            SpecError: PTK001, if there is no such leaf.

        Examples:
            >>> import jax.numpy as jnp
            >>> import pytreekit as ptk
            >>> params = {"up": {"kernel": jnp.ones((64, 250))}}
            >>> specs = ptk.partition_plan(params, [("kernel", "_ model|data")],
            ...                            mesh={"data": 2, "model": 4})
            >>> print(ptk.ShardingPlan(params, specs).explain("up/kernel"))
            up/kernel   f32[64,250]   P(None, 'data')
                by rules[0] = ('kernel', '_ model|data')
                dimension 0 of 64: whole
                dimension 1 of 250: over data=2, 125 each
                fallback: dimension 1 gets data: dimension 1 of 250 does not divide by 4
                62.5 KiB in all, 31.2 KiB on each device, the same along model=4
        """
        return explain.explain(self._its, path)

    def __repr__(self) -> str:
        return f"<ShardingPlan of {tables.title(self._its)}>".replace("\n", ": ")

    def __str__(self) -> str:
        return self.table()

    def __rich__(self) -> Any:
        return tables.rich(self._its)

    def _repr_html_(self) -> str:
        return tables.html(self._its)


def _with_sharding(part: Any, sharding: Any) -> Any:
    if not isinstance(part, jax.ShapeDtypeStruct):
        return part
    return jax.ShapeDtypeStruct(part.shape, part.dtype, sharding=sharding)
