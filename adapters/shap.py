"""SHAP's face: counterfactual Shapley values, and how far SHAP's ranking agrees with what counterfactuals change.

Counterfactual Shapley values (Albini et al., 2022) take the counterfactual x' as the background: they share out
f(x) - f(x') among the changed features, so that "what would have to change" also says how much each change does.
"""

import warnings
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from math import comb
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from relax_plugin.arrays import Floats, Values
from relax_plugin.base import CounterfactualExplainer, fitted, whole_number
from relax_plugin.errors import InputError, MissingExtraError
from relax_plugin.features import Rows
from relax_plugin.results import Counterfactuals

if TYPE_CHECKING:
    import shap
    from matplotlib.figure import Figure


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

    `n` counterfactuals a query are asked of the fitted explainer. One that changes k features costs 2^k model rows;
    above `most_exact` of them shap's permutation sampler, with this `seed`, estimates the values (they still sum to the
    difference), and a warning says so.
    """

    def __init__(self, explainer: CounterfactualExplainer, *, n: int = 1, most_exact: int = 12, seed: int = 0) -> None:
        self.explainer = fitted(explainer)
        self.n = whole_number("n", n, 1)
        self.most_exact = whole_number("most_exact", most_exact, 0)
        self.seed = seed

    def __call__(self, X: Rows) -> "shap.Explanation":
        """Find counterfactuals for the rows, and share out the difference among the changed features."""
        return self.attribute(self.explainer.explain(X, n=self.n))

    def attribute(self, counterfactuals: Counterfactuals) -> "shap.Explanation":
        """The same for counterfactuals that this explainer has found already, under whatever goal and constraints.

        A query without a counterfactual keeps its row, with all values 0 and f(x) as base value, since shap's plots
        cannot draw NaN; a warning counts them. The explanation (not its slices) has the attributes `found` and
        `sampled`, bool arrays (queries,), and `counterfactuals`.
        """
        found, start, space = counterfactuals.found, counterfactuals.start, counterfactuals.space
        unsolved = np.flatnonzero(~found.any(axis=1))
        query, slot = np.nonzero(found)
        # A query without a counterfactual is its own background: one model row, and no feature has a share.
        end = np.concatenate([counterfactuals.values[query, slot], start[unsolved]])
        query = np.concatenate([query, unsolved])
        classes = _classes(self.explainer, counterfactuals)[query]
        many = (start[query] != end).sum(axis=1) > self.most_exact
        values = np.zeros((len(end), len(space) + 1))  # the last column is f(x')
        for where, method in ((~many, self._exact), (many, self._sampled)):
            if where.any():
                values[where] = method(start[query[where]], end[where], classes[where])
        if many.any():
            text = f"{many.sum()} counterfactuals change more than {self.most_exact} features; shap sampled them."
            warnings.warn(text, stacklevel=2)
        if len(unsolved):
            text = f"{len(unsolved)} of {len(found)} queries have no counterfactual; their values are 0 (see `found`)."
            warnings.warn(text, stacklevel=2)
        means = np.zeros((len(found), len(space) + 1))
        np.add.at(means, query, values / np.bincount(query, minlength=1)[query][:, None])
        explanation = _library("shap", "shap").Explanation(
            means[:, :-1],
            base_values=means[:, -1],
            data=start,
            display_data=space.frame(counterfactuals.queries).to_numpy() if space.is_categorical.any() else None,
            feature_names=[str(name) for name in space.names],
        )
        explanation.counterfactuals, explanation.found = counterfactuals, found.any(axis=1)
        explanation.sampled = np.isin(np.arange(len(found)), query[many])
        return explanation

    def _exact(self, start: Values, end: Values, classes: Floats) -> Floats:
        """Shapley values and f(x') of pairs, in calls of about `CALL_ROWS` model rows."""
        rows = np.cumsum(2 ** (start != end).sum(axis=1))
        pieces = np.split(np.arange(len(rows)), np.flatnonzero(np.diff((rows - 1) // CALL_ROWS)) + 1)
        return np.concatenate([self._shapley(start[piece], end[piece], classes[piece]) for piece in pieces])

    def _shapley(self, start: Values, end: Values, classes: Floats) -> Floats:
        changed = start != end
        count = changed.sum(axis=1)
        first = np.cumsum(2**count) - 2**count
        owner = np.repeat(np.arange(len(count)), 2**count)
        coalition = np.arange(len(owner)) - first[owner]
        # Bit r of a coalition says whether the r-th changed feature has the query's value: 0 is the counterfactual.
        bit = np.maximum(np.cumsum(changed, axis=1) - 1, 0)
        inside = ((coalition[:, None] >> bit[owner]) & 1).astype(bool) & changed[owner]
        f = _scores(self.explainer, classes[owner], np.where(inside, start[owner], end[owner]))
        # Φ_j = Σ_S |S|! (k - |S| - 1)! / k! (f(S ∪ j) - f(S)): a coalition counts for its members and against the rest.
        weights = _weights(int(count.max()))
        size, k = inside.sum(axis=1), count[owner]
        share = np.where(inside, weights[k, size - 1][:, None], -weights[k, size][:, None]) * changed[owner]
        return np.column_stack([np.add.reduceat(f[:, None] * share, first, axis=0), f[first]])

    def _sampled(self, start: Values, end: Values, classes: Floats) -> Floats:
        """shap's permutation sampler, one pair after the other: each counterfactual is a background of its own."""
        pairs, f = zip(classes, start, end, strict=True), partial(_scores, self.explainer)
        made = [_by_shap(partial(f, own), x, y, PERMUTATIONS, self.seed) for own, x, y in pairs]
        return np.array([[*one.values[0], one.base_values[0]] for one in made])


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
        figure: Figure = _library("matplotlib.figure", "plots").Figure(figsize=(11.0, 4.5), layout="constrained")
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
        if background is None and not hasattr(explainer, "known_"):
            raise InputError("this explainer was read from a file, without training rows; pass some as background.")
        rows = explainer.known_[0][:BACKGROUND_ROWS] if background is None else explainer.space_.values(background)
        classes, shap_values = _classes(explainer, cfs), np.zeros(cfs.start.shape)
        permutations = 0 if len(cfs.space) <= EXACT_FEATURES else SHAP_PERMUTATIONS
        for own in np.unique(classes):  # shap explains one f for all rows it is given
            f, mine = partial(_scores, explainer, own), classes == own
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
    features = pd.DataFrame({"feature": cfs.space.names, "mean_abs_shap": size.mean(axis=0), "changed_share": share})
    ranks = features[["mean_abs_shap", "changed_share"]].rank(ascending=False).to_numpy()
    features = features.assign(shap_rank=ranks[:, 0], changed_rank=ranks[:, 1])
    return ShapAgreement(table, features.sort_values("shap_rank", ignore_index=True))


def _by_shap(f: Any, X: Values, background: Values, permutations: int, seed: int) -> Any:
    """shap's own answer, exact without permutations; its sampler seeds the global generator, which is put back."""
    shap_, X, background = _library("shap", "shap"), np.atleast_2d(X), np.atleast_2d(background)
    masker = shap_.maskers.Independent(background, max_samples=len(background))
    if permutations == 0:
        return shap_.ExactExplainer(f, masker)(X, silent=True)
    varied = int((X[:, None] != background).any(axis=(0, 1)).sum())
    state = np.random.get_state()  # noqa: NPY002
    try:
        sampler = shap_.PermutationExplainer(f, masker, seed=seed)
        return sampler(X, max_evals=permutations * (2 * varied + 1), silent=True)
    finally:
        np.random.set_state(state)  # noqa: NPY002


def _scores(explainer: CounterfactualExplainer, classes: Any, rows: Values) -> Floats:
    """f of each row, seen from the class of its query."""
    answer = explainer.blackbox_.ask(rows)
    if explainer.blackbox_.task == "regression":
        return answer.output
    if answer.scores is None:
        return np.asarray(answer.output == classes, dtype=np.float64)
    return np.asarray(answer.scores[np.arange(len(rows)), np.asarray(classes, dtype=int)])


def _classes(explainer: CounterfactualExplainer, cfs: Counterfactuals) -> Floats:
    """Position of the class the model gives each query; 0 for a regressor."""
    return np.zeros(len(cfs)) if explainer.blackbox_.task == "regression" else explainer.blackbox_.codes(cfs.before)


def _weights(most: int) -> Floats:
    """weights[k, s] = s! (k - s - 1)! / k! for s < k, and 0 elsewhere."""
    sizes = range(most + 1)
    return np.array([[1.0 / (k * comb(k - 1, s)) if s < k else 0.0 for s in sizes] for k in sizes])


def _library(module: str, extra: str) -> Any:
    try:
        return import_module(module)
    except ImportError as error:
        raise MissingExtraError(f"this needs {module}: pip install 'relax-plugin[{extra}]'.") from error
