"""Explanations of the SHAP face: slices, classes, one base value, the older interface, and every plot of shap."""

import copy
import io
import pickle
import warnings

import matplotlib
import numpy as np
import pandas as pd
import pytest
import shap
from matplotlib import pyplot
from reference import tiny

from relax_plugin import BlackBox, Goal, make_explainer
from relax_plugin.adapters import shap as shap_explanation
from relax_plugin.adapters.shap import CounterfactualShap
from relax_plugin.errors import InputError

ROWS = tiny.gaussian_rows(200, 5)
EXPLAINER = make_explainer("greedy", tiny.two_class_probabilities).fit(ROWS)


def own_scores(rows: np.ndarray, queries: np.ndarray) -> np.ndarray:
    return tiny.two_class_probabilities(rows)[
        np.arange(len(rows)), tiny.two_class_probabilities(queries).argmax(axis=1)
    ]


@pytest.fixture(scope="module")
def partly() -> shap.Explanation:
    """Some rows have a counterfactual, and some have none."""
    narrow = make_explainer("greedy", tiny.two_class_probabilities, max_changes=1).fit(ROWS)
    made = narrow.explain(tiny.gaussian_rows(40, 5, seed=9), bounds={f"x{j}": (-0.5, 0.5) for j in range(5)})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return CounterfactualShap(narrow).attribute(made)


@pytest.fixture(scope="module")
def three() -> tuple[CounterfactualShap, np.ndarray]:
    rows = tiny.gaussian_rows(60)
    explainer = make_explainer("greedy", tiny.three_class_probabilities).fit(rows)
    return CounterfactualShap(explainer, every_class=False), rows[:12]


def test_what_was_found_is_kept_by_every_slice(partly: shap.Explanation) -> None:
    found = partly.found
    assert 0 < found.sum() < len(found)
    none = int(np.flatnonzero(~found)[0])
    assert not partly[none].found
    assert partly[int(np.flatnonzero(found)[0])].found
    order = np.argsort(-partly.values[:, 0])
    assert np.array_equal(partly[5:20].found, found[5:20])
    assert np.array_equal(partly[partly.found].found, np.ones(found.sum(), dtype=bool))
    assert np.array_equal(partly[order].found, found[order])
    assert np.array_equal(partly[order][3:7].row, order[3:7])
    assert np.array_equal(partly[:, "x1"].found, found)
    assert np.array_equal(partly[:, 1:3].found, found)
    assert np.array_equal(partly.abs.found, found)
    assert np.array_equal(partly[3:9, :, 1].found, found[3:9])
    assert np.array_equal(partly.sample(10).found, found[partly.sample(10).row])
    assert np.array_equal((partly * 2).found, found)
    assert np.array_equal(copy.copy(partly).found, found)
    assert np.array_equal(copy.deepcopy(partly).found, found)
    assert np.array_equal(pickle.loads(pickle.dumps(partly))[2:].found, found[2:])
    assert partly[3:].counterfactuals is partly.counterfactuals
    assert partly[3:].sampled.tolist() == [False] * (len(found) - 3)


def test_where_rows_are_summed_up_nothing_is_said_of_single_ones(partly: shap.Explanation) -> None:
    assert partly.abs.mean(0).found is None
    assert partly.abs.mean(0).sampled is None
    with pytest.raises(InputError, match="whole rows"):
        partly.mean(0).one_base()


def test_a_last_index_picks_the_class_that_is_explained(three: tuple[CounterfactualShap, np.ndarray]) -> None:
    face, queries = three
    explanation = face(queries)
    before = tiny.three_class_probabilities(queries)
    after = tiny.three_class_probabilities(explanation.counterfactuals.values[:, 0])
    for k in range(3):
        of_class = explanation[:, :, k]
        assert of_class.shape == explanation.shape
        np.testing.assert_allclose(of_class.base_values, after[:, k], atol=1e-9)
        np.testing.assert_allclose(of_class.values.sum(axis=1), before[:, k] - after[:, k], atol=1e-9)
        np.testing.assert_allclose(explanation[2, :, k].values, of_class.values[2])
        np.testing.assert_allclose(explanation[2][:, k].values, of_class.values[2])
        np.testing.assert_allclose(explanation[3:5][:, :, k].values, of_class.values[3:5])
        np.testing.assert_allclose(explanation[:, 1:3][:, :, k].values, of_class.values[:, 1:3])
        np.testing.assert_allclose(explanation[:, :, str(k)].values, of_class.values)
    own = before.argmax(axis=1)
    np.testing.assert_array_equal(explanation.classes.values[np.arange(12), :, own], explanation.values)
    np.testing.assert_allclose(explanation.classes.values.sum(axis=2), 0.0, atol=1e-9)  # probabilities sum to 1


