"""One-hot groups: several columns of the user's that are one feature, never torn apart."""

import pickle
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from reference.every_explainer import every_explainer, skipped_with_a_reason
from reference.small_explainers import OPTIONS
from sklearn.linear_model import LogisticRegression

from relax_plugin import Counterfactuals, FeatureSpace, Rule, make_explainer
from relax_plugin.errors import ConstraintError, TableNote, UnknownNameError
from relax_plugin.evaluation.whole_rows import WholeRows

RNG = np.random.default_rng(9)
ROWS = 120
JOBS = RNG.choice(["cook", "smith", "clerk"], ROWS)
COLUMNS = ["job_clerk", "job_cook", "job_smith"]
GROUPS = {"job": COLUMNS}


def table(dtype: Any = "int64", drop_first: bool = False) -> pd.DataFrame:
    dummies = pd.get_dummies(pd.Series(JOBS), prefix="job", drop_first=drop_first).astype(dtype)
    return pd.concat([pd.Series(np.linspace(-2, 2, ROWS).round(2), name="amount"), dummies], axis=1)


WHOLE = table()


def model(rows: pd.DataFrame) -> Any:
    """Wants a cook; whatever else is only slightly in the way."""
    rows = pd.DataFrame(rows).astype(float).fillna(0.3)
    score = 0.4 * rows["amount"] + 2.5 * rows["job_cook"] - 1.2 * rows["job_smith"] - 0.5
    chance = 1 / (1 + np.exp(-score.to_numpy()))
    return np.column_stack([1 - chance, chance])


def whole(rows: pd.DataFrame, columns: list[str] = COLUMNS, least: int = 1) -> bool:
    cells = rows[columns].astype(float)
    return bool(cells.isin((0, 1)).all(axis=None) and cells.sum(axis=1).between(least, 1).all())


@every_explainer
def test_every_explainer_keeps_groups_whole(name: str) -> None:
    fitted = LogisticRegression().fit(WHOLE, model(WHOLE).argmax(axis=1))
    space = FeatureSpace.infer(WHOLE, one_hot=GROUPS)
    queries = WHOLE[::12]
    with skipped_with_a_reason():
        result = make_explainer(name, fitted, space, **OPTIONS.get(name, {})).fit(WHOLE).explain(queries)
        frame = result.frame
        assert len(frame) and whole(frame) and list(frame.dtypes[2:]) == list(WHOLE.dtypes)
        assert (fitted.predict(frame[list(WHOLE)]) != fitted.predict(queries.iloc[frame["query_id"]])).all()


@pytest.mark.parametrize("dtype", ["bool", "int64", "int8", "uint8", "float64", "float32", "Int64", "boolean"])
def test_dummies_of_every_dtype_are_read_and_written_as_they_came(dtype: str) -> None:
    rows = table(dtype)
    space = FeatureSpace.infer(rows, one_hot=GROUPS)
    (feature,) = [f for f in space.features if f.columns]
    assert (feature.name, feature.categories) == ("job", ("clerk", "cook", "smith"))
    assert space.names == ["amount", "job"] and space.columns == list(rows) and not space.is_plain
    values = space.values(rows)
    assert [feature.categories[int(code)] for code in values[:, 1]] == JOBS.tolist()
    pd.testing.assert_frame_equal(space.model_input(values), rows)
    seen: list[Any] = []

    def watched(asked: pd.DataFrame) -> Any:
        seen.append(asked.dtypes.tolist())
        return model(asked)

    result = make_explainer("greedy", watched, space).fit(rows).explain(rows[:20])
    assert whole(result.frame) and list(result.frame.dtypes[2:]) == list(rows.dtypes)
    assert all(kinds == rows.dtypes.tolist() for kinds in seen)


@pytest.mark.parametrize("dtype", ["bool", "int8", "float64"])
def test_dummies_of_a_query_keep_its_dtype_whatever_training_had(dtype: str) -> None:
    for trained in ("bool", "int64"):
        rows, queries = table(trained), table(dtype)[:20]
        result = make_explainer("greedy", model, FeatureSpace.infer(rows, one_hot=GROUPS)).fit(rows).explain(queries)
        assert whole(result.frame) and list(result.frame.dtypes[2:]) == list(queries.dtypes)


