"""Facts about the rows of a Dask DataFrame explained: partitions change no answer."""

import pickle
import sys
from pathlib import Path
from typing import Any

import dask
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

from relax_plugin import FeatureSpace, Goal, make_explainer
from relax_plugin.base import CounterfactualExplainer
from relax_plugin.distributed import explain
from relax_plugin.distributed.frames import all_slots, answer_dtype, settled
from relax_plugin.distributed.places import Shipped
from relax_plugin.errors import ColumnError, GoalError, InputError, MissingExtraError, NotFittedError, SavedFileError

ROWS = 60


def rows(count: int = ROWS, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "income": rng.normal(50, 10, count).round(1),
            "age": rng.integers(20, 70, count),
            "town": rng.choice(["Bonn", "Rome", "Oslo"], count),
        }
    )
    return frame.set_axis([f"person {row:03d}" for row in range(count)])


class Model:
    """Texts for answers, by a rule over all columns."""

    _estimator_type = "classifier"
    classes_ = np.array(["no", "yes"])

    def predict_proba(self, X: pd.DataFrame) -> Any:
        score = (X["income"] + X["age"] / 10 + 5.0 * (X["town"] == "Rome")).to_numpy()
        yes = 1 / (1 + np.exp((58 - score) / 10))
        return np.column_stack([1 - yes, yes])

    def predict(self, X: pd.DataFrame) -> Any:
        return self.classes_[self.predict_proba(X).argmax(axis=1)]


@pytest.fixture(scope="module")
def explainer() -> CounterfactualExplainer:
    space = FeatureSpace.infer(rows(), immutable=["age"])
    return make_explainer("greedy", Model(), space).fit(rows())


@pytest.mark.slow
@pytest.mark.parametrize("partitions", [1, 7])
@pytest.mark.parametrize("call", [{}, {"n": 3}, {"vary": ["town"]}, {"goal": Goal.to("yes"), "carry": ["remark"]}])
def test_partitions_change_no_answer(explainer: CounterfactualExplainer, partitions: int, call: dict[str, Any]) -> None:
    queries = rows(seed=1).assign(remark=[f"row {row}" for row in range(ROWS)])
    queries = queries if call.get("carry") else queries.drop(columns="remark")
    lazy = explain(dd.from_pandas(queries, npartitions=partitions), explainer, **call)
    assert lazy.npartitions == partitions
    with dask.config.set(scheduler="synchronous"):
        got = lazy.compute()
    whole = explainer.explain(queries, **call)
    pd.testing.assert_series_equal(got.dtypes, lazy.dtypes)
    assert len(got) == ROWS * call.get("n", 1)
    assert (got["found"].to_numpy() == whole.found.ravel()).all()
    assert (got.index == np.repeat(queries.index, call.get("n", 1))).all()
    found = got[got["found"]]
    names = [*explainer.space_.columns, *call.get("carry", [])]
    same: dict[str, Any] = {"check_dtype": False, "check_index_type": False, "check_exact": True}  # texts are Arrow's
    pd.testing.assert_frame_equal(found[names], whole.frame[names], **same)
    query, slot = np.nonzero(whole.found)
    assert (found["cf_id"] == slot).all()
    assert (found["before"] == whole.before[query]).all() and (found["after"] == whole.after[query, slot]).all()
    assert (found["reason"] == "").all()
    missed = got[~got["found"]]
    assert (missed["reason"] == whole.statuses[~whole.found]).all() and (missed["reason"] != "").all()
    own = queries.loc[missed.index, explainer.space_.columns]
    pd.testing.assert_frame_equal(missed[explainer.space_.columns], own, **same)


def test_a_row_without_an_answer_is_a_line_with_its_reason(explainer: CounterfactualExplainer) -> None:
    queries = rows(seed=1)
    result = explainer.explain(queries, vary=["town"])
    assert not result.found.all() and result.found.any()
    table = all_slots(result, answer_dtype(explainer))
    assert list(table.columns) == ["cf_id", "found", "reason", *queries.columns, "before", "after"]
    assert len(table) == ROWS
    assert table.loc[~table["found"], "reason"].str.contains("vary|no |none|budget|found", regex=True).all()