def test_with_every_class_explanations_have_the_shape_of_shaps_own(
    three: tuple[CounterfactualShap, np.ndarray],
) -> None:
    face, queries = three
    whole = CounterfactualShap(face.explainer, every_class=True)
    explanation = whole(queries)
    assert explanation.shape == (*queries.shape, 3)
    assert explanation.base_values.shape == (len(queries), 3)
    assert list(explanation.output_names) == ["0", "1", "2"]
    np.testing.assert_array_equal(explanation[..., 1].values, face(queries)[:, :, 1].values)
    assert whole.expected_value.shape == (3,)
    values = whole.shap_values(queries)
    np.testing.assert_allclose(
        values.sum(axis=1) + whole.expected_value, tiny.three_class_probabilities(queries), atol=1e-9
    )
    assert explanation.classes is explanation
    np.testing.assert_array_equal(CounterfactualShap(face.explainer)(queries).values, explanation.values)


def test_a_regressor_has_no_classes() -> None:
    model = BlackBox(tiny.numbers, task="regression")
    explainer = make_explainer("greedy", model, goal=Goal.shift(1.0)).fit(ROWS)
    explanation = CounterfactualShap(explainer)(ROWS[:4])
    with pytest.raises(InputError, match="regressor"):
        explanation[:, :, 0]
    with pytest.raises(InputError, match="regressor"):
        CounterfactualShap(explainer, every_class=True)
    values, base = CounterfactualShap(explainer).shap_values(ROWS[:4]), CounterfactualShap(explainer).expected_value
    np.testing.assert_allclose(values.sum(axis=1) + base, tiny.numbers(ROWS[:4]), atol=1e-9)


@pytest.mark.parametrize("n", [1, 3])
def test_with_one_base_rows_still_sum_to_f_and_unchanged_features_have_none(n: int) -> None:
    queries = tiny.gaussian_rows(25, 5, seed=2)
    explanation = CounterfactualShap(EXPLAINER, n=n)(queries)
    common = explanation.one_base()
    assert len(set(common.base_values)) == 1
    assert common.base_values[0] == pytest.approx(explanation.base_values.mean())
    np.testing.assert_allclose(common.values.sum(axis=1) + common.base_values, own_scores(queries, queries), atol=1e-9)
    assert (common.values[explanation.values == 0.0] == 0.0).mean() == 1.0 or n > 1
    made = explanation.counterfactuals
    changed = ((made.values != made.start[:, None]) & made.found[:, :, None]).any(axis=1)
    assert (common.values[~changed] == 0.0).all()
    # With one change it is the whole of f(x) - base; with several each has the same part of what is left.
    one = (changed.sum(axis=1) == 1) & (n == 1)
    assert one.any() or n > 1
    expected = own_scores(queries, queries)[one] - common.base_values[0]
    np.testing.assert_allclose(common.values[one].sum(axis=1), expected, atol=1e-9)
    moved = common.values - explanation.values
    for row in np.flatnonzero(changed.sum(axis=1) > 1) if n == 1 else []:
        assert np.ptp(moved[row][changed[row]]) == pytest.approx(0.0, abs=1e-12)
    assert np.array_equal(common[3:6].one_base(0.25).base_values, [0.25] * 3)
    np.testing.assert_array_equal(explanation.base_values, CounterfactualShap(EXPLAINER, n=n)(queries).base_values)


