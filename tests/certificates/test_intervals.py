"""Facts about plain intervals: what they call out of reach brute force does not find, and they know what they know."""

from functools import cache
from itertools import combinations, product
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import TransformedTargetRegressor
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, PolynomialFeatures, StandardScaler

from relax_plugin import FeatureSpace, Goal
from relax_plugin.certificates.allowed import allowed_of
from relax_plugin.certificates.intervals import Network, out_of_reach
from relax_plugin.certificates.native import Native, meets

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

RNG = np.random.default_rng(3)
ROWS = pd.DataFrame(RNG.integers(0, 5, (200, 4)), columns=list("abcd"))
NUMBER = (ROWS["a"] - ROWS["b"] + 0.5 * ROWS["c"] * (ROWS["d"] > 2)).to_numpy(dtype=float)
SPACE = FeatureSpace.infer(ROWS, increase_only=["a"], categorical=["d"], bounds={"c": (1, 3)})
OPTIONS: dict[str, Any] = {"max_iter": 400, "random_state": 0}
MODELS = {
    "two classes": lambda: make_pipeline(StandardScaler(), MLPClassifier((8, 6), **OPTIONS)).fit(ROWS, NUMBER > 1),
    "three classes": lambda: make_pipeline(MinMaxScaler(), MLPClassifier((8,), **OPTIONS)).fit(
        ROWS, np.digitize(NUMBER, [-1.0, 1.5])
    ),
    "number": lambda: TransformedTargetRegressor(
        make_pipeline(StandardScaler(), MLPRegressor(hidden_layer_sizes=(8, 6), **OPTIONS)),
        transformer=StandardScaler(),
    ).fit(ROWS, 3.0 * NUMBER + 1.0),
}


@cache
def model(name: str) -> Any:
    return MODELS[name]()


def there_is_one(name: str, row: int, goal: Goal, most: int) -> bool:
    """Whether a row with up to so many changes meets the goal, by asking about all of them."""
    start = ROWS.iloc[row].to_numpy()
    lines = [range(start[0], 5), range(5), [*range(1, 4), start[2]], range(5)]
    native = Native(model(name), "auto")
    before = native.ask(ROWS.iloc[[row]])
    for chosen in combinations(range(4), most):
        cells = np.array(list(product(*(lines[j] for j in chosen))))
        rows = np.repeat(start[None], len(cells), axis=0)
        rows[:, list(chosen)] = cells
        if meets(goal, before, native.ask(pd.DataFrame(rows, columns=list("abcd")))).any():
            return True
    return False


def shown(name: str, row: int, goal: Goal, most: int, space: FeatureSpace = SPACE) -> str | None:
    before = Native(model(name), "auto").ask(ROWS.iloc[[row]])
    start = space.values(ROWS.iloc[[row]])[0]
    native = Native(model(name), "auto")
    return out_of_reach(native, model(name), space, allowed_of(space, None), start, goal, before, most)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "goal"),
    [
        ("two classes", Goal.flip()),
        ("three classes", Goal.flip()),
        ("three classes", Goal.to(0)),
        ("three classes", Goal.to(2)),
        ("number", Goal.shift(8.0)),
        ("number", Goal.shift(3.0, direction="down")),
        ("number", Goal.between(2.0, 3.5)),
    ],
)
def test_what_is_out_of_reach_is_not_found_by_brute_force(name: str, goal: Goal) -> None:
    decided = []
    for row in [*range(12), 28, 57]:  # of three classes, the last two are far from another one
        before = Native(model(name), "auto").ask(ROWS.iloc[[row]])
        if meets(goal, before, before)[0]:
            continue
        for most in (1, 2):
            told, there = shown(name, row, goal, most), there_is_one(name, row, goal, most)
            assert not (told and there)
            decided.append((bool(told), there))
    assert (True, False) in decided and (False, True) in decided
    assert sum(told for told, _ in decided) >= 0.7 * sum(not there for _, there in decided)


def test_what_is_not_known_is_left_open() -> None:
    free = next(row for row in range(20) if shown("two classes", row, Goal.flip(), 1))
    assert shown("two classes", free, Goal.flip(min_probability=0.9), 1) is None
    gone = FeatureSpace.infer(ROWS.astype(float), may_vanish=["c"])
    assert shown("two classes", free, Goal.flip(), 1, gone) is None
    smooth = MLPClassifier((4,), activation="tanh", max_iter=5).fit(ROWS, NUMBER > 1)
    short = MLPClassifier((4,), max_iter=5).fit(ROWS.to_numpy(dtype=np.float32), NUMBER > 1)
    bent = make_pipeline(PolynomialFeatures(), MLPClassifier((4,), max_iter=5)).fit(ROWS, NUMBER > 1)
    cut = make_pipeline(MinMaxScaler(clip=True), MLPClassifier((4,), max_iter=5)).fit(ROWS, NUMBER > 1)
    assert [Network.of(one) for one in (smooth, short, bent, cut)] == [None] * 4
