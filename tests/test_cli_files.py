"""`pytreekit tree`, `diff`, `codes`, `completion`; JSON for programs, and files it writes."""

from __future__ import annotations

import gc
import json
import os
import re
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import pytreekit as ptk
from pytreekit import cli
from pytreekit.commands import codes, options, parsing
from pytreekit.faults import CODES
from pytreekit.show import values

from .safetensors_bytes import F32, by_hand, by_library, sharded

MESH = ["--mesh", "data=4,model=2"]
MANIFEST = {"mlp/up/kernel": [[8, 16], "float32"], "mlp/up/bias": [[16], "int64"]}
RULES = 'rules = [["kernel", "_ model"], ["bias", "model"]]'


class Ran:
    """What a command printed, and its exit code."""

    def __init__(self, words: list[Any], capsys: pytest.CaptureFixture[str]) -> None:
        try:
            self.code = cli.main([str(word) for word in words])
        except SystemExit as stopped:
            self.code = int(str(stopped.code))
        self.out, self.err = capsys.readouterr()
        assert all(line.isprintable() for line in self.out.split("\n"))
        assert self.err.isascii()
        assert "Traceback" not in self.err

    @property
    def data(self) -> Any:
        return json.loads(self.out)


Run = Callable[..., Ran]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    (tmp_path / "tree.json").write_text(json.dumps(MANIFEST))
    (tmp_path / "rules.toml").write_text(RULES)
    return lambda *words: Ran(list(words), capsys)


SHOWN = """\
tree.json, manifest
2 arrays, 144 elements, 640 bytes
+---------------+--------+-----------+----------+-------+
| path          | arrays | found     | elements | bytes |
+---------------+--------+-----------+----------+-------+
| mlp/up/bias   |      1 | i64[16]   |       16 |   128 |
| mlp/up/kernel |      1 | f32[8,16] |      128 |   512 |
| total         |      2 | i64, f32  |      144 |   640 |
+---------------+--------+-----------+----------+-------+
"""


def test_tree_shows_what_a_file_holds(run: Run, tmp_path: Path) -> None:
    ran = run("tree", tmp_path / "tree.json")
    assert (ran.code, ran.err, ran.out) == (0, "", SHOWN)


def test_tree_of_a_model_folds_layers_and_cuts_names_at_dots(run: Run, tmp_path: Path) -> None:
    layers = {f"model.h.{n}.w": ("bfloat16", [4], 8) for n in range(12)}
    index = sharded(tmp_path / "hf", {"a": layers, "b": {"lm_head": ("float32", [2], 8)}})
    ran = run("tree", index.parent)
    assert "| model.h.*.w |     12 | bf16[4]   |       48 |    96 |" in ran.out
    assert "| model.h.11.w |" in run("tree", "--all", index).out
    ran = run("tree", "--depth", "2", index)
    assert "| model.h |     12 | bf16[4]   |       48 |    96 |" in ran.out
    assert "| (root) |     13 |" in run("tree", "--depth", "0", index).out
    data = run("tree", "--json", index).data
    assert (data["form"], data["total"]) == (
        "safetensors index",
        {"leaves": 13, "elements": 50, "bytes": 104},
    )
    assert data["leaves"][1] == {
        "path": "model.h.0.w",
        "dtype": "bfloat16",
        "shape": [4],
        "bytes": 8,
    }


def test_tree_tells_what_an_index_gets_wrong(run: Run, tmp_path: Path) -> None:
    two = {"v": F32, "u": {**F32, "data_offsets": [8, 16]}}
    (tmp_path / "a.safetensors").write_bytes(by_hand({"w": F32}, bytes(8)))
    (tmp_path / "b.safetensors").write_bytes(by_hand(two, bytes(16)))
    index = tmp_path / "model.safetensors.index.json"
    places = {"w": "a.safetensors", "v": "b.safetensors"}
    index.write_text(json.dumps({"metadata": {"total_size": 99}, "weight_map": places}))
    ran = run("tree", index)
    assert ran.code == 0
    assert "note: its files hold 1 array that the index does not name: u" in ran.out
    assert "note: the index says that its arrays have 99 bytes, they have 16" in ran.out


def test_without_a_file_it_shows_gpt2(run: Run) -> None:
    assert run("tree").out.startswith(
        "gpt2.json, manifest\n148 arrays, 124,439,808 elements, 474.7 MiB\n"
    )


