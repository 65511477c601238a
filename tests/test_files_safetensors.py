"""Shapes from safetensors files and their indexes: real ones, damaged ones, and hostile ones."""

from __future__ import annotations

import json
import os
import resource
from pathlib import Path
from typing import Any

import jax
import ml_dtypes
import numpy as np
import pytest
import safetensors
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import save_file

import pytreekit as ptk

from .safetensors_bytes import F32, by_hand, by_library, sharded

DTYPES = {
    "bool": ("bool", 8),
    "uint8": ("uint8", 8),
    "int8": ("int8", 8),
    "float8_e5m2": ("float8_e5m2", 8),
    "float8_e4m3fn": ("float8_e4m3fn", 8),
    "float8_e8m0fnu": ("float8_e8m0fnu", 8),
    "float8_e4m3fnuz": ("float8_e4m3fnuz", 8),
    "float8_e5m2fnuz": ("float8_e5m2fnuz", 8),
    "int16": ("int16", 16),
    "uint16": ("uint16", 16),
    "float16": ("float16", 16),
    "bfloat16": ("bfloat16", 16),
    "int32": ("int32", 32),
    "uint32": ("uint32", 32),
    "float32": ("float32", 32),
    "complex64": ("complex64", 64),
    "float64": ("float64", 64),
    "int64": ("int64", 64),
    "uint64": ("uint64", 64),
}


def refused(path: Path) -> ptk.SpecError:
    with pytest.raises(ptk.SpecError) as caught:
        ptk.read_shapes(path)
    text = str(caught.value)
    assert text.isascii()
    assert len(text) < 3_000
    assert max(map(len, text.splitlines())) <= 88
    return caught.value


def written(folder: Path, data: bytes, name: str = "model.safetensors") -> Path:
    (folder / name).write_bytes(data)
    return folder / name


def test_every_dtype_of_the_format_is_read(tmp_path: Path) -> None:
    arrays = {name: (name, [4, 2], bits) for name, (_, bits) in DTYPES.items()}
    tree = ptk.read_shapes(written(tmp_path, by_library(arrays)))
    assert {name: (leaf.shape, str(leaf.dtype)) for name, leaf in tree.items()} == {
        name: ((4, 2), dtype) for name, (dtype, _) in DTYPES.items()
    }


def test_what_the_library_writes_of_numpy_is_read(tmp_path: Path) -> None:
    arrays = {
        "a.w": np.ones((3, 4), np.float32),
        "a.b": np.ones(3, ml_dtypes.bfloat16),
        "empty": np.ones((0, 7), np.int8),
        "scalar": np.ones((), np.float64),
    }
    save_file(arrays, tmp_path / "m.safetensors", metadata={"format": "np"})
    tree = ptk.read_shapes(str(tmp_path / "m.safetensors"))
    assert all(isinstance(leaf, jax.ShapeDtypeStruct) for leaf in tree.values())
    told = {name: (leaf.shape, leaf.dtype) for name, leaf in tree.items()}
    assert told == {name: (its.shape, its.dtype) for name, its in arrays.items()}
    assert ptk.read_shapes(tmp_path).keys() == arrays.keys()  # the folder, too


def test_dtypes_of_less_than_a_byte_are_read(tmp_path: Path) -> None:
    header = {
        "f4": {"dtype": "F4", "shape": [2, 3], "data_offsets": [0, 3]},
        "f6": {"dtype": "F6_E2M3", "shape": [4], "data_offsets": [3, 6]},
    }
    data = by_hand(header, bytes(6))
    assert {name for name, _ in safetensors.deserialize(data)} == {"f4", "f6"}
    tree = ptk.read_shapes(written(tmp_path, data))
    assert [str(leaf.dtype) for leaf in tree.values()] == ["float4_e2m1fn", "float6_e2m3fn"]


def entry(**its: Any) -> dict[str, Any]:
    return {"w": {**F32, **its}}


