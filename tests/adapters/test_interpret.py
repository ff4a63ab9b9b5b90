"""InterpretML's face: the host's own checks, what is shown and where, a real browser, and a fresh install."""

import inspect
import json
import shutil
import socket
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import interpret
import numpy as np
import pandas as pd
import pytest
import requests
from interpret.api.base import ExplainerMixin, ExplanationMixin
from interpret.blackbox import LimeTabular, ShapKernel
from interpret.ext.extension import BLACKBOX_EXTENSION_KEY, _is_valid_blackbox_explainer
from interpret.ext.extension_utils import load_class_extensions
from interpret.visual import _inline
from plotly.graph_objects import Figure
from reference import tiny
from reference.every_explainer import every_explainer
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from relax_plugin import BlackBox, FeatureSpace, Goal, __version__, make_explainer
from relax_plugin.adapters.interpret import CounterfactualExplanation, ReLAX
from relax_plugin.errors import GoalError, InputError, TableNote

ROOT = Path(__file__).resolve().parents[2]
ROWS = tiny.gaussian_rows(200, 5)
MIXED = tiny.mixed_rows()


@pytest.fixture(scope="module")
def mixed() -> CounterfactualExplanation:
    """Every kind of feature, rows with names of their own, some without a counterfactual."""
    queries = MIXED.iloc[:20].set_axis([f"customer {i}" for i in range(20)])
    explainer = ReLAX(tiny.mixed_probabilities, MIXED, space=tiny.mixed_space(MIXED), explainer="greedy")
    answers = tiny.mixed_probabilities(queries).argmax(axis=1)
    return explainer.explain_local(queries, answers, "mixed", n=2, vary=["smooth", "colour", "years"])


def texts(figure: Figure) -> str:
    """All that a figure says, apart from its axes and the labels of bars."""
    notes = [note.text.replace("<br>", " ") for note in figure.layout.annotations]
    return " | ".join([figure.layout.title.text, *notes])


def test_interpret_accepts_the_class_and_finds_it_under_its_name() -> None:
    found = SimpleNamespace(__name__="found")
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # interpret warns of what it could not load
        load_class_extensions(found, BLACKBOX_EXTENSION_KEY, _is_valid_blackbox_explainer)
    assert found.ReLAX is ReLAX
    assert issubclass(ReLAX, ExplainerMixin) and issubclass(CounterfactualExplanation, ExplanationMixin)


@pytest.mark.parametrize("other", [LimeTabular, ShapKernel])
def test_code_for_interprets_own_explainers_changes_only_the_name(other: type) -> None:
    for method, shared in (("__init__", 5), ("explain_local", 4)):
        theirs, ours = (list(inspect.signature(getattr(c, method)).parameters.values()) for c in (other, ReLAX))
        assert [(p.name, p.default) for p in ours[:shared]] == [(p.name, p.default) for p in theirs[:shared]]
    explanation = ReLAX(tiny.two_class_probabilities, ROWS, explainer="greedy").explain_local(ROWS[:5], np.ones(5))
    assert explanation.explanation_type in ReLAX.available_explanations
    assert len(explanation.selector) == len(explanation.feature_names) == len(explanation.feature_types) == 5


@every_explainer
def test_every_explainer_of_the_registry_is_shown_as_it_answers(name: str) -> None:
    options = {"config": tiny.QUICK, "progress": False} if name.startswith("relax") else {}
    model = LogisticRegression().fit(ROWS, tiny.two_class_labels(ROWS))
    reason = make_explainer(name, model).skip_reason(BlackBox(model), FeatureSpace.infer(ROWS))
    if reason is not None:
        pytest.skip(reason)
    explanation = ReLAX(model, ROWS, explainer=name, options=options, seed=3).explain_local(ROWS[:4])
    bare = make_explainer(name, model, seed=3, **options).fit(ROWS).explain(ROWS[:4])
    assert bare.found.any()
    assert np.array_equal(explanation.counterfactuals.found, bare.found)
    changes = [{**c, "row": row} for row in range(4) for c in explanation.data(row)["counterfactuals"][0]["changes"]]
    told = bare.changes()[["query_id", "feature", "from", "to"]].itertuples(index=False, name=None)
    assert sorted((c["row"], c["name"], c["from"], c["to"]) for c in changes) == sorted(told)


