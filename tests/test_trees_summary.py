"""`ptk.summary`: a table of what a tree holds, as data, text, rich and HTML."""

from __future__ import annotations

import cProfile
import html.parser
import io
import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import rich.console
from flax import nnx
from hypothesis import given, settings
from hypothesis import strategies as st
from jax import export

import pytreekit as ptk

from .strategies import Style, draw_leaf, draw_tree
from .vmap_nodes import Layer, build

W = jnp.ones((3, 4))


def test_leaves_of_every_kind():
    tree = {
        "jax": W, "numpy": np.ones(2), "key": jax.random.key(0), "none": None, "fun": len,
        "abstract": jax.ShapeDtypeStruct((2, 5), jnp.bfloat16), "number": 1.5, "text": "relu",
        "scalar": jnp.zeros((), bool), "empty": jnp.ones((0, 3)), "np": np.int8(1),
        "raw": jax.random.split(jax.random.PRNGKey(0), 3), "keys": jax.random.split(
            jax.random.key(0), 3
        ), "object": object(),
    }  # fmt: skip
    rows = {row.path[2:-2]: tuple(row[1:]) for row in ptk.summary(tree).rows}
    assert rows == {
        "jax": ("f32[3,4]", (3, 4), "float32", 1, 12, 48),
        "numpy": ("f64[2]", (2,), "float64", 1, 2, 16),
        "key": ("key<fry>[]", (), "key<fry>", 1, 1, 8),
        "keys": ("key<fry>[3]", (3,), "key<fry>", 1, 3, 24),
        "raw": ("u32[3,2]", (3, 2), "uint32", 1, 6, 24),
        "none": ("None", None, "", 0, 0, 0),
        "fun": ("builtin_function_or_method", None, "", 1, 0, 0),
        "abstract": ("bf16[2,5]", (2, 5), "bfloat16", 1, 10, 20),
        "number": ("float", None, "", 1, 0, 0),
        "text": ("str", None, "", 1, 0, 0),
        "scalar": ("bool[]", (), "bool", 1, 1, 1),
        "empty": ("f32[0,3]", (0, 3), "float32", 1, 0, 0),
        "np": ("i8[]", (), "int8", 1, 1, 1),
        "object": ("object", None, "", 1, 0, 0),
    }
    total = ptk.summary(tree).total
    assert (total.leaves, total.elements, total.bytes) == (13, 36, 142)


def test_symbolic_shapes():
    size, width = export.symbolic_shape("b, c")
    tree = {
        "x": jax.ShapeDtypeStruct((size, 1000), jnp.float32),
        "y": jax.ShapeDtypeStruct((size, width), jnp.int8), "z": jnp.ones(2000),
    }  # fmt: skip
    found = ptk.summary(tree)
    assert found.total.bytes == size * width + 4000 * size + 8000
    assert str(found).splitlines() == [
        "3 leaves, b*c + 4000*b + 8000 bytes",
        "+-------+-------------+--------+---------------------+---------------------+",
        "| path  | found       | leaves |            elements |               bytes |",
        "+-------+-------------+--------+---------------------+---------------------+",
        "| ['x'] | f32[b,1000] |      1 |              1000*b |              4000*b |",
        "| ['y'] | i8[b,c]     |      1 |                 b*c |                 b*c |",
        "| ['z'] | f32[2000]   |      1 |               2,000 |               8,000 |",
        "| total |             |      3 | b*c + 1000*b + 2000 | b*c + 4000*b + 8000 |",
        "+-------+-------------+--------+---------------------+---------------------+",
    ]
    assert "<td style" in found._repr_html_()
    assert "b*c + 4000*b" in found._repr_html_()
    assert ptk.summary(tree, depth=0).rows[0].elements == found.total.elements


def test_subtrees_at_a_depth():
    tree = {"enc": [{"w": W, "b": jnp.ones(3, int)}] * 2, "act": "relu", "step": jnp.zeros(())}

    def told(depth):
        return [
            (r.path, r.found, r.leaves, r.elements, r.bytes) for r in ptk.summary(tree, depth).rows
        ]

    assert told(0) == [("", "str, i32, f32", 6, 31, 124)]
    assert told(1) == [
        ("['act']", "str", 1, 0, 0),
        ("['enc']", "i32, f32", 4, 30, 120),
        ("['step']", "f32[]", 1, 1, 4),
    ]
    assert [path for path, *_ in told(2)] == ["['act']", "['enc'][0]", "['enc'][1]", "['step']"]
    assert told(3) == told(99) == told(None)
    assert {ptk.summary(tree, depth).total for depth in (0, 1, 2, None)} == {
        ptk.summary(tree).total
    }


def test_the_dtype_that_all_have():
    summary = ptk.summary({"a": [W, W, "text"], "b": [W, 1, jnp.ones(2, int)]}, depth=1)
    assert [row.dtype for row in summary.rows] == ["float32", ""]
    assert summary.total.dtype == ""
    assert summary.rows[0].shape is None


@pytest.mark.parametrize("tree", [None, (), {}, 3.0, "text", W])
def test_trees_of_at_most_one_leaf(tree):
    for depth in (None, 0, 1):
        summary = ptk.summary(tree, depth)
        assert len(summary.rows) == len(jax.tree.leaves(tree)) + (tree is None)
        assert summary.total.leaves == len(jax.tree.leaves(tree))
        assert "total" in str(summary)


