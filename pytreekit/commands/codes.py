"""`pytreekit codes`: the fault codes, and what is to be known of one. It needs no JAX."""

from __future__ import annotations

import argparse
import difflib
import json
import re
from pathlib import Path

from ..faults import CODES
from . import options as common
from . import saying

TOLD = "list the fault codes, or tell cause, example and fix of one"
EPILOG = common.EPILOG

PAGE = Path(__file__).with_name("faults.md")
"""The page of the codes, as it is installed."""

SOURCE = Path(__file__).parents[2] / "docs" / "en" / "faults.md"
"""Where it lies in a copy of the repository."""

_FENCED = re.compile(r"(?ms)^```[^\n]*\n(.*?)^```$")


def options(parser: argparse.ArgumentParser) -> None:
    """Add its options."""
    told = "such as PTK103, or 103; by default all are listed"
    parser.add_argument("code", nargs="?", metavar="CODE", help=told)
    common.add_json(parser)


def run(*, code: str | None, as_json: bool) -> int:
    """Print them."""
    if code is None:
        rows = [{"code": its, "title": title} for its, title in CODES.items()]
        text = "\n".join(f"{its}  {title}" for its, title in CODES.items())
        saying.say(json.dumps({"command": "codes", "codes": rows}, indent=1) if as_json else text)
        return 0
    known = f"PTK{code}" if code.isdigit() else code.upper()
    if known not in CODES:
        close = difflib.get_close_matches(known, CODES, n=1)
        hint = f"; did you mean {close[0]}?" if close else ""
        return saying.refuse("codes", f"there is no code {code[:40]!a}{hint}", as_json=as_json)
    told = section(known)
    its = {"code": known, "title": CODES[known], "text": told}
    data = {"command": "codes", "codes": [its]}
    saying.say(json.dumps(data, indent=1) if as_json else _plain(told))
    return 0


def section(code: str) -> str:
    """What the page says of a code, in Markdown; its title alone, where there is no page."""
    page = next((path for path in (PAGE, SOURCE) if path.is_file()), None)
    text = page.read_text(encoding="utf-8") if page else ""
    found = re.search(rf"(?ms)^## [^\n]*{{#{code.lower()}}}\n(.*?)(?=^## |\Z)", text)
    return f"{code}: {CODES[code]}" + (f"\n\n{found[1].strip()}" if found else "")


def _plain(markdown: str) -> str:
    """A text without the marks that only a page needs."""
    text = re.sub(r"\[([^]]+)]\([^)]+\)", r"\1", markdown)
    return re.sub(_FENCED, _indented, text).replace("**", "")


def _indented(found: re.Match[str]) -> str:
    return "\n".join(f"    {line}".rstrip() for line in found[1].splitlines())
