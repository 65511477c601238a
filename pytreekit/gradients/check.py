"""What can be wrong with a call whose arguments are differentiated: PTK401, PTK402, PTK405."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import jax
import numpy as np

from ..batching.call import Call
from ..batching.check import check_call
from ..batching.forms import resolved
from ..batching.leaves import agreed_size, leaves
from ..compat import is_batched_sparse
from ..faults import Fault
from ..show import values
from ..specs import arguments
from ..specs.bind import Bound
from ..specs.called import InArgument, NewSpec
from ..specs.finding import Finding, Replace
from ..specs.rest import marked
from .floats import Floats
from .loss import Loss
from .where import check_where

More: TypeAlias = Callable[[Floats, list[str], Any], list[Fault]]
"""Further faults of a call: of its leaves, the names of what holds them, and the batch's size."""


def nothing_more(floats: Floats, names: list[str], size: Any) -> list[Fault]:
    """No further faults."""
    return []


def check_differentiated(loss: Loss, call: Call, more: More) -> list[Finding]:
    """All that is wrong with a call, but for what the loss returns."""
    places = loss.argnums.places(loss.fun, call.args, call.kwargs)
    missing = [
        Fault("PTK402", name or str(its), "", "argnums", "", repr(its), fact="is not passed")
        for its, name, place in zip(
            loss.argnums.which, loss.argnums.names(loss.fun), places, strict=True
        )
        if place is None
    ]
    if missing:
        return [*map(Finding, missing), *check_call(call)]
    positions = [_position(call, place) for place in places]
    repairs = _shared(call, positions)
    mapped = [finding for position in positions for finding in _mapped(call, position, repairs)]
    # Axes of what must have none say nothing: they are told as that one fault.
    call = call.repaired(repairs) if mapped else call
    axes, names = check_call(call), [call.passed[position].name for position in positions]
    return [*mapped, *axes, *map(Finding, _check_leaves(loss, call, names, more, unsized=axes))]


def _position(call: Call, place: Any) -> int:
    """Which binding of the call an argument has."""
    if isinstance(place, int):
        return place
    return len(call.args) + sorted(call.kwargs).index(place)


def _shared(call: Call, positions: list[int]) -> list[Any]:
    """What makes of a call one in which differentiated arguments are shared."""
    if all(map(call.governs, positions)):
        return [InArgument(position, Replace((), None)) for position in positions]
    # Only axes by name can share a keyword.
    its = list(zip(call.passed, call.specs(), strict=True))
    specs = {name: spec for (name, _, extra), (spec, _) in its if extra is None}
    shared = [call.passed[position].name for position in positions]
    axes: dict[Any, Any] = dict.fromkeys(shared)
    rest = {name: spec for name, spec in specs.items() if name not in shared}
    is_default = all(type(spec) is int and spec == 0 for spec in rest.values())
    axes.update({...: 0} if is_default else rest)
    return [NewSpec(marked(axes))]


def _mapped(call: Call, position: int, repairs: list[Any]) -> list[Finding]:
    """PTK401: entries of in_axes that map something of a differentiated argument."""
    binding, findings = call.bindings[position], []
    for path, value, subtree in binding.entries:
        below = jax.tree.leaves(subtree, is_leaf=is_batched_sparse)
        if all(resolved(value, leaf) is None for leaf in below):
            continue
        place, found = Bound(path, path, subtree, value), values.leaf_or_tree(subtree)
        fault = binding.fault("PTK401", place, found, values.spec(value))
        own = [its for its in repairs if getattr(its, "position", position) == position]
        findings.append(Finding(fault, tuple(own)))
    return findings


def _check_leaves(
    loss: Loss, call: Call, names: list[str], more: More, *, unsized: list[Finding]
) -> list[Fault]:
    try:
        floats = Floats(loss.trees(call.args, call.kwargs))
    except ValueError:  # keys that do not sort: told with the axes
        return []
    wrong = [*_check_mask(loss, call), *_check_floats(floats, names)]
    where = check_where(loss.where, floats.trees, names, single=loss.argnums.single)
    if where:
        return [*wrong, *where]
    if floats.indices and not loss.floats(call.args, call.kwargs).indices:
        fact = "leaves nothing to differentiate"
        wrong.append(Fault("PTK402", "", "", "where", "", values.spec(loss.where), fact=fact))
    mapped = [] if unsized else [its for its in leaves(call) if its.axis is not None]
    return [*wrong, *more(floats, names, agreed_size(call, mapped))]


def _check_floats(floats: Floats, names: list[str]) -> list[Fault]:
    """PTK402: each argument must have a leaf that can be differentiated."""
    faults = []
    for tree, name in zip(floats.trees, names, strict=True):
        if Floats((tree,)).indices:
            continue
        kinds = list(dict.fromkeys(map(_kind, jax.tree.leaves(tree))))
        note = f"its leaves are {values.listing(kinds)}" if kinds else "it has no leaves"
        found = values.leaf_or_tree(tree)
        faults.append(Fault("PTK402", name, "", "", found, "", note=note))
    return faults


def _kind(leaf: Any) -> str:
    aval = values.typeof(leaf)
    return type(leaf).__name__ if aval is None else values.short_dtype(str(aval.dtype))


def _check_mask(loss: Loss, call: Call) -> list[Fault]:
    """PTK405: the mask of a call."""
    if loss.mask is None:
        return []
    if loss.mask not in call.kwargs:
        fact = "the call does not pass the mask"
        return [Fault("PTK405", loss.mask, "", "mask", "", repr(loss.mask), fact=fact)]
    mask = call.kwargs[loss.mask]
    aval = values.typeof(mask)
    if aval is not None and aval.dtype == np.bool_ and len(aval.shape) == 1:
        return []
    fact = "a mask must be bool[batch], True for a real example"
    found = values.leaf_or_tree(mask)
    return [Fault("PTK405", loss.mask, "", "mask", found, repr(loss.mask), fact=fact)]


def check_mask_name(loss: Loss) -> list[Fault]:
    """PTK405: what is written as mask, before any call."""
    name = loss.mask
    if name is None:
        return []
    if not isinstance(name, str) or not name.isidentifier():
        fact = "must be the name of a keyword, under which a call passes the mask"
    elif name in [its.name for its in arguments.parameters(loss.fun)]:
        fact = "is a parameter of the loss, which does not see the mask"
    else:
        return []
    return [Fault("PTK405", "", "", "mask", "", values.spec(name), fact=fact)]
