"""Plausibility: what a detector says of rows, what a call may ask, and that every explainer keeps to it."""

import copy
from functools import cache
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest
from reference.every_explainer import ON_TREES, every_explainer
from sklearn.base import BaseEstimator, OutlierMixin
from sklearn.ensemble import IsolationForest, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import LocalOutlierFactor
from sklearn.svm import OneClassSVM

from relax_plugin import Counterfactuals, FeatureSpace, Plausibility, ReLAX, ReLAXConfig, make_explainer, plausibility
from relax_plugin.errors import InputError, NotFittedError, SavedFileError
from relax_plugin.plausibility import (
    ROWS_FITTED,
    ROWS_KEPT,
    Detector,
    Encoding,
    PlausibleRows,
    TrainingRows,
    read_plausibility,
)

RNG = np.random.default_rng(5)
LINE = RNG.normal(size=240)
ROWS = pd.DataFrame(  # two columns always go together; a change of one alone leaves the line
    {
        "a": LINE,
        "b": LINE + 0.05 * RNG.normal(size=240),
        "c": RNG.normal(size=240),
        "d": RNG.normal(size=240),
    }
)
CLASSES = (ROWS["a"] + ROWS["b"] + 0.2 * ROWS["c"] > 0).to_numpy().astype(int)
QUERIES = ROWS[:20]
LINEAR, FOREST = LogisticRegression().fit(ROWS, CLASSES), RandomForestClassifier(8, max_leaf_nodes=10, random_state=0)
FOREST.fit(ROWS, CLASSES)
SMALL = ReLAXConfig(steps=20, episodes=16, updates_per_step=1, hidden=16, start_pool=128, validate_every=20)
SMALL_LOCAL = ReLAXConfig(
    steps=20, episodes=16, updates_per_step=1, hidden=16, start_pool=128, validate_every=20, local_steps=3
)
QUICK: dict[str, dict[str, Any]] = {
    "relax-global": {"config": SMALL, "progress": False},
    "relax-local": {"config": SMALL_LOCAL, "progress": False},
    "dice-random": {"sample_size": 200},
    "lore": {"population": 100},
    "focus": {"iterations": 50, "learning_rate": 0.2},
    "mace": {"seconds_per_row": 60.0},
    "cfrl": {"steps": 60},
    "fastar": {"steps": 4_000, "tries": 3},
}


@cache
def fitted(name: str) -> Any:
    model = FOREST if name in ON_TREES else LINEAR
    return make_explainer(name, model, max_changes=3, **QUICK.get(name, {})).fit(ROWS)


def local_outlier_factor(rows: Any, new: Any, k: int) -> float:
    """The negative factor of one new row, straight from its definition."""

    def neighbours(row: Any, others: Any) -> tuple[Any, Any]:
        distance = np.sqrt(((others - row) ** 2).sum(axis=1))
        order = np.argsort(distance, kind="stable")[:k]
        return order, distance[order]

    others = [np.delete(rows, i, axis=0) for i in range(len(rows))]
    names = [np.delete(np.arange(len(rows)), i) for i in range(len(rows))]
    near = [neighbours(row, rest) for row, rest in zip(rows, others, strict=True)]
    reach = np.array([distance[-1] for _, distance in near])
    density = [
        1 / np.maximum(reach[name[order]], distance).mean() for (order, distance), name in zip(near, names, strict=True)
    ]
    order, distance = neighbours(new, rows)
    own = 1 / np.maximum(reach[order], distance).mean()
    return -float(np.mean([density[i] for i in order]) / own)


def outliers(rows: Any, queries: Any) -> Any:
    """Which rows are less plausible than 95 % of the training rows and than their queries, by scikit-learn alone."""
    mean, spread = ROWS.mean().to_numpy(), ROWS.std(ddof=0).to_numpy()
    factor = LocalOutlierFactor(20, novelty=True).fit((ROWS.to_numpy() - mean) / spread)
    least = np.quantile(factor.negative_outlier_factor_, 0.05)
    score, own = (factor.score_samples((np.asarray(part) - mean) / spread) for part in (rows, queries))
    return score < np.minimum(least, own) - 1e-6


# Detectors.