def test_faults_are_data_for_programs(run: Run, tmp_path: Path) -> None:
    (tmp_path / "m.safetensors").write_bytes(by_hand({"w": F32}, bytes(3)))
    ran = run("tree", "--json", tmp_path / "m.safetensors")
    assert (ran.code, ran.err) == (1, "")
    (fault,) = ran.data["faults"]
    assert fault["code"] == "PTK803"
    assert fault["argument"] == "m.safetensors"
    ran = run("tree", tmp_path / "gone", "--json")
    assert (ran.code, ran.data["faults"][0]["code"]) == (2, "PTK801")
    ran = run(
        "shard",
        tmp_path / "tree.json",
        "--rules",
        tmp_path / "rules.toml",
        "--json",
        "--mesh",
        "model=3",
    )
    assert (ran.code, ran.err) == (1, "")
    assert {fault["code"] for fault in ran.data["faults"]} == {"PTK303"}
    assert [rule["leaves"] for rule in ran.data["rules"]] == [1, 1]


def test_shard_as_json(run: Run, tmp_path: Path) -> None:
    ran = run("shard", tmp_path / "tree.json", "--rules", tmp_path / "rules.toml", *MESH, "--json")
    assert (ran.code, ran.err) == (0, "")
    assert ran.data["memory"] == {"total": 640, "per_device": 320, "replicated": 0.0}
    assert ran.data["leaves"][1] == {
        "path": "['mlp/up/kernel']",
        "text": "mlp/up/kernel",
        "dtype": "float32",
        "shape": [8, 16],
        "spec": [None, "model"],
        "rule": 0,
        "bytes": 512,
        "device_bytes": 256,
    }
    assert ran.data["leaves"][0]["dtype"] == "int64"  # whatever JAX makes of it by default
    assert ran.data["faults"] == []


def test_shard_of_a_model_by_its_own_names(run: Run, tmp_path: Path) -> None:
    arrays = {f"model.layers.{n}.mlp.up_proj.weight": ("bfloat16", [8, 4], 64) for n in range(3)}
    (tmp_path / "model.safetensors").write_bytes(by_library(arrays))
    rules = tmp_path / "hf.toml"
    rules.write_text('split = "/."\nrules = [["up_proj/weight", "model _"]]')
    ran = run("shard", tmp_path / "model.safetensors", "--rules", rules, *MESH)
    assert ran.code == 0
    assert "| P('model',) |" in ran.out


def test_files_are_written_though_nobody_reads_what_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(*_: Any, **__: Any) -> None:
        raise BrokenPipeError

    monkeypatch.setattr("pytreekit.commands.answers.Answer.table", gone)
    told = vars(parsing.parser().parse_args(["shard", *MESH, "--out", f"{tmp_path}/p"]))
    with pytest.raises(BrokenPipeError):
        told.pop("run")(**told)
    assert (tmp_path / "p").is_file()


def test_a_plan_is_written_whole_and_read_back(run: Run, tmp_path: Path) -> None:
    plan, page = tmp_path / "plan.json", tmp_path / "report.html"
    words = ["shard", *MESH, "--out", plan, "--html", page]
    plan.write_text("old")
    plan.chmod(0o640)
    ran = run(*words)
    assert (ran.code, ran.err) == (0, f"wrote {plan}\nwrote {page}\n")
    read = ptk.ShardingPlan.from_json(plan.read_text())
    assert read.memory().per_device == 250_566_144
    assert stat.S_IMODE(plan.stat().st_mode) == 0o640
    assert stat.S_IMODE(page.stat().st_mode) == 0o666 & ~umask()
    assert page.read_text().startswith("<!doctype html>")
    assert sorted(os.listdir(tmp_path)) == [  # noqa: PTH208
        "plan.json",
        "report.html",
        "rules.toml",
        "tree.json",
    ]
    assert run("diff", plan, plan).code == 0
    assert "148 arrays" in run("tree", plan).out


def umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def small(folder: Path) -> list[Any]:
    return [folder / "tree.json", "--rules", folder / "rules.toml", *MESH]


