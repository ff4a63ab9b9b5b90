"""What the contract does not say about DiCE's methods: the books, what is handed to dice-ml, and agreement with it."""

import random
import sys
from typing import Any

import dice_ml
import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

from relax_plugin import BlackBox, FeatureSpace, Goal, make_explainer
from relax_plugin.baselines import dice
from relax_plugin.errors import MissingExtraError

every_method = pytest.mark.parametrize("name", ["dice-random", "dice-genetic", "dice-kdtree"])

RNG = np.random.default_rng(3)
NUMBERS = pd.DataFrame(RNG.normal(size=(120, 3)).round(2), columns=["a", "b", "c"])
TOWNS = {"Bonn": -1.0, "Oslo": 0.0, "Rome": 1.0}
MIXED = pd.DataFrame({"town": RNG.choice(list(TOWNS), 120), "age": RNG.integers(20, 30, 120)})
MIXED["rate"] = RNG.normal(size=120).round(1)


def chances(rows: Any) -> Any:
    rows = np.asarray(rows, dtype=float)
    chance = 1 / (1 + np.exp(-rows[:, 0] - rows[:, 1]))
    return np.column_stack([1 - chance, chance])


def three_classes(rows: Any) -> Any:
    powers = np.exp(2 * np.asarray(rows, dtype=float))
    return powers / powers.sum(axis=1, keepdims=True)


def mixed_chances(rows: pd.DataFrame) -> Any:
    return chances(np.column_stack([rows["town"].map(TOWNS) + rows["rate"], (rows["age"] - 25) / 3]))


def make(name: str, model: Any, space: FeatureSpace | None = None, **options: Any) -> Any:
    quick = {"sample_size": 100} if name == "dice-random" else {}
    return make_explainer(name, model, space, **{**quick, **options})


@pytest.mark.slow
@every_method
def test_each_query_pays_for_its_own_rows_and_is_explained_alike_alone_or_in_a_batch(name: str) -> None:
    asked = [0]

    def counted(rows: Any) -> Any:
        asked[0] += len(rows)
        return chances(rows)

    explainer = make(name, counted).fit(NUMBERS)
    batch = explainer.explain(NUMBERS[:4], n=2)
    assert explainer.fit_rows_ + batch.rows_queried.sum() == asked[0]
    for query in range(4):
        alone = explainer.explain(NUMBERS[query : query + 1], n=2)
        assert alone.rows_queried.tolist() == batch.rows_queried[[query]].tolist()
        assert (alone.values == batch.values[[query]]).all()


@pytest.mark.slow
@every_method
def test_what_may_change_and_into_what_is_handed_to_dice(name: str) -> None:
    space = FeatureSpace.infer(MIXED, increase_only=["age"])
    explainer = make(name, mixed_chances, space).fit(MIXED)
    generate, told = explainer.dice_._generate_counterfactuals, []

    def listen(*arguments: Any, **named: Any) -> Any:
        told.append(named)
        return generate(*arguments, **named)

    explainer.dice_._generate_counterfactuals = listen
    query = pd.DataFrame({"town": ["Oslo"], "age": [23], "rate": [-1.0]})
    explainer.explain(query, vary=["town", "age"], bounds={"town": ["Rome"]})
    assert told[0]["features_to_vary"] == ["f0", "f1"]
    oslo, rome = explainer.view_.levels["f0"][1:3]
    assert told[0]["permitted_range"] == {"f0": [oslo, rome], "f1": [23.0, 29.0], "f2": [-1.0, -1.0]}


@pytest.mark.slow
def test_kdtree_keeps_to_training_rows_that_agree_in_what_may_not_change() -> None:
    result = make("dice-kdtree", mixed_chances).fit(MIXED).explain(MIXED[:20], vary=["age", "rate"])
    assert {"kdtree", "kdtree, projected"} == set(result.stages[result.found].tolist())
    frame = result.frame[(result.stages == "kdtree")[result.found]]
    of_training = frame[list(MIXED)].merge(MIXED.drop_duplicates(), how="left", indicator=True)["_merge"] == "both"
    assert of_training.mean() > 0.5, "post-hoc sparsity moves some"
    assert (frame["town"].to_numpy() == MIXED["town"].to_numpy()[frame["query_id"]]).all()


@pytest.mark.slow
@every_method
@pytest.mark.parametrize("wanted", [0, 1])
def test_a_least_probability_is_reached_for_either_class(name: str, wanted: int) -> None:
    queries = NUMBERS[chances(NUMBERS)[:, wanted] < 0.5][:6]
    explainer = make(name, chances).fit(NUMBERS)
    result = explainer.explain(queries, goal=Goal.to(wanted, min_probability=0.9))
    assert result.found.mean() > 0.8
    assert (chances(result.frame[list(NUMBERS)])[:, wanted] >= 0.9).all()
    weaker = explainer.explain(queries, goal=Goal.to(wanted)).frame[list(NUMBERS)]
    assert (chances(weaker)[:, wanted] < 0.9).any(), "or the threshold would not be tested"