def test_the_score_is_the_factor_of_its_definition() -> None:
    rows = np.array([[0.0, 0.0], [1.0, 0.5], [2.0, 0.0], [2.5, 3.0], [4.0, 1.0], [9.0, 9.0]])
    space = FeatureSpace.infer(rows)
    detector = TrainingRows.of(space, rows).detector(Plausibility())
    new = np.array([[1.0, 1.0], [20.0, -3.0]])
    expected = [local_outlier_factor(space.encoded(rows), row, 5) for row in space.encoded(new)]
    np.testing.assert_allclose(detector.score(new), expected, rtol=1e-6)
    assert detector.score(new)[0] > detector.score(new)[1]


def test_the_threshold_is_a_quantile_of_the_training_rows_which_do_not_find_themselves() -> None:
    rows = RNG.normal(size=(40, 2))
    space = FeatureSpace.infer(rows)
    detector = TrainingRows.of(space, rows).detector(Plausibility(quantile=0.25))
    own = LocalOutlierFactor(20).fit(space.encoded(rows)).negative_outlier_factor_
    assert detector.threshold == pytest.approx(np.quantile(own, 0.25))
    assert (own < detector.threshold).mean() == pytest.approx(0.25)


def test_rows_that_occur_often_do_not_make_outliers_of_the_others() -> None:
    rows = RNG.normal(size=(60, 2)).round(1)
    space = FeatureSpace.infer(rows)
    often = np.concatenate([rows, np.repeat(rows[:3], 50, axis=0)])
    one, other = (TrainingRows.of(space, part).detector(Plausibility()) for part in (rows, often))
    assert one.threshold == other.threshold
    np.testing.assert_array_equal(one.score(rows), other.score(rows))


def test_rows_that_only_their_names_tell_apart_are_one_row() -> None:
    often = pd.concat([ROWS[:60], *[ROWS[:3]] * 40], ignore_index=True)
    named = often.assign(name=pd.to_datetime("2020-01-01") + pd.to_timedelta(range(len(often)), "D"))
    space, values = FeatureSpace.infer(named, immutable=["name"]).taking_in(named)
    assert len(TrainingRows.of(space, values).distinct) == 60


def test_numbers_are_standardised_categories_one_hot_and_what_is_missing_is_the_mean() -> None:
    frame = pd.DataFrame({"x": [0.0, 2.0, 4.0, 2.0], "town": ["Rome", "Bonn", "Rome", "Rome"]})
    space = FeatureSpace.infer(frame)
    seen = space.encoded(np.array([[2.0, 0.0], [2.0 + space.scale[0], 1.0], [np.nan, 1.0]]))
    np.testing.assert_allclose(seen, [[0, 1, 0], [1, 0, 1], [0, 0, 1]])


def test_many_training_rows_are_thinned_out_the_same_each_time() -> None:
    values = np.arange(ROWS_KEPT + 500, dtype=np.float64)[:, None]
    space = FeatureSpace.infer(values)
    once, twice = TrainingRows.of(space, values), TrainingRows.of(space, values)
    assert len(once.rows) == ROWS_KEPT and len(once.distinct) == ROWS_FITTED
    np.testing.assert_array_equal(once.distinct, twice.distinct)
    assert once.distinct[0, 0] < 50 and once.distinct[-1, 0] > ROWS_KEPT


@pytest.mark.parametrize("own", [IsolationForest(random_state=0), OneClassSVM(), LocalOutlierFactor(5, novelty=True)])
def test_any_detector_of_scikit_learn_will_do_and_is_left_as_it_is(own: Any) -> None:
    space = FeatureSpace.infer(ROWS)
    detector = TrainingRows.of(space, space.values(ROWS)).detector(Plausibility(own, quantile=0.1))
    assert not hasattr(own, "n_features_in_")
    assert isinstance(detector, Detector)
    assert (detector.score(space.values(ROWS)) >= detector.threshold).mean() == pytest.approx(0.9, abs=0.05)
    assert detector.score(np.full((1, 4), 50.0))[0] < detector.threshold


def test_a_detector_is_fitted_once_for_all_calls() -> None:
    training = TrainingRows.of(FeatureSpace.infer(ROWS), FeatureSpace.infer(ROWS).values(ROWS))
    assert training.detector(Plausibility()) is training.detector(Plausibility(strict=False))
    assert training.detector(Plausibility()) is not training.detector(Plausibility(quantile=0.1))