def test_data_is_plain_and_follows_interprets_keys(mixed: CounterfactualExplanation) -> None:
    whole = mixed.data(-1)
    assert json.loads(json.dumps(whole)) == whole
    assert whole["overall"] == mixed.data() == mixed.data(("provider", None))
    assert whole["specific"][7] == mixed.data(7) == mixed.data(np.int64(7)) == mixed.data(("provider", 7))
    with pytest.raises(InputError, match="no row 20; there are 20"):
        mixed.data(20)


def test_scores_are_the_distances_and_shares_of_the_core(mixed: CounterfactualExplanation) -> None:
    made, overall = mixed.counterfactuals, mixed.data()
    for row, one in enumerate(mixed.data(-1)["specific"]):
        assert one["names"] == mixed.feature_names == list(MIXED)
        assert one["values"] == MIXED.iloc[row].astype(object).tolist()
        assert sum(map(abs, one["scores"])) == pytest.approx(np.nan_to_num(made.proximity[row, 0]))
        for change in one["counterfactuals"][0]["changes"]:
            assert change["way"] == "other" or (change["to"] > change["from"]) == (change["score"] > 0)
    often = made.changes()["feature"].value_counts() / made.found.sum()
    shares = dict(zip(overall["names"], overall["scores"], strict=True))
    assert {name: share for name, share in shares.items() if share} == dict(often)


def test_probabilities_and_actual_answers_are_told(mixed: CounterfactualExplanation) -> None:
    made, row = mixed.counterfactuals, int(np.argmax(mixed.counterfactuals.found[:, 0]))
    perf, first = mixed.data(row)["perf"], mixed.data(row)["counterfactuals"][0]
    before = tiny.mixed_probabilities(MIXED.iloc[[row]])[0]
    after = tiny.mixed_probabilities(made.frame[made.space.names].astype(MIXED.dtypes).iloc[[0]])[0]
    assert (perf["predicted"], perf["predicted_score"]) == (before.argmax(), pytest.approx(before.max()))
    assert (first["predicted"], first["predicted_score"]) == (after.argmax(), pytest.approx(after.max()))
    shown = texts(mixed.visualize(row))
    assert f"Row customer {row}: predicted {before.argmax()} ({100 * before.max():.0f} %)" in shown
    assert f"the actual answer is {before.argmax()}" in shown


def test_row_without_counterfactual_is_shown_with_the_reason(mixed: CounterfactualExplanation) -> None:
    made = mixed.counterfactuals
    failed = np.flatnonzero(~made.found[:, 0])
    assert 0 < len(failed) < 20
    for row in failed:
        figure, reason = mixed.visualize(row), made.statuses[row, 0]
        assert "→ no counterfactual" in texts(figure) and reason in texts(figure)
        assert not any(bar.x for bar in figure.data)
        assert mixed.selector.loc[row, ["Counterfactual", "Changed", "Status"]].tolist() == ["none", "", reason]
    summary = mixed.visualize().layout.title.text
    assert f"Counterfactuals for {20 - len(failed)} of 20 rows" in summary
    assert all(reason in summary for reason in made.statuses[failed, 0])


def test_row_that_meets_the_goal_says_so() -> None:
    face = ReLAX(tiny.two_class_probabilities, ROWS, explainer="greedy", goal=Goal.to(1))
    assert "meets the goal already" in texts(face.explain_local(ROWS[tiny.two_class_labels(ROWS) == 1]).visualize(0))


