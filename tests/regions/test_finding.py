"""Facts about regions of any model: ends found by asking, what the call allows, rules, categories, what is counted."""

import pickle
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
from reference.region_rows import AtRandom, delivered_rows, drawn_rows
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from relax_plugin import Counterfactuals, FeatureSpace, Goal, make_explainer
from relax_plugin.errors import InputError, NotFittedError
from relax_plugin.plausibility import PlausibleRows
from relax_plugin.regions.regions import Regions

RNG = np.random.default_rng(6)
ROWS = 400
PEOPLE = pd.DataFrame(
    {
        "income": RNG.integers(1000, 9000, ROWS),
        "rate": RNG.random(ROWS),
        "years": RNG.integers(0, 12, ROWS),
        "job": RNG.choice(["clerk", "nurse", "pilot", "smith"], ROWS),
    }
)


def linear(rows: Any) -> Any:
    """Granted from a sum of 6 on: a thousand of income counts 1, the rate 4 and a pilot 2."""
    rows = pd.DataFrame(rows)
    pilot = (rows["job"] == "pilot").to_numpy() * 2.0
    total = rows["income"].to_numpy(float) / 1000 + 4 * rows["rate"].to_numpy(float) + pilot
    return np.where(total >= 6, "granted", "refused")


SPACE = FeatureSpace.infer(PEOPLE)


def explained(model: Any, queries: Any, space: FeatureSpace = SPACE, goal: Any = None, **said: Any) -> Counterfactuals:
    return AtRandom(model, space, goal=goal).fit(PEOPLE).explain(queries, **said)


POOR = pd.DataFrame({"income": [2000, 3500], "rate": [0.25, 0.75], "years": [3, 4], "job": ["clerk", "smith"]})


def test_the_regions_of_a_sum_end_where_it_reaches_its_threshold() -> None:
    found = explained(linear, POOR, vary=["income"])
    regions = found.regions()
    line = regions.table.set_index("query_id")
    assert line.loc[0, ["low", "high", "kind", "wrong"]].tolist() == [5000.0, PEOPLE["income"].max(), "tested", 0]
    assert line.loc[1, ["low", "high"]].tolist() == [3000.0, PEOPLE["income"].max()] or found.start[1, 0] == 3500
    assert regions.phrase(0, 0, "income") == "at least 5,000"
    assert regions.box(0).ranges == {"income": (5000.0, float(PEOPLE["income"].max()))}


def test_a_joint_box_of_a_sum_holds_at_its_worst_corner_and_is_no_point() -> None:
    """Income 2,000 and rate 0 need 4 more, of which the rate can give at most 3.2 and the income 3."""
    query = pd.DataFrame({"income": [2000], "rate": [0.0], "years": [3], "job": ["clerk"]})
    found = explained(linear, query, bounds={"income": (1000, 5000), "rate": (0.0, 0.8)}, vary=["income", "rate"])
    assert found.sparsity[0, 0] == 2
    regions = found.regions(points=300)
    (income, most_income), (rate, most_rate) = regions.box(0).ranges.values()
    assert most_income <= 5000 and most_rate <= 0.8
    assert income / 1000 + 4 * rate >= 6
    low, high = regions.alone.low[0], regions.alone.high[0]
    assert (most_income - income) > 0.2 * (high[0] - low[0]) and (most_rate - rate) > 0.2 * (high[1] - low[1])
    # Words for both cells hold together; of each alone they say more.
    numbers = [float(regions.phrase(0, 0, name).split()[-1].replace(",", "")) for name in ("income", "rate")]
    apart = [float(regions.phrase(0, 0, name, alone=True).split()[-1].replace(",", "")) for name in ("income", "rate")]
    assert numbers[0] / 1000 + 4 * numbers[1] >= 6 > apart[0] / 1000 + 4 * apart[1]
    delivered = regions.values[0]
    assert abs(low[0] - 1000 * (6 - 4 * delivered[1])) <= 1.0
    assert abs(low[1] - (6 - delivered[0] / 1000) / 4) < 1e-3


def test_cells_of_few_values_are_asked_for_each_of_them() -> None:
    """Years up to 11: every one is asked, so that also a hole between two that hold is seen."""

    def odd(rows: Any) -> Any:
        return np.isin(pd.DataFrame(rows)["years"], [5, 6, 7, 9, 10, 11]).astype(int)

    found = explained(odd, POOR, vary=["years"])
    regions = found.regions()
    for query, line in enumerate(regions.table[["low", "high", "kind"]].to_numpy().tolist()):
        first = found.values[query, 0, 2] <= 7
        assert line == [5.0, 7.0, "proved"] if first else [9.0, 11.0, "proved"]
        assert regions.phrase(query, 0, "years") == ("between 5 and 7" if first else "at least 9")
    assert regions.box(0).kind == "proved"


