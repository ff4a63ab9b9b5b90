"""Missing cells: they reach the model as they are, and stay as they are unless the user says otherwise."""

import pickle
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import polars
import pytest
from reference.every_explainer import every_explainer, skipped_with_a_reason
from reference.small_explainers import OPTIONS
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder

from relax_plugin import Counterfactuals, FeatureSpace, make_explainer
from relax_plugin.errors import ConstraintError, ModelError
from relax_plugin.table.vocabulary import is_missing

lightgbm = pytest.importorskip("lightgbm")
xgboost = pytest.importorskip("xgboost")

RNG = np.random.default_rng(21)
ROWS = 160
NUMBERS = pd.DataFrame(
    {
        "amount": RNG.normal(size=ROWS),
        "rate": RNG.normal(size=ROWS).round(1).astype(np.float32),
        "years": RNG.integers(0, 12, ROWS).astype(float),
        "rooms": RNG.normal(size=ROWS),
    }
)
HOLED = NUMBERS.mask(RNG.random(NUMBERS.shape) < 0.2)
GRANTED = (NUMBERS["amount"] + NUMBERS["rate"] + 0.2 * (NUMBERS["years"] - 6) > 0).astype(int)
SIZES = ["S", "M", "L"]
MIXED = pd.DataFrame(
    {
        "amount": HOLED["amount"].to_numpy(),
        "years": pd.array(NUMBERS["years"].astype(int), dtype="Int64"),
        "town": RNG.choice(["Rome", "Bonn", "Oslo"], ROWS).astype(object),
        "job": pd.array(RNG.choice(["cook", "smith"], ROWS), dtype="str"),
        "size": pd.Categorical(RNG.choice(SIZES, ROWS), categories=SIZES, ordered=True),
        "owns": pd.array(RNG.random(ROWS) > 0.5, dtype="boolean"),
    },
    index=[f"row {i}" for i in range(ROWS)],
)
MIXED["town"] = MIXED["town"].astype(object)
MIXED.loc[["row 1", "row 7"], "years"] = pd.NA
MIXED.loc[["row 2", "row 7"], "town"] = None
MIXED.loc["row 3", "town"] = np.nan
MIXED.loc[["row 4", "row 7"], "job"] = np.nan
MIXED.loc[["row 5", "row 7"], "size"] = np.nan
MIXED.loc[["row 6", "row 7"], "owns"] = pd.NA
QUERIES = MIXED[:16]


class Recorded:
    """A model that notes every table it is asked about."""

    def __init__(self, model: Any) -> None:
        self.model, self.seen = model, []  # type: Any, list[pd.DataFrame]
        self.classes_ = getattr(model, "classes_", np.array([0, 1]))

    def predict_proba(self, rows: Any) -> Any:
        self.seen.append(rows.copy())
        return self.model.predict_proba(rows)

    def predict(self, rows: Any) -> Any:
        self.seen.append(rows.copy())
        return self.model.predict(rows)


class Lenient:
    """Answers by every column, whatever is missing in it."""

    classes_ = np.array([0, 1])

    def predict_proba(self, rows: pd.DataFrame) -> Any:
        score = rows["amount"].fillna(-0.2).to_numpy(dtype=float)
        score = score + 0.3 * (rows["years"].astype("Float64").fillna(4).to_numpy(dtype=float) - 6)
        score = score + rows["town"].map({"Rome": 1.0, "Bonn": -1.0, "Oslo": 0.0}).fillna(0.3).to_numpy(dtype=float)
        score = score + 0.5 * (rows["job"] == "cook").fillna(False).to_numpy(dtype=float)
        score = score + 0.4 * rows["size"].map({"S": -1.0, "M": 0.0, "L": 1.0}).astype(float).fillna(0.5).to_numpy()
        score = score + rows["owns"].map({True: 0.8, False: -0.8}).astype("Float64").fillna(0.1).to_numpy(dtype=float)
        chance = 1 / (1 + np.exp(-score))
        return np.column_stack([1 - chance, chance])

    def predict(self, rows: pd.DataFrame) -> Any:
        return self.predict_proba(rows).argmax(axis=1)


