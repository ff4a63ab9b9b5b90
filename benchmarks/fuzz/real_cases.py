"""One case of a real table: rows with gaps, groups, formulas and rules, a model that takes them, a call, a method."""

import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.fuzz.cases import MOST_QUERIES, OPTIONS, Counts, escaped, raise_first_unknown, sentence
from benchmarks.fuzz.real_models import RealMachine, RealModel
from benchmarks.fuzz.real_oracle import RealOracle, identical
from benchmarks.fuzz.real_rules import MadeRule, RealRule
from benchmarks.fuzz.real_tables import RealTable, floats
from relax_plugin import Counterfactuals, FeatureSpace, Goal, make_explainer
from relax_plugin.errors import ReLAXError

SHAPES = ("frame", "frame", "frame", "permuted", "dict", "series", "records")


@dataclass(frozen=True)
class RealCall:
    """How `explain` is called. `bounded` is a number with bounds of each row; names are positions of columns."""

    queries: int = 15
    n: int = 1
    shape: str = "frame"
    immutable: tuple[int, ...] = ()
    increases: tuple[int, ...] = ()
    bounded: int | None = None
    max_changes: int | None = None
    carries: bool = False
    plausible: str | None = None

    @property
    def extra_columns(self) -> list[str]:
        return ["reference"] if self.carries and self.shape in ("frame", "permuted") else []


@dataclass(frozen=True)
class RealCase:
    """All that determines one run. Its `repr` is code: `check_real(RealCase(...))` runs it again."""

    table: RealTable = field(default_factory=RealTable)
    rules: tuple[RealRule, ...] = ()
    call_rules: tuple[RealRule, ...] = ()
    call: RealCall = field(default_factory=RealCall)
    method: str = "greedy"
    classes: int = 2
    target: bool = False
    steps: bool = False
    max_changes: int | None = None
    seed: int = 0
    extra: str = ""  # what is checked besides: "again", "json"


class RealSetting:
    """A case built up, as the oracle needs it."""

    def __init__(self, case: RealCase) -> None:
        self.recipe, self.table, self.call = case, case.table, case.call
        self.training = case.table.training()
        count = 1 if case.call.shape in ("dict", "series") else case.call.queries
        count = min(count, MOST_QUERIES.get(case.method, count))
        self.queries = case.table.queries(count)
        self.machine = RealMachine(self.training, case.classes, case.seed, case.steps)
        vanishing = [n for n, c in zip(case.table.names, case.table.columns, strict=True) if c.vanishes]
        self.model = RealModel(self.machine, self.training, {*vanishing, *case.table.formulas})
        self.extra = {"reference": [f"ref {i}" for i in range(count)]}
        self.handed: Any = self._handed()
        self.model.also_seen(self.queries)
        of_space = [MadeRule(rule, case.table, self.training) for rule in case.rules]
        at_call = [MadeRule(rule, case.table, self.training) for rule in case.call_rules]
        self.of_space, self.at_call = ([rule for rule in of if rule.handed is not None] for of in (of_space, at_call))
        self.rules = [*self.of_space, *self.at_call]
        self.target = (case.classes - 1) if case.target else None
        self.max_changes = case.call.max_changes or case.max_changes
        self.said = case.table.said()
        self.numbers = [n for n, c in zip(case.table.names, case.table.columns, strict=True) if c.is_number]
        self.row_bounds = self._row_bounds()

    def _handed(self) -> Any:
        """The queries as they are handed over; what the package makes of records is what cells are compared with."""
        shape, rows = self.call.shape, self.queries
        if shape == "dict":
            handed: Any = rows.to_dict("records")[0]
        elif shape == "series":
            handed = pd.Series(rows.to_dict("records")[0], dtype=object)
        elif shape == "records":
            handed = rows.to_dict("records")
        else:
            order = list(rows.columns)[::-1] if shape == "permuted" else list(rows.columns)
            handed = rows[order]
            for name in self.call.extra_columns:
                handed = handed.assign(**{name: self.extra[name]})
            return handed
        self.queries = pd.DataFrame([handed] if shape != "records" else handed)
        if shape == "series":
            self.queries = handed.to_frame().T
        return handed

    def _row_bounds(self) -> dict[str, tuple[Any, Any]]:
        """Bounds of one number: a little around each query's own value, without a lower end in every third row."""
        if self.call.bounded is None or not self.numbers:
            return {}
        name = self.numbers[self.call.bounded % len(self.numbers)]
        own = [10.0 if x != x else x for x in floats(self.queries[name])]
        low = [None if i % 3 == 2 else x - 6.0 for i, x in enumerate(own)]
        return {name: (low, [x + 9.0 for x in own])}

    def bounds(self, name: str, query: int) -> tuple[float, float]:
        if name not in self.row_bounds:
            return -np.inf, np.inf
        low, high = (end[query] for end in self.row_bounds[name])
        return -np.inf if low is None else low, high

    def named(self, places: tuple[int, ...], numbers: bool = False) -> list[str]:
        names = self.numbers if numbers else self.table.names
        return sorted({names[place % len(names)] for place in places}) if names else []

    def frozen(self, name: str) -> bool:
        return name in self.said["immutable"] or name in self.named(self.call.immutable)

    def direction(self, name: str) -> int:
        up = name in self.said["increase_only"] or name in self.named(self.call.increases, True)
        return 1 if up else -1 if name in self.said["decrease_only"] else 0

    def explainer(self) -> Any:
        case = self.recipe
        space = FeatureSpace.infer(self.training, **self.said, rules=self._rules(self.of_space))
        options = {**OPTIONS.get(case.method, {}), "seed": case.seed, "max_changes": case.max_changes}
        return make_explainer(case.method, self.model, space, **options).fit(self.training)

    def _rules(self, rules: list[MadeRule]) -> list[Any]:
        whole = self.table.shares and rules is self.of_space
        shares = [f"{' + '.join(self.table.share_names)} == 100"] if whole else []
        return [*shares, *(rule.handed for rule in rules)]

    def explain(self, explainer: Any) -> Counterfactuals:
        call = self.call
        asked: dict[str, Any] = {
            "goal": None if self.target is None else Goal.to(self.target),
            "immutable": self.named(call.immutable) or None,
            "increase_only": self.named(call.increases, True) or None,
            "bounds": self.row_bounds or None,
            "rules": self._rules(self.at_call) or None,
            "max_changes": call.max_changes,
            "carry": call.extra_columns or None,
            "plausible": call.plausible,
        }
        made: Counterfactuals = explainer.explain(self.handed, n=call.n, **asked)
        return made


