"""Hypothesis profiles: the same examples on every run, unless asked otherwise.

`HYPOTHESIS_PROFILE=search pytest tests/...` draws new ones each time and remembers failures.
"""

from __future__ import annotations

import os

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
