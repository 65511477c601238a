"""Every code: its golden text, its page, and a guard that none goes without.

The files in tests/golden are written anew by `PYTREEKIT_GOLDEN=write pytest tests/test_faults.py`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from pathlib import Path

import pytest

import pytreekit as ptk
from pytreekit.faults import CODES

from . import fault_examples_dry_run as _runs  # noqa: F401  enters its examples
from . import fault_examples_files as _files  # noqa: F401  enters its examples
from . import fault_examples_gradients as _  # noqa: F401  enters its examples
from .fault_examples import EXAMPLES, Example

HERE = Path(__file__).parent
GOLDEN = HERE / "golden"
PAGE = HERE.parent / "docs" / "en" / "faults.md"
WIDTH = 88


def told(call: Example) -> ptk.SpecError | ptk.SpecWarning:
    """The error of a faulty call, or its warning: in this suite, warnings are errors."""
    with pytest.raises((ptk.SpecError, ptk.SpecWarning)) as caught:
        call()
    return caught.value


@pytest.mark.parametrize("code", sorted(EXAMPLES))
def test_text_is_the_golden_one(code: str) -> None:
    text = "\n\n".join(str(told(call)) for call in EXAMPLES[code]) + "\n"
    golden = GOLDEN / f"{code}.txt"
    if os.environ.get("PYTREEKIT_GOLDEN") == "write":
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8")


@pytest.mark.parametrize("code", sorted(EXAMPLES))
def test_example_has_the_fault_it_stands_for(code: str) -> None:
    for call in EXAMPLES[code]:
        assert code in {fault.code for fault in told(call).faults}


@pytest.mark.parametrize("code", sorted(EXAMPLES))
def test_text_is_plain_ascii_of_bounded_width(code: str) -> None:
    for call in EXAMPLES[code]:
        text = str(told(call))
        assert text.isascii()
        assert "\x1b" not in text
        assert max(map(len, text.splitlines())) <= WIDTH
        assert " object at 0x" not in text


def lacking(codes: Collection[str], golden: Path, page: str, examples: Collection[str]) -> set[str]:
    """The codes without golden file, page anchor, executed example there, or test."""
    outputs = re.findall(r"^```text title=\"output\"\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    return {
        code
        for code in codes
        if not (golden / f"{code}.txt").is_file()
        or not re.search(rf"^## .*{{#{code.lower()}}}$", page, re.MULTILINE)
        or not any(code in output for output in outputs)
        or code not in examples
    }


def test_no_code_lacks_golden_file_page_or_test() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert lacking(CODES, GOLDEN, page, EXAMPLES) == set()
    assert {path.stem for path in GOLDEN.glob("PTK*.txt")} == set(CODES)
    assert set(EXAMPLES) == set(CODES)


def test_the_guard_notices_what_is_lacking(tmp_path: Path) -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert lacking({*CODES, "PTK999"}, GOLDEN, page, EXAMPLES) == {"PTK999"}
    assert lacking(CODES, tmp_path, page, EXAMPLES) == set(CODES)
    assert lacking(CODES, GOLDEN, page.replace("{#ptk102}", ""), EXAMPLES) == {"PTK102"}
    assert lacking(CODES, GOLDEN, page, set(EXAMPLES) - {"PTK107"}) == {"PTK107"}


def test_every_code_in_the_source_is_in_the_catalogue() -> None:
    sources = (HERE.parent / "pytreekit").rglob("*.py")
    used = {
        code
        for path in sources
        for code in re.findall(r"\"(PTK\d{3})\"", path.read_text(encoding="utf-8"))
    }
    assert used == set(CODES)
