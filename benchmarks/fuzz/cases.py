"""One case of the fuzzer: a table, a model, a goal, a call and a method, run and judged."""

import random
import threading
import traceback
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from benchmarks.fuzz.goals import Call, Wanted
from benchmarks.fuzz.inside import Explained, explained
from benchmarks.fuzz.laws import Law, laws_of
from benchmarks.fuzz.models import Model
from benchmarks.fuzz.oracle import Oracle, cells_of, same_cells
from benchmarks.fuzz.tables import Table, bounds_of, said_of, wider
from relax_plugin import Counterfactuals, FeatureSpace, Goal, ReLAXConfig, make_explainer
from relax_plugin.errors import ReLAXError, UnsupportedError

TINY = ReLAXConfig(
    steps=4, episodes=16, updates_per_step=1, hidden=8, start_pool=64, batch=16, validation_rows=16, validate_every=4,
    query_budget=200, local_steps=2, local_episodes=2, local_updates=1,
)  # fmt: skip
CONFIGS = {
    "auto": TINY,
    "model": replace(TINY, training="model"),
    "signed": replace(TINY, training="model", actions="signed", state_curiosity=1.0, action_curiosity=-1.0),
}
OPTIONS: dict[str, dict[str, Any]] = {
    "relax-global": {"config": TINY, "progress": False},
    "relax-local": {"config": TINY, "progress": False},
    "lore": {"population": 60, "generations": 3},
    "dice-random": {"sample_size": 50, "rows_per_instance": 500},
    "dice-genetic": {"rows_per_instance": 500},
    "dice-kdtree": {"rows_per_instance": 500},
    "focus": {"iterations": 30, "learning_rate": 0.1},
    "mace": {"seconds_per_row": 5.0},
    "surrogate-search": {"query_budget": 200},
}
# Methods that work query by query are asked about few.
MOST_QUERIES = {"dice-random": 3, "dice-genetic": 3, "dice-kdtree": 3, "mace": 3, "lore": 6, "relax-local": 20}

DENIED = "the model's own answer to the row that was proposed misses the goal"


