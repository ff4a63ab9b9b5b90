"""`dice-random`, `dice-genetic`, `dice-kdtree`: DiCE's methods for any model (Mothilal et al., 2020), by dice-ml."""

import io
import random
import warnings
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from sklearn.neighbors import KDTree
from sklearn.preprocessing import LabelEncoder

from relax_plugin.arrays import Floats, Values
from relax_plugin.base import CounterfactualExplainer, Supports, most_changes
from relax_plugin.baselines.common import known_numbers
from relax_plugin.errors import import_extra
from relax_plugin.features import FeatureSpace
from relax_plugin.locks import fork_safe_lock
from relax_plugin.parameters import flag, param, whole, with_parameters
from relax_plugin.problem import Problem, Proposals
from relax_plugin.search.polish import undo

SEVERAL = 5  # proposals asked for where some of them may have to be passed over
STEPS = 1000  # of the post-hoc sparsity at most, for each feature; each asks one row (dice-ml: 10,000)
GENERATIONS = 50  # of the genetic method at most; later ones breed rows known already (dice-ml: 500)
MOST_SAMPLES = 1_000_000  # that the random method may draw for one query
TREES = 16  # sets of training rows that meet a goal, kept with their trees
SURE = 1e-6  # least distance of a probability from 1/2, so that no tie hides what the label says


