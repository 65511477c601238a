"""The command line in shells: completion that each can read, and pipes that end early."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pytreekit import cli
from pytreekit.commands import tree

ROOT = Path(__file__).parents[1]
SHELLS = {"bash": ["-n"], "zsh": ["-n"], "fish": ["--no-execute"], "tcsh": ["-f", "-n"]}


@pytest.mark.parametrize("shell", SHELLS)
def test_a_shell_reads_its_completion(
    shell: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["completion", shell]) == 0
    script = tmp_path / "script"
    script.write_text(capsys.readouterr().out)
    assert "--on-indivisible" in script.read_text() or shell == "fish"
    if not shutil.which(shell):
        pytest.skip(f"there is no {shell}")
    ran = subprocess.run(
        [shell, *SHELLS[shell], str(script)], capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stderr) == (0, "")


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_a_line_describes_each_command(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert tree.TOLD in script
    assert tree.DESCRIPTION.partition("\n")[0] not in script


@pytest.mark.skipif(not shutil.which("fish"), reason="there is no fish")
def test_fish_completes_choices_and_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cli.main(["completion", "fish"])
    (tmp_path / "script").write_text(capsys.readouterr().out)
    (tmp_path / "tree.json").touch()
    for asked, found in {"shard --on-indivisible re": "replicate", "tree tre": "tree.json"}.items():
        code = f"source script; complete -C 'pytreekit {asked}'"
        ran = subprocess.run(
            ["fish", "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
        )
        assert ran.stdout.partition("\t")[0].strip() == found


def piped(command: str) -> subprocess.CompletedProcess[str]:
    """Runs a command of bash in which `$0` is Python."""
    words = ["bash", "-c", command, sys.executable]
    return subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)


@pytest.mark.parametrize("words", ["tree --all", "shard --mesh data=4,model=2 --json"])
def test_head_ends_a_command_without_a_word(words: str) -> None:
    ran = piped(f'"$0" -m pytreekit {words} | head -n 1')
    assert ran.stderr == ""
    assert len(ran.stdout.splitlines()) == 1


def test_json_goes_through_a_pipe() -> None:
    ran = piped('"$0" -m pytreekit tree --json | "$0" -m json.tool --compact')
    assert json.loads(ran.stdout)["total"]["leaves"] == 148
