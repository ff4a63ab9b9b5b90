"""The counterfactual card in a real explainerdashboard: its menus, its card, its static page, and in Chromium."""

import importlib
import sys
import threading
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from markdown_files import code_under
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

dashboards = pytest.importorskip("explainerdashboard", reason="needs relax-plugin[dashboard]")

from werkzeug.serving import make_server  # noqa: E402

from relax_plugin import FeatureSpace, Goal, make_explainer  # noqa: E402
from relax_plugin.adapters.explainerdashboard import CARD, INDEX, VARY, CounterfactualComponent  # noqa: E402
from relax_plugin.errors import ColumnError, InputError, MissingExtraError  # noqa: E402

TOOLKITS = Path(__file__).resolve().parents[2] / "docs" / "toolkits.md"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:ExplainerDashboard logging is not configured"),
    pytest.mark.filterwarnings("ignore:.*X_background=None, so using X instead"),
    pytest.mark.filterwarnings("ignore:For shap='linear', shap interaction values"),
    pytest.mark.filterwarnings("ignore:model_output='probability' is currently not supported"),
]
NAMES = ["Ada", "Bo", "Cleo", "Dan", "Eve", "Fay"]


def people(n: int = 120, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    rows = pd.DataFrame({"income": rng.normal(30, 8, n).round(1), "years": rng.integers(0, 20, n)})
    rows["age"] = rng.integers(18, 70, n)
    return rows.set_axis(pd.Index([f"{NAMES[i % 6]} {i}" for i in range(n)], name="person"))


def granted(rows: pd.DataFrame) -> np.ndarray:
    return (rows["income"] + rows["years"] > 40).to_numpy(dtype=int)


@pytest.fixture(scope="module")
def explainer() -> Any:
    X = people()
    model = LogisticRegression(max_iter=1000).fit(X, granted(X))
    return dashboards.ClassifierExplainer(model, X, pd.Series(granted(X), X.index), labels=["refused", "granted"])


@pytest.fixture(scope="module")
def component(explainer: Any) -> CounterfactualComponent:
    space = FeatureSpace.infer(people(), immutable=["age"])
    fitted = make_explainer("greedy", explainer.model, space).fit(people())
    return CounterfactualComponent(explainer, name="own", n=2, index="Ada 0", counterfactuals=fitted)


def ask(app: Any, component: CounterfactualComponent, index: Any, vary: Any) -> Any:
    """What the dashboard's server answers to a browser that has chosen a row and features."""
    changed = [{"id": INDEX + component.name, "property": "value", "value": index}]
    changed += [{"id": VARY + component.name, "property": "value", "value": vary}]
    output = f"{CARD}{component.name}.children"
    body = {
        "output": output,
        "outputs": {"id": CARD + component.name, "property": "children"},
        "inputs": changed,
        "changedPropIds": [f"{INDEX}{component.name}.value"],
    }
    answer = app.server.test_client().post("/_dash-update-component", json=body)
    assert answer.status_code == 200, answer.text
    return answer.get_json()["response"][CARD + component.name]["children"]


@pytest.fixture(scope="module")
def dashboard(explainer: Any, component: CounterfactualComponent) -> Any:
    return dashboards.ExplainerDashboard(explainer, [component], title="Loans", hide_poweredby=True)


def test_the_dashboard_answers_with_the_card_of_the_chosen_row(
    dashboard: Any, component: CounterfactualComponent
) -> None:
    told = ask(dashboard.app, component, "Bo 1", None)
    assert told["type"] == "Iframe"
    row = people().rename_axis(index="Person").loc[["Bo 1"]]  # the dashboard begins it with a capital
    card = component.counterfactuals.explain(row, n=2).card(0)
    assert told["props"]["srcDoc"] == component.card("Bo 1").html == component.card(1).html == card.html
    assert card.title == "Person Bo 1"
    fewer = ask(dashboard.app, component, "Bo 1", ["years"])["props"]["srcDoc"]
    only = component.counterfactuals.explain(row, n=2, vary=["years"])
    assert fewer == component.card("Bo 1", ["years"]).html != told["props"]["srcDoc"]
    sentence = only.sentences()[0].partition(": ")[2].partition(" (")[0]
    assert sentence.startswith("if years were")
    assert sentence[1:] in unescape(fewer)  # it begins with a capital there


def test_what_cannot_be_shown_is_said(dashboard: Any, component: CounterfactualComponent) -> None:
    for index in (None, "nobody"):
        told = ask(dashboard.app, component, index, None)
        assert (told["type"], told["props"]["children"]) == ("Alert", "Choose a row.")
    assert "age" not in component.features, "what is immutable is not offered"


def test_the_static_page_has_the_card(component: CounterfactualComponent) -> None:
    page = component.to_html()
    assert page.count("<iframe") == 1
    assert component.card("Ada 0").html in unescape(page)
    other = component.to_html({(INDEX + "own", "value"): "Bo 1", (VARY + "own", "value"): ["income"]}, add_header=False)
    assert component.card("Bo 1", ["income"]).html in unescape(other)


def test_the_first_row_may_be_named_by_its_label_or_its_position(
    explainer: Any, component: CounterfactualComponent
) -> None:
    def first(index: Any) -> Any:
        made = CounterfactualComponent(explainer, index=index, counterfactuals=component.counterfactuals)
        assert made.index == made.index_selector.index
        return made.index

    assert first("Bo 1") == first(1) == first(np.int64(1)) == "Bo 1", "the menu has texts, and drops anything else"
    assert first(None) is None
    for wrong in ("nobody", 120, -1, 1.5):
        with pytest.raises(InputError, match=rf"index is {wrong!r}, but the dashboard has no such row; it has 120"):
            first(wrong)
    years = dashboards.ClassifierExplainer(explainer.model, people().set_axis(range(2000, 2120)), granted(people()))
    assert CounterfactualComponent(years, index=2007, counterfactuals=component.counterfactuals).index == "2007"


def test_a_regressor_without_a_goal_has_the_usual_one_and_says_so() -> None:
    X = people(60)
    explainer = dashboards.RegressionExplainer(LinearRegression().fit(X, X.sum(axis=1)), X, X.sum(axis=1))
    made = CounterfactualComponent(explainer, counterfactuals="greedy")
    assert made.goal_told.startswith("Goal: an answer higher or lower by at least")
    assert made.goal_told in made.to_html()
    told = make_explainer("greedy", explainer.model, goal=Goal.shift(5.0))
    assert CounterfactualComponent(explainer, counterfactuals=told).goal_told == ""


def test_rows_in_the_columns_of_the_table_serve_where_the_dashboard_takes_a_pipeline_apart() -> None:
    X = people(60)
    pipeline = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, granted(X))
    explainer = dashboards.ClassifierExplainer(pipeline, X, granted(X))
    assert abs(explainer.X.to_numpy()).max() < 10, "it keeps what the last step sees"
    fitted = make_explainer("greedy", pipeline).fit(X)
    made = CounterfactualComponent(explainer, counterfactuals=fitted, rows=X)
    assert f"{X['income'].iloc[3]}" in made.card(3).html
    with pytest.raises(InputError, match="59 rows, but the dashboard has 60"):
        CounterfactualComponent(explainer, counterfactuals=fitted, rows=X[1:])
    with pytest.raises(ColumnError):
        CounterfactualComponent(explainer, counterfactuals=fitted, rows=X.drop(columns="age"))


