"""Ghost clipping against gradients side by side: drawn programs, and models of real kinds.

PYTREEKIT_EXAMPLES scales how many are drawn.
"""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from .ghost_errors import errors
from .ghost_models import MODELS
from .ghost_programs import blocks, problem
from .quick import jit

EXAMPLES = int(os.environ.get("PYTREEKIT_EXAMPLES", "1200"))


def check(problems):
    """All of them in one program, as compiling is what takes time."""
    losses = [loss for loss, _, _ in problems]

    @jit
    def outcomes(given):
        return [errors(loss, *its) for loss, its in zip(losses, given, strict=True)]

    for its in outcomes([its[1:] for its in problems]):
        for method, error in its.items():
            assert float(error) <= 1e-5, method


@settings(max_examples=max(2, EXAMPLES // 600), suppress_health_check=list(HealthCheck))
@given(st.lists(blocks(), min_size=3, max_size=3))
def test_drawn_programs(drawn):
    check([problem(its) for its in drawn])


@pytest.mark.parametrize("make", MODELS)
def test_models(make):
    check([make()])
