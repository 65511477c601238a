"""`pytreekit shard --out` and `--html`: over no file that is read, by whatever name."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import pytreekit as ptk
from pytreekit import cli
from pytreekit.files.opening import MOST_VALUES
from pytreekit.sharding.plans import as_json

from .safetensors_bytes import sharded

Shard = Callable[..., tuple[int, str]]


@pytest.fixture
def shard(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Shard:
    """Shards a checkpoint: the exit code, and what went to the standard error."""
    (tmp_path / "rules.toml").write_text('rules = [["**", "replicate"]]')

    def its(file: Path, *words: Any) -> tuple[int, str]:
        options = ["--mesh", "data=2", "--rules", tmp_path / "rules.toml", *words]
        code = cli.main(["shard", str(file), *map(str, options)])
        return code, capsys.readouterr().err

    return its


def refused(option: str, file: Path) -> tuple[int, str]:
    return 2, f"pytreekit shard: {option} would overwrite FILE: {str(file)!a}\n"


def test_no_file_of_an_index_is_written_over(shard: Shard, tmp_path: Path) -> None:
    parts = {"a": {"v": ("float32", [2], 8)}, "b": {"w": ("int8", [3], 3)}}
    index = sharded(tmp_path / "hf", parts)
    files = sorted(index.parent.iterdir())
    before = [file.read_bytes() for file in files]
    (tmp_path / "link").symlink_to(files[-1])
    (tmp_path / "folder").symlink_to(index.parent)
    os.link(files[0], tmp_path / "hard")
    others = tmp_path / "link", tmp_path / "folder" / files[0].name, tmp_path / "hard"
    for file in (index, index.parent):
        for over in (*files, *others):
            assert shard(file, "--out", over) == refused("--out", over)
            assert shard(file, "--html", over) == refused("--html", over)
    assert [file.read_bytes() for file in files] == before
    assert shard(index.parent, "--out", index.parent / "plan.json")[0] == 0


def test_no_file_in_a_checkpoint_of_orbax_is_written_over(shard: Shard, tmp_path: Path) -> None:
    ocp = pytest.importorskip("orbax.checkpoint", reason="the dev extra is not installed")
    folder = tmp_path / "steps" / "7" / "default"
    with ocp.PyTreeCheckpointer() as saver:
        saver.save(folder, {"w": np.zeros((2, 3), np.float32)})
    inside = [file for file in folder.rglob("*") if file.is_file()]
    for over in (*inside, folder / "new.json", folder):
        for file in (folder, tmp_path / "steps"):
            assert shard(file, "--out", over) == refused("--out", over)
    assert ptk.read_shapes(folder)["w"].shape == (2, 3)
    assert shard(tmp_path / "steps", "--out", tmp_path / "steps" / "plan.json")[0] == 0


def test_what_comes_by_the_standard_input_is_not_written_over(tmp_path: Path) -> None:
    tree, rules = tmp_path / "tree.json", tmp_path / "rules.json"
    tree.write_text('{"w": [[4], "int8"]}')
    rules.write_text('{"rules": [["w", "data"]]}')
    words = ["shard", "-", "--mesh", "data=2", "--rules", rules, "--out", tree]
    command = [sys.executable, "-m", "pytreekit", *words]
    with tree.open() as stream:
        ran = subprocess.run(command, stdin=stream, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == refused("--out", tree)
    assert tree.read_text() == '{"w": [[4], "int8"]}'


def test_a_plan_of_very_many_leaves_can_be_read_back() -> None:
    path = "decoder/blocks/{}/mlp/experts/gate_proj/kernel"
    tree: Any = jax.ShapeDtypeStruct((4096, 16384), "bfloat16")
    for key in reversed(path.split("/")):
        tree = {str(number): tree for number in range(20)} if key == "{}" else {key: tree}
    text = ptk.ShardingPlan(tree, [("**", "data model")], {"data": 4, "model": 2}).to_json()
    signs = sum(map(text.count, "[{,"))
    assert as_json.listed_of(json.loads(text)).leaves == as_json.listed(text).leaves
    assert signs / 20 * 100_000 < MOST_VALUES
