"""`rules.audit`, and rules put together: `under`, `|`, `optional`, `by_rank`, functions."""

from __future__ import annotations

import copy
import itertools
import pickle
import re
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from jax import ShapeDtypeStruct as Shape
from jax.sharding import PartitionSpec as P

import pytreekit as ptk

MODEL = {
    "embed": {"table": Shape((10, 4), np.float32)},
    "layers": [
        {
            "mlp": {"up": {"kernel": Shape((4, 8), np.float32), "bias": Shape((8,), np.float32)}},
            "norm": {"scale": Shape((4,), jnp.bfloat16)},
        }
    ]
    * 2,
    "step": 3,
}


def faults_of(call: Any, *args: Any, **options: Any) -> list[tuple[str, str, str]]:
    """The code, the place of the leaf and that of the rule of each fault."""
    with pytest.raises(ptk.SpecError) as caught:
        call(*args, **options)
    return [(fault.code, fault.path, fault.spec_path) for fault in caught.value.faults]


def test_an_audit_counts_what_each_rule_took() -> None:
    rules = ptk.Rules([("kernel", "k"), ("mlp/**", "m"), ("norm/*", "n"), ("tabel", "t")])
    audit = rules.audit(MODEL)
    assert [(rule.leaves, rule.bytes, rule.first) for rule in audit.rules] == [
        (2, 2 * 4 * 8 * 4, "layers/0/mlp/up/kernel"),
        (2, 2 * 8 * 4, "layers/0/mlp/up/bias"),
        (2, 2 * 4 * 2, "layers/0/norm/scale"),
        (0, 0, ""),
    ]
    assert (audit.unused, audit.shadowed, audit.defaulted) == ((3,), (), ())
    left = [(leaf.text, leaf.path, leaf.found, leaf.bytes) for leaf in audit.unmatched]
    assert left == [
        ("embed/table", "['embed']['table']", "f32[10,4]", 160), ("step", "['step']", "i32[]", 0)
    ]  # fmt: skip


def test_an_audit_tells_the_shadowed_from_the_unused() -> None:
    rules = ptk.Rules(
        [("bias", 0), ("{bias,kernel}", 1), ("mlp/up/*", 2), ("re:kernel$", 3), ("biass", 4)],
        default=5,
    )
    audit = rules.audit(MODEL)
    assert (audit.unused, audit.shadowed) == ((4,), (2, 3))
    assert [audit.rules[number].shadowed_by for number in (2, 3)] == [(0, 1), (1,)]
    assert len(audit.defaulted) == 4
    assert sum(leaf.bytes for leaf in audit.defaulted) == 176
    audit.raise_if(unmatched=True)
    assert faults_of(audit.raise_if, unused=True, shadowed=True) == [
        ("PTK306", "", "rules[4]"), ("PTK306", "", "rules[2]"), ("PTK306", "", "rules[3]")
    ]  # fmt: skip
    assert {code for code, _, _ in faults_of(audit.raise_if, defaulted=True)} == {"PTK305"}


def test_a_rule_that_may_match_nothing_is_not_unused() -> None:
    rules = ptk.Rules([ptk.optional("head/*", 1), ("**", 0)])
    audit = rules.audit(MODEL)
    assert (audit.unused, audit.rules[0].optional) == ((), True)
    audit.raise_if(unused=True, shadowed=True, unmatched=True, defaulted=True)
    assert "(none, optional)" in str(audit)


def test_several_trees_are_audited_as_one() -> None:
    rules = ptk.Rules([("kernel", 1), ("scale", 2), ("re:head", 3)])
    other = {"head": {"kernel": 1.0}, "x": 2.0}
    assert rules.audit(MODEL).unused == (2,)
    both = rules.audit(MODEL["layers"][0]["mlp"], other)
    assert (both.unused, both.shadowed, both.rules[0].leaves) == ((1,), (2,), 2)
    assert [(leaf.tree, leaf.path) for leaf in both.unmatched] == [
        ("trees[0]", "['up']['bias']"), ("trees[1]", "['x']")
    ]  # fmt: skip
    assert faults_of(rules.audit) == [("PTK001", "", "")]


def test_an_audit_is_shown_as_a_table() -> None:
    audit = ptk.Rules([("kernel", "k" * 99), ("mlp/up/kernel", 1), ("x|<b>", 2)], default=0).audit(
        MODEL
    )
    text = str(audit)
    assert text.isascii()
    assert max(map(len, text.splitlines())) <= 88
    for told in ("3 rules, 1 unused, 1 shadowed", "(unused)", "(shadowed by 0)", "(default)"):
        assert told in text
    assert "<b>" not in audit._repr_html_()
    assert str(ptk.Rules().audit({}))
    many = ptk.Rules([(f"w{n}", n) for n in range(500)]).audit({"w1": 1.0})
    assert "and 300 more" in str(many)
    assert len(many.rules) == 500


