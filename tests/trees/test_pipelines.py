"""Facts about trees behind pipelines: their tests, moved onto the features, answer as the whole pipeline does."""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
from reference.floor import every_row, slow_floor
from reference.near_thresholds import rows_near_thresholds
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.ensemble import (
    AdaBoostClassifier,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.feature_selection import VarianceThreshold
from sklearn.impute import KNNImputer, SimpleImputer
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    RobustScaler,
    StandardScaler,
)
from sklearn.tree import DecisionTreeClassifier

from relax_plugin import BlackBox, FeatureSpace, Goal, make_explainer
from relax_plugin.errors import UnsupportedError
from relax_plugin.trees.floor import certify, floor
from relax_plugin.trees.readers import read_trees, why_unreadable

lightgbm = pytest.importorskip("lightgbm")
xgboost = pytest.importorskip("xgboost")

RNG = np.random.default_rng(12)
ROWS = 400
TABLE = pd.DataFrame(
    {
        "job": RNG.choice(["clerk", "driver", "nurse", "smith"], ROWS, p=[0.4, 0.3, 0.25, 0.05]),
        "amount": (1000 * RNG.lognormal(size=ROWS)).round(2),
        "home": RNG.choice(["own", "rent", "none"], ROWS),
        "age": RNG.integers(18, 80, ROWS),
        "rate": RNG.normal(size=ROWS).astype(np.float32),
        "score": RNG.normal(size=ROWS).round(1),
        "member": RNG.random(ROWS) < 0.5,
    }
)
HOLED = TABLE.assign(score=TABLE["score"].mask(RNG.random(ROWS) < 0.2))
SIGNAL = (
    (TABLE["job"] == "nurse") * 1.5
    + (TABLE["home"] == "own")
    - (TABLE["home"] == "none") * TABLE["member"]
    + TABLE["rate"]
    + TABLE["score"]
    + 0.03 * (TABLE["age"] - 45)
    + np.log(TABLE["amount"] / 1000)
).to_numpy() + RNG.normal(size=ROWS)
TWO, THREE = (SIGNAL > 0.5).astype(int), np.digitize(SIGNAL, [-0.3, 1.3])
WORDS, NUMBERS = make_column_selector(dtype_exclude="number"), make_column_selector(dtype_include="number")


def columns(words: Any, numbers: Any, **options: Any) -> ColumnTransformer:
    return ColumnTransformer([("words", words, WORDS), ("numbers", numbers, NUMBERS)], **options)


FRONTS: dict[str, Callable[[], Any]] = {
    "one-hot": lambda: columns(OneHotEncoder(), "passthrough"),
    "one-hot, scaled": lambda: columns(OneHotEncoder(sparse_output=False), StandardScaler()),
    "one-hot without a first, rare ones together": lambda: columns(
        OneHotEncoder(drop="first", min_frequency=40, sparse_output=False, handle_unknown="ignore"),
        make_pipeline(SimpleImputer(strategy="median", add_indicator=True), RobustScaler()),
    ),
    "ordinal": lambda: columns(OrdinalEncoder(), make_pipeline(MinMaxScaler((-1, 3)), MaxAbsScaler())),
    "ordinal, constant imputed": lambda: columns(
        OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1), SimpleImputer(strategy="constant")
    ),
    "columns by place, some dropped": lambda: ColumnTransformer(
        [("jobs", OneHotEncoder(), [0]), ("away", "drop", [2, 6]), ("amounts", StandardScaler(), slice(3, 5))],
        remainder="passthrough",
    ),
    "two ways of one column": lambda: make_pipeline(
        ColumnTransformer(
            [
                ("numbers", FeatureUnion([("raw", "passthrough"), ("scaled", StandardScaler())]), ["age", "score"]),
                ("words", make_pipeline(OneHotEncoder(sparse_output=False), VarianceThreshold(0.1)), ["job", "home"]),
            ]
        ),
        FunctionTransformer(),
    ),
}
FINALS: dict[str, Callable[[], Any]] = {
    "tree": lambda: DecisionTreeClassifier(random_state=0),
    "even forest": lambda: RandomForestClassifier(4, max_depth=3, random_state=0),
    "forest": lambda: RandomForestClassifier(20, random_state=0),
    "extra trees": lambda: ExtraTreesClassifier(10, random_state=0),
    "gradient boosting": lambda: GradientBoostingClassifier(n_estimators=15, random_state=0),
    "adaboost": lambda: AdaBoostClassifier(DecisionTreeClassifier(max_depth=2), n_estimators=15, random_state=0),
    "histograms": lambda: HistGradientBoostingClassifier(max_iter=15),
    "xgboost": lambda: xgboost.XGBClassifier(n_estimators=15, n_jobs=1),
    "lightgbm": lambda: lightgbm.LGBMClassifier(n_estimators=15, n_jobs=1, verbose=-1),
}
# Every front with three of the finals, every final behind two fronts at least.
PAIRS = [(front, list(FINALS)[(4 * i + 3 * k) % len(FINALS)]) for i, front in enumerate(FRONTS) for k in range(3)]
TAKES_GAPS = ("tree", "forest", "even forest", "extra trees", "histograms", "xgboost", "lightgbm")
SPACE = FeatureSpace.infer(TABLE)