def check_real(case: RealCase, counts: Counts | None = None, known: Any = frozenset()) -> None:
    """Run the case; raises `Violation` for the first broken promise that is not `known`."""
    counts = counts if counts is not None else Counts()
    counts.cases += 1
    setting = RealSetting(case)
    kept = setting.training.copy(deep=True), setting.queries.copy(deep=True)
    broken: list[tuple[str, str]] = []
    result = explainer = None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            explainer = setting.explainer()
            seen = setting.model.rows
            result = setting.explain(explainer)
            seen = setting.model.rows - seen
    except ReLAXError as refusal:
        counts.refused[sentence(refusal)] += 1
    except Exception as error:
        broken.append(escaped(error))
    if result is not None:
        counts.queries["real"] += len(setting.queries)
        counts.delivered["real"] += int(result.found.sum())
        try:
            broken += list(RealOracle(setting, result).check())
            if int(result.rows_queried.sum()) != seen:
                broken.append(("rows", f"rows_queried says {result.rows_queried.sum()}, the model saw {seen}"))
            broken += besides(setting, explainer, result)
        except Exception as error:
            broken.append(escaped(error))
    broken += [(f"asked {complaint.split(':')[0]}", complaint) for complaint in sorted(setting.model.complaints)]
    for before, after in zip(kept, (setting.training, setting.queries), strict=True):
        cells = ((a, b) for name in before for a, b in zip(before[name].tolist(), after[name].tolist(), strict=True))
        if not all(a is b or identical(a, b) for a, b in cells):
            broken.append(("user's rows", "the training rows or the queries were written to"))
    raise_first_unknown([(f"{kind} of {case.method}", text) for kind, text in broken], known, counts)


def besides(setting: RealSetting, explainer: Any, result: Counterfactuals) -> list[tuple[str, str]]:
    """The same again, and from JSON."""
    if setting.recipe.extra == "again":
        return differences_of(result, setting.explain(explainer), "again")
    exotic = any(column.is_carried for column in setting.table.columns) or setting.call.shape != "frame"
    functions = any(rule.kind == "function" for rule in setting.rules)
    if setting.recipe.extra == "json" and not exotic and not functions:
        return differences_of(result, Counterfactuals.from_json(result.to_json()), "json")
    return []


def differences_of(first: Counterfactuals, second: Counterfactuals, what: str) -> list[tuple[str, str]]:
    """Where two results differ that must be equal."""
    found = [] if np.array_equal(first.found, second.found) else [(what, "found differs")]
    one, other = first.frame, second.frame
    if one.shape != other.shape or list(one.columns) != list(other.columns):
        return [*found, (what, f"frames of {one.shape} and {other.shape}")]
    for name in one.columns:
        pairs = zip(one[name].tolist(), other[name].tolist(), strict=True)
        wrong = next(((a, b) for a, b in pairs if not (a is b or identical(a, b))), None)
        if wrong is not None:
            found.append((what, f"{name!r}: {wrong[0]!r} is {wrong[1]!r} then"))
    return found


__all__ = ["SHAPES", "RealCall", "RealCase", "check_real"]