def test_older_values_do_not_depend_on_the_rows_beside_and_sum_with_the_expected_value_to_f() -> None:
    queries = pd.DataFrame(tiny.gaussian_rows(20, 5, seed=3), columns=[f"x{j}" for j in range(5)])
    explainer = make_explainer("greedy", lambda x: tiny.two_class_probabilities(x.to_numpy()))
    face = CounterfactualShap(explainer.fit(pd.DataFrame(ROWS, columns=queries.columns)))
    values = face.shap_values(queries)
    assert values.shape == queries.shape
    assert isinstance(face.expected_value, float)
    own = own_scores(queries.to_numpy(), queries.to_numpy())
    np.testing.assert_allclose(values.sum(axis=1) + face.expected_value, own, atol=1e-9)
    np.testing.assert_array_equal(face.shap_values(queries.iloc[4:7]), values[4:7])
    np.testing.assert_array_equal(face.shap_values(queries.iloc[4]), values[4])
    background = CounterfactualShap(face.explainer, background=queries)
    assert background.expected_value == pytest.approx(face(queries).base_values.mean())


def test_one_row_is_explained_as_one() -> None:
    whole = CounterfactualShap(EXPLAINER)(ROWS[:3])
    one = CounterfactualShap(EXPLAINER)(ROWS[1])
    assert one.shape == (5,)
    np.testing.assert_array_equal(one.values, whole.values[1])
    rows = tiny.mixed_rows()
    explainer = make_explainer("greedy", tiny.mixed_probabilities, tiny.mixed_space(rows)).fit(rows)
    face = CounterfactualShap(explainer, every_class=False)
    series = face(rows.iloc[5])
    np.testing.assert_array_equal(series.values, face(rows.iloc[[5]]).values[0])
    np.testing.assert_array_equal(face(dict(rows.iloc[5])).values, series.values)
    assert series.found
    assert face.shap_values(rows.iloc[5]).shape == series.shape


@pytest.mark.slow
def test_max_evals_bounds_the_model_rows_of_a_counterfactual() -> None:
    model = tiny.Counting(tiny.two_class_probabilities)
    explainer = make_explainer("nearest-ct", model, max_changes=None).fit(ROWS)
    made = explainer.explain(tiny.gaussian_rows(4, 5, seed=8))
    assert ((made.values[:, 0] != made.start).sum(axis=1) == 5).all()
    face = CounterfactualShap(explainer)
    model.forget()
    exact = face.attribute(made, max_evals=32)
    assert model.rows == 4 * 32
    assert not exact.sampled.any()
    model.forget()
    with pytest.warns(UserWarning, match="4 counterfactuals change more than 4 features"):
        sampled = face.attribute(made, max_evals=31)
    assert model.rows < 4 * 32
    assert sampled.sampled.all()
    np.testing.assert_allclose(sampled.values.sum(axis=1), exact.values.sum(axis=1), atol=1e-9)
    with pytest.raises(InputError, match="5 changed features need at least 11"):
        face.attribute(made, max_evals=10)
    with pytest.raises(InputError, match="max_evals is 'many'"):
        face(ROWS[:2], max_evals="many")


# Every plot of shap. Those of one row are given a row; `force` and `decision` of several rows need one base value.


@pytest.fixture(scope="module")
def drawn() -> tuple[CounterfactualShap, pd.DataFrame, shap.Explanation]:
    matplotlib.use("Agg")
    rows = tiny.mixed_rows()
    explainer = make_explainer("greedy", tiny.mixed_probabilities, tiny.mixed_space(rows)).fit(rows)
    face = CounterfactualShap(explainer, every_class=False)
    queries = pd.concat([rows, rows]).iloc[:160]
    return face, queries, face(queries)


