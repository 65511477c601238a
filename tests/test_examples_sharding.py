"""The recipes place models of each framework as their rules say, and these compute the same."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import jax
import numpy as np
import pytest

FOLDER = Path(__file__).parents[1] / "examples"
NEEDS = {"dicts": "jax", "linen": "flax", "nnx": "flax", "equinox": "equinox", "haiku": "haiku"}

DOWN_BIAS, UP_BIAS = ("P()", (8,)), ("P('model',)", (16,))
IN_OUT = [DOWN_BIAS, ("P('model',)", (16, 8)), UP_BIAS, ("P(None, 'model')", (16, 16))]
OUT_IN = [DOWN_BIAS, ("P(None, 'model')", (8, 16)), UP_BIAS, ("P('model',)", (16, 16))]
BY_BOXES = [*IN_OUT[:2], ("P()", (32,)), IN_OUT[3]]  # the biases have no boxes
WANTED = {"equinox": [OUT_IN], "linen": [IN_OUT, IN_OUT, BY_BOXES], "nnx": [IN_OUT, IN_OUT]}
"""The spec of each array of each model that a recipe tells of, and the shape of a part."""


@pytest.fixture(params=NEEDS)
def recipe(request: pytest.FixtureRequest) -> Iterator[ModuleType]:
    pytest.importorskip(NEEDS[request.param])
    sys.path.insert(0, str(FOLDER))
    try:
        yield importlib.import_module(f"sharding_{request.param}")
    finally:
        sys.path.remove(str(FOLDER))


def parts_of(params: Any) -> list[tuple[str, tuple[int, ...]]]:
    """The spec of each array, and the shape of what a device has of it; all eight have a part."""
    arrays = [leaf for leaf in jax.tree.leaves(params) if isinstance(leaf, jax.Array)]
    assert all(len(array.addressable_shards) == 8 for array in arrays)
    return [(str(array.sharding.spec), array.addressable_shards[0].data.shape) for array in arrays]


def test_models_lie_as_their_rules_say_and_compute_the_same(
    recipe: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    placed, told, place, report = [], [], recipe.place, recipe.devices.report
    monkeypatch.setattr(recipe, "place", lambda **its: placed.append(place(**its)) or placed[-1])
    monkeypatch.setattr(
        recipe.devices, "report", lambda name, params: report(name, told.append(params) or params)
    )
    recipe.main()
    wanted = WANTED.get(recipe.__name__.removeprefix("sharding_"), [IN_OUT])
    assert [sorted(parts_of(params)) for params in told] == [sorted(its) for its in wanted]
    lines = re.findall(r"^  .* on each device$", capsys.readouterr().out, re.MULTILINE)
    assert len(lines) == 4 * len(wanted)

    for params, specs in placed:
        asked = [str(spec) for spec in jax.tree.leaves(specs)]
        assert [spec for spec, _ in parts_of(params)] == asked
    params, images = placed[0][0], recipe.devices.images()
    alone = recipe.predict(*jax.device_get((params, images)))
    np.testing.assert_allclose(recipe.predict(params, images), alone, rtol=1e-5, atol=1e-6)
