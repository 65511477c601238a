"""Bytes of safetensors files: whole ones by the library of the format, and others by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import TensorSpec, serialize

F32 = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}


def by_library(arrays: dict[str, tuple[str, list[int], int]]) -> bytes:
    """A file with arrays of zeros: for each name its dtype, its shape, and its bytes."""
    kept = {name: np.zeros(max(size, 1), np.uint8) for name, (_, _, size) in arrays.items()}
    specs = {
        name: TensorSpec(dtype=dtype, shape=shape, data_ptr=kept[name].ctypes.data, data_len=size)
        for name, (dtype, shape, size) in arrays.items()
    }
    return bytes(serialize(specs, {"format": "pt"}))


def by_hand(header: Any, data: bytes = b"", length: int | None = None) -> bytes:
    """A file with a header of any kind, and what is said to be its length."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return (len(text) if length is None else length).to_bytes(8, "little") + text + data


def sharded(folder: Path, shards: dict[str, dict[str, tuple[str, list[int], int]]]) -> Path:
    """A model in several files, with the index that Hugging Face's libraries write."""
    folder.mkdir(parents=True, exist_ok=True)
    places, total = {}, 0
    for number, arrays in enumerate(shards.values(), 1):
        file = f"model-{number:05}-of-{len(shards):05}.safetensors"
        (folder / file).write_bytes(by_library(arrays))
        places |= dict.fromkeys(arrays, file)
        total += sum(size for _, _, size in arrays.values())
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {"total_size": total}, "weight_map": places}))
    return index