@with_parameters
class DiceExplainer(CounterfactualExplainer):
    """What the three methods share.

    DiCE is asked for the class "goal met". Of two classes that is its "opposite"; of more it is any other one, or the
    one wanted; and a least probability, DiCE's stopping threshold, is part of it. Scores that are no probabilities
    count as log-odds. A regressor is asked with a desired range: of the two sides of `Goal.shift` first the one with
    more training rows, then the other. What may change and into what is handed to DiCE. Its post-hoc sparsity is on;
    numbers without a grid are rounded to two decimals below their standard deviation, or that step would crawl.
    """

    supports = Supports(
        labels_only=False,
        extra="dice",
        paper="Mothilal, Sharma, Tan: Explaining Machine Learning Classifiers through Diverse Counterfactual "
        "Explanations, FAT* 2020, https://arxiv.org/abs/1905.07697 (the methods for any model are dice-ml's)",
        tier="reproduced in part",
        evidence="dice-ml 0.12 itself runs, with fewer steps and generations than its defaults, and is asked "
        "again, less strictly, where it finds nothing: docs/methods.md",
    )
    method: ClassVar[str]
    second: ClassVar[dict[str, dict[str, Any]]] = {}  # stage and arguments of what is tried where DiCE finds nothing

    max_changes: int | None = most_changes(
        None,
        "DiCE knows no such limit: several proposals are asked for; those that keep it come first, and changes of the "
        'others are undone down to it, as far as the goal allows: then their stage ends in "undone".',
    )
    refined: bool = param(
        False,
        "Undo every change that is not needed in each of several proposals, and take the sparsest.",
        flag,
    )
    rows_per_instance: int = param(
        20_000,
        "Model rows DiCE may ask for one query: without first individuals the genetic method would never end.",
        whole(8),
    )

    def _fit(self, values: Values, rng: np.random.Generator) -> None:
        dice_ml = import_extra("dice_ml", "DiCE's methods need dice-ml", "dice")
        self.view_ = view = GoalView(self.space_, values)
        frame = view.frame(values).assign(outcome=0)  # the true one depends on the goal: see `_tree`
        decimals = {name: int(view.decimals[j]) for j, name in enumerate(view.names) if name not in view.levels}
        about = {"continuous_features": list(decimals), "continuous_features_precision": decimals}
        kind = "regressor" if self.blackbox_.task == "regression" else "classifier"
        with undisturbed(0):
            data = dice_ml.Data(dataframe=frame, outcome_name="outcome", **about)
            data.data_df, data._set_feature_dtypes = view.set_dtypes(frame), view.set_dtypes
            data.permitted_range.update(view.levels)
            model = dice_ml.Model(model=view, backend="sklearn", model_type=kind)
            self.dice_ = dice_ml.Dice(data, model, method=self.method)
        self.dice_.check_query_instance_validity, self.dice_.label_decode = view.accept, view.decode
        self.training_ = values[:0] if self.method == "random" else values  # for `_tree`
        self._learn_answers()

    def _learn_answers(self) -> None:
        self.answers_ = self.blackbox_.ask(self.training_, mark_refused=True)

    def _generate(self, problem: Problem, n: int, rng: np.random.Generator) -> Proposals:
        made, seed = Proposals.empty(problem, n), int(rng.integers(2**32))
        self.trees_: dict[bytes, Any] = {}
        for query in np.flatnonzero(problem.limits.movable(problem.start)).tolist():
            with undisturbed(zlib.crc32(problem.start[query].tobytes(), seed)):
                # Calls on other threads turn the same view and the same dice-ml object to queries of their own.
                self.view_.turn_to(problem, query, int(self.rows_per_instance))
                self.dice_.do_posthoc_sparsity_enhancement, self.dice_.build_KD_tree = self._sparser, self._tree
                rows, stage, made.note[query] = self._search(problem, query, n)
                self.view_.problem = None
            self._offer(problem, query, rows, stage, made)
        self.trees_ = {}
        return made

    def _search(self, problem: Problem, query: int, n: int) -> tuple[Values, str, str]:
        view, start, note = self.view_, problem.start[[query]], f"none was found by DiCE's {self.method} method"
        choosy = self.refined or problem.max_changes < len(self.space_)
        try:
            for stage, arguments in self._attempts(problem, query):
                count = max(n, SEVERAL) if choosy or stage != self.method else n
                proposed = self._ask_dice(view.frame(start), count, arguments)
                rows = [] if proposed is None else [row for row in view.values(proposed) if (row != start).any()]
                # Rows that DiCE has not asked about since it rounded them are for the core to decide.
                hopeful = {row.tobytes(): row for row in rows if view.known.get(row.tobytes(), (0.0, True))[1]}
                if hopeful:
                    return np.array(list(hopeful.values())), stage, ""
        except BudgetSpentError:
            note += f" within {self.rows_per_instance} model rows"
        return start[:0], "", note

    def _offer(self, problem: Problem, query: int, rows: Values, stage: str, made: Proposals) -> None:
        slots = made.offered.shape[1]
        many = (rows != problem.start[query]).sum(axis=1) > problem.max_changes
        if not self.refined and (~many).sum() >= slots:
            rows, many = rows[~many], many[~many]
        owner = np.full(len(rows), query)
        final = undo(problem, rows, owner, down_to=1 if self.refined else problem.max_changes)
        sparsest = problem.distance(final, owner), problem.changed(final, owner).sum(axis=1)
        order = np.lexsort(sparsest if self.refined else (many,))
        order = order[np.sort(np.unique(final[order], axis=0, return_index=True)[1])][:slots]
        made.values[query, : len(order)], made.offered[query, : len(order)] = final[order], True
        made.stage[query, : len(order)] = np.where((final != rows).any(axis=1)[order], f"{stage}, undone", stage)

    def _attempts(self, problem: Problem, query: int) -> Iterator[tuple[str, dict[str, Any]]]:
        goal, answers = problem.goal, self.known_[1].output
        targets: list[dict[str, Any]] = [{"desired_class": 1}]
        if goal.lower is not None and goal.upper is not None:
            low, high = float(goal.lower[query]), float(goal.upper[query])
            sides = [[low, high]] if goal.inside else [[high, np.inf], [-np.inf, low]]
            sides.sort(key=lambda side: -((answers >= side[0]) & (answers <= side[1])).sum())
            targets = [{"desired_range": side} for side in sides]
        for stage, others in {self.method: {}, **self.second}.items():
            yield from ((stage, {**target, **self._constraints(problem, query), **others}) for target in targets)

    def _constraints(self, problem: Problem, query: int) -> dict[str, Any]:
        low, high, start = problem.span[0][query], problem.span[1][query], problem.start[query]
        names, choices, offsets = self.view_.names, self.view_.limits.choices[0], self.space_.category_offsets
        seen, ends = self.view_.seen[0], self.view_.shown(np.stack([low, high]))
        permitted: dict[str, list[Any]] = {name: ends[:, j].tolist() for j, name in enumerate(names)}
        for name, levels in self.view_.levels.items():
            j, codes = names.index(name), np.arange(len(levels))
            allowed = np.append(choices[offsets[j] : offsets[j + 1]], False) & (codes >= low[j]) & (codes <= high[j])
            permitted[name] = np.array(levels)[allowed | (codes == seen[j])].tolist()
        vary = [name for j, name in enumerate(names) if low[j] != start[j] or high[j] != start[j]]
        return {"features_to_vary": vary, "permitted_range": permitted}

    def _ask_dice(self, query: pd.DataFrame, count: int, arguments: dict[str, Any]) -> Any:
        self.dice_.data_interface.set_continuous_feature_indexes(query)
        return self.dice_._generate_counterfactuals(query, count, **arguments).final_cfs_df_sparse

    def _sparser(self, frame: pd.DataFrame, *arguments: Any) -> Any:
        """DiCE's post-hoc sparsity; where the rows run out on the way, what was found stays as it was."""
        try:
            return type(self.dice_).do_posthoc_sparsity_enhancement(self.dice_, frame.copy(), *arguments[:-1], STEPS)
        except BudgetSpentError:
            return frame.assign(outcome=1)

    def _tree(self, data: pd.DataFrame, desired_range: Any, desired_class: int, name: str) -> tuple[Any, Any, Any]:
        """The training rows that meet the goal and a tree over them; dice-ml would ask all rows again at each query."""
        met = self.view_.problem.goal.take(np.full(len(data), self.view_.query)).met(self.answers_)
        if desired_range is not None:
            met = (self.answers_.output >= desired_range[0]) & (self.answers_.output <= desired_range[1])
        key = met.tobytes()
        if key not in self.trees_:
            rows = data[met].assign(**{name: 1})
            columns = pd.get_dummies(rows[self.dice_.data_interface.feature_names], dtype=float)
            self.trees_ = dict([*self.trees_.items()][1 - TREES :])
            self.trees_[key] = rows, KDTree(columns) if len(rows) else None
        return *self.trees_[key], met


