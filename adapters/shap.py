"""SHAP's face: counterfactual Shapley values, and how far SHAP's ranking agrees with what counterfactuals change.

Counterfactual Shapley values (Albini et al., 2022) take the counterfactual x' as the background: they share out
f(x) - f(x') among the changed features, so that "what would have to change" also says how much each change does.
"""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial, wraps
from math import comb
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from relax_plugin.arrays import Array, Booleans, Floats, Integers, Values
from relax_plugin.base import CounterfactualExplainer, default_goal, fitted, whole_number
from relax_plugin.cached import cached_property
from relax_plugin.errors import InputError, MissingExtraError, import_extra
from relax_plugin.features import Rows
from relax_plugin.goal import Goal
from relax_plugin.results import Counterfactuals

try:
    import shap
    from shap import plots
    from slicer import Obj
except ImportError as missing:
    raise MissingExtraError("SHAP's face needs shap: pip install 'relax-plugin[shap]'.") from missing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CALL_ROWS = 2**16  # model rows in one call, about: bounds the memory
PERMUTATIONS = 100  # of shap's sampler for one counterfactual, each there and back
SHAP_PERMUTATIONS = 10  # for a query of compare_with_shap, each with every background row
EXACT_FEATURES = 8  # up to so many features, compare_with_shap computes SHAP values exactly
BACKGROUND_ROWS = 50  # training rows from which compare_with_shap draws unknown features
EXPECTED = "\n$E[f(X)]$"  # as shap's waterfall writes it