def test_a_change_is_told_by_its_category_and_counts_once() -> None:
    space = FeatureSpace.infer(WHOLE, one_hot=GROUPS)
    query = pd.DataFrame({"amount": [0.0], "job_clerk": [0], "job_cook": [0], "job_smith": [1]})
    result = make_explainer("greedy", model, space).fit(WHOLE).explain(query)
    assert result.changes().to_dict("records") == [
        {"query_id": 0, "cf_id": 0, "feature": "job", "from": "smith", "to": "cook"}
    ]
    assert "job were cook instead of smith" in result.sentences()[0]
    assert result.sparsity.tolist() == [[1.0]] and result.proximity.tolist() == [[1.0]]
    assert result.frame[COLUMNS].to_numpy().tolist() == [[0, 1, 0]]
    assert result.to_array().shape == (1, 1, 4) and result.to_array()[0, 0].tolist() == [0.0, 0, 1, 0]
    assert ">cook</b>" in result._repr_html_() and "job_cook" not in result._repr_html_()
    for again in (Counterfactuals.from_json(result.to_json()), pickle.loads(pickle.dumps(result))):
        pd.testing.assert_frame_equal(again.frame, result.frame)
        assert again.sentences() == result.sentences()


def test_auto_finds_groups_and_says_so() -> None:
    with pytest.warns(
        TableNote, match=r"one-hot groups were found, each of which is one feature: 'job' of \['job_clerk'"
    ):
        found = FeatureSpace.infer(WHOLE, one_hot="auto")
    assert found == FeatureSpace.infer(WHOLE, one_hot=GROUPS)


def test_an_evident_group_is_worth_a_warning() -> None:
    with pytest.warns(UserWarning, match=r"\['job_clerk', 'job_cook', 'job_smith'\] look like the one-hot code"):
        space = FeatureSpace.infer(WHOLE)
    assert space.names == list(WHOLE)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert FeatureSpace.infer(WHOLE, one_hot={}).names == list(WHOLE)
        FeatureSpace.infer(table(drop_first=True))  # of which rows without any are not evident
        FeatureSpace.infer(pd.DataFrame({"is_a": [0, 1, 0, 1], "is_b": [1, 1, 0, 0]}))


def test_a_dropped_first_column_is_the_category_of_none() -> None:
    rows = table(drop_first=True)
    columns = ["job_cook", "job_smith"]
    space = FeatureSpace.infer(rows, one_hot={"job": columns})
    (feature,) = [f for f in space.features if f.columns]
    assert feature.categories == ("cook", "smith", "(none)")
    values = space.values(rows)
    assert (values[:, 1] == 2).sum() == (JOBS == "clerk").sum()
    result = make_explainer("greedy", model, space).fit(rows).explain(rows[:20])
    assert whole(result.frame, columns, least=0)
    changes = result.changes().query("feature == 'job'")
    assert set(changes["from"]) | set(changes["to"]) <= {"cook", "smith", "(none)"} and len(changes)