def test_under_says_what_the_rules_say_of_the_part() -> None:
    part = ptk.Rules(
        [("/w", 1), ("mlp/**", 2), ("a/b", 3), (re.compile("^c$"), 4), ("d", lambda p, x: p)],
        default=5,
    )
    tree = {"w": 0, "x": {"w": 0, "mlp": {"y": 0}}, "a": {"b": 0}, "c": 0, "q": {"c": 0}, "d": 0}
    within = part.under("enc/*")
    assert within({"enc": [tree, tree]}) == {"enc": [part(tree), part(tree)]}
    outside = {"enc": [tree], "w": 0, "x": {"enc": [{"w": 0}]}}
    assert within.assign(outside).numbers[-2:] == [-1, -1]
    twice = part.under("/b").under("a")
    assert twice({"a": {"b": tree}}) == {"a": {"b": part(tree)}}
    assert part.under("**/enc").assign({"x": {"enc": {"w": 0}}, "enc": {"w": 0}}).values == [1, 1]
    assert faults_of(part.under, "a{") == [("PTK306", "", "prefix")]


def test_or_puts_others_in_front() -> None:
    base, override = ptk.Rules([("a", 1), ("b", 2)], default=0), ptk.Rules([("b", 3)])
    assert (base | override)({"a": 0, "b": 0, "c": 0}) == {"a": 1, "b": 3, "c": 0}
    assert (base | ptk.Rules(default=9))({"c": 0}) == {"c": 9}
    assert base | ptk.Rules() == base
    assert faults_of(lambda: base | ptk.Rules([], split="/.")) == [("PTK306", "", "split")]
    with pytest.raises(TypeError):
        base | {"a": 1}  # type: ignore[operator]


def test_values_by_rank_and_by_functions() -> None:
    rules = ptk.Rules(
        [
            ("kernel", ptk.by_rank({2: "_ model", ...: "other"})),
            ("scale", lambda path, leaf: (path, leaf.dtype.name)),
            ("bias", ptk.by_rank({1: None})),
            ("**", float),  # a class is a value
        ]
    )
    found = rules(MODEL)
    assert found["layers"][1] == {
        "mlp": {"up": {"kernel": "_ model", "bias": None}},
        "norm": {"scale": ("layers/1/norm/scale", "bfloat16")},
    }
    assert (found["step"], found["embed"]) == (float, {"table": float})
    only = ptk.Rules([("**", ptk.by_rank({2: 1}))])
    ranked = [code for code, _, _ in faults_of(only, MODEL)]
    assert ranked == ["PTK306"] * 5
    places = [f"values[{key}]" for key in ("'2'", "True", "-1", "2.0")]
    given = {"2": 1, True: 2, -1: 3, 2.0: 4}
    assert [place for _, _, place in faults_of(ptk.by_rank, given)] == places