TWO = {"w": F32, "v": F32}
HOSTILE = {
    "nothing at all": (b"", "PTK802", "is empty"),
    "a few bytes": (b"\x08\0\0", "PTK803", "has 3 bytes, its header begins with 8"),
    "a length alone": (bytes(8), "PTK804", "its header is no JSON"),
    "length beyond the file": (by_hand({}, length=99), "PTK803", "should have 99 bytes"),
    "absurd length": (by_hand({}, length=2**64 - 1), "PTK803", "18,446,744,073,709,551,615"),
    "cut short": (by_hand({"w": F32}, bytes(5)), "PTK803", "take 8 bytes, 5 are there"),
    "too long": (by_hand({"w": F32}, bytes(9)), "PTK803", "is too long"),
    "no JSON": (by_hand(b"{{{"), "PTK804", "its header is no JSON"),
    "no mapping": (by_hand([1]), "PTK804", "its header is a list, not a mapping"),
    "no UTF-8": (by_hand(b'{"\xff":1}'), "PTK804", "its header is no UTF-8"),
    "half of a character": (by_hand(b'{"\\ud800":1}'), "PTK805", "['\\ud800'] is 1"),
    "absurd nesting": (by_hand(b'{"w":' + b"[" * 200_000), "PTK804", "is nested too deep"),
    "absurd digits": (by_hand(b'{"w":' + b"9" * 5_000 + b"}"), "PTK804", "is no JSON"),
    "duplicate keys": (by_hand(b'{"w":1,"w":1}'), "PTK804", "has the key 'w' twice"),
    "NaN": (by_hand(b'{"w":NaN}'), "PTK804", "JSON has no NaN"),
    "no entry": (by_hand({"w": 3}), "PTK805", "is 3, it must have dtype, shape"),
    "a part is missing": (by_hand({"w": {"dtype": "F32"}}), "PTK805", "it must have"),
    "metadata": (by_hand({"__metadata__": {"a": 1}}), "PTK804", "must be a mapping of texts"),
    "unknown dtype": (by_hand(entry(dtype="Q4")), "PTK805", "has no dtype 'Q4'"),
    "dtype of no text": (by_hand(entry(dtype=[])), "PTK805", "has no dtype []"),
    "negative size": (by_hand(entry(shape=[-2])), "PTK805", "has the shape [-2]"),
    "size of no number": (by_hand(entry(shape=[True])), "PTK805", "has the shape [True]"),
    "shape of no list": (by_hand(entry(shape="2")), "PTK805", "has the shape '2'"),
    "absurd shape": (by_hand(entry(shape=[2**40] * 2)), "PTK805", "no machine counts"),
    "absurd rank": (by_hand(entry(shape=[1] * 70)), "PTK805", "has 70 dimensions"),
    "offsets of no numbers": (by_hand(entry(data_offsets=[0, "8"])), "PTK805", "data_offsets"),
    "backward offsets": (by_hand(entry(data_offsets=[8, 0])), "PTK805", "data_offsets [8, 0]"),
    "sizes that do not fit": (by_hand(entry(shape=[3]), bytes(8)), "PTK805", "takes 12 bytes"),
    "half a byte": (
        by_hand(entry(dtype="F4", shape=[3], data_offsets=[0, 1])),
        "PTK805",
        "[3] of F4 takes 1.5 bytes, it has 1",
    ),
    "overlapping offsets": (by_hand(TWO, bytes(8)), "PTK805", "shares bytes: it begins at byte 0"),
    "a hole": (
        by_hand(entry(data_offsets=[8, 16]), bytes(16)),
        "PTK805",
        "begins at byte 8, nothing is before it",
    ),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_what_is_damaged_or_hostile_is_one_clear_fault(tmp_path: Path, case: str) -> None:
    data, code, fact = HOSTILE[case]
    error = refused(written(tmp_path, data))
    assert [fault.code for fault in error.faults] == [code]
    assert fact in " ".join(str(error).split())
    assert str(error).startswith("reading model.safetensors: 1 fault\n")
    assert os.listdir(tmp_path) == ["model.safetensors"]  # noqa: PTH208


def test_every_faulty_entry_is_told_at_once(tmp_path: Path) -> None:
    header = {"a": {**F32, "dtype": "Q4"}, "b": F32, "c": 1, "d" * 10_000: 2}
    error = refused(written(tmp_path, by_hand(header, bytes(8))))
    assert [fault.code for fault in error.faults] == ["PTK805"] * 3


def test_a_huge_header_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytreekit.files.safetensors.MOST_BYTES", 50)
    error = refused(written(tmp_path, by_hand(b" " * 51)))
    assert "its header has 51 bytes, 50 are the most" in str(error)


def test_a_file_of_terabytes_takes_no_memory(tmp_path: Path) -> None:
    size = 2**42
    header = json.dumps({"w": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}).encode()
    path = written(tmp_path, by_hand(header))
    os.truncate(path, 8 + len(header) + size)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert ptk.read_shapes(path)["w"].shape == (size,)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20_000  # KiB


@pytest.mark.parametrize(
    ("name", "data", "told"),
    [
        ("m.pt", b"PK\x03\x04" + bytes(9), "is a zip file"),
        ("m.pkl", b"\x80\x04\x95cos\nsystem\n", "is a pickle"),
        ("m.npy", b"\x93NUMPY\x01\0", "is an array of NumPy"),
        ("m.gguf", b"GGUF\x03\0\0\0", "is a GGUF file"),
        ("m.txt", b"hello", "is of no form that is known"),
    ],
)
def test_other_forms_are_refused_by_their_name(
    tmp_path: Path, name: str, data: bytes, told: str
) -> None:
    error = refused(written(tmp_path, data, name))
    assert error.faults[0].code == "PTK802"
    assert told in str(error)


def test_a_file_is_known_by_its_beginning_whatever_its_name(tmp_path: Path) -> None:
    assert ptk.read_shapes(written(tmp_path, by_hand({"w": F32}, bytes(8)), "weights"))["w"]
    assert ptk.read_shapes(written(tmp_path, b' {"w": [[2], "int8"]}', "shapes"))["w"]


def test_what_is_no_file_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo.safetensors")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "folder.safetensors").mkdir()
    for name, code in {
        "fifo.safetensors": "PTK801",
        "loop": "PTK801",
        "gone": "PTK801",
        "a\0b": "PTK801",
        "x" * 5_000: "PTK801",
        "folder.safetensors": "PTK802",
    }.items():
        assert refused(tmp_path / name).faults[0].code == code


ONE = {"a.w": ("float32", [2], 8), "a.b": ("bfloat16", [3], 6)}
OTHER = {"b.w": ("float8_e4m3fn", [4], 4)}


def test_a_sharded_model_is_one_tree_by_index_and_by_folder(tmp_path: Path) -> None:
    index = sharded(tmp_path / "store", {"one": ONE, "other": OTHER})
    tree = ptk.read_shapes(index)
    assert {name: str(leaf.dtype) for name, leaf in tree.items()} == {
        "a.w": "float32",
        "a.b": "bfloat16",
        "b.w": "float8_e4m3fn",
    }
    assert ptk.read_shapes(index.parent) == tree
    links = tmp_path / "snapshot"  # as the cache of Hugging Face has them
    links.mkdir()
    for file in index.parent.iterdir():
        (links / file.name).symlink_to(Path("..") / "store" / file.name)
    assert ptk.read_shapes(links) == tree


def indexed(folder: Path, places: Any, **more: Any) -> Path:
    path = folder / "model.safetensors.index.json"
    path.write_text(json.dumps({"weight_map": places, **more}))
    return path


@pytest.mark.parametrize(
    "name", ["../out.safetensors", "/etc/passwd", "a/b", "..", "", "c:x", "a\\b", "\0", "\ud800/"]
)
def test_an_index_does_not_lead_out_of_its_folder(tmp_path: Path, name: str) -> None:
    (tmp_path / "in").mkdir()
    written(tmp_path, by_hand({"w": F32}, bytes(8)), "out.safetensors")
    error = refused(indexed(tmp_path / "in", {"w": name}))
    assert [fault.code for fault in error.faults] == ["PTK807"]


def test_all_that_an_index_lacks_is_told(tmp_path: Path) -> None:
    index = sharded(tmp_path, {"one": ONE, "other": OTHER})
    one, other = sorted(file.name for file in tmp_path.glob("*.safetensors"))
    error = refused(indexed(tmp_path, {"a.w": one, "c": one, "b.w": one}))
    assert [(fault.code, fault.path) for fault in error.faults] == [
        ("PTK806", "['c']"),
        ("PTK806", "['b.w']"),
    ]
    index.unlink()
    error = refused(indexed(tmp_path, {"w": "gone.safetensors", "v": "lost.safetensors"}))
    assert [fault.code for fault in error.faults] == ["PTK801"] * 2
    written(tmp_path, by_hand({"w": F32}, bytes(3)), other)
    error = refused(indexed(tmp_path, {"a.w": one, "b.w": other}))
    assert [(fault.code, fault.argument) for fault in error.faults] == [("PTK803", other)]
    assert refused(indexed(tmp_path, {"w": 3})).faults[0].code == "PTK804"
    (tmp_path / "loop.safetensors").symlink_to("loop.safetensors")
    assert refused(indexed(tmp_path, {"w": "loop.safetensors"})).faults[0].code == "PTK801"


def test_an_index_of_very_many_files_is_refused(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("pytreekit.files.index.MOST_FILES", 3)
    error = refused(indexed(tmp_path, {f"w{n}": f"{n}.safetensors" for n in range(4)}))
    assert "names 4 files, 3 are the most" in str(error)


def test_two_checkpoints_in_a_folder_are_told_apart_by_name(tmp_path: Path) -> None:
    for name in ("a.safetensors", "b.safetensors"):
        written(tmp_path, by_hand({"w": F32}, bytes(8)), name)
    assert "holds 2 checkpoints: name one, a.safetensors, b.safetensors" in " ".join(
        str(refused(tmp_path)).split()
    )


NAMES = st.sampled_from(["w", "v", "__metadata__", ""])
ENTRY = st.fixed_dictionaries(
    {
        "dtype": st.sampled_from(["F32", "BF16", "U8", "F4", "Q"]),
        "shape": st.lists(st.sampled_from([0, 1, 2, 4]), max_size=2),
        "data_offsets": st.lists(st.sampled_from([0, 1, 2, 4, 8]), min_size=2, max_size=2),
    },
    optional={"more": st.just(1)},
)
VALUE = ENTRY | st.sampled_from([1, None, {}, {"a": "b"}])
HEADER = st.lists(st.tuples(NAMES, VALUE), max_size=3)


@given(HEADER, st.sampled_from([0, 1, 2, 4, 8, 9]), st.binary(max_size=1))
@settings(max_examples=100)
def test_what_the_library_refuses_is_refused(
    tmp_path_factory: pytest.TempPathFactory, rows: list[Any], size: int, noise: bytes
) -> None:
    rows = [(name, F32 if n == 0 and size == 8 else its) for n, (name, its) in enumerate(rows)]
    text = ",".join(f"{json.dumps(name)}: {json.dumps(its)}" for name, its in rows)
    data = by_hand(f"{{{text}}}".encode() + noise, bytes(size))
    path = written(tmp_path_factory.getbasetemp(), data, "drawn.safetensors")
    try:
        ours = {name: leaf.shape for name, leaf in ptk.read_shapes(path).items()}
    except ptk.SpecError as error:
        ours = None
        codes = {fault.code for fault in error.faults}
    try:
        theirs = {name: tuple(its["shape"]) for name, its in safetensors.deserialize(data)}
    except safetensors.SafetensorError:
        theirs = None
    twice = len({name for name, _ in rows}) < len(rows)
    if ours is not None:
        assert theirs == ours
    elif theirs is not None:
        assert twice
        assert codes == {"PTK804"}
