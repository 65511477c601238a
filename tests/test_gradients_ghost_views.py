"""Views of a parameter: which entries they are, and a gradient brought back to where these are."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from pytreekit.gradients.ghost.views import apart, whole

SHAPES = st.lists(st.integers(1, 4), min_size=0, max_size=3).map(tuple)


def entries(view, flat):
    """The entries of a view, one by one."""
    found = [
        flat[
            view.offset + sum(at * stride for at, (_, stride) in zip(index, view.dims, strict=True))
        ]
        for index in np.ndindex(*view.shape)
    ]
    return np.reshape(found, view.shape)


def seen(draw):
    """A view of an array after a few steps, the array, and what numpy makes of the same steps."""
    shape = draw(SHAPES)
    array = np.arange(np.prod(shape, dtype=int)).reshape(shape)
    view, wanted = whole(shape), array
    for _ in range(draw(st.integers(0, 3))):
        step = draw(st.sampled_from(["transposed", "reversed", "sliced", "reshaped"]))
        ndim = wanted.ndim
        if step == "transposed":
            order = draw(st.permutations(range(ndim)))
            view, wanted = view.transposed(order), wanted.transpose(order)
        elif step == "reversed":
            at = draw(st.lists(st.sampled_from(range(ndim)), unique=True)) if ndim else []
            view, wanted = view.reversed(at), np.flip(wanted, at)
        elif step == "sliced":
            starts = [draw(st.integers(0, size - 1)) for size in wanted.shape]
            by = [draw(st.integers(1, 2)) for _ in starts]
            rows = zip(wanted.shape, starts, by, strict=True)
            sizes = [draw(st.integers(1, -(-(size - start) // its))) for size, start, its in rows]
            cut = zip(starts, sizes, by, strict=True)
            wanted = wanted[
                tuple(slice(start, start + size * its, its) for start, size, its in cut)
            ]
            view = view.sliced(starts, sizes, by)
        else:
            new = draw(st.sampled_from([(wanted.size,), (1, *wanted.shape, 1), wanted.shape[::-1]]))
            found = view.reshaped(new)
            view, wanted = (view, wanted) if found is None else (found, wanted.reshape(new))
    return view, array, wanted


@settings(max_examples=100)
@given(st.data())
def test_entries_of_views(data):
    view, array, wanted = seen(data.draw)
    np.testing.assert_array_equal(entries(view, array.ravel()), wanted)


@settings(max_examples=5)  # each compiles operations of other shapes
@given(st.data())
def test_gradients_of_views(data):
    view, array, wanted = seen(data.draw)
    gradient = np.zeros(array.size, "f")
    gradient[wanted.ravel()] = 1 + np.arange(wanted.size)
    given = jnp.asarray(1 + np.arange(wanted.size, dtype="f")).reshape(wanted.shape)
    back = view.undone(given, array.shape)
    np.testing.assert_array_equal(back, gradient.reshape(array.shape))


@settings(max_examples=100)
@given(st.data())
def test_views_that_share_no_entry(data):
    view, array, wanted = seen(data.draw)
    if not wanted.ndim:
        assert not apart([view, view], array.shape)
        return
    axis = data.draw(st.integers(0, wanted.ndim - 1))
    cut = data.draw(st.integers(0, wanted.shape[axis]))
    starts, sizes = [0] * wanted.ndim, list(wanted.shape)
    low = view.sliced(starts, [*sizes[:axis], cut, *sizes[axis + 1 :]], [1] * wanted.ndim)
    starts[axis], rest = cut, wanted.shape[axis] - cut
    high = view.sliced(starts, [*sizes[:axis], rest, *sizes[axis + 1 :]], [1] * wanted.ndim)
    for one, other in ((low, high), (low, view), (view, high)):
        shared = set(entries(one, array.ravel()).ravel()) & set(
            entries(other, array.ravel()).ravel()
        )
        assert not (
            apart([one, other], array.shape) and shared
        )  # it may say no where it could not tell


def test_slices_of_plain_parameters_are_told_apart():
    rows = whole((4, 6))
    halves = [rows.sliced((0, at), (4, 3), (1, 1)) for at in (0, 3)]
    assert apart(halves, (4, 6))
    assert apart([half.transposed((1, 0)) for half in halves], (4, 6))
    assert not apart([halves[0], rows.sliced((0, 2), (4, 2), (1, 1))], (4, 6))
    layers = whole((3, 2, 2))
    assert apart([layers.sliced((at, 0, 0), (1, 2, 2), (1, 1, 1)) for at in range(3)], (3, 2, 2))
