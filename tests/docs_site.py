"""Build the documentation and look at what came out: links, anchors, and nothing from elsewhere.

`python tests/docs_site.py` builds into a folder that is thrown away and prints what is wrong.
"""

from __future__ import annotations

import dataclasses
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit

ROOT = Path(__file__).parents[1]
TAG_LOADS = {
    "audio": "src",
    "embed": "src",
    "iframe": "src",
    "img": "src",
    "object": "data",
    "script": "src",
    "source": "src",
    "video": "src",
}
REL_LOADS = {
    "dns-prefetch",
    "icon",
    "manifest",
    "modulepreload",
    "preconnect",
    "prefetch",
    "preload",
    "stylesheet",
}
CSS_LOAD = re.compile(r"(?:url\(\s*|@import\s+)['\"]?([^'\")\s]+)", re.IGNORECASE)
# Drawn by a script that Material would fetch from another host at reading time.
FETCHED_LATER = {"mermaid"}
# What draws the elements of a class: a script of ours, and what that loads where there are any.
DRAW = "assets/js/draw.js"
DRAWN_WITH = {
    "diagram": ["assets/vendor/mermaid/mermaid.min.js"],
    "arithmatex": ["assets/vendor/katex/katex.min.js", "assets/vendor/katex/katex.min.css"],
}


def build(target: Path, root: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """Run `mkdocs build --strict`, with a proxy that refuses so that a download would fail."""
    return subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(target)],
        cwd=root,
        env={
            **os.environ,
            "NO_MKDOCS_2_WARNING": "1",
            "http_proxy": "http://127.0.0.1:9",
            "https_proxy": "http://127.0.0.1:9",
        },
        capture_output=True,
        text=True,
        check=False,
    )


@dataclasses.dataclass
class Page(HTMLParser):
    """What one page loads and draws, where it links to, and which anchors it has."""

    loads: list[str] = dataclasses.field(default_factory=list)
    links: list[str] = dataclasses.field(default_factory=list)
    anchors: set[str] = dataclasses.field(default_factory=set)
    drawn: set[str] = dataclasses.field(default_factory=set)
    untold: list[str] = dataclasses.field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what one tag adds."""
        has = {name: value or "" for name, value in attrs}
        classes = set(has.get("class", "").split())
        self.anchors |= {has[name] for name in ("id", "name") if name in has}
        self.drawn |= classes & DRAWN_WITH.keys()
        if tag == "a" and "href" in has:
            self.links.append(has["href"])
        elif tag == "link" and REL_LOADS & set(has.get("rel", "").split()):
            self.loads.append(has.get("href", ""))
        elif has.get(TAG_LOADS.get(tag, ""), ""):
            self.loads.append(has[TAG_LOADS[tag]])
        if tag == "img" and not has.get("alt"):
            self.untold.append(has.get("src", ""))
        self.loads += [f"//{word}" for word in FETCHED_LATER & classes]


def faults(site: Path) -> list[str]:
    """Return one line for each dead link, missing anchor and load from another host."""
    pages: dict[str, Page] = {}
    for file in sorted(site.rglob("*.html")):
        page = pages["/" + file.relative_to(site).as_posix().removesuffix("index.html")] = Page()
        page.feed(file.read_text(encoding="utf-8"))
    found = [f"{url}: {fault}" for url in pages for fault in page_faults(url, pages, site)]
    for sheet in sorted(site.rglob("*.css")):
        url = "/" + sheet.relative_to(site).as_posix()
        for load in CSS_LOAD.findall(sheet.read_text(encoding="utf-8")):
            found += [f"{url}: {fault}" for fault in load_faults(url, load, site)]
    return found if pages else ["no pages were built"]


def page_faults(url: str, pages: dict[str, Page], site: Path) -> Iterator[str]:
    """Yield what is wrong on one page."""
    for load in pages[url].loads:
        yield from load_faults(url, load, site)
    for picture in pages[url].untold:
        yield f"shows {picture}, without a text in its place"
    yield from drawing_faults(pages[url], site)
    for link in pages[url].links:
        parts = urlsplit(urljoin(url, link))
        inside = not (parts.scheme or parts.netloc)
        target = pages.get(parts.path) if inside else None
        if target and unquote(parts.fragment) not in {"", *target.anchors}:
            yield f"links to {link}, but there is no such anchor"
        elif inside and not target and not is_file(site, parts.path):
            yield f"links to {link}, which is not there"


def drawing_faults(page: Page, site: Path) -> Iterator[str]:
    """Yield what of a page would be left undrawn."""
    for word in sorted(page.drawn):
        if not any(load.endswith(DRAW) for load in page.loads):
            yield f"has a {word}, but no script that draws it"
        elif not all(is_file(site, path) for path in DRAWN_WITH[word]):
            yield f"has a {word}, but what draws it is not there"


def load_faults(url: str, load: str, site: Path) -> Iterator[str]:
    """Yield what is wrong with one thing that a page or a sheet loads."""
    parts = urlsplit(urljoin(url, load))
    if parts.netloc:
        yield f"loads {load} from another host"
    elif parts.scheme != "data" and not is_file(site, parts.path):
        yield f"loads {load}, which is not there"


def is_file(site: Path, path: str) -> bool:
    """Return whether the site has the file that `path` asks for."""
    return (site / unquote(path).lstrip("/")).is_file()


def main() -> int:
    """Build, check, tell."""
    with tempfile.TemporaryDirectory() as folder:
        site = Path(folder)
        run = build(site)
        wrong = faults(site) if run.returncode == 0 else [run.stdout + run.stderr]
        pages = len(list(site.rglob("*.html")))
    print(f"{pages} pages, {len(wrong)} faults", *wrong, sep="\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