@cache
def native(kind: str) -> Any:
    made = {
        "xgboost": lambda: xgboost.XGBClassifier(n_jobs=1, n_estimators=20, max_depth=3),
        "lightgbm": lambda: lightgbm.LGBMClassifier(n_jobs=1, n_estimators=20, num_leaves=7, verbose=-1),
        "histogram": lambda: HistGradientBoostingClassifier(max_iter=20, random_state=0),
    }
    return made[kind]().fit(HOLED, GRANTED)


def plain_rows() -> pd.DataFrame:
    """The mixed rows as scikit-learn takes them: without dtypes of pandas' own, and without pd.NA."""
    rows = MIXED.astype({"years": float, "size": object})
    return rows.assign(
        owns=MIXED["owns"].map({True: "yes", False: "no"}).astype(object).where(MIXED["owns"].notna(), None)
    )


@cache
def pipeline() -> Pipeline:
    rows = plain_rows()
    numbers, categories = ["amount", "years"], ["town", "job", "size", "owns"]
    return make_pipeline(
        make_column_transformer(
            (SimpleImputer(), numbers), (OneHotEncoder(handle_unknown="ignore"), categories), remainder="drop"
        ),
        LogisticRegression(),
    ).fit(rows, Lenient().predict(MIXED))


def gaps(rows: pd.DataFrame) -> Any:
    """Which cells are missing, by what they are: None and NaN are told apart."""
    kinds = {name: [type(cell).__name__ if is_missing(cell) else "" for cell in rows[name].tolist()] for name in rows}
    return pd.DataFrame(kinds).to_numpy()


def check(result: Counterfactuals, queries: pd.DataFrame, model: Any, filled: tuple[str, ...] = ()) -> pd.DataFrame:
    """The found rows turn the model, and their missing cells are those of the queries."""
    frame, names = result.frame, list(queries)
    assert len(frame), "nothing was found"
    original = queries.iloc[frame["query_id"]]
    kept = [name for name in names if name not in filled]
    assert (gaps(frame[kept]) == gaps(original[kept])).all()
    numbered = queries.index.equals(pd.RangeIndex(len(queries)))
    assert frame.index.equals(pd.RangeIndex(len(frame)) if numbered else original.index)
    answers = np.asarray(model.predict(frame[names]))
    assert (answers != np.asarray(model.predict(original))).all()
    assert answers.tolist() == result.after[result.found].tolist()
    return frame.set_axis(original.index)


@pytest.mark.parametrize("kind", ["xgboost", "lightgbm", "histogram"])
def test_models_that_know_missing_numbers_are_explained(kind: str) -> None:
    queries = HOLED[:30]
    assert queries.isna().any(axis=1).sum() > 10
    recorded = Recorded(native(kind))
    result = make_explainer("greedy", recorded).fit(HOLED).explain(queries)
    assert recorded.seen
    frame = check(result, queries, native(kind))
    assert result.found.mean() > 0.8
    assert list(frame.dtypes[2:]) == list(HOLED.dtypes)
    original = queries.iloc[frame["query_id"]]
    for name in HOLED:
        same = (frame[name] == original[name]) | original[name].isna()
        bits = {4: np.uint32, 8: np.uint64}[HOLED[name].dtype.itemsize]
        one, other = (rows[name].to_numpy()[same].view(bits) for rows in (frame, original))
        assert (one == other).all(), "an unchanged cell is the same bit for bit"
    gone = {tuple(row) for row in np.isnan(HOLED.to_numpy())}
    for rows in recorded.seen:
        assert {tuple(row) for row in np.isnan(np.asarray(rows))} <= gone


