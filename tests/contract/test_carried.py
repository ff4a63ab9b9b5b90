"""Columns that only come along, rows in whatever they come in, and the user's index."""

import warnings
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest
from reference.every_explainer import every_explainer, skipped_with_a_reason
from reference.small_explainers import OPTIONS
from sklearn.ensemble import HistGradientBoostingClassifier

from relax_plugin import Counterfactuals, FeatureSpace, make_explainer
from relax_plugin.errors import ColumnError, ConstraintError, InputError, TableNote, UnknownNameError

lightgbm = pytest.importorskip("lightgbm")
xgboost = pytest.importorskip("xgboost")

RNG = np.random.default_rng(5)
ROWS = 80
START = pd.Timestamp("2020-01-01")
RICH = pd.DataFrame(
    {
        "when": pd.date_range(START, periods=ROWS, tz="Europe/Rome"),
        "since": pd.to_timedelta(RNG.integers(1, 900, ROWS), unit="D"),
        "amount": RNG.normal(size=ROWS),
        "remark": [f"remark number {i}" for i in range(ROWS)],
        "price": [Decimal(i) / 8 for i in range(ROWS)],
        "tags": [["a", "b"][: i % 3] for i in range(ROWS)],
        "day": [(START + pd.Timedelta(i, "D")).date() for i in range(ROWS)],
        "town": RNG.choice(["Rome", "Bonn", "Oslo"], ROWS),
        "years": RNG.integers(0, 9, ROWS),
    }
)
CARRIED = ["when", "since", "remark", "price", "tags", "day"]
PLAIN = RICH[["amount", "town", "years"]]
TOWNS = {"Rome": 1.0, "Bonn": -1.0, "Oslo": 0.0}


def plain_model(rows: pd.DataFrame) -> Any:
    towns = rows["town"].map(TOWNS).astype(float).fillna(0.5)
    score = rows["amount"].to_numpy(float) + towns.to_numpy() + 0.2 * (rows["years"].to_numpy(float) - 4)
    chance = 1 / (1 + np.exp(-score))
    return np.column_stack([1 - chance, chance])


def rich_model(rows: pd.DataFrame) -> Any:
    """Reads every column, and breaks if a carried cell is not what it was."""
    assert rows["when"].dt.tz is not None
    shift = rows["since"].dt.days.to_numpy() / 9000 + np.array([float(price) for price in rows["price"]]) / 100
    shift = shift + np.array([len(tags) for tags in rows["tags"]]) / 10
    shift = shift + np.array([int(text.split()[-1]) for text in rows["remark"]]) / 1000
    shift = shift + np.array([day.year for day in rows["day"]]) / 1e6
    score = np.log(plain_model(rows)[:, 1] / plain_model(rows)[:, 0]) + shift
    chance = 1 / (1 + np.exp(-score))
    return np.column_stack([1 - chance, chance])


