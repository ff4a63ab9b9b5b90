"""Proofs done again: every row that could refute a claim is put to the model's own `predict`, if they are few enough.

A changed cell takes all of its values one by one, or for trees one on each side of each threshold. None of the provers'
code is used: neither leaves nor boxes, only rows and answers.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from itertools import combinations
from typing import Any

import numpy as np

from relax_plugin.arrays import Array, Floats, Values
from relax_plugin.asked import Asked
from relax_plugin.certificates.allowed import SHORT, Allowed, allowed_of
from relax_plugin.certificates.intervals import out_of_reach
from relax_plugin.certificates.native import Native, Said, hopeless, meets
from relax_plugin.errors import CertificateError
from relax_plugin.evaluation import metrics
from relax_plugin.evaluation.whole_rows import WholeRows
from relax_plugin.features import FeatureSpace, Rows
from relax_plugin.goal import Goal
from relax_plugin.proofs.exact import library_of, why_altered
from relax_plugin.proofs.probing import RANDOM, random_values
from relax_plugin.results import taken
from relax_plugin.table.columns import Feature, float_bytes

MOST_VALUES = 2_000  # of a number, that are gone through one by one where thresholds would do
MOST_POINTS = 200_000  # of a grid, that are written down at all
OWN_TREES = ("sklearn.tree.", "sklearn.ensemble._forest", "sklearn.ensemble._gb")  # answers that hang on leaves alone
CLOSE = 1e-9  # relative difference of distances that is rounding
BATCH = 20_000  # rows that the model is asked at once


def values_of(allowed: Allowed, before: float, cuts: Floats | None) -> tuple[Floats, bool] | None:
    """What a cell may become other than `before`, and whether these are all; None if they cannot be gone through.

    `cuts` are the thresholds that the model compares the cell with; None if they are not known.
    """
    feature = allowed.feature
    if allowed.frozen:
        return np.empty(0), True
    if feature.kind == "categorical":
        if before >= len(feature.categories):
            return None  # missing or unknown: what it may become is not told by its value alone
        codes = [code for code in allowed.codes if (code - before) * allowed.direction >= 0]
        return np.array([code for code in codes if code != before], dtype=np.float64), True
    if before == feature.missing_code:
        if not feature.fillable:
            return np.empty(0), True
        low, high = allowed.low, allowed.high
    else:
        low = max(allowed.low, before) if allowed.direction > 0 else allowed.low
        high = min(allowed.high, before) if allowed.direction < 0 else allowed.high
    found = _numbers(feature, low, high, cuts)
    if found is None:
        return None
    numbers, complete = found
    numbers = numbers[(numbers >= low) & (numbers <= high) & (numbers != before)]
    if feature.vanishable and before != feature.missing_code:
        numbers = np.append(numbers, feature.missing_code)
    return np.unique(numbers), complete


def _numbers(feature: Feature, low: float, high: float, cuts: Floats | None) -> tuple[Floats, bool] | None:
    if feature.step is None:
        return None if cuts is None else (_beside(cuts, low, high), False)
    step, anchor = Decimal(repr(float(feature.step))), Decimal(repr(float(feature.anchor)))
    if max(len(one.as_tuple().digits) for one in (step, anchor)) > SHORT or float_bytes(feature.dtype) != 8:
        return None  # whose points only rounding tells
    first, last = float((Decimal(low) - anchor) / step), float((Decimal(high) - anchor) / step)
    if high < low:
        return np.empty(0), True
    count = last - first
    if count <= MOST_VALUES or (cuts is None and count <= MOST_POINTS):
        counts = np.arange(np.floor(first) - 1, np.ceil(last) + 2)
        complete = True
    elif cuts is None:
        return None
    else:  # the last point before each threshold and the first behind it, whichever way a float32 rounds
        near = np.floor((_halves(cuts) - feature.anchor) / feature.step)
        ends = np.floor([first, last])
        counts = np.unique(np.concatenate([near + k for k in (-1, 0, 1, 2)] + [ends + k for k in (-1, 0, 1)]))
        complete = False
    return _points(counts, step, anchor), complete


def _points(counts: Floats, step: Decimal, anchor: Decimal) -> Floats:
    """anchor + k step as people write it: a whole number of the last decimal, divided once."""
    decimals = max(0, *(-int(one.as_tuple().exponent) for one in (step, anchor)))
    tens = 10.0**decimals
    whole = counts * float(step.scaleb(decimals)) + float(anchor.scaleb(decimals))
    return np.asarray(np.rint(whole) / tens)


def _halves(cuts: Floats) -> Floats:
    """Where a number, read as a float32, comes to lie on the other side of each threshold."""
    under = cuts.astype(np.float32)
    under = np.where(under > cuts, np.nextafter(under, np.float32(-np.inf)), under).astype(np.float32)
    over = np.nextafter(under, np.float32(np.inf))
    return (under.astype(np.float64) + over.astype(np.float64)) / 2


def _beside(cuts: Floats, low: float, high: float) -> Floats:
    middle = _halves(cuts)
    either = [np.nextafter(middle, -np.inf), middle, np.nextafter(middle, np.inf)]
    return np.unique(np.concatenate([*either, [low, high]]))


def thresholds_of(model: Any, space: FeatureSpace) -> list[Floats] | None:
    """The thresholds of each feature, where the model has trees on the very columns of the space.

    Of scikit-learn's trees read off `tree_`, of CatBoost's told by `get_borders`: apart from the package's own readers
    of trees. None for any other model.
    """
    groups = [feature for feature in space.features if feature.columns or feature.carried]
    if space.derived or groups:
        return None
    if library_of(model) == "catboost" and hasattr(model, "get_borders") and not why_altered(model):
        return _borders_of(model, space)
    if why_altered(model) or not type(model).__module__.startswith(OWN_TREES):
        return None
    first = getattr(model, "init_", None)  # what boosting starts from may look at the row itself
    apart = first is not None and not isinstance(first, str)
    if apart and (why_altered(first) or not type(first).__module__.startswith("sklearn.dummy")):
        return None
    names = getattr(model, "feature_names_in_", None)
    if names is not None and list(names) != list(space.columns):
        return None
    parts = [model] if hasattr(model, "tree_") else list(np.ravel(np.asarray(model.estimators_, dtype=object)))
    if any(map(why_altered, parts)):
        return None
    cuts: list[list[Floats]] = [[] for _ in space.columns]
    for part in parts:
        tree = part.tree_
        for j in range(len(cuts)):
            cuts[j].append(tree.threshold[tree.feature == j])
    return [np.unique(np.concatenate(own)) for own in cuts]


def _borders_of(model: Any, space: FeatureSpace) -> list[Floats] | None:
    others = (model.get_cat_feature_indices(), model.get_text_feature_indices(), model.get_embedding_feature_indices())
    if any(len(own) for own in others):
        return None
    if space.container == "frame" and list(model.feature_names_) != list(space.columns):
        return None
    borders = model.get_borders()
    return [np.array(borders.get(j, []), dtype=np.float64) for j in range(len(space.columns))]


@dataclass(frozen=True)
class Question:
    """One query and what is asked of it, for a proof."""

    space: FeatureSpace
    asked: Asked | None
    goal: Goal
    native: Native
    model: Any
    query: Rows  # one row
    start: Values  # (features,)
    before: Said

    def cost(self, values: Values) -> Floats:
        """Standardised L1 at the space's prices, counted by the judge's code."""
        prices = {feature.name: feature.cost for feature in self.space.features}
        return metrics.cost(self.space, prices, np.broadcast_to(self.start, values.shape), values)

    def refuting(self, values: Values) -> tuple[Array, Array]:
        """Positions of the rows that meet the goal and keep every rule, and of those that only meet the goal."""
        owner = np.zeros(len(values), dtype=np.int64)
        start = np.repeat(self.start[None, :], len(values), axis=0)
        rows = self.space.restore(values, taken(self.query, owner), start)
        scores = self.goal.min_probability is not None or self.goal.raise_by is not None
        met = np.flatnonzero(meets(self.goal, self.before, self.native.ask(rows, scores=scores)))
        if len(met) == 0 or not self.space.rules:
            return met, met[:0]
        frame, query = self.space.frame(rows).iloc[met], self.space.frame(taken(self.query, owner[met]))
        kept = WholeRows(self.space, query, frame).broken_rules() == 0
        return met[kept], met[~kept]


def shown_again(question: Question, claim: str, changes: int, distance: float, most_rows: int) -> tuple[bool, str]:
    """Whether a claim could be shown again, and how, or why not; refused if a row refutes it.

    The claim is "fewest", "closest" or "impossible"; `most_rows` are those that the model may be asked.
    """
    if claim == "impossible" and hopeless(question.goal, question.before):
        return True, "a probability above 1 is wanted"
    if claim == "fewest" and changes == 1:
        return True, "a counterfactual changes something, and the query itself does not meet the goal"
    cuts = thresholds_of(question.model, question.space)
    if cuts is not None and not _constant_between(question, cuts):
        cuts = None
    options, complete = [], True
    for j, allowed in enumerate(allowed_of(question.space, question.asked)):
        found = values_of(allowed, float(question.start[j]), None if cuts is None else cuts[j])
        if found is None:
            name = allowed.feature.name
            return _by_intervals(
                question, claim, changes, f"the values of feature {name!r} cannot be gone through one by one"
            )
        options.append(found[0])
        complete &= found[1]
    most = len(options) if question.asked is None else min(question.asked.max_changes, len(options))
    sizes = range(1, (most if claim == "impossible" else changes - 1) + 1)
    tasks = [(size, options) for size in sizes]
    if claim == "closest":
        tasks.append((changes, _nearer(question, options, distance)))
    needed = sum(_count(parts, size) for size, parts in tasks)
    if needed > most_rows:
        why = f"it would take {needed} rows of the model, and {most_rows} are allowed"
        return _by_intervals(question, claim, changes, why)
    asked = unruly = 0
    for size, parts in tasks:
        for batch in _batches(_sets(question.start, parts, size)):
            if claim == "closest" and size == changes:
                batch = batch[question.cost(batch) < distance * (1 - CLOSE)]
                if len(batch) == 0:
                    continue
            refuting, against_rules = question.refuting(batch)
            asked, unruly = asked + len(batch), unruly + len(against_rules)
            if len(refuting):
                _refuse(question, batch[refuting[0]], claim, size)
    if unruly and not complete:
        return False, f"only recorded: {unruly} rows meet the goal against a rule, and others like them may keep it"
    kind = "every row" if complete else "a row on each side of every threshold"
    return True, f"{kind} that could refute it was put to the model's own predict: {asked} rows"


def _constant_between(question: Question, cuts: list[Floats]) -> bool:
    """Whether the model answers probe rows as it does those with every number moved between its two thresholds."""
    space, rng = question.space, np.random.default_rng(2)
    rows = random_values(space, question.start, RANDOM)
    moved = rows.copy()
    for j, feature in enumerate(space.features):
        if feature.kind != "categorical":
            place = np.searchsorted(cuts[j], rows[:, j])
            ends = np.concatenate([[feature.low], cuts[j], [feature.high]])
            low, high = np.clip(ends[place], feature.low, None), np.clip(ends[place + 1], None, feature.high)
            other = space.grid.nearest(low + rng.random(len(rows)) * (high - low), np.full(len(rows), j))
            inside = (np.float32(other) > np.float32(ends[place])) & (np.float32(other) < np.float32(ends[place + 1]))
            moved[:, j] = np.where(inside, other, rows[:, j])
    said = question.native.ask(space.model_input(np.concatenate([rows, moved])), scores=False).labels
    return bool((said[: len(rows)] == said[len(rows) :]).all())


def _by_intervals(question: Question, claim: str, changes: int, why_not: str) -> tuple[bool, str]:
    """What the intervals of a network show, where rows cannot be gone through one by one."""
    how = None
    if claim == "fewest":
        allowed = allowed_of(question.space, question.asked)
        query = question.start, question.goal, question.before
        how = out_of_reach(question.native, question.model, question.space, allowed, *query, changes - 1)
    return (False, f"only recorded: {why_not}") if how is None else (True, how)


def _nearer(question: Question, options: list[Floats], distance: float) -> list[Floats]:
    kept = []
    for j, values in enumerate(options):
        rows = np.repeat(question.start[None, :], len(values), axis=0)
        rows[:, j] = values
        kept.append(values[question.cost(rows) < distance * (1 - CLOSE)] if len(values) else values)
    return kept


def _count(options: list[Floats], size: int) -> int:
    """How many rows differ from the query in just so many features: an elementary symmetric polynomial."""
    sums = [1] + [0] * size
    for values in options:
        for k in range(size, 0, -1):
            sums[k] += sums[k - 1] * len(values)
    return sums[size]


def _sets(start: Values, options: list[Floats], size: int) -> Iterator[Values]:
    free = [j for j, values in enumerate(options) if len(values)]
    for chosen in combinations(free, size):
        grids = np.meshgrid(*(options[j] for j in chosen), indexing="ij")
        rows = np.repeat(start[None, :], grids[0].size, axis=0)
        for j, grid in zip(chosen, grids, strict=True):
            rows[:, j] = grid.ravel()
        yield rows


def _batches(parts: Iterator[Values]) -> Iterator[Values]:
    held: list[Values] = []
    for part in parts:
        held.append(part)
        if sum(map(len, held)) >= BATCH:
            yield np.concatenate(held)
            held = []
    if held:
        yield np.concatenate(held)


def _refuse(question: Question, row: Values, claim: str, size: int) -> None:
    changed = np.flatnonzero(row != question.start)
    told = question.space.frame(question.space.restore(row[None, :], question.query, question.start[None, :]))
    names = [column for j in changed for column in (_columns(question.space, int(j)))]
    cells = ", ".join(f"{name!r} = {told[name].iloc[0]!r}" for name in names)
    count = "1 feature" if size == 1 else f"{size} features"
    raise CertificateError(f"it claims {claim!r}, but {cells} meets the goal, which changes {count}.")


def _columns(space: FeatureSpace, j: int) -> tuple[Any, ...]:
    return tuple(space.features[j].columns) or (space.features[j].name,)
