"""What mkdocs does for pages in several languages, beyond what its plugin for them does.

It is a hook of the build (see mkdocs.yml), and imports nothing of the project.

- An example of the fault index stands once, on the English page: other languages hold EXAMPLE below
  the heading of a code, and get the code and the message that stand there below the same anchor.
- Each language has a search index of its own: a reader finds the pages that they can read.
- A line of Japanese ends where the source is wide enough: no space stands there for the reader.
- The language switch links from each page to the same page by a relative path, so that the site
  works below any path of a host.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

EXAMPLE = "<!-- example -->"
SECTION = re.compile(r"^#+ .*\{#([a-z0-9-]+)\}$", re.MULTILINE)
BLOCKS = re.compile(r"^```.*?^```$(?:\n+^```.*?^```$)*", re.MULTILINE | re.DOTALL)
FENCED = re.compile(r"(^ *```.*?^ *```$)", re.MULTILINE | re.DOTALL)
CJK = r"\u3000-\u30ff\u3400-\u9fff\uff00-\uffef"
STARTS = r"`(?!``)|[A-Za-z\[(]|\d(?!\d*\. )|\*\*(?!\d)"
WRAPPED = re.compile(rf"(?<=[{CJK}])\n *(?=[{CJK}]|{STARTS})|(?<=[\w`)\]*])\n *(?=[{CJK}])")
BASE = re.compile(r'(?<="base": ")[^"]*')
ALTERNATE = re.compile(r'\s*<link rel="?alternate"? [^>]*hreflang=[^>]*>')
# A word ends at space, brackets and punctuation, of either width.
SEPARATOR = r"[\s\-,:;!?=|()\[\]{}\"'`/.*<>\u3000-\u303f\u30fb\uff00-\uff0f\uff1a-\uff20]+"


def with_examples(text: str, english: str) -> str:
    """Put the examples of a page's English twin where it leaves them to that."""
    examples = {name: BLOCKS.findall(part) for name, part in sections(english)}
    told = []
    for name, part in sections(text):
        left, blocks = part.count(EXAMPLE), iter(examples.get(name, []))
        if left not in (0, len(examples.get(name, []))):
            raise ValueError(f"#{name} has {left} of {EXAMPLE}, in English there are others")
        told.append(re.sub(EXAMPLE, lambda _, its=blocks: next(its), part))
    return "".join(told)


def sections(text: str) -> list[tuple[str, str]]:
    """Split a page at its headings: the anchor of each, "" for what stands before the first."""
    starts = [(0, ""), *((found.start(), found[1]) for found in SECTION.finditer(text))]
    ends = [*(start for start, _ in starts[1:]), len(text)]
    return [(name, text[start:end]) for (start, name), end in zip(starts, ends, strict=True)]


def joined(text: str) -> str:
    """Join the lines of each paragraph of Japanese, which has no spaces between words."""
    pieces = FENCED.split(text)
    return "".join(
        its if its.lstrip().startswith("```") else WRAPPED.sub("", its) for its in pieces
    )


def on_page_markdown(markdown: str, page: Any, config: Any, **_: object) -> str:
    """Complete a page before it is read as Markdown."""
    if EXAMPLE in markdown:
        english = Path(config["docs_dir"], "en", page.file.norm_src_uri)
        markdown = with_examples(markdown, english.read_text(encoding="utf-8"))
    return joined(markdown) if page.file.localization == "ja" else markdown


def on_page_context(context: Any, page: Any, config: Any, **_: object) -> Any:
    """Link each language to this page in it."""
    for other in getattr(config.extra, "alternate", []):
        other["link"] = page.file.alternates[other["lang"]].url
    return context


def on_post_page(output: str, page: Any, config: Any) -> str:
    """Search among the pages of this language, and leave its others to the switch.

    From links in the head, Material's script would ask for a sitemap beside each page.
    """
    output = ALTERNATE.sub("", output)
    language = page.file.locale_alternate_of
    if language == config.plugins["i18n"].default_language:
        return output
    return BASE.sub(lambda base: f"{base[0]}/{language}/", output, count=1)


def on_post_build(config: Any) -> None:
    """Split the search index, after the last language was built."""
    i18n = config.plugins["i18n"]
    if i18n.building:
        return
    target = Path(config["site_dir"], "search", "search_index.json")
    index = json.loads(target.read_text(encoding="utf-8"))
    others = [language for language in i18n.build_languages if language != i18n.default_language]
    for language in [*others, i18n.default_language]:
        start = f"{language}/" if language in others else ""
        own = [its for its in index["docs"] if its["location"].startswith(start)]
        index["docs"] = [its for its in index["docs"] if not its["location"].startswith(start)]
        whole = {
            "config": {**index["config"], "lang": [language], "separator": SEPARATOR},
            "docs": [{**its, "location": its["location"].removeprefix(start)} for its in own],
        }
        path = Path(config["site_dir"], start, "search", "search_index.json")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(whole, ensure_ascii=False), encoding="utf-8")


on_post_build.mkdocs_priority = -200  # after the plugin, which builds the other languages at -100
