"""Prepare JAX for the whole suite, and run the code blocks of the Markdown pages.

Nothing here imports jax or pytreekit at the top: the variables below count only until jax starts,
and annotations are checked only in what is imported after the suite's import hook is set.
"""

from __future__ import annotations

import contextlib
import difflib
import importlib
import io
import os
import pkgutil
import re
from collections.abc import Iterable
from importlib.metadata import version

from sybil import Document, Example, Region, Sybil
from sybil.parsers.markdown.lexers import RawFencedCodeBlockLexer

DEVICES = "--xla_force_host_platform_device_count"
KEPT = [flag for flag in os.environ.get("XLA_FLAGS", "").split() if not flag.startswith(DEVICES)]
# The oldest XLA has two ways to make code for CPUs: this one is made in half the time.
QUICKER = ["--xla_cpu_use_fusion_emitters=false"] * version("jaxlib").startswith("0.10.")
os.environ["XLA_FLAGS"] = " ".join([*KEPT, *QUICKER, f"{DEVICES}=8"])
os.environ["JAX_PLATFORMS"] = "cpu"
# What the tests compile is small and runs once: to optimize it takes longer than it saves.
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")

PYTHON = RawFencedCodeBlockLexer(re.compile(r"python\b[^\n]*\n"))
OUTPUT = re.compile(
    r'\s*?^(?P<indent> *)```text title="output"\n(?P<text>.*?)^ *```$', re.MULTILINE | re.DOTALL
)


def pytest_collection() -> None:
    """Import every module of the package by its name.

    What pytest imports first, to look for examples in it, it imports by its file, and so past the
    hook that has annotations checked.
    """
    package = importlib.import_module("pytreekit")
    for module in pkgutil.walk_packages(package.__path__, "pytreekit.", onerror=lambda name: None):
        if module.name.endswith(".__main__"):  # it would run the command line
            continue
        with contextlib.suppress(Exception):  # pytest tells it, when it comes to that module
            importlib.import_module(module.name)


def run_block(example: Example) -> str | None:
    """Run one block; return how its output differs from the page, or None where it does not."""
    source, wanted = example.parsed
    padding = "\n" * (example.line + source.line_offset)  # tracebacks name the line of the page
    code = compile(padding + source, example.path, "exec", dont_inherit=True)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code, example.namespace)
    got = printed.getvalue()
    if got == wanted:
        return None
    return "\n".join(
        difflib.unified_diff(
            wanted.splitlines(), got.splitlines(), "written", "printed", lineterm=""
        )
    )


def parse_blocks(document: Document) -> Iterable[Region]:
    """Find each python block, with the output block that directly follows it."""
    for region in PYTHON(document):
        shown = OUTPUT.match(document.text, region.end)
        wanted = (
            re.sub(f"^{shown['indent']}", "", shown["text"], flags=re.MULTILINE) if shown else ""
        )
        yield Region(region.start, region.end, (region.lexemes["source"], wanted), run_block)


def name_module(namespace: dict[str, object]) -> None:
    """Let a page's classes and functions say that they belong to a script."""
    namespace["__name__"] = "__main__"


# One bare pattern: to PurePath.match, `docs/**/*.md` means something else on Python 3.11 than on
# 3.13: there it skips the pages that lie directly in a folder, in silence.
pytest_collect_file = Sybil(parsers=[parse_blocks], patterns=["*.md"], setup=name_module).pytest()
