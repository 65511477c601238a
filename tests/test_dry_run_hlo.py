"""The text of HLO: groups of devices, loops, frames and types; most of it as JAX writes it."""

from __future__ import annotations

import itertools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

from pytreekit.dryrun import hlo
from pytreekit.dryrun.accelerator import on_accelerator
from pytreekit.dryrun.flow import At, is_constant_in, kept, source
from pytreekit.dryrun.frames import origin, read_frames
from pytreekit.dryrun.groups import Over, groups, over
from pytreekit.dryrun.links import Links, sent
from pytreekit.dryrun.loops import runs
from pytreekit.dryrun.shapes import arrays, bits
from pytreekit.dryrun.work import work

MESH = {"data": 4, "model": 2}


@pytest.mark.parametrize(
    "text",
    [
        "replica_groups={{0,2,4,6},{1,3,5,7}}, x=1",
        "replica_groups=[2,4]<=[4,2]T(1,0), use_global_device_ids=true",
        "replica_groups=mesh['axis_0'=4,'axis_1'=2] {'axis_0'}, dimensions={0}",
        "replica_groups=mesh['a'=4,'b'=1,'c'=2] {'a'}",
        "replica_groups=mesh['a'=1,'b'=4,'c'=2] {'b'}, to_apply=%add",
        "replica_groups=mesh['a'=2,'b'=4], device_ids=([4,2]T(1,0)) {'b'}",
    ],
)
def test_every_way_to_write_the_groups_along_an_axis_is_read(text: str) -> None:
    assert sorted(map(sorted, groups(text, 8).tolist())) == [[0, 2, 4, 6], [1, 3, 5, 7]]
    assert over(text, MESH) == Over(("data",), 4)


@pytest.mark.parametrize(
    ("text", "axes"),
    [
        ("replica_groups={{0,1},{2,3},{4,5},{6,7}}", Over(("model",), 2)),
        ("replica_groups=[4,2]<=[8]", Over(("model",), 2)),
        ("replica_groups=[1,8]<=[8]", Over(("data", "model"), 8)),
        ("replica_groups={}", Over(("data", "model"), 8)),
        ("replica_groups=mesh['data'=4,'model'=2] {'data':(2)2}", Over(("data",), 2, whole=False)),
        ("replica_groups={{0,2},{1,3},{4,6},{5,7}}", Over(("data",), 2, whole=False)),
        ("source_target_pairs={{0,1},{1,0},{2,3},{3,2}}", Over(("model",), 2)),
        ("source_target_pairs={{0,0},{1,2}}", Over(("data", "model"), 2)),
        ("replica_groups={{0},{1},{2},{3},{4},{5},{6},{7}}", Over((), 1)),
        ("dimensions={0}", Over((), 1)),
    ],
)
def test_groups_are_told_by_the_axes_of_the_mesh(text: str, axes: Over) -> None:
    assert over(text, MESH) == axes


def test_part_of_an_axis_is_told_as_such() -> None:
    assert str(Over(("data",), 2, whole=False)) == "data in part"


@settings(max_examples=60)
@given(data=st.data())
def test_groups_by_count_lists_and_mesh_are_the_same(data: Any) -> None:
    sizes = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    chosen = data.draw(st.sets(st.integers(0, len(sizes) - 1), min_size=1))
    rest = [dim for dim in range(len(sizes)) if dim not in chosen]
    order = [*rest, *sorted(chosen)]
    count, members = math.prod(sizes), math.prod(sizes[dim] for dim in chosen)
    rows = np.arange(count).reshape(sizes).transpose(order).reshape(-1, members).tolist()
    shape, turned = ",".join(map(str, sizes)), ",".join(map(str, order))
    names = [f"'x{dim}'" for dim in range(len(sizes))]
    its_mesh = ",".join(f"{name}={size}" for name, size in zip(names, sizes, strict=True))
    listed = ",".join("{" + ",".join(map(str, row)) + "}" for row in rows)
    axes = ",".join(names[dim] for dim in sorted(chosen))
    for text in (
        f"replica_groups=[{count // members},{members}]<=[{shape}]T({turned})",
        f"replica_groups={{{listed}}}",
        f"replica_groups=mesh[{its_mesh}] {{{axes}}}",
    ):
        assert groups(text, count).tolist() == rows
        found = over(text, {f"x{dim}": size for dim, size in enumerate(sizes)})
        assert found.axes == tuple(f"x{dim}" for dim in sorted(chosen) if sizes[dim] > 1)
        assert (found.devices, found.whole) == (members, True)


