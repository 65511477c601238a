"""`pytreekit shard`: the spec that rules give each leaf of a shape manifest, checked."""

from __future__ import annotations

import re
import sys
from typing import Any

from ..sharding.specs import partition_plan
from ..show.errors import SpecError
from ..specs.rules import Rules
from . import shard_tables
from .manifest import BadInput, bundled, read_manifest

DONE, FAULTS, BAD_INPUT = 0, 1, 2


def run(
    *, file: str | None, rules: str | None, every_leaf: bool, strict: bool, **options: Any
) -> int:
    """Print the specs of a manifest and the audit of the rules, and what is wrong.

    Args:
        file: The manifest, None for that of GPT-2, `"-"` for the standard input.
        rules: A file of rules, None for those of GPT-2.
        every_leaf: Whether each leaf has a row, instead of one for all that are alike.
        strict: Whether rules that take nothing, and leaves with the default, are faults.
        options: Those of `ptk.partition_plan`.

    Returns:
        The exit code: 0 for done, 1 for faults, 2 where there is nothing to check.
    """
    try:
        tree, read = read_manifest(file), _rules(rules)
    except BadInput as error:
        _say(f"pytreekit shard: {error}", error=True)
        return BAD_INPUT
    try:
        audit = read.audit(tree)
        try:
            plan = partition_plan(tree, read, **options)
            _say(shard_tables.planned(plan, tree, read.assign(tree).numbers, joined=not every_leaf))
        finally:
            _say(shard_tables.audited(audit))
        if strict:
            audit.raise_if(unused=True, shadowed=True, defaulted=True)
    except SpecError as error:
        _say(error, error=True)
        return FAULTS
    return DONE


def _rules(file: str | None) -> Rules:
    path = bundled(".toml") if file is None else file
    try:
        return Rules.load(path)
    except OSError as error:
        raise BadInput(f"cannot read {file!r}: {error.strerror or error}") from None
    except SpecError as error:
        raise BadInput(f"no rules can be read from {file!r}\n{error}") from None
    except ValueError as error:  # such as a zero byte in its name
        raise BadInput(f"cannot read {file!r}: {error}") from None


def _say(text: Any, *, error: bool = False) -> None:
    """Print a text; what a terminal could take for more than text is escaped, as keys are any."""
    plain = re.sub(r"[^\n -~]", lambda found: ascii(found[0])[1:-1], str(text))
    if error:
        sys.stdout.flush()  # so that the two streams come in order where both are shown
    print(plain, file=sys.stderr if error else sys.stdout)
