"""What a question allowed: the goal in words, what was held and why, and what each value of a row could become."""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from relax_plugin.arrays import Booleans, Floats
from relax_plugin.formatting import cell_label, feature_label, format_cell, percent
from relax_plugin.goal import Goal
from relax_plugin.limits import Limits
from relax_plugin.results import Counterfactuals
from relax_plugin.table.columns import Feature

MOST_NAMES = 12  # of features in one line: each value of the row says it again


class Held(NamedTuple):
    """One thing that every answer had to keep: what it is, and what it is about."""

    what: str
    about: str


@dataclass(frozen=True)
class Allowed:
    """What was allowed for the queries of a result."""

    result: Counterfactuals
    _limits: Limits = field(init=False, repr=False)
    _span: tuple[Floats, Floats] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        space, asked, start = self.result.space, self.result.asked, self.result.start
        said = {} if asked is None else vars(asked.constraints)
        limits = space.limits(values=start, **said)
        object.__setattr__(self, "_limits", limits)
        object.__setattr__(self, "_span", limits.span(start))

    def could_become(self, query: int) -> list[str]:
        """For each feature what its value could have become, in a few words; then for each derived column."""
        missing = self._missing(query)
        told = [self._could_become(query, j, bool(missing[j])) for j in range(len(missing))]
        return told + ["computed"] * len(self.result.space.derived)

    def _could_become(self, query: int, j: int, missing: bool) -> str:
        feature = self.result.space.features[j]
        asked, own = self.result.asked, self.result.start[query, j]
        if feature.carried:
            return "passed on as it is"
        if feature.immutable:
            return "fixed"
        if asked is not None and feature.name in asked.immutable:
            return "held"
        if asked is not None and asked.vary is not None and feature.name not in asked.vary:
            return "held"
        if missing and not feature.fillable:
            return "stays missing"
        frozen = self._limits.frozen[0 if len(self._limits.frozen) == 1 else query, j]
        if frozen:  # with a direction, but of which nobody knows where it stands
            return "unseen, so held"
        gone = " or missing" * (feature.vanishable and not missing)
        low, high = float(self._span[0][query, j]), float(self._span[1][query, j])
        if feature.kind == "categorical":
            count = self._other_categories(query, j, own, low, high)
            return f"{count} other{'' if count == 1 else 's'}{gone}" if count else f"no other{gone}"
        if low == high == own:
            return f"at its end{gone}"
        ends = format_cell(_whole(low, feature)), format_cell(_whole(high, feature))
        direction = self._limits.direction[j]
        if direction > 0 and low == own:
            return f"up to {ends[1]}{gone}"
        if direction < 0 and high == own:
            return f"down to {ends[0]}{gone}"
        return f"{ends[0]} to {ends[1]}{gone}"

    def _other_categories(self, query: int, j: int, own: float, low: float, high: float) -> int:
        first, end = self._limits.category_offsets[j : j + 2]
        choices = self._limits.choices[0 if len(self._limits.choices) == 1 else query, first:end]
        codes = np.arange(end - first)
        return int((choices & (codes != own) & (codes >= low) & (codes <= high)).sum())

    def _missing(self, query: int) -> Booleans:
        return np.asarray(self.result.space.is_missing(self.result.start[[query]])[0], dtype=bool)

    def held(self, query: int) -> list[Held]:
        """What every answer to the query had to keep, and why; the goal itself is `wished`."""
        told = [*self._by_the_table(), *self._by_the_question(query), *self._directions(), *self._of_the_search()]
        return [one for one in told if one.about]

    def _by_the_table(self) -> list[Held]:
        space, labels = self.result.space, self.result.space.labels
        free = [f for f in space.features if not f.immutable]
        never = [self._never(f) for f in free if f.kind == "categorical" and not all(f.choices)]
        prices = [f"{feature_label(labels, f.name)} {f.cost:g}" for f in free if f.cost != 1]
        return [
            Held("Never change, by the table", self._names(f.name for f in space.features if _fixed(f))),
            Held("Reach the model as they are", self._names(f.name for f in space.features if f.carried)),
            Held("Never chosen", "; ".join(never)),
            *(Held("Rule", str(rule)) for rule in space.rules),
            *(Held("Computed", f"{feature_label(labels, one.name)} = {one.formula.text}") for one in space.derived),
            Held("Prices of changes (others 1)", ", ".join(prices)),
        ]

    def _by_the_question(self, query: int) -> list[Held]:
        space, asked = self.result.space, self.result.asked
        missing = zip(space.features, self._missing(query), strict=True)
        kept = Held("Missing, and kept so", self._names(f.name for f, gone in missing if gone and not f.fillable))
        if asked is None:
            older = "what it held beside this is not known: the result is from an older version, or not of one call"
            return [kept, Held("This question", older)]
        return [
            kept,
            Held("Only these could change in this question", self._names(asked.vary or ())),
            Held("Held for this question", self._names(asked.immutable)),
            Held("Range in this question", self._ranges(query)),
        ]

    def _directions(self) -> list[Held]:
        space, asked, told = self.result.space, self.result.asked, []
        for way, direction in (("upwards", "increase"), ("downwards", "decrease")):
            table = [f.name for f in space.features if f.direction == direction and not f.immutable]
            here = () if asked is None else getattr(asked, f"{direction}_only")
            told.append(Held(f"Only {way}, by the table", self._names(table)))
            told.append(Held(f"Only {way} in this question", self._names(name for name in here if name not in table)))
        return told

    def _of_the_search(self) -> list[Held]:
        asked = self.result.asked
        if asked is None:
            return []
        further = f"{asked.further_models} further model{'' if asked.further_models == 1 else 's'}"
        return [
            Held("Values changed at most", str(asked.max_changes)),
            Held("Looked for", OBJECTIVES.get(asked.objective, asked.objective)),
            Held("Plausibility", PLAUSIBLE.get(asked.plausible or "", "")),
            Held("Had to hold for", further if asked.further_models else ""),
        ]

    def _ranges(self, query: int) -> str:
        """The bounds of the question; those of the table are what each value could become."""
        space, asked = self.result.space, self.result.asked
        told = []
        for name, ends in ({} if asked is None else asked.bounds).items():
            feature, word = next(f for f in space.features if f.name == name), feature_label(space.labels, name)
            if feature.kind == "categorical":
                told.append(f"{word}: {' or '.join(str(cell_label(space.labels, name, end)) for end in ends)}")
                continue
            low, high = (end[0 if len(end) == 1 else query] if isinstance(end, tuple) else end for end in ends)
            told.append(f"{word} {_range(low, high)}")
        return "; ".join(told)

    def _never(self, feature: Feature) -> str:
        labels = self.result.space.labels
        pairs = zip(feature.categories, feature.choices, strict=True)
        barred = [str(cell_label(labels, feature.name, one)) for one, chosen in pairs if not chosen]
        return f"{feature_label(labels, feature.name)}: {listing(barred)}"

    def _names(self, names: Iterable[Hashable]) -> str:
        return listing([feature_label(self.result.space.labels, name) for name in names])

    def wished(self, query: int) -> str:
        """The goal of the query, as what a person would have asked for."""
        asked = self.result.asked
        return "" if asked is None else _wished(asked.goal, query)


