"""The report of a plan: one file that asks for nothing, by mouse and by keys, light and dark."""

from __future__ import annotations

import math
import re
import shutil
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import jax
import pytest

import pytreekit as ptk
from pytreekit.commands.answers import bundled
from pytreekit.sharding.plans.report import html
from pytreekit.show import report

from .docs_browser import browser

RULES = [("kernel", "data model"), ("bias", "model"), ("**", "replicate")]
EVIL = "<script>alert(1)</script>\x1b\ud800&\"'"
WIRES = [
    {"kind": "all-reduce", "bytes_per_step": 4_194_304, "axes": ("data",), "line": "train.py:12"},
    {"kind": "all-gather", "bytes_per_step": 1_024, "axes": ("data", "model"), "line": EVIL},
]


def shaped(*shape: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, "float32")


def planned(more: dict[str, Any] | None = None) -> ptk.ShardingPlan:
    layers = {str(n): {"kernel": shaped(8, 64), "bias": shaped(64)} for n in range(3)}
    tree = {"embed": shaped(100, 8), "layers": layers, **(more or {})}
    return ptk.ShardingPlan(tree, RULES, {"data": 4, "model": 2})


class Seen(HTMLParser):
    """The tags of a page, each with its attributes; that they are nested as they should be."""

    VOID = ("meta", "link", "input", "wbr")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_a_report_is_whole_and_speaks_of_nothing_elsewhere() -> None:
    text = html(planned({EVIL: shaped(2, 3)}), EVIL, collectives=WIRES)
    seen = Seen(text)
    assert [tag for tag, _ in seen.tags].count("script") == 1
    assert not re.search(r"https?:|//|@import|url\(", re.sub(r"^ *//.*", "", text))
    links = [its.get("href") or its.get("src") for _, its in seen.tags]
    assert {link for link in links if link} == {"data:,", "#arrays-title"}
    assert text.encode("utf-8").isascii() or "\x1b" not in text
    policy = next(its["content"] for tag, its in seen.tags if "http-equiv" in its)
    assert policy is not None
    assert policy.startswith("default-src 'none'")


def test_every_table_and_control_has_its_name() -> None:
    seen = Seen(html(planned(), "plan", collectives=WIRES))
    tags = [tag for tag, _ in seen.tags]
    assert tags.count("caption") == tags.count("table") == 3
    assert all(its.get("scope") in {"row", "col"} for tag, its in seen.tags if tag == "th")
    ids = {its["id"] for _, its in seen.tags if "id" in its}
    sections = [its["aria-labelledby"] for tag, its in seen.tags if tag == "section"]
    assert set(sections) <= ids
    assert all(its.get("aria-label") for _, its in seen.tags if its.get("class") == "tile")
    assert next(its for tag, its in seen.tags if tag == "html")["lang"] == "en"


def test_the_map_fills_its_room_in_proportion_to_bytes() -> None:
    seen = Seen(html(planned(), "plan"))
    shares = {}
    for _, its in seen.tags:
        if its.get("class") == "tile":
            sides = re.findall(r"(?:width|height):([\d.]+)%", str(its["style"]))
            shares[its["data-path"]] = math.prod(map(float, sides)) / 10_000
    assert math.isclose(sum(shares.values()), 1, abs_tol=1e-3)
    assert math.isclose(shares["embed"], 3_200 / (3_200 + 3 * (2_048 + 256)), abs_tol=1e-3)


def test_names_with_dots_are_modules_in_the_map() -> None:
    tree = {f"model.h.{n}.{name}": shaped(64, 64) for n in range(9) for name in ("a", "b")}
    plan = ptk.ShardingPlan({**tree, "x": shaped(1, 2)}, [("**", "_")], {"data": 2})
    paths = {its.get("data-path") for _, its in Seen(html(plan, "plan")).tags}
    assert {"model.h.8.b", "x"} <= paths


