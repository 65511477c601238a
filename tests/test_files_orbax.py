"""Shapes from checkpoints of orbax, as its library writes them, and from damaged ones."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
import pytest

import pytreekit as ptk

TREE = {
    "params": {"layers": [jnp.ones(3, jnp.bfloat16), jnp.ones((2, 5))], "w": jnp.ones((4, 3))},
    "pair": (jnp.ones(2, jnp.int8), jnp.ones((), jnp.float16)),
    "host": np.ones(2),
    "step": 7,
    "nothing": None,
}
SHAPES = {
    "host": "float64[2]",
    "pair/0": "int8[2]",
    "pair/1": "float16[]",
    "params/layers/0": "bfloat16[3]",
    "params/layers/1": "float32[2,5]",
    "params/w": "float32[4,3]",
    "step": "int64[]",
}


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tree on its own, and steps of a manager."""
    root = tmp_path_factory.mktemp("orbax")
    with ocp.StandardCheckpointer() as checkpointer:
        checkpointer.save(root / "one", TREE)
    with ocp.CheckpointManager(root / "steps") as manager:
        for step in (9, 10):
            state = ocp.args.StandardSave({"w": jnp.ones(step)})
            manager.save(step, args=ocp.args.Composite(state=state))
    return root


@pytest.fixture
def copy(saved: Path, tmp_path: Path) -> Iterator[Path]:
    shutil.copytree(saved / "one", tmp_path / "one")
    yield tmp_path / "one"
    for path in (tmp_path, tmp_path / "one"):
        assert not {file.name for file in path.iterdir()} & {"written"}


def told(tree: Any) -> dict[str, str]:
    pairs = jax.tree.leaves_with_path(tree)
    return {
        jax.tree_util.keystr(path, simple=True, separator="/"): (
            f"{leaf.dtype}[{','.join(map(str, leaf.shape))}]"
        )
        for path, leaf in pairs
    }


def refused(path: Path) -> ptk.SpecError:
    with pytest.raises(ptk.SpecError) as caught:
        ptk.read_shapes(path)
    assert str(caught.value).isascii()
    assert len(str(caught.value)) < 2_000
    return caught.value


def test_a_tree_is_read_as_it_was_saved(saved: Path) -> None:
    tree = ptk.read_shapes(saved / "one")
    assert told(tree) == SHAPES
    assert isinstance(tree["params"]["layers"], list)
    assert tree["nothing"] is None
    assert all(isinstance(leaf, jax.ShapeDtypeStruct) for leaf in jax.tree.leaves(tree))


def test_no_weights_are_read(copy: Path) -> None:
    for file in copy.rglob("d/*"):
        if "ocdbt.process" in file.as_posix():
            file.unlink()  # what holds the values
    assert told(ptk.read_shapes(copy)) == SHAPES


def test_of_steps_the_last_is_read_by_number(saved: Path) -> None:
    assert told(ptk.read_shapes(saved / "steps")) == {"w": "float32[10]"}
    assert told(ptk.read_shapes(saved / "steps" / "9")) == {"w": "float32[9]"}


def test_several_trees_are_told_apart_by_name(saved: Path, tmp_path: Path) -> None:
    for name in ("params", "state"):
        shutil.copytree(saved / "one", tmp_path / "both" / name)
    error = refused(tmp_path / "both")
    assert error.faults[0].code == "PTK802"
    assert "holds 2 trees: name one, params, state" in str(error)


def damaged(folder: Path, text: str | bytes, file: str = "_METADATA") -> ptk.SpecError:
    (folder / file).write_bytes(text if isinstance(text, bytes) else text.encode())
    return refused(folder)


DAMAGED = ["", "{", "[]", '{"tree_metadata": 3}', b'{"\xff": 1}', '{"a": 1, "a": 2}', "[" * 99_999]


@pytest.mark.parametrize("text", DAMAGED, ids=range(len(DAMAGED)))
def test_damaged_metadata_are_one_fault(copy: Path, text: str | bytes) -> None:
    error = damaged(copy, text)
    assert [fault.code for fault in error.faults] == ["PTK804"]


def rewritten(folder: Path, change: Callable[[dict[str, Any]], Any]) -> ptk.SpecError:
    """What is said of a checkpoint with other metadata."""
    data = json.loads((folder / "_METADATA").read_text())
    change(data["tree_metadata"])
    return damaged(folder, json.dumps(data))


