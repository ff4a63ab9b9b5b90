"""Facts about the floor of networks: it is what brute force finds, and nothing that is refused is guessed at."""

from functools import cache
from itertools import combinations, product
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler
from sklearn.svm import LinearSVC

from relax_plugin import BlackBox, FeatureSpace, Goal, make_explainer
from relax_plugin.errors import GoalError, UnsupportedError
from relax_plugin.networks.floor import NetworkFloor, floor, least_distance

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

RNG = np.random.default_rng(5)
COUNT = 250
ROWS = pd.DataFrame(
    {
        "halves": RNG.integers(-4, 5, COUNT) / 2,
        "count": RNG.integers(0, 7, COUNT),
        "tens": RNG.integers(1, 6, COUNT) * 10.0,
        "red": 0,
        "green": 0,
        "blue": 0,
        "member": RNG.integers(0, 2, COUNT),
    }
)
COLOUR = RNG.integers(0, 3, COUNT)
for place, name in enumerate(("red", "green", "blue")):
    ROWS[name] = (place == COLOUR).astype(int)
SIGNAL = (
    ROWS["halves"] - 0.6 * (ROWS["count"] - 3) + ROWS["tens"] / 20 * (2 * ROWS["member"] - 1) + 1.5 * (COLOUR == 1)
).to_numpy() + 0.3 * RNG.normal(size=COUNT)
TWO, THREE = np.where(SIGNAL > 0.3, "yes", "no"), np.digitize(SIGNAL, [-1.0, 1.2])
GROUP = {"colour": ["red", "green", "blue"]}
STEPS = {"halves": 0.5, "tens": 10}
QUERIES = ROWS.iloc[[0, 3, 7, 12]]
SPACES = {
    "free": FeatureSpace.infer(ROWS, one_hot=GROUP, categorical=["member"], steps=STEPS),
    "tight": FeatureSpace.infer(
        ROWS,
        one_hot=GROUP,
        categorical=["member"],
        increase_only=["halves"],
        decrease_only=["count"],
        immutable=["member"],
        bounds={"tens": (20, 40), "colour": ["red", "blue"]},
        steps={"halves": 0.5, "tens": 20},
        costs={"count": 3.0},
    ),
    "ruled": FeatureSpace.infer(
        ROWS, one_hot=GROUP, categorical=["member"], steps=STEPS, rules=["count >= 2", "tens >= was(tens)"]
    ),
}


@cache
def network(kind: str) -> Any:
    mlp: dict[str, Any] = {"hidden_layer_sizes": (9, 6), "max_iter": 80, "solver": "lbfgs", "random_state": 0}
    if kind == "number":
        scaled = make_pipeline(StandardScaler(), MLPRegressor(**mlp))
        return TransformedTargetRegressor(scaled, transformer=StandardScaler()).fit(ROWS, 3 * SIGNAL + 7)
    if kind == "torch":
        copied = network("two")
        scale, net = copied[0], copied[1]
        module = torch.nn.Sequential(
            torch.nn.BatchNorm1d(7, affine=False),
            *(torch.nn.Linear(7, 9), torch.nn.ReLU(), torch.nn.Dropout(0.5)),
            *(torch.nn.Linear(9, 6), torch.nn.ReLU(), torch.nn.Linear(6, 1), torch.nn.Sigmoid()),
        )
        module[0].running_mean[:] = torch.tensor(scale.mean_)
        module[0].running_var[:] = torch.tensor(scale.var_)
        for layer, weights, bias in zip((module[1], module[4], module[6]), net.coefs_, net.intercepts_, strict=True):
            layer.weight.data, layer.bias.data = torch.tensor(weights.T).float(), torch.tensor(bias).float()
        return module
    depth = {"deep": (6, 6, 6), "one": (7,), "none": ()}.get(kind, (9, 6))
    labels = THREE if kind in ("three", "deep") else TWO
    return make_pipeline(StandardScaler(), MLPClassifier(**mlp | {"hidden_layer_sizes": depth})).fit(ROWS, labels)


def every_choice(space: FeatureSpace, start: np.ndarray) -> list[list[float]]:
    """Every other value that each feature of a query may get, by looking at the constraints one by one."""
    limits, found = space.limits(), []
    for j, feature in enumerate(space.features):
        if feature.kind == "categorical":
            candidates = [float(code) for code in range(len(feature.categories))]
        else:
            assert feature.step is not None
            first, last = (np.rint((end - feature.anchor) / feature.step) for end in (feature.low, feature.high))
            candidates = [round(feature.anchor + number * feature.step, 6) for number in np.arange(first - 1, last + 2)]
        rows = np.repeat(start[None], len(candidates), axis=0)
        rows[:, j] = candidates
        kept = limits.kept(rows, np.repeat(start[None], len(rows), axis=0)) & (rows[:, j] != start[j])
        found.append(rows[kept, j].tolist())
    return found


