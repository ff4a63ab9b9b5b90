"""README is short, and what it names exists; test_outputs.py checks what its code prints."""

import re
import tomllib
from pathlib import Path
from types import SimpleNamespace

import dice_ml
import numpy as np
import pandas as pd
import pytest
import yaml
from markdown_files import commands, conversations, table_widths, unknown_in
from PIL import Image
from sklearn.linear_model import LogisticRegression

from relax_plugin import ReLAX

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
TEXT = README.read_text(encoding="utf-8")


def test_it_is_read_in_two_minutes() -> None:
    assert len(TEXT.splitlines()) <= 250
    assert max(table_widths(TEXT)) <= 6


def test_ten_lines_are_ten() -> None:
    code, _ = conversations(TEXT)[0]
    assert len([line for line in code.splitlines() if line and not line.startswith(("from ", "import "))]) <= 10


def test_the_what_if_page_and_the_card_are_on_the_first_screen() -> None:
    pictures = re.findall(
        r"^\[!\[.+\]\((docs/\w+\.png)\)\]\(docs/\w+\.md\)$", "\n".join(TEXT.splitlines()[:9]), re.MULTILINE
    )
    assert pictures == ["docs/whatif.png", "docs/card.png"]
    for name in pictures:
        with Image.open(ROOT / name) as picture:
            assert picture.width >= 1000 and (ROOT / name).stat().st_size < 200_000


def test_every_command_that_it_names_exists() -> None:
    told = commands(TEXT)
    assert {("make", "demo"), ("make", "test"), ("pip", "install")} <= {tuple(words[:2]) for words in told}
    assert [(words, unknown_in(words)) for words in told if unknown_in(words)] == []


def test_commands_that_do_not_exist_are_noticed() -> None:
    text = "```sh\nrelax-plugin bench --speed 3 # quick\nmake coffee\npip install '.[tea]'\n```\n"
    text += "`relax-plugin brew`, `python a.py`"
    assert [unknown_in(words) for words in commands(text)] == [["--speed"], ["coffee"], ["tea"], ["brew"], ["a.py"]]


def test_citation_names_the_paper_and_the_version_of_the_package() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert {"cff-version", "message", "title", "authors"} <= citation.keys()  # what the format requires
    assert citation["version"] == project["version"] and citation["repository-code"] == project["urls"]["Source"]
    paper = citation["preferred-citation"]
    assert {"type", "title", "authors"} <= paper.keys() and paper["url"] == project["urls"]["Paper"]
    bibtex = TEXT.partition("```bibtex")[2]
    assert paper["doi"] in bibtex
    assert all(f"{one['family-names']}, {one['given-names']}" in bibtex for one in paper["authors"])


@pytest.mark.parametrize("path", sorted((ROOT / ".github").rglob("*.yml")), ids=lambda path: path.name)
def test_files_of_the_host_are_yaml_with_a_name(path: Path) -> None:
    assert yaml.safe_load(path.read_text(encoding="utf-8"))["name"]


def test_the_workflow_runs_what_everybody_runs() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "test.yml").read_text(encoding="utf-8"))
    assert workflow["jobs"]["test"]["steps"][-1] == {"run": ".ci/run"}
    assert (ROOT / ".ci" / "run").is_file()


# "Swap it into your code": the lines of the table, before and after, in front of code that stays the same.

SWAPS = {
    host: [cell.replace("<br>", "\n").replace("`", "") for cell in (before, after)]
    for host, before, after in re.findall(r"^\| (\w+) \| (`(?:from|import) .*?`) \| (`.*`) \|$", TEXT, re.MULTILINE)
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
