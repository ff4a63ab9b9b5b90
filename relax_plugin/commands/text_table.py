"""Tables for a terminal: no line is wider than it, long texts are wrapped, and columns for which no room is come below.

Nothing heavy is imported here: a list is printed before pandas could be.
"""

import re
import shutil
import unicodedata
from collections.abc import Iterator, Sequence
from itertools import groupby

from relax_plugin.formatting import printable

NARROWEST = 40  # columns of a terminal for which tables are laid out; one that says it has fewer wraps by itself
NAME, WORD = 16, 20  # columns below which names, and words of other texts, are not broken to make room
GAP, INDENT = "  ", "  "
NUMBER = re.compile(r"[-+\d.,%±()/ ]*\Z|nan\Z|-\Z")
BREAKS = re.compile(r"(?<=[\s|;])|(?<=[,:/=-])(?!\d)")  # a text may be wrapped behind one of these, no number is

Cells = Sequence[Sequence[str]]


def terminal_width() -> int:
    """Columns of the terminal, or what COLUMNS says; 80 where there is none."""
    return max(NARROWEST, shutil.get_terminal_size((80, 24)).columns)


def text_table(heads: Sequence[str], lines: Cells, width: int, *, grouped: bool = False) -> str:
    """A table as text of at most so many columns.

    The first column holds names, which stand before each part of a table that is too wide for one. In a `grouped` table
    it is a group, such as the task: it becomes a line above its lines, and the second column holds the names.
    """
    heads, lines = list(map(printable, heads)), [[printable(cell) for cell in line] for line in lines]
    groups = [line[0] for line in lines] if grouped else []
    if grouped:
        heads, lines = heads[1:], [[INDENT + line[1], *line[2:]] for line in lines]
    parts = [_part(heads, lines, part, groups, width) for part in _parts(heads, lines, width)]
    return "\n\n".join(parts)


def displayed(text: str) -> int:
    """The columns that a text takes: two for a character of East Asia, none for an accent that is put on another."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(letter) else 2 if unicodedata.east_asian_width(letter) in "WF" else 1
        for letter in text
    )


def wrapped(text: str, width: int, hanging: str = "") -> list[str]:
    """The text in lines of at most so many columns, broken behind a separator where there is one.

    `hanging` stands before every line but the first.
    """
    lines, line = [], ""
    for piece in BREAKS.split(text):
        if line.strip() and displayed((line + piece).rstrip()) > width:
            lines.append(line.rstrip())
            line, piece = hanging, piece.lstrip()
        while displayed((line + piece).rstrip()) > width:  # a piece that is longer than a line is broken anywhere
            fits = next(end for end in range(len(piece), 0, -1) if end == 1 or displayed(line + piece[:end]) <= width)
            lines.append(line + piece[:fits])
            line, piece = hanging, piece[fits:]
        line += piece
    return [*lines, line.rstrip()] if line.strip() or not lines else lines


def _parts(heads: Sequence[str], lines: Cells, width: int) -> Iterator[list[int]]:
    """Which columns stand side by side: the names, and as many others as there is room for."""
    least = [_least(heads, lines, column) for column in range(len(heads))]
    part, used = [0], least[0]
    for column in range(1, len(heads)):
        if len(part) > 1 and used + len(GAP) + least[column] > width:
            yield part
            part, used = [0], least[0]
        part.append(column)
        used += len(GAP) + least[column]
    yield part


def _part(heads: Sequence[str], lines: Cells, part: list[int], groups: list[str], width: int) -> str:
    widths = _widths(heads, lines, part, width)
    right = {column: all(NUMBER.match(line[column]) for line in lines) for column in part[1:]}
    texts = _row([heads[column] for column in part], part, widths, right, bottom=True)
    texts.append(GAP.join("-" * widths[column] for column in part))
    bodies = [_row([line[column] for column in part], part, widths, right) for line in lines]
    if not groups:
        texts += [text for body in bodies for text in body]
    else:
        for group, places in groupby(range(len(lines)), key=groups.__getitem__):
            texts += wrapped(group, width)
            texts += [text for place in places for text in bodies[place]]
    return "\n".join(texts)


def _row(
    cells: list[str], part: list[int], widths: dict[int, int], right: dict[int, bool], bottom: bool = False
) -> list[str]:
    """One line of the table, which takes several of the terminal if a cell of it is wrapped."""
    deeper = " " * (len(cells[0]) - len(cells[0].lstrip())) + INDENT
    hanging = [deeper if column == 0 and not bottom else "" for column in part]
    blocks = [wrapped(cell, widths[column], hang) for cell, column, hang in zip(cells, part, hanging, strict=True)]
    height = max(map(len, blocks))
    filled = [_filled(block, height, bottom) for block in blocks]
    texts = []
    for line in zip(*filled, strict=True):
        made = []
        for text, column in zip(line, part, strict=True):
            space = " " * (widths[column] - displayed(text))
            made.append(space + text.strip() if right.get(column) else text + space)
        texts.append(GAP.join(made).rstrip())
    return texts


def _filled(block: list[str], height: int, bottom: bool) -> list[str]:
    empty = [""] * (height - len(block))
    return [*empty, *block] if bottom else [*block, *empty]


def _widths(heads: Sequence[str], lines: Cells, part: list[int], width: int) -> dict[int, int]:
    """The columns' widths: at least what each needs, and the room that is left to those that lack least of it."""
    widths = {column: _least(heads, lines, column) for column in part}
    natural = {column: _natural(heads, lines, column) for column in part}
    left = width - sum(widths.values()) - len(GAP) * (len(part) - 1)
    for column in sorted(part, key=lambda column: natural[column] - widths[column]):
        more = max(0, min(left, natural[column] - widths[column]))
        widths[column] += more
        left -= more
    if left < 0:  # one column alone is wider than the terminal
        widest = max(part, key=widths.__getitem__)
        widths[widest] = max(8, widths[widest] + left)
    return widths


def _natural(heads: Sequence[str], lines: Cells, column: int) -> int:
    """The width of a column none of whose cells is wrapped; its heading is, if it has several words."""
    return max([_longest_word(heads[column]), *(displayed(line[column]) for line in lines)])


def _least(heads: Sequence[str], lines: Cells, column: int) -> int:
    """The width below which a column is not brought: numbers stay whole, texts are wrapped between words."""
    natural = _natural(heads, lines, column)
    cells = [line[column] for line in lines]
    if column > 0 and all(map(NUMBER.match, cells)):
        return natural
    longest = min(max(map(_longest_word, cells), default=0), WORD if column else NAME)
    return min(natural, max(_longest_word(heads[column]), longest))


def _longest_word(text: str) -> int:
    return max(map(displayed, text.split()), default=0)
