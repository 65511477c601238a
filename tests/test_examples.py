"""The examples train, and each of their models learns what it would learn alone."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import jax
import numpy as np
import pytest

FOLDER = Path(__file__).parents[1] / "examples"
STEPS = 15
MEMBER = 5


@pytest.fixture(params=["equinox", "nnx", "linen"])
def example(request: pytest.FixtureRequest) -> Iterator[ModuleType]:
    pytest.importorskip("equinox" if request.param == "equinox" else "flax")
    sys.path.insert(0, str(FOLDER))
    try:
        yield importlib.import_module(f"ensemble_{request.param}")
    finally:
        sys.path.remove(str(FOLDER))


def losses_alone(example: ModuleType, images: Any, labels: Any) -> list[float]:
    """The losses of one of the models, initialised and trained without the others."""
    key = jax.random.split(jax.random.key(0), example.MEMBERS)[MEMBER]
    state = example.init(key, images) if hasattr(example, "MODEL") else example.init(key)
    parts = state if isinstance(state, tuple) and not hasattr(state, "apply_fn") else (state,)
    step, losses = jax.jit(example.step), []
    for _ in range(STEPS):
        *parts, loss = step(*parts, images, labels)
        losses.append(float(loss))
    return losses


def test_an_ensemble_trains_as_its_members_do_alone(
    example: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    images, labels, tested, wanted = example.digits.load()
    models, losses = example.train(STEPS)
    assert losses.shape == (STEPS, example.MEMBERS)
    np.testing.assert_allclose(losses[:, MEMBER], losses_alone(example, images, labels), rtol=1e-3)
    assert (losses[-1] < 0.7 * losses[0]).all()
    assert len(set(losses[-1].tolist())) == example.MEMBERS  # each was drawn with its own key

    logits = example.logits_of_all(models, tested)
    assert logits.shape == (example.MEMBERS, len(tested), 10)
    each = np.mean(logits.argmax(-1) == wanted, axis=-1)
    together = np.mean(jax.nn.softmax(logits).mean(0).argmax(-1) == wanted)
    assert together >= each.mean() > 0.7
    example.main(STEPS)  # as the script is run, only shorter
    told = capsys.readouterr().out
    assert f"accuracies {each.mean():.1%}, of the mean prediction {together:.1%}" in told
