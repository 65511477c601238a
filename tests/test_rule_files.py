"""The rule files of the examples are clean: each leaf has a rule, each rule a leaf, all divides."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jax
import pytest
from jax.sharding import PartitionSpec

import pytreekit as ptk
from pytreekit.commands import words
from pytreekit.commands.answers import bundled

FOLDER = Path(__file__).parents[1] / "examples" / "rules"
FILES = sorted(FOLDER.glob("*.toml"))
MODELS = {"gpt2", "llama", "mixtral", "t5", "vit", "bert", "resnet", "whisper", "scanned"}
MOST_BYTES = 400_000
HEADER = re.compile(r"^# (tree|mesh|stack): (.*)$", re.MULTILINE)


class Header(NamedTuple):
    """What the comment at the top of a rule file names."""

    tree: str
    meshes: list[dict[str, int]]
    stack: list[tuple[str, int]] | None


def header(text: str) -> Header:
    found: dict[str, list[str]] = {}
    for name, value in HEADER.findall(text):
        found.setdefault(name, []).append(value)
    stack = [words.stacked(value) for value in found.get("stack", [])]
    return Header(found["tree"][0], [words.mesh(value) for value in found["mesh"]], stack or None)


@functools.cache
def tree_of(name: str) -> Any:
    return ptk.read_shapes(FOLDER / name)


def share(tree: Any, specs: Any, mesh: dict[str, int]) -> float:
    """The share of the bytes that one device has; every part of a dimension is as large."""
    here = total = 0
    for leaf, spec in zip(jax.tree.leaves(tree), jax.tree.leaves(specs), strict=True):
        parts = list(axis_sizes(spec, mesh))
        assert len(parts) <= len(leaf.shape)
        assert all(size % by == 0 for size, by in zip(leaf.shape, parts, strict=False))
        total += math.prod(leaf.shape) * leaf.dtype.itemsize
        here += math.prod(leaf.shape) * leaf.dtype.itemsize // math.prod(parts)
    return here / total


def axis_sizes(spec: Any, mesh: dict[str, int]) -> Iterator[int]:
    for entry in spec:
        axes = entry if isinstance(entry, tuple) else (entry,)
        yield math.prod(mesh[axis] for axis in axes if axis is not None)


def test_each_model_has_a_file_and_together_they_are_small() -> None:
    assert {path.stem for path in FILES} >= MODELS
    assert sum(path.stat().st_size for path in FOLDER.rglob("*") if path.is_file()) < MOST_BYTES
    named = {header(path.read_text(encoding="utf-8")).tree for path in FILES}
    assert named == {f"trees/{path.name}" for path in (FOLDER / "trees").iterdir()}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_rule_file_is_clean_against_its_tree_on_each_of_its_meshes(path: Path) -> None:
    its = header(path.read_text(encoding="utf-8"))
    tree, rules = tree_of(its.tree), ptk.Rules.load(path)
    rules.audit(tree).raise_if(unused=True, shadowed=True, unmatched=True, defaulted=True)
    assert len(its.meshes) >= 2
    for mesh in its.meshes:
        specs = ptk.partition_specs(tree, rules, mesh=mesh, stack=its.stack)
        named = [mesh[axis] for axis in mesh if axis != "data"]
        # What is whole on every device is next to nothing: 7% more than if all were split.
        assert share(tree, specs, mesh) < 1.07 / math.prod(named)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_each_rule_has_its_reason(path: Path) -> None:
    """A comment above it, or above the rules just before."""
    inside = path.read_text(encoding="utf-8").partition("rules = [\n")[2]
    blocks = [block for block in inside.split("\n\n") if block.strip("]\n")]
    bare = [block for block in blocks if not block.lstrip().startswith("#")]
    assert bare == []


@pytest.mark.parametrize(
    ("was", "planted", "told"),
    [
        ('"c_attn/bias", "model"', '"c_atn/bias", "model"', "PTK305"),
        ('"wte/embedding", "model|_ model|_"', '"wte/embedding", "model _"', "PTK303"),
        ('"c_fc/bias", "model"', '"c_fc/bias", "_ model"', "PTK302"),
        ('"c_fc/bias", "model"', '"c_fc/bias", "modle"', "PTK301"),
        ('"wpe/embedding", "replicate"', '"**/*", "replicate"', "PTK306"),
        ('"wpe/embedding", "replicate"],', '"wpe/embedding", "_"], ["wqe", "_"],', "PTK306"),
    ],
)
def test_a_planted_fault_is_noticed(tmp_path: Path, was: str, planted: str, told: str) -> None:
    text = (FOLDER / "gpt2.toml").read_text(encoding="utf-8")
    assert was in text
    (tmp_path / "gpt2.toml").write_text(text.replace(was, planted), encoding="utf-8")
    with pytest.raises(ptk.SpecError) as error:
        test_a_rule_file_is_clean_against_its_tree_on_each_of_its_meshes(tmp_path / "gpt2.toml")
    assert told in {fault.code for fault in error.value.faults}


def test_a_vocabulary_that_does_not_divide_falls_back_and_a_padded_one_does_not() -> None:
    rules, mesh = ptk.Rules.load(FOLDER / "gpt2.toml"), {"data": 4, "model": 2}
    tables = {
        size: {"wte": {"embedding": jax.ShapeDtypeStruct((size, 768), "float32")}}
        for size in (50257, 50304)
    }
    specs = {size: ptk.partition_specs(tree, rules, mesh=mesh) for size, tree in tables.items()}
    assert specs[50257]["wte"]["embedding"] == PartitionSpec(None, "model")
    assert specs[50304]["wte"]["embedding"] == PartitionSpec("model")


def test_rules_without_a_stack_serve_layers_that_are_apart() -> None:
    rules = ptk.Rules.load(FOLDER / "scanned.toml")
    tree, mesh = tree_of("trees/scanned.json"), {"fsdp": 4, "model": 2}
    layers = tree["params"]["decoder"]["layers"]
    one = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), layers)
    stacked = ptk.partition_specs(layers, rules, mesh=mesh)
    apart = ptk.partition_specs(one, rules, mesh=mesh)
    assert jax.tree.map(lambda spec: tuple(spec)[1:], stacked) == jax.tree.map(tuple, apart)


def test_what_comes_with_the_package_is_that_of_gpt2() -> None:
    for suffix, path in ((".toml", "gpt2.toml"), (".json", "trees/gpt2.json")):
        assert bundled(suffix).read_bytes() == (FOLDER / path).read_bytes()