def test_text():
    tree = {"encoder": {"w": jnp.ones((1000, 10)), "act": jnp.tanh}, "ключ": None}
    assert str(ptk.summary(tree)).splitlines() == [
        "2 leaves, 40,000 bytes",
        "+--------------------+--------------+--------+----------+--------+",
        "| path               | found        | leaves | elements |  bytes |",
        "+--------------------+--------------+--------+----------+--------+",
        "| ['encoder']['act'] | PjitFunction |      1 |        0 |      0 |",
        "| ['encoder']['w']   | f32[1000,10] |      1 |   10,000 | 40,000 |",
        "| ['ключ']           | None         |      0 |        0 |      0 |",
        "| total              |              |      2 |   10,000 | 40,000 |",
        "+--------------------+--------------+--------+----------+--------+",
    ]


def test_rich_shows_the_same_table():
    stream = io.StringIO()
    rich.console.Console(file=stream, width=100).print(ptk.summary({"[bold]w[/]": W}))
    assert "['[bold]w[/]']" in stream.getvalue()
    assert "f32[3,4]" in stream.getvalue()


class Reader(html.parser.HTMLParser):
    """Reads the cells of a table."""

    def __init__(self):
        super().__init__()
        self.tags, self.cells = set(), []

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        if tag in {"td", "th"}:
            self.cells.append("")

    def handle_data(self, data):
        if self.cells and data.strip():
            self.cells[-1] += data


def test_html_is_a_table_in_which_nothing_is_markup_but_the_table():
    reader = Reader()
    reader.feed(ptk.summary({"<script>alert('é')</script>": W, "b": "&amp;"})._repr_html_())
    assert reader.tags == {"table", "caption", "thead", "tbody", "tr", "th", "td"}
    assert reader.cells[:5] == ["path", "found", "leaves", "elements", "bytes"]
    path = jax.tree_util.keystr((jax.tree_util.DictKey("<script>alert('é')</script>"),))
    assert reader.cells[5:10] == [path, "f32[3,4]", "1", "12", "48"]


def test_long_tables_are_cut_and_counted():
    summary = ptk.summary([W] * 1500)
    assert len(summary.rows) == 1500
    lines = str(summary).splitlines()
    assert len(lines) < 210
    assert "... and 1,300 more" in lines[-3]
    assert summary._repr_html_().count("<tr>") < 210


def test_models_and_optimizer_states():
    model = eqx.nn.MLP(2, 3, 8, 1, key=jax.random.key(0))
    summary = ptk.summary(model, depth=2)
    assert [row.path for row in summary.rows][:2] == [".layers[0]", ".layers[1]"]
    assert summary.total.elements == 2 * 8 + 8 + 8 * 3 + 3
    params = {"w": W, "b": jnp.ones(3)}
    state = ptk.summary(optax.adam(1e-3).init(params))
    assert state.total.elements == 2 * 15 + 1
    assert ptk.summary(jax.eval_shape(optax.adam(1e-3).init, params)) == state
    linear = nnx.state(nnx.Linear(4, 3, rngs=nnx.Rngs(0)))
    assert ptk.summary(linear).total.elements == 15
    assert ptk.summary(Layer(W, None)).total.elements == 12


def test_under_jit():
    seen = []
    jax.jit(lambda tree: seen.append(ptk.summary(tree)))({"w": W})
    assert seen == [ptk.summary({"w": W})]


@settings(max_examples=60)
@given(st.data())
def test_totals_are_those_of_the_leaves(data):
    drawn = draw_tree(data.draw, 3, lambda: draw_leaf(data.draw, Style(), 2, None))
    tree = build(drawn)
    arrays = [
        leaf
        for leaf in jax.tree.leaves(tree)
        if isinstance(leaf, jax.Array | np.ndarray | np.generic | jax.ShapeDtypeStruct)
    ]
    for depth in (None, 0, 1, 2):
        total = ptk.summary(tree, depth).total
        assert total.leaves == len(jax.tree.leaves(tree))
        assert total.elements == sum(math.prod(leaf.shape) for leaf in arrays)
        sizes = (math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in arrays)
        assert total.bytes == sum(sizes)
    assert max(map(len, str(ptk.summary(tree)).splitlines())) <= 88


@pytest.mark.parametrize("depth", [-1, 1.0, True, "1", np.int64(1)])
def test_a_depth_is_an_int_of_zero_or_more(depth):
    with pytest.raises(ptk.SpecError, match="PTK001"):
        ptk.summary(W, depth)


def test_a_dict_whose_keys_do_not_sort():
    with pytest.raises(ptk.SpecError, match="PTK104"):
        ptk.summary({1: W, "a": W})


def calls_of(work):
    profile = cProfile.Profile()
    profile.enable()
    work()
    profile.disable()
    return sum(entry.callcount for entry in profile.getstats())


@pytest.mark.parametrize("depth", [None, 1])
def test_work_is_in_proportion_to_the_leaves(depth):
    def work(count):
        tree = {f"layer{i}": [W] * 10 for i in range(count // 10)}
        return calls_of(lambda: ptk.summary(tree, depth))

    work(100)
    assert work(2_000) < 15 * work(200)


def test_a_huge_tree():
    assert ptk.summary([[W] * 10] * 5_000, depth=1).total.leaves == 50_000