def brute_force(model: Any, space: FeatureSpace, goal: Goal | None, most: int, row: int) -> tuple[int, float, float]:
    """The fewest changes (-1: none), the least distance at that, and the least of all within `most` changes."""
    query = QUERIES.iloc[[row]]
    blackbox, start = BlackBox(model, space), space.values(query)[0]
    blackbox.learn(space.values(ROWS))
    bound = (goal or Goal.flip()).bind(blackbox, blackbox.confirm(query))
    if bound.met(blackbox.confirm(query))[0]:
        return 0, 0.0, 0.0
    choices, fewest, near, nearest = every_choice(space, start), -1, np.inf, np.inf
    for k in range(1, most + 1):
        rows = []
        for chosen in combinations(range(len(space)), k):
            for cells in product(*(choices[j] for j in chosen)):
                row_ = start.copy()
                row_[list(chosen)] = cells
                rows.append(row_)
        if not rows:
            continue
        values = np.array(rows)
        answer = blackbox.confirm(space.model_input(values))
        met = bound.take(np.zeros(len(values), dtype=int)).met(answer) & ruled(space, values, start)
        if met.any():
            least = space.distance(values[met], start).min()
            nearest = min(nearest, least)
            if fewest < 0:
                fewest, near = k, least
    return fewest, near, nearest


def ruled(space: FeatureSpace, values: np.ndarray, start: np.ndarray) -> np.ndarray:
    """The two rules of the space that has some, written anew."""
    if not space.rules:
        return np.ones(len(values), dtype=bool)
    count, tens = space.names.index("count"), space.names.index("tens")
    return (values[:, count] >= 2) & (values[:, tens] >= start[tens])


CASES = [
    *(("two", None, space) for space in SPACES),
    *(("number", Goal.shift(6.0), space) for space in SPACES),
    ("three", None, "free"),
    ("three", Goal.to(2), "tight"),
    ("two", Goal.to("yes", min_probability=0.9), "free"),
    ("two", Goal.to("no", raise_by=0.2), "tight"),
    ("number", Goal.between(9.0, 10.0), "free"),
    ("deep", None, "free"),
    ("one", None, "tight"),
    ("none", None, "free"),
    ("torch", None, "free"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "goal", "space"), CASES, ids=lambda case: getattr(case, "kind", case))
def test_the_fewest_changes_are_what_brute_force_finds(kind: str, goal: Goal | None, space: str) -> None:
    model, known = network(kind), SPACES[space]
    best = floor(model, known, QUERIES, goal, most_changes=2, seconds_per_row=60)
    assert not best.notes.any()
    for row in range(len(QUERIES)):
        fewest, near, _ = brute_force(model, known, goal, 2, row)
        assert best.changes[row] == fewest
        assert best.proved[row] == (fewest if fewest >= 0 else 3) or not best.possible[row]
        assert best.possible[row] or fewest < 0
        if fewest > 0:
            assert best.distance[row] == pytest.approx(near, rel=2e-4)
            assert best.closest[row]
    start = known.values(QUERIES)
    assert known.limits().kept(best.values, start).all()


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "goal"), [("two", None), ("number", Goal.shift(6.0)), ("three", None)])
def test_the_least_distance_is_what_brute_force_finds(kind: str, goal: Goal | None) -> None:
    model, known = network(kind), SPACES["tight"]
    few = QUERIES.iloc[:2]
    best = least_distance(model, known, few, goal, few_changes=1, seconds_per_row=60)
    for row in range(len(few)):
        fewest, _, nearest = brute_force(model, known, goal, len(known), row)
        assert best.possible[row] == (fewest >= 0)
        if fewest > 0:
            assert best.distance[row] == pytest.approx(nearest, rel=1e-3)
            assert nearest * (1 - 2e-3) <= best.at_least[row] <= nearest * (1 + 1e-6)


def test_what_is_impossible_is_proved_to_be() -> None:
    known = SPACES["free"]
    limits = known.limits(vary=["member"])
    told = floor(network("two"), known, QUERIES, limits=limits, most_changes=2)
    alone = [
        brute_force(network("two"), known.with_features(_frozen(known)), None, 1, row)[0] for row in range(len(QUERIES))
    ]
    assert (told.possible == (np.array(alone) >= 0)).all()
    assert not told.possible.all()
    assert "no counterfactual exists within the limits" in told.sentences()


