"""One call of a pmapped function: the checks of vmap, and those of devices."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any, ClassVar

import jax
from jax.sharding import AxisType

from ..batching.call import Call
from ..batching.check import check_call
from ..batching.leaves import Leaf, agreed_size, leaves
from ..faults import Fault
from ..show import values
from ..specs import by_name
from ..specs.by_name import Named
from ..specs.called import Advice
from ..specs.finding import Finding
from ..trees.paths import IsLeaf


@dataclasses.dataclass(frozen=True)
class Static:
    """A static argument on its way past JAX: one leaf, whatever it is."""

    value: Any

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Static) or type(self.value) is not type(other.value):
            return False
        return bool(self.value == other.value)

    def __hash__(self) -> int:
        return hash(self.value)


@dataclasses.dataclass(frozen=True)
class PmapCall(Call):
    """Arguments, and the axes that they are to be mapped over, each example on a device.

    Attributes:
        devices: How many devices there are.
    """

    is_leaf: ClassVar[IsLeaf] = None

    devices: int = 1

    @property
    def static(self) -> list[int]:
        """The places of the static arguments."""
        return [index for index, its in enumerate(self.args) if isinstance(its, Static)]

    def specs(self) -> list[tuple[Any, str]]:
        """The spec of each argument, and where it stands; static ones are shared."""
        rows = super().specs()
        for index in self.static:
            rows[index] = (None, rows[index][1])
        return rows

    @functools.cached_property
    def entries(self) -> tuple[Named, ...]:
        """The entry of each argument in in_axes, which are by name; static ones need none."""
        found = [by_name.entry(self.spec, its, self.spec_name) for its in self.passed]
        for index in self.static:
            found[index] = Named(None, found[index].place)
        return tuple(found)


def check_pmap_call(call: PmapCall) -> list[Finding]:
    """What is wrong with a call: what vmap would refuse, and what the devices cannot do."""
    found = [its for its in check_call(call) if not _is_of_vmap(its.fault)]
    mapped = [leaf for leaf in leaves(call) if leaf.axis is not None]
    sized = [leaf for leaf in mapped if not leaf.is_split or call.axis_size is not None]
    if not sized and not call.mismatched:
        fact, note = "nothing is mapped", "an argument gives the number of examples"
        place = "PTK103", "", "", "in_axes", "", values.spec(call.in_axes)
        found.append(Finding(Fault(*place, fact=fact, note=note)))
    found += _check_static(call)
    return [*found, *_check_devices(call, mapped), *check_around()]


def _is_of_vmap(fault: Fault) -> bool:
    """Whether only vmap has this fault: pmap undoes layouts, and always needs a mapped argument."""
    return fault.code == "PTK109" or (fault.code == "PTK103" and fault.spec_path == "in_axes")


def _check_static(call: PmapCall) -> list[Finding]:
    """PTK507: a static argument is told from others by its hash."""
    found = []
    for index in call.static:
        value = call.args[index].value
        try:
            hash(value)
        except Exception:  # noqa: BLE001  a user's __hash__ may raise anything
            fact = f"a static argument must be hashable, {values.kind(value)} is not"
            where = "static_broadcasted_argnums"
            place = call.passed[index].name, "", where, values.leaf_or_tree(value), str(index)
            found.append(Finding(Fault("PTK507", *place, fact=fact)))
    return found


def _check_devices(call: PmapCall, mapped: Sequence[Leaf]) -> list[Finding]:
    """PTK506: each example needs a device of its own."""
    good = [leaf for leaf in mapped if leaf.has_axis]
    size, count = agreed_size(call, good), call.devices
    if not isinstance(size, int) or 0 < size <= count:
        return []
    fact = f"maps {size} examples over {values.count(count, 'device')}"
    if not size:
        return [Finding(leaf.fault("PTK506", fact="has no examples")) for leaf in good]
    odd = [leaf for leaf in good if not leaf.is_split and leaf.size != size]
    if size % count or odd:
        note = f"{leaf_note(size, count)}"
        return [Finding(leaf.fault("PTK506", fact=fact, note=note)) for leaf in good]
    advice = _reshaped(good, count, size // count)
    return [Finding(leaf.fault("PTK506", fact=fact), (advice,)) for leaf in good]


def leaf_note(size: int, count: int) -> str:
    """What can be done with examples that do not divide by the devices."""
    above = (size // count + 1) * count
    return f"pad them to {above}, and map {above // count} on each device by ptk.vmap"


def _reshaped(mapped: Sequence[Leaf], count: int, each: int) -> Advice:
    """A batch for each device, mapped by vmap there."""

    def reshaped(call: Any) -> Any:
        for leaf in mapped:
            if not leaf.is_split:
                aval = values.typeof(leaf.bound.leaf)
                axis = leaf.axis % len(aval.shape)
                shape = (*aval.shape[:axis], count, each, *aval.shape[axis + 1 :])
                new = jax.ShapeDtypeStruct(shape, aval.dtype)
                call = call.with_argument(leaf.position, leaf.bound.path, new)
        return dataclasses.replace(call, axis_size=None if call.axis_size is None else count)

    how = f"reshape {count * each} to ({count}, {each}), and map the {each} by ptk.vmap inside"
    return Advice(how, reshaped)


def check_around() -> list[Finding]:
    """PTK501: inside shard_map or pmap the devices are taken."""
    if not is_inside():
        return []
    fact = "inside of shard_map or pmap there are no devices to map over"
    fault = Fault("PTK501", "", "", "", "", "", fact=fact, note="map by ptk.vmap there")
    return [Finding(fault)]


def is_inside() -> bool:
    """Whether a function is being traced for one shard."""
    around = jax.sharding.get_abstract_mesh()
    return not around.empty and AxisType.Manual in around.axis_types


def with_statics(fun: Any) -> Any:
    """A function that takes `Static` for what is in it."""

    @functools.wraps(fun)
    def plain(*args: Any, **kwargs: Any) -> Any:
        its = (arg.value if isinstance(arg, Static) else arg for arg in args)
        return fun(*its, **kwargs)

    return plain
