"""Types as HLO writes them, `f32[32,8]{1,0}` and tuples of such: their arrays and bytes."""

from __future__ import annotations

import math
import re
from typing import NamedTuple

_ARRAY = re.compile(r"\b([a-z]\w*)\[([\d,<=]*)\]")

_BITS = {
    "pred": 8,
    "token": 0,
    "opaque": 0,
    "c64": 64,
    "c128": 128,
}
"""The bits of the types whose names do not tell them."""

_NUMBER = re.compile(r"(?:bf|f|s|u)(\d+)")


class Array(NamedTuple):
    """An array of HLO: the name of its dtype, and its shape."""

    dtype: str
    shape: tuple[int, ...]

    @property
    def elements(self) -> int:
        """How many elements it has."""
        return math.prod(self.shape)

    @property
    def bytes(self) -> int:
        """The bytes that it takes."""
        return -(-self.elements * bits(self.dtype) // 8)

    def __str__(self) -> str:
        return f"{self.dtype}[{','.join(map(str, self.shape))}]"


def bits(dtype: str) -> int:
    """The bits of an element.

    >>> bits("bf16"), bits("pred"), bits("f8e4m3fn"), bits("s4")
    (16, 8, 8, 4)
    """
    number = _NUMBER.match(dtype)
    return _BITS.get(dtype, int(number[1]) if number else 0)


def arrays(text: str) -> tuple[Array, ...]:
    """The arrays of a type, those of a tuple in their order.

    >>> [str(one) for one in arrays("(s32[], /*index=1*/f32[4,64]{1,0:T(8,128)})")]
    ['s32[]', 'f32[4,64]']
    """
    return tuple(
        Array(dtype, tuple(int(size.lstrip("<=")) for size in sizes.split(",") if size))
        for dtype, sizes in _ARRAY.findall(text)
    )
