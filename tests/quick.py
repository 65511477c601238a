"""`jax.jit` for tests, which run what they compile once: it compiles in half the time."""

from __future__ import annotations

import functools

import jax

jit = functools.partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})