def keyed(*keys: Any, kind: str = "jax.Array") -> dict[str, Any]:
    rows = [{"key": str(key), "key_type": 1 if type(key) is int else 2} for key in keys]
    return {"key_metadata": rows, "value_metadata": {"value_type": kind}}


CODE = "__import__('os').mkdir('written')"
ENTRIES = {
    "code": ({f"({CODE},)": keyed(CODE)}, "cannot be opened: NOT_FOUND"),
    "no entry": ({"x": 3}, "is 3, not the keys and the type of an entry"),
    "no keys": ({"x": keyed()}, "not the keys and the type"),
    "keys of no text": ({"x": {**keyed("w"), "key_metadata": [3]}}, "has the keys [3]"),
    "absurd nesting": ({"x": keyed(*"a" * 101)}, "is nested more than 100 deep"),
    "the same twice": ({"x": keyed("step")}, "is there twice"),
    "below an array": ({"x": keyed("step", "w", kind="None")}, "lies below an array"),
    "no such index": ({"x": keyed("pair", 7, kind="None")}, "lacks some of its indices"),
}


@pytest.mark.parametrize("case", ENTRIES)
def test_a_faulty_entry_is_one_fault(copy: Path, case: str) -> None:
    more, fact = ENTRIES[case]
    error = rewritten(copy, lambda rows: rows.update(more))
    assert [fault.code for fault in error.faults] == ["PTK805"]
    assert fact in " ".join(str(error).split())
    assert not Path("written").exists()


def test_a_damaged_store_is_one_fault(copy: Path) -> None:
    error = damaged(copy, b"no", "manifest.ocdbt")
    assert [fault.code for fault in error.faults] == ["PTK804"]
    assert "its manifest.ocdbt cannot be read: DATA_LOSS" in str(error)
    (copy / "manifest.ocdbt").unlink()
    assert "has no manifest.ocdbt" in str(refused(copy))


def test_every_array_that_is_damaged_is_told(copy: Path, tmp_path: Path) -> None:
    with ocp.PyTreeCheckpointer(use_ocdbt=False) as checkpointer:
        checkpointer.save(
            tmp_path / "files", {"a": jnp.ones(2), "b": jnp.ones(2), "c": jnp.ones(2)}
        )
    (tmp_path / "files" / "a" / ".zarray").write_text("{")
    shutil.rmtree(tmp_path / "files" / "b")
    error = refused(tmp_path / "files")
    assert [(fault.code, fault.path) for fault in error.faults] == [
        ("PTK805", "['a']"),
        ("PTK805", "['b']"),
    ]
    shutil.copytree(tmp_path / "files" / "c", tmp_path / "out")
    for key in ("../out", "/out", "c/../../out"):
        error = rewritten(tmp_path / "files", lambda rows, key=key: rows.update(x=keyed(key)))
        assert "PTK807" in {fault.code for fault in error.faults}


def test_it_reads_what_orbax_reads(saved: Path) -> None:
    found = ocp.StandardCheckpointer().metadata(saved / "one").item_metadata.tree
    assert told(found) == told(ptk.read_shapes(saved / "one"))


def test_what_would_keep_a_reader_waiting_is_refused(copy: Path) -> None:
    (copy / "_sharding").unlink()
    os.mkfifo(copy / "_sharding")
    error = refused(copy)
    assert [(fault.code, fault.argument) for fault in error.faults] == [("PTK801", "one/_sharding")]


def test_what_orbax_writes_otherwise_is_read_too(tmp_path: Path) -> None:
    tree = {"w": jnp.ones((3, 4), jnp.float8_e4m3fn), "empty": {}, "name": "a string"}
    for number, form in enumerate(({"use_ocdbt": False}, {"use_zarr3": True})):
        with ocp.PyTreeCheckpointer(**form) as checkpointer:
            checkpointer.save(tmp_path / str(number), tree)
        assert told(ptk.read_shapes(tmp_path / str(number))) == {"w": "float8_e4m3fn[3,4]"}


def test_without_orbax_it_says_what_to_install(
    saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "tensorstore", None)
    error = refused(saved / "one")
    assert error.faults[0].code == "PTK802"
    assert error.faults[0].note == "pip install orbax-checkpoint"


def test_a_folder_that_holds_itself_is_refused(tmp_path: Path) -> None:
    (tmp_path / "1").symlink_to(".")
    assert refused(tmp_path).faults[0].code == "PTK802"
