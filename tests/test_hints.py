"""Each hint is carried out as a reader would, and must do what it promises.

Assignments are written into the spec, words are done to the call, without the package's own ways to
repair. Then the fault must be gone, no new one there, and exactly what the hint says must remain.
"""

from __future__ import annotations

import ast
import copy
import dataclasses
import functools
import inspect
import re
import types
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from jax.tree_util import keystr, tree_flatten_with_path

import pytreekit as ptk

from . import fault_examples
from .hint_setups import FURTHER, KEY
from .strategies import Style, calls
from .test_vmap_corpus import CASES, Run, call, spied
from .vmap_cases import Setup

REMAINS = re.compile(r"   \(then (.*) remains?\)$")


def recorded(example: Callable[[], Any]) -> Setup | None:
    """What an example wraps and calls, without its being done; None if it is no call that maps."""
    made: dict[str, Any] = {}

    def vmap(fun: Any, in_axes: Any = 0, **options: Any) -> Callable[..., Any]:
        made.update(f=fun, in_axes=in_axes, **options)
        return lambda *args, **kwargs: made.update(args=args, kwargs=kwargs)

    with mock.patch.object(fault_examples, "ptk", types.SimpleNamespace(vmap=vmap)):
        try:
            example()
        except (AttributeError, ptk.SpecError):  # another function, or a plan
            return None
    return Setup(**made) if made else None


ELSEWHERE = {"PTK110", "PTK111", "PTK205", "PTK951", "PTK952", "PTK953"}  # not in axes
OTHER_SPECS = ("PTK3", "PTK4", "PTK5")
SETUPS: dict[str, Callable[[], Setup]] = {
    **{name: case.build for name, case in CASES.items() if not case.accepts},
    **{
        f"{code}, example {number}": functools.partial(recorded, example)
        for code, examples in fault_examples.EXAMPLES.items()
        for number, example in enumerate(examples)
        if code not in ELSEWHERE and not code.startswith(OTHER_SPECS)
        if recorded(example)
    },
    **{name: functools.partial(dataclasses.replace, setup) for name, setup in FURTHER.items()},
}


def error_of(setup: Setup) -> ptk.SpecError | None:
    """The faults of a call. What else it raises is no business of ours."""
    try:
        call(setup, ptk.vmap, setup.f)
    except Exception as error:
        return error if isinstance(error, ptk.SpecError) else None
    return None


def stage(error: ptk.SpecError) -> str:  # when it was found: `before tracing`
    return str(error).split("\n", 1)[0].rpartition("found ")[2]


# ---- a hint carried out -------------------------------------------------------------------------


def children(node: Any) -> tuple[list[tuple[str, Any]], Any]:
    below, structure = tree_flatten_with_path(node, is_leaf=lambda child: child is not node)
    return [(keystr(path), child) for path, child in below], structure


def first_key(place: str, keys: Iterable[str]) -> str:
    """The first of the keys in a place such as `[0]['w'].b`."""
    for key in keys:
        if re.match(re.escape(key) + r"([.[]|$)", place):
            return key
    raise LookupError(place)


def at(node: Any, place: str) -> Any:
    if not place:
        return node
    below = dict(children(node)[0])
    key = first_key(place, below)
    return at(below[key], place[len(key) :])


def put(node: Any, place: str, value: Any) -> Any:
    """The tree with another value at a place."""
    if not place:
        return value
    below, structure = children(node)
    key = first_key(place, dict(below))
    rest = place[len(key) :]
    return structure.unflatten(put(child, rest, value) if t == key else child for t, child in below)


def types_in(node: Any) -> Iterator[type]:
    yield type(node)
    for _, child in [] if jax.tree_util.all_leaves((node,)) else children(node)[0]:
        yield from types_in(child)


class NobodyCanWriteError(Exception):  # a hint is cut, and there is no repaired spec
    pass


