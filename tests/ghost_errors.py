"""How far ghost clipping is from gradients side by side."""

from __future__ import annotations

import jax
import jax.numpy as jnp

import pytreekit as ptk

METHODS = ("ghost", "two_pass")


def apart(one, other):
    """The relative distance of two trees."""
    flat = [
        jnp.concatenate([jnp.ravel(leaf).astype("f") for leaf in jax.tree.leaves(its)])
        for its in (one, other)
    ]
    return jnp.linalg.norm(flat[0] - flat[1]) / jnp.maximum(jnp.linalg.norm(flat[1]), 1e-30)


def clipped(loss, params, batch, bound):
    """The clipped sum and the norms, as one would write them by hand."""
    gradients = jax.vmap(jax.grad(loss), (None, 0))(params, batch)
    leaves, structure = jax.tree.flatten(gradients)
    rows = [leaf.reshape(len(leaf), -1) for leaf in leaves]
    norms = jnp.linalg.norm(jnp.concatenate([row.astype("f") for row in rows], 1), axis=1)
    weights = jnp.minimum(1, bound / jnp.maximum(norms, 1e-30))
    sums = [jnp.tensordot(weights.astype(leaf.dtype), leaf, 1) for leaf in leaves]
    return structure.unflatten(sums), norms


def errors(loss, params, batch, bound=1.0, **how):
    """How far each method is from that, in the sum and in the norms."""
    wanted = clipped(loss, params, batch, bound)
    found = {
        method: ptk.clipped_grad(loss, bound, method=method, **how)(params, batch)
        for method in METHODS
    }
    return {
        method: jnp.maximum(apart(gradient, wanted[0]), apart(info.norms, wanted[1]))
        for method, (gradient, info) in found.items()
    }