class Counting(BaseEstimator, OutlierMixin):  # type: ignore[misc]
    """The sum of a row, by a detector that notes the shapes of what it is asked."""

    shapes: ClassVar[list[tuple[int, int]]] = []

    def fit(self, rows: Any) -> Any:
        return self

    def score_samples(self, rows: Any) -> Any:
        self.shapes.append(rows.shape)
        return rows.sum(axis=1)


def test_a_detector_is_asked_once_about_equal_rows_and_not_about_too_many_at_once(monkeypatch: Any) -> None:
    space = FeatureSpace.infer(ROWS)
    values = space.values(ROWS)
    detector = TrainingRows.of(space, values).detector(Plausibility(Counting()))
    monkeypatch.setattr(plausibility, "CELLS_AT_ONCE", 30)
    Counting.shapes.clear()
    once = detector.score(values[:17])
    assert Counting.shapes == [(7, 4), (7, 4), (3, 4)]
    Counting.shapes.clear()
    again = np.random.default_rng(0).permutation(np.repeat(np.arange(17), 20))
    assert detector.score(values[again]).tolist() == once[again].tolist()
    assert sum(rows for rows, _ in Counting.shapes) == 17
    assert detector.score(values[:0]).shape == (0,)


def test_of_very_many_categories_the_rare_ones_of_a_feature_share_a_column(monkeypatch: Any) -> None:
    town = ["Rome"] * 9 + ["Bonn"] * 5 + ["Oslo", "Bern", "Wien"]
    frame = pd.DataFrame({"x": range(17), "town": town, "kind": ["a", "b"] * 8 + ["c"]})
    space = FeatureSpace.infer(frame)
    values = space.values(frame)
    np.testing.assert_array_equal(Encoding(space, values)(values), space.encoded(values))
    monkeypatch.setattr(plausibility, "MOST_CATEGORIES", 5)
    matrix = Encoding(space, values)(values)
    assert matrix.shape == (17, 7)
    np.testing.assert_array_equal(matrix[:, 0], space.encoded(values)[:, 0])
    told = [tuple(np.flatnonzero(row[1:])) for row in matrix]
    assert len({pair[0] for pair in told[-3:]}) == 1, "Oslo, Bern and Wien"
    assert len({one for pair in told for one in pair}) == 6
    assert (matrix[:, 1:].sum(axis=1) == 2).all()


@pytest.mark.filterwarnings("ignore:feature .name. has 700 categories")
def test_very_many_categories_take_no_column_each(monkeypatch: Any) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=900).round(2), "name": [f"n{i % 700}" for i in range(900)]})
    space = FeatureSpace.infer(frame)
    training = TrainingRows.of(space, space.values(frame))
    assert training.independent.fitted.n_features_in_ <= 502
    monkeypatch.setattr(type(space), "one_hot", None)  # which would be as wide as there are categories
    scores = training.detector(Plausibility()).score(training.rows)
    assert scores.tolist() == [training.detector(Plausibility()).score(row[None])[0] for row in training.rows]
    assert np.isfinite(training.independent.score(training.rows)).all()


# What may be asked for.


def test_words_and_settings_are_read() -> None:
    assert read_plausibility(None) is None and read_plausibility(False) is None
    assert read_plausibility("require") == Plausibility("lof", 0.05, strict=True)
    assert read_plausibility("prefer") == Plausibility("lof", 0.05, strict=False)
    own = Plausibility(quantile=0.2)
    assert read_plausibility(own) is own and own.strict


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("requires", "plausible is 'requires'; did you mean 'require'"),
        (True, "plausible is True; accepted are None, 'prefer', 'require', or a Plausibility(...)."),
        (0.05, "plausible is 0.05; accepted are"),
    ],
)
def test_a_wrong_word_is_refused_by_fit_and_at_the_call(value: Any, told: str) -> None:
    with pytest.raises(InputError) as error:
        make_explainer("greedy", LINEAR, plausible=value).fit(ROWS)
    assert told in str(error.value)
    with pytest.raises(InputError, match="plausible is"):
        fitted("greedy").explain(QUERIES, plausible=value)


