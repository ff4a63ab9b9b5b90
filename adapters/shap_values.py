"""Shapley values of pairs of a query and its counterfactual: exact, over all coalitions, or by shap's own sampler."""

from importlib import import_module
from math import comb
from typing import Any

import numpy as np

from relax_plugin.arrays import Floats, Values
from relax_plugin.base import whole_number
from relax_plugin.errors import InputError, MissingExtraError


def shapley(blackbox: Any, start: Values, end: Values) -> Floats:
    """Shapley values and f(x') of pairs, for every output (pairs, features + 1, outputs), in one call."""
    changed = start != end
    count = changed.sum(axis=1)
    first = np.cumsum(2**count) - 2**count
    owner = np.repeat(np.arange(len(count)), 2**count)
    coalition = np.arange(len(owner)) - first[owner]
    # Bit r of a coalition says whether the r-th changed feature has the query's value: 0 is the counterfactual.
    bit = np.maximum(np.cumsum(changed, axis=1) - 1, 0)
    inside = ((coalition[:, None] >> bit[owner]) & 1).astype(bool) & changed[owner]
    f = outputs(blackbox, np.where(inside, start[owner], end[owner]))
    # Φ_j = Σ_S |S|! (k - |S| - 1)! / k! (f(S ∪ j) - f(S)): a coalition counts for its members and against the rest.
    weights = _weights(int(count.max()))
    size, k = inside.sum(axis=1), count[owner]
    share = np.where(inside, weights[k, size - 1][:, None], -weights[k, size][:, None]) * changed[owner]
    values = [np.add.reduceat(f[:, [output]] * share, first, axis=0) for output in range(f.shape[1])]
    return np.concatenate([np.stack(values, axis=2), f[first][:, None]], axis=1)


def by_shap(f: Any, X: Values, background: Values, permutations: int, seed: int, max_evals: int | str = "auto") -> Any:
    """shap's own answer, exact without permutations; its sampler seeds the global generator, which is put back."""
    shap_, X, background = library("shap", "shap"), np.atleast_2d(X), np.atleast_2d(background)
    masker = shap_.maskers.Independent(background, max_samples=len(background))
    if permutations == 0:
        return shap_.ExactExplainer(f, masker)(X, silent=True)
    varied = int((X[:, None] != background).any(axis=(0, 1)).sum())
    least = 2 * varied + 1
    if max_evals == "auto":
        max_evals = permutations * least
    elif int(max_evals) < least:
        raise InputError(f"max_evals is {max_evals}, but {varied} changed features need at least {least} model rows.")
    state = np.random.get_state()  # noqa: NPY002
    try:
        return shap_.PermutationExplainer(f, masker, seed=seed)(X, max_evals=max_evals, silent=True)
    finally:
        np.random.set_state(state)  # noqa: NPY002


def exact_within(max_evals: int | str) -> int:
    """The most changed features whose coalitions are not more than these model rows."""
    if isinstance(max_evals, str):
        raise InputError(f'max_evals is {max_evals!r}; a whole number of model rows or "auto" is needed.')
    return whole_number("max_evals", max_evals, 1).bit_length() - 1


def outputs(blackbox: Any, rows: Values) -> Floats:
    """f of each row for every class, (rows, classes); of a regressor (rows, 1). Derived columns follow."""
    answer = blackbox.ask(rows)
    if blackbox.task == "regression":
        return np.asarray(answer.output, dtype=np.float64)[:, None]
    if answer.scores is None:
        return np.asarray(answer.output[:, None] == np.arange(len(blackbox.classes)), dtype=np.float64)
    return np.asarray(answer.scores)


def scores(blackbox: Any, own: Any, rows: Values) -> Floats:
    """f of each row for one class."""
    return outputs(blackbox, rows)[:, int(own)]


def _weights(most: int) -> Floats:
    """weights[k, s] = s! (k - s - 1)! / k! for s < k, and 0 elsewhere."""
    sizes = range(most + 1)
    return np.array([[1.0 / (k * comb(k - 1, s)) if s < k else 0.0 for s in sizes] for k in sizes])


def library(module: str, extra: str) -> Any:
    try:
        return import_module(module)
    except ImportError as error:
        raise MissingExtraError(f"this needs {module}: pip install 'relax-plugin[{extra}]'.") from error
