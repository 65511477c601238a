"""Hypothesis profiles: the same examples on every run, unless asked otherwise.

`HYPOTHESIS_PROFILE=search pytest tests/...` draws new ones each time and remembers failures.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import jax
import pytest
from hypothesis import HealthCheck, settings

# A first example pays for JAX's start and compilation: its time says nothing about the test.
SLOW_START = [HealthCheck.too_slow]

settings.register_profile(
    "ci", derandomize=True, deadline=None, print_blob=True, suppress_health_check=SLOW_START
)
settings.register_profile(
    "search", derandomize=False, deadline=None, print_blob=True, suppress_health_check=SLOW_START
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


ODD_SIZE = ("float", "PTK905", "odd_size")


@pytest.fixture(autouse=True)
def _forget_odd_sizes(request: pytest.FixtureRequest) -> Iterator[None]:
    """JAX takes 3.0 for 3 when it looks up what it compiled, and then fails where it is used."""
    yield
    if any(word in request.node.name for word in ODD_SIZE):
        jax.clear_caches()