@pytest.mark.slow
def test_figure_has_every_change_in_the_table_and_as_a_bar(mixed: CounterfactualExplanation) -> None:
    signs = {"higher": "▲", "lower": "▼", "other": "◆"}
    for row in range(20):
        figure = mixed.visualize(row)
        lines = np.array([note.text for note in figure.layout.annotations]).reshape(-1, 4)
        assert lines[0].tolist() == ["", "now", "option 1", "option 2"]
        names = lines[2:, 0].tolist()
        for slot, one in enumerate(mixed.data(row)["counterfactuals"]):
            bar, cells = figure.data[slot], dict(zip(names, lines[2:, 2 + slot], strict=True))
            assert {name for name, cell in cells.items() if cell != "="} == {c["name"] for c in one["changes"]}
            for change, score, place in zip(one["changes"], bar.x, bar.y, strict=True):
                shown = f"{change['to']:.6g}" if isinstance(change["to"], float) else str(change["to"])
                assert cells[change["name"]] == f"{signs[change['way']]} {shown}"
                assert (score, names[place]) == (change["score"], change["name"])


def without_last_digits(data: Any) -> Any:
    """Numbers to 12 decimals: the last bits of a product depend on how rows lie in memory, and on the processor."""
    return json.loads(json.dumps(data), parse_float=lambda text: round(float(text), 12))


def test_frames_arrays_lists_and_single_rows_give_the_same() -> None:
    names = list("abcde")
    frame = pd.DataFrame(ROWS, columns=names)
    by_frame = ReLAX(tiny.two_class_probabilities, frame, explainer="greedy")
    by_array = ReLAX(tiny.two_class_probabilities, ROWS, np.array(names), explainer="greedy")
    wanted = without_last_digits(by_array.explain_local(ROWS[:6]).data(-1))
    for face in (by_frame, by_array):
        for rows in (frame[:6], ROWS[:6], ROWS[:6].tolist()):
            assert without_last_digits(face.explain_local(rows).data(-1)) == wanted
        for single in (ROWS[3], frame.iloc[3]):
            shown = without_last_digits(face.explain_local(single).data(0))
            assert shown["counterfactuals"] == wanted["specific"][3]["counterfactuals"]
    called = ReLAX(tiny.two_class_probabilities, frame, [f"feature {n}" for n in names], explainer="greedy")
    assert called.explain_local(frame[:6]).data(0)["names"] == [f"feature {name}" for name in names]


def test_types_of_interpret_say_what_is_categorical_and_what_stays() -> None:
    codes = np.column_stack([ROWS[:, :2], np.arange(200) % 4, np.arange(200) % 3])
    types = ["continuous", "ignore", "nominal", [0, 1, 2]]
    face = ReLAX(tiny.two_class_probabilities, codes, list("abcd"), types, explainer="greedy").fit()
    assert face.feature_types_in_ == ["continuous", "continuous", "nominal", "nominal"]
    made = face.explain_local(codes[:20]).counterfactuals
    assert set(made.changes()["feature"]) <= {"a", "c", "d"}
    assert [feature.immutable for feature in made.space.features] == [False, True, False, False]


def test_pipeline_over_raw_columns_is_explained_in_those_columns() -> None:
    frame, words = MIXED.drop(columns=["grade"]), ["colour", "birthplace"]
    encoder = ColumnTransformer([("words", OneHotEncoder(), words)], remainder="passthrough")
    model = make_pipeline(encoder, RandomForestClassifier(20, random_state=0)).fit(frame, tiny.mixed_labels(MIXED))
    explanation = ReLAX(model, frame, explainer="greedy").explain_local(frame[:15], tiny.mixed_labels(MIXED)[:15])
    made = explanation.counterfactuals
    assert (model.predict(made.frame[list(frame)]) == made.after[made.found]).all()
    assert set(explanation.selector["Counterfactual"]) <= {"yes", "no", "none"}
    for change in (change for row in range(15) for change in explanation.data(row)["counterfactuals"][0]["changes"]):
        assert (change["way"] == "other") == (change["name"] in {*words, "member"})


