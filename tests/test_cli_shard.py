"""`pytreekit shard`: specs and audit of a shape manifest, and plain words for what is none."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pytreekit import cli

ROOT = Path(__file__).parents[1]
MESH = ["--mesh", "data=4,model=2"]
FLAT = {"mlp/up/kernel": [[8, 16], "float32"], "mlp/up/bias": [[16], "bfloat16"]}
NESTED = {"mlp": {"up": {"kernel": [[8, 16], "float32"], "bias": [[16], "bfloat16"]}}}
RULES = 'rules = [["kernel", "_ model"], ["bias", "model"]]'
WIDTH = 88


class Shard:
    """Runs the command on a manifest and rules that are written to files."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder, self.capsys = folder, capsys
        self.out = self.err = ""

    def __call__(self, *words: str, manifest: Any = FLAT, rules: str = RULES) -> int:
        text = manifest if isinstance(manifest, str) else json.dumps(manifest)
        (self.folder / "tree.json").write_bytes(text.encode("utf-8", "surrogatepass"))
        (self.folder / "rules.toml").write_text(rules, encoding="utf-8")
        files = [str(self.folder / "tree.json"), "--rules", str(self.folder / "rules.toml")]
        return self.run(*files, *(words or MESH))

    def run(self, *words: str) -> int:
        try:
            code = cli.main(["shard", *words])
        except SystemExit as stopped:
            code = int(str(stopped.code))
        self.out, self.err = self.capsys.readouterr()
        assert all(line.isprintable() for line in self.out.split("\n"))
        assert self.err.isascii()
        assert "Traceback" not in self.err
        return code


