"""Shapes from checkpoints of orbax, as its library writes them, and from damaged ones."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator
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
    assert error.faults[0].code == "PTK702"
    assert "holds 2 trees: name one, params, state" in str(error)


def damaged(folder: Path, text: str | bytes, file: str = "_METADATA") -> ptk.SpecError:
    (folder / file).write_bytes(text if isinstance(text, bytes) else text.encode())
    return refused(folder)


DAMAGED = ["", "{", "[]", '{"tree_metadata": 3}', b'{"\xff": 1}', '{"a": 1, "a": 2}', "[" * 99_999]


@pytest.mark.parametrize("text", DAMAGED, ids=range(len(DAMAGED)))
def test_damaged_metadata_are_one_fault(copy: Path, text: str | bytes) -> None:
    error = damaged(copy, text)
    assert [fault.code for fault in error.faults] == ["PTK704"]


def test_metadata_of_arrays_that_are_not_there_are_one_fault(copy: Path) -> None:
    data = json.loads((copy / "_METADATA").read_text())
    entry = data["tree_metadata"].pop("('params', 'w')")
    entry["key_metadata"] = [{"key": "__import__('os').mkdir('written')", "key_type": 2}]
    data["tree_metadata"]["(__import__('os').mkdir('written'),)"] = entry
    error = damaged(copy, json.dumps(data))
    assert [fault.code for fault in error.faults] == ["PTK704"]
    assert not Path("written").exists()


def test_a_damaged_store_is_one_fault(copy: Path) -> None:
    assert [fault.code for fault in damaged(copy, b"no", "manifest.ocdbt").faults] == ["PTK704"]
    shutil.rmtree(copy / "d")
    (copy / "manifest.ocdbt").unlink()
    assert refused(copy).faults[0].code == "PTK704"


def test_what_would_keep_a_reader_waiting_is_refused(copy: Path) -> None:
    (copy / "_sharding").unlink()
    os.mkfifo(copy / "_sharding")
    error = refused(copy)
    assert [(fault.code, fault.argument) for fault in error.faults] == [("PTK701", "one/_sharding")]


def test_what_orbax_writes_otherwise_is_read_too(tmp_path: Path) -> None:
    tree = {"w": jnp.ones((3, 4), jnp.float8_e4m3fn), "empty": {}, "name": "a string"}
    for number, form in enumerate(({"use_ocdbt": False}, {"use_zarr3": True})):
        with ocp.PyTreeCheckpointer(**form) as checkpointer:
            checkpointer.save(tmp_path / str(number), tree)
        assert told(ptk.read_shapes(tmp_path / str(number))) == {"w": "float8_e4m3fn[3,4]"}


def test_without_orbax_it_says_what_to_install(
    saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "orbax.checkpoint", None)
    error = refused(saved / "one")
    assert error.faults[0].code == "PTK702"
    assert error.faults[0].note == "pip install orbax-checkpoint"


def test_a_folder_that_holds_itself_is_refused(tmp_path: Path) -> None:
    (tmp_path / "1").symlink_to(".")
    assert refused(tmp_path).faults[0].code == "PTK702"