@pytest.mark.parametrize("kind", ["estimator", "method", "function"])
def test_regressor_has_its_goal_and_its_numbers_are_shown(kind: str) -> None:
    target = 100.0 * ROWS[:, 0] + ROWS[:, 1]
    fitted = LinearRegression().fit(ROWS, target)
    model = {"estimator": fitted, "method": fitted.predict, "function": lambda rows: fitted.predict(rows)}[kind]
    explanation = ReLAX(model, ROWS, explainer="greedy", goal=Goal.shift(50.0)).explain_local(ROWS[:8], target[:8])
    one = explanation.data(2)
    assert one["perf"]["predicted"] == one["perf"]["predicted_score"] == pytest.approx(target[2])
    assert abs(one["counterfactuals"][0]["predicted"] - target[2]) >= 50.0
    shown = f"predicted {target[2]:.6g} → {one['counterfactuals'][0]['predicted']:.6g}</b>"
    assert shown in texts(explanation.visualize(2))
    assert "goal:" not in texts(explanation.visualize(2))


@pytest.mark.parametrize("kind", ["estimator", "method", "function"])
def test_regressor_without_a_goal_is_to_answer_half_a_deviation_more_or_less_and_the_figures_say_so(kind: str) -> None:
    fitted = LinearRegression().fit(ROWS, 100.0 * ROWS[:, 0] + ROWS[:, 1])
    model = {"estimator": fitted, "method": fitted.predict, "function": lambda rows: fitted.predict(rows)}[kind]
    face, half = ReLAX(model, ROWS, explainer="greedy"), fitted.predict(ROWS).std() / 2
    explanation = face.explain_local(ROWS[:8])
    made = explanation.counterfactuals
    moved = np.abs(made.after[:, 0].astype(float) - made.before.astype(float))
    assert made.found.all()
    assert ((moved >= half) & (moved < 2 * half)).all()
    told = f"goal: an answer higher or lower by at least {half:.4g}, half a standard deviation of the model's answers"
    assert explanation.data()["goal"] == explanation.data(1)["goal"] == f"{told} (no goal was given)"
    for key in (None, 1):
        shown = explanation.visualize(key).layout.title.text.replace("</sub><br><sub>", " ")
        assert "half a standard deviation of the model&#x27;s answers (no goal was given)" in shown
    other = face.explain_local(ROWS[:2], goal=Goal.shift(1.0))
    assert other.data()["goal"] == ""
    assert "goal:" not in texts(other.visualize())


def test_regressor_that_always_says_the_same_has_no_default_goal() -> None:
    constant = LinearRegression().fit(ROWS, np.full(len(ROWS), 3.0))
    constant.coef_ = np.zeros(5)
    with pytest.raises(GoalError, match=r"answers 3 to every training row, .*; give a goal: Goal.shift\(delta\)"):
        ReLAX(constant, ROWS, explainer="greedy").explain_local(ROWS[:2])


def test_function_of_whole_numbers_or_probabilities_stays_a_classifier() -> None:
    labels = ReLAX(lambda rows: (rows[:, 0] > 0) * 7.0, ROWS, explainer="nearest-ct").explain_local(ROWS[:3])
    assert labels.classes == [0.0, 7.0]
    chance = ReLAX(lambda rows: 1 / (1 + np.exp(-np.asarray(rows)[:, 0])), ROWS, explainer="greedy")
    assert chance.explain_local(ROWS[:3]).classes == [0, 1]


