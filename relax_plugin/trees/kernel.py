"""Kernel: what a search asks of masks, row by row, compiled by numba. Imported only where numba is installed.

`best_changes` and `best_returns` do what the methods of `trees.look.NumpyLook` do, several times as fast: the scores
of all single changes of a row stay in the cache of a core.
"""

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numpy as np
from numba.cpython.unsafe import numbers

from relax_plugin.arrays import Array, Booleans, Floats, Integers
from relax_plugin.trees.masks import MOST_PACKED, Table

Function = TypeVar("Function", bound=Callable[..., Any])

trailing_zeros: Any = numbers.trailing_zeros
ONE = np.uint64(1)
ALL = ~np.uint64(0)


def compiled(function: Function) -> Function:
    """The function as machine code, which is kept on disk, and runs without the lock of the interpreter.

    Raises a RuntimeError where no folder for it can be written to.
    """
    made: Any = numba.njit(cache=True, nogil=True, boundscheck=False)(function)
    return cast(Function, made)


@compiled
def _events(
    table: Table,
    rows: Integers,
    before: Array,
    after: Array,
    here: Array,
    now: Integers,
    slots: Integers,
    change: Floats,
    moved: Array,
    marks: Integers,
    total: Floats,
    simple: bool,
) -> None:
    """Score one row, and add to `change` (cells and one more a feature, outputs) what begins and ends at each cell.

    `moved` has a bit for each cell where something does, from the word `marks[j]` on for feature j; not if `simple`.
    """
    d, outputs, scores = len(rows), len(total), table.scores[:, 0]
    total[:] = 0.0
    for group in range(len(table.words) - 1):
        first_slot = 64 * table.words[group]
        width = table.words[group + 1] - table.words[group]
        for w in range(width):
            before[0, w] = ALL
        for j in range(d):
            at = table.at[group, rows[j]]
            bits, less, more = table.bits[at : at + width], before[j], before[j + 1]
            for w in range(width):
                more[w] = less[w] & bits[w]
        for w in range(width):
            left = before[d, w]
            here[w] = left
            after[w] = ALL
            while left != 0:
                slot = first_slot + 64 * w + np.int64(trailing_zeros(left))
                left &= left - ONE
                now[table.tree[slot]] = slot
                for output in range(outputs):
                    total[output] += table.scores[slot, output]
        for j in range(d - 1, -1, -1):
            at, place, count = table.at[group, rows[j]], table.first[j] + j, 0
            bits, less = table.bits[at : at + width], before[j]
            for w in range(width):
                less[w] = (less[w] & after[w]) ^ here[w]
                after[w] &= bits[w]
            for w in range(width):
                left = less[w]
                while left != 0:
                    slots[count] = first_slot + 64 * w + np.int64(trailing_zeros(left))
                    left &= left - ONE
                    count += 1
            if simple and table.packed[j]:
                spans, flat = table.span[j], change[:, 0]
                for event in range(count):
                    slot = slots[event]
                    gain, span = scores[slot] - scores[now[table.tree[slot]]], np.int64(spans[slot])
                    flat[place + (span & MOST_PACKED)] += gain
                    flat[place + (span >> 16)] -= gain
                continue
            packed = table.packed[j]
            for event in range(count):
                slot = slots[event]
                old, span = now[table.tree[slot]], np.int64(table.span[j, slot])
                if packed:
                    low, high = span & MOST_PACKED, span >> 16
                    _mark(moved, marks[j], low, high)
                    _add(table, old, slot, place + low, place + high, change)
                else:
                    for run in range(table.run_begin[span], table.run_begin[span + 1]):
                        low, high = table.run_low[run], table.run_high[run]
                        _mark(moved, marks[j], low, high)
                        _add(table, old, slot, place + low, place + high, change)


@compiled
def _mark(moved: Array, first: Any, low: Any, high: Any) -> None:
    moved[first + (low >> 6)] |= ONE << np.uint64(low & 63)
    moved[first + (high >> 6)] |= ONE << np.uint64(high & 63)


@compiled
def _add(table: Table, old: int, slot: int, low: int, high: int, change: Floats) -> None:
    """Add what a leaf scores more than the one in whose place it is reached, from one place on until another."""
    one, other = table.only[old], table.only[slot]
    if one >= 0 and other >= 0:
        change[low, one] -= table.scores[old, one]
        change[high, one] += table.scores[old, one]
        change[low, other] += table.scores[slot, other]
        change[high, other] -= table.scores[slot, other]
        return
    for o in range(table.scores.shape[1]):
        gain = table.scores[slot, o] - table.scores[old, o]
        change[low, o] += gain
        change[high, o] -= gain