@pytest.mark.slow
def test_whole_numbers_are_fractions_where_training_rows_have_some() -> None:
    """Whether an answer needs fractions depends on the rows of a partition; its type must not."""
    training = pd.DataFrame({"x": np.linspace(0, 10, 101), "y": np.arange(101.0)})
    model = DecisionTreeClassifier(random_state=0).fit(training, training["x"] > 5.25)
    explainer = make_explainer("greedy", model).fit(training)
    queries = pd.DataFrame({"x": [1, 9, 2, 8], "y": [1, 2, 3, 4]})
    lazy = explain(dd.from_pandas(queries, npartitions=4), explainer)
    assert lazy.dtypes["x"] == np.float64
    with dask.config.set(scheduler="synchronous"):
        assert lazy.compute()["found"].all()


@pytest.mark.slow
def test_an_empty_partition_has_no_answers(explainer: CounterfactualExplainer) -> None:
    lazy = dd.from_pandas(rows(), npartitions=3)
    some = explain(lazy[lazy["income"] > 1e6], explainer)
    with dask.config.set(scheduler="synchronous"):
        got = some.compute()
    assert len(got) == 0
    pd.testing.assert_series_equal(got.dtypes, some.dtypes)


def test_wrong_calls_are_refused_before_anything_is_computed(
    explainer: CounterfactualExplainer, monkeypatch: pytest.MonkeyPatch
) -> None:
    lazy = dd.from_pandas(rows(), npartitions=2)
    with pytest.raises(InputError, match="a Dask DataFrame is needed, not a DataFrame"):
        explain(rows(), explainer)  # type: ignore[arg-type]
    with pytest.raises(NotFittedError):
        explain(lazy, make_explainer("greedy", Model()))
    with pytest.raises(ColumnError, match="has no column 'age'"):
        explain(lazy[["income", "town"]], explainer)
    with pytest.raises(ColumnError, match="called 'found', as is one of the answers"):
        explain(lazy.assign(found=1), explainer, carry=["found"])
    with pytest.raises(GoalError, match="for each row, which no partition could tell apart"):
        explain(lazy, explainer, goal=Goal.to(["yes"] * ROWS))
    with pytest.raises(InputError, match="bounds of feature 'income' are one a row"):
        explain(lazy, explainer, bounds={"income": (rows()["income"], None)})
    with pytest.raises(InputError, match="'town' is one name; give a list"):
        explain(lazy, explainer, vary="town")
    monkeypatch.setitem(sys.modules, "dask.dataframe", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'relax-plugin\[dask\]'"):
        explain(lazy, explainer)


def test_types_that_cannot_hold_an_answer_are_refused() -> None:
    table = pd.DataFrame({"x": [1.0, 2.5]})
    assert settled(table[:1], {"x": np.dtype(int)})["x"].dtype == int
    with pytest.raises(ColumnError, match="feature 'x' is float64 in the answers and int64 in the table"):
        settled(table, {"x": np.dtype(np.int64)})


def test_an_explainer_is_unpacked_once_and_answers_the_same(
    explainer: CounterfactualExplainer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shipped = Shipped.of(explainer).in_file(tmp_path / "explainer")
    assert len(pickle.dumps(shipped)) < 1000, "a part does not carry it along"
    other = shipped.explainer()
    assert other is shipped.explainer() and other is not explainer
    expected, got = explainer.explain(rows(seed=2)), other.explain(rows(seed=2))
    assert np.array_equal(expected.values, got.values) and np.array_equal(expected.rows_queried, got.rows_queried)


def test_a_file_that_is_not_the_explainer_is_not_unpacked(tmp_path: Path) -> None:
    explainer = make_explainer("greedy", LogisticRegression().fit([[0.0], [1.0]], [0, 1])).fit(np.array([[0.0], [1.0]]))
    shipped = Shipped.of(explainer).in_file(tmp_path / "explainer")
    (tmp_path / "explainer").write_bytes(b"cos\nsystem\n(S'false'\ntR.")
    with pytest.raises(SavedFileError, match="not the explainer that was sent"):
        shipped.explainer()


def test_a_model_that_cannot_be_sent_is_named(explainer: CounterfactualExplainer) -> None:
    class Bound(Model):
        def __reduce__(self) -> Any:
            raise TypeError("a connection cannot be pickled")

    with pytest.raises(InputError, match="a Bound, cannot be pickled: TypeError a connection"):
        Shipped.of(explainer.for_model(Bound()))