@pytest.fixture
def shard(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Shard:
    return Shard(tmp_path, capsys)


SHOWN = """\
2 leaves on data=4, model=2: 544 bytes, 272 a device
+---------------+--------+-----------+------------------+------+
| leaf          | leaves | found     | spec             | rule |
+---------------+--------+-----------+------------------+------+
| mlp/up/bias   |      1 | bf16[16]  | P('model',)      |    1 |
| mlp/up/kernel |      1 | f32[8,16] | P(None, 'model') |    0 |
+---------------+--------+-----------+------------------+------+
memory: 544 bytes in all, 272 bytes on each of 8 devices, 0% whole on all

1 note
  data splits nothing

2 rules
+------+---------+---------+--------+-------+
| rule | pattern | value   | leaves | bytes |
+------+---------+---------+--------+-------+
|    0 | kernel  | _ model |      1 |   512 |
|    1 | bias    | model   |      1 |    32 |
+------+---------+---------+--------+-------+
"""


@pytest.mark.parametrize("manifest", [FLAT, NESTED, {"mlp": {"up": NESTED["mlp"]["up"]}}])
def test_it_shows_specs_and_what_each_rule_took(shard: Shard, manifest: Any) -> None:
    assert (shard(manifest=manifest), shard.err) == (0, "")
    assert shard.out == SHOWN


def test_without_a_file_it_shows_gpt2(shard: Shard) -> None:
    assert (shard.run(*MESH), shard.err) == (0, "")
    assert "148 leaves on data=4, model=2: 497,759,232 bytes" in shard.out
    assert "dimension 0 of 50257 does not divide by 2" in shard.out
    assert max(map(len, shard.out.splitlines())) <= WIDTH
    assert "9 rules\n" in shard.out


def test_the_reference_page_shows_what_it_prints(shard: Shard) -> None:
    page = (ROOT / "docs" / "en" / "reference" / "cli.md").read_text(encoding="utf-8")
    command = f"$ pytreekit shard {' '.join(MESH)}\n"
    written = page.split(command)[1].partition("```")[0].splitlines()
    assert shard.run(*MESH) == 0
    printed = shard.out.splitlines()
    assert len(written) > 10
    assert [line for line in written if line not in {*printed, "..."}] == []


def test_alike_leaves_share_a_row_unless_each_is_asked_for(shard: Shard) -> None:
    manifest = {f"layer/{n}/kernel": [[8, 16], "float32"] for n in range(12)}
    manifest["layer/3/kernel"] = [[8, 32], "float32"]
    words = ["--strict", *MESH]
    rules = 'rules = [["kernel", "_ model"]]'
    assert shard(*words, manifest=manifest, rules=rules) == 0
    assert "| layer/*/kernel |     11 | f32[8,16] |" in shard.out
    assert "| layer/3/kernel |      1 | f32[8,32] |" in shard.out
    assert shard("--all", *words, manifest=manifest, rules=rules) == 0
    assert "| layer/11/kernel |      1 | f32[8,16] |" in shard.out


def test_it_needs_no_device_and_reads_the_standard_input() -> None:
    command = [sys.executable, "-m", "pytreekit", "shard", "-", *MESH, "--rules"]
    rules = str(ROOT / "examples" / "rules" / "gpt2.toml")
    ran = subprocess.run(
        [*command, rules],
        input=json.dumps({"h/0/c_fc/bias": [[6], "float32"]}),
        cwd=ROOT,
        env={**os.environ, "JAX_PLATFORMS": "none"},  # any use of a device fails
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "| h/0/c_fc/bias |      1 | f32[6] | P('model',) |    5 |" in ran.stdout
    assert "9 rules, 8 unused" in ran.stdout


def test_faults_exit_with_1_after_the_audit(shard: Shard) -> None:
    odd = {**FLAT, "head/kernel": [[8, 15], "float32"], "norm/scale": [[8], "float32"]}
    assert shard(manifest=odd) == 1
    assert "(no rule) |" in shard.out
    assert "PTK303" in shard.err
    assert "dimension 1 of 15 does not divide by 2" in shard.err
    assert "PTK305" in shard.err
    assert max(map(len, (shard.out + shard.err).splitlines())) <= WIDTH


def test_strict_makes_rules_that_take_nothing_faults(shard: Shard) -> None:
    rules = RULES.replace("]]", '], ["up/bias", "_"], ["norm", "_"]]')
    assert shard(rules=rules) == 0
    assert "shadowed by 1" in shard.out
    assert "unused" in shard.out
    assert shard("--strict", *MESH, rules=rules) == 1
    assert shard.err.count("PTK306") == 2
    assert shard("--strict", *MESH, rules='default = "_"\nrules = [["kernel", "_"]]') == 1
    assert "has the default" in shard.err


@pytest.mark.parametrize(
    ("words", "rules", "manifest", "spec"),
    [
        (["--on-indivisible", "replicate"], '"_ model"', [[8, 15], "float32"], "P()"),
        (["--missing-axes", "drop"], '"model fsdp"', [[8, 15], "float32"], "P('model',)"),
        (["--stack", "w/**=0"], '"model _"', [[3, 8, 15], "float32"], "P(None, 'model')"),
        (["--stack", "w=-1"], '"model _"', [[8, 15, 3], "float32"], "P('model',)"),
        (
            ["--axes", "embed=data+model,heads=model,heads="],
            '"embed heads"',
            [[8, 6], "float32"],
            "P(('data', 'model'),)",
        ),
    ],
)
def test_options_are_those_of_partition_specs(
    shard: Shard, words: list[str], rules: str, manifest: Any, spec: str
) -> None:
    rules = f'rules = [["**", {rules}]]'
    assert shard(*words, *MESH, manifest={"w": manifest}, rules=rules) == 0, shard.err
    assert f"| {spec} " in shard.out


LEAF = [[2], "float32"]
NO_MANIFEST = [
    ("", "PTK802 tree.json is empty"),
    (" ", "is no JSON: Expecting value, line 1, column 2"),
    ("{", "is no JSON"),
    ("nonsense", "is no JSON"),
    ("\x00", "is no JSON"),
    ('{"w": [[NaN], "float32"]}', "JSON has no NaN"),
    ('{"w": [[1], "int8"], "w": [[2], "int8"]}', "a mapping has the key 'w' twice"),
    (f'{{"w": [[{"9" * 5000}], "int8"]}}', "is no JSON"),
    ("[" * 100_000, "tree.json is nested too deep"),
    ('{"a":' * 300 + "1" + "}" * 300, "is nested more than 100 deep"),
    ("{}", "has no arrays in it"),
    ('{"a": {}}', "has no arrays in it"),
    ("[]", "is [], it must be [shape, dtype]"),
    ("3", "is 3, it must be [shape, dtype]"),
    ({"w": None}, "is None, it must be [shape, dtype], as in"),
    ({"a": {"b": ["float32", [2]]}}, "tree.json['a/b'] is ['float32', [2]], it must be"),
    ({"a": [{"w": LEAF}, {"w": 1}]}, "tree.json['a/1/w'] is 1, it must be"),
    ({"w": [[-1], "float32"]}, "has the shape [-1], sizes are ints of 0 or more"),
    ({"w": [[2.0], "float32"]}, "has the shape [2.0]"),
    ({"w": [[True], "float32"]}, "has the shape [True]"),
    ({"w": [["2"], "float32"]}, "has the shape ['2']"),
    ({"w": [[[2]], "float32"]}, "has the shape [[2]]"),
    ({"w": [[1] * 65, "float32"]}, "has 65 dimensions, 64 are the most"),
    ({"w": [[10**9, 10**9, 10**9], "int8"]}, "no machine counts as many elements"),
    ({"w": [[10**400, 0], "int8"]}, "no machine counts as many elements"),
    ({"w": [[2], "floaty"]}, "has no dtype 'floaty'"),
    ({"w": [[2], "f4,f4"]}, "has no dtype"),
    ({"w": [[2], "object"]}, "has no dtype"),
    ({"w": [[2], ""]}, "has no dtype"),
    ({f"w{n}": 0 for n in range(20)}, "x20, first tree.json['w0'] is 0"),
    ("\ud800", "is no UTF-8"),
]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([".", "--rules", "gone.toml", *MESH], "PTK802  .   is a folder without a checkpoint"),
        (["--rules", "README.md", *MESH], "a file of rules must end in one of"),
    ],
)
def test_what_is_there_and_is_nothing_exits_with_1(
    shard: Shard, words: list[str], told: str
) -> None:
    assert shard.run(*words) == 1
    assert shard.out == ""
    assert told in shard.err


