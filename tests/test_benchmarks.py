"""The benchmarks run, and hold figures to their goals. What the figures are is not tested here."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

FOLDER = Path(__file__).parents[1] / "benchmarks"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


timing = load("timing")


def tables_of(name: str) -> list[list[list[str]]]:
    """Run a benchmark as quickly as it goes; return the tables that it prints."""
    command = [sys.executable, str(FOLDER / f"{name}.py"), "--quick"]
    run = subprocess.run(command, cwd=FOLDER.parent, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    tables = []
    for part in run.stdout.split("\n\n"):
        if rows := [line for line in part.splitlines() if line.startswith("|")]:
            assert len({len(row) for row in rows}) == 1
            tables.append([[cell.strip() for cell in row.strip("|").split("|")] for row in rows])
    return tables


def table_of(name: str) -> list[list[str]]:
    """The only table that a benchmark prints."""
    (table,) = tables_of(name)
    return table


def test_the_overhead_of_vmap_is_measured() -> None:
    pytest.importorskip("equinox", reason="it is one of the three that are compared")
    (head, _, *rows), (others, _, *annotated) = tables_of("vmap_overhead")
    assert head[1:] == ["jax.vmap us", "ptk.vmap us", "ratio", "goal", "equinox us", "ratio"]
    goals = {row[0]: row[4] for row in rows if row[4]}
    assert goals["20 mapped leaves"] == "1.05x"
    assert [goals[f"{n} shared leaves, 1 mapped"] for n in ("20", "200", "2,000")] == [
        "0.75x",
        "0.30x",
        "0.12x",
    ]
    assert all(re.fullmatch(r"[\d,]+\.\d", row[column]) for row in rows for column in (1, 2, 5))
    assert others[1:3] == ["without annotations us", "with us"]
    assert {row[4] for row in annotated} == {"1.10x", ""}


def test_chunks_are_measured() -> None:
    head, _, *rows = table_of("chunked")
    assert head[1:4] == ["at once ms", "lax.map ms", "ptk ms"]
    assert {row[0] for row in rows} >= {"axis 0, a remainder", "axis 1, no remainder", "gradient"}
    assert all(float(row[7]) <= float(row[6]) for row in rows)  # MiB, which XLA knows exactly


def test_path_rules_are_measured() -> None:
    head, _, *rows = table_of("rules")
    assert head[1:] == ["texts ms", "ptk.Rules ms", "ratio", "goal", "again", "loop"]
    assert [row[4] for row in rows] == ["1.00x"] * 2 + ["2.00x"] * 2 + [""] * 2


def test_the_time_to_import_is_measured() -> None:
    head, _, *rows = table_of("import_time")
    assert head == ["", "ms", "goal"]
    assert [row[0] for row in rows][:2] == ["import jax", "import pytreekit as ptk"]
    assert rows[-1][2] == "60"


def test_placing_is_measured() -> None:
    head, _, *rows = table_of("place")
    assert head[1:] == ["s", "ratio", "peak MiB", "ratio"]
    assert [row[0] for row in rows] == ["jax.device_put", "plan.place"]


def test_specs_of_optimizer_states_are_measured() -> None:
    head, _, *rows = table_of("optimizer_specs")
    assert head == ["", "leaves", "ptk ms", "goal", "peer ms", "ratio"]
    assert {row[0]: row[3] for row in rows}["adamw"] == "300"
    assert [bool(row[4]) for row in rows if row[0] in {"adamw", "adafactor"}] == [True, True]


def test_the_least_time_of_each_function_is_found() -> None:
    fast, slow = timing.best_times([lambda: None, lambda: sum(range(10_000))], rounds=3)
    assert 0 < fast < slow


@pytest.mark.parametrize(
    ("missed", "check", "code"), [([], True, 0), (["a goal"], False, 0), (["a goal"], True, 1)]
)
def test_only_a_check_fails_over_a_goal(
    missed: list[str], check: bool, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        timing.finish(missed, check=check)
    assert stopped.value.code == code
    assert ("Missed: a goal" in capsys.readouterr().out) == bool(missed)


def test_specs_are_measured() -> None:
    head, _, *rows = table_of("specs")
    assert head[1:] == ["texts ms", "rules", "specs", "goal", "fsdp_specs", "check_shardings"]
    assert [row[0] for row in rows] == ["1,000 leaves"]


def test_the_overhead_over_devices_is_measured() -> None:
    head, _, *rows = table_of("parallel_overhead")
    assert head[1:] == ["jax us", "ptk us", "ratio", "goal"]
    assert {row[4] for row in rows} == {"1.05x", ""}


def test_dry_runs_are_measured() -> None:
    head, _, *rows = table_of("dry_run")
    assert head[1:5] == ["jax s", "ptk.dry_run s", "ratio", "goal"]
    assert [row[4] for row in rows] == ["1.3x"]
    assert int(rows[0][5]) > 0
