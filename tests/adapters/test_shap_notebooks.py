"""SHAP's README and notebooks with one line changed, to `CounterfactualShap(ReLAX(model).fit(X))`.

The data are scikit-learn's own, in place of those that SHAP would download.
"""

from collections.abc import Iterator
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
import pytest
import shap
import xgboost
from matplotlib import pyplot
from reference.tiny import QUICK
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier

from relax_plugin import ReLAX, make_explainer
from relax_plugin.adapters.shap import CounterfactualShap, Margins, compare_with_shap
from relax_plugin.errors import InputError, ModelError

pytestmark = [pytest.mark.filterwarnings("ignore:.*queries have no counterfactual")]


@pytest.fixture(autouse=True)
def _without_a_screen() -> Iterator[None]:
    matplotlib.use("agg")
    yield
    pyplot.close("all")


def relax(model: Any) -> ReLAX:
    return ReLAX(model, config=QUICK, progress=False)


def diabetes() -> tuple[pd.DataFrame, pd.Series]:
    return load_diabetes(return_X_y=True, as_frame=True)


def labels_of_waterfall() -> list[str]:
    return [text.get_text() for text in pyplot.gcf().axes[0].get_yticklabels() if text.get_text()]


@pytest.mark.slow
def test_the_first_example_of_the_readme() -> None:
    X, y = diabetes()
    model = xgboost.XGBRegressor(n_estimators=20, max_depth=3).fit(X, y)
    with pytest.warns(UserWarning, match="half a standard deviation of the model's answers"):
        explainer = CounterfactualShap(relax(model).fit(X))
    shap_values = explainer(X[:60])
    shap.plots.waterfall(shap_values[0], show=False)
    assert "<html>" in _html(shap.plots.force(shap_values[0]))
    assert "<html>" in _html(shap.plots.force(shap_values[:500]))
    shap.plots.scatter(shap_values[:, "bmi"], color=shap_values, show=False)
    shap.plots.beeswarm(shap_values, show=False)
    shap.plots.bar(shap_values, show=False)
    half = model.predict(X).std() / 2
    moved = model.predict(X[:60]) - shap_values.base_values
    assert (np.abs(moved[shap_values.found]) >= half * 0.999).all()
    np.testing.assert_allclose(shap_values.values.sum(axis=1), moved, atol=1e-3)


def _html(plot: Any) -> str:
    return f"<html>{plot.html()}"


@pytest.mark.slow
def test_the_notebook_of_diabetes() -> None:
    X, y = diabetes()
    X_train, X_test, y_train, _ = train_test_split(X, y, test_size=0.2, random_state=0)
    model = LinearRegression().fit(X_train, y_train)
    with pytest.warns(UserWarning, match="no goal was given"):
        ex = CounterfactualShap(relax(model).fit(X_train))
    shap_values = ex.shap_values(X_test.iloc[0, :])
    assert shap_values.shape == (10,)
    shap.force_plot(ex.expected_value, shap_values, X_test.iloc[0, :])
    shap_values = ex.shap_values(X_test)
    shap.summary_plot(shap_values, X_test, show=False)
    shap.dependence_plot("bmi", shap_values, X_test, show=False)
    shap.force_plot(ex.expected_value, shap_values, X_test)
    np.testing.assert_allclose(shap_values.sum(axis=1) + ex.expected_value, model.predict(X_test), atol=1e-6)


@pytest.mark.slow
def test_the_notebook_of_iris() -> None:
    X, y = load_iris(return_X_y=True, as_frame=True)
    X_train, X_test, y_train, _ = train_test_split(X, y, test_size=0.2, random_state=0)
    knn = KNeighborsClassifier().fit(X_train, y_train)
    explainer = CounterfactualShap(relax(knn).fit(X_train))
    one = explainer(X_test.iloc[0, :])
    assert one.shape == (4, 3)
    shap.plots.force(one[..., 0])
    shap_values = explainer(X_test)
    assert shap_values.shape == (30, 4, 3)
    shap.plots.force(shap_values[..., 0])
    shap.plots.beeswarm(shap_values[..., 1], show=False)
    shap.plots.bar(shap_values[..., 2], show=False)
    shap.plots.waterfall(shap_values[0, ..., 0], show=False)
    rise = knn.predict_proba(X_test)[:, 0] - shap_values[..., 0].base_values
    np.testing.assert_allclose(shap_values[..., 0].values.sum(axis=1), rise, atol=1e-9)