class Reader:
    """Someone who does what a hint says to a copy of the call, with its error at hand."""

    def __init__(self, setup: Setup, error: ptk.SpecError, faults: list[ptk.Fault]) -> None:
        kwargs, nest = dict(setup.kwargs), copy.deepcopy(setup.nest)
        self.setup = dataclasses.replace(setup, kwargs=kwargs, nest=nest)
        self.error, self.faults = error, faults
        self.kinds: list[str] = []
        self.written: dict[str, Any] = {}
        # With nothing wrong outside, it is the inner of two mapped functions that is told of.
        outside = dataclasses.replace(setup, nest=(), f=lambda *_, **__: 0.0)
        inside = bool(setup.nest) and error_of(outside) is None
        self.options = self.setup.nest[0] if inside else vars(self.setup)

    def follow(self, hint: str) -> Setup:
        for piece in hint.split("; "):
            matches = ((way, re.fullmatch(pattern, piece)) for pattern, way in WAYS.items())
            way, found = next((way, found) for way, found in matches if found)
            way(self, *found.groups())
        return self.setup

    def read(self, name: str, place: str, text: str) -> Any:
        """The value that a hint writes. Where it is cut, or is no Python, the error has it."""
        names = {kind.__name__: kind for kind in types_in((self.setup.args, self.options[name]))}
        text = re.sub(r"[\w.<>]*<locals>\.", "", text)  # of a class in a function
        text = re.sub(r"<class '([\w.]+)'>", r"\1", text)  # of a defaultdict
        try:
            return eval(text, {"np": np} | names)
        except (SyntaxError, NameError):
            if self.error.repaired is None:
                raise NobodyCanWriteError(text) from None
            self.kinds.append("not in full")
            return at(self.error.repaired, place)

    def write(self, name: str, place: str, text: str) -> None:
        if name == "axis_size":
            self.kinds.append("axis_size")
            self.options[name] = ast.literal_eval(text)
            return
        value = self.written[name + place] = self.read(name, place, text)
        try:
            self.options[name] = put(self.options[name], place, value)
            self.kinds.append("assign")
        except LookupError:  # there is no such key yet
            self.with_dict(name, place, lambda its, key: its | {key: value})
            self.kinds.append("add")

    def override(self, name: str, place: str, pattern: str, value: str) -> None:
        self.kinds.append("override")
        new = at(self.options[name], place) | ptk.Rules({ast.literal_eval(pattern): int(value)})
        self.options[name] = put(self.options[name], place, new)

    def delete(self, name: str, place: str) -> None:
        self.with_dict(name, place, lambda its, key: {k: its[k] for k in its.keys() - {key}})
        self.kinds.append("delete")

    def with_dict(self, name: str, place: str, change: Callable[[Any, Any], Any]) -> None:
        parent, _, key = place[:-1].rpartition("[")
        new = change(at(self.options[name], parent), ast.literal_eval(key))
        self.options[name] = put(self.options[name], parent, new)

    def more(self, count: str) -> None:
        """The same again at the other places: one for each fault, and all of one value."""
        self.kinds.append("more alike")
        others = {fault.spec_path for fault in self.faults} - set(self.written)
        assert len(others) == int(count)
        (text,) = {repr(value) for value in self.written.values()}
        for place in others:
            self.write(*re.fullmatch(r"(\w+)(.*)", place).groups(), text)

    def by_position(self, names: str) -> None:
        self.kinds.append("by position")
        self.setup.args += tuple(self.setup.kwargs.pop(name) for name in names.split(", "))

    def partial(self, fun: str, name: str) -> None:
        self.kinds.append("partial")
        assert fun == self.setup.f.__name__
        self.setup.f = functools.partial(self.setup.f, **{name: self.setup.kwargs.pop(name)})

    def other_argument(self, text: str, place: str, is_list: str | None) -> None:
        self.kinds += ["pass " + text.partition("(")[0], *["no batch"] * bool(is_list)]
        bound = inspect.signature(self.setup.f).bind(*self.setup.args, **self.setup.kwargs)
        names = {"jax": jax, "jnp": jnp, **bound.arguments}
        if "split(key," in text and getattr(names.get("key"), "shape", None) not in {(), (2,)}:
            names["key"] = KEY  # what the keys that were passed were split from
        name, path = re.fullmatch(r"(\w+)(.*)", place).groups()
        bound.arguments[name] = put(bound.arguments[name], path, eval(text, names))
        self.setup.args = bound.args[: len(self.setup.args)]

    def any_size(self) -> None:
        self.kinds.append("any size")
        self.options["axis_size"] = 3