@cache
def fitted(front: str, final: str, holed: bool = False) -> Any:
    before = FRONTS[front]()
    if final == "xgboost":
        for part in (before, *getattr(before, "named_steps", {}).values()):
            if isinstance(part, ColumnTransformer):
                part.set_params(sparse_threshold=0)
    return make_pipeline(before, FINALS[final]()).fit(HOLED if holed else TABLE, THREE if final == "forest" else TWO)


def differing(model: Any, space: FeatureSpace, rows: Any) -> int:
    trees = read_trees(model, space)
    told = trees.labels(rows)
    told = told if trees.decision.classes is None else np.asarray(trees.decision.classes)[told.astype(int)]
    return int((told != model.predict(space.model_input(rows))).sum())


@pytest.mark.slow
@pytest.mark.parametrize(("front", "final"), PAIRS)
def test_answers_are_those_of_the_pipeline_at_thresholds_and_beside_them(front: str, final: str) -> None:
    imputed = "imputed" in front or "rare" in front
    gaps = ("score",) if imputed or (final in TAKES_GAPS) else ()
    model = fitted(front, final, bool(gaps))
    rows = rows_near_thresholds(read_trees(model, SPACE), SPACE, SPACE.values(TABLE), 3000, RNG, gaps)
    assert differing(model, SPACE, rows) == 0


def test_a_float32_column_is_scaled_in_its_own_precision() -> None:
    rows = TABLE[["rate"]].assign(other=TABLE["score"].astype(np.float32))
    model = make_pipeline(StandardScaler(), RandomForestRegressor(5, random_state=0)).fit(rows, SIGNAL)
    space = FeatureSpace.infer(rows)
    asked = rows_near_thresholds(read_trees(model, space), space, space.values(rows), 2000, RNG)
    assert differing(model, space, asked) == 0


def test_a_number_that_only_some_steps_fill_is_refused_where_the_trees_take_none() -> None:
    front = ColumnTransformer([("filled", SimpleImputer(), ["score"])], remainder="passthrough")
    rows = HOLED[["score", "age"]]
    model = make_pipeline(front, GradientBoostingClassifier(n_estimators=5)).fit(rows, TWO)
    space = FeatureSpace.infer(rows.astype({"age": float}))
    trees, gap = read_trees(model, space), space.missing_codes
    assert trees.labels(np.array([[gap[0], 30.0]])) == model.predict(pd.DataFrame({"score": [np.nan], "age": [30.0]}))
    with pytest.raises(UnsupportedError, match="a number is missing"):
        trees.labels(np.array([[0.0, gap[1]]]))


@pytest.mark.slow
def test_cells_that_are_no_categories_go_where_the_pipeline_sends_them() -> None:
    front = columns(OneHotEncoder(handle_unknown="ignore"), "passthrough")
    gone = TABLE.assign(job=TABLE["job"].where(TABLE["age"] > 25, None))
    model = make_pipeline(front, RandomForestClassifier(10, random_state=0)).fit(gone, TWO)
    with pytest.warns(UserWarning, match="'home' is 'tent'"):
        space, values = SPACE.taking_in(gone.assign(home=gone["home"].where(gone["age"] > 20, "tent")))
    assert (values[:, 0] == 4).any() and (values[:, 2] == 3).any()
    assert not read_trees(model, space).unknown(values).any()
    assert differing(model, space, values) == 0
    strict = make_pipeline(columns(OneHotEncoder(), "passthrough"), DecisionTreeClassifier()).fit(TABLE, TWO)
    assert read_trees(strict, space).unknown(values).tolist() == ((values[:, 0] == 4) | (values[:, 2] == 3)).tolist()