@pytest.mark.parametrize(
    ("dtype", "wanted"),
    [("f32", 32), ("bf16", 16), ("f8e4m3fn", 8), ("pred", 8), ("s4", 4), ("c64", 64), ("token", 0)],
)
def test_bits_of_dtypes(dtype: str, wanted: int) -> None:
    assert bits(dtype) == wanted


def test_types_of_tuples_with_layouts_and_counts_are_read() -> None:
    text = "(s32[], /*index=1*/bf16[4,64]{1,0:T(8,128)(2,1)}, (pred[3], f32[<=5,2]))"
    assert [str(one) for one in arrays(text)] == ["s32[]", "bf16[4,64]", "pred[3]", "f32[5,2]"]
    assert [one.bytes for one in arrays(text)] == [4, 512, 3, 40]


def test_a_line_whose_text_has_brackets_is_read() -> None:
    metadata = 'op_name="x[\\"y\\"]/}{"'
    line = '  %c.1 = (f32[2]{0}, s8[]) custom-call(%a, %b.2), target="f)(", metadata={'
    line += metadata + "}"
    its = hlo.instruction(line)
    assert (its.name, its.opcode, its.operands) == ("c.1", "custom-call", ("a", "b.2"))
    assert its.metadata == metadata


def nested(w: Any, x: Any) -> Any:
    def inner(h: Any, _: Any) -> Any:
        return jnp.tanh(h @ w), None

    def outer(h: Any, _: Any) -> Any:
        h, _ = jax.lax.scan(inner, h, None, length=3)
        return jax.lax.cond(jnp.sum(h) > 0, lambda h: h @ w, lambda h: h, h), None

    return jax.lax.scan(outer, x, None, length=4)[0]


@pytest.fixture(scope="module")
def module() -> hlo.Module:
    """A loop in a loop, with a condition, over split weights."""
    mesh = Mesh(np.array(jax.devices()[:8]).reshape(4, 2), ("data", "model"))
    sharding = jax.sharding.NamedSharding(mesh, P("model"))
    w = jax.ShapeDtypeStruct((16, 16), "float32", sharding=sharding)
    x = jax.ShapeDtypeStruct((8, 16), "float32", sharding=jax.sharding.NamedSharding(mesh, P()))
    return hlo.read(jax.jit(nested).lower(w, x).compile().as_text())


def test_loops_in_loops_multiply(module: hlo.Module) -> None:
    found = runs(module)
    bodies = {
        found[name].times
        for its in module.computations.values()
        for one in its.instructions.values()
        if one.opcode == "while"
        for name in one.called("body")
    }
    assert bodies == {4, 12}
    assert found[module.entry].times == 1
    # Both dimensions of w are split in the products, of which the condition has the last.
    assert work(module).flops == (12 + 4) * 2 * 8 * 8 * 8


def test_a_module_is_read_whole(module: hlo.Module) -> None:
    assert module.partitions == 8
    assert [one.elements for one in module.results] in ([8 * 16], [8 * 8])
    assert set(hlo.names(module).values()) == {"w", "x"}
    for its in module.computations.values():
        assert its.root in its.instructions
        for one in its.instructions.values():
            assert all(name in its.instructions for name in one.operands)
            assert one.opcode == one.opcode.strip("%(){} ")


def test_frames_lead_to_the_function_that_the_user_wrote(module: hlo.Module) -> None:
    every = [one for its in module.computations.values() for one in its.instructions.values()]
    came = [origin(one.metadata, module.frames) for one in every if one.opcode == "tanh"]
    assert came
    assert {one.operation for one in came} == {"tanh"}
    assert {one.source.function.rpartition(".")[2] for one in came} == {"inner"}
    assert {one.source.file for one in came} == {__file__}


def test_what_a_loop_hands_on_comes_from_outside(module: hlo.Module) -> None:
    found = set()
    for its in module.computations.values():
        for one in its.instructions.values():
            came = source(module, At(its, one))
            if came.its.opcode == "parameter" and came.computation.name == module.entry:
                found.add(hlo.names(module)[int(came.its.inside)])
    assert found == {"w", "x"}


OLD = """\
HloModule old

ENTRY %main (p: f32[8]) -> f32[8] {
  %p = f32[8]{0} parameter(0), metadata={op_name="x"}
  ROOT %n = f32[8]{0} negate(%p), metadata={op_name="neg" source_file="/a/f.py" source_line=7}
}
"""


def test_sources_within_instructions_are_read_too() -> None:
    module = hlo.read(OLD)
    its = module.computations["main"].instructions["n"]
    came = origin(its.metadata, module.frames)
    assert (came.operation, str(came.source)) == ("neg", "f.py:7")
    assert read_frames(OLD).frames == {}


