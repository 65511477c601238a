"""The only module that asks what the installed JAX has loaded or can do."""

from __future__ import annotations

import sys
from typing import Any


def is_batched_sparse(value: Any) -> bool:
    """Whether `value` is a sparse matrix that `jax.vmap` maps as a whole, though it is a pytree."""
    sparse = sys.modules.get("jax.experimental.sparse")
    return sparse is not None and isinstance(value, sparse.BCOO | sparse.BCSR)


def parts_must_match() -> bool:
    """Whether `jax.shard_map` over some axes of an Explicit mesh compares layouts on these."""
    import jax

    return jax.__version_info__ >= (0, 11)
