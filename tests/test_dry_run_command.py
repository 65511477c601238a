"""`pytreekit dry-run module:function`: what it prints, and how it ends."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import pytest

from pytreekit.commands.dry_run import options, run

MODULE = """\
import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P
import pytreekit as ptk

MESH = {"data": 4}
shapes = {"w": jax.ShapeDtypeStruct((512, 512), jnp.float32)}
x = ptk.ShardingPlan(jax.ShapeDtypeStruct((64, 512), jnp.float32), P("data"), MESH).abstract()
whole, split = (ptk.ShardingPlan(shapes, spec, MESH) for spec in (P(), P("data")))


def step(params, x):
    return x @ params["w"]


def dry():
    return step, split.abstract(), x


def several():
    return {"step": step, "args": (shapes, x), "plans": {"whole": whole, "split": split}}


def uneven():
    return step, shapes, jax.ShapeDtypeStruct((6, 512), jnp.float32, sharding=x.sharding)


def unused():
    return {"step": jnp.sin, "args": (x.update(sharding=None),), "mesh": MESH}


number = 5


def ends():
    raise SystemExit(0)


def prints():
    print('noise')
    return dry()
"""


@pytest.fixture
def target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "dry_run_target.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return "dry_run_target"


@pytest.mark.parametrize(
    ("function", "options", "code", "word"),
    [
        ("dry", {}, 0, "all-gather"),
        ("dry", {"memory": 1e9, "bandwidth": 1e9, "strict": True}, 0, "at least"),
        ("dry", {"memory": 1e3}, 1, "all-gather"),
        ("several", {"memory": 2e6}, 0, "whole sends least of what fits"),
        ("several", {"memory": 1e3}, 1, "no plan fits"),
        ("uneven", {}, 1, "PTK303"),
        ("unused", {"strict": True}, 1, "PTK753"),
        ("number", {}, 2, "is no function"),
        ("nothing", {}, 2, "has no 'nothing'"),
        ("ends", {}, 2, "ends the program"),
    ],
)
def test_how_it_ends(
    target: str,
    function: str,
    options: dict[str, Any],
    code: int,
    word: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(target=f"{target}:{function}", **options) == code
    told = capsys.readouterr()
    assert word in told.out + told.err


def test_json(target: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(target=f"{target}:prints", as_json=True) == 0
    assert json.loads(capsys.readouterr().out)["mesh"] == {"data": 4}


@pytest.mark.parametrize("name", ["", "train", ":dry", "no_such_module:dry"])
def test_what_names_no_function_is_told(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(target=name) == 2
    assert "pytreekit dry-run: " in capsys.readouterr().err


def test_a_report_of_one_plan(target: str, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    assert run(target=f"{target}:dry", html=str(page)) == 0
    told = page.read_text()
    assert all(word in told for word in ("params[&#x27;w&#x27;]", "all-gather", "temporaries"))
    assert run(target=f"{target}:several", html=str(page)) == 2


def test_its_options_are_those_of_the_function(target: str) -> None:
    parser = argparse.ArgumentParser()
    options(parser)
    words = [f"{target}:dry", "--memory", "1e9", "--mesh", "data=4", "--bandwidth=1e9", "--json"]
    assert run(**vars(parser.parse_args(words))) == 0