P, NAMES = shap.plots, tiny.mixed_space(tiny.mixed_rows()).names
PLOTS = {
    "bar": lambda f, x, e: P.bar(e, show=False),
    "bar of one row": lambda f, x, e: P.bar(e[0], show=False),
    "bar of cohorts": lambda f, x, e: P.bar(e.cohorts(2).abs.mean(0), show=False),
    "beeswarm": lambda f, x, e: P.beeswarm(e, show=False),
    "beeswarm of a class": lambda f, x, e: P.beeswarm(e[:, :, 1], show=False),
    "violin": lambda f, x, e: P.violin(e, show=False),
    "heatmap": lambda f, x, e: P.heatmap(e, show=False),
    "waterfall": lambda f, x, e: P.waterfall(e[0], show=False),
    "waterfall of a class": lambda f, x, e: P.waterfall(e[0, :, 1], show=False),
    "scatter": lambda f, x, e: P.scatter(e[:, "smooth"], color=e, show=False),
    "dependence_plot": lambda f, x, e: shap.dependence_plot("smooth", e.values, e.data, NAMES, show=False),
    "force of one row": lambda f, x, e: P.force(e[0], matplotlib=True, show=False),
    "decision": lambda f, x, e: P.decision(f.expected_value, f.shap_values(x), x, show=False),
    "decision of an explanation": lambda f, x, e: P.decision(
        e.one_base().base_values[0], e.one_base().values, e.data, feature_names=NAMES, show=False
    ),
    "multioutput_decision_plot": lambda f, x, e: shap.multioutput_decision_plot(
        list(e.classes.base_values[0]), list(np.moveaxis(e.classes.values, 2, 0)), 0, feature_names=NAMES, show=False
    ),
    "summary_plot": lambda f, x, e: shap.summary_plot(f.shap_values(x), x, show=False),
    "summary_plot of classes": lambda f, x, e: shap.summary_plot(e.classes, show=False),
    "group_difference": lambda f, x, e: P.group_difference(
        e.values, np.arange(len(x)) % 2 == 0, feature_names=NAMES, show=False
    ),
    "embedding": lambda f, x, e: P.embedding("smooth", e.values, feature_names=NAMES, show=False),
    "monitoring": lambda f, x, e: P.monitoring(0, e.values, e.data, feature_names=NAMES, show=False),
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("plot", PLOTS)
def test_plot_of_shap_draws_it(plot: str, drawn: tuple[CounterfactualShap, pd.DataFrame, shap.Explanation]) -> None:
    file = io.BytesIO()
    PLOTS[plot](*drawn)
    pyplot.savefig(file, format="svg")
    pyplot.close("all")
    assert file.getvalue().count(b"<path") > 20


def test_force_of_several_rows_is_a_page_with_the_true_scores(
    drawn: tuple[CounterfactualShap, pd.DataFrame, shap.Explanation],
) -> None:
    face, queries, explanation = drawn
    true = tiny.mixed_probabilities(queries.iloc[:12]).max(axis=1)
    older = face.expected_value, face.shap_values(queries.iloc[:12]), queries.iloc[:12]
    for drawing in (P.force(explanation[:12]), shap.force_plot(explanation[:12]), P.force(*older)):
        out = [one["outValue"] for one in drawing.data["explanations"]]
        np.testing.assert_allclose(out, true, atol=1e-9)
        file = io.StringIO()
        shap.save_html(file, drawing)
        assert file.getvalue().startswith("<html>")
        assert "smooth" in file.getvalue()


def waterfall_texts(explanation: shap.Explanation) -> list[str]:
    pyplot.close("all")
    axes = P.waterfall(explanation, show=False)
    axes.figure.canvas.draw()  # tick labels are written when drawn
    return [text.get_text() for one in axes.figure.axes for text in one.get_xticklabels()]


@pytest.mark.slow
def test_a_waterfall_calls_its_base_the_score_of_the_counterfactual(partly: shap.Explanation) -> None:
    matplotlib.use("Agg")
    solved, unsolved = int(np.flatnonzero(partly.found)[0]), int(np.flatnonzero(~partly.found)[0])
    texts = waterfall_texts(partly[solved])
    assert "\ncounterfactual $f(x')$" in texts
    assert f"\n$ = {partly.base_values[solved]:.3f}$" in texts
    assert "$f(x)$" in texts
    assert "\ncommon base" in waterfall_texts(partly.one_base()[solved])
    assert "\nno counterfactual, $f(x)$" in waterfall_texts(partly[unsolved])
    mean = CounterfactualShap(EXPLAINER, n=2)(ROWS[:1])
    assert "\ncounterfactuals, mean $f(x')$" in waterfall_texts(mean[0])
    assert not any("E[f(X)]" in text for text in texts)
    plain = shap.Explanation(np.array([1.0, -2.0]), 0.5, np.array([1.0, 2.0]), feature_names=["a", "b"])
    assert "\n$E[f(X)]$" in waterfall_texts(plain)  # shap's own are as they were


def test_what_is_changed_in_shap_can_be_taken_back(partly: shap.Explanation) -> None:
    shap_explanation.uninstall()
    own = P.waterfall, P.force
    assert own == (shap.waterfall_plot, shap.force_plot)
    assert not hasattr(own[0], "__wrapped__")
    shap_explanation.install()
    shap_explanation.install()
    assert (P.waterfall.__wrapped__, P.force.__wrapped__) == own
    assert P.waterfall is shap.waterfall_plot
