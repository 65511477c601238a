"""Which rule takes which leaf: `ptk.Rules` beside a matcher that is slow and obvious."""

from __future__ import annotations

import collections
import os
import re
import sys
from typing import Any, NamedTuple

import jax
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.tree_util import keystr

import pytreekit as ptk
from pytreekit.specs import regexes

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


def takes(rule: Any, text: str, split: str = "/") -> bool:
    if isinstance(rule, Glob):
        return matches(rule, segments(text, split))
    return re.search(rule, text) is not None


def wanted(rules: list[Any], tree: Any, split: str = "/") -> list[int]:
    found = ([n for n, rule in enumerate(rules) if takes(rule, t, split)] for t in texts(tree))
    return [its[0] if its else -1 for its in found]


@st.composite
def trees_and_globs(draw: Any, keys: tuple[str, ...], split: str = "/") -> Any:
    """A tree, and globs that are like the paths of some of its leaves."""
    tree = draw(trees(keys).filter(lambda tree: tree != 0))  # the path of a leaf has no segments
    some = st.sampled_from(texts(tree) or ["a/b"])
    paths = [segments(draw(some), split) for _ in range(draw(st.integers(1, 6)))]
    return tree, [draw(globs_of(path)) for path in paths]


@settings(max_examples=EXAMPLES or 80)
@given(trees_and_globs(KEYS) | trees_and_globs((*KEYS, *WITH_SEPARATOR)))
def test_the_first_glob_that_matches_takes_a_leaf(drawn: tuple[Any, list[Glob]]) -> None:
    tree, rules = drawn
    assert numbers([text_of(glob) for glob in rules], tree) == wanted(rules, tree)


@settings(max_examples=EXAMPLES or 25)
@given(trees_and_globs(("a", "b", "a.b", "a.b.a", "b.a/a", "."), "/."))
def test_dots_may_cut_paths_as_well(drawn: tuple[Any, list[Glob]]) -> None:
    tree, rules = drawn
    if not any("." in text_of(glob) for glob in rules):
        told = numbers([text_of(glob) for glob in rules], tree, split="/.")
        assert told == wanted(rules, tree, "/.")


# What a rule may or may not tell numbers by, and what it is certain to search for quickly.
ATOMS = (
    "wi_",
    "layers_",
    "/",
    "a",
    "ln",
    ".",
    "1",
    "0",
    r"\d",
    r"\w",
    "[0-3]",
    "[^/]",
    "[^1]",
    r"\.",
)
QUANTIFIERS = ("", "", "", "*", "+", "?", "{2}", "+?")
NUMBERED = ("wi_0", "wi_1", "layers_1", "layers_10", "layers_12", "ln1", "a", "10", "a.0b1", "٣")
parts = st.tuples(st.sampled_from(ATOMS), st.sampled_from(QUANTIFIERS)).map(
    lambda pair: f"(?:{pair[0]}){pair[1]}" if len(pair[0]) > 1 and pair[1] else "".join(pair)
)
joined = st.lists(parts, min_size=1, max_size=4).map("".join)
expressions = st.one_of(
    joined,
    st.tuples(joined, joined).map(lambda pair: "(" + "|".join(pair) + ")"),
    st.tuples(st.sampled_from(["^", r"\A", "(?i)", r"(?=.*1)", r"\b"]), joined).map("".join),
    st.tuples(joined, st.sampled_from(["$", r"\Z", "(a|)$", r"\b", r"(?!0)"])).map("".join),
)


@settings(max_examples=EXAMPLES or 80)
@given(trees(NUMBERED), st.lists(expressions, min_size=1, max_size=5), st.data())
def test_the_first_regex_that_is_found_takes_a_leaf(
    tree: Any, rules: list[str], data: st.DataObject
) -> None:
    globs = [data.draw(globs_of(segments(text))) for text in texts(tree)[:1] if text]
    mixed = [*rules[:2], *globs, *rules[2:]]
    written = [text_of(rule) if isinstance(rule, Glob) else f"re:{rule}" for rule in mixed]
    assert numbers(written, tree) == wanted(mixed, tree)


LISTS = {  # as other libraries publish them, each with a path for each of its rules
    "search": {  # EasyLM, scalax
        "transformer/wte/embedding": "transformer/wte/embedding",
        "attention/(wq|wk|wv)/kernel": "transformer/h/11/attention/wk/kernel",
        "feed_forward/w1/kernel": "transformer/h/0/feed_forward/w1/kernel",
        "ffn_norm/kernel": "transformer/h/0/ffn_norm/kernel",
        ".*": "transformer/step",
    },
    "match": {  # t5x looks at the start
        r"decoder/.*/query/kernel": "decoder/layers_10/self_attention/query/kernel",
        r".*mlp/w[io](_\d)?/kernel": "encoder/layers_0/mlp/wi_1/kernel",
        r"(?i)TOKEN": "token_embedder/embedding",
    },
    "fullmatch": {  # big_vision, and MaxText's lists for LoRA
        "decoder/layers/.*attn.*/(query|value)/kernel": "decoder/layers/0/attn/value/kernel",
        "decoder/layers": "decoder/layers",
        "(?x) .* / w  # a weight": "decoder/w",
    },
}  # fmt: skip