def quiet(explainer: Any, rows: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return explainer.fit(rows)


@every_explainer
def test_carried_columns_reach_the_model_and_the_results_untouched(name: str) -> None:
    explainer = make_explainer(name, rich_model, **OPTIONS.get(name, {}))
    queries = RICH[:6]
    with skipped_with_a_reason():
        result = quiet(explainer, RICH).explain(queries)
        frame = result.frame
        assert len(frame)
        original = queries.iloc[frame["query_id"]]
        pd.testing.assert_frame_equal(frame[CARRIED], original[CARRIED])
        for column in ("tags", "price", "day"):
            assert all(one is other for one, other in zip(frame[column], original[column], strict=True))
        answers = rich_model(frame[list(RICH)]).argmax(axis=1)
        assert (answers != rich_model(original).argmax(axis=1)).all()
        assert set(result.changes()["feature"]) <= {"amount", "town", "years"}


def test_what_is_carried_is_said_once() -> None:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        FeatureSpace.infer(RICH)
    notes = [str(one.message) for one in told if issubclass(one.category, TableNote)]
    assert len(notes) == 1 and all(repr(name) in notes[0] for name in CARRIED if name != "remark")
    others = [str(one.message) for one in told if not issubclass(one.category, TableNote)]
    assert len(others) == 1 and "'remark' has 80 different texts in 80 rows" in others[0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        FeatureSpace.infer(RICH, immutable=CARRIED)
        explainer = make_explainer("greedy", rich_model, FeatureSpace.infer(RICH, immutable=CARRIED)).fit(RICH)
        explainer.explain(RICH[:3])


@pytest.mark.parametrize("argument", ["continuous", "increase_only", "decrease_only", "fill_missing"])
def test_nothing_can_be_wanted_of_a_carried_column(argument: str) -> None:
    with pytest.raises(ConstraintError, match=f"{argument} names feature 'when' of dtype datetime64"):
        FeatureSpace.infer(RICH, **{argument: ["when"]})


def test_carried_cells_that_training_did_not_have_come_along_too() -> None:
    queries = RICH[:2].assign(
        when=pd.date_range("1990-01-01", periods=2, tz="Europe/Rome"),
        tags=[["new"], []],
        remark=["remark number 900", "remark number 901"],
    )
    explainer = quiet(make_explainer("greedy", rich_model), RICH)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = explainer.explain(queries)
    assert result.found.all()
    pd.testing.assert_frame_equal(result.frame[CARRIED], queries[CARRIED])
    again = Counterfactuals.from_json(result.to_json())
    pd.testing.assert_frame_equal(again.frame, result.frame)
    assert again.sentences() == result.sentences()


@pytest.mark.parametrize("dtype", [object, "str", "category"])
def test_an_unseen_category_is_kept_and_told_with_row_and_value(dtype: Any) -> None:
    rows = PLAIN.astype({"town": dtype})
    queries = rows[:4].copy()
    queries["town"] = pd.Series(["Rome", "Paris", "Bonn", "Paris"], index=queries.index, dtype=dtype)
    explainer = make_explainer("greedy", plain_model).fit(rows)
    with pytest.warns(UserWarning, match="feature 'town' is 'Paris' in row 1, but the training data has only") as told:
        result = explainer.explain(queries, immutable=["town"])
    assert len([one for one in told if "Paris" in str(one.message)]) == 1
    assert result.found.all() and result.frame["town"].tolist() == ["Rome", "Paris", "Bonn", "Paris"]
    with pytest.warns(UserWarning, match="Paris"):
        free = explainer.explain(queries)
    assert not (free.changes()["to"] == "Paris").any()
    again = Counterfactuals.from_json(free.to_json())
    pd.testing.assert_frame_equal(again.frame, free.frame)


@pytest.mark.parametrize("kind", ["lightgbm", "xgboost", "histogram"])
def test_boosted_trees_get_unseen_and_missing_categories_as_categories(kind: str) -> None:
    models: dict[str, Any] = {
        "lightgbm": lightgbm.LGBMClassifier(n_jobs=1, n_estimators=20, num_leaves=7, verbose=-1),
        "xgboost": xgboost.XGBClassifier(n_jobs=1, n_estimators=20, max_depth=3, enable_categorical=True),
        "histogram": HistGradientBoostingClassifier(max_iter=20, categorical_features="from_dtype", random_state=0),
    }
    rows = pd.concat([PLAIN] * 3, ignore_index=True).astype({"town": "category"})
    rows.loc[::9, "town"] = np.nan
    model = models[kind].fit(rows, (rows["town"] == "Rome").astype(int))
    queries = rows[:9].assign(town=rows["town"].cat.add_categories(["Paris"])[:9])
    queries.loc[3, "town"] = "Paris"
    explainer = make_explainer("greedy", model).fit(rows)
    with pytest.warns(UserWarning, match="Paris"):
        result = explainer.explain(queries)
    frame = result.frame
    assert frame["town"].dtype == queries["town"].dtype and result.found.sum() >= 7
    own = queries.iloc[frame["query_id"]]
    assert (frame["town"].isna().to_numpy() == own["town"].isna().to_numpy()).all()
    assert (model.predict(frame[list(rows)]) != model.predict(own)).all()
    assert "town" in set(result.changes()["feature"]), "else nothing is shown"
    again = Counterfactuals.from_json(result.to_json())
    assert again.frame["town"].tolist()[3:4] == frame["town"].tolist()[3:4]


def test_an_unseen_category_may_be_left_for_a_known_one() -> None:
    def model(rows: pd.DataFrame) -> Any:
        chance = np.where(rows["town"] == "Rome", 0.9, 0.2)
        return np.column_stack([1 - chance, chance])

    explainer = make_explainer("greedy", model).fit(PLAIN)
    with pytest.warns(UserWarning, match="Paris"):
        result = explainer.explain(PLAIN[:1].assign(town="Paris"))
    assert result.frame["town"].tolist() == ["Rome"] and result.proximity.tolist() == [[1.0]]
    assert "town were Rome instead of Paris" in result.sentences()[0]


def test_extra_columns_come_along_if_they_are_named() -> None:
    queries = PLAIN[:5].assign(customer=list("abcde"), note=[[1]] * 5)
    seen: list[list[str]] = []

    def model(rows: pd.DataFrame) -> Any:
        seen.append(list(rows))
        return plain_model(rows)

    explainer = make_explainer("greedy", model).fit(PLAIN)
    with pytest.raises(ColumnError, match=r"'customer' is not a feature; drop it, or name it: carry=\['customer'\]"):
        explainer.explain(queries)
    result = explainer.explain(queries, carry=["customer", "note"])
    assert list(result.frame) == ["query_id", "cf_id", *PLAIN, "customer", "note"]
    assert result.frame["customer"].tolist() == [list("abcde")[query] for query in result.frame["query_id"]]
    assert all(names == list(PLAIN) for names in seen)
    again = Counterfactuals.from_json(result.to_json())
    pd.testing.assert_frame_equal(again.frame, result.frame)
    with pytest.raises(UnknownNameError, match="carry names column 'custom'; did you mean 'customer'"):
        explainer.explain(queries, carry=["custom"])
    with pytest.raises(ColumnError, match=f"carry names column '{PLAIN.columns[0]}', which the model knows"):
        explainer.explain(queries, carry=[PLAIN.columns[0]])
    with pytest.raises(UnknownNameError, match="'zip'; the rows have none that the model does not know"):
        explainer.explain(PLAIN[:1], carry=["zip"])
    with pytest.raises(InputError, match="carry must be a list"):
        explainer.explain(queries, carry="customer")


def test_rows_may_come_as_records_of_any_kind() -> None:
    explainer = make_explainer("greedy", plain_model).fit(PLAIN)
    expected = explainer.explain(PLAIN[:2]).frame[list(PLAIN)].astype(object)
    first, second = PLAIN.iloc[0], PLAIN.iloc[1]
    given: list[Any] = [
        [first.to_dict(), second.to_dict()],
        (first.to_dict(), second.to_dict()),
        [first, second],
        PLAIN[:2].to_dict("list"),
        PLAIN[:2][["years", "town", "amount"]],
        [{name: one[name] for name in ("town", "years", "amount")} for one in (first, second)],
    ]
    for rows in given:
        found = explainer.explain(rows).frame[list(PLAIN)].astype(object)
        pd.testing.assert_frame_equal(found.reset_index(drop=True), expected.reset_index(drop=True))
    for row in (first, first.to_dict()):
        found = explainer.explain(row).frame[list(PLAIN)].astype(object)
        pd.testing.assert_frame_equal(found.reset_index(drop=True), expected[:1].reset_index(drop=True))
    with pytest.raises(ColumnError, match="'years' is missing"):
        explainer.explain({"amount": 1.0, "town": "Rome"})


@pytest.mark.parametrize(
    "index",
    [
        pd.Index(["p", "p", "q", "p"]),
        pd.MultiIndex.from_product([["x", "y"], [1, 2]], names=["one", "two"]),
        pd.date_range("2020-01-01", periods=4, freq="D"),
        pd.Index([9, 7, 5, 3], name="customer"),
    ],
    ids=["duplicate", "multi", "dates", "numbers"],
)
def test_the_index_of_the_user_stays(index: pd.Index) -> None:
    queries = PLAIN[:4].set_axis(index)
    result = make_explainer("greedy", plain_model).fit(PLAIN).explain(queries, n=2)
    frame = result.frame
    assert frame.index.equals(queries.index[frame["query_id"]]) and frame.index.names == index.names
    assert frame["query_id"].max() == 3
    again = Counterfactuals.from_json(result.to_json())
    assert again.frame.index.equals(frame.index)


@pytest.mark.slow
def test_a_saved_agent_with_carried_columns_answers_as_before(tmp_path: Any) -> None:
    explainer = quiet(make_explainer("relax-global", rich_model, **OPTIONS["relax-global"]), RICH)
    expected = explainer.explain(RICH[:6])
    explainer.save(tmp_path / "agent.safetensors")
    again = type(explainer).load(tmp_path / "agent.safetensors", model=rich_model)
    pd.testing.assert_frame_equal(again.explain(RICH[:6]).frame, expected.frame)


class Model:
    classes_ = np.array([0, 1])

    def predict_proba(self, rows: pd.DataFrame) -> Any:
        chance = 1 / (1 + np.exp(5 - rows["x"].to_numpy()))
        return np.column_stack([1 - chance, chance])

    def predict(self, rows: pd.DataFrame) -> Any:
        return self.predict_proba(rows).argmax(axis=1)


def test_many_unseen_categories_are_counted_and_the_row_is_named_once() -> None:
    rows = pd.DataFrame({"x": np.arange(60) / 4, "town": [f"town {place:02}" for place in range(30)] * 2})
    explainer = make_explainer("greedy", Model()).fit(rows)
    queries = pd.DataFrame({"x": [1.0, 2.0, 3.0], "town": ["town 01", "Paris", "Lyon"]}, index=["p", "q", "r"])
    with pytest.warns(UserWarning, match=r"'town' is 'Paris' in row 'q' \(position 1\) and has 1 more unseen") as told:
        explainer.explain(queries)
    said = str(told[0].message)
    assert "'town 07'] and 22 more. It reaches the model as it is." in said and "town 08" not in said