@pytest.mark.parametrize("quantile", [0.0, 1.0, -0.1, "0.1", True, np.nan])
def test_a_quantile_lies_between_0_and_1(quantile: Any) -> None:
    with pytest.raises(InputError, match=r"quantile is .* between 0 and 1"):
        Plausibility(quantile=quantile)


@pytest.mark.parametrize("detector", ["knn", IsolationForest, LINEAR.__class__, object(), LocalOutlierFactor()])
def test_what_gives_no_scores_is_no_detector(detector: Any) -> None:
    if isinstance(detector, LocalOutlierFactor):
        assert not hasattr(detector, "score_samples")  # without novelty=True it knows the training rows alone
    with pytest.raises(InputError, match="detector"):
        Plausibility(detector)


# The condition.


def test_a_row_is_held_to_the_threshold_or_to_its_query_if_that_is_less_plausible() -> None:
    space = FeatureSpace.infer(ROWS)
    detector = TrainingRows.of(space, space.values(ROWS)).detector(Plausibility())
    start = np.array([[0.0, 0.0, 0.0, 0.0], [3.0, -3.0, 0.0, 0.0]])
    condition = PlausibleRows.of(detector, start)
    assert condition.bar[0] == detector.threshold
    assert condition.bar[1] == detector.score(start[1:])[0] < detector.threshold
    between = np.array([[2.5, -2.5, 0.0, 0.0]])
    assert condition.holds(np.repeat(between, 2, axis=0), np.array([0, 1])).tolist() == [False, True]
    assert condition.take(np.array([1])).holds(between, np.array([0])).tolist() == [True]
    short = condition.shortfall(np.repeat(between, 2, axis=0), np.array([0, 1]))
    assert short.tolist() == [detector.threshold - detector.score(between)[0], 0.0]


def test_without_it_answers_are_outliers_here() -> None:
    frame = fitted("greedy").explain(QUERIES).frame
    assert outliers(frame[list(ROWS)], QUERIES.iloc[frame["query_id"]]).mean() > 0.3


def queries_for(name: str) -> pd.DataFrame:
    """Fewer for DiCE's methods, which take a tenth of a second and more for each."""
    return QUERIES[:6] if name.startswith("dice-") else QUERIES


@pytest.mark.slow
@every_explainer
def test_what_is_required_to_be_plausible_is(name: str) -> None:
    queries = queries_for(name)
    result = fitted(name).explain(queries, plausible="require", n=2)
    frame = result.frame
    assert not outliers(frame[list(ROWS)], queries.iloc[frame["query_id"]]).any()
    model = FOREST if name in ON_TREES else LINEAR
    assert (model.predict(frame[list(ROWS)]) != model.predict(queries)[frame["query_id"]]).all()
    assert (result.sparsity[result.found] <= 3).all()
    assert result.plausibility["plausible"].to_numpy().reshape(result.found.shape)[result.found].all()
    for status in result.statuses[~result.found[:, 0], 0]:
        assert status not in ("", "found")


@every_explainer
def test_what_is_preferred_to_be_plausible_is_found_as_often_as_without(name: str) -> None:
    explainer, queries = fitted(name), queries_for(name)
    default, preferred = explainer.explain(queries), explainer.explain(queries, plausible="prefer")
    assert (preferred.found >= default.found).all()
    plausible = preferred.plausibility["plausible"].to_numpy().reshape(preferred.found.shape)
    told = np.array([[stage.endswith(", implausible") for stage in row] for row in preferred.stages])
    assert (told == (preferred.found & ~plausible)).all()
    assert plausible.sum() >= default.plausibility["plausible"].sum()


@pytest.mark.parametrize("name", ["nearest-ct", pytest.param("relax-global", marks=pytest.mark.slow)])
def test_plausible_answers_are_found_where_there_are_some(name: str) -> None:
    result = fitted(name).explain(QUERIES, plausible="require")
    assert result.found.mean() > 0.9
    assert (result.sparsity[result.found] >= 2).any(), "both columns of the line go together"


def test_the_call_overrides_what_the_explainer_was_made_with() -> None:
    explainer = make_explainer("greedy", LINEAR, max_changes=3, plausible="require").fit(ROWS)
    strict, default = explainer.explain(QUERIES), fitted("greedy").explain(QUERIES)
    np.testing.assert_array_equal(strict.values, fitted("greedy").explain(QUERIES, plausible="require").values)
    np.testing.assert_array_equal(explainer.explain(QUERIES, plausible=False).values, default.values)
    assert explainer.plausible == "require", "for that call alone"
    lax = explainer.explain(QUERIES, plausible=Plausibility(quantile=1e-9))
    assert lax.found.sum() >= strict.found.sum()


