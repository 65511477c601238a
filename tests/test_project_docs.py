"""The documentation builds, offline and strictly, and what it links to is there."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from pathlib import Path

import pytest

from .docs_site import ROOT, build, faults

pytest.importorskip("mkdocs", reason="the pages are built where the dev or docs extra is installed")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    run = build(folder)
    assert run.returncode == 0, run.stdout + run.stderr
    return folder


def test_every_link_and_load_stays_on_the_site(site: Path) -> None:
    assert faults(site) == []


@pytest.mark.parametrize(("language", "folder"), [("en", ""), ("ko", "ko"), ("ja", "ja")])
def test_each_language_has_its_pages_and_searches_in_them(
    site: Path, language: str, folder: str
) -> None:
    page = (site / folder / "guide" / "checked-vmap" / "index.html").read_text(encoding="utf-8")
    assert f'<html lang="{language}"' in page
    base = json.loads(re.findall(r'<script id="__config"[^>]*>(.*?)</script>', page)[0])["base"]
    assert (site / folder / "guide" / "checked-vmap" / base).resolve() == (site / folder).resolve()
    index = json.loads((site / folder / "search" / "search_index.json").read_text(encoding="utf-8"))
    found = {its["location"].split("#")[0] for its in index["docs"]}
    assert found == {"", "faults/", *(its for its in found if its.count("/") == 2)}
    assert len(found) == len(list((ROOT / "docs" / "en").rglob("*.md")))
    assert index["config"]["lang"] == [language]


def test_the_language_switch_stays_on_the_page_below_any_path(site: Path) -> None:
    for page, links in {
        "tutorial/vmap": ["./", "../../ko/tutorial/vmap/", "../../ja/tutorial/vmap/"],
        "ko/tutorial/vmap": ["../../../tutorial/vmap/", "./", "../../../ja/tutorial/vmap/"],
        "ja": ["../", "../ko/", "./"],
    }.items():
        text = (site / page / "index.html").read_text(encoding="utf-8")
        assert re.findall(r'<a href="([^"]*)" hreflang', text) == links


def test_examples_in_the_reference_are_shown_as_code(site: Path) -> None:
    """Under `Example:`, `>>>` is read as three nested quotations; under `Examples:`, as code."""
    pages = list((site / "reference").rglob("*.html"))
    assert pages
    assert [page for page in pages if "<blockquote>" in page.read_text(encoding="utf-8")] == []


FENCED = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
CHAPTERS = sorted((ROOT / "docs" / "en" / "tutorial").glob("*.md"))


def test_every_heading_has_an_anchor_that_all_languages_can_share() -> None:
    pages = sorted((ROOT / "docs" / "en").rglob("*.md"))
    bare = [
        f"{path.name}: {line}"
        for path in pages
        for line in FENCED.sub("", path.read_text(encoding="utf-8")).splitlines()
        if re.match("#+ ", line) and not re.search(r" \{#[a-z0-9-]+\}$", line)
    ]
    assert len(pages) > 20
    assert bare == []


@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda path: path.stem)
def test_every_chapter_has_a_picture_exercises_and_a_self_check(chapter: Path) -> None:
    text = chapter.read_text(encoding="utf-8")
    exercises, check = text.split("{#exercises}")[1].split("{#self-check}")
    assert "```mermaid" in text or "](../../assets/pictures/" in text
    assert len(re.findall(r"^\*\*\d\.\*\* ", exercises, re.MULTILINE)) >= 3
    for part, word in (exercises, "Solution"), (check, "Answer"):
        questions = re.findall(r"^\*\*[^*]+\*\*(?!:)", part, re.MULTILINE)
        assert part.count(f'??? note "{word}"') == len(questions) >= 3


def test_the_landing_page_leads_to_every_page() -> None:
    pages = (ROOT / "docs" / "en").rglob("*.md")
    text = (ROOT / "docs" / "en" / "index.md").read_text(encoding="utf-8")
    assert {its.relative_to(ROOT / "docs" / "en").as_posix() for its in pages} == {
        "index.md",
        *re.findall(r"\]\(([\w/-]+\.md)\)", text),
    }


PICTURE = '<img src="../a.png" alt="x">'
DRAWN = '<script src="../assets/js/draw.js"></script>'


@pytest.mark.parametrize(
    ("html", "told"),
    [
        ('<script src="https://cdn.example.org/a.js"></script>', "another host"),
        ('<link rel="stylesheet preload" href="//fonts.example.org/a.css">', "another host"),
        ('<img src="gone.png" alt="x">', "which is not there"),
        ('<a href="../nowhere/">x</a>', "which is not there"),
        ('<a href="#nowhere">x</a>', "no such anchor"),
        ('<a href="../#nowhere">x</a>', "no such anchor"),
        ('<pre class="mermaid">graph</pre>', "another host"),
        ('<div class="diagram">graph</div>', "no script that draws it"),
        (DRAWN + '<div class="diagram">graph</div>', "what draws it is not there"),
        (DRAWN + '<span class="arithmatex">x</span>', "what draws it is not there"),
        ('<img src="../a.png">', "without a text in its place"),
    ],
)
def test_a_planted_fault_on_a_page_is_noticed(tmp_path: Path, html: str, told: str) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "index.html").write_text("<html><body><h1 id='top'>x</h1></body></html>")
    (tmp_path / "a.png").touch()
    (tmp_path / "assets" / "js").mkdir(parents=True)
    (tmp_path / "assets" / "js" / "draw.js").touch()
    page = tmp_path / "deep" / "index.html"
    page.write_text('<a href="../#top">x</a><a href="https://a.org/#any">x</a>' + PICTURE)
    assert faults(tmp_path) == []
    page.write_text(html)
    (found,) = faults(tmp_path)
    assert told in found


def test_what_a_sheet_loads_is_on_the_site(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("<p>x</p>")
    (tmp_path / "c.woff2").touch()
    (tmp_path / "a.css").write_text(
        "@import '//example.org/a.css'; p {background: url(b.png)} @font-face {src: url(c.woff2)}"
    )
    assert faults(tmp_path) == [
        "/a.css: loads //example.org/a.css from another host",
        "/a.css: loads b.png, which is not there",
    ]


def test_what_draws_is_as_it_was_published() -> None:
    folder = ROOT / "docs" / "assets" / "vendor"
    sums = [line.split() for line in (folder / "SHA256SUMS").read_text().splitlines()]
    assert {name for _, name in sums} == {
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*")
        if path.is_file() and path.suffix != ".txt" and path.name != "SHA256SUMS"
    }
    for wanted, name in sums:
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == wanted, name


def test_a_reference_to_a_name_that_is_gone_fails_the_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("docs", "pytreekit"):
        shutil.copytree(ROOT / name, tmp_path / name)
    (tmp_path / "tests").mkdir()
    for name in ("mkdocs.yml", "tests/docs_languages.py", "tests/docs_notebooks.py"):
        shutil.copy(ROOT / name, tmp_path / name)
    monkeypatch.setenv("DOCS_ONLY", "en")
    page = tmp_path / "docs" / "en" / "reference" / "engine.md"
    page.write_text(page.read_text() + "\n::: pytreekit.gone\n")
    run = build(tmp_path / "site", tmp_path)
    assert run.returncode != 0
    assert "pytreekit.gone" in run.stdout + run.stderr