def test_the_model_sees_what_is_missing_and_never_a_code_for_it() -> None:
    recorded = Recorded(Lenient())
    explainer = make_explainer("greedy", recorded).fit(MIXED)
    recorded.seen.clear()
    explainer.explain(QUERIES[7:8])
    asked = pd.concat(recorded.seen)
    assert len(asked) > 10
    assert asked["years"].isna().all() and asked["town"].isna().all() and asked["owns"].isna().all()
    assert asked["job"].isna().all() and asked["size"].isna().all() and not asked["amount"].isna().any()
    assert asked["town"].map(lambda cell: cell is None).all() and asked["years"].dtype == "Int64"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["greedy", "nearest-ct", "move-table"])
def test_missing_cells_of_every_dtype_stay_what_they_are(name: str) -> None:
    result = make_explainer(name, Lenient()).fit(MIXED).explain(QUERIES, n=2)
    check(result, QUERIES, Lenient())
    assert result.found[:, 0].mean() > 0.8
    assert (result.changes()["to"].map(is_missing) == False).all()  # noqa: E712
    assert (result.changes()["from"].map(is_missing) == False).all()  # noqa: E712


def test_an_imputer_in_the_pipeline_gets_the_gaps() -> None:
    rows = plain_rows()
    result = make_explainer("greedy", pipeline()).fit(rows).explain(rows[:12])
    check(result, rows[:12], pipeline())


def test_a_model_that_refuses_missing_numbers_is_quoted() -> None:
    model = LogisticRegression().fit(NUMBERS, GRANTED)
    with pytest.warns(UserWarning, match="the model refuses .* training rows"):
        make_explainer("greedy", model).fit(HOLED)
    explainer = make_explainer("greedy", model).fit(NUMBERS)
    with pytest.raises(ModelError, match="Input X contains NaN"):
        make_explainer("greedy", model).fit(HOLED[HOLED.isna().any(axis=1)])
    found = explainer.explain(HOLED[HOLED.isna().any(axis=1)][:3])
    assert not found.found.any()
    assert all("Input X contains NaN" in status for status in found.status)


@pytest.mark.parametrize("dtype", ["int64", "int8", "Int64", "float32", "Float64", "float64"])
def test_whole_training_columns_explain_queries_with_gaps(dtype: str) -> None:
    rows = pd.DataFrame({"a": RNG.integers(0, 9, 80), "b": RNG.integers(0, 9, 80)}).astype({"a": dtype})

    def model(table: pd.DataFrame) -> Any:
        a = table["a"].astype("Float64").fillna(2.0).to_numpy(dtype=float)
        chance = 1 / (1 + np.exp(-(a + table["b"].to_numpy() - 8.5)))
        return np.column_stack([1 - chance, chance])

    queries = rows[:6].astype({"a": "Int64" if dtype == "Int64" else "Float64" if dtype == "Float64" else float})
    queries.loc[[0, 3], "a"] = pd.NA if dtype in ("Int64", "Float64") else np.nan
    result = make_explainer("greedy", model).fit(rows).explain(queries)
    assert result.found.all()
    assert (gaps(result.frame[["a", "b"]]) == gaps(queries)).all()
    assert result.frame["a"].isna().tolist() == [True, False, False, True, False, False]
    assert set(result.changes().query("query_id in (0, 3)")["feature"]) == {"b"}


@pytest.mark.slow
def test_a_missing_number_is_filled_only_where_it_is_allowed_and_costs_one() -> None:
    def model(table: pd.DataFrame) -> Any:  # only a known `a` helps
        chance = np.where(table["a"].isna(), 0.1, np.where(table["a"] > 3, 0.9, 0.2))
        return np.column_stack([1 - chance, chance])

    rows = pd.DataFrame({"a": RNG.integers(0, 9, 80).astype(float), "b": RNG.normal(size=80)})
    rows.loc[::4, "a"] = np.nan
    query = pd.DataFrame({"a": [np.nan], "b": [0.5]})
    kept = make_explainer("greedy", model).fit(rows).explain(query)
    assert not kept.found.any() and "no change" not in kept.sentences()[0]
    for name in ("greedy", "nearest-ct", "move-table", "relax-global"):
        space = FeatureSpace.infer(rows, fill_missing=["a"])
        result = make_explainer(name, model, space, **OPTIONS.get(name, {})).fit(rows).explain(query)
        assert result.found.all(), name
        assert result.frame["a"].iloc[0] > 3 and result.frame["b"].iloc[0] == 0.5
        assert result.sparsity.tolist() == [[1.0]] and result.proximity.tolist() == [[1.0]]
        (change,) = result.changes().to_dict("records")
        assert change["feature"] == "a" and np.isnan(change["from"]) and change["to"] > 3
        assert "a were" in result.sentences()[0]