LOOP = """\
HloModule loop, num_partitions=4

%add (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %s = f32[] add(%a, %b)
}

%body (state: (s32[], f32[8], f32[8])) -> (s32[], f32[8], f32[8]) {
  %state = (s32[], f32[8], f32[8]) parameter(0)
  %i = s32[] get-tuple-element(%state), index=0
  %one = s32[] constant(1)
  %next = s32[] add(%i, %one)
  %h = f32[8]{0} get-tuple-element(%state), index=1
  %w = f32[8]{0} get-tuple-element(%state), index=2
  %same = f32[8]{0} all-reduce(%w), replica_groups=[1,4]<=[4], to_apply=%add
  %new = f32[8]{0} multiply(%h, %same)
  ROOT %out = (s32[], f32[8], f32[8]) tuple(%next, %new, %w)
}
"""


def test_what_a_loop_does_not_change_is_known() -> None:
    body = hlo.read(LOOP).computations["body"]
    assert kept(body) == {2}
    constant = {name: is_constant_in(body, its) for name, its in body.instructions.items()}
    assert [name for name, its in constant.items() if its] == ["one", "w", "same"]


PROMOTED = """\
HloModule raised, num_partitions=4

%add.clone_promoted (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %s = f32[] add(%a, %b)
}

ENTRY %main (p: f16[64]) -> f32[16] {
  %p = f16[64]{0} parameter(0)
  %c = f32[64]{0} convert(%p)
  %r = f32[64]{0} all-reduce(%c), replica_groups=[1,4]<=[4], to_apply=%add.clone_promoted
  %n = s32[4]{0} constant({0,16,32,48})
  %id = u32[] partition-id()
  %row = s32[1]{0} dynamic-slice(%n, %id), dynamic_slice_sizes={1}
  %at = s32[] reshape(%row)
  ROOT %d = f32[16]{0} dynamic-slice(%r, %at), dynamic_slice_sizes={16}
}
"""


@pytest.mark.parametrize(
    ("change", "dtype", "sliced"),
    [
        ((), "f16", True),
        (("_promoted", ""), "f32", True),  # the user wants the sum in f32
        (("(%r, %at), dynamic_slice_sizes={16}", "(%r, %at), x={16}"), "f16", True),
        (("partition-id()", "constant(2)"), "f16", False),  # all keep the same slice
        (("f32[16]{0} dynamic", "f32[32]{0} dynamic"), "f16", False),  # more than a share
        (
            ("ROOT %d = f32[16]{0} dynamic-slice(%r, %at)", "ROOT %d = f32[64]{0} negate(%r)"),
            "f16",
            False,
        ),
    ],
)
def test_each_rule_for_accelerators(change: tuple[str, ...], dtype: str, sliced: bool) -> None:
    module = hlo.read(PROMOTED.replace(*change) if change else PROMOTED)
    main = module.computations["main"]
    assert on_accelerator(module, At(main, main.instructions["r"]), 4) == [(dtype, sliced)]


@pytest.mark.parametrize(
    ("kind", "wanted"),
    [
        ("all-reduce", 1400.0),
        ("all-gather", 700.0),
        ("reduce-scatter", 700.0),
        ("all-to-all", 700.0),
        ("collective-permute", 800.0),
    ],
)
def test_each_device_sends_what_the_ring_needs(kind: str, wanted: float) -> None:
    assert sent(kind, 800, 8) == wanted
    assert Links(100.0).seconds(kind, 800, ("x",), {"x": 8}) == wanted / 100


def test_links_along_axes_share_what_crosses_them() -> None:
    mesh = {"slow": 2, "fast": 4}
    links = Links({"slow": 1.0, "fast": 1000.0}, {"slow": 0.5, "fast": 0.25})
    # The 4 devices of each half lack half of the bytes, and 4 links bring them.
    assert links.seconds("all-gather", 800, ("slow", "fast"), mesh) == 0.5 + 400 / 4
    assert links.seconds("all-gather", 800, ("fast",), mesh) == 0.25 + 600 / 1000
    assert links.seconds("all-gather", 800, (), mesh) == 0.0


def test_reading_takes_time_in_proportion_to_the_text() -> None:
    line = '  %x.{0} = f32[64]{{0}} add(%x.{1}, %x.{1}), metadata={{op_name="jit(f)/add"}}'
    lines = [line.format(number, max(number - 1, 0)) for number in range(1, 20_000)]
    head = [
        "HloModule long",
        "",
        "ENTRY %main (x.0: f32[64]) -> f32[64] {",
        "  %x.0 = f32[64]{0} parameter(0)",
    ]
    module = hlo.read("\n".join(itertools.chain(head, lines, ["}"])))
    assert len(module.computations["main"].instructions) == 20_000
    assert sum(map(len, module.computations["main"].users.values())) == 19_999