def test_carried_cells_go_through_the_pipeline_together(monkeypatch: Any) -> None:
    rows = TABLE[NUMBERS].assign(since=pd.date_range("2020-01-01", periods=ROWS))
    front = ColumnTransformer([("numbers", StandardScaler(), NUMBERS)])
    model = make_pipeline(front, DecisionTreeClassifier(max_depth=3)).fit(rows, TWO)
    asked, transform = [], ColumnTransformer.transform
    monkeypatch.setattr(ColumnTransformer, "transform", lambda *given: (asked.append(1), transform(*given))[1])
    space, values = FeatureSpace.infer(rows, immutable=["since"]).taking_in(rows)
    trees = read_trees(model, space)
    assert len(asked) < 50 and not trees.unknown(values).any()
    assert (trees.labels(values) == model.predict(rows)).all()


def test_one_hot_columns_of_a_space_are_one_category() -> None:
    dummies = pd.get_dummies(TABLE[["job", "home"]]).astype(int).join(TABLE[["age", "rate"]])
    model = RandomForestClassifier(15, random_state=0).fit(dummies, TWO)
    groups = {name: [column for column in dummies if column.startswith(name)] for name in ("job", "home")}
    space = FeatureSpace.infer(dummies, one_hot=groups)
    trees = read_trees(model, space)
    assert trees.features == 4 and len(trees.sets) == 2
    assert differing(model, space, rows_near_thresholds(trees, space, space.values(dummies), 2000, RNG)) == 0


def test_a_column_derived_from_a_category_is_seen_as_that() -> None:
    rows = TABLE.assign(place=TABLE["home"].map({"none": 1, "rent": 2, "own": 3}))[["home", "place", "age"]]
    space = FeatureSpace.infer(rows, ordered={"home": ["none", "rent", "own"]}, derived={"place": "place(home)"})
    front = ColumnTransformer([("numbers", "passthrough", ["place", "age"])])
    model = make_pipeline(front, RandomForestClassifier(9, random_state=0)).fit(rows, TWO)
    assert differing(model, space, space.values(rows)) == 0
    twice = TABLE.assign(total=TABLE["age"] + TABLE["score"])[["age", "score", "total"]]
    space = FeatureSpace.infer(twice, derived={"total": "age + score"})
    model = DecisionTreeClassifier(max_depth=3, random_state=0).fit(twice, TWO)
    assert why_unreadable(model, space) == "it needs columns that are features, and 'total' is derived from others"


class Own(StandardScaler):
    """May do anything."""


