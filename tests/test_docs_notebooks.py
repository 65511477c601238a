"""A chapter as a notebook: its words and its code, with what the page shows below it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("jupytext", reason="it makes the notebooks: of the docs extra")

from .docs_notebooks import CHAPTERS, FLAG, notebook, run

PAGE = """# A chapter {#chapter}

See [this](other.md#x), [`ptk.vmap`][pytreekit.vmap] and `x[0][1]`; \\(x^2\\).

![a dot](dot.svg)

```python
print(1)
```

```text title="output"
1
```

??? note "Solution"
    Two.

    ```python
    two = 2
    print(two)
    ```

    ```text title="output"
    2
    ```

    The end.
"""


@pytest.fixture
def made(tmp_path: Path):
    (tmp_path / "dot.svg").write_text("<svg/>")
    return notebook(PAGE, tmp_path)


def test_blocks_become_cells_and_outputs_theirs(made) -> None:
    code = [its for its in made.cells if its.cell_type == "code"]
    assert FLAG in code[0].source
    assert [its.source for its in code[1:]] == ["print(1)", "two = 2\nprint(two)"]
    assert [its.outputs[0].text for its in code[1:]] == ["1\n", "2\n"]


def test_words_need_nothing_of_the_site(made) -> None:
    words = "\n\n".join(its.source for its in made.cells if its.cell_type == "markdown")
    assert words.strip() == (
        "# A chapter\n\nSee this, `ptk.vmap` and `x[0][1]`; $x^2$.\n\n"
        "![a dot](data:image/svg+xml;base64,PHN2Zy8+)\n\n**Solution**\n\nTwo.\n\nThe end."
    )


def test_what_is_printed_otherwise_is_told(made) -> None:
    assert run(made, "page") == []
    made.cells[-2].outputs[0].text = "3\n"
    (told,) = run(made, "page")
    assert told == "page: a cell prints '2\\n', the page shows '3\\n'"


def test_plans_are_drawn(tmp_path: Path) -> None:
    page = "```python\nimport pytreekit as ptk\nprint(ptk.summary({'w': 1.0}))\n```\n"
    made = notebook(page, tmp_path)
    assert made.cells[-1].source.endswith("\ndisplay(ptk.summary({'w': 1.0}))")
    run(made, "page")
    assert "<table" in made.cells[-1].outputs[0].data["text/html"]


def test_every_chapter_is_a_notebook_without_what_only_the_site_reads() -> None:
    chapters = sorted(CHAPTERS.glob("*.md"))
    assert len(chapters) == 7
    for chapter in chapters:
        text = json.dumps(notebook(chapter.read_text(encoding="utf-8"), chapter.parent).dict())
        assert [its for its in ("{#", "???", "](../", ".md)", "\\\\(") if its in text] == []
