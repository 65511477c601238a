"""Assertions for your own tests, in the manner of chex: `import pytreekit.testing`.

Each raises an `AssertionError` that names the place. The specs and arguments that it is given are
checked as everywhere: what does not fit raises `ptk.SpecError`.
"""

from __future__ import annotations

from .golden_plans import assert_plan_matches as assert_plan_matches
from .loop import assert_matches_loop as assert_matches_loop
from .plans import assert_plan as assert_plan
from .traces import SingleTrace as SingleTrace
from .traces import assert_single_trace as assert_single_trace
from .trees import assert_trees_match as assert_trees_match

__all__ = [
    "SingleTrace",
    "assert_matches_loop",
    "assert_plan",
    "assert_plan_matches",
    "assert_single_trace",
    "assert_trees_match",
]