def test_random_state_is_the_seed_by_interprets_name() -> None:
    model = tiny.two_class_probabilities
    for given, seed in ((7, 7), (np.int64(7), 7), (None, 0), (np.random.RandomState(1), None)):
        face = ReLAX(model, ROWS, explainer="random-order", random_state=given)
        assert face.explainer.seed == (np.random.RandomState(1).randint(2**31 - 1) if seed is None else seed)
    one, same, other = (
        ReLAX(model, ROWS, explainer="random-order", options={"max_queries": 15}, random_state=state)
        .explain_local(ROWS[:40])
        .data(-1)
        for state in (1, 1, 2)
    )
    assert one == same
    assert one != other
    drawn = np.random.default_rng(3)
    assert ReLAX(model, ROWS, explainer="greedy", random_state=drawn).explainer.seed > 0
    with pytest.raises(InputError, match="seed is 3 and random_state is 4, which say the same"):
        ReLAX(model, ROWS, explainer="greedy", seed=3, random_state=4)
    with pytest.raises(InputError, match="random_state is 'high'; give a whole number"):
        ReLAX(model, ROWS, explainer="greedy", random_state="high")


def test_one_background_row_is_refused_with_the_cause_and_taken_with_a_space() -> None:
    model, background = tiny.two_class_probabilities, np.median(ROWS, axis=0).reshape(1, -1)
    for one in (background, pd.DataFrame(background)):
        with pytest.raises(InputError, match=r"data has 1 row, .* where SHAP is content with one background row"):
            ReLAX(model, one, explainer="greedy")
    with pytest.raises(InputError, match="data has 1 row"):
        ReLAX(model, background, explainer=make_explainer("greedy", model)).fit()
    face = ReLAX(model, background, space=FeatureSpace.infer(ROWS), explainer="greedy")
    assert face.explain_local(ROWS[:5]).counterfactuals.found.all()


JOBS = pd.DataFrame({"income": ROWS[:, 0], "job": np.array(["cook", "nurse", "clerk"])[np.arange(200) % 3]})
DUMMIES = pd.get_dummies(JOBS, prefix_sep=".").astype(float)  # as interpret's documentation does it
EMPLOYED = LogisticRegression().fit(DUMMIES.to_numpy(), JOBS.income + (JOBS.job == "cook") > 0.5)


@pytest.mark.parametrize("container", ["frame", "array"])
@pytest.mark.parametrize("types", [None, ["continuous", "nominal", "nominal", "nominal"]])
def test_dummy_columns_are_one_feature_and_a_word_says_so(container: str, types: list[str] | None) -> None:
    model = EMPLOYED if container == "array" else lambda rows: EMPLOYED.predict_proba(np.asarray(rows))
    data = DUMMIES if container == "frame" else DUMMIES.to_numpy()
    said = r"one-hot groups were found, .*: 'job' of \['job.clerk', 'job.cook', 'job.nurse'\]; one_hot={} keeps"
    with pytest.warns(TableNote, match=said) as told:
        face = ReLAX(model, data, list(DUMMIES), types, explainer="greedy")
    assert told[0].filename == __file__
    explanation = face.explain_local(data[:30], n=2)
    assert explanation.feature_names == ["income", "job"]
    assert explanation.feature_types == ["continuous", "nominal"]
    made = explanation.counterfactuals
    cells = made.frame[list(DUMMIES)[1:]].to_numpy(dtype=float)
    assert ((cells == 0) | (cells == 1)).all()
    assert (cells.sum(axis=1) == 1).all()
    changes = [
        change for row in range(30) for one in explanation.data(row)["counterfactuals"] for change in one["changes"]
    ]
    jobs = [change for change in changes if change["name"] == "job"]
    assert jobs
    assert {change["to"] for change in jobs} <= {"cook", "nurse", "clerk"}
    assert explanation.data(0)["values"][1] == JOBS.job[0]


