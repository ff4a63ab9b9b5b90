"""Our results before an independent judge: CEval's numbers are ours where the two define them alike."""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from markdown_files import code_under
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

pytest.importorskip("ceval", reason="needs relax-plugin[ceval]")

from relax_plugin import Counterfactuals, FeatureSpace, Goal, make_explainer
from relax_plugin.adapters.ceval import judged
from relax_plugin.base import CounterfactualExplainer
from relax_plugin.errors import InputError, MissingExtraError, UnsupportedError
from relax_plugin.evaluation import metrics

TOOLKITS = Path(__file__).resolve().parents[2] / "docs" / "toolkits.md"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:For backward compatibility, 'str' dtypes"),  # CEval's own, with pandas 3
    pytest.mark.filterwarnings("ignore:'future.no_silent_downcasting' is deprecated"),  # of category_encoders
    pytest.mark.filterwarnings("ignore:X does not have valid feature names"),  # CEval asks its neighbours by arrays
]
METHODS = ("greedy", "nearest-ct")


def people(n: int, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    numbers = {"income": rng.normal(30, 8, n).round(1), "years": rng.integers(0, 20, n)}
    return pd.DataFrame({**numbers, "town": rng.choice(["Rome", "Bonn", "Oslo"], n), "sex": rng.choice(["f", "m"], n)})


def granted(rows: pd.DataFrame) -> np.ndarray:
    return np.where(rows["income"] + rows["years"] + 5 * (rows["town"] == "Oslo") > 41, "yes", "no")


@pytest.fixture(scope="module")
def explainers() -> dict[str, CounterfactualExplainer]:
    X = people(200)
    columns = make_column_transformer((OneHotEncoder(), ["town", "sex"]), remainder="passthrough")
    model = make_pipeline(columns, LogisticRegression(max_iter=1000)).fit(X, granted(X))
    space = FeatureSpace.infer(X, immutable=["sex"])
    return {name: make_explainer(name, model, space).fit(X) for name in METHODS}


def of_our_judge(explainer: CounterfactualExplainer, result: Counterfactuals) -> dict[str, float]:
    """What CEval computes too, by our own functions, to its three digits."""
    query, slot = np.nonzero(result.found)
    start, values, columns = result.start[query], result.values[query, slot], len(result.space)
    blackbox, before = explainer.blackbox_, explainer.blackbox_.confirm(result.queries)
    goal = Goal.flip().bind(blackbox, before)
    met = goal.take(query).met(blackbox.confirm(result.frame[result.space.columns]))
    redundant = metrics.redundancy(start, values, lambda rows, owner: goal.take(query[owner]).met(blackbox.ask(rows)))
    broken = metrics.violations(result.space, result.space.limits().take(query), start, values)
    numbers = {
        "validity": metrics.validity(met),
        "sparsity": metrics.sparsity(start, values).mean() / columns,
        "redundancy": redundant.mean(),
        "constraint_violation": (broken > 0).mean(),
        "count": len(query) / len(result),
    }
    return {name: round(float(value), 3) for name, value in numbers.items()}


def test_the_two_judges_agree_on_what_they_define_alike(explainers: dict[str, CounterfactualExplainer]) -> None:
    rows = people(15, seed=1)
    results = {name: explainer.explain(rows) for name, explainer in explainers.items()}
    table = judged(results, people(200), constraints=["sex"]).comparison_table
    assert list(table.index) == list(METHODS)
    for name, explainer in explainers.items():
        told = of_our_judge(explainer, results[name])
        theirs = table.loc[name, ["validity", "sparsity", "redundancy", "constraint_violation"]].to_dict()
        assert theirs == {key: told[key] for key in theirs}
        assert theirs["validity"] == 1.0
    assert table.loc["greedy", "redundancy"] == 0 < table.loc["nearest-ct", "redundancy"]  # neighbours change too much


def test_several_and_missing_counterfactuals_are_counted_alike(explainers: dict[str, CounterfactualExplainer]) -> None:
    rows, explainer = people(15, seed=2), explainers["greedy"]
    few = explainer.explain(rows, n=3, vary=["town", "years"], max_changes=1)
    assert 0 < few.found.any(axis=1).sum() < len(rows)
    judge = judged({"few": few}, people(200), constraints=["sex"])
    told, theirs = of_our_judge(explainer, few), judge.comparison_table.loc["few"]
    assert {name: theirs[name] for name in told} == told
    one = explainer.explain(rows, vary=["town"])
    theirs = judged({"one": one}, people(200)).comparison_table.loc["one"]
    share = metrics.validity(one.found[:, 0])
    assert theirs["validity"] * theirs["count"] == pytest.approx(share, abs=5e-4)  # its three digits


def test_both_judges_notice_the_same_tampering(explainers: dict[str, CounterfactualExplainer]) -> None:
    rows, explainer = people(12, seed=3), explainers["greedy"]
    result = explainer.explain(rows)
    sex = result.space.names.index("sex")
    result.values[:3, 0] = result.start[:3]  # three are no counterfactuals any more
    result.values[3:5, 0, sex] = 1 - result.start[3:5, sex]  # and two change what may not change
    told = of_our_judge(explainer, result)
    theirs = judged({"tampered": result}, people(200), constraints=["sex"]).comparison_table.loc["tampered"]
    assert told["validity"] <= 9 / 12
    assert told["constraint_violation"] == round(2 / 12, 3)
    assert {name: theirs[name] for name in told if name != "count"} == {k: v for k, v in told.items() if k != "count"}


def test_distances_are_alike_in_standardised_columns_and_by_the_same_metric() -> None:
    X = np.random.default_rng(0).normal(size=(200, 3))
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    model = LogisticRegression().fit(X, X @ [1.0, -1.0, 0.5] > 0)
    explainer = make_explainer("greedy", model).fit(X)
    assert explainer.space_.scale == pytest.approx(np.ones(3), abs=1e-6)
    result = explainer.explain(X[:15])
    theirs = judged({"greedy": result}, X, distance="cityblock").comparison_table.loc["greedy"]
    ours = metrics.mean_over(result.found[:, 0], metrics.proximity(result.space, result.start, result.values[:, 0]))
    assert theirs["proximity"] == pytest.approx(ours, abs=5e-4)


def test_what_ceval_cannot_score_is_refused_with_a_sentence(explainers: dict[str, CounterfactualExplainer]) -> None:
    rows, explainer = people(4, seed=4), explainers["greedy"]
    result = explainer.explain(rows)
    none = explainer.explain(rows, vary=["years"], bounds={"years": (0, 0)})
    with pytest.raises(InputError, match="'none' has no counterfactual"):
        judged({"none": none[~none.found.any(axis=1)]}, people(200))
    with pytest.raises(InputError, match="without its model"):
        judged({"file": Counterfactuals.from_json(result.to_json())}, people(200))
    with pytest.raises(InputError, match="'late' has other queries"):
        judged({"first": result, "late": explainer.explain(people(4, seed=5))}, people(200))
    with pytest.raises(InputError, match="column 'town' holds 'Oslo', which no row of data has"):
        judged({"first": result}, people(200).query("town != 'Oslo'"))
    with pytest.raises(InputError, match="a column is called 'town'"):
        judged({"first": result}, people(200), label="town")
    with pytest.raises(InputError, match="no results"):
        judged({}, people(200))
    numbers = people(50)[["income", "years"]]
    regressor = make_explainer(
        "greedy", LinearRegression().fit(numbers, numbers.sum(axis=1)), goal=Goal.shift(1.0)
    ).fit(numbers)
    with pytest.raises(UnsupportedError, match="regressor"):
        judged({"number": regressor.explain(numbers[:3])}, numbers)


def test_without_ceval_the_extra_is_named(
    explainers: dict[str, CounterfactualExplainer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ceval", None)
    with pytest.raises(MissingExtraError, match=r"relax-plugin\[ceval\]"):
        judged({"first": explainers["greedy"].explain(people(3))}, people(200))


def test_the_lines_of_the_documentation_run(explainers: dict[str, CounterfactualExplainer]) -> None:
    names = {"X_train": people(200), "X_test": people(5, seed=6), "other": explainers["greedy"]}
    names["explainer"] = explainers["nearest-ct"]
    exec(code_under("CEval", TOOLKITS), names)
    assert list(names["judge"].comparison_table.index) == ["relax-global", "greedy"]