class Violation(AssertionError):
    """A promise was broken; `kind` says which."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(f"{kind}: {text}")
        self.kind = kind
        self.case: Any = None


@dataclass(frozen=True)
class Case:
    """All that determines one run. Its `repr` is code: `check(Case(...))` runs it again."""

    table: Table = field(default_factory=Table)
    model: Model = field(default_factory=Model)
    wanted: Wanted = field(default_factory=Wanted)
    call: Call = field(default_factory=Call)
    method: str = "greedy"
    effort: str | None = None
    training: str = "auto"  # what ReLAX is trained on; "signed": on the model, with the paper's actions
    max_changes: int | None = None
    seed: int = 0
    extra: str = ""  # what is checked besides: "again", "refit", "threads", "json", "twin"
    wider: bool = False  # whether the queries have wider dtypes than the training rows

    @property
    def queries(self) -> int:
        return min(self.call.queries, MOST_QUERIES.get(self.method, self.call.queries))


@dataclass
class Counts:
    """What was run and checked so far."""

    cases: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    queries: Counter[str] = field(default_factory=Counter)
    delivered: Counter[str] = field(default_factory=Counter)
    known: Counter[str] = field(default_factory=Counter)  # cases that break a promise in a way shown before

    def report(self) -> str:
        lines = [f"{self.cases} cases, {sum(self.refused.values())} refused"]
        lines += [f"  {g}: {self.queries[g]} queries, {self.delivered[g]} rows checked" for g in sorted(self.queries)]
        return "\n".join(lines)


class Setting:
    """A case built up: the rows, the model, and what the oracle needs to know."""

    def __init__(self, case: Case) -> None:
        self.case, self.call, self.wanted = case, case.call, case.wanted
        self.training = case.table.training()
        self.queries = case.table.queries(case.queries)
        if case.wider:
            self.queries = wider(self.queries)
        self.names = case.table.names
        self.model: Explained = explained(case.model, self.training, case.method)
        self.model.watch.any_dtype = case.wider
        self.said = said_of(case.table, self.training)
        self.asked = self._asked()
        self.laws: list[Law] = laws_of(self.names, self.training, self.said, self.asked)
        frame = pd.DataFrame(self.training)
        self.training_cells = [frame.iloc[:, j].tolist() for j in range(frame.shape[1])]
        self.max_changes = case.max_changes
        self.goal = case.wanted.goal(self.model.labels, self.model.numbers, len(self.queries))

    def _asked(self) -> dict[str, Any]:
        """The constraints of the call, for names that exist."""
        asked: dict[str, Any] = {"vary": None, "bounds": None}
        if self.call.vary is not None:
            asked["vary"] = [name for j, name in enumerate(self.names) if j in self.call.vary]
            asked["vary"] = [name for name in asked["vary"] if name not in self.said["immutable"]]
        if self.call.bounds is not None:
            j = self.call.bounds[0] % len(self.names)
            cells = pd.DataFrame(self.training).iloc[:, j].tolist()
            asked["bounds"] = {self.names[j]: bounds_of(self.case.table.columns[j], cells, self.call.bounds[1:])}
        return asked

    def explainer(self) -> Any:
        case = self.case
        space = FeatureSpace.infer(self.training, **self.said)
        options: dict[str, Any] = {**OPTIONS.get(case.method, {}), "seed": case.seed, "max_changes": case.max_changes}
        if case.effort is not None and case.method.startswith("relax"):
            options["effort"] = case.effort
            options["config"] = CONFIGS[case.training]
        if self.model.is_regressor:
            options["goal"] = case.wanted.goal(self.model.labels, self.model.numbers, 1)
        return make_explainer(case.method, self.model.handed, space, **options).fit(self.training)

    def explain(self, explainer: Any) -> Counterfactuals:
        made: Counterfactuals = explainer.explain(self.queries, goal=self.goal, n=self.call.n, **self.asked)
        return made


def check(case: Case, counts: Counts | None = None, known: frozenset[str] | set[str] = frozenset()) -> None:
    """Run the case; raises `Violation` for the first broken promise that is not `known`."""
    counts = counts if counts is not None else Counts()
    counts.cases += 1
    state = random_state()
    setting = Setting(case)
    kept = setting.training.copy(), setting.queries.copy()
    broken: list[tuple[str, str]] = []
    explainer = result = None
    try:
        explainer = setting.explainer()
        setting.model.watch.users_arrays.append(setting.queries)
        seen = setting.model.watch.rows
        result = setting.explain(explainer)
        seen = setting.model.watch.rows - seen
    except ReLAXError as refusal:
        counts.refused[sentence(refusal)] += 1
    except Exception as error:
        broken.append(escaped(error))
    if result is not None:
        group = "relax" if case.method.startswith("relax") else "cheap"
        counts.queries[group] += len(setting.queries)
        counts.delivered[group] += int(result.found.sum())
        try:
            broken += judged(setting, result, seen)
            broken += besides(setting, explainer, result)
        except Exception as error:
            broken.append(escaped(error))
    for complaint in dict.fromkeys(setting.model.watch.complaints):
        broken.append((f"asked {complaint.split(':')[0]} ({case.table.container})", complaint))
    if not identical(kept[0], setting.training) or not identical(kept[1], setting.queries):
        broken.append(("user's rows", "the training rows or the queries were written to"))
    if random_state() != state:
        broken.append(("global state", "the random state of numpy, random or torch is another one"))
    raise_first_unknown([(f"{kind} of {case.method}", text) for kind, text in broken], known, counts)


def judged(setting: Setting, result: Counterfactuals, seen: int) -> Any:
    """What the oracle says to a result."""
    yield from Oracle(setting, result).check()
    if setting.case.method == "search" and DENIED in set(result.statuses.ravel().tolist()):
        yield "trees", f"what was found in the trees of {setting.model.handed} is not what the model says"
    told = int(result.rows_queried.sum())
    if setting.model.counts_rows and told != seen:
        yield "rows", f"rows_queried says {told}, the model saw {seen}"


def besides(setting: Setting, explainer: Any, result: Counterfactuals) -> Any:
    """The same again: by the same explainer, by one fitted anew, in two threads, from JSON."""
    extra = setting.case.extra
    if extra == "again":
        yield from differences("again", result, setting.explain(explainer))
    elif extra == "refit":
        yield from differences("refit", result, setting.explain(setting.explainer()))
    elif extra == "json":
        back = Counterfactuals.from_json(result.to_json())
        yield from differences("json", result, back)
        yield from differences_of_rows("json queries", pd.DataFrame(result.queries), pd.DataFrame(back.queries))
    elif extra == "twin":
        yield from with_twin_labels(setting, explainer, result)
    elif extra == "threads":
        yield from in_threads(setting, explainer, result)


def with_twin_labels(setting: Setting, explainer: Any, result: Counterfactuals) -> Any:
    """A label of another type that equals a class is that class, or is refused: never one that nobody can reach."""
    if setting.wanted.kind not in ("to", "to each"):
        return
    labels = setting.wanted.labels(setting.model.labels, len(setting.queries))
    for kind in (bool, int, float, str, np.int8, np.float32, np.str_):
        try:
            twins = [kind(label) for label in labels]
        except ValueError:
            continue
        if not all(twin == label or kind is str for twin, label in zip(twins, labels, strict=True)):
            continue
        goal = Goal.to(twins if setting.wanted.kind == "to each" else twins[0])
        goal = replace(goal, min_probability=setting.wanted.min_probability)
        try:
            other = explainer.explain(setting.queries, goal=goal, n=setting.call.n, **setting.asked)
        except ReLAXError:
            continue
        yield from differences(f"twin {kind.__name__}", result, other)


def in_threads(setting: Setting, explainer: Any, result: Counterfactuals) -> Any:
    made: list[Any] = [None, None]

    def work(position: int) -> None:
        try:
            made[position] = setting.explain(explainer)
        except Exception as error:  # handed over to the thread that judges
            made[position] = error

    threads = [threading.Thread(target=work, args=(position,)) for position in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for other in made:
        if isinstance(other, Exception):
            raise other
        yield from differences("threads", result, other)


def differences(what: str, first: Counterfactuals, second: Counterfactuals) -> Any:
    """Where two results that must be equal are not."""
    for name in ("found", "status", "stage", "rows_queried", "before", "after"):
        mine, other = getattr(first, name), getattr(second, name)
        if mine.shape != other.shape or list(map(typed, mine.ravel())) != list(map(typed, other.ravel())):
            yield what, f"{name} differs"
    yield from differences_of_rows(what, first.frame, second.frame)


def differences_of_rows(what: str, first: pd.DataFrame, second: pd.DataFrame) -> Any:
    if list(first.dtypes) != list(second.dtypes):
        yield what, f"dtypes {list(map(str, first.dtypes))} became {list(map(str, second.dtypes))}"
    elif first.shape != second.shape or not identical(first, second):
        yield what, "the cells differ"


def typed(cell: Any) -> tuple[str, Any]:
    """A value with its kind, so that True is not 1; numbers of any library are Python's."""
    cell = cell.item() if isinstance(cell, np.generic) else cell
    return type(cell).__name__, cell


