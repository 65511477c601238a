"""Colours of mesh axes, the same on light and dark pages: light tints that carry dark text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

_TINTS = ("#8ecae6", "#ffb703", "#95d5b2", "#f4a6c0", "#c8b6ff", "#d4e157", "#ffab91", "#80cbc4")
WHOLE = "#c9ccd1"
"""What no mesh axis splits."""

INK = "#14171a"
"""The text on a tint."""


STRIPE = 8
"""The width of a stripe."""


class Palette:
    """A colour for each mesh axis, and for what several split together.

    Attributes:
        definitions: The SVG of the patterns that were asked for.
    """

    def __init__(self, axes: Sequence[str], prefix: str) -> None:
        """Give each axis a colour.

        Args:
            axes: The names of the mesh axes.
            prefix: What the ids of the patterns begin with: a page may hold many pictures.
        """
        self._tints = {axis: _TINTS[number % len(_TINTS)] for number, axis in enumerate(axes)}
        self._prefix = prefix
        self._patterns: dict[tuple[str, ...], str] = {}

    def fill(self, axes: Iterable[str]) -> str:
        """The value of `fill` for what these axes split: a tint, or stripes of several."""
        its = tuple(dict.fromkeys(axes))
        if not its:
            return WHOLE
        if len(its) == 1:
            return self._tints[its[0]]
        if its not in self._patterns:
            self._patterns[its] = f"{self._prefix}-{len(self._patterns)}"
        return f"url(#{self._patterns[its]})"

    def css(self, axes: Iterable[str]) -> str:
        """The same as a value of `background` in CSS."""
        its = tuple(dict.fromkeys(axes))
        if len(its) <= 1:
            return self._tints[its[0]] if its else WHOLE
        stops = (
            f"{self._tints[axis]} {number * STRIPE}px {(number + 1) * STRIPE}px"
            for number, axis in enumerate(its)
        )
        return f"repeating-linear-gradient(45deg, {', '.join(stops)})"

    @property
    def definitions(self) -> str:
        """The patterns of stripes."""
        return "".join(self._pattern(name, axes) for axes, name in self._patterns.items())

    def _pattern(self, name: str, axes: Sequence[str]) -> str:
        width = STRIPE
        stripes = "".join(
            f'<rect x="{number * width}" width="{width}" height="8" fill="{self._tints[axis]}"/>'
            for number, axis in enumerate(axes)
        )
        return (
            f'<pattern id="{name}" width="{width * len(axes)}" height="8" '
            f'patternUnits="userSpaceOnUse" patternTransform="rotate(45)">{stripes}</pattern>'
        )
