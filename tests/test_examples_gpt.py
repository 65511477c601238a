"""The GPTs train over eight devices as on one, through a checkpoint that changes the mesh."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import pytreekit as ptk

FOLDER = Path(__file__).parents[1] / "examples"
NEEDS = {"linen": "flax", "nnx": "flax", "equinox": "equinox"}
OPTIMIZERS = {"linen": ["adamw", "Adafactor"], "nnx": ["Adafactor"], "equinox": ["adamw"]}
"""Those with which a GPT is trained here: a step is compiled for each, and each mesh."""

SPECS = {
    "up": "P('data', 'model')", "down": "P('model', 'data')", "tokens": "P('model', 'data')",
    "norm": "P()",
}  # fmt: skip
"""Of arrays that flax has, (in, out)."""


@pytest.fixture(params=NEEDS)
def example(request: pytest.FixtureRequest) -> Iterator[ModuleType]:
    for needed in (NEEDS[request.param], "optax", "orbax.checkpoint"):
        pytest.importorskip(needed)
    sys.path.insert(0, str(FOLDER))
    try:
        module = importlib.import_module(f"gpt_{request.param}")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(module.gpt, "BLOCKS", 1)
            yield module
    finally:
        sys.path.remove(str(FOLDER))


def specs_of(plan: ptk.ShardingPlan) -> dict[str, set[str]]:
    """The specs of the arrays of each layer, in the parameters and in moments that have no rows."""
    found: dict[str, set[str]] = {}
    for leaf in plan.leaves:
        layer = re.findall(r"\b(up|down|tokens|norm)/", leaf.text)
        if layer and "v_" not in leaf.text and leaf.shape != (1,):
            found.setdefault(layer[-1], set()).add(str(leaf.spec))
    return found


def test_a_gpt_trains_over_eight_devices_as_on_one(
    example: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    its, name = example.gpt, example.__name__.removeprefix("gpt_")
    chosen = {title: its.OPTIMIZERS[title] for title in OPTIMIZERS[name]}
    its.run("a GPT", example.training, chosen)
    told = capsys.readouterr().out
    assert re.findall(r"^a GPT, (\w+)", told, re.MULTILINE) == list(chosen)
    losses = [list(map(float, re.findall(r"\d\.\d{4}", line))) for line in told.splitlines()]
    for _, first, then, alone, _ in zip(*[iter(losses)] * 5, strict=True):
        assert len(first) == len(then) == its.STEPS
        np.testing.assert_allclose(first + then, alone, atol=2e-4)
        assert alone[-1] < alone[0]
    differences = re.findall(r"differ by (\S+) at most", told)
    assert len(differences) == len(chosen)
    assert max(map(float, differences)) < 2e-5


def test_one_rule_file_lays_out_the_states_of_each_framework(example: ModuleType) -> None:
    its, is_flax = example.gpt, example.__name__ != "gpt_equinox"
    for title, optimizer in its.OPTIMIZERS.items():
        training: Any = example.training(optimizer)
        plan = its.plan_of(training, optimizer, its.devices.mesh(2, 4))
        found = specs_of(plan)
        turned = {} if is_flax else {"up": SPECS["down"], "down": SPECS["up"]}
        assert found == {layer: {spec} for layer, spec in {**SPECS, **turned}.items()}
        assert plan.memory().replicated < 0.02
        if title == "Adafactor":  # rows and columns of square kernels, told apart by init
            ways = {str(leaf.spec) for leaf in plan.leaves if re.search("v_.*query/", leaf.text)}
            assert ways == {"P('data',)", "P('model',)"}
