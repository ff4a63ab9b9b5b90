"""SHAP's face: counterfactual Shapley values, and how far SHAP's ranking agrees with what counterfactuals change.

Counterfactual Shapley values (Albini et al., 2022) take the counterfactual x' as the background: they share out
f(x) - f(x') among the changed features, so that "what would have to change" also says how much each change does.
"""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from relax_plugin.adapters.shap_values import by_shap, exact_within, library, outputs, scores, shapley
from relax_plugin.arrays import Floats, Values
from relax_plugin.base import CounterfactualExplainer, fitted, whole_number
from relax_plugin.errors import InputError
from relax_plugin.features import Rows
from relax_plugin.results import Counterfactuals

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from relax_plugin.adapters.shap_explanation import CounterfactualExplanation, Record


CALL_ROWS = 2**16  # model rows in one call, about: bounds the memory
PERMUTATIONS = 100  # of shap's sampler for one counterfactual, each there and back
SHAP_PERMUTATIONS = 10  # for a query of compare_with_shap, each with every background row
EXACT_FEATURES = 8  # up to so many features, compare_with_shap computes SHAP values exactly
BACKGROUND_ROWS = 50  # training rows from which compare_with_shap draws unknown features


class CounterfactualShap:
    """Shapley values of a query against its counterfactuals, as a `shap.Explanation` that shap's plots draw.

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
    every_class : bool
        Whether the explanation of a classifier is (queries, features, classes), as those of shap's explainers are.
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
        every_class: bool = False,
        background: Rows | None = None,
        seed: int = 0,
    ) -> None:
        self.explainer = fitted(explainer)
        self.n = whole_number("n", n, 1)
        self.most_exact = whole_number("most_exact", most_exact, 0)
        self.every_class, self.background, self.seed = every_class, background, seed
        if every_class and explainer.blackbox_.task == "regression":
            raise InputError("every_class is for classifiers; a regressor has one output.")

    def __call__(self, X: Any, *, max_evals: int | str = "auto") -> "CounterfactualExplanation":
        """Find counterfactuals for the rows, and share out the difference among the changed features.

        One row, as a Series, a dict or an array (features,), is explained as one, for `shap.plots.waterfall`.
        """
        alone = isinstance(X, pd.Series | Mapping) or (isinstance(X, np.ndarray) and X.ndim == 1)
        made = self.attribute(self.explainer.explain(self._table(X) if alone else X, n=self.n), max_evals=max_evals)
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
        made = self.explainer.explain(rows, n=self.n)
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
        cannot draw NaN; a warning counts them. The explanation and its slices have the attributes `found` and
        `sampled`, bool arrays (queries,), and `counterfactuals`. `max_evals` are the most model rows for one
        counterfactual: where 2^k are more, shap samples.
        """
        most_exact = self.most_exact if max_evals == "auto" else min(self.most_exact, exact_within(max_evals))
        found, start, space = counterfactuals.found, counterfactuals.start, counterfactuals.space
        unsolved = np.flatnonzero(~found.any(axis=1))
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
        if len(unsolved):
            text = f"{len(unsolved)} of {len(found)} queries have no counterfactual; their values are 0 (see `found`)."
            warnings.warn(text, stacklevel=2)
        slots = np.bincount(query, minlength=1)[query][:, None]
        means, weights = np.zeros((len(found), *values.shape[1:])), np.zeros((len(found), len(space)))
        np.add.at(means, query, values / slots[:, :, None])
        np.add.at(weights, query, changed / np.maximum(changed.sum(axis=1, keepdims=True), 1) / slots)
        library("shap", "shap")
        record = import_module("relax_plugin.adapters.shap_explanation").Record(
            counterfactuals,
            found.any(axis=1),
            np.isin(np.arange(len(found)), query[many]),
            means[:, :-1],
            means[:, -1],
            weights,
            None if blackbox.classes is None else [str(name) for name in blackbox.classes],
        )
        return self._explanation(record)

    def _explanation(self, record: "Record") -> "CounterfactualExplanation":
        """The record as shap has it: for the class of each query, or for all."""
        made, space = record.counterfactuals, record.counterfactuals.space
        here = import_module("relax_plugin.adapters.shap_explanation")
        own = _classes(self.explainer, made)
        explanation = here.CounterfactualExplanation.of(
            here.shap.Explanation(
                here.selected(record.values, own),
                base_values=here.selected(record.bases, own),
                data=np.where(made.start == space.missing_codes, np.nan, made.start),
                display_data=space.by_feature(made.queries).to_numpy() if space.is_categorical.any() else None,
                feature_names=[str(name) for name in space.names],
            ),
            record,
            "counterfactual $f(x')$" if self.n == 1 else "counterfactuals, mean $f(x')$",
            np.arange(len(made)),
            np.arange(len(space)),
        )
        here.install()
        return explanation.classes if self.every_class else explanation  # type: ignore[no-any-return]

    def _exact(self, blackbox: Any, start: Values, end: Values) -> Floats:
        """Shapley values and f(x') of pairs, in calls of about `CALL_ROWS` model rows."""
        rows = np.cumsum(2 ** (start != end).sum(axis=1))
        pieces = np.split(np.arange(len(rows)), np.flatnonzero(np.diff((rows - 1) // CALL_ROWS)) + 1)
        return np.concatenate([shapley(blackbox, start[piece], end[piece]) for piece in pieces])

    def _sampled(self, blackbox: Any, start: Values, end: Values, max_evals: int | str) -> Floats:
        """shap's permutation sampler, one pair after the other: each counterfactual is a background of its own."""
        f = partial(outputs, blackbox)
        made = [by_shap(f, x, y, PERMUTATIONS, self.seed, max_evals) for x, y in zip(start, end, strict=True)]
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
        figure: Figure = library("matplotlib.figure", "plots").Figure(figsize=(11.0, 4.5), layout="constrained")
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
    cfs = fitted(explainer).explain(X)
    if shap_values is None:
        if background is None:
            space, rows = cfs.space, _training_rows(explainer)
        else:
            space, rows = cfs.space.taking_in(background)
        blackbox = explainer.blackbox_.over(space)
        classes, shap_values = _classes(explainer, cfs), np.zeros(cfs.start.shape)
        permutations = 0 if len(cfs.space) <= EXACT_FEATURES else SHAP_PERMUTATIONS
        for own in np.unique(classes):  # shap explains one f for all rows it is given
            f, mine = partial(scores, blackbox, own), classes == own
            shap_values[mine] = by_shap(f, cfs.start[mine], rows, permutations, seed).values
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
    features = pd.DataFrame({"feature": cfs.space.names, "mean_abs_shap": size.mean(axis=0), "changed_share": share})
    ranks = features[["mean_abs_shap", "changed_share"]].rank(ascending=False).to_numpy()
    features = features.assign(shap_rank=ranks[:, 0], changed_rank=ranks[:, 1])
    return ShapAgreement(table, features.sort_values("shap_rank", ignore_index=True))


def _training_rows(explainer: CounterfactualExplainer) -> Values:
    """Some of the rows it was fitted to."""
    if not hasattr(explainer, "known_"):
        raise InputError("this explainer was read from a file, without training rows; pass some as background.")
    return np.asarray(explainer.known_[0][:BACKGROUND_ROWS])


def _classes(explainer: CounterfactualExplainer, cfs: Counterfactuals) -> Floats:
    """Position of the class the model gives each query; 0 for a regressor."""
    return np.zeros(len(cfs)) if explainer.blackbox_.task == "regression" else explainer.blackbox_.codes(cfs.before)
