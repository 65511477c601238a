"""The commands on odd trees: nothing in them, one array, long names, dtypes that JAX lacks."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pytreekit import cli
from pytreekit.files.opening import LONGEST_PATH

from .safetensors_bytes import by_hand

Told = Callable[..., tuple[int, str, str]]


@pytest.fixture
def told(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Told:
    """Runs a command where its files are: its exit code, and what it printed where."""
    monkeypatch.chdir(tmp_path)
    Path("rules.toml").write_text('rules = [["**", "data|_ ..."]]')

    def its(*words: str) -> tuple[int, str, str]:
        more = ["--mesh", "data=2", "--rules", "rules.toml"] if words[0] == "shard" else []
        return cli.main([*words, *more]), *capsys.readouterr()

    return its


def put(name: str, tree: Any) -> None:
    Path(name).write_text(json.dumps(tree), encoding="utf-8")


def test_a_file_without_arrays_is_shown_as_such(told: Told) -> None:
    Path("none.safetensors").write_bytes(by_hand({}, b""))
    put("model.safetensors.index.json", {"weight_map": {}})
    for file in ("none.safetensors", "model.safetensors.index.json"):
        code, out, err = told("tree", file)
        assert (code, err) == (0, "")
        assert "\n0 arrays, 0 elements, 0 bytes\n" in out
        total = json.loads(told("tree", "--json", file)[1])["total"]
        assert total == {"leaves": 0, "elements": 0, "bytes": 0}
        words = ["--html", "report.html", "--out", "plan.json"]
        assert told("shard", file, *words)[0] == 0
        assert told("tree", "plan.json", "--depth", "1")[0] == 0
        assert told("diff", file, "plan.json")[:2] == (
            0,
            f"no differences between {file} and plan.json\n",
        )


@pytest.mark.parametrize(
    ("tree", "rows"),
    [
        ([[4, 4], "float32"], ["| (root) |      1 | f32[4,4] |"]),
        ({"s": [[], "float32"]}, ["1 array, 1 element, 4 bytes\n", "| s     |      1 | f32[] |"]),
        ({"a": [[3, 0], "int4"]}, ["1 array, 0 elements, 0 bytes\n", "i4[3,0]"]),
    ],
)
def test_one_array_is_a_tree(told: Told, tree: Any, rows: list[str]) -> None:
    put("tree.json", tree)
    code, out, err = told("tree", "tree.json")
    assert (code, err) == (0, "")
    assert [row for row in rows if row not in out] == []
    assert told("shard", "tree.json", "--html", "report.html", "--out", "plan.json")[0] == 0
    assert told("tree", "plan.json")[1].replace("plan.json, plan", "tree.json, manifest") == out


def test_a_title_is_in_one_line_though_the_table_is_narrow(told: Told) -> None:
    Path("w.safetensors").write_bytes(
        by_hand({"w": {"dtype": "I8", "shape": [2], "data_offsets": [0, 2]}}, bytes(2))
    )
    put("model.safetensors.index.json", {"weight_map": {"w": "w.safetensors"}})
    assert told("tree", ".")[1].startswith("model.safetensors.index.json, safetensors index\n")


def test_long_paths_are_shown_by_their_ends(told: Told) -> None:
    put("tree.json", {f"first/{'x' * 5_000}/last": [[2], "int8"]})
    for command in ("tree", "shard"):
        out = told(command, "tree.json")[1]
        rows = [row for row in out.splitlines() if "first" in row or "xxx" in row]
        assert len(rows) < 10
        assert "| first/" in rows[0]
        assert "|   last " in out
        assert not re.search(r"(?m)^[| ]+$", out)
    leaves = json.loads(told("tree", "tree.json", "--json")[1])["leaves"]
    assert len(leaves[0]["path"]) == 5_011


def test_endless_paths_are_refused_in_every_form(told: Told, tmp_path: Path) -> None:
    name = "x" * LONGEST_PATH
    put("plan.json", {name: [[2], "int8"]})
    assert told("shard", "plan.json", "--out", "p")[0] == 0
    put("p", json.loads(Path("p").read_text().replace(name, name + "x")))
    put("m.json", {"a": {"b": {name[:-3]: [[2], "int8"]}}})
    its = {"dtype": "I8", "shape": [2], "data_offsets": [0, 2]}
    Path("s.safetensors").write_bytes(by_hand({name + "x": its}, bytes(2)))
    entry = {"key_metadata": [{"key": name + "x", "key_type": 2}], "value_metadata": {}}
    entry["value_metadata"] = {"value_type": "jax.Array"}
    (tmp_path / "orbax").mkdir()
    put("orbax/_METADATA", {"tree_metadata": {"x": entry}})
    for file in ("p", "m.json", "s.safetensors", "orbax"):
        code, out, err = told("tree", file)
        assert (code, out) == (1, "")
        assert "PTK805" in err
        assert "10,001 characters, 10,000 are the most" in " ".join(err.split())
        assert len(err) < 400


def test_a_loop_of_links_beside_a_checkpoint_is_passed_by(told: Told) -> None:
    Path("one").symlink_to("other")
    Path("other").symlink_to("one")
    Path("w.safetensors").write_bytes(by_hand({}, b""))
    assert told("tree", ".")[0] == 0
    code, _, err = told("tree", "one")
    assert (code, "PTK801" in err, "symbolic links" in err) == (2, True, True)


def test_an_empty_name_is_not_the_folder_here(told: Told) -> None:
    Path("w.safetensors").write_bytes(by_hand({}, b""))
    wanted = (2, "", "pytreekit tree: the name of a file is empty\n")
    assert told("tree", "") == wanted
    assert told("diff", "w.safetensors", "")[0] == told("shard", "")[0] == 2


@pytest.mark.parametrize("name", [">f4", "float128", "complex256", "F8_E4M3", "datetime64[s]"])
def test_a_dtype_that_jax_lacks_is_told(told: Told, name: str) -> None:
    put("tree.json", {"w": [[2], name]})
    code, out, err = told("tree", "tree.json")
    assert (code, out) == (1, "")
    assert f"PTK805  tree.json['w']   has no dtype {name!r}" in err


def test_json_has_a_line_for_each_array(told: Told) -> None:
    put("tree.json", {f"{number}/w": [[2], "int8"] for number in range(9)})
    for command in ("tree", "shard"):
        out = told(command, "tree.json", "--json")[1]
        rows = [json.loads(row.rstrip(",")) for row in out.splitlines() if '"dtype"' in row]
        assert rows == json.loads(out)["leaves"]
        assert len(rows) == 9
