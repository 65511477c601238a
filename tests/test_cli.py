"""The command line: what it prints where, its exit codes, and that it answers without JAX."""

from __future__ import annotations

import io
import json
import random
import subprocess
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

from pytreekit import cli
from pytreekit.commands import parsing
from pytreekit.commands.answers import fault_data
from pytreekit.faults import CODES, Fault
from pytreekit.show import table

ROOT = Path(__file__).parents[1]
WITHOUT = "import sys; sys.modules.update(dict.fromkeys({})); import pytreekit.cli as cli; {}"
CODES_MODULE = "import pytreekit.commands.codes as codes; "
RUN = "raise SystemExit(cli.main({}))"
MESH = ["--mesh", "data=4,model=2"]

Told = Callable[..., tuple[int, str, str]]


@pytest.fixture
def told(capsys: pytest.CaptureFixture[str]) -> Told:
    """Runs the command line here: its exit code, and what it printed where."""

    def its(*words: Any) -> tuple[int, str, str]:
        try:
            code = cli.main([str(word) for word in words])
        except SystemExit as stopped:
            code = int(str(stopped.code))
        return code, *capsys.readouterr()

    return its


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


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device of Linux")
def test_an_output_that_is_full_is_told_in_a_line() -> None:
    command = [sys.executable, "-m", "pytreekit", "codes", "--json"]
    with Path("/dev/full").open("w") as full:
        ran = subprocess.run(
            command, cwd=ROOT, stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert ran.returncode == 1
    assert ran.stderr == "pytreekit: cannot write: No space left on device\n"


def test_streams_that_are_closed_are_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("stdin", "stdout", "stderr"):
        monkeypatch.setattr(sys, name, None)
    assert cli.main(["codes"]) == 0
    assert cli.main(["codes", "9999"]) == 2
    assert cli.main(["tree", "-"]) == 2
    sys.stdout.close()
    sys.stderr.close()


def test_ctrl_c_ends_without_a_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(**_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("pytreekit.commands.codes.run", interrupted)
    assert cli.main(["codes"]) == cli.INTERRUPTED


FOREIGN = {"\uce35/\u91cd\u307f": [[2], "int8"], "caf\u00e9/\u202eb\x1b[1m\n\u3164": [[3], "int8"]}


def test_keys_are_shown_in_their_letters_and_in_line(told: Told, tmp_path: Path) -> None:
    file = tmp_path / "tr\nee.json"
    file.write_text(json.dumps(FOREIGN))
    out = told("tree", file)[1]
    assert out.startswith("tr\\nee.json, manifest\n2 arrays")
    assert "| \uce35/\u91cd\u307f" in out
    assert "caf\u00e9/\\u202eb\\x1b[1m\\n\\u3164 |" in out
    assert len({cell_len(line) for line in out.splitlines()[2:]}) == 1
    (tmp_path / "rules.toml").write_text('rules = [["**", "model|_"]]')
    shown = told("shard", file, "--rules", tmp_path / "rules.toml", *MESH)[1]
    assert "dimension 0 gets no axis: dimension 0 of 3 does not divide by 2:" in shown
    assert shown.count("caf\u00e9") == 2
    leaves = json.loads(told("tree", "--json", file)[1])["leaves"]
    assert [leaf["path"] for leaf in leaves] == sorted(FOREIGN)


def test_letters_that_cannot_be_written_are_escaped_in_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tree.json").write_text(json.dumps(FOREIGN))
    for encoding, shown in (("ascii", "caf\\xe9"), ("latin-1", "caf\u00e9")):
        stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
        monkeypatch.setattr("sys.stdout", stream)
        assert cli.main(["tree", str(tmp_path / "tree.json")]) == 0
        out = stream.buffer.getvalue().decode(encoding)
        assert shown in out
        assert "\\uce35/\\u91cd\\u307f" in out
        assert len(set(map(len, out.splitlines()[2:]))) == 1


CELLS = [
    "a",
    "bb b",
    "",
    "\uce35",
    "cafe\u0301",
    "longer text here",
    "x\n  y",
    "a/b/",
    " lead",
    "12 ",
]


def test_a_table_of_many_rows_is_as_rich_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "MANY", 0)
    draw, quick = random.Random(0), 0
    for _ in range(60):
        columns = [f"c{number}" for number in range(draw.randint(1, 6))]
        rows = [
            tuple("".join(draw.choices(CELLS, k=draw.randint(0, 2))) for _ in columns)
            for _ in range(draw.randint(1, 9))
        ]
        head = table.Head(
            draw.choice(["", "short", "very long " * 9 + "\nx"]), (*columns,), ("c1",)
        )
        quick += bool(table._long(head, rows))
        assert table.plain(head, rows) == table._by_rich(head, rows)
    assert 40 < quick < 60


@pytest.mark.parametrize(
    ("words", "command", "why"),
    [
        (["--json"], "", "unrecognized arguments: --json"),
        (["nonsense", "--json"], "", "invalid choice: 'nonsense'"),
        (["codes", "9999", "--json"], "codes", "there is no code '9999'"),
        (["shard", "--json"], "shard", "required: --mesh"),
        (["shard", "x", *MESH, "--json"], "shard", "--rules is missing"),
        (["shard", *MESH, "--rules", "gone.toml", "--json"], "shard", "cannot read 'gone.toml'"),
        (["shard", *MESH, "--out", "gone/p.json", "--json"], "shard", "cannot write"),
        (["shard", *MESH, "--json", "--stack", "a"], "shard", "is no glob and a dimension"),
        (["dry-run", "train", "--json"], "dry-run", "'train' is no module and function"),
        (["dry-run", "a:b", "--json", "--memory", "nan"], "dry-run", "is no number of bytes"),
    ],
)
def test_wrong_usage_is_data_for_programs(
    told: Told, words: list[str], command: str, why: str
) -> None:
    code, out, err = told(*words)
    assert (code, err) == (2, "")
    assert json.loads(out)["command"] == command
    assert why in json.loads(out)["error"]
    assert json.loads(out)["faults"] == []


def test_the_reference_has_every_option_and_every_key_of_a_fault() -> None:
    page = (ROOT / "docs" / "en" / "reference" / "cli.md").read_text(encoding="utf-8")
    (commands,) = parsing.parser()._subparsers._group_actions
    for name, command in commands.choices.items():
        section = page.partition(f"## pytreekit {name} ")[2].partition("\n## ")[0]
        options = {word for action in command._actions for word in action.option_strings}
        assert [word for word in options - {"-h", "--help"} if word not in section] == []
    keys = fault_data(Fault("PTK001", "", "", "", "", ""))
    assert [key for key in keys if f"`{key}`" not in page] == []
