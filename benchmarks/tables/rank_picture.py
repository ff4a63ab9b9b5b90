"""Critical-difference diagrams (Demšar, JMLR 2006) as SVG: mean ranks on an axis, bars over what chance may part.

Written as text, so that the picture is the same to the byte wherever the ranks are the same.
"""

from collections.abc import Sequence
from html import escape

import pandas as pd

from benchmarks.tables.ranks import critical_difference, groups

WIDTH, LEFT, LINE, TOP = 820.0, 235.0, 18.0, 64.0  # of the picture, of the names at each side, of a name, of the axis
BARS = 7.0  # between two bars
INK, PAPER = "#333333", "#FFFFFF"


def rank_picture(ranks: pd.DataFrame, title: str, *, ink: str = INK, paper: str | None = PAPER) -> str:
    """The diagram of the ranks of methods over tasks, the best on the left.

    Parameters
    ----------
    ranks : DataFrame
        A line for each task and a column for each method, as `ranks.ranked` gives them; two methods at least.
    title : str
    ink, paper : str
        Colours; without paper the ground shows through.
    """
    means = ranks.mean().sort_values(kind="stable")
    count, difference = len(means), critical_difference(len(means), len(ranks))
    bars = groups(list(means), difference)
    half = (count + 1) // 2
    below = TOP + 14.0 + BARS * len(bars)
    height = below + LINE * half + 14.0
    parts = [_text(WIDTH / 2, 16.0, title, "middle", 13), *_axis(count), *_ruler(count, difference)]
    for level, (first, last) in enumerate(bars):
        y = TOP + 8.0 + BARS * level
        parts.append(_line(_x(means.iloc[first], count) - 3, y, _x(means.iloc[last], count) + 3, y, 3.5))
    for place, (method, mean) in enumerate(means.items()):
        on_left = place < half
        y = below + LINE * (place if on_left else count - 1 - place) + LINE / 2
        x, end = _x(float(mean), count), LEFT - 6 if on_left else WIDTH - LEFT + 6
        parts += [_line(x, TOP, x, y, 1.0), _line(x, y, end, y, 1.0)]
        label = f"{method}  {mean:.2f}" if on_left else f"{mean:.2f}  {method}"
        parts.append(_text(end + (-4 if on_left else 4), y + 4, label, "end" if on_left else "start", 11))
    ground = f'<rect width="{WIDTH:g}" height="{height:g}" fill="{paper}"/>' if paper else ""
    told = f"{title}. Mean ranks: " + ", ".join(f"{method} {mean:.2f}" for method, mean in means.items())
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH:g} {height:g}" role="img"'
    body = "\n".join(parts)
    return f'{head} color="{ink}"><title>{escape(told)}</title>{ground}\n{body}\n</svg>\n'


def _x(rank: float, count: int) -> float:
    """Where a rank lies on the axis."""
    return LEFT + (rank - 1.0) / max(count - 1, 1) * (WIDTH - 2 * LEFT)


def _axis(count: int) -> list[str]:
    marks = [_line(_x(rank, count), TOP - 5, _x(rank, count), TOP, 1.0) for rank in range(1, count + 1)]
    numbers = [_text(_x(rank, count), TOP - 9, str(rank), "middle", 10) for rank in range(1, count + 1)]
    return [_line(LEFT, TOP, WIDTH - LEFT, TOP, 1.2), *marks, *numbers]


def _ruler(count: int, difference: float) -> Sequence[str]:
    """The critical difference, as long as it is on the axis; told in words where it is longer than that."""
    label = f"critical difference {difference:.2f}"
    end = _x(1.0 + difference, count)
    if end > WIDTH - LEFT:
        return [_text(WIDTH / 2, 32.0, f"{label}: more than any two ranks can differ", "middle", 10)]
    return [_line(LEFT, 36.0, end, 36.0, 2.0), _text(LEFT, 31.0, label, "start", 10)]


def _line(x1: float, y1: float, x2: float, y2: float, width: float) -> str:
    ends = f'x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"'
    return f'<line {ends} stroke="currentColor" stroke-width="{width:g}"/>'


def _text(x: float, y: float, text: str, anchor: str, size: int) -> str:
    look = f'text-anchor="{anchor}" font-size="{size}" font-family="sans-serif" fill="currentColor"'
    return f'<text x="{x:.1f}" y="{y:.1f}" {look}>{escape(text)}</text>'
