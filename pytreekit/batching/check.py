"""All checks of one call, in the order of telling: entries, structures, axes and sizes."""

from __future__ import annotations

from ..specs.arity import check_arity
from ..specs.called import InArgument
from ..specs.finding import Finding
from ..specs.names import check_names
from .axes import check_axes
from .call import Call
from .typed import check_types


def check_call(call: Call) -> list[Finding]:
    """What is wrong with a call: every fault of every argument, in the order of the arguments."""
    found = [*check_arity(call), *check_names(call)]
    for position, binding in enumerate(call.bindings):
        for fault, repairs in binding.findings:
            found.append(Finding(fault, tuple(InArgument(position, r) for r in repairs)))
    order = {binding.name: position for position, binding in enumerate(call.bindings)}
    of_the_call = ("PTK102", "PTK103", "PTK109")
    return sorted(
        [*found, *check_axes(call), *check_types(call)],
        key=lambda finding: (
            finding.fault.code in of_the_call,
            order.get(finding.fault.argument, -1),
        ),
    )