def test_very_many_arrays_share_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "MOST_ROWS", 4)
    text = html(planned(), "plan")
    assert 'data-path="layers/*/kernel" data-split="data+model" data-bytes="6144"' in text
    assert "7 arrays, those alike but for numbers in one row; the heads sort" in text
    monkeypatch.setattr(report, "MOST_ROWS", 2)
    text = html(planned(), "plan")
    assert "7 arrays, those alike but for numbers in one row, the first 2 of 3 rows;" in text
    assert text.count("<tr data-path=") == 2


def test_what_there_is_besides_arrays_and_nothing_at_all() -> None:
    text = html(planned(), "plan", memory=[("temporaries", 123_456)])
    assert 'temporaries</th><td></td><td></td><td class="number" data-value="123456">' in text
    for nothing in ({"act": "relu"}, {}, {"w": shaped(3, 0)}):
        text = html(ptk.ShardingPlan(nothing, [("**", "replicate")], {"data": 2}), "empty")
        assert [its for _, its in Seen(text).tags if its.get("class") == "map"] == []
        assert "No array has any bytes." in text
    text = html(ptk.ShardingPlan(shaped(4, 4), [("**", "data")], {"data": 2}), "one array")
    assert 'aria-label="(root): 64 bytes, data, f32[4/data,4]"' in text


def test_the_rest_of_very_many_modules_is_no_module() -> None:
    tree = {"layers": {str(number): shaped(2) for number in range(1_200)}}
    text = html(ptk.ShardingPlan(tree, [("**", "_")], {"data": 2}), "plan")
    assert ">layers/(1,051 more)</button>" in text
    assert 'data-path="layers" ' in text


FACTS = """() => ({
  overflow: document.documentElement.scrollWidth - document.documentElement.clientWidth,
  page: getComputedStyle(document.body).backgroundColor,
  ink: getComputedStyle(document.body).color,
  shown: [...document.querySelectorAll("#arrays tbody tr:not([hidden]) th")].map(
    its => its.innerText),
  told: document.querySelector("#count").value,
  pressed: [...document.querySelectorAll(".tile[aria-pressed=true]")].map(its => its.dataset.path),
  focus: document.activeElement.dataset.path || document.activeElement.id,
})"""


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    pytest.importorskip("playwright", reason="the dev extra is not installed")
    if not shutil.which("chromium"):
        pytest.skip("there is no Chromium")
    file = tmp_path_factory.mktemp("report") / "report.html"
    text = html(planned({EVIL: shaped(2, 3)}), "plan", collectives=WIRES)
    file.write_text(text, encoding="utf-8")
    with browser() as chromium:
        its = chromium.new_page()
        its.wrong = []
        its.on("console", lambda said: its.wrong.append(said.text))
        its.on("pageerror", lambda error: its.wrong.append(str(error)))
        its.on("request", lambda asked: its.wrong.append(asked.url))
        its.url_of_file = file.as_uri()
        yield its


@pytest.fixture
def page(opened: Any) -> Iterator[Any]:
    opened.wrong.clear()
    opened.goto(opened.url_of_file, wait_until="load")
    yield opened
    assert opened.wrong == [opened.url_of_file]  # the file itself, and no word of the console


def facts(page: Any) -> Any:
    return page.evaluate(FACTS)


def test_a_browser_shows_the_arrays_that_are_asked_for(page: Any) -> None:
    assert len(facts(page)["shown"]) == 8
    page.fill("#filter", "LAYERS kernel")
    assert facts(page)["shown"] == [f"layers/{n}/kernel" for n in range(3)]
    assert facts(page)["told"] == "3 of 8 rows, 6,144 bytes"
    page.fill("#filter", "")
    page.select_option("#split", "data+model")
    assert len(facts(page)["shown"]) == 3
    page.click("text=Show all")
    page.wait_for_function("document.querySelector('#count').value.startsWith('8 of 8')")


