"""Rules that every source file keeps: size, layers, and nothing private to JAX."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = sorted((ROOT / "pytreekit").rglob("*.py"))
LONGEST = 400
LINT = "from importlinter.cli import lint_imports; raise SystemExit(lint_imports(no_cache=True))"


def test_no_source_file_is_too_long() -> None:
    lengths = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in SOURCES}
    assert len(lengths) > 5
    assert {path: length for path, length in lengths.items() if length > LONGEST} == {}


def test_nothing_reaches_into_private_jax() -> None:
    files = [*SOURCES, *sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md"]
    assert [path for path in files if "jax._src" in path.read_text(encoding="utf-8")] == []


def test_only_compat_decides_by_the_version_of_jax() -> None:
    asks = re.compile(r"jax\.(__version_info__|version\b|__version__ *[<>=!.[])|version\([\"']jax")
    found = [path.name for path in SOURCES if asks.search(path.read_text(encoding="utf-8"))]
    assert set(found) <= {"compat.py"}


def lint(project: Path) -> subprocess.CompletedProcess[str]:
    """Check the layers of the package in `project`, from its files alone."""
    return subprocess.run(
        [sys.executable, "-c", LINT],
        cwd=project,
        env={**os.environ, "PYTHONPATH": str(project)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_imports_go_one_way() -> None:
    run = lint(ROOT)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "2 kept, 0 broken" in run.stdout


@pytest.mark.parametrize(
    ("file", "planted", "told"),
    [
        ("faults.py", "from pytreekit import batching\n", "pytreekit.faults -> pytreekit.batching"),
        ("unplaced.py", "", "unplaced"),
    ],
)
def test_a_planted_breach_of_the_layers_is_noticed(
    tmp_path: Path, file: str, planted: str, told: str
) -> None:
    shutil.copytree(ROOT / "pytreekit", tmp_path / "pytreekit")
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    with (tmp_path / "pytreekit" / file).open("a", encoding="utf-8") as source:
        source.write(planted)
    run = lint(tmp_path)
    assert run.returncode == 1, run.stdout + run.stderr
    assert told in run.stdout