WAYS: dict[str, Callable[..., None]] = {
    r"(in_axes|out_axes|axis_size)((?:\[.*?\]|\.\w+)*) = (.*)": Reader.write,
    r"(in_axes)((?:\[.*?\])*) \|= ptk\.Rules\(\[\(('.*'), (.*)\)\]\)": Reader.override,
    r"del (in_axes|out_axes)(.*)": Reader.delete,
    r"and (\d+) more alike": Reader.more,
    r"pass (.*) by position": Reader.by_position,
    r"vmap functools\.partial\((.*), (\w+)=\.\.\.\) instead": Reader.partial,
    r"pass (.*) for (.*?)(, a (?:list|tuple) is no batch)?": Reader.other_argument,
    r"map an argument, or pass axis_size=N for N copies": Reader.any_size,
}


def identity(fault: ptk.Fault, *, whole: bool = True) -> tuple[str, str]:
    """What makes a fault a new one. Sizes that disagree are one fault, wherever they are."""
    sizes = whole and fault.code == "PTK102"
    return (fault.code, "" if sizes else fault.place or fault.spec_path)


def complaints(setup: Setup, error: ptk.SpecError, hint: str) -> tuple[list[str], list[str]]:
    """The promises that a hint breaks, and of what kinds it is."""
    faults = [fault for fault in error.faults if fault.hint == hint]
    promised = REMAINS.search(hint)
    reader = Reader(setup, error, faults)
    after = error_of(reader.follow(REMAINS.sub("", hint)))
    left = after.faults if after is not None and stage(after) == stage(error) else ()
    exactly = {identity(fault, whole=False) for fault in left}
    known = {identity(fault) for fault in error.faults}
    codes = ", ".join(sorted({fault.code for fault in left}))
    said = [f"{f.place} is still there" for f in faults if identity(f, whole=False) in exactly]
    said += [f"{fault.place} is new" for fault in left if identity(fault) not in known]
    if codes != (promised[1] if promised else "") and "not in full" not in reader.kinds:
        said.append(f"{codes or 'nothing'} remains")
    return said, reader.kinds + ["remains"] * bool(promised)


def refused(setup: Setup, error: ptk.SpecError) -> Exception | None:
    """What jax.vmap has against the repaired spec, if it has a say before the function has."""
    name = "out_axes" if " in out_axes, " in str(error) else "in_axes"
    reader, run = Reader(setup, error, []), Run()
    reader.options[name] = error.repaired
    later = error_of(reader.setup)
    if later is not None and stage(later) != stage(error):
        return None  # a spec that is sound as such, of a call that has other faults
    rules = any(isinstance(leaf, ptk.Rules) for leaf in jax.tree.leaves(error.repaired))
    by_name = name == "in_axes" and (rules or isinstance(error.repaired, dict))  # what JAX lacks
    try:
        call(reader.setup, ptk.vmap if by_name else jax.vmap, spied(setup.f, run))
    except Exception as refusal:
        return None if run.entered and name == "in_axes" else refusal
    return None


def told(setup: Setup) -> list[tuple[list[str], list[str]]]:
    """What there is to say of each hint of a call, and of the repaired spec."""
    error = error_of(setup)
    hints = dict.fromkeys(fault.hint for fault in error.faults if fault.hint) if error else ()
    said = []
    for hint in hints:
        try:
            said.append(complaints(setup, error, hint))
        except NobodyCanWriteError:
            said.append(([], ["cut"]))
    refusal = refused(setup, error) if error and error.repaired is not None else None
    return [*said, *[([f"jax.vmap: {refusal}"], [])] * bool(refusal)]


told_of = functools.cache(lambda name: told(SETUPS[name]()))


@pytest.mark.parametrize("name", SETUPS)
def test_hints_keep_their_promises(name):
    assert [said for said, _ in told_of(name) if said] == []


@settings(max_examples=60)
@given(calls(Style(damage=("in_axes", "argument", "axis_size"), faults=(1, 1, 2))))
def test_hints_keep_their_promises_in_drawn_calls(drawn):
    def entered(*args, **kwargs):
        raise NotImplementedError

    setup = Setup(entered, drawn.args, drawn.kwargs, drawn.in_axes, axis_size=drawn.axis_size)
    assert [said for said, _ in told(setup) if said] == []