def test_categories_that_hold_are_told_by_their_labels_and_need_not_lie_side_by_side() -> None:
    def by_job(rows: Any) -> Any:
        return pd.DataFrame(rows)["job"].isin(["nurse", "smith"]).to_numpy().astype(int)

    labels = {"job": {"nurse": "a nurse", "smith": "a smith"}}
    found = explained(by_job, POOR[:1], FeatureSpace.infer(PEOPLE, labels=labels), vary=["job"])
    regions = found.regions()
    assert regions.table["categories"].tolist() == [["nurse", "smith"]]
    assert regions.phrase(0, 0, "job") == 'one of "a nurse", "a smith"'
    assert regions.box(0).ranges == {"job": ["nurse", "smith"]}
    assert np.isnan(regions.table["low"]).all()


def test_categories_join_a_box_only_if_they_hold_in_all_of_it() -> None:
    """A pilot needs 4 of income and rate, all others 6: a box around the pilot's answer cannot have others too."""
    query = pd.DataFrame({"income": [1200], "rate": [0.3], "years": [3], "job": ["clerk"]})
    found = explained(linear, query, bounds={"income": (1000, 3500)}, vary=["income", "job"])
    assert found.sparsity[0, 0] == 2
    box = found.regions().box(0)
    assert box.ranges["job"] == ["pilot"]
    assert box.ranges["income"][1] == 3500 and box.ranges["income"][0] == pytest.approx(2800, abs=30)


def test_trees_that_are_given_a_carried_column_have_proved_regions() -> None:
    people = PEOPLE.drop(columns="job").assign(since=pd.date_range("2020-01-01", periods=ROWS))
    trees = make_column_transformer(("drop", ["since"]), remainder="passthrough")
    model = make_pipeline(trees, DecisionTreeClassifier(max_depth=3, random_state=0)).fit(people, linear(PEOPLE))
    found = make_explainer("greedy", model).fit(people).explain(people[:4])
    assert found.found.any() and (found.regions().table["kind"] == "proved").all()


@pytest.mark.parametrize("trees", [True, False])
def test_what_the_call_allows_bounds_every_region(trees: bool) -> None:
    model: Any = linear
    if trees:
        numbers = PEOPLE.drop(columns="job")
        model = DecisionTreeClassifier(random_state=0).fit(numbers, numbers["income"] / 1000 + numbers["rate"] * 4 > 6)
    queries = POOR if not trees else POOR.drop(columns="job")
    people = PEOPLE if not trees else PEOPLE.drop(columns="job")
    space = FeatureSpace.infer(people, steps={"income": 250.0})
    explainer = AtRandom(model, space).fit(people)
    high = [6100.0, 7300.0]
    found = explainer.explain(queries[:2], vary=["income"], bounds={"income": (None, high)}, increase_only=["income"])
    regions = found.regions(explainer)
    assert set(regions.table["kind"]) == ({"proved"} if trees else set(regions.table["kind"]))
    for line in regions.table.itertuples():
        start = float(found.start[line.query_id, 0])
        assert start <= line.low <= line.high <= high[line.query_id]
        assert (line.low - PEOPLE["income"].min()) % 250 == 0 and (line.high - PEOPLE["income"].min()) % 250 == 0
        assert regions.phrase(line.query_id, 0, "income").startswith("at least")
    assert len(regions.table)


@pytest.mark.slow
@pytest.mark.parametrize("trees", [True, False])
def test_rules_are_kept_in_all_of_a_region(trees: bool) -> None:
    """No more than the years lived: what the model would accept beyond that is no part of the region."""
    rng = np.random.default_rng(2)
    rows = pd.DataFrame({"age": rng.integers(20, 60, 300), "work": rng.integers(0, 30, 300), "other": rng.random(300)})
    rows["work"] = np.minimum(rows["work"], rows["age"] - 16)
    target = (rows["work"] + 3 * rows["other"] > 12).to_numpy()
    forest = RandomForestClassifier(10, random_state=0).fit(rows, target)
    space = FeatureSpace.infer(rows, rules=["age >= work + 16"])
    model = forest if trees else forest.predict
    found = AtRandom(model, space).fit(rows).explain(rows[~target][:12])
    regions = found.regions(points=60)
    kinds = regions.table["kind"]
    assert (kinds == "proved").all() if trees else len(kinds)
    at_the_rule = 0
    for joint in (True, False):
        values, owner = drawn_rows(regions, 3000, joint=joint, seed=3)
        assert (values[:, 0] >= values[:, 1] + 16).all()
        delivered = delivered_rows(found, regions, values, owner)
        wrong = (forest.predict(delivered) == found.before[regions.query[owner]]).sum()
        assert wrong == 0 if trees else wrong <= 15
        at_the_rule += int((values[:, 0] == values[:, 1] + 16).sum())
    assert at_the_rule > 0


