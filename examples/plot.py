"""Lines as the text of an SVG file, in the colours of the page around it."""

from collections.abc import Mapping, Sequence

WIDTH, HEIGHT, LEFT, BELOW = 640, 260, 56, 40
COLOURS = ("#3f51b5", "#e65100")


def lines(xs: Sequence[float], named: Mapping[str, Sequence[float]], x_name: str) -> str:
    """A chart of some shares, each from 0 to 1, over the same numbers."""
    low = min(min(ys) for ys in named.values())
    ticks = [low, (1 + low) / 2, 1.0]

    def place(x: float, y: float) -> tuple[float, float]:
        across = LEFT + (WIDTH - LEFT - 10) * x / max(xs)
        return across, 10 + (HEIGHT - BELOW - 10) * (1 - (y - low) / (1 - low))

    parts = []
    for y in ticks:
        _, at = place(0, y)
        parts.append(f'<path d="M{LEFT} {at:.1f}H{WIDTH - 10}" stroke="#8888" fill="none"/>')
        parts.append(f'<text x="4" y="{at + 4:.1f}">{y:.1%}</text>')
    for number, (name, ys) in enumerate(named.items()):
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in map(place, xs, ys))
        colour = COLOURS[number % len(COLOURS)]
        parts.append(f'<polyline points="{points}" stroke="{colour}" fill="none"/>')
        spot = f'x="{WIDTH - 200}" y="{HEIGHT - BELOW - 40 + 18 * number}"'
        parts.append(f'<text {spot} style="fill: {colour}">{name}</text>')
    parts.append(f'<text x="{LEFT}" y="{HEIGHT - 8}">0</text>')
    parts.append(f'<text x="{WIDTH - 120}" y="{HEIGHT - 8}">{max(xs):,} {x_name}</text>')
    size = f'width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}"'
    style = 'font-family="monospace" font-size="12" fill="currentColor" stroke-width="1.5"'
    opening = f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style} role="img">'
    return "\n".join([opening, *parts, "</svg>"]) + "\n"