@pytest.mark.parametrize("dtype", [object, "str", "category"])
def test_a_missing_category_is_filled_only_where_it_is_allowed(dtype: Any) -> None:
    def model(table: pd.DataFrame) -> Any:
        chance = np.where((table["town"] == "Rome").fillna(False), 0.9, 0.2)
        return np.column_stack([1 - chance, chance])

    rows = pd.DataFrame({"town": pd.Series(["Rome", "Bonn", "Oslo", None] * 20, dtype=dtype), "b": RNG.normal(size=80)})
    query = rows[3:4]
    assert not make_explainer("greedy", model).fit(rows).explain(query).found.any()
    space = FeatureSpace.infer(rows, fill_missing=["town"])
    result = make_explainer("greedy", model, space).fit(rows).explain(query)
    assert result.frame["town"].tolist() == ["Rome"] and result.proximity.tolist() == [[1.0]]
    assert result.sparsity.tolist() == [[1.0]]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["greedy", "nearest-ct", "move-table", "relax-global"])
def test_a_number_vanishes_only_where_it_may(name: str) -> None:
    def model(table: pd.DataFrame) -> Any:  # it likes what is unknown
        chance = np.where(table["a"].isna(), 0.9, 0.2)
        return np.column_stack([1 - chance, chance])

    rows = pd.DataFrame({"a": RNG.normal(size=80), "b": RNG.normal(size=80)})
    rows.loc[::4, "a"] = np.nan
    query = pd.DataFrame({"a": [1.0], "b": [0.5]})
    options = OPTIONS.get(name, {})
    assert not make_explainer(name, model, **options).fit(rows).explain(query).found.any()
    space = FeatureSpace.infer(rows, may_vanish=["a"])
    result = make_explainer(name, model, space, **options).fit(rows).explain(query)
    assert result.found.all() and np.isnan(result.frame["a"].iloc[0]) and result.frame["b"].iloc[0] == 0.5
    assert result.proximity.tolist() == [[1.0]]


def test_a_category_vanishes_only_where_it_may() -> None:
    def model(table: pd.DataFrame) -> Any:
        chance = np.where(table["town"].isna(), 0.9, 0.2)
        return np.column_stack([1 - chance, chance])

    rows = pd.DataFrame({"town": pd.Series(["Rome", "Bonn", None] * 20, dtype=object), "b": RNG.normal(size=60)})
    assert not make_explainer("greedy", model).fit(rows).explain(rows[:1]).found.any()
    space = FeatureSpace.infer(rows, may_vanish=["town"])
    result = make_explainer("greedy", model, space).fit(rows).explain(rows[:1])
    assert result.found.all() and result.frame["town"].isna().all()


def test_a_filled_cell_keeps_bounds_and_directions() -> None:
    space = FeatureSpace.infer(HOLED, fill_missing=list(HOLED), bounds={"years": (3, 5)})
    model = native("xgboost")
    result = (
        make_explainer("greedy", model, space)
        .fit(HOLED)
        .explain(HOLED[:40], increase_only=["amount"], decrease_only=["rate"])
    )
    frame = check(result, HOLED[:40], model, tuple(HOLED))
    original = HOLED.iloc[frame["query_id"]]
    filled = original.isna() & frame[list(HOLED)].notna()
    assert filled.to_numpy().any()
    moved = frame["years"].ne(original["years"]) & frame["years"].notna()
    assert frame["years"][moved].between(3, 5).all()
    known = original["amount"].notna()
    assert (frame["amount"][known] >= original["amount"][known]).all()
    known = original["rate"].notna()
    assert (frame["rate"][known] <= original["rate"][known]).all()
    assert not (original.notna() & frame[list(HOLED)].isna()).to_numpy().any()