@pytest.mark.parametrize(("manifest", "told"), NO_MANIFEST, ids=range(len(NO_MANIFEST)))
def test_what_is_no_manifest_is_told_in_plain_words(shard: Shard, manifest: Any, told: str) -> None:
    assert shard(manifest=manifest) == 1
    assert shard.out == ""
    assert shard.err.startswith("reading tree.json: ")
    assert "PTK80" in shard.err
    assert told in " ".join(shard.err.split())


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            ["gone.json", "--rules", "gone.toml", *MESH],
            "gone.json   cannot be opened: No such file",
        ),
        (["a\x00b", "--rules", "gone.toml", *MESH], "a\\x00b   cannot be opened: "),
        (["--rules", "gone.toml", *MESH], "cannot read 'gone.toml': No such file"),
        (["gone.json", *MESH], "--rules is missing"),
        ([], "the following arguments are required: --mesh"),
        (["--mesh", ""], "argument --mesh: it is empty, write it as data=4,model=2"),
        (["--mesh", "4x2"], "'4x2' is no axis and its size, as in data=4"),
        (["--mesh", "data=4,"], "'' is no axis and its size"),
        (["--mesh", "=4"], "'=4' is no axis and its size"),
        (["--mesh", "data=4,data=2"], "the axis 'data' is there twice"),
        (["--mesh", "data=0"], "the size of 'data' must be a number from 1, this is '0'"),
        (["--mesh", "data=-1"], "this is '-1'"),
        (["--mesh", "data=1.5"], "this is '1.5'"),
        (["--mesh", "data=\u0663"], "this is '"),
        (["--mesh", f"data={'9' * 5000}"], "this is '"),
        (["--axes", "embed", *MESH], "'embed' is no logical name and its mesh axes"),
        (["--axes", "embed=a+", *MESH], "'embed=a+' is no logical name and its mesh axes"),
        (["--stack", "layers", *MESH], "'layers' is no glob and a dimension, as in 'layers/**=0'"),
        (["--stack", "layers=one", *MESH], "is no glob and a dimension"),
        (["--on-indivisible", "pad", *MESH], "invalid choice: 'pad'"),
        (["--nonsense", *MESH], "unrecognized arguments: --nonsense"),
        (["a.json", "b.json", *MESH], "unrecognized arguments: b.json"),
    ],
)
def test_wrong_words_exit_with_2(shard: Shard, words: list[str], told: str) -> None:
    assert shard.run(*words) == 2
    assert shard.out == ""
    assert told in shard.err


def test_keys_cannot_speak_to_the_terminal(shard: Shard) -> None:
    manifest = {"\x1b[31m\ud800\u3042kernel": [[2, 4], "float32"]}
    assert shard(manifest=manifest, rules='rules = [["**", "_ model"]]') == 0
    assert "\\x1b[31m\\ud800\u3042kernel" in shard.out


def test_dtypes_of_every_kind_are_read(shard: Shard) -> None:
    names = ["bool", "int4", "uint8", "float8_e4m3fn", "bfloat16", "complex64", "key<fry>"]
    manifest = {f"w{n}": [[4], name] for n, name in enumerate(names)}
    assert shard(manifest=manifest, rules='rules = [["**", "model"]]') == 0, shard.err
    assert "key<fry>[4]" in shard.out


def test_a_large_manifest_is_refused_unread(shard: Shard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytreekit.files.opening.MOST_BYTES", 10)
    assert shard() == 1
    assert "has more than 10 bytes of text" in shard.err


def test_interrupted_input_is_told(shard: Shard, monkeypatch: pytest.MonkeyPatch) -> None:
    class Gone(io.RawIOBase):
        def readable(self) -> bool:
            return True

        def readinto(self, buffer: Any) -> int:
            raise OSError(5, "Input/output error")

    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BufferedReader(Gone())))
    assert shard.run("-", "--rules", "gone.toml", *MESH) == 2
    assert "the standard input   cannot be opened: Input/output error" in shard.err