@pytest.mark.parametrize("how", LISTS)
def test_lists_of_other_libraries_give_what_they_give_there(how: str) -> None:
    pairs = [(regex, number) for number, regex in enumerate(LISTS[how])]
    paths = [*LISTS[how].values(), "x/decoder/layers", "decoder/layers/x", "transformer/wte"]
    tree = dict.fromkeys(paths, 0)
    match = getattr(re, how)
    first = {p: next((n for r, n in pairs if match(r, p)), None) for p in paths}
    rules = ptk.Rules.from_regexes(pairs, match=how, default=None)
    assert rules(tree) == first
    assert [first[path] for path in LISTS[how].values()] == list(range(len(pairs)))
    compiled = [(re.compile(regex), number) for regex, number in pairs]
    assert ptk.Rules.from_regexes(compiled, match=how, default=None)(tree) == first


class Kind(NamedTuple):
    """A kind of match: what each path is to get, by rules in order."""

    wanted: dict[str, Any]
    rules: list[Any]
    options: dict[str, Any] = {}  # noqa: RUF012  no test changes it


KINDS = {
    "a name is a leaf of that name anywhere": Kind(
        {"a/b/kernel": 1, "kernel": 1, "x/kernel/b": 0}, [("kernel", 1), ("**", 0)]
    ),
    "names are whole": Kind(
        {"q/w": 1, "mq/w": 0, "q/w_init": 0, "q/ww": 0}, [("q/w", 1), ("**", 0)]
    ),
    "a slash in front is the whole path": Kind(
        {"a/up": 1, "x/a/up": 0, "b/up": 0, "up": 0}, [("/a/up", 1), ("**", 0)]
    ),
    "a slash in front of **": Kind({"a": 1, "b/c": 1}, [("/**", 1)]),
    "a star stays in its segment": Kind(
        {"h/0/w": 1, "h/0/x/w": 0, "h/w": 0}, [("/h/*/w", 1), ("**", 0)]
    ),
    "two stars may be nothing": Kind(
        {"h/w": 1, "h/0/w": 1, "h/0/x/w": 1, "g/w": 0}, [("/h/**/w", 1), ("**", 0)]
    ),
    "all below a module, and a leaf of that name": Kind(
        {"a/mlp/w": 1, "mlp/x/y": 1, "b/mlp": 1, "other/mlps/w": 0}, [("mlp/**", 1), ("**", 0)]
    ),
    "numbers are text": Kind(
        {"l_1/w": 1, "l_10/w": 0, "l_2/w": 2}, [("l_1/w", 1), ("l_?/w", 9), ("l_2/w", 2), ("**", 0)]
    ),
    "indices are text": Kind({"0/w": 1, "10/w": 0}, [("/0/w", 1), ("**", 0)]),
    "braces in braces": Kind(
        {"qa/w": 1, "kb/w": 1, "kc/w": 1, "k/w": 0}, [("{qa,k{b,c}}/w", 1), ("**", 0)]
    ),
    "a brace over segments": Kind(
        {"a/b/w": 1, "c/w": 1, "b/w": 0}, [("{a/b,c}/w", 1), ("**", 0)]
    ),
    "a brace with nothing in it": Kind({"w": 1, "w2": 1, "w3": 0}, [("w{,2}", 1), ("**", 0)]),
    "escaped": Kind(
        {"*": 1, "{a,b}": 2, "a\\b": 3, "a": 0},
        [(r"\*", 1), (r"\{a,b\}", 2), (r"a\\b", 3), ("**", 0)],
    ),
    "a glob that begins like a regex": Kind({"re:x": 1, "x": 0}, [(r"\re:x", 1), ("**", 0)]),
    "dots, brackets and signs are literal": Kind(
        {"a.b": 1, "axb": 0, "[ab]": 2, "w?": 3, "w!": 0},
        [("a.b", 1), ("[ab]", 2), ("w?", 3), ("**", 0)],
    ),
    "a key that is empty": Kind(
        {"a/": 1, "/w": 2, "a/w": 0}, [("a/{}", 1), ("/{}/w", 2), ("**", 0)]
    ),
    "no letters of English": Kind(
        {"слой/вес": 1, "層/w": 2, "é": 0}, [("слой/*", 1), ("層/**", 2), ("**", 0)]
    ),
    "lines": Kind({"a\nb": 1, "a": 0}, [("a\nb", 1), ("**", 0)]),
    "a regex is searched for": Kind(
        {"blk/q/kernel": 1, "q": 0}, [(re.compile("q.*kern"), 1), ("**", 0)]
    ),
    "a regex tells numbers apart": Kind(
        {"l_2/w": 1, "l_7/w": 0, "l_12/w": 0}, [("re:l_[0-3]/", 1), ("**", 0)]
    ),
    "the first counts, not the more exact": Kind(
        {"mlp/up": 1, "up": 1}, [("up", 1), ("mlp/up", 2), ("re:up", 3)]
    ),
    "a text twice": Kind({"up": 1}, [("up", 1), ("up", 2)]),
    "Hugging Face, cut at dots": Kind(
        {"model.layers.3.self_attn.k_proj.weight": 1, "lm_head.weight": 0},
        [("self_attn/{q,k}_proj/weight", 1), ("**", 0)], {"split": "/."},
    ),
    "Hugging Face, not cut": Kind(
        {"model.layers.3.k_proj.weight": 1, "norm.weight": 0}, [("*.k_proj.weight", 1), ("**", 0)]
    ),
    "the default": Kind({"a": 1, "b": None}, [("a", 1)], {"default": None}),
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_kinds_of_matches(kind: str) -> None:
    its = KINDS[kind]
    rules = ptk.Rules(its.rules, **its.options)
    nested: dict[str, Any] = {}
    for path in its.wanted:
        node = nested
        *above, last = path.split("/")
        for key in above:
            node = node.setdefault(key, {})
        node[last] = 0
    for tree in (dict.fromkeys(its.wanted, 0), nested):  # as one key, and as keys
        found = rules.assign(tree)
        assert dict(zip(texts(tree), found.values, strict=True)) == its.wanted
        again = rules.assign(tree), rules.assign(tree)  # from the cache
        assert [one.numbers for one in again] == [found.numbers] * 2


def test_paths_of_every_kind_of_key() -> None:
    point = collections.namedtuple("point", "kernel bias")
    tree = {"blocks": [point(1, 2), (3, {4: 4})], "none": None, "empty": {}}
    rules = ptk.Rules([("/blocks/0/kernel", "k"), ("*/bias", "b"), ("blocks/1/**", "rest")])
    assert rules(tree) == {
        "blocks": [point("k", "b"), ("rest", {4: "rest"})], "none": None, "empty": {}
    }  # fmt: skip


class Unhashable:
    """A key of a user's own, which is printed and nothing else."""

    __hash__ = None  # type: ignore[assignment]

    def __str__(self) -> str:
        return "x/1"


@jax.tree_util.register_pytree_with_keys_class
class Odd:
    """A node with such a key."""

    def __init__(self, child: Any) -> None:
        self.child = child

    def tree_flatten_with_keys(self) -> Any:
        return [(Unhashable(), self.child)], None

    @classmethod
    def tree_unflatten(cls, _: Any, children: Any) -> Odd:
        return cls(*children)


@pytest.mark.parametrize("pattern", ["x/1", "/a/x/*", "re:x/1$", "re:a/.*"])
def test_keys_that_have_no_hash(pattern: str) -> None:
    rules = ptk.Rules([(pattern, 1)], default=0)
    assert rules({"a": Odd(0), "b": 0})["a"].child == 1


def test_trees_that_are_one_leaf_or_none() -> None:
    assert ptk.Rules([("**", 1)])(3.0) == 1
    assert ptk.Rules([("re:^$", 1)])(3.0) == 1
    assert ptk.Rules()({}) == {}
    assert ptk.Rules()(None) is None
    with pytest.raises(ptk.SpecError, match="no rule matches"):
        ptk.Rules([("*", 1)])(3.0)


def test_a_search_that_may_be_long_is_right() -> None:
    rules = ptk.Rules([("re:^(a|b|ab)*$", 1), ("re:(x+x+)+y", 2)], default=0)
    tree = {"abab": 0, "abc": 0, "xxy": 0, "xx": 0}
    assert rules(tree) == {"abab": 1, "abc": 0, "xxy": 2, "xx": 0}
    under = rules.under("xx")
    assert under.assign({"xx": tree, "abab": 0}).numbers == [-1, 0, 2, 2, 1]


def test_a_search_without_end_is_stopped_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regexes, "SECONDS", 0.2)
    rules = ptk.Rules([("a", 0), ("re:(x+x+)+y", 1)], default=0)
    with pytest.raises(ptk.SpecError, match="backtracks without end") as caught:
        rules({"x" * 60: 0})
    assert [(fault.code, fault.spec_path) for fault in caught.value.faults] == [
        ("PTK306", "rules[1]")
    ]


@pytest.mark.parametrize("program", ["", "/nowhere/python"])
def test_a_search_that_cannot_be_tried_is_told(
    monkeypatch: pytest.MonkeyPatch, program: str
) -> None:
    monkeypatch.setattr(sys, "executable", program)
    with pytest.raises(ptk.SpecError, match="may search without end, and"):
        ptk.Rules([("re:(x+x+)+y", 1)], default=0)({"a": 0})


def test_searches_that_take_too_long_together_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regexes, "SECONDS", 0.0)
    with pytest.raises(ptk.SpecError, match="took more than 0 s in all"):
        ptk.Rules([("re:b1", 1)], default=0)({"a": 0})