def test_a_link_stays_one_and_what_is_no_file_stays_as_it_is(run: Run, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("real")
    assert run("shard", *small(tmp_path), "--out", tmp_path / "link").code == 0
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text().startswith("{")
    os.mkfifo(tmp_path / "fifo")
    for name, said in {
        "tree.json": "--out would overwrite FILE",
        "../" + tmp_path.name + "/rules.toml": "--out would overwrite --rules",
        ".": "Is a directory",
        "fifo": "Is no regular file",
        "gone/plan.json": "No such file",
        "a\0b": "embedded null",
    }.items():
        ran = run("shard", *small(tmp_path), "--out", tmp_path / name)
        assert ran.code == 2
        assert said in ran.err
    assert stat.S_ISFIFO((tmp_path / "fifo").stat().st_mode)
    ran = run("shard", *small(tmp_path), "--out", tmp_path / "p", "--html", tmp_path / "p")
    assert (ran.code, "--html would overwrite --out" in ran.err) == (2, True)
    assert "name a file" in run("shard", *small(tmp_path), "--out", "-").err
    assert (tmp_path / "rules.toml").read_text() == RULES
    assert not (tmp_path / "p").exists()


def test_what_cannot_be_written_whole_leaves_what_was_there(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    (tmp_path / "plan.json").write_text("old")
    monkeypatch.setattr("os.fsync", full)
    ran = run("shard", *small(tmp_path), "--out", tmp_path / "plan.json")
    assert ran.code == 2
    assert "No space left on device" in ran.err
    assert (tmp_path / "plan.json").read_text() == "old"
    assert len(list(tmp_path.iterdir())) == 3


def test_nothing_is_written_where_there_are_faults(run: Run, tmp_path: Path) -> None:
    words = [tmp_path / "tree.json", "--rules", tmp_path / "rules.toml", "--mesh", "model=3"]
    assert run("shard", *words, "--out", tmp_path / "plan.json").code == 1
    assert not (tmp_path / "plan.json").exists()


def test_diff_compares_by_path_whatever_the_form(run: Run, tmp_path: Path) -> None:
    arrays = {"mlp/up/kernel": ("float32", [8, 16], 512), "mlp/up/bias": ("bfloat16", [16], 32)}
    (tmp_path / "m.safetensors").write_bytes(by_library(arrays | {"head": ("int8", [1], 1)}))
    nested = {"mlp": {"up": {"kernel": [[8, 16], "float32"], "bias": [[16], "int64"]}}}
    (tmp_path / "nested.json").write_text(json.dumps(nested))
    assert run("diff", tmp_path / "tree.json", tmp_path / "nested.json").code == 0
    ran = run("diff", tmp_path / "tree.json", tmp_path / "m.safetensors")
    assert (ran.code, ran.err) == (1, "")
    assert "2 differences between" in ran.out
    assert "['mlp/up/bias']" in ran.out
    ran = run("diff", "--json", tmp_path / "tree.json", tmp_path / "m.safetensors")
    assert [one["kind"] for one in ran.data["differences"]] == ["keys", "dtype"]
    assert run("diff", tmp_path / "tree.json", tmp_path / "gone").code == 2
    assert "cannot both be the standard input" in run("diff", "-", "-").err


def test_diff_of_plans_tells_specs_and_meshes(run: Run, tmp_path: Path) -> None:
    for name, mesh in (("a", "data=4,model=2"), ("b", "data=2,model=4")):
        assert run("shard", "--mesh", mesh, "--out", tmp_path / name).code == 0
    ran = run("diff", tmp_path / "a", tmp_path / "b")
    assert ran.code == 1
    assert "mesh" in ran.out
    (tmp_path / "a").write_text(
        (tmp_path / "a").read_text().replace('"version": 1', '"version": 9')
    )
    ran = run("diff", tmp_path / "a", tmp_path / "b")
    assert (ran.code, "PTK001" in ran.err) == (1, True)


def test_a_code_is_told_with_cause_example_and_fix(run: Run) -> None:
    for word in ("PTK103", "ptk103", "103"):
        ran = run("codes", word)
        assert ran.code == 0
        assert ran.out.startswith("PTK103: nothing is mapped and axis_size is missing\n\nCause. ")
        assert "\nFix. " in ran.out
        assert "```" not in ran.out
    data = run("codes", "PTK803", "--json").data["codes"]
    assert (data[0]["code"], data[0]["title"]) == ("PTK803", CODES["PTK803"])
    assert len(run("codes", "--json").data["codes"]) == len(CODES)
    ran = run("codes", "PTK1003")
    assert (ran.code, ran.out) == (2, "")
    assert "there is no code 'PTK1003'; did you mean PTK1" in ran.err


def test_every_code_has_something_to_tell_even_without_the_page(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert all("**Fix.**" in codes.section(code) for code in CODES)
    for name in ("PAGE", "SOURCE"):
        monkeypatch.setattr(codes, name, tmp_path / "gone")
    assert codes.section("PTK103") == "PTK103: nothing is mapped and axis_size is missing"


@pytest.mark.parametrize("words", [["tree", "--depth", "-1"], ["diff", "a"], ["completion", "sh"]])
def test_wrong_usage_exits_with_2(run: Run, words: list[str]) -> None:
    ran = run(*words)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("usage: pytreekit")


def test_a_shell_completes_commands_options_choices_and_files(run: Run, tmp_path: Path) -> None:
    script = tmp_path / "completion"
    script.write_text(run("completion", "bash").out)
    ask = """
        source "$1"; cd "$(dirname "$1")"; shift
        COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _shtab_pytreekit; echo "${COMPREPLY[@]}"
    """

    def completed(*words: str) -> set[str]:
        command = ["bash", "-c", ask, "-", str(script), "pytreekit", *words]
        ran = subprocess.run(command, capture_output=True, text=True, check=True)
        return set(ran.stdout.split())

    assert completed("") >= set(parsing.COMMANDS)
    assert completed("shard", "--on-ind") == {"--on-indivisible"}
    assert completed("shard", "--missing-axes", "") == {"error", "drop"}
    assert completed("tree", "tre") == {"tree.json"}
    assert set(options.FILES) >= {"bash", "zsh", "fish", "tcsh"}
    for shell in ("zsh", "fish", "tcsh", "powershell"):
        assert "--on-indivisible" in run("completion", shell).out or shell in {"fish", "tcsh"}


def test_a_terminal_gets_colour_and_no_escapes_of_others(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tree.json").write_text(json.dumps({"\x1b[31mw": [[2], "int8"]}))
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr("builtins.print", lambda *_, **__: None)
    told: list[Any] = []
    monkeypatch.setenv("COLUMNS", "20")  # in which rich would leave cells out
    monkeypatch.setattr(
        "rich.console.Console.print", lambda self, its: told.append((self.width, its))
    )
    assert run("tree", tmp_path / "tree.json").code == 0
    (width, title), (_, table) = told
    assert (width, str(title)) == (60, "tree.json, manifest\n1 array, 2 elements, 2 bytes")
    assert [str(cell) for cell in table.columns[0].cells] == ["\\x1b[31mw", "total"]


def test_leaves_of_one_shape_are_looked_at_once(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[Any] = []
    typeof = values.typeof
    monkeypatch.setattr(values, "typeof", lambda leaf: looked.append(leaf) or typeof(leaf))
    manifest = {f"{n}/w": [[8, 4 + n % 2], "float32"] for n in range(100)}
    (tmp_path / "tree.json").write_text(json.dumps(manifest))
    (tmp_path / "rules.toml").write_text('rules = [["w", "model"]]')
    words = small(tmp_path)
    assert run("shard", *words, "--out", tmp_path / "p", "--html", tmp_path / "h").code == 0
    assert len(looked) < 10
    assert gc.isenabled()  # it is off meanwhile


GUIDE = Path(__file__).parents[1] / "docs" / "en" / "guide" / "checkpoints.md"


def test_the_guide_shows_what_is_printed(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = GUIDE.read_text(encoding="utf-8")
    blocks = dict(
        re.findall(r"(?ms)^```(python|toml)\n(.*?)^```$", page)[::-1]
    )  # the first of each
    told: dict[str, Any] = {}
    exec(compile(blocks["python"], str(GUIDE), "exec"), told)
    monkeypatch.chdir(tmp_path)
    data = told["file"].read_bytes()
    Path("model.safetensors").write_bytes(data)
    Path("cut.safetensors").write_bytes(data[:1500])
    Path("hf.toml").write_text(blocks["toml"])
    shown = re.findall(r"(?ms)^```text\n\$ pytreekit ([^\n]*)\n(.*?)^```$", page)
    assert len(shown) == 7
    for words, text in shown:
        ran = run(*words.split())
        printed = (ran.out + ran.err).splitlines()
        parts = [part.strip("\n") for part in re.split(r"(?m)^\.\.\.\n?", text)]
        assert all(part in "\n".join(printed) for part in parts), words
        assert "..." in text or text.splitlines() == printed