def test_a_status_tells_what_is_not_plausible_from_what_is_not_found() -> None:
    barred = fitted("greedy").explain(QUERIES, plausible="require", vary=["a"])
    assert {*barred.statuses[~barred.found]} == {"none that is plausible was found within 3 changes"}
    assert (~barred.found).sum() > 5
    nothing = fitted("greedy").explain(QUERIES, plausible="require", vary=["d"])
    assert {*nothing.status.ravel()} == {"none was found within 3 changes"}


# What is told of results.


def test_a_result_tells_how_plausible_it_is_though_nothing_was_asked_for() -> None:
    result = fitted("greedy").explain(QUERIES, n=2)
    table = result.plausibility
    assert len(table) == result.found.size
    assert table[["query_id", "cf_id"]].to_numpy().tolist() == [list(pair) for pair in np.ndindex(result.found.shape)]
    found = result.found.ravel()
    assert table["score"].notna().tolist() == table["independent_score"].notna().tolist() == found.tolist()
    assert (table["plausible"] == (table["score"] >= table["threshold"])).all()
    frame = result.frame
    expected = outliers(frame[list(ROWS)], QUERIES.iloc[frame["query_id"]])
    assert (~table["plausible"][found]).tolist() == expected.tolist()
    assert table["independent_plausible"].dtype == bool and not table["plausible"].equals(
        table["independent_plausible"]
    )


def test_nothing_is_fitted_before_it_is_asked_for() -> None:
    explainer = make_explainer("greedy", LINEAR, max_changes=3).fit(ROWS)
    result = explainer.explain(QUERIES)
    assert explainer.training_rows_.known == []
    assert result.plausibility is result.plausibility
    assert len(explainer.training_rows_.known) == 1


def test_a_file_keeps_the_numbers_if_they_were_known() -> None:
    result = fitted("greedy").explain(QUERIES, n=2)
    without = Counterfactuals.from_json(result.to_json())
    for lost in (without, copy.copy(result)):
        with pytest.raises(InputError, match="before its plausibility was known"):
            _ = lost.plausibility
    told = result.plausibility
    pd.testing.assert_frame_equal(Counterfactuals.from_json(result.to_json()).plausibility, told)
    pd.testing.assert_frame_equal(copy.copy(result).plausibility, told)


def test_a_file_with_another_plausibility_than_a_call_leaves_is_refused() -> None:
    import hashlib
    import json

    result = fitted("greedy").explain(QUERIES)
    assert len(result.plausibility) == 20
    data = json.loads(result.to_json())
    data.pop("sha256")
    for place, wrong in ((0, 7), (2, None), (4, 2)):
        changed = copy.deepcopy(data)
        changed["plausibility"][0][place] = wrong
        text = json.dumps(changed)
        with pytest.raises(SavedFileError, match="plausibility"):
            Counterfactuals.from_json(f'{text[:-1]}, "sha256": "{hashlib.sha256(text.encode()).hexdigest()}"}}')


@pytest.mark.slow
def test_a_saved_explainer_knows_what_is_plausible(tmp_path: Any) -> None:
    explainer = ReLAX(LINEAR, max_changes=3, plausible=Plausibility(quantile=0.1), config=SMALL, progress=False)
    explainer.fit(ROWS)
    explainer.save(tmp_path / "one")
    loaded = ReLAX.load(tmp_path / "one", model=LINEAR)
    assert loaded.plausible == explainer.plausible
    np.testing.assert_array_equal(loaded.explain(QUERIES).values, explainer.explain(QUERIES).values)
    explainer.save(tmp_path / "other", training_rows=False)
    with pytest.raises(NotFittedError, match="training_rows=False"):
        ReLAX.load(tmp_path / "other", model=LINEAR).explain(QUERIES)
    explainer.plausible = Plausibility(IsolationForest())
    with pytest.raises(InputError, match="cannot hold the detector IsolationForest"):
        explainer.save(tmp_path / "third")
