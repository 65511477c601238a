"""What type checkers see of the package: each of them tells what is marked, and nothing else.

The marks stand in `typing_tests/`; its `functions.py` explains them.
"""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import tokenize
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FILES = sorted((ROOT / "typing_tests").glob("*.py"))
MARK = re.compile(r"# (?P<kind>error|false alarm)(: (?P<but>not )?(?P<names>\w+(, \w+)*))?")
PLANTED = 'told: int = "not marked"\nmarked: int = 1  # error\n'
ENVIRONMENT = {name: os.environ[name] for name in os.environ if "COLOR" not in name}
PLACE = r"(?P<file>.+?\.py):(?P<line>\d+)"

# How each is told which interpreter to look at, and how a line of its output starts.
CHECKERS = {
    "basedpyright": ("--pythonpath {python}", rf" *{PLACE}:\d+ - (error|warning)"),
    "mypy": ("--python-executable {python} --cache-dir {null}", rf"{PLACE}: (error|warning)"),
    "ty": (
        "check --python {python} --output-format concise",
        rf"{PLACE}:\d+: (error|warning)\[",
    ),
    "pyrefly": (
        "check --config pyproject.toml --python-interpreter-path {python} --output-format min-text",
        rf" *(ERROR|WARN) {PLACE}:\d+",
    ),
}


def marked(text: str, checker: str) -> set[int]:
    """The lines that a checker must tell."""
    lines = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type != tokenize.COMMENT or token.line.lstrip().startswith("#"):
            continue
        mark = MARK.fullmatch(token.string)
        assert mark, f"not to be understood: {token.string}"
        names = set((mark["names"] or "").split(", ")) - {""}
        assert names <= CHECKERS.keys(), token.string
        is_error = mark["kind"] == "error"
        assert bool(mark["but"]) == (is_error and bool(names)), token.string
        assert is_error or names, token.string
        if is_error != (checker in names):
            lines.add(token.start[0])
    return lines


def told(checker: str, files: list[Path]) -> dict[tuple[Path, int], str]:
    """The lines that a checker tells, each with the first thing that it says of it."""
    options, start = CHECKERS[checker]
    words = [word.format(python=sys.executable, null=os.devnull) for word in options.split()]
    run = subprocess.run(
        [sys.executable, "-m", checker, *words, *map(str, files)],
        cwd=ROOT,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 1, run.stdout + run.stderr  # there are faults, and it found its way
    found = [match for line in run.stdout.splitlines() if (match := re.match(start, line))]
    return {(ROOT / its["file"], int(its["line"])): its.string for its in reversed(found)}


@pytest.mark.parametrize("checker", CHECKERS)
def test_a_checker_tells_what_is_marked_and_nothing_else(checker: str, tmp_path: Path) -> None:
    planted = tmp_path / "planted.py"
    planted.write_text(PLANTED, encoding="utf-8")
    files = [*FILES, planted]
    texts = {file: file.read_text(encoding="utf-8") for file in files}
    wanted = {(file, line) for file in files for line in marked(texts[file], checker)}
    found = told(checker, files)
    differing = dict.fromkeys(wanted - found.keys(), "is marked, not told")
    differing |= {place: said for place, said in found.items() if place not in wanted}
    assert {differing.pop((planted, line), "") != "" for line in (1, 2)} == {True}
    assert [f"{file.name}:{line}: {said}" for (file, line), said in sorted(differing.items())] == []


@pytest.mark.parametrize(
    "comment", ["# errors", "# error: ty", "# error: not my", "# false alarm", "# error not ty"]
)
def test_a_mark_that_cannot_be_understood_is_told(comment: str) -> None:
    with pytest.raises(AssertionError, match="#"):
        marked(f"x = 1  {comment}\n", "ty")


def test_marks_may_name_checkers() -> None:
    text = "1  # error\n2  # error: not ty, mypy\n3  # false alarm: ty\n4\n# 5\n"
    lines = {checker: marked(text, checker) for checker in CHECKERS}
    assert lines == {"basedpyright": {1, 2}, "mypy": {1}, "ty": {1, 3}, "pyrefly": {1, 2}}