OBJECTIVES = {"sparse": "the fewest changes", "closest": "the smallest changes"}
PLAUSIBLE = {
    "prefer": "rows that look like training rows were preferred",
    "require": "only rows that look like training rows were accepted",
}


def listing(names: list[str]) -> str:
    """Names in a line; the first ones, and how many more, if there are many."""
    comma = "; " if any("," in name for name in names) else ", "
    if len(names) <= MOST_NAMES:
        return comma.join(names)
    return f"{comma.join(names[: MOST_NAMES - 1])} and {len(names) - MOST_NAMES + 1} more"


def _wished(goal: Goal, query: int) -> str:
    def own(each: Any) -> Any:
        return each[query] if isinstance(each, tuple) else each

    if goal.kind == "shift":
        assert goal.delta is not None
        way = {"up": "higher", "down": "lower"}.get(goal.direction or "", "higher or lower")
        return f"a number at least {format_cell(goal.delta)} {way}"
    if goal.kind == "between":
        return f"a number {_range(own(goal.low), own(goal.high))}"
    if goal.raise_by is not None:
        return f"a probability of {format_cell(own(goal.label))} that is {100 * goal.raise_by:g} points higher"
    wanted = "another answer" if goal.kind == "flip" else f"the answer {format_cell(own(goal.label))}"
    least = goal.min_probability
    return wanted if least is None else f"{wanted}, with a probability of at least {percent(least)}"


def _range(low: Any, high: Any) -> str:
    """A range in words; an end that is missing or infinite is none."""
    low, high = (None if end is None or pd.isna(end) or np.isinf(end) else end for end in (low, high))
    if low is None or high is None:
        return (
            "of any size"
            if low is high
            else f"of at most {format_cell(high)}"
            if low is None
            else f"of at least {format_cell(low)}"
        )
    return f"from {format_cell(low)} to {format_cell(high)}"


def _fixed(feature: Feature) -> bool:
    return feature.immutable and not feature.carried


def _whole(value: float, feature: Feature) -> float | int:
    return int(value) if feature.kind == "integer" and value % 1 == 0 else value
