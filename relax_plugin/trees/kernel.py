"""Kernel: what a search asks of masks, row by row, compiled by numba. Imported only where numba is installed.

`best_changes` does what `trees.look.Look.best_changes` does, several times as fast: the scores of the changes of one
row stay in the cache of a core, and changes that are too far away are not scored.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar, cast

import numba
import numpy as np
from numba.cpython.unsafe import numbers

from relax_plugin.arrays import Array, Floats, Integers
from relax_plugin.trees.masks import MOST_PACKED, WORD, Table

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


class Work(NamedTuple):
    """Arrays that the kernel writes on, for one row after another."""

    others: Array  # (features + 1, words) the leaves that a change of each feature alone reaches
    after: Array  # (words,) those that agree with the cells of all features behind one
    now: Integers  # (trees,) the slots of the leaves that the row reaches
    slots: Integers  # (slots,)
    total: Floats  # (outputs,) the scores of the row
    change: Floats  # (cells of a feature + 1, outputs) what is added to them from each cell on
    moved: Array  # (words,) a bit for each cell where something is added

    @classmethod
    def of(cls, table: Table) -> "Work":
        cells, (slots, outputs), words = int(np.diff(table.first).max()) + 1, table.scores.shape, int(table.words[-1])
        now, found = np.zeros(int(table.tree.max()) + 1, dtype=np.int64), np.zeros(slots, dtype=np.int64)
        others, after = np.empty((len(table.first), words), dtype=np.uint64), np.empty(words, dtype=np.uint64)
        moved = np.zeros(cells // WORD + 1, dtype=np.uint64)
        return cls(others, after, now, found, np.zeros(outputs), np.zeros((cells, outputs)), moved)


@compiled
def _reach(table: Table, row: Integers, work: Work) -> None:
    """Find and score the leaves that a row reaches, and find those that a change of one feature alone reaches."""
    d, now, total, scores, tree = len(row), work.now, work.total, table.scores, table.tree
    for output in range(len(total)):
        total[output] = 0.0
    for group in range(len(table.words) - 1):
        begin, end = table.words[group], table.words[group + 1]
        after, here, width = work.after[begin:end], work.others[d, begin:end], end - begin
        for w in range(width):
            work.others[0, begin + w] = ALL
            after[w] = ALL
        for j in range(d):
            at = table.at[group, row[j]]
            bits, less, more = table.bits[at : at + width], work.others[j, begin:end], work.others[j + 1, begin:end]
            for w in range(width):
                more[w] = less[w] & bits[w]
        for w in range(width):
            left = here[w]
            while left != 0:
                slot = WORD * (begin + w) + np.int64(trailing_zeros(left))
                left &= left - ONE
                now[tree[slot]] = slot
                for output in range(len(total)):
                    total[output] += scores[slot, output]
        for j in range(d - 1, -1, -1):
            at = table.at[group, row[j]]
            bits, less = table.bits[at : at + width], work.others[j, begin:end]
            for w in range(width):
                less[w] = (less[w] & after[w]) ^ here[w]
                after[w] &= bits[w]


@compiled
def _window(first: int, end: int, own: int, far: Floats, room: float, by_order: bool) -> tuple[int, int]:
    """Of the cells of a feature the first that is nearer than the room, and the one after the last."""
    low, high = end, first
    if room == np.inf:
        return first, end
    if not by_order or own >= end:
        for c in range(first, end):
            if far[c] < room:
                low, high = min(low, c), c + 1
        return low, high
    for c in range(own + 1, end):
        if far[c] < room:
            low, high = own, c + 1
        elif far[c] < np.inf:
            break
    for c in range(own - 1, first - 1, -1):
        if far[c] < room:
            low, high = c, max(high, own + 1)
        elif far[c] < np.inf:
            break
    return low, high


@compiled
def _add_changes(table: Table, j: int, least: int, most: int, work: Work) -> None:
    """Write down what a change of a feature adds to the scores, from each cell on, within a window of its cells."""
    slots, now, tree, spans, scores, only = work.slots, work.now, table.tree, table.span[j], table.scores, table.only
    change, moved, packed, outputs, others = work.change, work.moved, table.packed[j], len(work.total), work.others[j]
    begins, lows, highs = table.run_begin, table.run_low, table.run_high
    low: Any
    high: Any
    moved[most >> 6] |= ONE << np.uint64(most & 63)
    count = 0
    for w in range(len(others)):
        left = others[w]
        while left != 0:
            slots[count] = WORD * w + np.int64(trailing_zeros(left))
            left &= left - ONE
            count += 1
    simple = packed and outputs == 1
    for event in range(count if simple else 0):
        slot = slots[event]
        span = np.int64(spans[slot])
        low, high = max(span & MOST_PACKED, least), min(span >> 16, most)
        if low < high:
            gain = scores[slot, 0] - scores[now[tree[slot]], 0]
            moved[low >> 6] |= ONE << np.uint64(low & 63)
            moved[high >> 6] |= ONE << np.uint64(high & 63)
            change[low, 0] += gain
            change[high, 0] -= gain
    for event in range(0 if simple else count):
        slot = slots[event]
        span, old = np.int64(spans[slot]), now[tree[slot]]
        runs = 1 if packed else begins[span + 1] - begins[span]
        for run in range(runs):
            if packed:
                low, high = span & MOST_PACKED, span >> 16
            else:
                low, high = lows[begins[span] + run], highs[begins[span] + run]
            low, high = max(low, least), min(high, most)
            if low >= high:
                continue
            moved[low >> 6] |= ONE << np.uint64(low & 63)
            moved[high >> 6] |= ONE << np.uint64(high & 63)
            one, other = only[old], only[slot]
            if one != other and one >= 0 and other >= 0:
                change[low, one] -= scores[old, one]
                change[high, one] += scores[old, one]
                change[low, other] += scores[slot, other]
                change[high, other] -= scores[slot, other]
                continue
            for output in range(outputs):
                gain = scores[slot, output] - scores[old, output]
                change[low, output] += gain
                change[high, output] -= gain


@compiled
def _margin(
    sums: Floats, plus: Integers, minus: Integers, offset: Floats, groups: int, rate: float, least: float
) -> float:
    """How far above 0 a goal is met by sums of leaf scores: see `trees.aims.Aim.gap`."""
    count = len(offset) // groups
    best = -np.inf
    for begin in range(0, len(offset), count):
        worst = np.inf
        for m in range(begin, begin + count):
            value = offset[m]
            if plus[m] >= 0:
                value += sums[plus[m]]
            if minus[m] >= 0:
                value -= sums[minus[m]]
            worst = min(worst, value)
        if rate > 0.0:
            others = 0.0
            for m in range(begin, begin + count):
                others += np.exp(rate * (worst - offset[m] - sums[plus[m]] + sums[minus[m]]))
            worst = min(worst, (least - np.log(others)) / rate + worst)
        best = max(best, worst)
    return best


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
    work: Work,
) -> tuple[Integers, Floats, Floats, Floats, Array, Floats]:
    """See `trees.look.Look.best_changes`."""
    count = len(rows)
    cell, nearest, gap = np.full(count, -1), np.full(count, np.inf), np.full(count, -np.inf)
    itself, top, worth = np.empty(count), np.full((count, width), -1), np.full((count, width), -np.inf)
    change, moved, sums, total = work.change, work.moved, np.empty_like(work.total), work.total
    groups, rate, least, outputs = target.groups, target.rate, target.least, len(sums)
    single = target.offset.shape[1] == 1 and rate == 0.0
    for i in range(count):
        q, limit, most = owner[i], room[i], room[i]
        ways, dear, plus, minus, offset = far[q], price[q], target.plus[q], target.minus[q], target.offset[q]
        _reach(table, rows[i], work)
        itself[i] = _margin(total, plus, minus, offset, groups, rate, least)
        rises, falls, more = plus[0], minus[0], offset[0]
        for j in range(rows.shape[1]):
            first, own = table.first[j], home[q, j]
            if rows[i, j] != own or most <= 0.0:
                continue
            begin, end = _window(first, table.first[j + 1], own, ways, most, table.packed[j])
            if begin >= end:
                continue
            _add_changes(table, j, begin - first, end - first, work)
            best, away, at, margin = -np.inf, np.inf, -1, itself[i]
            for output in range(outputs):
                sums[output] = total[output]
            for w in range((begin - first) >> 6, ((end - first) >> 6) + 1):
                left = moved[w]
                moved[w] = 0
                while left != 0:
                    c = first + WORD * w + np.int64(trailing_zeros(left))
                    left &= left - ONE
                    if c > begin and (margin > 0.0 or (margin >= best and not begin <= own < c)):
                        near = _nearest(ways, begin, c, own)
                        way = ways[near] if near >= 0 else np.inf
                        value = margin - dear * way if way < most else -np.inf
                        if margin > 0.0:
                            if way < limit:
                                limit, cell[i], nearest[i], gap[i] = way, near, way, margin
                        elif value > best or (value == best and way < away):
                            best, away, at = value, way, near
                    begin = c
                    for output in range(outputs):
                        sums[output] += change[c - first, output]
                        change[c - first, output] = 0.0
                    if begin == end:
                        break
                    if single:
                        margin = more
                        if rises >= 0:
                            margin += sums[rises]
                        if falls >= 0:
                            margin -= sums[falls]
                    else:
                        margin = _margin(sums, plus, minus, offset, groups, rate, least)
            place = 0
            for k in range(1, width):
                if worth[i, k] < worth[i, place]:
                    place = k
            if best > worth[i, place]:
                worth[i, place], top[i, place] = best, at
    return cell, nearest, gap, itself, top, worth
