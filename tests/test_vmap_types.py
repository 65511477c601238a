"""What annotations say of one example, against what a call gives: every form of annotation."""

from __future__ import annotations

import collections
import dataclasses
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, NotRequired, Optional, TypedDict, Union

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest
from jaxtyping import (
    Array,
    ArrayLike,
    BFloat16,
    Bool,
    Complex,
    Float,
    Float32,
    Inexact,
    Int,
    Key,
    Num,
    PRNGKeyArray,
    PyTree,
    Scalar,
    Shaped,
    UInt32,
)

import pytreekit as ptk

KEY = jax.random.key(0).dtype
BATCH = 5


def entered(*_: Any) -> Any:
    raise AssertionError("the function was entered")


def annotated(*hints: Any) -> Callable[..., Any]:
    """A function with a parameter for each hint, that must not be entered."""
    names = [f"x{index}" for index in range(len(hints))]
    scope: dict[str, Any] = {"entered": entered}
    exec(f"def fun({', '.join(names)}): return entered()", scope)
    scope["fun"].__annotations__ = dict(zip(names, hints, strict=True))
    return scope["fun"]


def f32(*shape: int) -> Any:
    return jax.ShapeDtypeStruct(shape, "float32")


def i32(*shape: int) -> Any:
    return jax.ShapeDtypeStruct(shape, "int32")


def of(dtype: Any, *shape: int) -> Any:
    return jax.ShapeDtypeStruct(shape, dtype)


def batched(tree: Any) -> Any:
    """A batch of an example: what is no array is as it is."""

    def more(leaf: Any) -> Any:
        return of(leaf.dtype, BATCH, *leaf.shape) if hasattr(leaf, "shape") else leaf

    return jax.tree.map(more, tree)


def told(hints: Any, examples: Any) -> list[str]:
    """The code and place of each fault of types, in a batch of the examples."""
    mapped = ptk.vmap(annotated(*hints, Any), ptk.if_array(0))
    faults = mapped.check(*batched((*examples, f32())))  # the last, so that something is mapped
    return [f"{its.code} {its.place}" for its in faults]


class Batch(TypedDict):
    image: Float[Array, "h w"]
    label: Int[Array, ""]
    mask: NotRequired[Bool[Array, "h w"]]


class Moments(NamedTuple):
    mean: Float[Array, " d"]
    cov: Float[Array, "d d"]


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Dense:
    w: Float[Array, "d k"]
    b: Float[Array, " k"] | None
    name: str = dataclasses.field(default="dense", metadata={"static": True})


class Linear(eqx.Module):
    weight: Float[Array, "k d"]
    bias: Float[Array, " k"]
    act: Callable[[Array], Array] = eqx.field(static=True, default=jnp.tanh)


class Two(eqx.Module):
    layers: list[Linear]
    scale: Float[Array, ""]


@jax.tree_util.register_static
class Opaque:
    """Of no annotated field."""


Size = typing.TypeVar("Size", bound=Float[Array, "3"])
Row = typing.NewType("Row", Float[Array, "3"])
FLOATS = dict[str, Float[Array, " d"]]
LAYER = Linear(f32(2, 3), f32(2))
OTHER_LAYER = Linear(f32(2, 4), f32(2))