def identical(a: Any, b: Any) -> bool:
    """Whether two tables hold the same cells of the same types; zeros have the same sign."""
    if a.shape != b.shape or (isinstance(a, pd.DataFrame) and not a.index.equals(b.index)):
        return False
    for x, y in zip(cells_of(a), cells_of(b), strict=True):
        if x.dtype != y.dtype or not same_cells(x, y).all():
            return False
        if x.dtype.kind == "f" and not (np.signbit(x) == np.signbit(y)).all():
            return False
        if x.dtype == object and [type(cell) for cell in x] != [type(cell) for cell in y]:
            return False
    return True


def random_state() -> tuple[Any, ...]:
    name, keys, *rest = np.random.get_state()  # noqa: NPY002
    return (
        name,
        keys.tobytes(),
        *rest,
        random.getstate(),
        torch.get_rng_state().numpy().tobytes(),
        torch.get_num_threads(),
    )


def sentence(refusal: ReLAXError) -> str:
    """The refusal without its names and numbers, for counting."""
    words = [word for word in str(refusal).split() if word.isalpha()]
    kind = "" if isinstance(refusal, UnsupportedError) else f"{type(refusal).__name__}: "
    return kind + " ".join(words[:9])


def raise_first_unknown(broken: list[tuple[str, str]], known: Any, counts: Counts) -> None:
    """Raise the first violation of a kind that was not shown before; cases of those that were are counted."""
    counts.known.update({kind for kind, _ in broken if kind in known})
    for kind, text in broken:
        if kind not in known:
            raise Violation(kind, text)


def escaped(error: Exception) -> tuple[str, str]:
    """An exception that left the package as a violation, named by where it was raised; the fuzzer's own are raised."""
    frames = traceback.extract_tb(error.__traceback__)
    inside = [frame for frame in frames if Path(frame.filename).parts[-2] in ("relax_plugin", "baselines", "adapters")]
    if not inside:
        raise error
    place = f"{Path(inside[-1].filename).name}:{inside[-1].name}"
    return f"escape {type(error).__name__} {place}", f"line {inside[-1].lineno}: {str(error)[:300]}"
