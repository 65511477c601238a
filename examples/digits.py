"""Scikit-learn's handwritten digits, to learn from and to test on."""

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.datasets import load_digits

TESTED = 360
BRIGHTEST = 16.0


def load() -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    """Images, `f32[n,64]` from 0 to 1, and labels, `i32[n]`: of training, then of the test."""
    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(labels))
    images = jnp.asarray(images[order] / BRIGHTEST, jnp.float32)
    labels = jnp.asarray(labels[order], jnp.int32)
    return images[TESTED:], labels[TESTED:], images[:TESTED], labels[:TESTED]


def report(name: str, losses: jax.Array, logits: jax.Array, labels: jax.Array) -> None:
    """Print the last loss and the accuracy of each model, and of their mean prediction."""
    each = (logits.argmax(-1) == labels).mean(-1)
    together = (jax.nn.softmax(logits).mean(0).argmax(-1) == labels).mean()
    print(f"{name}, {len(each)} models")
    print("  last losses  ", "  ".join(f"{its:.3f}" for its in losses))
    print("  test accuracy", "  ".join(f"{its:.1%}" for its in each))
    print(f"  mean of the accuracies {each.mean():.1%}, of the mean prediction {together:.1%}")