@pytest.mark.parametrize(
    ("front", "reason"),
    [
        (PolynomialFeatures(), "the pipeline has a PolynomialFeatures"),
        (KNNImputer(), "the pipeline has a KNNImputer"),
        (Own(), "the model has a Own of another package"),
        (FunctionTransformer(np.abs), "the pipeline has a FunctionTransformer"),
        (OneHotEncoder(handle_unknown="ignore"), "'age' is one whose single values OneHotEncoder tells apart"),
        (SimpleImputer(missing_values=0), "'age' is one whose single values SimpleImputer tells apart"),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else "",
)
def test_what_is_not_seen_through_says_so(front: Any, reason: str) -> None:
    rows = TABLE[["age"]]
    model = make_pipeline(front, DecisionTreeClassifier(max_depth=3)).fit(rows, TWO)
    assert reason in str(why_unreadable(model, FeatureSpace.infer(rows)))
    with pytest.raises(UnsupportedError, match=r"^skipped because it .*\.$"):
        floor(model, FeatureSpace.infer(rows), rows[:2])


def test_zeros_of_a_sparse_matrix_are_missing_to_xgboost() -> None:
    front = columns(OneHotEncoder(), "passthrough", sparse_threshold=1.0)
    model = make_pipeline(front, xgboost.XGBClassifier(n_estimators=5, n_jobs=1)).fit(TABLE, TWO)
    assert "sparse_threshold=0 of the ColumnTransformer" in str(why_unreadable(model, SPACE))
    words = TABLE[["job", "home", "member"]]
    model = make_pipeline(OneHotEncoder(), xgboost.XGBClassifier(n_estimators=5, n_jobs=1)).fit(words, TWO)
    space = FeatureSpace.infer(words)
    assert differing(model, space, space.values(words)) == 0


# What looks into trees looks through pipelines, and proves what brute force finds.

SMALL = TABLE[["job", "home", "member", "age", "score"]].assign(
    age=TABLE["age"] // 10, score=(2 * TABLE["score"]).round() / 2
)
QUERIES, MOST = SMALL[:5], 2
FREE, TIGHT = (
    FeatureSpace.infer(SMALL),
    FeatureSpace.infer(
        SMALL,
        ordered={"home": ["none", "rent", "own"]},
        increase_only=["home", "age"],
        bounds={"job": ["clerk", "nurse", "smith"], "score": (-1, 1)},
        costs={"job": 2.5},
    ),
)


@cache
def small(final: str) -> Any:
    front = columns(OneHotEncoder(sparse_output=False), StandardScaler())
    return make_pipeline(front, FINALS[final]()).fit(SMALL, TWO)


@pytest.mark.slow
@pytest.mark.parametrize("space", [FREE, TIGHT], ids=["free", "tight"])
@pytest.mark.parametrize("final", ["even forest", "adaboost", "histograms", "xgboost"])
def test_the_floor_of_mixed_columns_is_what_brute_force_finds(final: str, space: FeatureSpace) -> None:
    model, goal = small(final), Goal.flip()
    blackbox, cuts = BlackBox(model, space), read_trees(model, space).cuts
    start = space.values(QUERIES)
    blackbox.learn(start)
    bound = goal.bind(blackbox, blackbox.confirm(QUERIES))
    best = floor(model, space, QUERIES, goal, most_changes=MOST)
    for row, one in enumerate(start):
        answered = every_row(blackbox, space, space.limits(), one, cuts, MOST)
        changes, distance = slow_floor(answered, space, one, bound.take(np.array([row])))
        assert best.changes[row] == changes
        assert best.distance[row] == pytest.approx(distance, rel=1e-12, nan_ok=True)
    solved = best.changes > 0
    assert solved.any() and ((best.values != start).sum(axis=1)[solved] == best.changes[solved]).all()
    assert space.limits().kept(best.values, start).all()


@pytest.mark.slow
@pytest.mark.parametrize("space", [FREE, TIGHT], ids=["free", "tight"])
def test_methods_that_look_into_trees_look_through_pipelines(space: FeatureSpace) -> None:
    model = small("even forest")
    best = floor(model, space, QUERIES, most_changes=len(space))
    for name in ("feat-tweak", "focus", "mace"):
        options = {"iterations": 100} if name == "focus" else {}
        explainer = make_explainer(name, model, space, max_changes=len(space), **options).fit(SMALL)
        found = explainer.explain(QUERIES)
        assert found.found[:, 0].sum() >= 3
        assert (found.sparsity[found.found] >= best.changes[found.found[:, 0]]).all()
        if name == "mace":
            assert (found.stages[found.found] == "optimal").all()
            assert (found.proximity[found.found] <= best.distance[found.found[:, 0]] + 1e-9).all()
        assert certify(found, explainer, most_changes=1).proofs is not None


@pytest.mark.slow
def test_regions_behind_a_pipeline_are_proved() -> None:
    model = small("even forest")
    explainer = make_explainer("greedy", model, FREE).fit(SMALL)
    found = explainer.explain(QUERIES)
    regions = found.regions(explainer)
    assert regions.proved.any() and not regions.wrong.any()
    wanted = found.after[found.found]
    for answer, row in enumerate(regions.values):
        boxes = regions.boxes.take(np.full(200, answer))
        drawn = boxes.drawn(np.arange(200), np.random.default_rng(0))
        assert drawn.shape == (200, len(row))
        assert (model.predict(FREE.model_input(drawn)) == wanted[answer]).all()
