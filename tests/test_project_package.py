"""The package as it is installed: its versions agree, and importing it costs next to nothing."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from importlib import metadata, resources
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
HEAVY = ["jax", "beartype", "chex", "rich", "numpy"]
LOADED = "import json, sys; {}; print(json.dumps([m for m in {} if m in sys.modules]))"


def loaded_by(statement: str) -> list[str]:
    """Return which heavy packages a fresh interpreter has loaded after `statement`."""
    command = [sys.executable, "-c", LOADED.format(statement, HEAVY)]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return json.loads(run.stdout.splitlines()[-1])


@pytest.mark.parametrize(
    "statement",
    ["import pytreekit", "import pytreekit.cli", "import pytreekit; dir(pytreekit)"],
)
def test_importing_the_package_loads_nothing_heavy(statement: str) -> None:
    assert loaded_by(statement) == []


def test_a_heavy_import_would_be_noticed() -> None:
    assert loaded_by("import pytreekit, numpy") == ["numpy"]


def test_using_the_package_loads_neither_type_checker_nor_chex() -> None:
    assert set(loaded_by("import pytreekit as ptk; ptk.vmap; ptk.testing")) <= {"jax", "numpy"}


def test_the_version_is_told_without_loading_jax() -> None:
    code = (
        "import pytreekit.cli, sys\n"
        "try: pytreekit.cli.main(['--version'])\n"
        "except SystemExit as stop: assert not stop.code\n"
        "assert 'jax' not in sys.modules"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    assert PROJECT["version"] in run.stdout


def test_versions_agree() -> None:
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.findall(r"^version: (.+)$", citation, re.MULTILINE) == [PROJECT["version"]]
    assert metadata.version("pytreekit") == PROJECT["version"]


def test_the_changelog_opens_with_what_is_not_released() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.findall(r"^## (.+)$", text, re.MULTILINE)[0] == "Unreleased"


def test_the_package_says_that_it_is_typed() -> None:
    assert resources.files("pytreekit").joinpath("py.typed").is_file()


def test_plain_pip_can_install_every_extra() -> None:
    assert set(PROJECT["optional-dependencies"]) == {"tour", "dev", "docs", "html"}
    assert "dependency-groups" not in (ROOT / "pyproject.toml").read_text(encoding="utf-8")


@pytest.mark.parametrize(("body", "failed"), [("false; true", 1), ("true; true", 0)])
def test_a_failed_command_fails_its_stage_of_the_ci_run(body: str, failed: int) -> None:
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    stage = script[script.index("stage() {") : script.index("\n}\n", script.index("stage() {")) + 3]
    start = f"set -euo pipefail; summary=() failed=0\n{stage}\nbody() {{ {body}; }}\n"
    run = subprocess.run(
        ["bash", "-c", start + "stage name body\nexit $failed"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == failed, run.stdout + run.stderr


def test_no_stage_of_the_ci_run_is_excused() -> None:
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    calls = re.findall(r"^stage .*$", script, re.MULTILINE)
    assert len(calls) > 5
    assert [call for call in calls if "||" in call or "&&" in call] == []
