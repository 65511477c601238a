"""Open every page of the site in a browser, as a reader does, and say what is broken there.

`python tests/docs_browser.py` builds the site, opens it in headless Chromium, and prints what is
wrong; with a folder after it, pictures of every page are put there, for a desk and for a phone.
"""

from __future__ import annotations

import contextlib
import functools
import json
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urljoin, urlsplit

if __package__:
    from .docs_site import ROOT, build
else:  # it is run as a script
    from docs_site import ROOT, build

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Request

DESK, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}
NOTHING = "\U0010fffd"
"""A character that no font has."""

UNDRAWN = """() => [
  ...[...document.querySelectorAll(".diagram")]
    .filter(its => !its.querySelector("svg")?.clientHeight).map(() => "a diagram is not drawn"),
  ...[...document.querySelectorAll(".arithmatex")]
    .filter(its => !its.querySelector(".katex")).map(() => "a formula is not drawn"),
  ...[...document.querySelectorAll(".katex-error")].map(its => "a formula is wrong: " + its.title),
  ...[...document.images].filter(its => !its.naturalWidth).map(its => "is not drawn: " + its.src),
]"""
"""What is on a page, and cannot be seen."""

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

COPIED = """longest => Promise.race([
  navigator.clipboard.readText(),
  new Promise(resolve => setTimeout(() => resolve(""), longest)),
])"""
"""What was copied, as text; the clipboard may never answer where two browsers ask at once."""

LEFT = "net::ERR_ABORTED"
"""How what is still being loaded ends when its page is left."""

SLOWEST_COPY_MS = 5_000
SLOWEST_PART_S = 300
TRIES = 2
PART = "--part"
SLOWEST_SEARCH_MS = 15_000
SLOWEST_DRAWING_MS = 15_000

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
def served(site: Path, instead: Path | None = None) -> Iterator[str]:
    """The address at which a folder can be read, with one file in place of each of its name."""

    class Quiet(SimpleHTTPRequestHandler):
        def translate_path(self, path: str) -> str:
            """Where the file of an address lies."""
            found = super().translate_path(path)
            return str(instead) if instead and Path(found).name == instead.name else found

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


def look(
    chromium: Browser, site: Path, shots: Path | None = None, paths: Sequence[str] | None = None
) -> list[Broken]:
    """Everything that is broken on the pages of a site, or on some of them."""
    found: list[Broken] = []
    with tempfile.TemporaryDirectory() as folder, served(site, _no_index(folder)) as root:
        context = chromium.new_context(viewport=DESK)  # pyright: ignore[reportArgumentType]
        context.grant_permissions(["clipboard-read", "clipboard-write"])
        page = context.new_page()
        loading = _listen(page, root, found)
        for path in paths_of(site) if paths is None else paths:
            url = urljoin(root, f"{path}/" if path else "")
            page.goto(url, wait_until="load")
            _wait_until(page, lambda: not loading)
            found += [Broken(path, fact) for fact in _seen(page)]
            found += [Broken(path, fact) for fact in _on_a_phone(page, path, shots)]
        context.close()
    return found


def _no_index(folder: str) -> Path:
    """An empty search index: each page makes one anew as it is opened, which takes a while."""
    index = Path(folder, "search_index.json")
    settings = {"lang": ["en"], "separator": " ", "pipeline": [], "fields": {}}
    index.write_text(json.dumps({"config": settings, "docs": []}))
    return index


def _wait_until(page: Page, is_so: Callable[[], bool]) -> None:
    """Let the page go on until something is so, or long enough."""
    end = time.monotonic() + SLOWEST_DRAWING_MS / 1000
    while not is_so() and time.monotonic() < end:
        page.wait_for_timeout(5)


def _listen(page: Page, root: str, found: list[Broken]) -> set[Request]:
    """Note what goes wrong while pages are read, and what is still being loaded."""
    loading: set[Request] = set()

    def note(fact: str) -> None:
        found.append(Broken(urlsplit(page.url).path.strip("/"), fact))

    def failed(request: Request) -> None:
        loading.discard(request)
        if request.failure != LEFT:
            note(f"cannot load {request.url}")

    def ended(request: Request) -> None:
        loading.discard(request)

    def asked(request: Request) -> None:
        loading.add(request)
        if not _is_own(request.url, root):
            note(f"asks for {request.url}")

    page.on("console", lambda it: note(f"console: {it.text}") if it.type == "error" else None)
    page.on("pageerror", lambda error: note(f"a script failed: {error}"))
    page.on("requestfailed", failed)
    page.on("requestfinished", ended)
    page.on("response", lambda it: note(f"{it.status} {it.url}") if it.status >= 400 else None)
    page.on("request", asked)
    return loading


def _is_own(url: str, root: str) -> bool:
    return url.startswith(root) or urlsplit(url).scheme in {"data", "blob"}


def _seen(page: Page) -> Iterator[str]:
    """What is not as it should be on a page that has been loaded."""
    _wait_for_diagrams(page)
    yield from page.evaluate(UNDRAWN)
    letters = page.evaluate(WITHOUT_GLYPH, NOTHING)
    if letters:
        yield f"no font has {''.join(letters)}"
    yield from _copied(page)