# The texts that the source makes hints of, each with what a reader does at it.
TEXTS = {
    "{} = {}": "assign",
    "{}[{}] = {}": "add",
    "{} |= ptk.Rules([({}, {})])": "override",
    "del {}[{}]": "delete",
    "and {} more alike": "more alike",
    "   (then {} remain{})": "remains",
    "axis_size = {}": "axis_size",
    "pass {} by position": "by position",
    "vmap functools.partial({}, {}=...) instead": "partial",
    "map an argument, or pass axis_size=N for N copies": "any size",
    "pass jax.random.split({}, {}) for {}": "pass jax.random.split",
    "pass {} for {}, a {} is no batch": "no batch",
    "jnp.stack({})": "pass jnp.stack",
    "jnp.asarray({})": "pass jnp.asarray",
    "jax.tree.map(lambda *a: jnp.stack(a), *{})": "pass jax.tree.map",
}


def texts_in(source: str, *, all_of_it: bool = False) -> Iterator[str]:
    """The f-strings of the functions that make an Advice, or of all; a constant Advice as well."""
    for function in ast.walk(ast.parse(source)):
        within = list(ast.walk(function)) if isinstance(function, ast.FunctionDef) else []
        advice = [n for n in within if isinstance(n, ast.Call) and ast.unparse(n.func) == "Advice"]
        yield from (n.args[0].value for n in advice if isinstance(n.args[0], ast.Constant))
        for text in within if advice or all_of_it else ():
            if isinstance(text, ast.JoinedStr):
                yield "".join(getattr(piece, "value", "") if isinstance(piece, ast.Constant)
                              else "{}" for piece in text.values)  # fmt: skip


def test_every_kind_of_hint_is_carried_out():
    found: set[str] = set()
    for path in Path(ptk.__file__).parent.rglob("*.py"):
        all_of_it = path.parent.name == "specs" and path.name in {"repair.py", "hints.py"}
        if path.parent.name == "parallel":
            continue  # carried out in the tests of these
        found |= {*texts_in(path.read_text(encoding="utf-8"), all_of_it=all_of_it)}
    assert found == set(TEXTS)
    new = 'def f(x):\n    return [Advice(f"buy {x}", g), Advice("sell", g)]'
    assert {*texts_in(new)} == {"buy {}", "sell"}
    done = {kind for name in SETUPS for _, kinds in told_of(name) for kind in kinds}
    assert done == {*TEXTS.values(), "not in full"}
    assert all(fault.hint for setup in FURTHER.values() for fault in error_of(setup).faults)


# ---- the tests can fail -------------------------------------------------------------------------

PLANTED = [
    ("PTK101, example 0", "in_axes[0]['b'] = 3", "params['b'] is still there"),
    ("scalar-under-zero", "in_axes = (None, 5)", "x is new"),
    ("three faults", "in_axes[0] = 0", "PTK104, PTK202 remains"),
    ("PTK202, example 0", "in_axes[0] = (0, 0)   (then PTK101 remains)", "PTK202 remains"),
    ("PTK101, example 0", "in_axes[0]['b'] = None   (then PTK102 remains)", "nothing remains"),
    ("typed-key-unsplit-under-zero", "pass jax.random.split(key, 4) for key", "key is new"),
]


@pytest.mark.parametrize(("name", "hint", "complaint"), PLANTED)
def test_a_wrong_hint_is_noticed(name, hint, complaint):
    setup = SETUPS[name]()
    error = error_of(setup)
    error.faults = (dataclasses.replace(error.faults[0], hint=hint), *error.faults[1:])
    assert complaint in complaints(setup, error, hint)[0]


@pytest.mark.parametrize("wrong", [(2, 0), ((0,), 0), (0, 0, 0)])
def test_a_wrong_repaired_spec_is_noticed(wrong):
    setup = SETUPS["axis-out-of-range"]()
    error = error_of(setup)
    assert refused(setup, error) is None
    error.repaired = wrong
    assert refused(setup, error) is not None