@with_parameters
class DiceRandom(DiceExplainer):
    """Changes one random feature of `sample_size` copies of the query after the other, until enough are valid."""

    method = "random"

    sample_size: int = param(
        1000,
        "Copies of the query that are changed side by side: more find more, and each of them is a model row.",
        whole(1, MOST_SAMPLES),
    )

    def _ask_dice(self, query: pd.DataFrame, count: int, arguments: dict[str, Any]) -> Any:
        return super()._ask_dice(query, count, {**arguments, "sample_size": int(self.sample_size)})


class DiceKDTree(DiceExplainer):
    """The nearest training rows that meet the goal and equal the query in every feature that may not change.

    Where there is none, which is often, DiCE is asked for rows without constraints, and they are projected onto them.
    """

    method = "kdtree"
    second: ClassVar = {"kdtree, projected": {"features_to_vary": "all", "permitted_range": None}}


class DiceGenetic(DiceExplainer):
    """A population that starts from the nearest training rows which meet the goal, and from random rows that do.

    It may settle on rows that miss the goal by little. Then DiCE is asked once more, with a larger population.
    """

    method = "genetic"
    second: ClassVar = {"genetic, larger": {}}

    def _fit(self, values: Values, rng: np.random.Generator) -> None:
        super()._fit(values, rng)
        self.dice_.labelencoder = {name: LabelEncoder().fit(levels) for name, levels in self.view_.levels.items()}
        self.dice_.do_random_init = self._random_starts

    def _ask_dice(self, query: pd.DataFrame, count: int, arguments: dict[str, Any]) -> Any:
        self.dice_.cfs, self.dice_.feature_weights_input = [], ""  # what dice-ml would keep of the query before
        weights = [round(1 / mad, 2) for mad in self.dice_.data_interface.get_valid_mads().values()]
        own: dict[str, Any] = {"maxiterations": GENERATIONS, "proximity_weight": 0.2 if any(weights) else 0}
        # (the weights' sum divides, so that there must be one above 0)
        prices = self.view_.problem.space.prices
        if (prices != 1.0).any():  # the price of a feature on top of DiCE's own weight, one over its deviation
            mads = self.dice_.data_interface.get_valid_mads()
            own["feature_weights"] = {name: prices[self.view_.names.index(name)] / mad for name, mad in mads.items()}
        try:
            return super()._ask_dice(query, count, {**arguments, **own})
        except ValueError as error:
            if not str(error).startswith("empty range"):  # of parents: a population of one is left
                raise
            return None

    def _random_starts(self, count: int, vary: list[str], query: Floats, *_: Any) -> Floats:
        """dice-ml's random first individuals that meet the goal, asked about more and more at a time."""
        starts, size = np.empty((0, len(query))), count
        while len(starts) < count:
            rows = np.tile(query.astype(np.float64), (size, 1))
            for j, name in enumerate(self.dice_.data_interface.feature_names):
                values = self.dice_.feature_range[name]
                if name in vary and name in self.view_.levels:
                    rows[:, j] = np.random.choice(values, size)  # noqa: NPY002
                elif name in vary:
                    rows[:, j] = np.random.uniform(values[0], values[1], size)  # noqa: NPY002
            valid = self.dice_.decide_cf_validity(self.dice_.predict_fn_scores(rows)) == 1
            starts, size = np.concatenate([starts, rows[valid]]), 2 * size
        return starts[:count]


