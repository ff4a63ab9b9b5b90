"""The code of README runs as it is printed."""

import re
from pathlib import Path
from types import SimpleNamespace

import dice_ml
import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

from relax_plugin import ReLAX
from relax_plugin.reproduction.report.files import verdict
from relax_plugin.reproduction.run import TABLES, Folder

README = Path(__file__).parent.parent / "README.md"
SNIPPETS = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.slow
def test_the_quick_start_of_the_readme_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        {"age": rng.integers(18, 80, 300), "education": rng.integers(0, 5, 300), "income": rng.random(300)}
    )
    model = LogisticRegression().fit(X, X["education"] + 4 * X["income"] > 4)
    names = {"X_train": X[:200], "X_test": X[200:], "model": model}
    exec(SNIPPETS[0], names)
    result = names["cfs"]
    assert result.found.mean() > 0.5
    assert not (result.changes()["feature"] == "age").any()
    assert (tmp_path / "agent").is_file()


@pytest.mark.slow
def test_the_benchmark_of_the_readme_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code = SNIPPETS[1]
    for slow, quick in (('"relax-global"', '"greedy"'), ("seeds=range(5)", "seeds=[0], rows=4")):
        assert slow in code
        code = code.replace(slow, quick)
    names = {}
    exec(code, names)
    table = names["tables"].summary(names["rows"])
    assert table["validity"].tolist() == [1.0, 1.0]
    assert table["instances"].tolist() == [4, 4]
    assert (tmp_path / "results" / "run.json").is_file()


# "Swap it into your code": the lines of the table, before and after, in front of code that stays the same.

LINE = re.compile(r"^\| (\w+) \| (`(?:from|import) .*?`) \| (`.*`) \|$", re.MULTILINE)
SWAPS = {
    host: [cell.replace("<br>", "\n").replace("`", "") for cell in (before, after)]
    for host, before, after in re.findall(
        r"^\| (\w+) \| (`(?:from|import) .*?`) \| (`.*`) \|$", README.read_text(), re.MULTILINE
    )
}
ROWS = pd.DataFrame(np.random.default_rng(3).normal(size=(200, 4)).round(2), columns=["a", "b", "c", "d"])
LABELS = (ROWS["a"] + ROWS["b"] - ROWS["c"] > 0).astype(int)

REST = {
    "DiCE": """
vary = ["a", "b"]
explanations = explainer.generate_counterfactuals(X_test, total_CFs=2, desired_class="opposite", features_to_vary=vary)
rows = [example.final_cfs_df for example in explanations.cf_examples_list]
answers = estimator.predict(rows[0][list(X_test)])
assert (answers != estimator.predict(X_test[:1])).all()
explanations.visualize_as_dataframe(show_only_changes=True)
""",
    "InterpretML": """
from interpret import preserve
explanation = explainer.explain_local(X_test, y_test)
preserve(explanation, selector_key=0, file_name="page.html")
assert explanation.data(0) and explanation.visualize(0)
""",
    "SHAP": """
import shap
values = explainer(X_test)
assert values.values.shape == X_test.shape
shap.plots.waterfall(values[0], show=False)
shap.plots.beeswarm(values, show=False)
""",
    "Alibi": """
explainer.fit(X_train.to_numpy())
explanation = explainer.explain(X_test.to_numpy(), Y_t=np.array([1]))
assert explanation.cf["X"].shape == X_test.shape
assert (explanation.cf["class"] == 1).mean() > 0.8
explanation.to_json()
""",
    "CARLA": """
counterfactuals = recourse.get_counterfactuals(X_test)
assert counterfactuals.index.equals(X_test.index)
assert (counterfactuals.dropna().columns == mlmodel.feature_input_order).all()
assert (estimator.predict(counterfactuals.dropna()) == 1).all()
""",
}
INSTALLED = ("DiCE", "InterpretML", "SHAP")  # the others are imitated by their shape only


def test_every_toolkit_has_a_line_to_change():
    assert list(SWAPS) == list(REST)


@pytest.mark.slow
@pytest.mark.parametrize(("host", "line"), [*((host, 1) for host in REST), *((host, 0) for host in INSTALLED)])
def test_code_of_a_toolkit_runs_on_after_its_line_is_changed(host, line, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    estimator = LogisticRegression().fit(ROWS, LABELS)
    names = {"X_train": ROWS[:150], "X_test": ROWS[150:170], "y_test": LABELS[150:170], "np": np, "ReLAX": ReLAX}
    names |= {"model": estimator, "estimator": estimator, "predictor": estimator.predict_proba, "hyperparams": {}}
    frame = dice_ml.Data(dataframe=ROWS.assign(y=LABELS), continuous_features=list(ROWS), outcome_name="y")
    if host == "DiCE":
        names |= {"data": frame, "model": dice_ml.Model(model=estimator, backend="sklearn")}
    described = {"df_train": ROWS[:150], "categorical": [], "continuous": list(ROWS), "immutables": []}
    names["mlmodel"] = SimpleNamespace(
        feature_input_order=list(ROWS), predict_proba=estimator.predict_proba, data=SimpleNamespace(**described)
    )
    exec(SWAPS[host][line] + REST[host], names)


# "The paper, reproduced": its table says what the committed results say.


@pytest.mark.slow
def test_the_verdicts_of_the_readme_are_those_of_the_committed_tables():
    folder = Folder(README.parent / "reproduction" / "full")
    tables = {name: folder.read(name) for name in TABLES if folder.has(name)}
    decided = verdict(tables, folder.covid())
    claims = decided[decided["where"] != "target"]
    _, section = README.read_text(encoding="utf-8").split("## The paper, reproduced")
    row = r"^\| ([^|]+) \| [^|]+ \| ([a-z ]+) \| ([^|]+) \|$"
    table = [line for line in re.findall(row, section.partition("\n## ")[0], re.MULTILINE) if line[0] != "where"]
    assert [line[:2] for line in table] == list(zip(claims["where"], claims["verdict"], strict=True))
    for (where, _, told), figures in zip(table, claims["figures"], strict=True):
        for count in re.findall(r"\d+ of \d+", told):  # how many comparisons part
            assert count in figures, (where, count)
        for number in re.findall(r"(?<![\d.])\d*\.\d+", told):
            assert f"{'0' if number[0] == '.' else ''}{number}" in figures, (where, number)