def test_dummy_columns_stay_apart_if_that_is_said_or_some_are_ignored() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        apart = ReLAX(EMPLOYED, DUMMIES.to_numpy(), list(DUMMIES), explainer="greedy", one_hot={}).fit()
        assert apart.feature_names_in_ == list(DUMMIES)
        nameless = ReLAX(EMPLOYED, DUMMIES.to_numpy(), explainer="greedy").fit()
        assert nameless.feature_names_in_ == ["x0", "x1", "x2", "x3"]
    types = [None, "ignore", "ignore", "ignore"]
    with pytest.warns(TableNote):
        fixed = ReLAX(EMPLOYED, DUMMIES.to_numpy(), list(DUMMIES), types, explainer="greedy").fit()
    assert [feature.immutable for feature in fixed.explainer_.space_.features] == [False, True]
    with pytest.warns(UserWarning, match="torn apart"):
        some = ReLAX(EMPLOYED, DUMMIES, None, [None, "ignore", None, None], explainer="greedy")
    assert some.explainer.space.names == list(DUMMIES)
    with pytest.raises(InputError, match=r"did you mean 'job\.cook'"):
        ReLAX(EMPLOYED, DUMMIES, one_hot={"job": ["job.cook", "job.cok"]})
    with pytest.raises(InputError, match="one_hot is 'aut'"):
        ReLAX(EMPLOYED, DUMMIES, one_hot="aut")
    given = ReLAX(EMPLOYED, DUMMIES.to_numpy(), explainer="greedy", one_hot={"job": ["x1", "x2", "x3"]})
    assert given.explainer.space.names == ["x0", "job"]


def test_prediction_method_stands_for_its_estimator() -> None:
    model = LogisticRegression().fit(ROWS, np.array(["bad", "good"])[tiny.two_class_labels(ROWS)])
    explanation = ReLAX(model.predict_proba, ROWS, explainer="greedy").explain_local(ROWS[:5])
    assert explanation.selector["Predicted"].tolist() == model.predict(ROWS[:5]).tolist()


def test_explainer_is_trained_once_and_a_fitted_one_not_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    given = make_explainer("greedy", tiny.two_class_probabilities)
    face = ReLAX(tiny.two_class_probabilities, ROWS, explainer=given).fit()
    assert not hasattr(given, "space_")
    monkeypatch.setattr(type(given), "fit", lambda self, X: pytest.fail("trained again"))
    again = ReLAX(tiny.two_class_probabilities, None, explainer=face.explainer_)
    assert again.explain_local(ROWS[:2]).data(-1) == face.explain_local(ROWS[:2]).data(-1)
    assert again.explainer_ is face.explainer_


def test_what_cannot_be_used_is_refused() -> None:
    model, fitted = tiny.two_class_probabilities, make_explainer("greedy", tiny.two_class_probabilities).fit(ROWS)
    refused = {
        "did you mean 'greedy'": lambda: ReLAX(model, ROWS, explainer="gredy"),
        "did you mean 'max_changes'": lambda: ReLAX(model, ROWS, explainer="greedy", options={"max_change": 2}),
        "has its own": lambda: ReLAX(model, ROWS, explainer=fitted, goal=Goal.flip()),
        "explains another model": lambda: ReLAX(tiny.two_class_labels, ROWS, explainer=fitted),
        "3 feature_names, but 5 columns": lambda: ReLAX(model, ROWS, ["a", "b", "c"]),
        "'nominel'; did you mean 'nominal'": lambda: ReLAX(model, ROWS, None, ["nominel", None, None, None, None]),
        "not NoneType": lambda: ReLAX(model, None),
        "give one of them": lambda: ReLAX(model, ROWS, None, [None] * 5, space=fitted.space_),
        "y has 3 answers for 2 rows": lambda: ReLAX(model, ROWS, explainer=fitted).explain_local(ROWS[:2], [0, 1, 0]),
    }
    for sentence, attempt in refused.items():
        with pytest.raises(InputError, match=sentence):
            attempt()


@pytest.mark.slow
def test_preserve_writes_a_page_for_a_row_by_position_or_name(mixed: CounterfactualExplanation, tmp_path: Path) -> None:
    for key, said in ((None, "of 20 rows"), (4, "Row customer 4"), ("customer 5", "Row customer 5")):
        interpret.preserve(mixed, key, file_name=str(tmp_path / "page.html"), auto_open=False)
        assert said in (tmp_path / "page.html").read_text()


