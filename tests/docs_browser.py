"""Open every page of the site in a browser, as a reader does, and say what is broken there.

`python tests/docs_browser.py` builds the site, opens it in headless Chromium, and prints what is
wrong; with a folder after it, pictures of every page are put there, for a desk and for a phone.
"""

from __future__ import annotations

import contextlib
import functools
import shutil
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urljoin, urlsplit

if __package__:
    from .docs_site import build
else:  # it is run as a script
    from docs_site import build

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

DESK, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}
NOTHING = "\U0010fffd"
"""A character that no font has."""

UNDRAWN = """() => [
  ...[...document.querySelectorAll("pre.mermaid, div.mermaid")]
    .filter(its => its.tagName == "PRE" || !its.clientHeight).map(() => "a diagram is not drawn"),
  ...[...document.querySelectorAll(".arithmatex")]
    .filter(its => !its.querySelector(".katex")).map(() => "a formula is not drawn"),
  ...[...document.querySelectorAll(".katex-error")].map(its => "a formula is wrong: " + its.title),
  ...[...document.images].filter(its => !its.naturalWidth).map(its => "is not drawn: " + its.src),
]"""
"""What is on a page, and cannot be seen. Material draws a diagram into a closed shadow root."""

WITHOUT_GLYPH = """nothing => {
  const canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
  const drawn = letter => {
    canvas.clearRect(0, 0, 64, 64);
    canvas.font = "32px " + getComputedStyle(document.body).fontFamily;
    canvas.fillText(letter, 8, 48);
    return canvas.getImageData(0, 0, 64, 64).data.join();
  };
  const letters = new Set(document.body.innerText.match(/[^\\s\\p{P}\\p{Co}]/gu));
  const box = drawn(nothing);
  return [...letters].filter(its => drawn(its) == box);
}"""
"""The letters of a page that no font has."""

SLOWEST_SEARCH_MS = 15_000

FOUND = """wanted => {
  const [path, anchor] = wanted.split("#");
  return [...document.querySelectorAll("a.md-search-result__link")].some(
    its => its.pathname.includes(path) && (!anchor || its.hash == "#" + anchor));
}"""
"""Whether a search has found a page, or a place on it."""

TOO_WIDE = "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"


class Broken(NamedTuple):
    """One fault, on one page."""

    url: str
    fact: str

    def __str__(self) -> str:
        return f"{self.url}: {self.fact}"


@contextlib.contextmanager
def served(site: Path) -> Iterator[str]:
    """The address at which a folder can be read."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """Tell of nothing: the browser does."""

    handler = functools.partial(Quiet, directory=str(site))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@contextlib.contextmanager
def browser() -> Iterator[Browser]:
    """Headless Chromium, as the system has it."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as played:
        chromium = played.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        yield chromium
        chromium.close()


def paths_of(site: Path) -> list[str]:
    """Every page of a site, as a link to it from the root."""
    folders = sorted(file.parent for file in site.rglob("index.html"))
    return ["" if folder == site else folder.relative_to(site).as_posix() for folder in folders]


def look(chromium: Browser, site: Path, shots: Path | None = None) -> list[Broken]:
    """Everything that is broken on the pages of a site."""
    found: list[Broken] = []
    with served(site) as root:
        context = chromium.new_context(viewport=DESK)  # pyright: ignore[reportArgumentType]
        context.grant_permissions(["clipboard-read", "clipboard-write"])
        page = context.new_page()
        _listen(page, root, found)
        for path in paths_of(site):
            url = urljoin(root, f"{path}/" if path else "")
            page.goto(url, wait_until="load")
            page.wait_for_load_state("networkidle")
            found += [Broken(path, fact) for fact in _seen(page)]
            found += [Broken(path, fact) for fact in _on_a_phone(page, path, shots)]
        context.close()
    return found


def _listen(page: Page, root: str, found: list[Broken]) -> None:
    """Note what goes wrong while pages are read."""

    def note(fact: str) -> None:
        found.append(Broken(urlsplit(page.url).path.strip("/"), fact))

    page.on("console", lambda it: note(f"console: {it.text}") if it.type == "error" else None)
    page.on("pageerror", lambda error: note(f"a script failed: {error}"))
    page.on("requestfailed", lambda it: note(f"cannot load {it.url}"))
    page.on("response", lambda it: note(f"{it.status} {it.url}") if it.status >= 400 else None)
    page.on("request", lambda it: None if _is_own(it.url, root) else note(f"asks for {it.url}"))


def _is_own(url: str, root: str) -> bool:
    return url.startswith(root) or urlsplit(url).scheme in {"data", "blob"}


def _seen(page: Page) -> Iterator[str]:
    """What is not as it should be on a page that has been loaded."""
    if page.locator(".mermaid").count():
        page.wait_for_timeout(1500)  # they are drawn one after the other
    yield from page.evaluate(UNDRAWN)
    letters = page.evaluate(WITHOUT_GLYPH, NOTHING)
    if letters:
        yield f"no font has {''.join(letters)}"
    yield from _copied(page)


def _copied(page: Page) -> Iterator[str]:
    """Whether the first block of code can be copied."""
    block = page.locator("div.highlight:visible").first
    button = block.locator("button.md-clipboard, button[data-clipboard-target]").first
    if not block.count() or not button.count():
        return
    button.click(force=True)
    wanted = block.locator("code").inner_text().strip()
    if page.evaluate("navigator.clipboard.readText()").strip() != wanted:
        yield "the button beside code copies something else"


def _on_a_phone(page: Page, path: str, shots: Path | None) -> Iterator[str]:
    name = path.replace("/", "-") or "index"
    if shots:
        page.screenshot(path=shots / f"{name}.png", full_page=True)
    page.set_viewport_size(PHONE)  # pyright: ignore[reportArgumentType]
    if (over := page.evaluate(TOO_WIDE)) > 1:
        yield f"is {over} pixels too wide for a phone"
    if shots:
        page.screenshot(path=shots / f"{name}-phone.png", full_page=True)
    page.set_viewport_size(DESK)  # pyright: ignore[reportArgumentType]


def searched(chromium: Browser, site: Path, words: Sequence[tuple[str, str, str]]) -> list[Broken]:
    """What a search does not find: for each start page and word, the page that it should."""
    from playwright import sync_api

    found = []
    with served(site) as root:
        page = chromium.new_page()
        for start, word, wanted in words:
            page.goto(urljoin(root, start), wait_until="load")
            page.locator("input.md-search__input").fill(word)
            try:
                page.wait_for_function(FOUND, arg=wanted, timeout=SLOWEST_SEARCH_MS)
            except sync_api.TimeoutError:
                found.append(Broken(start, f"searching for {word!r} does not find {wanted}"))
        page.close()
    return found


def main() -> int:
    """Build, look, tell."""
    shots = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    if shots:
        shots.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, browser() as chromium:
        site = Path(folder)
        run = build(site)
        if run.returncode:
            print(run.stdout + run.stderr)
            return 1
        wrong = [*look(chromium, site, shots), *searched(chromium, site, WORDS)]
        count = len(paths_of(site))
    print(f"{count} pages seen, {len(wrong)} faults", *wrong, sep="\n")
    return 1 if wrong else 0


WORDS = [
    ("", "in_axes", "guide/checked-vmap"),
    ("faults/", "PTK102", "faults/#ptk102"),
    ("reference/vmap/", "sensitivity", "differential-privacy"),
]
"""Where a search starts, for what, and a page that it must find."""


if __name__ == "__main__":
    sys.exit(main())
