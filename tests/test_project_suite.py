"""The suite guards itself: what it relies on is on, and nothing that it should run is left out."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import jax
import pytest
from jaxtyping import TypeCheckError

import pytreekit as ptk

ROOT = Path(__file__).parents[1]
# In other languages the blocks are equal, letter by letter (see test_docs_twins.py).
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs" / "en").rglob("*.md"))]
WRONG_KIND = "import pytreekit as ptk; ptk.Fault(101, '', '', '', '', '')"


def test_there_are_eight_simulated_devices() -> None:
    assert jax.default_backend() == "cpu"
    assert jax.device_count() == 8


def test_annotations_are_checked_at_run_time() -> None:
    ptk.Fault("PTK101", "", "", "", "", "")
    with pytest.raises(TypeCheckError):
        ptk.Fault(101, "", "", "", "", "")  # type: ignore[arg-type]


def test_every_module_went_through_the_import_hook() -> None:
    loaded = {name: module for name, module in sys.modules.items() if name.startswith("pytreekit")}
    past_it = [
        name
        for name, module in loaded.items()
        if not type(module.__spec__.loader).__module__.startswith("jaxtyping")
    ]
    files = [path for path in (ROOT / "pytreekit").rglob("*.py") if path.stem != "__main__"]
    assert len(loaded) == len(files)
    assert past_it == []


def test_the_hook_makes_the_difference() -> None:
    subprocess.run([sys.executable, "-c", WRONG_KIND], cwd=ROOT, check=True)


def test_every_python_block_of_the_pages_is_run() -> None:
    written = [
        f"{page.relative_to(ROOT).as_posix()}::line:{number}"
        for page in PAGES
        for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1)
        if re.match(r"[\s>*+-]*(```+|~~~+) *\{? *\.?py", line, re.IGNORECASE)
    ]
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "docs/en", "README.md"]
    listing = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert re.findall(r"^(.*::line:\d+),", listing, re.MULTILINE) == sorted(
        written, key=listing.find
    )
    assert any(name.startswith("README.md") for name in written)
    assert any(name.startswith("docs/") for name in written)


FOLDED = """??? note "Solution"
    ```python
    for number in (1, 2):

        print(number)
    ```

    ```text title="output"
    1
    2
    ```
"""
PAGES_AND_VERDICTS = {
    "as-written": ('```python\nprint(1)\n```\n\n```text title="output"\n1\n```\n', True),
    "other-output": ('```python\nprint(1)\n```\n\n```text title="output"\n2\n```\n', False),
    "no-output": ('```python\npass\n```\n```text title="output"\n2\n```\n', False),
    "output-not-shown": ("```python\nprint(1)\n```\n", False),
    "with-a-title": ("```python title='a.py'\nassert False\n```\n", False),
    "in-a-list": ("- item\n\n    ```python\n    if True:\n        assert False\n    ```\n", False),
    "folded": (FOLDED, True),
    "folded-other-output": (FOLDED.replace("    2", "    3"), False),
    "shared-names": ("```python\nx = 1\n```\n\nText.\n\n```python\nx + 1\n```\n", True),
}


def test_a_page_fails_when_its_output_is_not_as_written(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text((ROOT / "conftest.py").read_text(encoding="utf-8"))
    for name, (text, _) in PAGES_AND_VERDICTS.items():
        (tmp_path / f"{name}.md").write_text(text)
    command = [sys.executable, "-m", "pytest", "-rA", "-c", "/dev/null", "--rootdir", "."]
    told = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False).stdout
    failed = set(re.findall(r"^FAILED (.*)\.md::", told, re.MULTILINE))
    passed = set(re.findall(r"^PASSED (.*)\.md::", told, re.MULTILINE))
    assert passed == {name for name, (_, good) in PAGES_AND_VERDICTS.items() if good}, told
    assert failed == PAGES_AND_VERDICTS.keys() - passed, told
