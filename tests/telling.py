"""What a call raises, for tests of `ptk.testing`."""

from __future__ import annotations

import pytest

import pytreekit as ptk


def told(fun, *args, **kwargs):
    """The text of the assertion that fails."""
    with pytest.raises(AssertionError) as caught:
        fun(*args, **kwargs)
    text = str(caught.value)
    assert text.isascii()
    assert max(map(len, text.splitlines())) <= 88
    return text


def refused(fun, *args, **kwargs):
    """The code and place of each fault of the call."""
    with pytest.raises(ptk.SpecError) as caught:
        fun(*args, **kwargs)
    return [(fault.code, fault.place) for fault in caught.value.faults]
