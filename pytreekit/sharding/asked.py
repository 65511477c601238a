"""Who says what each leaf is to be: rules, a spec tree, or the metadata of flax."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from ..faults import Fault
from ..show import values as shown
from ..show.errors import raise_faults
from ..specs.rule_values import OptionalRule
from ..specs.rules import Rules
from .plan import SpecPlan
from .rule_source import from_rules
from .sources import Source
from .tree_source import from_metadata, from_specs, with_metadata


def source_of(
    tree: Any, rules: Any, metadata: Sequence[Any] | None, doing: str, spec_name: str
) -> Source:
    """What rules, a spec tree or metadata say.

    Args:
        tree: The tree.
        rules: Rules or pairs of them, a spec tree, or None for metadata alone.
        metadata: The spec in the metadata of each leaf, None where there are none.
        doing: What is being done.
        spec_name: What messages call the rules.

    Raises:
        SpecError: PTK001, if there are neither; what `ptk.Rules` raises.
    """
    if rules is None:
        if metadata is None:
            fact = f"{spec_name} are missing, and no leaf has metadata of flax"
            note = "as [('kernel', '... model'), ...], or a tree of PartitionSpecs"
            fault = Fault("PTK001", "", "", spec_name, "", "", fact=fact, note=note)
            raise_faults([fault], doing=doing)
        return from_metadata(tree, metadata or [])
    if isinstance(rules, str | bytes):
        fact = f"{spec_name} must be a list of pairs or a spec tree, this is {shown.kind(rules)}"
        note = f"[('**', {shown.spec(rules, 24)})] is a rule for all leaves"
        fault = Fault("PTK001", "", "", spec_name, "", shown.spec(rules), fact=fact, note=note)
        raise_faults([fault], doing=doing)
    rules = rules.specs if isinstance(rules, SpecPlan) else rules
    if isinstance(rules, Rules | Iterator) or are_pairs(rules):
        found = from_rules(tree, rules if isinstance(rules, Rules) else Rules(rules), spec_name)
    else:
        found = from_specs(tree, rules, doing, spec_name)
    return found if metadata is None else with_metadata(found, metadata)


def are_pairs(rules: Any) -> bool:
    """Whether this is a list of rules. A spec tree has no pairs of text and something in it."""
    return isinstance(rules, list | tuple) and all(
        isinstance(row, OptionalRule)
        or (
            isinstance(row, tuple | list)
            and len(row) == len(("pattern", "value"))
            and isinstance(row[0], str | re.Pattern)
        )
        for row in rules
    )