@pytest.fixture
def address(dashboard: Any) -> Iterator[str]:
    """The dashboard behind a real server on this machine."""
    server = make_server("127.0.0.1", 0, dashboard.app.server, threaded=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()


@pytest.mark.browser
def test_a_reader_chooses_a_row_and_reads_its_card_in_a_browser(address: str, browser: Any) -> None:
    page = browser.new_context(viewport={"width": 1200, "height": 1100}).new_page()
    page.set_default_timeout(30_000)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(address)
    card = page.frame_locator("iframe[title='Counterfactual card']")
    card.get_by_text("Ada 0").first.wait_for()
    page.locator(f"#{INDEX}own").click()
    page.get_by_text("Cleo 2", exact=True).first.click()
    card.get_by_text("Cleo 2").first.wait_for()
    page.locator(f"#{VARY}own").click()
    page.get_by_text("years", exact=True).first.click()
    card.get_by_text("Only these could change in this question: years").wait_for()
    assert "If years were" in card.locator("body").inner_text()
    assert asked
    assert all(url.startswith((address, "about:", "data:")) for url in asked), "nothing comes from a network"


def test_without_explainerdashboard_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "explainerdashboard", None)
    monkeypatch.delitem(sys.modules, "relax_plugin.adapters.explainerdashboard")
    with pytest.raises(MissingExtraError, match=r"relax-plugin\[dashboard\]"):
        importlib.import_module("relax_plugin.adapters.explainerdashboard")


def test_the_lines_of_the_documentation_run() -> None:
    X = people(60)
    model = LogisticRegression(max_iter=1000).fit(X, granted(X))
    names = {"model": model, "X_test": X, "y_test": granted(X), "explainer": make_explainer("greedy", model).fit(X)}
    exec(code_under("explainerdashboard", TOOLKITS), names)
    assert ask(names["dashboard"].app, names["card"], "Bo 1", None)["type"] == "Iframe"