ONE_AT_A_TIME = fork_safe_lock()  # dice-ml draws from the global generators, which threads share


class BudgetSpentError(Exception):
    """DiCE has asked as many model rows as one query may cost."""


class GoalView:
    """The model as DiCE asks it: a classifier of rows into goal missed (0) or met (1), or the regressor itself.

    DiCE sees a column a feature. It knows no missing cells: for a number that is missing it is shown the median, for a
    category that is missing, unseen or carried one level more; what comes back as it was shown is the query's own cell.
    """

    def __init__(self, space: FeatureSpace, training: Values) -> None:
        coarse = np.ceil(2 - np.log10(space.scale)).clip(0, 12).astype(int)  # 2 decimals below the deviation
        self.decimals = np.where(space.grid.decimals >= 0, space.grid.decimals, coarse)
        self.names = [f"f{j}" for j in range(len(space))]
        # Codes as text, in which dice-ml's label encoding, alphabetical, gives the codes again. The last one stands for
        # whatever is none of the categories: it may stay, and `project` puts the query's own cell in its place.
        counts = {self.names[j]: len(space.features[j].categories) for j in np.flatnonzero(space.is_categorical)}
        self.levels = {name: [f"{code:06}" for code in range(count + 1)] for name, count in counts.items()}
        self.codes, self.medians = space.missing_codes, np.nanmedian(known_numbers(space, training), axis=0)
        self.last = np.where(space.is_categorical, np.diff(space.category_offsets), np.inf)  # the level for all others
        self.problem: Any = None  # the Problem of a call, while there is one

    def turn_to(self, problem: Problem, query: int, most_rows: int) -> None:
        self.problem, self.query, self.rows_left = problem, query, most_rows
        self.limits, self.start = problem.limits.take(np.array([query])), problem.start[[query]]
        self.seen = self.shown(self.start)
        self.known: dict[bytes, tuple[float, bool]] = {}  # chance or number of a row, and whether it meets the goal

    def shown(self, values: Values) -> Values:
        """The values that DiCE is shown in the place of missing and foreign ones."""
        return np.minimum(np.where(values == self.codes, self.medians, values), self.last)

    def frame(self, values: Values) -> pd.DataFrame:
        """Rows as DiCE gets them: columns f0, f1, ...; numbers as float64, categories as text."""
        frame = pd.DataFrame(self.shown(values), columns=self.names)
        return frame.assign(**{name: np.array(texts)[frame[name].astype(int)] for name, texts in self.levels.items()})

    def values(self, frame: pd.DataFrame) -> Values:
        """DiCE's rows as they are asked about and delivered: rounded as DiCE rounds, projected onto the limits."""
        cells, tens = frame[self.names].to_numpy().astype(np.float64), 10.0**self.decimals
        rounded = np.round(cells * tens) / tens
        unchanged = np.abs(rounded - self.seen) * tens <= 0.5 + 1e-6  # but for the rounding of the query itself
        return self.limits.project(np.where(unchanged, self.start, rounded), self.start)

    def set_dtypes(self, frame: pd.DataFrame, *_: Any) -> pd.DataFrame:
        """dice-ml would cast to float32, in which unchanged cells look changed, and know no unseen category."""
        return frame.assign(**{name: pd.Categorical(frame[name], texts) for name, texts in self.levels.items()})

    def decode(self, codes: Floats) -> pd.DataFrame:
        """dice-ml would decode cell by cell; `values` reads codes too."""
        return pd.DataFrame(np.atleast_2d(codes), columns=self.names)

    def accept(self, *_: Any) -> None:
        """dice-ml would refuse a category that the space knows and no training row has."""

    def predict_proba(self, frame: pd.DataFrame) -> Floats:
        if self.problem is None:  # dice-ml counts the classes when it is set up; that need not cost a row
            return np.full((len(frame), 2), 0.5)
        chance = self.predict(frame)
        return np.column_stack([1.0 - chance, chance])

    def predict(self, frame: pd.DataFrame) -> Floats:
        """The regressor's numbers, or the chances of "goal met": of two classes, the model's own probability."""
        values = self.values(frame)
        keys = [row.tobytes() for row in values]
        self.rows_left -= len(keys) * self.problem.blackbox.rows_per_question
        if self.rows_left < 0:
            raise BudgetSpentError
        fresh = {key: row for row, key in enumerate(keys) if key not in self.known}  # no row is asked twice
        owner = np.full(len(fresh), self.query)
        with kept_generators():  # whatever the model does to them, DiCE goes on with its own random numbers
            answer = self.problem.ask(values[list(fresh.values())], owner)
        goal = self.problem.goal.take(owner)
        met, score = goal.met(answer), answer.output
        if self.problem.blackbox.task == "classification":
            score = np.exp(-np.logaddexp(0.0, goal.gap(answer)))
            score = np.where(met, np.maximum(score, 0.5 + SURE), np.minimum(score, 0.5 - SURE))
        self.known.update(zip(fresh, zip(score.tolist(), met.tolist(), strict=True), strict=True))
        return np.array([self.known[key][0] for key in keys])


@contextmanager
def undisturbed(seed: int) -> Iterator[None]:
    """Seed the global generators for dice-ml, then put them back; keep what it prints and warns of to itself."""
    with ONE_AT_A_TIME, redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="dice_ml")
        with kept_generators():
            np.random.seed(seed)  # noqa: NPY002
            random.seed(seed)
            yield


@contextmanager
def kept_generators() -> Iterator[None]:
    """Put the global generators back into the states they were found in."""
    states = np.random.get_state(), random.getstate()  # noqa: NPY002
    try:
        yield
    finally:
        np.random.set_state(states[0])  # noqa: NPY002
        random.setstate(states[1])
