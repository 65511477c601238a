"""Hold a page against its English twin: the same headings, code, outputs, pictures and links.

`python tests/docs_twins.py` prints how the pages of the other languages differ from the English
ones, and which are missing; with paths after it, it looks only at these. `--copy` before the paths
first puts the code and the outputs of the English page into them, where they have as many blocks.
"""

from __future__ import annotations

import dataclasses
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

if __package__:
    from .docs_languages import EXAMPLE, sections, with_examples
else:  # it is run as a script
    from docs_languages import EXAMPLE, sections, with_examples

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
README = "README.md"
LANGUAGES = ("ko", "ja")

FENCE = re.compile(r"^( *)(`{3,})([^\n`]*)\n(.*?)^\1\2 *$\n?", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^(#+) .*?(\{#[a-z0-9-]+\})?$", re.MULTILINE)
FOLD = re.compile(r"^( *)([?!]{3}\+?) *([\w-]+)", re.MULTILINE)
PICTURE = re.compile(r"!\[([^\]]*)\]\(([^)\s]+)")
LINK = re.compile(r"(?<!\!)\[[^\]]*\](?:\(([^)\s]+)[^)]*\)|\[([^\]]+)\])")
DIRECTIVE = re.compile(r"^::: .*(?:\n {4}.*)*", re.MULTILINE)
ROW = re.compile(r"^ *\|.*$", re.MULTILINE)
ITEM = re.compile(r"^ *(?:[-*]|\d+\.) ", re.MULTILINE)
NUMBERED = re.compile(r"^\*\*\d+\.\*\*", re.MULTILINE)
FORMULA = re.compile(r"\\\(.*?\\\)|\\\[.*?\\\]", re.DOTALL)
CODE = re.compile(r"(`+)(?!`)(.+?)(?<!`)\1(?!`)", re.DOTALL)
LABEL = re.compile(r'"[^"]*"|(?<=-- )[^-]*(?= -->)|(?<=acc(?:Title|Descr): ).*|\|[^|]*\|')


@dataclasses.dataclass(frozen=True)
class Fence:
    """A fenced block: code, an output, a diagram."""

    indent: str
    info: str
    body: str

    @property
    def compared(self) -> str:
        """What must be equal: all but the words of a diagram."""
        body = LABEL.sub('""', self.body) if self.info.startswith("mermaid") else self.body
        return f"{self.indent}{self.info}\n{body}"


def fences(text: str) -> list[Fence]:
    """The fenced blocks of a page, in order."""
    return [Fence(its[1], its[3].strip(), its[4]) for its in FENCE.finditer(text)]


def counted(text: str) -> Iterator[tuple[str, Counter[str]]]:
    """What the prose of one section holds, beside words."""
    prose = FENCE.sub("", text)
    yield "admonition", Counter(map("".join, FOLD.findall(prose)))
    yield "picture", Counter(target for _, target in PICTURE.findall(prose))
    yield "link", Counter(target or name for target, name in LINK.findall(CODE.sub(_filled, prose)))
    yield "directive", Counter(DIRECTIVE.findall(prose))
    rows = [CODE.sub("", row).replace(r"\|", "").count("|") for row in ROW.findall(prose)]
    yield "table row", Counter(f"of {bars - 1}" for bars in rows)
    yield "list item", Counter({"any": len(ITEM.findall(prose))})
    yield "exercise", Counter(NUMBERED.findall(prose))
    yield "formula", Counter(FORMULA.findall(prose))


def _filled(code: re.Match[str]) -> str:
    """Brackets in code are no links."""
    return re.sub(r"[][()]", "_", code[0])


def differences(other: str, english: str) -> Iterator[str]:
    """How a page differs from its English twin, its words left aside."""
    if EXAMPLE in other:
        other = with_examples(other, english)
    heads = [[level + anchor for level, anchor in HEADING.findall(FENCE.sub("", its))]
             for its in (english, other)]  # fmt: skip
    if heads[0] != heads[1]:
        yield f"has the headings {' '.join(heads[1])}, in English {' '.join(heads[0])}"
        return
    for (name, mine), (_, wanted) in zip(sections(other), sections(english), strict=True):
        yield from (f"#{name}: {its}" for its in section_differences(mine, wanted))
    codes = [
        {" ".join(its[2].split()) for its in CODE.finditer(FENCE.sub("", page))}
        for page in (english, other)
    ]
    yield from (f"never speaks of `{code}`" for code in sorted(codes[0] - codes[1]))
    yield from (f"speaks of `{code}`, in English not" for code in sorted(codes[1] - codes[0]))


def section_differences(mine: str, wanted: str) -> Iterator[str]:
    """How one section differs."""
    blocks, theirs = fences(mine), fences(wanted)
    if len(blocks) != len(theirs):
        yield f"has {len(blocks)} fenced blocks, in English {len(theirs)}"
    for number, (block, its) in enumerate(zip(blocks, theirs, strict=False), 1):
        if block.compared != its.compared:
            yield f"fenced block {number} differs: {_first_difference(block, its)}"
    for (kind, has), (_, wants) in zip(counted(mine), counted(wanted), strict=True):
        yield from (
            f"{kind} {what!r}: {has[what]}, in English {wants[what]}"
            for what in sorted((has | wants).keys())
            if has[what] != wants[what]
        )
    untold = [target for words, target in PICTURE.findall(FENCE.sub("", mine)) if not words]
    yield from (f"shows {target}, without a text in its place" for target in untold)


def _first_difference(block: Fence, its: Fence) -> str:
    lines = zip(f"{block.compared}\n.".split("\n"), f"{its.compared}\n.".split("\n"), strict=False)
    return next(f"{mine!r}, in English {wanted!r}" for mine, wanted in lines if mine != wanted)


def copied(other: str, english: str) -> str:
    """Give a page the code and the outputs of its English twin, and leave its diagrams."""
    blocks, theirs = fences(other), iter(fences(english))
    if len(blocks) != len(fences(english)):
        return other

    def replace(found: re.Match[str]) -> str:
        its = next(theirs)
        if its.info.startswith("mermaid"):
            return found[0]
        return f"{its.indent}```{its.info}\n{its.body}{its.indent}```\n"

    return FENCE.sub(replace, other)


def english_pages() -> list[str]:
    """Every English page, by its path below the folder of its language; and README.md."""
    pages = (its.relative_to(DOCS / "en").as_posix() for its in (DOCS / "en").rglob("*.md"))
    return [README, *sorted(pages)]


def path_of(language: str, page: str) -> Path:
    """Where a page lies in a language."""
    if page == README:
        return ROOT / (README if language == "en" else f"README.{language}.md")
    return DOCS / language / page


def page_at(path: Path) -> tuple[str, str]:
    """The language and the name of the page at a path."""
    if path.parent == ROOT:
        return path.suffixes[0].removeprefix("."), README
    language, *parts = path.relative_to(DOCS).parts
    return language, "/".join(parts)


def text_of(language: str, page: str) -> str:
    """A page as it stands; links to pages of its language as those to English ones."""
    text = path_of(language, page).read_text(encoding="utf-8")
    return text.replace(f"(docs/{language}/", "(docs/en/") if page == README else text


def faults(language: str, page: str) -> list[str]:
    """What is wrong with one page in another language."""
    if not path_of(language, page).is_file():
        return ["is missing"]
    if not path_of("en", page).is_file():
        return ["has no English twin"]
    return list(differences(text_of(language, page), text_of("en", page)))


def main(arguments: list[str]) -> int:
    """Compare, or copy, and tell."""
    pages = [page_at(Path(its).resolve()) for its in arguments if its != "--copy"]
    if "--copy" in arguments:
        for language, page in pages:
            path = path_of(language, page)
            text = path.read_text(encoding="utf-8")
            path.write_text(copied(text, text_of("en", page)), encoding="utf-8")
    pages = pages or [(language, page) for language in LANGUAGES for page in english_pages()]
    wrong = [
        f"{path_of(language, page).relative_to(ROOT)}: {its}"
        for language, page in pages
        for its in faults(language, page)
    ]
    print(f"{len(pages)} pages, {len(wrong)} differences", *wrong, sep="\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