@pytest.fixture(scope="module")
def address(mixed: CounterfactualExplanation) -> Iterator[str]:
    """The dashboard that `show` opens."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    interpret.set_show_addr(("127.0.0.1", port))
    deadline = time.monotonic() + 120.0
    while not interpret.status_show_server()["http_reachable"] and time.monotonic() < deadline:
        time.sleep(0.1)
    interpret.show(mixed)
    yield interpret.show_link(mixed)
    interpret.shutdown_show_server()
    interpret.set_visualize_provider(None)


def test_show_serves_a_dashboard_with_a_line_a_row(address: str, mixed: CounterfactualExplanation) -> None:
    choices = requests.get(f"{address}_dash-layout", timeout=120).text
    assert all(f"{row} : Row (customer {row}) | Predicted (" in choices for row in range(20))
    asked = {"output": "viz-container.children", "outputs": {"id": "viz-container", "property": "children"}}
    for value, said in ((-1, "of 20 rows"), (6, "Row customer 6")):
        chosen = {"inputs": [{"id": "component-drop", "property": "value", "value": value}], "changedPropIds": []}
        assert said in requests.post(f"{address}_dash-update-component", json={**asked, **chosen}, timeout=120).text


@pytest.fixture
def page(new_page) -> Any:
    """A page as wide as a notebook."""
    return new_page(viewport={"width": 760, "height": 900})


CROWDED = """() => {
  const texts = [...document.querySelectorAll(".bartext, .ytick text, .annotation-text, .gtitle")]
    .filter((text) => text.textContent.trim()).map((text) => text.getBoundingClientRect());
  const over = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
  const cut = texts.filter((a) => a.left < 0 || a.right > innerWidth).length;
  return [texts.length, cut, texts.filter((a, i) => texts.slice(i + 1).some((b) => over(a, b))).length];
}"""


@pytest.mark.browser
def test_preserved_pages_are_drawn_with_nothing_cut_or_overlapping(page, mixed, tmp_path) -> None:
    found = mixed.counterfactuals.found[:, 0].tolist()
    for key in (None, found.index(True), found.index(False)):
        interpret.preserve(mixed, key, file_name=str(tmp_path / "page.html"), auto_open=False)
        page.goto((tmp_path / "page.html").as_uri())
        page.locator(".gtitle").wait_for()
        drawn, cut, overlapping = page.evaluate(CROWDED)
        layout = mixed.visualize(key).layout
        assert drawn >= 1 + len(layout.yaxis.ticktext) + sum(note.text != "" for note in layout.annotations)
        assert (cut, overlapping) == (0, 0)


@pytest.mark.browser
def test_dashboard_and_notebook_cell_draw_the_chosen_row(page, mixed, address, tmp_path) -> None:
    page.goto(address)
    page.get_by_text("Counterfactuals for").wait_for()
    page.locator("#component-drop").click()
    page.get_by_text("6 : Row (customer 6)").first.click()
    page.get_by_text("Row customer 6: predicted").wait_for()
    script, body = _inline._build_javascript(_inline._build_viz_obj(mixed, []))
    (tmp_path / "cell.html").write_text(f"<!doctype html><meta charset='utf-8'><body>{script}{body}</body>")
    page.goto((tmp_path / "cell.html").as_uri())
    page.get_by_text("Counterfactuals for").wait_for()
    page.locator("select").select_option("6")
    page.get_by_text("Row customer 6: predicted").wait_for()
    assert {"now", "answer", "option 2"} <= set(page.locator(".annotation-text").all_text_contents())


def run(python: Path | str, code: str, folder: Path) -> str:
    return subprocess.run([python, "-c", code], cwd=folder, check=True, capture_output=True, text=True).stdout


def test_entry_point_is_light(tmp_path: Path) -> None:
    code = "import sys; from interpret.ext.blackbox import ReLAX; print(*sys.modules)"
    loaded = set(run(sys.executable, code, tmp_path).split())
    assert "relax_plugin.adapters.interpret" in loaded
    assert not loaded & {"torch", "pandas", "sklearn", "scipy", "plotly", "dash", "relax_plugin.base"}


def test_missing_interpret_is_named_with_its_extra(tmp_path: Path) -> None:
    code = "import sys; sys.modules['interpret'] = None; import relax_plugin.adapters.interpret"
    with pytest.raises(subprocess.CalledProcessError) as failed:
        run(sys.executable, code, tmp_path)
    said = "MissingExtraError: InterpretML's face needs interpret: pip install 'relax-plugin[interpret]'"
    assert said in failed.value.stderr


@pytest.mark.install
def test_wheel_in_a_fresh_environment_plugs_into_interpret(tmp_path: Path) -> None:
    """pip installs the wheel alone; what it depends on is taken from the environment of this test."""
    tree, fresh = tmp_path / "tree", tmp_path / "fresh"
    for folder in ("relax_plugin", "adapters", "baselines"):
        shutil.copytree(ROOT / folder, tree / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for file in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / file, tree / file)
    wheel = f"relax_plugin-{__version__}-py3-none-any.whl"
    python, offline = fresh / "bin" / "python", ["--quiet", "--no-index", "--no-deps"]
    for arguments in (
        ["pip", "wheel", *offline, "--no-build-isolation", "--wheel-dir", str(tmp_path), str(tree)],
        ["venv", "--without-pip", str(fresh)],
        ["pip", "--python", str(python), "install", *offline, str(tmp_path / wheel)],
    ):
        subprocess.run([sys.executable, "-m", *arguments], cwd=tmp_path, check=True, capture_output=True)
    (packages,) = fresh.glob("lib/*/site-packages")
    (packages / "here.pth").write_text("\n".join(path for path in sys.path if path.endswith("-packages")))
    code = f"""if True:
        import sys
        from interpret.ext.blackbox import ReLAX
        assert "torch" not in sys.modules
        print(sys.modules[ReLAX.__module__].__file__)
        from interpret import preserve
        from relax_plugin import ReLAXConfig
        from sklearn.datasets import load_breast_cancer
        from sklearn.linear_model import LogisticRegression
        X, y = load_breast_cancer(return_X_y=True)
        model = LogisticRegression(max_iter=5000).fit(X[:, :6], y)
        explainer = ReLAX(model, X[:, :6], options={{"config": {tiny.QUICK!r}}})
        explanation = explainer.explain_local(X[:5, :6], y[:5])
        preserve(explanation, 0, file_name="page.html", auto_open=False)
        print(type(explainer.explainer_).__module__, *explanation.counterfactuals.found[:, 0])
    """
    printed = run(python, code, tmp_path).splitlines()
    assert Path(printed[0]) == packages / "relax_plugin" / "adapters" / "interpret.py"
    assert printed[-1] == "relax_plugin.agent.explainer True True True True True"
    assert "Row 0: predicted" in (tmp_path / "page.html").read_text()


def test_a_model_fitted_to_a_frame_is_asked_by_its_names_when_the_rows_are_arrays() -> None:
    rows = pd.DataFrame(tiny.gaussian_rows(120, 3), columns=["age", "income", "debt"])
    model = LogisticRegression().fit(rows, (rows["age"] + rows["debt"] > 0).astype(int))
    for given in (model, model.predict_proba):
        explainer = ReLAX(given, rows.to_numpy(), explainer="greedy")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            explanation = explainer.explain_local(rows.to_numpy()[:4])
        assert explanation.feature_names == ["age", "income", "debt"]
        assert explanation.counterfactuals.found.all()
        found = explanation.counterfactuals.frame[["age", "income", "debt"]]
        assert (model.predict(found) != model.predict(rows[:4])).all()