@pytest.mark.slow
@pytest.mark.parametrize("goal", [None, Goal.to(1, min_probability=0.6)])
def test_derived_columns_and_one_hot_groups_follow(goal: Goal | None) -> None:
    rng = np.random.default_rng(4)
    rows = pd.DataFrame({"a": rng.integers(0, 500, 300), "b": rng.integers(0, 500, 300)})
    rows["total"] = rows["a"] + rows["b"]
    kind = rng.integers(0, 3, 300)
    rows[["red", "green", "blue"]] = np.eye(3, dtype=int)[kind]
    target = (rows["total"] + 200 * rows["red"] > 600).astype(int)
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(rows, target)
    space = FeatureSpace.infer(rows, derived={"total": "a + b"}, one_hot={"colour": ["red", "green", "blue"]})
    found = AtRandom(model, space, goal=goal).fit(rows).explain(rows[target == 0][:10])
    regions = found.regions()
    assert found.found.mean() > 0.7
    values, owner = drawn_rows(regions, 2000, joint=True, seed=1)
    delivered = delivered_rows(found, regions, values, owner)
    assert (delivered["total"] == delivered["a"] + delivered["b"]).all()
    assert (delivered[["red", "green", "blue"]].sum(axis=1) == 1).all()
    chance = model.predict_proba(delivered)[:, 1]
    assert (chance < (0.5 if goal is None else 0.6)).mean() < 0.005


@cache
def network(kind: str) -> tuple[Any, Any]:
    rng = np.random.default_rng(9)
    rows = pd.DataFrame(rng.normal(size=(600, 6)).round(3), columns=list("abcdef"))
    signal = (rows["a"] * rows["b"] + np.sin(2 * rows["c"]) + 0.5 * rows["d"]).to_numpy()
    if kind == "number":
        return make_pipeline(
            StandardScaler(), MLPRegressor(hidden_layer_sizes=(32,), max_iter=300, random_state=0)
        ).fit(rows, signal), rows
    model: Any = {
        "mlp": lambda: MLPClassifier((32, 16), max_iter=200, random_state=0),
        "logistic": LogisticRegression,
    }[kind]()
    return make_pipeline(StandardScaler(), model).fit(rows, signal > 0), rows


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    ("kind", "goal", "share"), [("mlp", None, 0.01), ("logistic", None, 0.0), ("number", Goal.shift(1.0), 0.01)]
)
def test_of_other_models_few_held_out_rows_are_wrong(kind: str, goal: Goal | None, share: float) -> None:
    """Of boxes of three cells up to a hundredth, of single cells a thousandth; a third of the cells at an end."""
    model, rows = network(kind)
    found = AtRandom(model, FeatureSpace.infer(rows), goal=goal, max_changes=3).fit(rows).explain(rows[:60])
    regions = found.regions()
    before = np.asarray(found.before)
    for joint in (True, False):
        values, owner = drawn_rows(regions, 10_000, joint=joint, seed=11)
        answer = model.predict(delivered_rows(found, regions, values, owner))
        told = before[regions.query[owner]]
        wrong = answer == told if goal is None else np.abs(answer - told.astype(float)) < 1.0
        assert wrong.mean() <= (share if joint else 0.1 * share)


def test_wrong_rows_inside_are_counted_and_left_out() -> None:
    """A narrow gap that no bisection meets: random rows find it, and the region ends before it."""

    def with_a_gap(rows: Any) -> Any:
        rate = np.asarray(pd.DataFrame(rows)["rate"], dtype=float)
        return ((rate > 0.2) & ~((rate > 0.61) & (rate < 0.67))).astype(int)

    query = POOR[:1].assign(rate=0.1)
    found = explained(with_a_gap, query, vary=["rate"], bounds={"rate": (0.0, 0.95)})
    assert 0.2 < found.values[0, 0, 1] < 0.61
    line = found.regions(points=200).table.iloc[0]
    assert line["wrong"] > 0 and line["points"] > 200
    assert 0.2 < line["low"] < 0.21 and 0.59 < line["high"] <= 0.61


def test_each_step_is_one_call_for_all_answers() -> None:
    calls = []

    def counted(rows: Any) -> Any:
        calls.append(len(rows))
        return linear(rows)

    found = explained(counted, PEOPLE[:60], vary=["income", "rate"])
    calls.clear()
    regions = found.regions()
    assert len(calls) < 60 and sum(calls) == regions.rows_asked > 3000
    calls.clear()
    assert len(found.regions(rows=[0, 3]).table["query_id"].unique()) <= 2
    assert sum(calls) < 2000


