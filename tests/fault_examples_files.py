"""Files that have each code of fault; they are written where the suite's other files are."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

import pytreekit as ptk

from .fault_examples import example
from .safetensors_bytes import F32, by_hand


def read(name: str, data: bytes | str) -> Any:
    """What is read from a file that is there for as long as it takes."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, name)
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
        return ptk.read_shapes(path)


def indexed(places: dict[str, str], **files: bytes) -> Any:
    """What is read from an index beside some files."""
    with tempfile.TemporaryDirectory() as folder:
        for name, data in files.items():
            Path(folder, f"{name}.safetensors").write_bytes(data)
        index = Path(folder, "model.safetensors.index.json")
        index.write_text(json.dumps({"weight_map": places}))
        return ptk.read_shapes(index)


@example("PTK801")
def _() -> Any:
    return ptk.read_shapes("gone.safetensors")


@example("PTK801")
def _() -> Any:
    with tempfile.TemporaryDirectory() as folder:
        os.mkfifo(Path(folder, "model.safetensors"))
        return ptk.read_shapes(Path(folder, "model.safetensors"))


@example("PTK802")
def _() -> Any:
    return read("model.pt", b"PK\x03\x04" + bytes(30))


@example("PTK802")
def _() -> Any:
    return read("model.safetensors", b"")


@example("PTK803")
def _() -> Any:
    return read("model.safetensors", by_hand({"w": F32}, bytes(3)))


@example("PTK803")
def _() -> Any:
    return read("model.safetensors", by_hand({}, length=2**40))


@example("PTK804")
def _() -> Any:
    return read("model.safetensors", by_hand(b'{"w": {}, "w": {}}'))


@example("PTK804")
def _() -> Any:
    return read("tree.json", "[" * 100_000)


@example("PTK805")
def _() -> Any:
    overlapping = {"w": F32, "bias": F32}
    return read("model.safetensors", by_hand(overlapping, bytes(8)))


@example("PTK805")
def _() -> Any:
    wrong = {"w": {**F32, "shape": [3]}, "bias": {**F32, "dtype": "Q4"}}
    return read("model.safetensors", by_hand(wrong, bytes(8)))


@example("PTK805")
def _() -> Any:
    return read("tree.json", '{"up": {"kernel": [[16, -1], "float32"], "bias": [16]}}')


@example("PTK806")
def _() -> Any:
    file = by_hand({"w": F32}, bytes(8))
    return indexed({"w": "a.safetensors", "bias": "a.safetensors"}, a=file)


@example("PTK807")
def _() -> Any:
    return indexed({"w": "../../other.safetensors"})
