"""What looks at the pages in a browser notices what a reader would find broken there."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from .docs_browser import browser, look, searched, switched

pytest.importorskip("playwright", reason="pages are looked at where the dev extra is installed")
pytestmark = pytest.mark.skipif(not shutil.which("chromium"), reason="there is no Chromium")

OTHER = "<button class='md-clipboard' onclick='navigator.clipboard.writeText(`two`)'>copy</button>"
PLANTED = {
    "logs": ("<script>console.error('oh')</script>", "console: oh"),
    "throws": ("<script>null.x</script>", "a script failed: Cannot read properties of null"),
    "lacks": ("<img src='gone.png'>", "404 "),
    "asks": ("<img src='http://127.0.0.1:9/a.png'>", "asks for http://127.0.0.1:9/a.png"),
    "diagram": ("<div class='diagram'>graph</div>", "a diagram is not drawn"),
    "formula": ("<span class='arithmatex'>x</span>", "a formula is not drawn"),
    "letters": ("<p>\u0378</p>", "no font has \u0378"),
    "wide": ("<p style='width:500px'>x</p>", "is 110 pixels too wide for a phone"),
    "copies": (f"<div class='highlight'><code>one</code>{OTHER}</div>", "the button beside code"),
}
HEAD = "<!doctype html><meta charset=utf-8><meta name=viewport content='width=device-width'>"
HEAD += "<link rel=icon href=data:,><style>body{margin:0}</style>"


@pytest.fixture(scope="module")
def chromium() -> Iterator[object]:
    with browser() as its:
        yield its


def written(site: Path, name: str, body: str) -> None:
    (site / name).mkdir()
    (site / name / "index.html").write_text(HEAD + body, encoding="utf-8")


def test_what_is_planted_is_noticed_where_it_is(tmp_path: Path, chromium, monkeypatch) -> None:
    monkeypatch.setattr("tests.docs_browser.SLOWEST_DRAWING_MS", 200)
    written(tmp_path, "fine", "<p>한글 かな 漢字 text</p><button class='md-clipboard'>x</button>")
    for name, (body, _) in PLANTED.items():
        written(tmp_path, name, body)
    found = look(chromium, tmp_path)
    for name, (_, fact) in PLANTED.items():
        assert any(it.url == name and it.fact.startswith(fact) for it in found), (name, found)
    assert not [it for it in found if it.url == "fine"]


def test_a_search_that_finds_nothing_is_noticed(tmp_path: Path, chromium, monkeypatch) -> None:
    monkeypatch.setattr("tests.docs_browser.SLOWEST_SEARCH_MS", 200)
    body = "<input class='md-search__input'><a class='md-search-result__link' href='/there/#at'>"
    written(tmp_path, "page", body)
    words = [("page/", "x", "there"), ("page/", "x", "there/#at"), ("page/", "x", "there/#off")]
    (fault,) = searched(chromium, tmp_path, words)
    assert fault.fact == "searching for 'x' does not find there/#off"


def test_a_switch_that_leaves_the_page_is_noticed(tmp_path: Path, chromium) -> None:
    starts = {"en": "", "ko": "ko/", "ja": "ja/"}
    for language, start in starts.items():
        for page in ("", "kept/", "lost/"):
            ways = {its: f"/{way}{page}" for its, way in starts.items()}
            if page == "lost/":
                ways["ja"] = "/ja/kept/"
            links = [
                f"<a class=md-select__link hreflang={its} href={ways[its]}>x</a>" for its in ways
            ]
            folder = tmp_path / start / page
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "index.html").write_text(f"<html lang={language}>{HEAD}{''.join(links)}")
    faults = switched(chromium, tmp_path, ["", "kept/", "lost/"])
    assert [its.url for its in faults] == ["lost/", "lost/"]  # and from there on, until it is left
    assert faults[0].fact.startswith("in ja the switch leads to")