def test_polars_nulls_are_missing() -> None:
    table = polars.from_pandas(HOLED.astype({"rate": float})).with_columns(
        polars.when(polars.col("amount").is_nan()).then(None).otherwise(polars.col("amount")).alias("amount")
    )
    rows = HOLED.astype({"rate": float})
    model = HistGradientBoostingClassifier(max_iter=10, random_state=0).fit(rows, GRANTED)
    result = make_explainer("greedy", model).fit(table).explain(table[:12])
    expected = make_explainer("greedy", model).fit(rows).explain(rows[:12])
    pd.testing.assert_frame_equal(result.frame, expected.frame)


def test_arrays_with_gaps_are_explained() -> None:
    rows = HOLED.to_numpy(dtype=np.float64)
    model = HistGradientBoostingClassifier(max_iter=10, random_state=0).fit(rows, GRANTED)
    result = make_explainer("greedy", model).fit(rows).explain(rows[:12])
    assert result.found.any()
    query, slot = np.nonzero(result.found)
    array = result.to_array()
    assert (np.isnan(array[query, slot]) == np.isnan(rows[query])).all()
    again = Counterfactuals.from_json(result.to_json())
    assert np.array_equal(again.to_array(), array, equal_nan=True)


def test_what_cannot_vanish_is_refused() -> None:
    rows = pd.DataFrame({"a": [1.0, 2.0], "when": pd.date_range("2020-01-01", periods=2)})
    with pytest.raises(ConstraintError, match="may_vanish names feature 'when'"):
        FeatureSpace.infer(rows, may_vanish=["when"])


@every_explainer
def test_every_explainer_keeps_missing_cells_or_says_why_not(name: str) -> None:
    queries = HOLED[HOLED.isna().any(axis=1)][:6]
    model = native("xgboost")
    explainer = make_explainer(name, model, **OPTIONS.get(name, {}))
    with skipped_with_a_reason():
        check(explainer.fit(HOLED).explain(queries), queries, model)


@every_explainer
def test_every_explainer_keeps_missing_categories_or_says_why_not(name: str) -> None:
    explainer = make_explainer(name, Lenient(), **OPTIONS.get(name, {}))
    with skipped_with_a_reason():
        check(explainer.fit(MIXED).explain(QUERIES[:8]), QUERIES[:8], Lenient())


def test_json_and_pickles_hold_every_kind_of_gap() -> None:
    result = make_explainer("greedy", Lenient()).fit(MIXED).explain(QUERIES, n=2)
    for again in (Counterfactuals.from_json(result.to_json()), pickle.loads(pickle.dumps(result))):
        pd.testing.assert_frame_equal(again.frame, result.frame)
        assert (gaps(again.frame) == gaps(result.frame)).all()
        assert (gaps(pd.DataFrame(again.queries)) == gaps(QUERIES)).all()
        assert again.sentences() == result.sentences()
        assert np.array_equal(again.proximity, result.proximity, equal_nan=True)
        assert (again.space.is_missing(again.start) == result.space.is_missing(result.start)).all()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rows", "model"), [(MIXED, Lenient()), (HOLED, native("xgboost"))], ids=["categories", "numbers"]
)
def test_a_saved_agent_answers_as_before_about_rows_with_gaps(rows: pd.DataFrame, model: Any, tmp_path: Any) -> None:
    explainer = make_explainer("relax-global", model, **OPTIONS["relax-global"]).fit(rows)
    expected = explainer.explain(rows[:12])
    check(expected, rows[:12], model)
    explainer.save(tmp_path / "agent.safetensors")
    again = type(explainer).load(tmp_path / "agent.safetensors", model=model)
    pd.testing.assert_frame_equal(again.explain(rows[:12]).frame, expected.frame)