@compiled
def _margin(
    sums: Floats, plus: Integers, minus: Integers, offset: Floats, groups: int, rate: float, least: float
) -> float:
    """How far above 0 a goal is met by sums of leaf scores: see `trees.aims.Aim.gap`."""
    count = len(plus) // groups
    best = -np.inf
    for group in range(groups):
        worst = np.inf
        for m in range(group * count, (group + 1) * count):
            value = offset[m]
            if plus[m] >= 0:
                value += sums[plus[m]]
            if minus[m] >= 0:
                value -= sums[minus[m]]
            worst = min(worst, value)
        if rate > 0.0:
            others = 0.0
            for m in range(group * count, (group + 1) * count):
                others += np.exp(rate * (worst - offset[m] - sums[plus[m]] + sums[minus[m]]))
            worst = min(worst, (least - np.log(others)) / rate + worst)
        best = max(best, worst)
    return best


@compiled
def _keep(value: float, cell: int, worth: Floats, top: Integers) -> None:
    """Put a cell in the place of the one worth least, if it is worth more."""
    least = 0
    for k in range(1, len(worth)):
        if worth[k] < worth[least]:
            least = k
    if value > worth[least]:
        worth[least], top[least] = value, cell


@compiled
def _nearest(far: Floats, first: int, end: int, own: int) -> int:
    """Of cells side by side the nearest to the query's own that it may be changed to; -1 if there is none."""
    above = below = -1
    for c in range(max(first, own + 1), end):
        if far[c] < np.inf:
            above = c
            break
    for c in range(min(end, own) - 1, first - 1, -1):
        if far[c] < np.inf:
            below = c
            break
    if above < 0 or (below >= 0 and far[below] < far[above]):
        return below
    return above


@compiled
def _marks(table: Table) -> Integers:
    """The word in which the bits of each feature's cells begin."""
    marks = np.zeros(len(table.first), np.int64)
    for j in range(len(table.first) - 1):
        marks[j + 1] = marks[j] + (table.first[j + 1] - table.first[j]) // 64 + 1
    return marks


@compiled
def best_changes(
    table: Table,
    target: Any,
    home: Array,
    far: Floats,
    rows: Array,
    owner: Integers,
    room: Floats,
    width: int,
    price: Floats,
) -> tuple[Integers, Floats, Floats, Floats, Array, Floats]:
    """See `trees.look.Look.best_changes`."""
    count, d = rows.shape
    outputs, cells, words = table.scores.shape[1], far.shape[1], np.max(np.diff(table.words))
    before, after, here = np.empty((d + 1, words), np.uint64), np.empty(words, np.uint64), np.empty(words, np.uint64)
    now, slots = np.zeros(table.tree.max() + 1, np.int64), np.empty(64 * words, np.int64)
    marks, change, total = _marks(table), np.zeros((cells + d, outputs)), np.zeros(outputs)
    moved, sums = np.zeros(marks[-1], np.uint64), np.zeros(outputs)
    cell, nearest, gap = np.full(count, -1), np.full(count, np.inf), np.full(count, -np.inf)
    itself, top, worth = np.empty(count), np.full((count, width), -1), np.full((count, width), -np.inf)
    for i in range(count):
        q = owner[i]
        plus, minus, offset, ways = target.plus[q], target.minus[q], target.offset[q], far[q]
        simple = outputs == 1 and len(offset) == 1 and price[q] == 0.0
        _events(table, rows[i], before, after, here, now, slots, change, moved, marks, total, simple)
        itself[i] = _margin(total, plus, minus, offset, target.groups, target.rate, target.least)
        limit, sign = room[i], 1.0 if plus[0] >= 0 else -1.0
        for j in range(d):
            first, end, own = table.first[j], table.first[j + 1], home[q, j]
            best, at, margin = -np.inf, -1, itself[i]
            fixed = rows[i, j] != own
            if simple:
                gained, flat = 0.0, change[:, 0]
                for c in range(first, end):
                    gained += flat[c + j]
                    flat[c + j] = 0.0
                    margin, way = itself[i] + sign * gained, ways[c]
                    if way == np.inf or fixed:
                        continue
                    if margin > 0.0:
                        if way < limit:
                            limit, cell[i], nearest[i], gap[i] = way, c, way, margin
                    elif margin > best or (margin == best and c < own):
                        best, at = margin, c
                flat[end + j] = 0.0
                moved[marks[j] : marks[j + 1]] = 0
            else:
                for o in range(outputs):
                    sums[o] = total[o]
                begin = first
                for w in range(marks[j], marks[j + 1]):
                    left = moved[w]
                    moved[w] = 0
                    while left != 0 or (w == marks[j + 1] - 1 and begin < end):
                        here_ends = end
                        if left != 0:
                            here_ends = first + 64 * (w - marks[j]) + np.int64(trailing_zeros(left))
                            left &= left - ONE
                        if (
                            not fixed
                            and begin < here_ends
                            and (margin > 0.0 or margin > best)
                            and not (margin <= 0.0 and begin <= own < here_ends)
                        ):
                            c = _nearest(ways, begin, here_ends, own)
                            if c >= 0 and margin > 0.0:
                                if ways[c] < limit:
                                    limit, cell[i], nearest[i], gap[i] = ways[c], c, ways[c], margin
                            elif c >= 0 and margin - price[q] * ways[c] > best:
                                best, at = margin - price[q] * ways[c], c
                        begin = here_ends
                        for o in range(outputs):
                            sums[o] += change[begin + j, o]
                            change[begin + j, o] = 0.0
                        if begin < end and not fixed:
                            margin = _margin(sums, plus, minus, offset, target.groups, target.rate, target.least)
            if at >= 0:
                _keep(best, at, worth[i], top[i])
    return cell, nearest, gap, itself, top, worth


