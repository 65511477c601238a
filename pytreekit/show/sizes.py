"""Numbers of bytes, and shares, for people to read."""

from __future__ import annotations

_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB")
_STEP = 1024


def in_bytes(number: int) -> str:
    """A number of bytes in the unit that fits.

    >>> in_bytes(1), in_bytes(800), in_bytes(3 * 2**20)
    ('1 byte', '800 bytes', '3.0 MiB')
    """
    if number == 1:
        return "1 byte"
    size, unit = float(number), 0
    while size >= _STEP and unit < len(_UNITS) - 1:
        size, unit = size / _STEP, unit + 1
    return f"{size:,.1f} {_UNITS[unit]}" if unit else f"{number} bytes"


def percent(share: float) -> str:
    """A share of one in percent.

    >>> percent(0.5), percent(0.0004), percent(1e-9), percent(0.0)
    ('50.0%', '0.04%', '<0.01%', '0%')
    """
    if not share:
        return "0%"
    if share < 0.0001:  # noqa: PLR2004
        return "<0.01%"
    return f"{share:.1%}" if share >= 0.001 else f"{share:.2%}"  # noqa: PLR2004


_FLOPS = ("FLOPs", "kFLOPs", "MFLOPs", "GFLOPs", "TFLOPs", "PFLOPs", "EFLOPs")
_THOUSAND = 1000


def in_flops(number: int) -> str:
    """A number of floating point operations in the unit that fits.

    >>> in_flops(12), in_flops(158_329_674_399_744)
    ('12 FLOPs', '158.3 TFLOPs')
    """
    size, unit = float(number), 0
    while size >= _THOUSAND and unit < len(_FLOPS) - 1:
        size, unit = size / _THOUSAND, unit + 1
    return f"{size:,.1f} {_FLOPS[unit]}" if unit else f"{number} FLOPs"


def in_seconds(number: float) -> str:
    """A time in the unit that fits.

    >>> in_seconds(0.0), in_seconds(3e-6), in_seconds(0.0421), in_seconds(75.0)
    ('0 s', '3.0 us', '42.1 ms', '75.0 s')
    """
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if number >= size:
            return f"{number / size:,.1f} {unit}"
    return f"{number / 1e-9:,.1f} ns" if number else "0 s"