def test_regions_are_for_the_rows_that_were_asked_for() -> None:
    found = explained(linear, POOR, vary=["income"])
    regions = found.regions(rows=[1])
    assert set(regions.table["query_id"]) <= {1}
    assert regions.phrase(0, 0, "income") is None
    for rows, told in (([7], "query 7"), ("ab", "rows is 'ab'"), ([True], "query True"), (3, "rows is 3")):
        with pytest.raises(InputError, match=told):
            found.regions(rows=rows)
    with pytest.raises(InputError, match="points"):
        found.regions(points=0)


def test_a_result_without_its_model_needs_an_explainer() -> None:
    explainer = AtRandom(linear, SPACE).fit(PEOPLE)
    found = explainer.explain(POOR, vary=["income"])
    read = Counterfactuals.from_json(found.to_json())
    with pytest.raises(InputError, match=r"regions\(explainer\)"):
        read.regions()
    with pytest.raises(NotFittedError, match="fitted explainer"):
        read.regions(AtRandom(linear, SPACE))
    assert read.regions(explainer).table.equals(found.regions().table)


def test_known_regions_are_kept_and_hold_no_model() -> None:
    found = explained(linear, POOR, vary=["income"])
    assert found.known_regions is None
    regions = found.regions()
    assert found.known_regions is regions and isinstance(regions, Regions)
    again = pickle.loads(pickle.dumps(found))  # `linear` could be pickled, a lambda could not
    assert again.known_regions.table.equals(regions.table)
    assert b"linear" not in pickle.dumps(regions)


def test_the_same_seed_finds_the_same_regions() -> None:
    found = explained(linear, PEOPLE[:20])
    first, again = found.regions(seed=3), found.regions(seed=3)
    assert first.table.equals(again.table)
    assert np.array_equal(first.boxes.low, again.boxes.low)


def test_answers_that_hold_for_further_models_have_regions_that_do() -> None:
    def stricter(rows: Any) -> Any:
        rows = pd.DataFrame(rows)
        return np.where(
            rows["income"].to_numpy(float) / 1000 + 4 * rows["rate"].to_numpy(float) >= 7, "granted", "refused"
        )

    explainer = AtRandom(linear, SPACE)
    explainer.also = [stricter]
    explainer.fit(PEOPLE)
    found = explainer.explain(POOR[:1], vary=["income"])
    with pytest.raises(InputError, match="1 further models"):
        found.regions()
    assert found.regions(explainer).table["low"].tolist() == [6000.0]


def test_regions_of_answers_that_had_to_be_plausible_are_plausible() -> None:
    """No proof by leaves tells what a detector says: it is asked, as the model is."""
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(150, 2))
    model = DecisionTreeClassifier(max_depth=2, random_state=0).fit(rows, rows[:, 0] > 1.2)
    explainer = AtRandom(model, max_changes=2).fit(rows)
    free, bound = explainer.explain(rows[:8]), explainer.explain(rows[:8], plausible="require")
    regions = bound.regions(points=50)
    assert set(free.regions().table["kind"]) == {"proved"} and set(regions.table["kind"]) == {"tested"}
    detector = explainer.training_rows_.detector(bound.detectors.wanted)
    values, owner = drawn_rows(regions, 400, joint=True, seed=2)
    plausible = PlausibleRows.of(detector, regions.start).holds(values, owner)
    assert plausible.mean() > 0.98


def test_a_query_that_meets_its_goal_already_and_one_without_an_answer_have_no_region() -> None:
    rich = POOR.assign(income=[8900, 2000])
    found = explained(linear, rich, goal=Goal.to("granted"), vary=["years"])
    regions = found.regions()
    assert len(regions.table) == 0 and len(regions) == 0
    with pytest.raises(InputError, match="counterfactual 0 of query 0"):
        regions.box(0)


def test_a_number_that_was_filled_in_has_an_interval_and_one_that_vanished_none() -> None:
    def gaps(rows: Any) -> Any:
        column = pd.DataFrame(rows)["x"]
        return np.eye(3)[np.where(column.isna(), 2, (column > 10).astype(int))]

    rows = pd.DataFrame({"x": [1.5, 20.25, np.nan, 4.125, 12.0, np.nan], "y": np.arange(6.0)})
    space = FeatureSpace.infer(rows, fill_missing=["x"], may_vanish=["x"])
    explainer = make_explainer("greedy", gaps, space, goal=Goal.to(1)).fit(rows)
    filled = explainer.explain(rows[2:3]).regions()
    assert filled.phrase(0, 0, "x") == "at least 10.1"
    assert filled.table["low"].iloc[0] == pytest.approx(10, abs=0.1)
    vanished = explainer.explain(rows[:1], goal=Goal.to(2))
    line = vanished.regions().table.iloc[0]
    assert np.isnan(line["low"]) and vanished.known_regions.phrase(0, 0, "x") is None
    assert np.isnan(vanished.known_regions.box(0).ranges["x"]).all()
