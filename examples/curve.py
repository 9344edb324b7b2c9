"""A curve as an SVG picture, drawn with nothing but text."""

import html
import math
from pathlib import Path

WIDTH, HEIGHT = 480, 200
LEFT, RIGHT, TOP, BOTTOM = 62, 12, 26, 24


def svg(points, title, target=None):
    """A picture of a line through points (step, value), and a dashed one at the target.

    The scale of values is logarithmic if they are positive and span more than a factor of 30.
    """
    points = [(float(x), float(y)) for x, y in points if math.isfinite(float(y))]
    if not points:
        raise ValueError(f"{title}: there is nothing to draw")
    values = [y for _, y in points] + ([] if target is None else [float(target)])
    logarithmic = min(values) > 0 and max(values) / min(values) > 30
    scale = math.log if logarithmic else float
    low, high = scale(min(values)), scale(max(values))
    if high - low < 1e-12:
        low, high = low - 0.5, high + 0.5
    first, last = points[0][0], max(points[-1][0], points[0][0] + 1e-9)

    def place(x, y):
        across = LEFT + (x - first) / (last - first) * (WIDTH - LEFT - RIGHT)
        down = TOP + (high - scale(y)) / (high - low) * (HEIGHT - TOP - BOTTOM)
        return f"{across:.1f},{down:.1f}"

    text = lambda x, y, words, anchor="end": (
        f'<text x="{x}" y="{y}" text-anchor="{anchor}">{html.escape(words)}</text>'
    )
    size = f'viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="11">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<path d="M{LEFT} {TOP}V{HEIGHT - BOTTOM}H{WIDTH - RIGHT}" fill="none" stroke="#999"/>',
        text(LEFT, 16, title, "start"),
        text(LEFT - 4, TOP + 8, f"{max(values):.3g}"),
        text(LEFT - 4, HEIGHT - BOTTOM, f"{min(values):.3g}"),
        text(WIDTH - RIGHT, HEIGHT - 8, f"step {last:.0f}"),
    ]
    if target is not None:
        start, end = place(first, target), place(last, target)
        lines.append(f'<polyline points="{start} {end}" stroke="#b33" stroke-dasharray="5 4"/>')
    path = " ".join(place(x, y) for x, y in points)
    lines.append(f'<polyline points="{path}" fill="none" stroke="#225ea8" stroke-width="1.6"/>')
    return "\n".join(lines) + "\n</svg>\n"


def points_of(lines, name):
    """Steps and values of a metric, from ``read_json_lines``; of several runs, of the last."""
    points = []
    for line in lines:
        if name in line.get("values", ()):
            if points and line["step"] <= points[-1][0]:
                points = []
            points.append((line["step"], line["values"][name]))
    return points


def write(path, points, title, target=None):
    """Draw a curve into a file."""
    Path(path).write_text(svg(points, title, target), encoding="utf-8")