@pytest.mark.slow
def test_the_notebook_of_bars_with_a_function_of_margins() -> None:
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    X = X.iloc[:, :8]
    model = xgboost.XGBClassifier(n_estimators=10, max_depth=2).fit(X, y)

    def f(x: Any) -> Any:
        return model.predict(x, output_margin=True)

    with pytest.raises(ModelError, match="no class label"):
        relax(f).fit(X)  # margins or a regressor's numbers: that has to be said
    shap_values = CounterfactualShap(relax(Margins(f)).fit(X))(X[:80])
    shap.plots.bar(shap_values, show=False)
    shap.plots.bar(shap_values, max_display=12, show=False)
    shap.plots.bar(shap_values.abs.max(0), show=False)
    shap.plots.bar(shap_values[0], show=False)
    shap.plots.bar(shap_values.cohorts(2).abs.mean(0), show=False)
    margins, counterfactuals = f(X[:80]), shap_values.counterfactuals
    after = f(counterfactuals.frame[list(X)])
    assert (after * margins[counterfactuals.frame["query_id"]] <= 0).all()
    found = shap_values.found
    np.testing.assert_allclose(np.abs(margins) - shap_values.base_values, shap_values.values.sum(axis=1), atol=1e-4)
    np.testing.assert_allclose(shap_values[..., 1].base_values[found], after, atol=1e-4)


def test_an_ellipsis_and_a_number_are_a_class_and_not_a_feature() -> None:
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    X = X.iloc[:, :4]
    model = KNeighborsClassifier().fit(X, y)
    E = CounterfactualShap(make_explainer("greedy", model).fit(X))(X[:5])
    assert E.shape == (5, 4)
    for k in (0, 1):
        np.testing.assert_array_equal(E[..., k].values, E[:, :, k].values)
        np.testing.assert_array_equal(E[0, ..., k].values, E[0, :, k].values)
        np.testing.assert_array_equal(E[0][..., k].values, E[0, :, k].values)
    np.testing.assert_array_equal(E[..., "1"].values, E[:, :, 1].values)
    np.testing.assert_array_equal(E[..., "mean area"].values, E[:, "mean area"].values)
    np.testing.assert_array_equal(E[..., 1][..., 0].values, E[:, :, 1][:, 0].values)  # one class is picked out already
    assert E.classes.classes.shape == (5, 4, 2)
    with pytest.raises(InputError, match="summed up"):
        E.abs.mean(0).classes  # noqa: B018


def test_a_regressor_has_features_behind_an_ellipsis() -> None:
    X, y = diabetes()
    model = LinearRegression().fit(X, y)
    with pytest.warns(UserWarning, match="no goal was given"):
        E = CounterfactualShap(make_explainer("greedy", model).fit(X))(X[:4])
    np.testing.assert_array_equal(E[..., 2].values, E.values[:, 2])


def test_a_waterfall_shows_what_changes_to_which_value_and_nothing_else() -> None:
    X, y = diabetes()
    model = LinearRegression().fit(X, y)
    with pytest.warns(UserWarning, match="no goal was given"):
        E = CounterfactualShap(make_explainer("greedy", model).fit(X))(X[:4])
    changes = E.counterfactuals.changes()
    for row in range(4):
        shap.plots.waterfall(E[row], show=False)
        own = changes[changes["query_id"] == row]
        told = {f"{name}: {old:.4g} → {new:.4g}" for name, old, new in own[["feature", "from", "to"]].to_numpy()}
        assert set(labels_of_waterfall()) == told
        pyplot.close("all")


def test_a_waterfall_of_several_counterfactuals_keeps_the_values_of_the_row() -> None:
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    X = X.iloc[:, :6]
    model = LogisticRegression(max_iter=5000).fit(X, y)
    E = CounterfactualShap(make_explainer("greedy", model).fit(X), n=3)(X[:4])
    row = int(E.counterfactuals.found.sum(axis=1).argmax())
    assert E.counterfactuals.found[row].sum() > 1
    shap.plots.waterfall(E[row], show=False)
    changed = E.counterfactuals.changes().query("query_id == @row")["feature"].unique()
    assert {label.partition(" = ")[2] for label in labels_of_waterfall() if " = " in label} == set(changed)


def test_shap_and_counterfactuals_of_a_regressor_without_a_goal_are_compared() -> None:
    X, y = diabetes()
    explainer = make_explainer("greedy", LinearRegression().fit(X, y)).fit(X)
    with pytest.warns(UserWarning, match="no goal was given"):
        assert compare_with_shap(explainer, X[:5], shap_values=np.ones((5, 10))).table["found"].all()