def test_heads_sort_the_largest_first(page: Any) -> None:
    page.click("#arrays th button >> text=bytes")
    assert facts(page)["shown"][0] == "embed"
    page.click("#arrays th button >> text=bytes")
    assert facts(page)["shown"][-1] == "embed"
    assert page.locator("#arrays th[aria-sort]").get_attribute("aria-sort") == "ascending"
    page.click("#collectives th button >> text=bytes per step")
    assert page.locator("#collectives tbody tr").nth(0).inner_text().startswith("all-reduce")


def test_the_map_goes_by_keys(page: Any) -> None:
    page.focus(".tile[tabindex='0']")
    first = facts(page)["focus"]
    page.keyboard.press("ArrowRight")
    second = facts(page)["focus"]
    assert second != first
    page.keyboard.press("Enter")
    assert (facts(page)["pressed"], facts(page)["shown"]) == ([second], [second])
    page.keyboard.press("Space")
    assert (facts(page)["pressed"], len(facts(page)["shown"])) == ([], 8)
    page.keyboard.press("End")
    page.keyboard.press("ArrowRight")
    assert facts(page)["focus"] == first


def another(page: Any, tmp_path: Path, text: str) -> None:
    """Go to another report."""
    file = tmp_path / "another.html"
    file.write_text(text, encoding="utf-8")
    page.goto(file.as_uri())
    page.wrong.remove(file.as_uri())


def narrow(tile: Any) -> float:
    """The shorter side of a tile, in pixels."""
    box = tile.bounding_box()
    return min(box["width"], box["height"])


def test_what_is_focused_is_told_for_eyes_and_never_too_small_to_be_seen(
    page: Any, tmp_path: Path
) -> None:
    tree = {"w": shaped(4000, 64), "m": {"w": shaped(8000, 64), "b": shaped(64)}}
    another(page, tmp_path, html(ptk.ShardingPlan(tree, [("**", "_")], {"data": 2}), "slivers"))
    tiles = page.locator(".tile").all()
    assert min(map(narrow, tiles)) < 4
    page.focus(".tile[tabindex='0']")
    for tile in [*tiles[1:], tiles[0]]:
        page.keyboard.press("ArrowRight")
        assert page.locator(".pointed").inner_text() == tile.get_attribute("aria-label")
        assert narrow(tile) >= 16


def test_a_row_of_several_arrays_is_found_by_each(page: Any, tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(report, "MOST_ROWS", 4)
        another(page, tmp_path, html(planned(), "plan"))
    for asked in ("layers/2/kernel", "layers 17 kernel"):
        page.fill("#filter", asked)
        assert facts(page)["shown"] == ["layers/*/kernel"]
    page.locator(".tile[data-path='layers/1/kernel']").press("Enter")
    assert facts(page)["shown"] == ["layers/*/kernel"]


def test_it_is_printed_light_and_no_wider_than_paper(page: Any) -> None:
    page.emulate_media(color_scheme="dark", media="print")
    page.set_viewport_size({"width": 794, "height": 1123})
    assert facts(page)["page"] == "rgb(255, 255, 255)"
    assert facts(page)["overflow"] == 0
    assert not page.is_visible("form")
    page.emulate_media(color_scheme="light", media="screen")


def test_it_is_light_or_dark_as_the_reader_has_it_and_fits_a_phone(page: Any) -> None:
    light = facts(page)
    page.emulate_media(color_scheme="dark")
    dark = facts(page)
    assert (dark["page"], dark["ink"]) == ("rgb(20, 23, 26)", "rgb(230, 232, 234)")
    assert (light["page"], light["ink"]) == ("rgb(255, 255, 255)", "rgb(20, 23, 26)")
    page.set_viewport_size({"width": 390, "height": 844})
    assert facts(page)["overflow"] == 0


def test_the_bundled_model_has_a_report_of_moderate_size() -> None:
    tree = ptk.read_shapes(bundled(".json"))
    rules = ptk.Rules.load(bundled(".toml"))
    text = html(ptk.ShardingPlan(tree, rules, {"data": 4, "model": 2}), "GPT-2")
    assert len(text) < 150_000
