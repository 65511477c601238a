"""The command line: what it prints where, its exit codes, and that it answers without JAX."""

from __future__ import annotations

import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from pytreekit import cli
from pytreekit.faults import CODES

ROOT = Path(__file__).parents[1]
WITHOUT = "import sys; sys.modules.update(dict.fromkeys({})); import pytreekit.cli as cli; {}"
CODES_MODULE = "import pytreekit.commands.codes as codes; "
RUN = "raise SystemExit(cli.main({}))"


def run(*words: str, missing: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    """Run the command line in a fresh interpreter, where some packages are not installed."""
    code = WITHOUT.format(missing, RUN.format(list(words)))
    return subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )


def test_codes_lists_every_code_with_its_title(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["codes"]) == 0
    told = dict(line.split("  ", 1) for line in capsys.readouterr().out.splitlines())
    assert told == CODES


def test_version_is_that_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out == f"pytreekit {metadata.version('pytreekit')}\n"


@pytest.mark.parametrize("words", ["codes", "codes 101", "--version", "--help", "shard --help"])
def test_an_answer_needs_neither_jax_nor_rich(words: str) -> None:
    ran = run(*words.split(), missing=("jax", "jaxlib", "numpy", "rich", "shtab"))
    assert ran.returncode == 0, ran.stderr
    assert "pytreekit" in ran.stdout or "PTK101" in ran.stdout


@pytest.mark.parametrize("words", [[], ["nonsense"], ["codes", "PTK101", "x"], ["--nonsense"]])
def test_wrong_usage_exits_with_2(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        cli.main(words)
    assert stopped.value.code == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith("usage: pytreekit")


def test_the_package_runs_as_a_module() -> None:
    command = [sys.executable, "-m", "pytreekit", "codes"]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert ran.stdout.startswith("PTK001  ")


def test_a_tour_without_its_data_says_what_to_install() -> None:
    ran = run("tour", missing=("sklearn", "jax"))
    assert ran.returncode == 1
    assert ran.stdout == ""
    assert "pip install 'pytreekit[tour]'" in ran.stderr
    assert "Traceback" not in ran.stderr


def test_a_reader_that_has_seen_enough_is_no_error() -> None:
    much = CODES_MODULE + "codes.run = lambda **_: print('x' * 10**6) or 0; "
    command = [sys.executable, "-c", WITHOUT.format((), much + RUN.format(["codes"]))]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=ROOT, stdout=pipe, stderr=pipe) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        running.stdout.read(1)
        running.stdout.close()
        assert running.stderr.read() == b""
    assert running.returncode == 1


def test_ctrl_c_ends_without_a_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(**_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("pytreekit.commands.codes.run", interrupted)
    assert cli.main(["codes"]) == cli.INTERRUPTED
