"""Which rule takes which leaf: `ptk.Rules` beside a matcher that is slow and obvious."""

from __future__ import annotations

import os
import re
from typing import Any

import jax
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.tree_util import keystr

import pytreekit as ptk

from .rule_patterns import KEYS, WITH_SEPARATOR, Glob, globs_of, matches, text_of, trees

EXAMPLES = int(os.environ.get("PYTREEKIT_EXAMPLES", "0"))


def texts(tree: Any) -> list[str]:
    """The text of the path of each leaf, in JAX's own words."""
    return [
        keystr(path, simple=True, separator="/")
        for path, _ in jax.tree_util.tree_flatten_with_path(tree)[0]
    ]


def segments(text: str, split: str = "/") -> list[str]:
    return re.split(f"[{re.escape(split)}]", text)


def numbers(rules: list[Any], tree: Any, **options: Any) -> list[int]:
    return ptk.Rules([(pattern, None) for pattern in rules], **options).assign(tree).numbers


def first(rules: list[Glob], path: list[str]) -> int:
    return next((number for number, glob in enumerate(rules) if matches(glob, path)), -1)


@st.composite
def trees_and_globs(draw: Any, keys: tuple[str, ...], split: str = "/") -> Any:
    """A tree, and globs that are like the paths of some of its leaves."""
    tree = draw(trees(keys).filter(lambda tree: tree != 0))  # the path of a leaf has no segments
    some = st.sampled_from(texts(tree) or ["a/b"])
    paths = [segments(draw(some), split) for _ in range(draw(st.integers(1, 6)))]
    return tree, [draw(globs_of(path)) for path in paths]


@settings(max_examples=EXAMPLES or 150)
@given(trees_and_globs(KEYS) | trees_and_globs((*KEYS, *WITH_SEPARATOR)))
def test_the_first_glob_that_matches_takes_a_leaf(drawn: tuple[Any, list[Glob]]) -> None:
    tree, rules = drawn
    wanted = [first(rules, segments(text)) for text in texts(tree)]
    assert numbers([text_of(glob) for glob in rules], tree) == wanted


@settings(max_examples=EXAMPLES or 50)
@given(trees_and_globs(("a", "b", "a.b", "a.b.a", "b.a/a", "."), "/."))
def test_dots_may_cut_paths_as_well(drawn: tuple[Any, list[Glob]]) -> None:
    tree, rules = drawn
    if not any("." in text_of(glob) for glob in rules):
        wanted = [first(rules, segments(text, "/.")) for text in texts(tree)]
        assert numbers([text_of(glob) for glob in rules], tree, split="/.") == wanted