def test_what_a_function_raises_says_where() -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        ptk.Rules([("a", lambda path, leaf: 1 // 0)])({"a": 0})
    assert caught.value.__notes__ == ["ptk.Rules called rules[0] for 'a'"]


def test_all_leaves_without_a_rule_are_told_with_what_may_be_meant() -> None:
    rules = ptk.Rules([("embed", 1), ("mlp/upp/*", 2), ("norms/scale", 3), ("bias", 4)])
    with pytest.raises(ptk.SpecError) as caught:
        rules(MODEL)
    assert {(fault.path, fault.hint) for fault in caught.value.faults} == {
        ("['embed']['table']", "write 'embed/**' in rules[0]"),
        ("['layers'][0]['mlp']['up']['kernel']", "write 'mlp/up/*' in rules[1]"),
        ("['layers'][1]['mlp']['up']['kernel']", "write 'mlp/up/*' in rules[1]"),
        ("['layers'][0]['norm']['scale']", "write 'norm/scale' in rules[2]"),
        ("['layers'][1]['norm']['scale']", "write 'norm/scale' in rules[2]"),
        ("['step']", ""),
    }
    hints = {fault.hint: fault.spec_path for fault in caught.value.faults if fault.hint}
    patterns = [rule.text for rule in rules.patterns]
    for hint, place in hints.items():
        patterns[int(place[len("rules[") : -1])] = hint.split("'")[1]
    followed = ptk.Rules(list(zip(patterns, rules.values, strict=True)))
    assert faults_of(followed, MODEL) == [("PTK305", "['step']", "rules")]
    found = rules.assign(MODEL)
    assert found.nearest(0) == "rules[0] = 'embed', 'embed' is a module here: write 'embed/**'"
    assert found.nearest(len(found.leaves) - 1) is None


def test_many_leaves_without_a_rule_are_told_soon_and_shortly() -> None:
    tree = {f"block_{n}": {f"w{m}": 0.0 for m in range(50)} for n in range(100)}
    rules = ptk.Rules([(f"tower{n}/w{n}/kernel", n) for n in range(200)])
    with pytest.raises(ptk.SpecError) as caught:
        rules(tree)
    assert len(caught.value.faults) == 5_000
    assert len(str(caught.value)) < 4_000


def test_leaves_of_one_text_are_a_fault_where_a_rule_looks_at_it() -> None:
    tree = {"a/b": {"w": 0}, "a": {"b": {"w": 0}}}
    assert ptk.Rules([("w", 1)])(tree) == {"a/b": {"w": 1}, "a": {"b": {"w": 1}}}
    assert ptk.Rules([], default=1)(tree) == {"a/b": {"w": 1}, "a": {"b": {"w": 1}}}
    for pattern in ("b/w", "a/**", "/a/b/w", "re:a/b"):
        assert faults_of(ptk.Rules([(pattern, 1)]), tree) == [
            ("PTK306", "['a/b']['w']", "rules[0]")
        ]  # fmt: skip


BAD = {
    "": "the pattern is empty",
    "a/": "it ends in /",
    "a**": "** must stand alone",
    "a{b": "a { is not closed",
    "a}b": "a } closes no {",
    "{a,/b}": "inside of braces",
    "a\\": "escapes nothing",
    "{" * 60 + "}" * 60: "nested more than 50 deep",
    "{a,b}" * 20: "expand to more than 10,000",
    "a" * 20_000: "has 20,000 characters",
    "re:(": "the regex cannot be read",
    "re:*": "nothing to repeat at character 0",
    "re:" + "(" * 4_000 + ")" * 4_000: "the regex cannot be read",
    "re:a{99999999999}": "the regex cannot be read",
    3: "a pattern must be a str",
    None: "a pattern must be a str",
    re.compile(b"a"): "this is of bytes",
}


def test_what_is_no_pattern_is_told_all_at_once() -> None:
    with pytest.raises(ptk.SpecError) as caught:
        ptk.Rules([(pattern, 1) for pattern in BAD])
    told = [f"{fault.fact}; {fault.note}" for fault in caught.value.faults]
    assert [
        wanted for wanted, its in zip(BAD.values(), told, strict=True) if wanted not in its
    ] == []
    assert max(map(len, str(caught.value).splitlines())) <= 88


@pytest.mark.parametrize("rules", [3, "ab", b"ab", [3], ["ab"], [("a",)], [("a", 1, 2)], None])
def test_what_are_no_rules_is_told(rules: Any) -> None:
    assert {code for code, _, _ in faults_of(ptk.Rules, rules)} == {"PTK306"}


def test_rules_without_end_are_told() -> None:
    assert faults_of(ptk.Rules, itertools.repeat(("a", 1))) == [("PTK306", "", "rules")]


@pytest.mark.parametrize("split", ["", ".", "//", "/*", "/{"])
def test_what_cannot_cut_paths_is_told(split: str) -> None:
    assert faults_of(ptk.Rules, [], split=split) == [("PTK306", "", "split")]


def test_regexes_of_other_libraries_that_are_none_are_told() -> None:
    pairs = [("(", 1), (b"a", 2), ("a", 3), "ab", (re.compile(b"b"), 4)]
    places = [place for _, _, place in faults_of(ptk.Rules.from_regexes, pairs)]
    assert places == ["rules[0]", "rules[1]", "rules[3]", "rules[4]"]
    assert faults_of(ptk.Rules.from_regexes, [], match="find") == [("PTK306", "", "match")]
    assert faults_of(ptk.Rules.from_regexes, 3) == [("PTK306", "", "rules")]


def test_a_tree_that_jax_cannot_flatten_is_told() -> None:
    assert faults_of(ptk.Rules([("a", 1)]), {"a": 0, 1: 0}) == [("PTK104", "", "")]


def test_rules_are_values() -> None:
    rules = ptk.Rules({"a": P("x"), "re:b": {"c": 1}}, default=None, split="/.")
    same = ptk.Rules([("a", P("x")), (re.compile("b"), {"c": 1})], default=None, split="/.")
    assert rules == same
    assert hash(rules) == hash(same)
    assert pickle.loads(pickle.dumps(rules)) == rules == copy.deepcopy(rules)
    others = [{"a": P("x")}, {"a": P("y"), "re:b": {"c": 1}}, {"re:b": {"c": 1}, "a": P("x")}]
    assert rules not in [ptk.Rules(other, default=None, split="/.") for other in others]
    assert rules not in [ptk.Rules(others[0], default=None), ptk.Rules(others[0], split="/."), 3]
    assert repr(ptk.Rules([("a", 1)], default=None)) == "Rules([('a', 1)], default=None)"