@pytest.mark.slow
@every_method
def test_each_of_three_classes_is_reached(name: str) -> None:
    explainer = make(name, three_classes).fit(NUMBERS)
    before = three_classes(NUMBERS[:6]).argmax(axis=1)
    for turn in (1, 2):
        targets = (before + turn) % 3
        frame = explainer.explain(NUMBERS[:6], goal=Goal.to(targets)).frame
        assert len(frame) >= 5
        assert (three_classes(frame[list(NUMBERS)]).argmax(axis=1) == targets[frame["query_id"]]).all()


@pytest.mark.slow
@every_method
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_shift_takes_the_side_that_can_be_reached(name: str, sign: float) -> None:
    def bounded(rows: Any) -> Any:
        total = np.asarray(rows, dtype=float)[:, :2].sum(axis=1)
        return sign * np.where(total > 0.5, 3.0, np.where(total > -0.5, 0.0, -1.0))

    queries = NUMBERS[bounded(NUMBERS) == 0][:4]
    result = make(name, BlackBox(bounded, task="regression"), goal=Goal.shift(2.0)).fit(NUMBERS).explain(queries)
    assert result.found.all()
    assert (bounded(result.frame[list(NUMBERS)]) == sign * 3.0).all()


@pytest.mark.slow
@every_method
def test_scores_that_are_no_probabilities_are_enough(name: str) -> None:
    model = LinearSVC().fit(NUMBERS, NUMBERS["a"] > NUMBERS["b"])
    result = make(name, model).fit(NUMBERS).explain(NUMBERS[:5])
    assert result.found.all()
    assert (model.predict(result.frame[list(NUMBERS)]) != model.predict(NUMBERS[:5])).all()


def test_an_endless_search_for_first_individuals_ends_with_the_row_budget() -> None:
    constant = make("dice-genetic", lambda rows: np.tile([0.7, 0.3], (len(rows), 1)), rows_per_instance=500)
    result = constant.fit(NUMBERS).explain(NUMBERS[:2])
    assert all("none was found" in text and "within 500 model rows" in text for text in result.statuses[:, 0])
    assert (result.rows_queried <= 500 + 1).all(), "and the query itself"


def test_what_was_found_is_kept_when_rows_run_out_in_post_hoc_sparsity() -> None:
    fine = NUMBERS * 1e5  # steps of 1: DiCE walks them one by one
    explainer = make("dice-kdtree", lambda rows: chances(np.asarray(rows) / 1e5), rows_per_instance=8).fit(fine)
    result = explainer.explain(fine[:3])
    assert result.found.all()
    assert (result.rows_queried <= 8 + 2).all()


@pytest.mark.slow
@every_method
def test_a_limit_of_changes_is_kept_by_undoing_and_said_in_the_stage(name: str) -> None:
    free = make(name, chances).fit(NUMBERS).explain(NUMBERS[:8])
    one = make(name, chances, max_changes=1).fit(NUMBERS).explain(NUMBERS[:8])
    refined = make(name, chances, refined=True).fit(NUMBERS).explain(NUMBERS[:8])
    assert set(free.stage.ravel().tolist()) == {name.removeprefix("dice-")}, "without a limit DiCE's own"
    assert one.found.any()
    assert (one.sparsity[one.found] == 1).all()
    assert np.nanmean(refined.sparsity) < np.nanmean(free.sparsity)
    assert any(stage.endswith("undone") for stage in [*one.stage.ravel(), *refined.stage.ravel()])


@every_method
def test_a_category_that_no_training_row_has_is_explained(name: str) -> None:
    space, known = FeatureSpace.infer(MIXED), MIXED[MIXED["town"] != "Rome"]
    result = make(name, mixed_chances, space).fit(known).explain(MIXED[MIXED["town"] == "Rome"][:3])
    assert result.found.all()


@pytest.mark.slow
@every_method
def test_nothing_is_printed_and_python_s_random_numbers_are_left_alone(name: str, capfd: Any) -> None:
    state = random.getstate()
    make(name, chances).fit(NUMBERS).explain(NUMBERS[:2], vary=["c"])
    assert random.getstate() == state
    assert capfd.readouterr() == ("", "")


def test_without_dice_ml_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "dice_ml", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'relax-plugin\[dice\]'"):
        make("dice-kdtree", chances).fit(NUMBERS)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The inplace keyword")
@pytest.mark.parametrize("method", ["kdtree", "random"])
def test_the_rows_are_those_of_dice_ml_itself(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = LogisticRegression().fit(NUMBERS, NUMBERS["a"] > NUMBERS["b"])
    data = dice_ml.Data(
        dataframe=NUMBERS.assign(outcome=model.predict(NUMBERS)),
        continuous_features=list(NUMBERS),
        outcome_name="outcome",
        continuous_features_precision=dict.fromkeys(NUMBERS, 2),  # dice-ml counts decimals of the modes alone
    )
    bare = dice_ml.Dice(data, dice_ml.Model(model=model, backend="sklearn"), method=method)
    monkeypatch.setattr(dice.zlib, "crc32", lambda row, seed: 7)
    result = make_explainer(f"dice-{method}", model).fit(NUMBERS).explain(NUMBERS[:6], n=2)
    for query in range(6):
        np.random.seed(7)  # noqa: NPY002
        random.seed(7)
        theirs = bare.generate_counterfactuals(NUMBERS[query : query + 1], total_CFs=2).cf_examples_list[0]
        assert np.abs(result.values[query] - theirs.final_cfs_df_sparse[list(NUMBERS)].to_numpy()).max() < 1e-6
