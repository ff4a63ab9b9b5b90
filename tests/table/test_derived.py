"""Derived columns: computed from others by a formula, never chosen, and no change of their own."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from reference.every_explainer import every_explainer, skipped_with_a_reason
from reference.small_explainers import OPTIONS
from sklearn.linear_model import LogisticRegression

from relax_plugin import Counterfactuals, FeatureSpace, make_explainer
from relax_plugin.errors import ConstraintError, InputError, UnknownNameError
from relax_plugin.evaluation.whole_rows import WholeRows
from relax_plugin.rules.rule import BoundRule

RNG = np.random.default_rng(3)
ROWS = 150
PARTS = pd.DataFrame(
    {"salary": RNG.integers(10, 60, ROWS), "rent": RNG.integers(0, 20, ROWS), "age": RNG.integers(18, 80, ROWS)}
)
PAY = PARTS.assign(total=PARTS["salary"] + PARTS["rent"])
PAY["share"] = PAY["rent"] / PAY["total"]
FORMULAS = {"share": "rent / total", "total": "salary + rent"}  # the first needs the second
LABEL = (PAY["total"] - 10 * PAY["share"] + 0.2 * PAY["age"] > 55).astype(int)


def scaled() -> Any:
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(StandardScaler(), LogisticRegression()).fit(PAY, LABEL)


MODEL = scaled()


@every_explainer
def test_every_explainer_computes_derived_columns_anew(name: str) -> None:
    space = FeatureSpace.infer(PAY, derived=FORMULAS)
    queries = PAY[:8]
    with skipped_with_a_reason():
        result = make_explainer(name, MODEL, space, **OPTIONS.get(name, {})).fit(PAY).explain(queries)
        frame = result.frame
        assert len(frame) and list(frame.dtypes[2:]) == list(PAY.dtypes)
        assert (frame["total"] == frame["salary"] + frame["rent"]).all()
        np.testing.assert_allclose(frame["share"], frame["rent"] / frame["total"])
        assert (MODEL.predict(frame[list(PAY)]) != MODEL.predict(queries.iloc[frame["query_id"]])).all()
        assert set(result.changes()["feature"]) <= {"salary", "rent", "age"}
        assert len(result.changes()) == np.nansum(result.sparsity)


def test_the_space_knows_features_and_columns_apart() -> None:
    space = FeatureSpace.infer(PAY, derived=FORMULAS)
    assert space.names == ["salary", "rent", "age"] and space.columns == list(PAY)
    assert [one.name for one in space.derived] == ["total", "share"], "each from those before it"
    assert FeatureSpace.from_dict(space.to_dict()) == space
    pd.testing.assert_frame_equal(space.model_input(space.values(PAY)), PAY)


def test_a_derived_cell_is_the_querys_own_where_its_inputs_stay() -> None:
    space = FeatureSpace.infer(PAY, derived=FORMULAS)
    odd = PAY[:10].assign(share=PAY["share"][:10] * (1 + 1e-12), total=PAY["total"][:10] + 1)  # as a query may have it
    result = make_explainer("greedy", MODEL, space).fit(PAY).explain(odd, vary=["age"])
    frame = result.frame
    assert len(frame)
    for name in ("share", "total"):
        assert frame[name].tolist() == odd.iloc[frame["query_id"]][name].tolist()
    partly = make_explainer("greedy", MODEL, space).fit(PAY).explain(odd, vary=["salary"]).frame
    assert (partly["total"] == partly["salary"] + partly["rent"]).all() and len(partly)


def test_a_derived_column_is_missing_where_an_input_is() -> None:
    rows = PAY.astype(float)
    rows.loc[::5, "rent"] = np.nan
    rows["total"] = rows["salary"] + rows["rent"]
    rows["share"] = rows["rent"] / rows["total"]

    def model(table: pd.DataFrame) -> Any:
        score = table["total"].fillna(40).to_numpy() + 0.2 * table["age"].to_numpy() - 50
        chance = 1 / (1 + np.exp(-score / 10))
        return np.column_stack([1 - chance, chance])

    space = FeatureSpace.infer(rows, derived=FORMULAS)
    result = make_explainer("greedy", model, space).fit(rows).explain(rows[:10])
    frame = result.frame
    original = rows.iloc[frame["query_id"]]
    assert (frame["rent"].isna() == original["rent"].isna()).all()
    assert (frame["total"].isna() == frame["rent"].isna()).all()
    known = frame["rent"].notna()
    assert (frame["total"][known] == frame["salary"][known] + frame["rent"][known]).all()


@pytest.mark.parametrize(
    ("formulas", "error", "sentence"),
    [
        ({"total": "salary + rent + 1"}, ConstraintError, "'total' is .* in row 0, but its formula .*150 of 150 rows"),
        ({"total": "share * 2", "share": "total / 2"}, ConstraintError, "are computed from each other"),
        ({"total": "total + 0"}, ConstraintError, "are computed from each other"),
        ({"totl": "salary + rent"}, UnknownNameError, "did you mean 'total'"),
        ({"total": "salry + rent"}, ConstraintError, "did you mean 'salary'"),
        ({"total": "salary +"}, ConstraintError, "total|salary"),
        ("total = salary + rent", ConstraintError, "give a mapping"),
    ],
)
def test_wrong_formulas_are_refused(formulas: Any, error: Any, sentence: str) -> None:
    with pytest.raises(error, match=sentence):
        FeatureSpace.infer(PAY, derived=formulas)


def test_a_single_contradicting_row_is_named() -> None:
    rows = PAY.copy()
    rows.loc[7, "total"] += 3
    with pytest.raises(ConstraintError, match=r"in row 7, .*; 1 of 150 rows contradict it"):
        FeatureSpace.infer(rows, derived={"total": "salary + rent"})


def test_a_derived_text_is_refused() -> None:
    with pytest.raises(ConstraintError, match="a formula is a number"):
        FeatureSpace.infer(PAY.assign(total="much"), derived={"total": "salary + rent"})


def test_a_rule_may_speak_of_a_derived_column() -> None:
    free = FeatureSpace.infer(PAY, derived=FORMULAS)
    ruled = FeatureSpace.infer(PAY, derived=FORMULAS, rules=["total <= 48"])
    found = {}
    for name, space in (("free", free), ("ruled", ruled)):
        result = make_explainer("greedy", MODEL, space).fit(PAY).explain(PAY[:30])
        found[name] = result.frame.merge(result.changes()[["query_id", "cf_id"]].drop_duplicates())
    assert (found["free"]["total"] > 48).any()
    assert len(found["ruled"]) and (found["ruled"]["total"] <= 48).all()


def test_results_with_derived_columns_are_read_back() -> None:
    space = FeatureSpace.infer(PAY, derived=FORMULAS)
    result = make_explainer("greedy", MODEL, space).fit(PAY).explain(PAY[:6])
    again = Counterfactuals.from_json(result.to_json())
    pd.testing.assert_frame_equal(again.frame, result.frame)
    assert result.to_array().shape == (6, 1, 5)


def telecom() -> pd.DataFrame:
    """Bills whose total is tenure times the monthly price, up to half a percent."""
    rng = np.random.default_rng(5)
    rows = pd.DataFrame(
        {
            "tenure": rng.integers(1, 60, 300),
            "monthly": rng.uniform(20, 110, 300).round(2),
            "support": rng.choice(["no", "yes"], 300),
        }
    )
    return rows.assign(total=(rows["tenure"] * rows["monthly"] * rng.uniform(0.995, 1.005, 300)).round(2))


TOTAL = "tenure * monthly"


def churn(rows: pd.DataFrame) -> Any:
    """The probabilities that a customer stays and leaves, who does so for a high total without support."""
    leaves = 1 / (1 + np.exp((1500 - rows["total"].to_numpy() + 5000 * (rows["support"] == "yes").to_numpy()) / 400))
    return np.column_stack([1 - leaves, leaves])


def deviation(rows: pd.DataFrame) -> Any:
    exact = rows["tenure"] * rows["monthly"]
    return np.abs(rows["total"] - exact) / exact


@pytest.mark.parametrize("name", ["greedy", "nearest-ct", "relax-global"])
def test_counterfactuals_fulfil_a_rounded_formula_within_its_tolerance(name: str) -> None:
    rows = telecom()
    with pytest.raises(ConstraintError, match=r"If they are rounded, give \(formula, tolerance\), or"):
        FeatureSpace.infer(rows, derived={"total": TOTAL})
    space = FeatureSpace.infer(rows, derived={"total": (TOTAL, 0.01)})
    explainer = make_explainer(name, churn, space, **OPTIONS.get(name, {})).fit(rows)
    queries = rows[churn(rows)[:, 1] > 0.5][:40]
    result = explainer.explain(queries, bounds={"tenure": (5, 60)}, n=2)
    frame = result.frame
    assert result.found.any(axis=1).all() and (deviation(frame) <= 0.01).all()
    own = queries.iloc[frame["query_id"]].set_axis(frame.index)
    moved = (frame[["tenure", "monthly"]] != own[["tenure", "monthly"]]).any(axis=1)
    assert moved.any() and not moved.all()
    assert (frame.loc[~moved, "total"] == own.loc[~moved, "total"]).all()
    np.testing.assert_allclose(frame.loc[moved, "total"], frame["tenure"][moved] * frame["monthly"][moved])
    counts = WholeRows(space, own, frame).counts()
    assert not sum(one.sum() for one in counts.values())


def test_the_judge_counts_a_derived_cell_beyond_its_tolerance() -> None:
    rows = telecom()
    space = FeatureSpace.infer(rows, derived={"total": (TOTAL, 0.01)})
    after = rows[:3].assign(tenure=rows["tenure"][:3] + 1)
    after["total"] = after["tenure"] * after["monthly"] * np.array([1.0, 1.009, 1.011])
    assert WholeRows(space, rows[:3], after).altered_cells().tolist() == [0, 0, 1]


def test_in_rules_a_rounded_column_stands_for_its_formula_also_for_the_judge() -> None:
    rows = telecom()
    row = rows[rows["total"] > 1000].iloc[:1]
    limit = float(np.ceil((row["tenure"] * row["monthly"]).iloc[0]))
    space = FeatureSpace.infer(rows, derived={"total": (TOTAL, 0.01)}, rules=[f"total <= {limit}"])
    query = row.assign(total=limit * 1.004)
    after = query.assign(support=np.where(query["support"] == "no", "yes", "no"))
    known, values = space.taking_in(after)
    (rule,) = space.bound_rules
    assert isinstance(rule, BoundRule)
    assert rule.holds(known.cells(values), {}).all()
    assert not WholeRows(space, query, after).broken_rules().any()


def test_a_tolerance_is_saved_with_the_space_and_zero_is_written_as_before() -> None:
    rows = telecom()
    space = FeatureSpace.infer(rows, derived={"total": (TOTAL, 0.01)})
    again = FeatureSpace.from_dict(space.to_dict())
    assert again == space and again.derived[0].formula.tolerance == 0.01
    assert again != FeatureSpace.infer(rows, derived={"total": (TOTAL, 0.02)})
    assert "tolerance" not in FeatureSpace.infer(PAY, derived=FORMULAS).to_dict()["derived"][0]


@pytest.mark.parametrize("tolerance", [-0.1, 1.5, "much", np.nan, True])
def test_a_tolerance_is_a_number_from_zero_to_one(tolerance: Any) -> None:
    with pytest.raises(InputError, match=r"the tolerance of 'total' is .*, but must be a number from 0 to 1"):
        FeatureSpace.infer(telecom(), derived={"total": (TOTAL, tolerance)})


def test_a_query_beyond_the_tolerance_is_warned_of() -> None:
    rows = telecom()
    explainer = make_explainer("greedy", churn, FeatureSpace.infer(rows, derived={"total": (TOTAL, 0.01)}))
    explainer.fit(rows)
    near, far = (rows[:1].assign(total=rows["tenure"] * rows["monthly"] * share) for share in (1.009, 1.02))
    explainer.explain(near)
    with pytest.warns(UserWarning, match="which its formula 'tenure \\* monthly' does not give"):
        explainer.explain(far)