class CounterfactualShap:
    """Shapley values of a query against its counterfactuals, as a `shap.Explanation` that shap's plots draw.

    A regressor that was fitted without a goal is to predict half a standard deviation more or less; a warning says so.
    f is the number of a regressor; of a classifier the probability of the class it gives the query (its decision score
    where it has no probabilities, 1 or 0 where it answers labels only). The values of a query sum to f(x) - f(x'),
    `base_values` is f(x'), and a feature that does not change has exactly 0. Of several counterfactuals values and base
    values are the means.

    Parameters
    ----------
    explainer : CounterfactualExplainer
        Fitted.
    n : int
        Counterfactuals that are asked for each query.
    most_exact : int
        One that changes k features costs 2^k model rows; above so many changed features shap's permutation sampler
        estimates the values (they still sum to the difference), and a warning says so.
    every_class : bool, optional
        Whether the explanation of a classifier is (queries, features, classes), as those of shap's explainers are; by
        default with more than two classes. Without, it is about the class that the model gives each query.
    background : table, optional
        Rows of which `expected_value` is the mean, by default 50 of the training rows.
    seed : int
        Of shap's sampler.
    """

    def __init__(
        self,
        explainer: CounterfactualExplainer,
        *,
        n: int = 1,
        most_exact: int = 12,
        every_class: bool | None = None,
        background: Rows | None = None,
        seed: int = 0,
    ) -> None:
        self.explainer = fitted(explainer)
        self.n = whole_number("n", n, 1)
        self.most_exact = whole_number("most_exact", most_exact, 0)
        classes = explainer.blackbox_.classes
        self.background, self.seed = background, seed
        self.every_class = classes is not None and len(classes) > 2 if every_class is None else every_class
        if every_class and classes is None:
            raise InputError("every_class is for classifiers; a regressor has one output.")
        self.goal = _default_goal(explainer)

    def __call__(self, X: Any, *, max_evals: int | str = "auto") -> "CounterfactualExplanation":
        """Find counterfactuals for the rows, and share out the difference among the changed features.

        One row, as a Series, a dict or an array (features,), is explained as one, for `shap.plots.waterfall`.
        """
        alone = isinstance(X, pd.Series | Mapping) or (isinstance(X, np.ndarray) and X.ndim == 1)
        rows = self._table(X) if alone else X
        made = self.attribute(self.explainer.explain(rows, goal=self.goal, n=self.n), max_evals=max_evals)
        return made[0] if alone else made

    def _table(self, row: Any) -> Rows:
        """One row as a table with the dtypes that the model knows, which a Series of several kinds has lost."""
        table = row[None] if isinstance(row, np.ndarray) else pd.DataFrame([dict(row)])
        space, values = self.explainer.space_.taking_in(table)
        return space.model_input(values)

    @cached_property
    def expected_value(self) -> Any:
        """The mean score of the counterfactuals of the background; with `every_class`, one number a class."""
        rows = self.background
        if rows is None:
            known = _training_rows(self.explainer)
            rows = self.explainer.space_.model_input(known)
        made = self.explainer.explain(rows, goal=self.goal, n=self.n)
        if not made.found.any():
            raise InputError(f"none of the {len(made)} rows of the background has a counterfactual; pass others.")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # they are about the background, which nobody looks at
            explanation = self.attribute(made)
        means = np.asarray(explanation.base_values)[explanation.found].mean(axis=0)
        return means if self.every_class else float(means)

    def shap_values(self, X: Any, *, max_evals: int | str = "auto") -> Floats:
        """The values alone, in shap's older manner: with `expected_value`, one for all rows, they sum to f(x).

        So they are those of `explanation.one_base(expected_value)`, with which shap's older functions draw true sums.
        """
        return np.asarray(self(X, max_evals=max_evals).one_base(self.expected_value).values)

    def attribute(
        self, counterfactuals: Counterfactuals, *, max_evals: int | str = "auto"
    ) -> "CounterfactualExplanation":
        """The same for counterfactuals that this explainer has found already, under whatever goal and constraints.

        A query without a counterfactual keeps its row, with all values 0 and f(x) as base value, since shap's plots
        cannot draw NaN; of one that the model refuses f(x) is NaN. A warning counts them. The explanation and its
        slices have the attributes `found` and `sampled`, bool arrays (queries,), and `counterfactuals`. `max_evals` are
        the most model rows for one counterfactual: where 2^k are more, shap samples.
        """
        most_exact = self.most_exact if max_evals == "auto" else min(self.most_exact, _exact_within(max_evals))
        found, start, space = counterfactuals.found, counterfactuals.start, counterfactuals.space
        refused, lost = counterfactuals.refused, ~found.any(axis=1)
        unsolved = np.flatnonzero(lost & ~refused)
        query, slot = np.nonzero(found)
        # A query without a counterfactual is its own background: one model row, and no feature has a share.
        end = np.concatenate([counterfactuals.values[query, slot], start[unsolved]])
        query = np.concatenate([query, unsolved])
        blackbox = self.explainer.blackbox_.over(space)  # which knows the queries' cells too
        changed = start[query] != end
        many = changed.sum(axis=1) > most_exact
        several = 1 if blackbox.classes is None else len(blackbox.classes)
        values = np.zeros((len(end), len(space) + 1, several))  # the last column is f(x')
        if (~many).any():
            values[~many] = self._exact(blackbox, start[query[~many]], end[~many])
        if many.any():
            values[many] = self._sampled(blackbox, start[query[many]], end[many], max_evals)
            text = f"{many.sum()} counterfactuals change more than {most_exact} features; shap sampled them."
            warnings.warn(text, stacklevel=2)
        if lost.any():
            text = f"{lost.sum()} of {len(found)} queries have no counterfactual; their values are 0 (see `found`)."
            warnings.warn(text, stacklevel=2)
        slots = np.bincount(query, minlength=1)[query][:, None]
        means, weights = np.zeros((len(found), *values.shape[1:])), np.zeros((len(found), len(space)))
        means[refused, -1] = np.nan
        np.add.at(means, query, values / slots[:, :, None])
        np.add.at(weights, query, changed / np.maximum(changed.sum(axis=1, keepdims=True), 1) / slots)
        record = _Record(
            counterfactuals,
            np.asarray(found.any(axis=1)),
            np.isin(np.arange(len(found)), query[many]),
            means[:, :-1],
            means[:, -1],
            weights,
            None if blackbox.classes is None else [str(name) for name in blackbox.classes],
        )
        return self._explanation(record)

    def _explanation(self, record: "_Record") -> "CounterfactualExplanation":
        made, space = record.counterfactuals, record.counterfactuals.space
        own = _classes(self.explainer, made)
        explanation = CounterfactualExplanation.of(
            shap.Explanation(
                _selected(record.values, own),
                base_values=_selected(record.bases, own),
                data=np.where(made.start == space.missing_codes, np.nan, made.start),
                display_data=space.by_feature(made.queries).to_numpy() if space.is_categorical.any() else None,
                feature_names=[str(name) for name in space.names],
            ),
            record,
            "counterfactual $f(x')$" if self.n == 1 else "counterfactuals, mean $f(x')$",
            np.arange(len(made)),
            np.arange(len(space)),
        )
        install()
        return explanation.classes if self.every_class else explanation

    def _exact(self, blackbox: Any, start: Values, end: Values) -> Floats:
        rows = np.cumsum(2 ** (start != end).sum(axis=1))
        pieces = np.split(np.arange(len(rows)), np.flatnonzero(np.diff((rows - 1) // CALL_ROWS)) + 1)
        return np.concatenate([_shapley(blackbox, start[piece], end[piece]) for piece in pieces])

    def _sampled(self, blackbox: Any, start: Values, end: Values, max_evals: int | str) -> Floats:
        """shap's permutation sampler, one pair after the other: each counterfactual is a background of its own."""
        f = partial(_outputs, blackbox)
        made = [_by_shap(f, x, y, PERMUTATIONS, self.seed, max_evals) for x, y in zip(start, end, strict=True)]
        return np.array([np.concatenate([one.values[0], one.base_values[[0]]]) for one in made])


@dataclass(frozen=True)
class ShapAgreement:
    """How far the features that SHAP ranks highest are those that the counterfactuals change.

    `table` has a row a query: `found`; `changed`, its k changed features; `overlap`, the share of them among the k that
    SHAP ranks highest; `by_chance`, k / d; `agreement`, how often SHAP ranks a changed feature above an unchanged one
    (0.5 by chance; ties count half); NaN where there is nothing to compare. `features` has a row a feature: its mean
    |SHAP value| and the share of counterfactuals that change it, with their ranks.
    """

    table: pd.DataFrame
    features: pd.DataFrame

    @property
    def rank_correlation(self) -> float:
        """Spearman's ρ between the two rankings of the features."""
        return float(self.features["shap_rank"].corr(self.features["changed_rank"]))

    def plot(self) -> "Figure":
        """Left: the overlap by number of changed features, beside chance. Right: both rankings of the features."""
        drawing = import_extra("matplotlib.figure", "this needs matplotlib.figure", "plots")
        figure: Figure = drawing.Figure(figsize=(11.0, 4.5), layout="constrained")
        left, right = figure.subplots(1, 2)
        means = self.table.groupby("changed")[["overlap", "by_chance"]].mean()
        left.bar(range(len(means)), means["overlap"], width=0.6, color="#4477aa", label="SHAP's highest k")
        left.scatter(range(len(means)), means["by_chance"], marker="_", s=1500, color="black", label="by chance")
        queries = self.table["changed"].value_counts()
        left.set_xticks(range(len(means)), [f"{k:.0f}\n({queries[k]} queries)" for k in means.index])
        left.set(xlabel="features changed, k", ylabel="share of them among SHAP's highest k", ylim=(0.0, 1.05))
        left.set_title(f"overlap {self.table['overlap'].mean():.2f}, agreement {self.table['agreement'].mean():.2f}")
        left.legend(markerscale=0.3)
        shown = self.features.head(15).iloc[::-1]  # SHAP's highest at the top
        for column, shift, colour in (("mean_abs_shap", 0.2, "#4477aa"), ("changed_share", -0.2, "#ee6677")):
            width = shown[column] / max(self.features[column].max(), 1e-12)
            right.barh(np.arange(len(shown)) + shift, width, height=0.4, color=colour)
        right.set_yticks(range(len(shown)), [str(name) for name in shown["feature"]])
        right.legend(["mean |SHAP value|", "how often it is changed"], loc="lower right")
        right.set(xlabel="share of the largest", title=f"features: rank correlation {self.rank_correlation:.2f}")
        return figure


def compare_with_shap(
    explainer: CounterfactualExplainer, X: Rows, *, shap_values: Any = None, background: Any = None, seed: int = 0
) -> ShapAgreement:
    """Compare the features that SHAP ranks highest with those the counterfactuals change.

    `shap_values` (queries, features) may be those of any shap explainer. When absent they are computed for f as in
    `CounterfactualShap`, exactly for up to 8 features and by permutations for more, with unknown features drawn from
    the rows of `background`, by default 50 of the training rows.
    """
    cfs = fitted(explainer).explain(X, goal=_default_goal(explainer))
    if shap_values is None:
        if background is None:
            space, rows = cfs.space, _training_rows(explainer)
        else:
            space, rows = cfs.space.taking_in(background)
        blackbox = explainer.blackbox_.over(space)
        classes, shap_values = _classes(explainer, cfs), np.zeros(cfs.start.shape)
        permutations = 0 if len(cfs.space) <= EXACT_FEATURES else SHAP_PERMUTATIONS
        for own in np.unique(classes[~cfs.refused]):  # shap explains one f for all rows it is given
            mine = (classes == own) & ~cfs.refused
            f = partial(_outputs, blackbox, output=int(own))
            shap_values[mine] = _by_shap(f, cfs.start[mine], rows, permutations, seed).values
    size = np.abs(np.asarray(getattr(shap_values, "values", shap_values), dtype=np.float64))
    if size.shape != cfs.start.shape:
        raise InputError(f"shap_values have shape {size.shape}; one a query and feature, {cfs.start.shape}, is needed.")
    changed = (cfs.values[:, 0] != cfs.start) & cfs.found[:, :1]
    k, d = changed.sum(axis=1, dtype=np.float64), len(cfs.space)
    k[k == 0] = np.nan
    highest = np.take_along_axis(changed, np.argsort(-size, axis=1, kind="stable"), axis=1)
    overlap = (highest & (np.arange(d) < k[:, None])).sum(axis=1) / k
    # Mann and Whitney's U: pairs of a changed and an unchanged feature in which the changed one has the larger value.
    above = (pd.DataFrame(size).rank(axis=1).to_numpy() * changed).sum(axis=1) - k * (k + 1) / 2
    agreement = above / np.where(k < d, k * (d - k), np.nan)
    table = pd.DataFrame({"query_id": np.arange(len(cfs)), "found": cfs.found[:, 0], "changed": k})
    table = table.assign(overlap=overlap, by_chance=k / d, agreement=agreement)
    share = changed.sum(axis=0) / max(int(changed.any(axis=1).sum()), 1)
    sizes = size[~cfs.refused].mean(axis=0)
    features = pd.DataFrame({"feature": cfs.space.names, "mean_abs_shap": sizes, "changed_share": share})
    ranks = features[["mean_abs_shap", "changed_share"]].rank(ascending=False).to_numpy()
    features = features.assign(shap_rank=ranks[:, 0], changed_rank=ranks[:, 1])
    return ShapAgreement(table, features.sort_values("shap_rank", ignore_index=True))


def _default_goal(explainer: CounterfactualExplainer) -> Goal | None:
    if explainer.goal is not None or explainer.goal_ is not None:
        return None
    rows = explainer.training_rows_
    goal, sentence = default_goal(explainer, rows.space.model_input(rows.rows))
    warnings.warn(sentence, stacklevel=3)
    return goal


class Margins:
    """A classifier with two classes made of a function of margins: class 1 where it answers more than 0, else class 0.

    An example is ``lambda x: model.predict(x, output_margin=True)`` of XGBoost. Nothing tells its numbers from those of
    a regressor, so this class has to be named. The values of an explanation are margins too: for a query of class 1
    those of the function, for one of class 0 their negatives.
    """

    _estimator_type = "classifier"

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self.function, self.classes_ = function, np.array([0, 1])

    def decision_function(self, X: Any) -> Floats:
        """The difference between the scores of the two classes, which are the margin and its negative."""
        return 2.0 * np.asarray(self.function(X), dtype=np.float64).reshape(len(X))

    def predict(self, X: Any) -> Integers:
        return np.asarray(self.decision_function(X) > 0).astype(np.int64)


def _training_rows(explainer: CounterfactualExplainer) -> Values:
    if not hasattr(explainer, "known_"):
        raise InputError("this explainer was read from a file, without training rows; pass some as background.")
    return np.asarray(explainer.known_[0][:BACKGROUND_ROWS])


def _classes(explainer: CounterfactualExplainer, cfs: Counterfactuals) -> Floats:
    classes = np.zeros(len(cfs))
    if explainer.blackbox_.task == "classification":
        classes[~cfs.refused] = explainer.blackbox_.codes(cfs.before[~cfs.refused])
    return classes


@dataclass(frozen=True)
class _Record:
    """What is known of all queries, of which an explanation and its slices are parts."""

    counterfactuals: Counterfactuals
    found: Booleans  # whether a query has a counterfactual
    sampled: Booleans  # whether shap's sampler was needed
    values: Floats  # (queries, features, classes); of a regressor there is one class
    bases: Floats  # (queries, classes)
    weights: Floats  # (queries, features), the share of a feature among those that are changed; 0 for the others
    classes: list[str] | None  # names; None for a regressor


class CounterfactualExplanation(shap.Explanation):  # type: ignore[misc]
    """Counterfactual Shapley values; `found`, `sampled` and `counterfactuals` stay with its slices.

    `E[:, :, k]` and `E[..., k]` are the values for the score of class k, wherever a class can be named, and `E.classes`
    those of all. A regressor has no classes, and there `E[..., k]` is feature k, as numpy has it.
    """

    record: _Record
    base_label: str  # what a waterfall calls the base

    @classmethod
    def of(cls, made: Any, record: _Record, label: str, rows: Any, columns: Any) -> "CounterfactualExplanation":
        """An explanation of shap's that shows these rows and columns of the record."""
        own = cls.__new__(cls)
        own.__dict__.update(made.__dict__)
        own.record, own.base_label = record, label
        # shap's slicer slices whatever it is given: so the positions follow every index that shap understands.
        own._s.row = Obj(rows, [0] if np.ndim(rows) else [])
        own._s.column = Obj(columns, [] if not np.ndim(columns) else [1] if np.ndim(rows) else [0])
        return own

    def __copy__(self) -> "CounterfactualExplanation":
        return self.of(super().__copy__(), self.record, self.base_label, self._s.row, self._s.column)

    def __getitem__(self, item: Any) -> Any:
        index = item if isinstance(item, tuple) else (item,)
        gap = next((place for place, part in enumerate(index) if part is Ellipsis), None)
        if gap is not None:
            named = index[-1] is not Ellipsis and self._names_classes(index[-1])
            left = len(self.shape) + named - (len(index) - 1)
            index = (*index[:gap], *[slice(None)] * left, *index[gap + 1 :])
        if len(index) == len(self.shape) + 1:
            return self.classes[index]
        return super().__getitem__(index if gap is not None else item)

    def _names_classes(self, last: Any) -> bool:
        """Whether the last index after an ellipsis is a class: where there are classes, and none is picked out yet."""
        known = self.record.classes
        if known is None or self.row is None or self.output_names is not None:
            return False
        return not isinstance(last, str) or last in known

    @property
    def row(self) -> Any:
        """Positions of the rows among the queries; None where rows were summed up."""
        summed = [vars(step) if hasattr(step, "__dict__") else step for step in self.op_history]
        return None if any(step.get("collapsed_instances") for step in summed) else self._s.row

    @property
    def found(self) -> Any:
        """Whether a row has a counterfactual: a bool array, one bool for one row, None where rows were summed up."""
        return None if self.row is None else self.record.found[self.row]

    @property
    def sampled(self) -> Any:
        """Whether shap's sampler estimated the values of a row, as `found`."""
        return None if self.row is None else self.record.sampled[self.row]

    @property
    def counterfactuals(self) -> Counterfactuals:
        """The counterfactuals of all queries; `row` says which of them a slice shows."""
        return self.record.counterfactuals

    @property
    def classes(self) -> "CounterfactualExplanation":
        """The same rows with a last dimension of classes, as shap has it of a classifier: (rows, features, classes)."""
        known = self.record
        if known.classes is None:
            raise InputError("a regressor has one output and no classes; leave the last index out.")
        single = np.ndim(self._s.row) + np.ndim(self._s.column)  # dimensions of the values for one class
        if self.row is not None and len(self.shape) == single + 1:
            return self
        if self.row is None or len(self.shape) != single:
            raise InputError("this explanation was summed up; ask the one before.")
        row, column = self._s.row, self._s.column
        made = shap.Explanation(
            known.values[np.ix_(row, column)] if np.ndim(row) and np.ndim(column) else known.values[row, column],
            base_values=known.bases[row],
            data=self.data,
            display_data=self.display_data,
            feature_names=self.feature_names,
            output_names=known.classes,
        )
        return self.of(made, known, self.base_label, row, column)

    def one_base(self, base: Any = None) -> "CounterfactualExplanation":
        """The same rows with one base value, which shap's `force` and `decision` of several rows need.

        `base` is by default the mean of the rows' own. What a counterfactual scores above or below it is shared equally
        among the features that it changes: these are the Shapley values of the same game, in which to know nothing is
        worth `base`. A row in which nothing changes keeps its zeros.
        """
        row, column, bases = self.row, self._s.column, np.asarray(self.base_values, dtype=np.float64)
        if row is None or np.ndim(column) != 1:
            raise InputError("one base value needs whole rows; ask before rows are summed up or features picked out.")
        found = self.found if np.any(self.found) else np.ones_like(self.found)
        base = (bases[found].mean(axis=0) if np.ndim(row) else bases) if base is None else np.asarray(base, dtype=float)
        weights = self.record.weights[np.ix_(row, column)] if np.ndim(row) else self.record.weights[row][column]
        left = np.nan_to_num(bases - base)  # NaN of a query that the model refuses
        some = bool(weights.ndim == np.ndim(self.values))
        more = weights * left[..., None] if some else weights[..., None] * left[..., None, :]
        made = self.__copy__()
        made.base_label = "common base"
        made._s.values = np.asarray(self.values) + more
        made._s.base_values = np.broadcast_to(base, bases.shape).copy() if bases.ndim else float(base)
        return made


def _labelled(draw: Callable[..., Any]) -> Callable[..., Any]:
    """shap's waterfall, which says of a counterfactual explanation what its base is, and is as it was of any other."""

    @wraps(draw)
    def waterfall(shap_values: Any, max_display: int = 10, show: bool = True) -> Any:
        if not isinstance(shap_values, CounterfactualExplanation):
            return draw(shap_values, max_display, show)
        from matplotlib import pyplot
        from matplotlib.transforms import ScaledTranslation

        interactive = pyplot.isinteractive()
        axes = draw(_changes_alone(shap_values), max_display, False)
        lost = shap_values.found is not None and not shap_values.found
        label = "no counterfactual, $f(x)$" if lost else shap_values.base_label
        for other in axes.figure.axes:
            texts = [text.get_text() for text in other.get_xticklabels()]
            if EXPECTED in texts:
                other.set_xticklabels([f"\n{label}", *texts[1:]], fontsize=12)
                name = other.get_xticklabels()[0]
                name.set_horizontalalignment("right")  # it is longer, and the number stands at its right
                right = ScaledTranslation(41.0 / 72.0, 0.0, axes.figure.dpi_scale_trans)
                name.set_transform(name.get_transform() + right)
        if not show:
            return axes
        if interactive:
            pyplot.ion()  # which shap turns off when it is not to show
        return pyplot.show()

    return waterfall


def _changes_alone(explanation: CounterfactualExplanation) -> Any:
    """One row without its unchanged features, whose bars are all 0; the others are named with their old and new values.

    A row with several counterfactuals keeps its data, since each of them has new values of its own.
    """
    row, column, known = explanation.row, explanation._s.column, explanation.record
    if row is None or np.ndim(row) or np.ndim(column) != 1 or explanation.values.ndim != 1:
        return explanation
    kept = known.weights[row][column] > 0
    if not kept.any():
        return explanation
    names, made = np.asarray(explanation.feature_names)[kept].tolist(), known.counterfactuals
    own = [cell for cell in made.changed_cells if cell[0] == row]
    one = made.found[row].sum() == 1
    if one:
        told = {str(name): f"{name}: {_text(old)} → {_text(new)}" for _, _, name, old, new in own}
        names = [told[str(made.space.names[j])] for j in np.asarray(column)[kept]]
    shown = explanation.data if explanation.display_data is None else explanation.display_data
    return shap.Explanation(
        explanation.values[kept],
        base_values=explanation.base_values,
        data=None if one else np.asarray(shown)[kept],
        feature_names=names,
    )


def _text(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float | np.floating) else str(value)


def _with_one_base(draw: Callable[..., Any]) -> Callable[..., Any]:
    """shap's force plot, which gives several rows of a counterfactual explanation one base value first."""

    @wraps(draw)
    def force(base_value: Any, *given: Any, **named: Any) -> Any:
        several = isinstance(base_value, CounterfactualExplanation) and np.ndim(base_value.base_values) == 1
        return draw(base_value.one_base() if several else base_value, *given, **named)

    return force


def install() -> None:
    """Let shap's `waterfall` and `force` understand counterfactual explanations; done when the first one is made.

    Explanations of shap's own are drawn as before. `uninstall` takes it back.
    """
    if not hasattr(plots.waterfall, "__wrapped__"):
        plots.waterfall = shap.waterfall_plot = _labelled(plots.waterfall)
        plots.force = shap.force_plot = _with_one_base(plots.force)


def uninstall() -> None:
    """Put back shap's own functions, until the next explanation is made."""
    if hasattr(plots.waterfall, "__wrapped__"):
        plots.waterfall = shap.waterfall_plot = plots.waterfall.__wrapped__
        plots.force = shap.force_plot = plots.force.__wrapped__


def _selected(values: Floats, classes: Array) -> Floats:
    """Of (queries, ..., classes) the class of each query."""
    return np.asarray(np.moveaxis(values, -1, 1)[np.arange(len(values)), classes.astype(int)])


def _shapley(blackbox: Any, start: Values, end: Values) -> Floats:
    """Shapley values and f(x') of pairs, for every output (pairs, features + 1, outputs), in one call."""
    changed = start != end
    count = changed.sum(axis=1)
    first = np.cumsum(2**count) - 2**count
    owner = np.repeat(np.arange(len(count)), 2**count)
    coalition = np.arange(len(owner)) - first[owner]
    # Bit r of a coalition says whether the r-th changed feature has the query's value: 0 is the counterfactual.
    bit = np.maximum(np.cumsum(changed, axis=1) - 1, 0)
    inside = ((coalition[:, None] >> bit[owner]) & 1).astype(bool) & changed[owner]
    f = _outputs(blackbox, np.where(inside, start[owner], end[owner]))
    # Φ_j = Σ_S |S|! (k - |S| - 1)! / k! (f(S ∪ j) - f(S)): a coalition counts for its members and against the rest.
    weights = _weights(int(count.max()))
    size, k = inside.sum(axis=1), count[owner]
    share = np.where(inside, weights[k, size - 1][:, None], -weights[k, size][:, None]) * changed[owner]
    values = [np.add.reduceat(f[:, [output]] * share, first, axis=0) for output in range(f.shape[1])]
    return np.concatenate([np.stack(values, axis=2), f[first][:, None]], axis=1)


def _by_shap(f: Any, X: Values, background: Values, permutations: int, seed: int, max_evals: int | str = "auto") -> Any:
    """shap's own answer, exact without permutations; its sampler seeds the global generator, which is put back."""
    X, background = np.atleast_2d(X), np.atleast_2d(background)
    masker = shap.maskers.Independent(background, max_samples=len(background))
    if permutations == 0:
        return shap.ExactExplainer(f, masker)(X, silent=True)
    varied = int((X[:, None] != background).any(axis=(0, 1)).sum())
    least = 2 * varied + 1
    if max_evals == "auto":
        max_evals = permutations * least
    elif int(max_evals) < least:
        raise InputError(f"max_evals is {max_evals}, but {varied} changed features need at least {least} model rows.")
    state = np.random.get_state()  # noqa: NPY002
    try:
        return shap.PermutationExplainer(f, masker, seed=seed)(X, max_evals=max_evals, silent=True)
    finally:
        np.random.set_state(state)  # noqa: NPY002


def _exact_within(max_evals: int | str) -> int:
    """The most changed features whose coalitions are not more than these model rows."""
    if isinstance(max_evals, str):
        raise InputError(f'max_evals is {max_evals!r}; a whole number of model rows or "auto" is needed.')
    return whole_number("max_evals", max_evals, 1).bit_length() - 1


def _outputs(blackbox: Any, rows: Values, output: int | None = None) -> Floats:
    """f of each row for every class, (rows, classes), of a regressor (rows, 1), or for one `output` (rows,)."""
    answer = blackbox.ask(rows)
    scores: Any = answer.scores
    if blackbox.task == "regression":
        scores = np.asarray(answer.output, dtype=np.float64)[:, None]
    elif scores is None:
        scores = np.asarray(answer.output[:, None] == np.arange(len(blackbox.classes)), dtype=np.float64)
    return np.asarray(scores if output is None else scores[:, output])


def _weights(most: int) -> Floats:
    """weights[k, s] = s! (k - s - 1)! / k! for s < k, and 0 elsew"""
    sizes = range(most + 1)
    return np.array([[1.0 / (k * comb(k - 1, s)) if s < k else 0.0 for s in sizes] for k in sizes])
