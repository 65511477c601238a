"""Every page has its twins, and they say the same: only words differ between languages."""

from __future__ import annotations

import re

import pytest

from .docs_languages import joined, with_examples
from .docs_twins import (
    DOCS,
    LANGUAGES,
    ROOT,
    copied,
    differences,
    english_pages,
    faults,
    page_at,
    path_of,
)

COMPLETE = ("ko", "ja")
"""The languages that have every page."""

THERE = [
    (language, page_at(path)[1])
    for language in LANGUAGES
    for path in [*sorted((DOCS / language).rglob("*.md")), *ROOT.glob(f"README.{language}.md")]
]


@pytest.mark.parametrize(("language", "page"), THERE)
def test_a_page_differs_from_its_english_twin_in_words_only(language: str, page: str) -> None:
    assert faults(language, page) == []


@pytest.mark.parametrize("language", COMPLETE)
def test_no_page_is_missing(language: str) -> None:
    assert [page for page in english_pages() if not path_of(language, page).is_file()] == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_what_stands_beside_the_pages_is_translated(language: str) -> None:
    settings = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    (own,) = re.findall(rf"- locale: {language}\n(.*?)(?=- locale|  - \w)", settings, re.DOTALL)
    (nav,) = re.findall(r"^nav:\n(.*?)^\w", settings, re.DOTALL | re.MULTILINE)
    (translated,) = re.findall(r"nav_translations: \{(.*)\}", own)
    names = re.findall(r"^  - ([^:\n]+):", nav, re.MULTILINE)
    assert len(names) >= 5
    assert [name for name in names if f"{name}: " not in translated] == []


ENGLISH = """# Page {#page}

See [here](a.md#b), [`ptk.vmap`][pytreekit.vmap] and ![a tree](a.svg).

## Part {#part}

```python
print(1)  # one
```

```text title="output"
1
```

| a | `b|c` |
|---|-------|
| 1 | 2     |

??? note "Solution"
    - first
    - second, \\(x^2\\)

    ```python
    pass
    ```

```mermaid
flowchart TD
    accTitle: A choice
    one["one device"] -- no --> two(["two"])
```

**1.** Do it.

::: pytreekit.vmap
    options:
      members: []
"""
KOREAN = (
    ENGLISH.replace("Page", "쪽").replace("See", "참고:").replace("Part", "부분")
    .replace("[here]", "[여기]").replace("a tree", "트리").replace("Solution", "풀이")
    .replace("first", "첫째").replace("A choice", "선택").replace("one device", "디바이스 하나")
    .replace("-- no -->", "-- 아니요 -->").replace("Do it.", "해 봅니다.").replace("| a ", "| 가 ")
)  # fmt: skip
PLANTED = {
    "{#part}": ("{#teil}", "has the headings #{#page} ##{#teil}"),
    "## ": ("### ", "has the headings"),
    "# one": ("# 하나", "#part: fenced block 1 differs: 'print(1)  # 하나', in English"),
    "\n1\n": ("\n2\n", "#part: fenced block 2 differs: '2', in English '1'"),
    "    pass": ("    ...", "#part: fenced block 3 differs"),
    'two(["two"])': ('two["two"]', "#part: fenced block 4 differs"),
    ' title="output"': ("", "#part: fenced block 2 differs"),
    "a.md#b": ("a.md", "#page: link 'a.md': 1, in English 0"),
    "[pytreekit.vmap]": ("[pytreekit.bind]", "#page: link 'pytreekit.bind': 1, in English 0"),
    "a.svg": ("b.svg", "#page: picture 'a.svg': 0, in English 1"),
    "![트리]": ("![]", "#page: shows a.svg, without a text"),
    "| 1 | 2     |\n": ("", "#part: table row 'of 2': 2, in English 3"),
    "    - second": ("    second", "#part: list item 'any': 1, in English 2"),
    "x^2": ("x^3", "#part: formula"),
    "??? note": ("!!! note", "#part: admonition '!!!note': 1, in English 0"),
    "**1.**": ("1)", "#part: exercise '**1.**': 0, in English 1"),
    "members: []": ("members: [plan]", "#part: directive"),
    "해 봅니다.": ("`jit`", "speaks of `jit`, in English not"),
    "`b|c`": ("b", "never speaks of `b|c`"),
}


def test_words_may_differ() -> None:
    assert KOREAN != ENGLISH
    assert list(differences(KOREAN, ENGLISH)) == []


@pytest.mark.parametrize("taken", PLANTED)
def test_what_differs_is_told(taken: str) -> None:
    put, told = PLANTED[taken]
    assert KOREAN.count(taken) == 1, taken
    found = list(differences(KOREAN.replace(taken, put), ENGLISH))
    assert any(its.startswith(told) for its in found), found


def test_code_and_outputs_can_be_copied_and_diagrams_stay() -> None:
    stale = KOREAN.replace("# one", "# old").replace("\n1\n", "\n0\n").replace("    pass", "    1")
    assert copied(stale, ENGLISH) == KOREAN
    assert copied(KOREAN.replace("```", ""), ENGLISH) == KOREAN.replace("```", "")


INDEX = "# Codes {#codes}\n\n```python\n1\n```\n\n## A {#a}\n\nWhy.\n\n```python\n2\n```\n\n"
INDEX += '```text title="output"\n3\n```\n\nThe fix.\n'
LEFT = "# 코드 {#codes}\n\n<!-- example -->\n\n## A {#a}\n\n원인.\n\n<!-- example -->\n\n해결.\n"


def test_an_example_stands_once_for_all_languages() -> None:
    whole = with_examples(LEFT, INDEX)
    assert whole == INDEX.replace("Codes", "코드").replace("Why", "원인").replace("The fix", "해결")
    assert list(differences(LEFT, INDEX)) == []
    with pytest.raises(ValueError, match="#a has 2 of <!-- example -->"):
        with_examples(LEFT + "<!-- example -->", INDEX)


def test_lines_of_japanese_are_joined_and_nothing_else() -> None:
    text = "# 題 {#a}\n\n一行、\n二行の\n`jit` と\nJAX\nです。\n\n- 一つ\n- 二つは\n  2です\n\n"
    text += '??? note "解答"\n    答えは\n    三つ。\n\n1. 甲\n2. 乙\n\n'
    text += '```python\n"一"\n二\n```\n\n| 表 |\n|---|\n| 行 |\n'
    folds = {"行、\n二": "行、二", "の\n`": "の`", "と\nJ": "とJ", "X\nで": "Xで", "は\n  2": "は2"}
    wanted = text
    for wrapped, whole in {**folds, "は\n    三": "は三"}.items():
        assert wanted.count(wrapped) == 1
        wanted = wanted.replace(wrapped, whole)
    assert joined(text) == wanted
