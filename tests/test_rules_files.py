"""Rules as JSON, YAML and TOML, both ways, and what no rules can be read from."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.sharding import PartitionSpec as P

import pytreekit as ptk
from pytreekit.specs.rule_files import LONGEST

pytest.importorskip("yaml")

EXAMPLES = int(os.environ.get("PYTREEKIT_EXAMPLES", "0"))
FORMS = ("json", "yaml", "toml")


class Ranks(dict[Any, Any]):
    """What `ptk.by_rank` is to be made of."""


def built(value: Any) -> Any:
    """A value: strategies make nothing of pytreekit, whose annotations are checked at random."""
    if type(value) is Ranks:
        return ptk.by_rank({rank: built(one) for rank, one in value.items()})
    if type(value) is dict:
        return {key: built(one) for key, one in value.items()}
    return type(value)(map(built, value)) if type(value) in (list, tuple) else value


axes = st.sampled_from(["data", "model", "a b", "é", ""])
entries = st.none() | axes | st.just(...) | st.tuples(axes, axes)
specs = st.lists(entries, max_size=3).map(lambda entries: P(*entries))
odd = ["none", "P", "1", "yes", "null", "1e3", "2024-01-01", "_ a|b a+b? ...", "\x7f", "~", "'\""]
words = st.sampled_from(odd) | st.text(max_size=6)
scalars = (
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | words | st.just(...)
    | st.floats(allow_nan=False, allow_infinity=False) | specs
)  # fmt: skip
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(words | st.sampled_from(["P", "none", "dict"]), inner, max_size=2)
        | st.dictionaries(st.just(...) | st.integers(0, 9), inner, max_size=2).map(Ranks)
    ),
    max_leaves=5,
)
escaped = words.filter(bool).map(lambda text: re.sub(r"([\\*{},/])", r"\\\1", text) + "x")
patterns = st.sampled_from(["a/{b,c}/**", "/w", "re:(a|b)+$", r"\re:x", "{}/*"]) | escaped
listed = st.lists(st.tuples(patterns, values, st.booleans()), max_size=4)
options = st.fixed_dictionaries({}, optional={"default": values, "split": st.just("/.")})


@settings(max_examples=EXAMPLES or 60)
@given(listed, options, st.booleans(), st.sampled_from(FORMS))
def test_what_is_written_is_read_as_it_was(
    rows: list[Any], options: dict[str, Any], inside: bool, form: str
) -> None:
    pairs = [(pattern, built(value)) for pattern, value, _ in rows]
    rules = [ptk.optional(*its) if row[2] else its for its, row in zip(pairs, rows, strict=True)]
    made = ptk.Rules(rules, **{name: built(value) for name, value in options.items()})
    made = made.under("vision/*") | made if inside else made
    text = made.dumps(form)
    read = ptk.Rules.loads(text, form)
    assert read == made
    assert [rule.optional for rule in read.entries] == [rule.optional for rule in made.entries]
    assert read.dumps(form) == text


@pytest.mark.parametrize("suffix", [".json", ".yaml", ".yml", ".toml", ".JSON"])
def test_files_both_ways(tmp_path: Path, suffix: str) -> None:
    rules = ptk.Rules([("слой/*", P(None, ("a", "b"))), ptk.optional("b", (1, None))], default=...)
    path = tmp_path / f"rules{suffix}"
    rules.dump(path)
    assert ptk.Rules.load(str(path)) == rules
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n"))  # of Windows
    assert ptk.Rules.load(path) == rules


def test_files_as_people_write_them() -> None:
    yaml = """
    default: replicate
    rules:
      attention/{query,key}/kernel: ... model   # a mapping of patterns
      "re:lora_[ab]$": {P: [_, [data, fsdp], ...]}
      kernel: {by_rank: {"2": _ model, "...": replicate}}
    """
    toml = """
    rules = [
      ["mlp/**", "_ model"],
      {pattern = "w", value = {none = true}, optional = true, under = "params/*"},
    ]
    """
    assert ptk.Rules.loads(yaml, "yaml") == ptk.Rules(
        {
            "attention/{query,key}/kernel": "... model",
            "re:lora_[ab]$": P(None, ("data", "fsdp"), ...),
            "kernel": ptk.by_rank({2: "_ model", ...: "replicate"}),
        },
        default="replicate",
    )
    read = ptk.Rules.loads(toml, "toml")
    assert [rule.pattern.text for rule in read.entries] == ["mlp/**", "/params/*/**/w"]
    assert (read.values, read.entries[1].optional) == (("_ model", None), True)
    assert ptk.Rules.loads("[]", "json") == ptk.Rules() == ptk.Rules.loads("rules = []", "toml")


DEEP = 100_000
BAD: dict[str, tuple[str, str, str]] = {  # a form, a text, what is told
    "nothing": ("json", "", "this is no JSON: Expecting value, line 1"),
    "nothing in YAML": ("yaml", "", "this is None"),
    "nothing in TOML": ("toml", "", "this is a mapping"),
    "a number": ("json", "3", "this is an int"),
    "JSON with a comma": ("json", '[["a", 1],]', "this is no JSON"),
    "half a file": ("yaml", "rules: [[a, ", "this is no YAML"),
    "tabs": ("yaml", "rules:\n\t- a", "this is no YAML"),
    "TOML that stops": ("toml", "rules = [", "this is no TOML"),
    "keys of others": ("yaml", "a: &a {k: 1}\nrules: {<<: *a}", "merge keys, <<, are not read"),
    "a NaN in YAML": ("yaml", "- [a, .nan]", "a value cannot be the number nan"),
    "an infinity in TOML": ("toml", "rules = [['a', [-inf]]]", "cannot be the number -inf"),
    "a NaN": ("json", '[["a", NaN]]', "JSON has no NaN"),
    "a number of many digits": ("json", f'[["a", {"9" * 5000}]]', "this is no JSON"),
    "the same in TOML": ("toml", f"rules = [['a', {'9' * 5000}]]", "this is no TOML"),
    "the same in YAML": ("yaml", f"- [a, {'9' * 5000}]", "this is no YAML"),
    "a key twice": ("json", '{"rules": [], "rules": []}', "the key 'rules' twice"),
    "a key twice in YAML": ("yaml", "rules: {a: 1, a: 2}", "the key 'a' twice"),
    "a key twice in TOML": ("toml", "rules = []\nrules = []", "this is no TOML"),
    "deep JSON": ("json", "[" * DEEP, "nested too deep"),
    "deep YAML": ("yaml", "[" * DEEP, "nested too deep"),
    "deep TOML": ("toml", "rules = " + "[" * DEEP, "nested too deep"),
    "deeper than a value": ("json", f'[["a", {"[" * 60}{"]" * 60}]]', "nested more than 50 deep"),
    "a cycle": ("yaml", "rules: [[a, &x [*x]]]", "or holds itself"),
    "a cycle of rules": ("yaml", "&x [*x]", "or holds itself"),
    "a cycle of keys": ("yaml", "rules: &x {a: *x}", "or holds itself"),
    "a bomb": (
        "yaml",
        "\n".join(["x0: &x0 [1]", *(f"x{n}: &x{n} [{f'*x{n - 1}, ' * 9}]" for n in range(1, 9)),
                   "rules: [[a, *x8]]"]),
        "more than 300,000 items",
    ),
    "too long": ("json", " " * (LONGEST + 1), "more than 500,000 characters"),
    "an object of Python": ("yaml", "!!python/object/apply:os.getcwd []", "this is no YAML"),
    "a date": ("yaml", "- [a, 2024-01-01]", "a value cannot be a date"),
    "a set": ("yaml", "- [a, !!set {x}]", "a value cannot be a set"),
    "a date that is none": ("yaml", "- [a, 2024-13-45]", "this is no YAML"),
    "a key that is a list": ("yaml", "- [a, {[1]: 2}]", "this is no YAML"),
    "a key that is a number": ("yaml", "- [a, {1: 2}]", "the keys of a mapping must be text"),
    "a time of TOML": ("toml", "rules = [['a', 12:00:00]]", "a value cannot be a time"),
    "an unknown key": ("json", '{"rules": [], "defualt": 1}', "did you mean 'default'?"),
    "no rules": ("json", '{"default": 1}', "a mapping with 'rules'"),
    "rules that are text": ("json", '{"rules": "a"}', "rules must be a list of pairs"),
    "split": ("json", '{"rules": [], "split": "."}', "split must begin with /"),
    "a row of one": ("json", '[["a"]]', "a rule must be [pattern, value]"),
    "no pattern": ("json", '[{"value": 1}]', "a rule has no pattern"),
    "a pattern that is none": ("json", '[["a{", 1]]', "is not closed"),
    "a pattern that is a number": ("json", "[[1, 1]]", "a pattern must be a str"),
    "optional": ("json", '[{"pattern": "a", "value": 1, "optional": 1}]', "must be true or false"),
    "under": ("json", '[{"pattern": "a", "value": 1, "under": 1}]', "a prefix must be a str"),
    "a P of numbers": ("json", '[["a", {"P": [0]}]]', "an entry of P must be an axis"),
    "a P of P": ("json", '[["a", {"P": [{"P": []}]}]]', "an entry of P must be an axis"),
    "a P that is text": ("json", '[["a", {"P": "model"}]]', "P must be a list"),
    "ranks": ("json", '[["a", {"by_rank": {"two": 1}}]]', "a rank is an int of 0 or more"),
    "ranks in a list": ("json", '[["a", {"by_rank": [1]}]]', "by_rank cannot be a list"),
    "none": ("json", '[["a", {"none": 0}]]', "none must be true"),
    "the default": ("json", '{"rules": [], "default": {"P": [1]}}', "an entry of P"),
    "a surrogate": ("json", '[["\\ud800{", 1]]', "is not closed"),
}  # fmt: skip


@pytest.mark.parametrize("kind", BAD)
def test_what_is_wrong_in_a_text_is_told(kind: str) -> None:
    form, text, told = BAD[kind]
    with pytest.raises(ptk.SpecError) as caught:
        ptk.Rules.loads(text, form)
    assert {fault.code for fault in caught.value.faults} == {"PTK306"}
    assert told in re.sub(r"\s+", " ", str(caught.value))
    assert str(caught.value).isascii()


def test_all_that_is_wrong_in_a_file_is_told_at_once(tmp_path: Path) -> None:
    path = tmp_path / "rules.json"
    path.write_text(json.dumps({"rules": [["a{", 1], ["b"], ["re:(", 2]], "defalt": 1, "split": 2}))
    with pytest.raises(ptk.SpecError) as caught:
        ptk.Rules.load(path)
    assert len(caught.value.faults) > 1


@pytest.mark.parametrize(
    "data", [b"\xff\xfe[]", b"\x00" * 3_000_000, bytes(range(256))], ids=["utf-16", "zeros", "all"]
)
@pytest.mark.parametrize("form", FORMS)
def test_files_of_bytes_are_told(tmp_path: Path, form: str, data: bytes) -> None:
    path = tmp_path / f"rules.{form}"
    path.write_bytes(data)
    with pytest.raises(ptk.SpecError) as caught:
        ptk.Rules.load(path)
    assert [fault.code for fault in caught.value.faults] == ["PTK306"]


def test_paths_that_are_none_are_told(tmp_path: Path) -> None:
    with pytest.raises(ptk.SpecError, match=r"must end in one of \.json, \.yaml, \.yml, \.toml"):
        ptk.Rules.load(tmp_path / "rules.ini")
    with pytest.raises(FileNotFoundError):
        ptk.Rules.load(tmp_path / "none.json")


HOLDS_ITSELF: list[Any] = []
HOLDS_ITSELF.append(HOLDS_ITSELF)


@pytest.mark.parametrize(
    "value",
    [len, float("inf"), {1: 2}, HOLDS_ITSELF, object(), P(P.UNCONSTRAINED), 1 + 2j, b"", {1}],
    ids=lambda value: type(value).__name__,
)
def test_what_no_file_holds_is_told(tmp_path: Path, value: Any) -> None:
    path = tmp_path / "rules.json"
    with pytest.raises(ptk.SpecError) as caught:
        ptk.Rules([("a", value), ("b", 1), ("c", [value])], default=value).dump(path)
    assert [fault.spec_path for fault in caught.value.faults] == ["rules[0]", "rules[2]", "default"]
    assert not path.exists()


def test_that_yaml_is_not_installed_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    for call in (lambda: ptk.Rules.loads("[]", "yaml"), lambda: ptk.Rules().dumps("yaml")):
        with pytest.raises(ptk.SpecError, match="YAML needs PyYAML, which is not installed"):
            call()


def test_half_of_a_character_is_told_where_it_cannot_be_written() -> None:
    rules = ptk.Rules([("\ud800", 1)])
    assert ptk.Rules.loads(rules.dumps("json"), "json") == rules
    assert ptk.Rules.loads(rules.dumps("yaml"), "yaml") == rules
    with pytest.raises(ptk.SpecError, match="TOML cannot hold half of a character"):
        rules.dumps("toml")