def _frozen(space: FeatureSpace) -> list[Any]:
    from dataclasses import replace

    return [f if f.name == "member" else replace(f, immutable=True) for f in space.features]


def test_no_method_is_better_than_the_floor() -> None:
    model, known = network("two"), SPACES["free"]
    best = floor(model, known, QUERIES, most_changes=4)
    result = make_explainer("greedy", model, known).fit(ROWS).explain(QUERIES)
    assert (result.sparsity[:, 0] >= best.changes).all()
    same = result.sparsity[:, 0] == best.changes
    assert (result.proximity[same, 0] >= best.distance[same] * (1 - 1e-4)).all()


def test_the_time_limit_ends_a_proof_where_it_is_and_says_so() -> None:
    told = floor(network("two"), SPACES["free"], QUERIES, most_changes=3, seconds_per_row=0.0)
    assert (told.proved == 1).all()
    assert all("time was over" in note for note in told.notes)
    assert (told.changes == -1).all()


def test_a_forest_is_refused_and_a_network_behind_a_scaler_is_not() -> None:
    rows = ROWS[["halves", "count", "tens"]].astype(float)
    model = make_pipeline(StandardScaler(), MLPClassifier((4,), max_iter=20, random_state=0)).fit(rows, TWO)
    with pytest.raises(UnsupportedError, match="skipped because"):
        floor(RandomForestClassifier(3).fit(rows, TWO), FeatureSpace.infer(rows), rows[:2])
    assert floor(model, FeatureSpace.infer(rows), rows[:2]).proved.min() >= 0


@pytest.mark.parametrize(
    ("model", "told"),
    [
        (lambda: RandomForestClassifier(3).fit(ROWS, TWO), "the model is a RandomForestClassifier"),
        (lambda: MLPClassifier((3,), activation="tanh", max_iter=5).fit(ROWS, TWO), "rectifiers"),
        (
            lambda: make_pipeline(PolynomialFeatures(), MLPClassifier((3,), max_iter=5)).fit(ROWS, TWO),
            "PolynomialFeatures",
        ),
        (lambda: torch.nn.Sequential(torch.nn.Linear(7, 3), torch.nn.GELU(), torch.nn.Linear(3, 1)), "GELU"),
    ],
)
def test_other_models_are_refused_by_a_sentence(model: Any, told: str) -> None:
    with pytest.raises(UnsupportedError, match=rf"skipped because .*{told}.*\.$"):
        floor(model(), FeatureSpace.infer(ROWS), QUERIES)


def test_other_tables_are_refused_by_a_sentence() -> None:
    text = ROWS.assign(word="a")
    with pytest.raises(UnsupportedError, match=r"'word' .*one-hot"):
        floor(network("two"), FeatureSpace.infer(text.assign(word=["a", "b"] * 125)), text[:2])
    derived = FeatureSpace.infer(ROWS.assign(sum=ROWS["halves"] + ROWS["tens"]), derived={"sum": "halves + tens"})
    with pytest.raises(UnsupportedError, match="'sum' is derived"):
        floor(network("two"), derived, QUERIES)
    with pytest.raises(UnsupportedError, match="more than two"):
        floor(network("three"), SPACES["free"], QUERIES, Goal.to(1, min_probability=0.7))
    with pytest.raises(GoalError):
        floor(network("number"), SPACES["free"], QUERIES)


def test_a_network_that_does_not_answer_as_its_weights_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    model = MLPClassifier((4,), max_iter=20, random_state=0).fit(ROWS, TWO)
    real = MLPClassifier.predict_proba
    monkeypatch.setattr(MLPClassifier, "predict_proba", lambda self, rows: real(self, rows)[:, ::-1])
    with pytest.raises(UnsupportedError, match="does not answer"):
        floor(model, FeatureSpace.infer(ROWS), QUERIES)


@pytest.mark.parametrize("kind", [LogisticRegression, LinearSVC], ids=["probabilities", "decisions"])
def test_linear_models_have_a_floor_too(kind: Any) -> None:
    model = kind().fit(ROWS, TWO)
    best = floor(model, SPACES["free"], QUERIES, most_changes=1)
    assert isinstance(best, NetworkFloor)
    for row in range(len(QUERIES)):
        assert best.changes[row] == brute_force(model, SPACES["free"], None, 1, row)[0]