def _wait_for_diagrams(page: Page) -> None:
    """Let them be drawn, one after the other."""
    from playwright import sync_api

    with contextlib.suppress(sync_api.TimeoutError):  # what is still not drawn then is told
        page.wait_for_function(
            '() => !document.querySelector(".diagram:not(.drawn)")', timeout=SLOWEST_DRAWING_MS
        )


def _copied(page: Page) -> Iterator[str]:
    """Whether the first block of code can be copied."""
    block = page.locator("div.highlight:visible").first
    button = block.locator("button.md-clipboard, button[data-clipboard-target]").first
    if not block.count() or not button.count():
        return
    button.click(force=True)
    wanted = block.locator("code").inner_text().strip()
    if page.evaluate(COPIED, SLOWEST_COPY_MS).strip() != wanted:
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
            box = page.locator("input.md-search__input")
            box.fill(word)
            box.press("End")  # Material looks at what was typed when a key is let go
            try:
                page.wait_for_function(FOUND, arg=wanted, timeout=SLOWEST_SEARCH_MS)
            except sync_api.TimeoutError:
                found.append(Broken(start, f"searching for {word!r} does not find {wanted}"))
        page.close()
    return found


def switched(chromium: Browser, site: Path, paths: Sequence[str]) -> list[Broken]:
    """Where the language switch leads elsewhere than to the same page in each language."""
    found = []
    with served(site) as root:
        page = chromium.new_page()
        for path in paths:
            page.goto(urljoin(root, path), wait_until="load")
            for language, start in [*OTHERS.items(), ("en", "")]:
                page.locator(f"a.md-select__link[hreflang={language}]").evaluate("it => it.click()")
                page.wait_for_url("**", wait_until="load")
                page.wait_for_function(f"document.documentElement.lang == '{language}'")
                if page.url != urljoin(root, start + path):
                    found.append(Broken(path, f"in {language} the switch leads to {page.url}"))
        page.close()
    return found


def _look_alone(site: Path, shots: Path | None, paths: Sequence[str]) -> list[Broken]:
    """Look at some pages in a process of its own, beside others; once more if it gets stuck."""
    asked = json.dumps([str(site), str(shots) if shots else None, list(paths)])
    for _ in range(TRIES):
        with contextlib.suppress(subprocess.TimeoutExpired):
            ran = subprocess.run(
                [sys.executable, __file__, PART],
                input=asked,
                stdout=subprocess.PIPE,
                text=True,
                timeout=SLOWEST_PART_S,
                check=True,
            )
            return [Broken(*its) for its in json.loads(ran.stdout)]
    return [Broken(paths[0], f"the browser got stuck {TRIES} times, here or on a later page")]


def look_at_part() -> int:
    """Look at the pages that the standard input names, and print what is broken there."""
    site, shots, paths = json.load(sys.stdin)
    with browser() as chromium:
        print(json.dumps(look(chromium, Path(site), Path(shots) if shots else None, paths)))
    return 0


def main() -> int:
    """Build, look, tell."""
    if PART in sys.argv:
        return look_at_part()
    shots = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    if shots:
        shots.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor() as pool:
        site = Path(folder)
        run = build(site)
        if run.returncode:
            print(run.stdout + run.stderr)
            return 1
        paths = paths_of(site)
        parts = [paths[::2], paths[1::2]]
        found = pool.map(lambda part: _look_alone(site, shots, part), parts)
        wrong = [its for part in found for its in part]
        with browser() as chromium:
            wrong += searched(chromium, site, [its for its in WORDS if _is_written(its[0])])
            wrong += switched(chromium, site, ["", "tutorial/vmap/", "faults/"])
        count = len(paths)
    print(f"{count} pages seen, {len(wrong)} faults", *wrong, sep="\n")
    return 1 if wrong else 0


OTHERS = {"ko": "ko/", "ja": "ja/"}
"""Where the pages of the other languages begin."""

WORDS = [
    ("", "in_axes", "guide/checked-vmap"),
    ("faults/", "PTK102", "faults/#ptk102"),
    ("reference/vmap/", "sensitivity", "differential-privacy"),
    ("ko/", "그래디언트", "ko/tutorial/per-example-gradients"),
    ("ko/tutorial/vmap/", "in_axes", "ko/guide/checked-vmap"),
    ("ko/guide/trees/", "메시", "ko/tutorial/many-devices"),
    ("ja/", "勾配", "ja/tutorial/per-example-gradients"),
    ("ja/tutorial/vmap/", "in_axes", "ja/guide/checked-vmap"),
    ("ja/guide/trees/", "メッシュ", "ja/tutorial/many-devices"),
]
"""Where a search starts, for what, and a page that it must find."""


def _is_written(start: str) -> bool:
    """Whether there are pages in the language in which a search starts."""
    language = start.split("/", maxsplit=1)[0]
    return language not in OTHERS or (ROOT / "docs" / language).is_dir()


if __name__ == "__main__":
    sys.exit(main())
