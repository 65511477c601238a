"""`pytreekit dry-run module:function`: what it prints, and how it ends."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import pytest

from pytreekit.commands import words
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


def fails():
    raise ValueError("first\\nsecond")


def tall(x):
    return x @ jnp.ones((3, 3))


def fails_when_traced():
    return tall, x


def imports():
    import no_such_dependency


def wrong():
    return {"plann": split, "args": x, "plan": split, "plans": {"a": split}}


def no_step():
    return 3, x
"""
BROKEN = {
    "raises": "def inner():\n    raise KeyError('w')\n\ninner()\n",
    "no_syntax": "import os\ndef dry(:\n",
    "lacks": "import os\nimport no_such_dependency\n",
    "relative": "from . import no_such_name\n",
}


@pytest.fixture
def target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "dry_run_target.py").write_text(MODULE)
    for name, text in BROKEN.items():
        (tmp_path / f"{name}.py").write_text(text)
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
        ("unuse", {}, 2, "has no 'unuse'; did you mean 'unused'?"),
        ("ends", {}, 2, "ends the program"),
        ("no_step", {}, 2, "returns a tuple that begins with an int"),
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


@pytest.mark.parametrize(
    "name",
    [
        *("", "train", ":dry", "train:", "no_such_module:dry", "os.no_such:dry", ".train:dry"),
        *("train.py:dry", "a/train.py:dry", "a..b:dry", "a\0b:dry", "\udcff:dry"),
    ],
)
def test_what_names_no_function_is_told(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(target=name) == 2
    assert "pytreekit dry-run: " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("its", "said", "line"),
    [
        ("dry_run_target:fails", "dry_run_target:fails raised ValueError: first", "raise Value"),
        (
            "dry_run_target:fails_when_traced",
            "the step of dry_run_target:fails_when_traced raised TypeError: ",
            "return x @ jnp.ones((3, 3))",
        ),
        (
            "dry_run_target:imports",
            "dry_run_target:imports raised ModuleNotFoundError: ",
            "import no_such_dependency",
        ),
        ("raises:dry", "importing raises raised KeyError: 'w'", "inner()"),
        ("no_syntax:dry", "importing no_syntax raised SyntaxError: ", "def dry(:"),
        (
            "lacks:dry",
            "lacks imports no_such_dependency, which is not installed",
            "import no_such_dependency",
        ),
        ("relative:dry", "importing relative raised ImportError: ", "from . import no_such_name"),
    ],
)
def test_an_error_of_the_users_code_is_told_as_its_own(
    target: str, its: str, said: str, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(target=its) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"pytreekit dry-run: {said}")
    assert line in err
    assert not any(name in err for name in ("pytreekit/", "importlib", "targets.py"))
    assert run(target=its, as_json=True) == 1
    out, err = capsys.readouterr()
    told = json.loads(out)
    assert (told["command"], err) == ("dry-run", "")
    assert told["error"].startswith(said)
    assert line in told["traceback"]


def test_all_that_is_wrong_with_a_dict_is_told(
    target: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(target=f"{target}:wrong", as_json=True) == 1
    faults = json.loads(capsys.readouterr().out)["faults"]
    assert [(one["code"], one["path"]) for one in faults] == [
        ("PTK001", "['step']"),
        ("PTK001", "['plann']"),
        ("PTK001", "['args']"),
        ("PTK001", "['plan']"),
    ]
    assert faults[0]["note"] == "a dict has step, and may have args, plan or plans, and mesh"
    assert faults[1]["note"].startswith("did you mean 'plan'?")
    assert faults[2]["fact"].endswith("this is a ShapeDtypeStruct")


def test_the_mesh_of_the_command_line_wins(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def refuse(_step: Any, _args: Any, _plan: Any, mesh: Any, *_: Any) -> None:
        asked.append(mesh)
        raise SystemExit

    monkeypatch.setattr("pytreekit.commands.dry_running.programmed", refuse)
    for mesh in (None, {"data": 2}):
        assert run(target=f"{target}:unused", mesh=mesh) == 2
    assert asked == [{"data": 4}, {"data": 2}]


SIZES = [
    ("80e9", 80e9),
    ("80GB", 80e9),
    ("80g", 80e9),
    (" 1.5 TiB ", 1.5 * 2**40),
    (".5kB", 500.0),
    ("12B", 12.0),
]
NO_SIZES = ["nan", "inf", "-1", "0", "0GB", "1e999", "80XB", "GB", "1_0", "\u0663", "", "1iB"]


def test_bytes_have_units_and_are_numbers_above_0() -> None:
    assert [words.size(text) for text, _ in SIZES] == [size for _, size in SIZES]
    for text in NO_SIZES:
        with pytest.raises(argparse.ArgumentTypeError, match=r"as in 80e9, 80GB or 80GiB"):
            words.size(text)


def test_latency_is_a_number_from_0() -> None:
    assert [words.seconds(text) for text in ("0", "1e-6", "2.5")] == [0.0, 1e-6, 2.5]
    for text in ("nan", "inf", "-1", "1e999", "1us", ""):
        with pytest.raises(argparse.ArgumentTypeError, match="is no number of seconds from 0"):
            words.seconds(text)


def test_a_report_of_one_plan(target: str, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    assert run(target=f"{target}:dry", html=str(page)) == 0
    told = page.read_text()
    assert all(word in told for word in ("params[&#x27;w&#x27;]", "all-gather", "temporaries"))
    assert run(target=f"{target}:several", html=str(page)) == 2


def test_its_options_are_those_of_the_function(target: str) -> None:
    parser = argparse.ArgumentParser()
    options(parser)
    given = [f"{target}:dry", "--memory", "1GB", "--mesh", "data=4", "--bandwidth=1GiB", "--json"]
    assert run(**vars(parser.parse_args(given))) == 0