@compiled
def best_returns(table: Table, target: Any, home: Array, rows: Array, owner: Integers) -> tuple[Integers, Floats]:
    """See `trees.look.Look.best_returns`."""
    count, d = rows.shape
    outputs, cells, words = table.scores.shape[1], table.first[-1], np.max(np.diff(table.words))
    before, after, here = np.empty((d + 1, words), np.uint64), np.empty(words, np.uint64), np.empty(words, np.uint64)
    now, slots = np.zeros(table.tree.max() + 1, np.int64), np.empty(64 * words, np.int64)
    marks, change, total = _marks(table), np.zeros((cells + d, outputs)), np.zeros(outputs)
    moved, sums = np.zeros(marks[-1], np.uint64), np.zeros(outputs)
    feature, gap = np.full(count, -1), np.full(count, -np.inf)
    for i in range(count):
        q = owner[i]
        plus, minus, offset = target.plus[q], target.minus[q], target.offset[q]
        _events(table, rows[i], before, after, here, now, slots, change, moved, marks, total, False)
        for j in range(d):
            sums[:] = total
            for w in range(marks[j], marks[j + 1]):
                left = moved[w]
                moved[w] = 0
                while left != 0:
                    c = table.first[j] + 64 * (w - marks[j]) + np.int64(trailing_zeros(left))
                    left &= left - ONE
                    for o in range(outputs):
                        if c <= home[q, j]:
                            sums[o] += change[c + j, o]
                        change[c + j, o] = 0.0
            if rows[i, j] != home[q, j] and home[q, j] < cells:
                margin = _margin(sums, plus, minus, offset, target.groups, target.rate, target.least)
                if margin > gap[i]:
                    feature[i], gap[i] = j, margin
    return feature, gap


@compiled
def distances(cells: Any, start: Floats, low: Floats, high: Floats, home: Array, open_: Booleans) -> Floats:
    """See `trees.moves.Costs.distances`."""
    count, d = start.shape
    far = np.full((count, len(cells.low)), np.inf)
    for q in range(count):
        for j in range(d):
            own = home[q, j]
            for c in range(cells.first[j], cells.first[j + 1]):
                if c == own or not open_[q % len(open_), c]:
                    continue
                if cells.jumps[c] or own >= cells.first[j + 1] or cells.jumps[own]:
                    least, most = max(cells.low[c], low[q, j]), min(cells.high[c], high[q, j])
                    if cells.jumps[c] or least <= most:
                        far[q, c] = cells.price[j] + cells.ordered[j] * abs(c - own)
                elif c > own:
                    value = max(cells.low[c], low[q, j])
                    if value <= min(cells.high[c], high[q, j]):
                        far[q, c] = (value - start[q, j]) * cells.unit[j]
                else:
                    value = min(cells.high[c], high[q, j])
                    if value >= max(cells.low[c], low[q, j]):
                        far[q, c] = (start[q, j] - value) * cells.unit[j]
    return far
