"""The spec of each leaf of a state, and the reason: its parameter, and how its shape is read."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from jax.sharding import PartitionSpec
from jax.tree_util import keystr

from ...show import values as shown
from ...trees import paths
from ...trees.boxes import Ends
from ...trees.paths import KeyPath
from ..options import Options
from ..plan import PlannedSpec, SpecNote, SpecPlan
from ..resolve import whole
from ..shapes import shape_of
from .overlay import Bond
from .shape_reading import ITS, Reading, Shape

WHOLE = PartitionSpec()


class Given(NamedTuple):
    """The spec of a leaf and the reason for it.

    Attributes:
        spec: The spec.
        how: The reason, which may speak of `its parameter`.
        notes: What is to be noted of it: the kind, and a sentence.
    """

    spec: PartitionSpec
    how: str
    notes: tuple[tuple[str, str], ...] = ()


class Open(NamedTuple):
    """A leaf that is not explained: its shape can be read in several ways, or in none.

    Attributes:
        leaf: The index of the leaf.
        bond: The parameter that it is of, None for none.
        candidates: The specs that it might have, each with how its shape is then read.
    """

    leaf: int
    bond: Bond | None
    candidates: dict[PartitionSpec, Reading]

    @property
    def param(self) -> int:
        """The index of that parameter."""
        return -1 if self.bond is None else self.bond.param


@dataclasses.dataclass
class Params:
    """The parameters and their specs, in flattening order.

    Attributes:
        tree: The tree.
        structure: Its structure.
        leaves: The parameters.
        specs: The spec of each.
        keys: The key path of each.
    """

    tree: Any
    structure: Any
    leaves: Sequence[Any]
    specs: Sequence[PartitionSpec]
    keys: Callable[[int], KeyPath]

    @functools.cached_property
    def shapes(self) -> list[Shape]:
        """The shape of each."""
        return [shape_of(leaf) for leaf in self.leaves]

    def place(self, index: int) -> str:
        """One as messages have it: `params['w']`."""
        return "params" + paths.text(self.keys(index))


@dataclasses.dataclass
class StateSpecs:
    """The spec of each leaf of a state, in flattening order.

    Attributes:
        params: The parameters.
        ends: The leaves of the state, with their paths.
        bonds: The parameter that each is of, None for what is of none.
        given: The spec of each; what is not explained is whole.
        open: The leaves that are not explained.
        options: What the specs are made with.
    """

    params: Params
    ends: Ends
    bonds: list[Bond | None]
    given: list[Given]
    open: list[Open]
    options: Options

    @property
    def tree(self) -> Any:
        """The tree of specs."""
        return self.ends.structure.unflatten([its.spec for its in self.given])

    def path(self, index: int) -> str:
        """The path of a leaf as text."""
        return paths.text(self.ends.paths[index])

    def reason(self, index: int) -> str:
        """Why a leaf has its spec: `params['w'] without dimension 1`."""
        return self.given[index].how.replace(ITS, self.parameter(index) or ITS)

    def parameter(self, index: int) -> str:
        """The parameter that a leaf is of, `""` if it is of none."""
        bond = self.bonds[index]
        return "" if bond is None else self.params.place(bond.param)

    def plan(self) -> SpecPlan:
        """The specs as those of parameters are shown, what is alike in one row."""
        leaves: list[PlannedSpec] = []
        notes: list[SpecNote] = []
        for index, (leaf, its) in enumerate(zip(self.ends.leaves, self.given, strict=True)):
            path = self.ends.paths[index]
            place = paths.text(path), keystr(path, simple=True, separator="/")
            said = self.parameter(index) if ITS in its.how else ""
            leaves.append(PlannedSpec(*place, shown.leaf(leaf), its.spec, its.how, said))
            large = whole(its.spec, shape_of(leaf), self.options)
            notes += (SpecNote(kind, *place, text) for kind, text in (*its.notes, *large))
        return SpecPlan(self.tree, tuple(leaves), tuple(notes), self.options.mesh.sizes)