def test_torn_rows_and_gaps_stay_as_they_are_unless_they_get_a_category() -> None:
    space = FeatureSpace.infer(table(float), one_hot=GROUPS)
    explainer = make_explainer("greedy", model, space).fit(table(float))
    torn = pd.DataFrame(
        {
            "amount": [0.1, 0.1, 0.1, 0.1],
            "job_clerk": [1.0, np.nan, 0.0, 0.5],
            "job_cook": [0.0, 0.0, 0.0, 0.0],
            "job_smith": [1.0, 1.0, 0.0, 0.0],
        }
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        kept = explainer.explain(torn, immutable=["job"])
        free = explainer.explain(torn)
    pd.testing.assert_frame_equal(
        kept.frame[COLUMNS].reset_index(drop=True),
        torn.iloc[kept.frame["query_id"]][COLUMNS].reset_index(drop=True),
    )
    assert len(kept.frame)
    for _, row in free.frame.iterrows():
        own = torn.loc[int(row["query_id"]), COLUMNS]
        assert row[COLUMNS].equals(own) or sorted(row[COLUMNS]) == [0.0, 0.0, 1.0]
    gap = free.frame.query("query_id == 1")
    assert np.isnan(gap["job_clerk"]).all(), "a missing cell is not filled"
    assert free.frame.query("query_id == 0")["job_cook"].tolist() == [1.0]
    again = Counterfactuals.from_json(free.to_json())
    pd.testing.assert_frame_equal(again.frame, free.frame)


def test_a_gap_of_a_group_is_filled_where_that_is_allowed() -> None:
    rows = table(float)
    space = FeatureSpace.infer(rows, one_hot=GROUPS, fill_missing=["job"])
    query = pd.DataFrame({"amount": [-0.5], "job_clerk": [np.nan], "job_cook": [np.nan], "job_smith": [np.nan]})
    explainer = make_explainer("greedy", model, space).fit(rows)
    result = explainer.explain(query, vary=["job"])
    assert result.frame[COLUMNS].to_numpy().tolist() == [[0.0, 1.0, 0.0]]


def test_constraints_speak_of_the_group() -> None:
    space = FeatureSpace.infer(WHOLE, one_hot=GROUPS, bounds={"job": ["clerk", "smith"]})
    result = make_explainer("greedy", model, space).fit(WHOLE).explain(WHOLE[:30])
    assert "cook" not in set(result.changes()["to"])
    with pytest.raises(UnknownNameError, match=r"immutable names column 'job_cook', which is a part of .* 'job'"):
        FeatureSpace.infer(WHOLE, one_hot=GROUPS, immutable=["job_cook"])
    for said in ({"vary": ["job_cook"]}, {"bounds": {"job_cook": (0, 0)}}, {"increase_only": ["job_cook"]}):
        with pytest.raises(UnknownNameError, match=f"{next(iter(said))} names column 'job_cook', which is a part of"):
            space.limits(**said)
    with pytest.raises(UnknownNameError, match="costs names column 'job_cook', which is a part of"):
        space.with_costs({"job_cook": 2.0})


def test_a_rule_that_is_a_function_may_look_at_a_group_by_its_name() -> None:
    rule = Rule(lambda after, before: (after["job"] != "cook") & (before["job"] != "clerk"), columns=["job"])
    space = FeatureSpace.infer(WHOLE, one_hot=GROUPS, rules=[rule])
    result = make_explainer("greedy", model, space).fit(WHOLE).explain(WHOLE[:30])
    assert result.found.any() and not result.frame["job_cook"].any()
    assert not WHOLE["job_clerk"].iloc[result.frame["query_id"]].any()
    delivered = WholeRows(space, WHOLE[:30].iloc[result.frame["query_id"]], result.frame[list(WHOLE)])
    assert not delivered.broken_rules().any()
    cooks = WHOLE[:30].assign(job_clerk=0, job_cook=1, job_smith=0)
    assert WholeRows(space, WHOLE[:30], cooks).broken_rules().sum() == (WHOLE["job_cook"][:30] == 0).sum()


@pytest.mark.parametrize(
    ("groups", "error", "sentence"),
    [
        ("always", ConstraintError, "one_hot is 'always'; give 'auto'"),
        ([COLUMNS], ConstraintError, "give 'auto', or a mapping"),
        ({"job": "job_cook"}, ConstraintError, "give a list of two columns or more"),
        ({"job": ["job_cook"]}, ConstraintError, "give a list of two columns or more"),
        ({"job": ["job_cook", "job_smth"]}, UnknownNameError, "did you mean 'job_smith'"),
        ({"amount": COLUMNS}, ConstraintError, "has the name of a column"),
        ({"job": COLUMNS, "work": COLUMNS[:2]}, ConstraintError, "is in the one_hot groups 'job' and 'work'"),
        ({"job": ["amount", "job_cook"]}, ConstraintError, "are no one-hot code in row 0: 'amount' is"),
    ],
)
def test_what_is_no_group_is_refused(groups: Any, error: Any, sentence: str) -> None:
    with pytest.raises(error, match=sentence):
        FeatureSpace.infer(WHOLE, one_hot=groups)


def test_arrays_have_groups_too() -> None:
    rows = WHOLE.to_numpy(dtype=float)
    fitted = LogisticRegression().fit(rows, model(WHOLE).argmax(axis=1))
    space = FeatureSpace.infer(rows, one_hot={"job": ["x1", "x2", "x3"]})
    result = make_explainer("greedy", fitted, space).fit(rows).explain(rows[:20])
    query, slot = np.nonzero(result.found)
    assert (result.to_array()[query, slot][:, 1:].sum(axis=1) == 1).all() and len(query)


def test_a_saved_space_has_its_groups() -> None:
    space = FeatureSpace.infer(WHOLE, one_hot=GROUPS)
    assert FeatureSpace.from_dict(space.to_dict()) == space
    assert FeatureSpace.from_dict(space.to_dict()).columns == list(WHOLE)