# The annotation, the examples that fit it, and those that do not, with each fault.
FORMS: dict[str, tuple[Any, list[Any], list[tuple[Any, list[str]]]]] = {
    "Float": (
        Float[Array, "d"],
        [f32(3), of("float16", 0), of("bfloat16", 1)],
        [(i32(3), ["PTK601 x0"]), (f32(), ["PTK602 x0"]), ([f32(3)], ["PTK604 x0"])],
    ),
    "Float32": (Float32[Array, "3"], [f32(3)], [(of("float16", 3), ["PTK601 x0"])]),
    "BFloat16": (BFloat16[Array, ""], [of("bfloat16")], [(of("float16"), ["PTK601 x0"])]),
    "Int": (Int[Array, ""], [i32(), of("int8")], [(of("uint8"), ["PTK601 x0"])]),
    "Bool": (Bool[Array, "d"], [of("bool", 2)], [(i32(2), ["PTK601 x0"])]),
    "Num": (Num[Array, ""], [i32(), of("complex64")], [(of("bool"), ["PTK601 x0"])]),
    "Inexact": (Inexact[Array, ""], [f32(), of("complex64")], [(i32(), ["PTK601 x0"])]),
    "Complex": (Complex[Array, ""], [of("complex64")], [(f32(), ["PTK601 x0"])]),
    "Shaped": (Shaped[Array, "d"], [i32(3), of(KEY, 3)], [(i32(), ["PTK602 x0"])]),
    "Scalar": (Scalar, [i32(), f32()], [(i32(1), ["PTK602 x0"])]),
    "Key": (
        Key[Array, ""],
        [of(KEY)],
        [(of("uint32", 2), ["PTK601 x0"]), (of(KEY, 2), ["PTK602 x0"])],
    ),
    "raw key": (UInt32[Array, "2"], [of("uint32", 2)], [(of(KEY), ["PTK601 x0"])]),
    "PRNGKeyArray": (PRNGKeyArray, [of(KEY), of("uint32", 2)], [(i32(), ["PTK601 x0"])]),
    "ArrayLike": (Float[ArrayLike, "d"], [f32(3)], [(f32(3, 3), ["PTK602 x0"])]),
    "nested": (Float[Float[Array, "a"], "b"], [f32(2, 3)], [(f32(3), ["PTK602 x0"])]),
    "union": (
        Float[Array, "3"] | Int[Array, ""],
        [f32(3), i32()],
        [(f32(2), ["PTK603 x0"]), (i32(3), ["PTK602 x0"]), (of("bool"), ["PTK601 x0"])],
    ),
    "Optional": (Optional[Float[Array, "3"]], [f32(3), None], [(f32(4), ["PTK603 x0"])]),  # noqa: UP045
    "or a flag": (Float[Array, "3"] | Literal["no"], [f32(3), "no"], [("yes", ["PTK604 x0"])]),
    "dict": (
        FLOATS,
        [{}, {"a": f32(3), "b": f32(3)}],
        [
            ({"a": f32(3), "b": f32(4)}, ["PTK603 x0['b']"]),
            ({"a": i32(3), "b": i32(3)}, ["PTK601 x0['a']", "PTK601 x0['b']"]),
            (f32(3), ["PTK604 x0"]),
        ],
    ),
    "Mapping": (
        Mapping[str, FLOATS],
        [collections.OrderedDict(a={"b": f32(3)})],
        [({"a": {"b": f32(3, 3)}}, ["PTK602 x0['a']['b']"])],
    ),
    "list": (list[Float[Array, "3"]], [[], [f32(3)] * 2], [([f32(3), f32(4)], ["PTK603 x0[1]"])]),
    "Sequence": (Sequence[Float[Array, "3"]], [[f32(3)], (f32(3),)], [(f32(3), ["PTK604 x0"])]),
    "tuple": (
        tuple[Float[Array, " d"], Int[Array, ""], int],
        [(f32(3), i32(), 2)],
        [((f32(3), f32(), 2), ["PTK601 x0[1]"]), ((f32(3), i32()), ["PTK604 x0"])],
    ),
    "tuple of any length": (
        tuple[Float[Array, " d"], ...],
        [(), (f32(3),) * 3],
        [((f32(3), f32(2)), ["PTK603 x0[1]"])],
    ),
    "TypedDict": (
        Batch,
        [{"image": f32(2, 3), "label": i32()}],
        [
            ({"image": f32(2, 3), "label": f32()}, ["PTK601 x0['label']"]),
            ({"image": f32(2, 3), "label": i32(), "mask": of("bool", 2)}, ["PTK602 x0['mask']"]),
        ],
    ),
    "NamedTuple": (
        Moments,
        [Moments(f32(2), f32(2, 2))],
        [
            (Moments(f32(2), f32(2, 3)), ["PTK603 x0.cov"]),
            ((f32(2), f32(2, 2)), ["PTK604 x0"]),
        ],
    ),
    "dataclass": (
        Dense,
        [Dense(f32(2, 3), f32(3)), Dense(f32(2, 3), None)],
        [(Dense(f32(2, 3), f32(2)), ["PTK603 x0.b"]), (Dense(f32(2), None), ["PTK602 x0.w"])],
    ),
    "module": (
        Two,
        [Two([LAYER, LAYER], f32())],
        [(Two([LAYER, OTHER_LAYER], i32()), ["PTK603 x0.layers[1].weight", "PTK601 x0.scale"])],
    ),
    "PyTree": (
        PyTree[Float[Array, "..."]],
        [f32(), {"a": [f32(3), f32(2, 2)], "b": None}],
        [({"a": [f32(3), i32()], "b": None}, ["PTK601 x0['a'][1]"]), (i32(), ["PTK601 x0"])],
    ),
    "PyTree of a union": (
        PyTree[Float[Array, ""] | int],
        [{"a": f32(), "b": 3}],
        [({"a": f32(2), "b": 3}, ["PTK602 x0['a']"])],
    ),
    "PyTree of tuples": (
        PyTree[tuple[Float[Array, " d"], Int[Array, " d"]]],
        [[(f32(3), i32(3))] * 2],
        [([(f32(3), i32(2))], ["PTK604 x0"])],
    ),
    "dict of PyTrees": (
        dict[str, PyTree[Float[Array, "3"]]],
        [{"a": [f32(3)]}],
        [({"a": [f32(3), f32(2)]}, ["PTK603 x0['a'][1]"])],
    ),
    "Annotated": (typing.Annotated[Float[Array, "3"], "x"], [f32(3)], [(f32(2), ["PTK603 x0"])]),
    "TypeVar": (Size, [f32(3)], [(f32(2), ["PTK603 x0"])]),
    "NewType": (Row, [f32(3)], [(f32(2), ["PTK603 x0"])]),
    "sizes": (Float[Array, "2 rows=3"], [f32(2, 3)], [(f32(2, 4), ["PTK603 x0"])]),
    "square": (Float[Array, "d d"], [f32(2, 2)], [(f32(2, 3), ["PTK603 x0"])]),
    "anonymous": (Float[Array, "_ 3 _c _c"], [f32(1, 3, 2, 9)], [(f32(1, 2, 2, 9), ["PTK603 x0"])]),
    "dots": (Float[Array, "... d 3"], [f32(2, 3), f32(1, 1, 2, 3)], [(f32(3), ["PTK602 x0"])]),
    "dots inside": (Float[Array, "d ... d"], [f32(2, 7, 2)], [(f32(2, 7, 3), ["PTK603 x0"])]),
    "several": (Float[Array, "*b d"], [f32(3), f32(2, 3)], [(f32(), ["PTK602 x0"])]),
    "broadcast": (Float[Array, "#3 2"], [f32(1, 2), f32(3, 2)], [(f32(2, 2), ["PTK603 x0"])]),
    "expression": (Float[Array, "d d+1 2*d"], [f32(2, 3, 4)], [(f32(2, 3, 5), ["PTK603 x0"])]),
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_each_form_of_annotation(form):
    hint, fitting, others = FORMS[form]
    for example in fitting:
        assert told([hint], [example]) == [], example
    for example, faults in others:
        assert told([hint], [example]) == faults, example


# Annotations of several parameters, examples of each, and the faults: names hold for all.
T_FLOATS = PyTree[Float[Array, "..."], "T"]
T_SIZES = PyTree[Float[Array, "?d"], "T"]
TREE = {"a": f32(3), "b": f32(4)}
TOGETHER: list[tuple[Any, Any, list[str]]] = [
    ((Float[Array, "d"], Int[Array, "d"]), (f32(3), i32(4)), ["PTK603 x1"]),
    (
        (Float[Array, "d"], Int[Array, " d"], Int[Array, "d"]),
        (f32(3), i32(4), i32(3)),
        ["PTK603 x1"],
    ),
    ((Float[Array, "d"], Int[Array, "d+1"]), (f32(3), i32(4)), []),
    ((Float[Array, "d"], Int[Array, "d+1"]), (f32(3), i32(3)), ["PTK603 x1"]),
    ((Float[Array, "*b d"], Float[Array, "*b"]), (f32(2, 5, 3), f32(2, 5)), []),
    ((Float[Array, "*b d"], Float[Array, "*b"]), (f32(2, 5, 3), f32(2)), ["PTK603 x1"]),
    ((Float[Array, "d"], Float[Array, "#d"]), (f32(3), f32(1)), []),
    ((Float[Array, "#d"], Float[Array, "d"]), (f32(1), f32(3)), []),
    ((Float[Array, "d"], Float[Array, "#d"]), (f32(3), f32(2)), ["PTK603 x1"]),
    ((Float[Array, "*#b"], Float[Array, "*#b"]), (f32(3, 1), f32(4)), []),
    ((Float[Array, "*#b"], Float[Array, "*#b"]), (f32(3, 2), f32(4)), ["PTK603 x1"]),
    ((Linear, Float[Array, "d"]), (LAYER, f32(4)), ["PTK603 x1"]),
    ((FLOATS, FLOATS), ({"a": f32(3)}, {"a": f32(3), "b": f32(2)}), ["PTK603 x1['b']"]),
    ((T_FLOATS, T_FLOATS), (TREE, TREE), []),
    ((T_FLOATS, T_FLOATS), (TREE, {"a": f32(3)}), ["PTK604 x1"]),
    ((T_FLOATS, T_FLOATS), (TREE, {"a": f32(3), "b": i32()}), ["PTK601 x1['b']"]),
    ((T_SIZES, T_SIZES), (TREE, TREE), []),
    ((T_SIZES, T_SIZES), (TREE, {"a": f32(3), "b": f32(5)}), ["PTK603 x1['b']"]),
    ((T_SIZES, T_SIZES), (TREE, {"a": f32(3)}), ["PTK604 x1"]),
    # A choice that does not fit leaves no sizes behind.
    (
        (tuple[Float[Array, " a"], Int[Array, " b"]] | list[Float[Array, " c"]], Float[Array, "b"]),
        ([f32(3), f32(3)], f32(4)),
        [],
    ),
    (
        (
            tuple[Float[Array, " a"], Int[Array, " b"]]
            | tuple[Float[Array, " c"], Float[Array, " c"]],
            Float[Array, "a"],
            Float[Array, "c"],
        ),
        ((f32(3), f32(3)), f32(4), f32(2)),
        ["PTK603 x2"],
    ),
]


@pytest.mark.parametrize("number", range(len(TOGETHER)))
def test_names_hold_for_all_arguments(number):
    hints, examples, faults = TOGETHER[number]
    assert told(hints, examples) == faults


class HasWeight(typing.Protocol):
    def weight(self) -> Float[Array, "3"]: ...


Weighted = typing.TypeVar("Weighted")


class Boxed(typing.Protocol[Weighted]):
    value: Weighted


# Nothing of these can be told, of the examples that they are given: they are passed over.
NOT_TOLD: list[tuple[Any, Any]] = [
    (int | Array, f32(7)),
    (PyTree, i32(7)),
    (Array, i32(7)),
    ("NoSuchName[Array, '3']", f32(7)),
    (HasWeight, LAYER),
    (Boxed[Float[Array, "3"]], LAYER),
    (Float[Array, "nobody+1"], f32(7)),
    (Float[Array, "d 7//d"], f32(0, 7)),
    (Float[Array, "{size}"], f32(7)),
    (PyTree[Float[Array, "?d"]], [f32(7), f32(2)]),
    (PyTree[Float[Array, "3"], "S T"], [f32(3)]),
    (tuple[Float[Array, "3"], *tuple[Int[Array, ""], ...]], (f32(3), i32(), i32())),
    (typing.Final[Float[Array, "7"]], f32(7)),
    (Callable[[Float[Array, "3"]], Float[Array, "3"]], jax.tree_util.Partial(jnp.sin)),
    (type[Float[Array, "3"]] | Array, f32(7)),
    (Union[Opaque, Float[Array, "3"]], Opaque()),  # noqa: UP007
    (Dense | Any, f32(7)),
]


@pytest.mark.parametrize("number", range(len(NOT_TOLD)))
def test_what_cannot_be_told_is_passed_over(number):
    hint, example = NOT_TOLD[number]
    assert told([hint], [example]) == []


def test_static_data_of_a_node_are_passed_over():
    @jax.tree_util.register_dataclass
    @dataclasses.dataclass
    class Scaled:
        w: Float[Array, "3"]
        by: Float[Array, "7"] = dataclasses.field(metadata={"static": True})

    assert told([Scaled], [Scaled(f32(3), f32(2))]) == []


def test_nothing_is_told_of_an_argument_that_no_example_can_be_taken_of():
    mapped = ptk.vmap(annotated(Float[Array, "3"], Float[Array, "3"]))
    assert [its.code for its in mapped.check(f32(), f32(5, 2))] == ["PTK101", "PTK603"]


def test_all_faults_of_a_call_come_at_once_in_order():
    fun = annotated(Float[Array, "d"], FLOATS, Int[Array, ""])
    faults = ptk.vmap(fun).check(f32(5, 3), {"a": f32(5, 4), "b": i32(5, 3)}, f32(4, 2))
    assert [f"{its.code} {its.place}" for its in faults] == [
        "PTK603 x1['a']", "PTK601 x1['b']", "PTK601 x2", "PTK102 x2",
    ]  # fmt: skip
