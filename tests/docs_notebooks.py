"""The chapters of the tutorial as notebooks, made of their pages by jupytext.

As a hook of the build (see mkdocs.yml) it puts one beside each chapter, in every language, with the
outputs that the page shows, and links to it.

`python tests/docs_notebooks.py` runs the English ones and says where one prints something
else; with a folder after it, it writes them there, run, and with the pictures of plans and layouts.
"""

from __future__ import annotations

import base64
import contextlib
import io
import os
import re
import sys
from pathlib import Path
from typing import Any

import jupytext
from nbformat import v4

CHAPTERS = Path(__file__).parents[1] / "docs" / "en" / "tutorial"
OFFER = {
    "en": "This chapter as a notebook",
    "ko": "이 장을 노트북으로 받기",
    "ja": "この章をノートブックで",
}
KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}
FLAG = "--xla_force_host_platform_device_count=8"
START = f'import os\n\nos.environ.setdefault("XLA_FLAGS", "{FLAG}")  # eight devices'

FENCE = re.compile(r"^```([^\n`]*)\n(.*?)^```$\n?", re.MULTILINE | re.DOTALL)
OUTPUT = 'text title="output"'
FOLDED = re.compile(r"^[?!]{3}\+? *[\w-]+ *\"(.*)\"$\n((?:^(?: {4}.*)?$\n?)+)", re.MULTILINE)
PICTURE = re.compile(r"(!\[[^\]]*\]\()((?!http)[^)]+)\)")
LINK = re.compile(r"(`+[^`]+`+)|(?<!!)\[((?:[^\]`]|`[^`]*`)+)\](?:\((?!http)[^)]+\)|\[[^\]]+\])")
# What a notebook draws: a call of print leaves that out.
DRAWN = re.compile(r"^print\((plan|ptk\.summary\(.+\)|.+\.over\(.+\)\.plan\(.+\))\)$", re.MULTILINE)


def notebook(text: str, folder: Path) -> Any:
    """Make a notebook of a page that lies in a folder, with the outputs that it shows."""
    made = jupytext.reads(f"```python\n{START}\n```\n\n{plain(text, folder)}", fmt="md")
    made.metadata = {"kernelspec": KERNEL}
    outputs = iter(shown_outputs(text))
    cells = [cell for cell in made.cells if cell.cell_type == "code"]
    for number, cell in enumerate(cells):
        cell.source = DRAWN.sub(r"display(\1)", cell.source)
        cell.execution_count = number + 1
        if number and (printed := next(outputs)):
            cell.outputs = [v4.new_output("stream", name="stdout", text=printed)]
    for number, cell in enumerate(made.cells):
        cell.id = f"cell-{number}"  # not one drawn by lot: the site is the same on each build
    return made


def shown_outputs(text: str) -> list[str]:
    """What the page shows below each block of Python; "" for those that print nothing."""
    shown: list[str] = []
    for info, body in FENCE.findall(unfolded(text)):
        if info == OUTPUT:
            shown[-1] = body
        elif info == "python":
            shown.append("")
    return shown


def unfolded(text: str) -> str:
    """Solutions and warnings as ordinary text: a cell cannot stand in a box."""
    return FOLDED.sub(lambda its: f"**{its[1]}**\n\n{_dedented(its[2])}\n", text)


def _dedented(block: str) -> str:
    return re.sub("^    ", "", block, flags=re.MULTILINE)


def plain(text: str, folder: Path) -> str:
    """The page as Jupyter reads Markdown: no outputs, no anchors, no links to other pages."""
    pieces = re.split(r"(^```.*?^```$\n?)", unfolded(text), flags=re.MULTILINE | re.DOTALL)
    told = [piece if piece.startswith("```") else _prose(piece, folder) for piece in pieces]
    return "".join(piece for piece in told if not piece.startswith(f"```{OUTPUT}"))


def _prose(text: str, folder: Path) -> str:
    text = re.sub(r" \{#[a-z0-9-]+\}$", "", text, flags=re.MULTILINE)
    text = re.sub(r"\\\(\s*(.*?)\s*\\\)", r"$\1$", text, flags=re.DOTALL)
    text = re.sub(r"^\\\[$|^\\\]$", "$$", text, flags=re.MULTILINE)
    text = PICTURE.sub(lambda its: f"{its[1]}{_embedded(folder / its[2])})", text)
    return LINK.sub(lambda its: its[1] or its[2], text)


def _embedded(picture: Path) -> str:
    return f"data:image/svg+xml;base64,{base64.b64encode(picture.read_bytes()).decode()}"


def on_page_markdown(markdown: str, page: Any, **_: object) -> str:
    """Link a chapter to its notebook, below its title."""
    if not page.file.norm_src_uri.startswith("tutorial/"):
        return markdown
    name = f"{Path(page.file.src_uri).stem}.ipynb"
    title, rest = markdown.split("\n", 1)
    link = f'<a class="notebook" href="{name}" download>{OFFER[page.file.locale_alternate_of]}</a>'
    return f"{title}\n\n{link}\n{rest}"


def on_post_page(output: str, page: Any, **_: object) -> str:
    """Write the notebook of a chapter into its folder."""
    if page.file.norm_src_uri.startswith("tutorial/"):
        source, target = Path(page.file.abs_src_path), Path(page.file.abs_dest_path)
        target.parent.mkdir(parents=True, exist_ok=True)
        made = notebook(source.read_text(encoding="utf-8"), source.parent)
        jupytext.write(made, target.with_name(f"{source.stem}.ipynb"))
    return output


def run(made: Any, name: str) -> list[str]:
    """Run every cell, keep what comes out of it, and return where that differs from the page."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    wrong = []
    for cell in (its for its in made.cells if its.cell_type == "code"):
        wanted = "".join(its.text for its in cell.outputs)
        drawn: list[Any] = []
        namespace["display"] = drawn.append
        told = io.StringIO()
        with contextlib.redirect_stdout(told):
            exec(compile(cell.source, name, "exec", dont_inherit=True), namespace)
        cell.outputs = [v4.new_output("stream", name="stdout", text=told.getvalue())]
        cell.outputs = cell.outputs if told.getvalue() else []
        for its in drawn:
            data = {"text/html": its._repr_html_(), "text/plain": str(its)}
            cell.outputs.append(v4.new_output("display_data", data))
        printed = "".join(f"{its}\n" for its in drawn) + told.getvalue()
        if printed != wanted:
            wrong.append(f"{name}: a cell prints {printed!r}, the page shows {wanted!r}")
    return wrong


def main() -> int:
    """Run all, tell."""
    os.environ["XLA_FLAGS"], os.environ["JAX_PLATFORMS"] = FLAG, "cpu"
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    wrong: list[str] = []
    pictures = 0
    for page in sorted(CHAPTERS.glob("*.md")):
        made = notebook(page.read_text(encoding="utf-8"), page.parent)
        wrong += run(made, page.stem)
        outputs = [its for cell in made.cells for its in cell.get("outputs", [])]
        pictures += sum(its.output_type == "display_data" for its in outputs)
        if target:
            target.mkdir(parents=True, exist_ok=True)
            jupytext.write(made, target / f"{page.stem}.ipynb")
    print(f"{pictures} pictures, {len(wrong)} faults", *wrong, sep="\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
