"""The CARLA-shaped adapter: the user code that must run unchanged, and what a RecourseMethod promises."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder

from relax_plugin import Goal, ReLAXConfig, make_explainer
from relax_plugin.adapters.carla import ReLAXRecourse, merge_hyperparams
from relax_plugin.errors import ColumnError, InputError, NotFittedError, UnknownNameError

TINY = ReLAXConfig(
    training="model", steps=30, episodes=32, updates_per_step=1, hidden=16, start_pool=256, validate_every=30
)
GREEDY = {"explainer": "greedy"}
CONTINUOUS, CATEGORICAL = ["age", "hours", "gain"], ["sex", "work"]


class Data:
    """A data set with the properties of CARLA's: encoded and normalised frames, lists of raw names."""

    continuous, categorical, immutables, target = CONTINUOUS, CATEGORICAL, ["age", "sex"], "income"

    def __init__(self, drop: str | None) -> None:
        rng = np.random.default_rng(0)
        raw = pd.DataFrame(rng.uniform(0.0, 90.0, (240, 3)), columns=CONTINUOUS)
        raw["sex"] = rng.choice(["Female", "Male"], len(raw))
        raw["work"] = rng.choice(["office", "private", "state"], len(raw))
        encoder = OneHotEncoder(drop=drop, sparse_output=False)
        parts = make_column_transformer((MinMaxScaler(), CONTINUOUS), (encoder, CATEGORICAL))
        parts.set_output(transform="pandas").verbose_feature_names_out = False
        self.df = parts.fit_transform(raw)
        score = raw["hours"] / 90 + raw["gain"] / 90 + (raw["work"] == "private") + 0.3 * (raw["sex"] == "Male")
        self.df[self.target] = (score + rng.normal(0.0, 0.1, len(raw)) > 1.5).astype(int)
        self.df_train, self.df_test = self.df.iloc[:180], self.df.iloc[180:]


class Model:
    """A model with the properties of CARLA's; as with its networks, `predict` is a probability and not a label."""

    backend = "sklearn"

    def __init__(self, data: Data) -> None:
        self.data = data
        self.feature_input_order = [column for column in data.df.columns if column != data.target][::-1]
        x, y = data.df_train[self.feature_input_order], data.df_train[data.target]
        self.raw_model = LogisticRegression(C=100.0).fit(x, y)

    def get_ordered_features(self, x: pd.DataFrame) -> pd.DataFrame:
        return x[self.feature_input_order]

    def predict(self, x: pd.DataFrame) -> np.ndarray:
        return self.predict_proba(x)[:, [1]]

    def predict_proba(self, x: pd.DataFrame) -> np.ndarray:
        return self.raw_model.predict_proba(self.get_ordered_features(x))


@pytest.fixture(params=["if_binary", None], ids=["binary columns", "one-hot"])
def model(request: pytest.FixtureRequest) -> Model:
    return Model(Data(request.param))


def negatives(model: Model) -> pd.DataFrame:
    frame = model.data.df
    return frame[model.predict_proba(frame).argmax(axis=1) == 0]


@pytest.mark.slow
@pytest.mark.parametrize("hyperparams", [{"options": {"config": TINY, "progress": False}}, GREEDY])
def test_code_of_a_carla_user_runs_unchanged(model: Model, hyperparams: dict) -> None:
    ml_model, dataset = model, model.data
    factuals = negatives(ml_model).iloc[:12]

    recourse_method = ReLAXRecourse(ml_model, hyperparams)  # the line that was `Wachter(ml_model, hyperparams)`
    df_cfs = recourse_method.get_counterfactuals(factuals)

    assert list(df_cfs.columns) == ml_model.feature_input_order
    # What `Benchmark` and its measures do with them:
    success_rate = len(df_cfs.dropna()) / len(df_cfs)
    kept = df_cfs.dropna().index
    delta = df_cfs.loc[kept].to_numpy() - ml_model.get_ordered_features(factuals).loc[kept].to_numpy()
    distances = np.abs(delta).sum(axis=1)
    df_cfs[dataset.target] = np.where(df_cfs.isna().any(axis=1), np.nan, 1.0)
    labels = ml_model.predict_proba(df_cfs.loc[kept]).argmax(axis=1)
    assert success_rate == 1.0
    assert (labels == 1).all()
    assert (distances > 0).all()


@pytest.mark.slow
def test_index_is_kept_and_rows_without_counterfactual_are_nan(model: Model) -> None:
    factuals = negatives(model).iloc[:20].set_axis([f"person {i % 7}" for i in range(20)])
    method = ReLAXRecourse(model, {**GREEDY, "options": {"max_changes": 1}})
    cfs = method.get_counterfactuals(factuals)
    assert cfs.index.tolist() == factuals.index.tolist()
    missing = cfs.isna()
    assert (missing.all(axis=1) == missing.any(axis=1)).all()
    assert 0 < missing.all(axis=1).sum() < len(cfs)
    assert (model.predict_proba(cfs.dropna()).argmax(axis=1) == 1).all()


@pytest.mark.slow
def test_unchanged_cells_are_the_factuals_own_and_immutables_never_change(model: Model) -> None:
    factuals = negatives(model).iloc[:30]
    frozen = [column for column in model.feature_input_order if column == "gain" or column.startswith("work")]
    for immutables in ([], ["gain", "work"]):
        model.data.immutables = immutables
        cfs = ReLAXRecourse(model, GREEDY).get_counterfactuals(factuals).dropna()
        same = cfs == model.get_ordered_features(factuals).loc[cfs.index]
        assert same[frozen].all(axis=None) == bool(immutables)  # they are what would change otherwise
        assert same.mean(axis=None) > 0.5
        assert not same.all(axis=1).any()
        assert len(cfs) > 0


def test_one_hot_columns_stay_a_one_hot_code_and_count_as_one_change(model: Model) -> None:
    columns = [column for column in model.feature_input_order if column.startswith("work")]
    factuals = negatives(model).iloc[:30]
    method = ReLAXRecourse(model, {**GREEDY, "options": {"max_changes": 1}})
    cfs = method.get_counterfactuals(factuals).dropna()
    assert set(np.unique(cfs[columns])) <= {0.0, 1.0}
    assert (cfs[columns].sum(axis=1) == 1).all()
    assert (cfs[columns] != factuals.loc[cfs.index, columns]).any(axis=None)  # or the line above shows nothing


@pytest.mark.slow
def test_factuals_may_have_further_columns_in_any_order(model: Model) -> None:
    factuals = negatives(model).iloc[:5]
    shuffled = factuals.assign(note="x")[[model.data.target, "note", *sorted(model.feature_input_order)]]
    method = ReLAXRecourse(model, GREEDY)
    pd.testing.assert_frame_equal(method.get_counterfactuals(shuffled), method.get_counterfactuals(factuals))


def test_desired_class_may_be_the_other_one(model: Model) -> None:
    factuals = model.data.df.drop(index=negatives(model).index).iloc[:10]
    cfs = ReLAXRecourse(model, {**GREEDY, "desired_class": 0}).get_counterfactuals(factuals)
    assert (model.predict_proba(cfs).argmax(axis=1) == 0).all()


def test_goal_among_the_options_takes_the_place_of_the_class(model: Model) -> None:
    goal = Goal.to(1, min_probability=0.8)
    cfs = ReLAXRecourse(model, {**GREEDY, "options": {"goal": goal}}).get_counterfactuals(negatives(model).iloc[:10])
    assert (model.predict_proba(cfs.dropna())[:, 1] >= 0.8).all()
    assert len(cfs.dropna()) > 0


def test_fitted_explainer_is_used_as_it_is() -> None:
    model = Model(Data("if_binary"))
    data = model.data
    model.feature_input_order = CONTINUOUS
    model.raw_model = RandomForestClassifier(20, random_state=0).fit(data.df_train[CONTINUOUS], data.df_train["income"])
    fitted = make_explainer("greedy", model.raw_model, goal=Goal.to(1)).fit(data.df_train[CONTINUOUS])
    factuals = negatives(model).iloc[:8]
    cfs = ReLAXRecourse(model, {"explainer": fitted}).get_counterfactuals(factuals)
    expected = fitted.explain(factuals[CONTINUOUS], vary=["hours", "gain"])  # age is immutable in CARLA's data
    assert expected.found.all()
    np.testing.assert_array_equal(cfs.to_numpy(), expected.values[:, 0])


@pytest.mark.slow
def test_explainer_that_does_not_fit_the_model_is_refused() -> None:
    model = Model(Data("if_binary"))
    x = model.data.df_train[CONTINUOUS]
    other = RandomForestClassifier(5, random_state=0).fit(x, model.data.df_train["income"])
    with pytest.raises(NotFittedError):
        ReLAXRecourse(model, {"explainer": make_explainer("greedy", other)})
    with pytest.raises(ColumnError, match="age"):
        ReLAXRecourse(model, {"explainer": make_explainer("greedy", other).fit(x)})


def test_hyperparameters_are_merged_without_touching_what_was_given() -> None:
    default = {"a": 1, "nested": {"b": 2, "c": 3}}
    given = {"nested": {"c": 4}}
    assert merge_hyperparams(given, default) == {"a": 1, "nested": {"b": 2, "c": 4}}
    assert merge_hyperparams(None, default) == default
    assert given == {"nested": {"c": 4}}
    assert default == {"a": 1, "nested": {"b": 2, "c": 3}}


def test_hyperparameters_of_other_methods_are_set_aside_with_one_warning(model: Model) -> None:
    wachter = {"loss_type": "BCE", "binary_cat_features": True, "lr": 0.02, "t_max_min": 0.5, "y_target": None}
    with pytest.warns(UserWarning, match="loss_type, binary_cat_features, lr, t_max_min, y_target; here") as caught:
        method = ReLAXRecourse(model, {**GREEDY, **wachter})
    assert len([one for one in caught if "other methods" in str(one.message)]) == 1
    assert caught[0].filename.endswith("test_carla.py")
    assert set(method.hyperparams) == {"explainer", "options", "desired_class", "seed"}
    factuals = negatives(model).iloc[:5]
    plain = ReLAXRecourse(model, GREEDY).get_counterfactuals(factuals)
    pd.testing.assert_frame_equal(method.get_counterfactuals(factuals), plain)


def test_measures_count_a_category_once_where_carla_counts_its_columns() -> None:
    model = Model(Data(None))
    factuals = negatives(model).iloc[:30]
    method = ReLAXRecourse(model, {**GREEDY, "options": {"max_changes": 1}})
    cfs = method.get_counterfactuals(factuals)
    cfs.iloc[3] = np.nan
    measured = method.measures(factuals, cfs)
    found = cfs.dropna()
    assert list(measured.index) == list(found.index)
    delta = (found - model.get_ordered_features(factuals).loc[found.index]).to_numpy()
    # As carla.evaluation.catalog.distance computes them.
    assert measured["L0_distance"].tolist() == (~np.isclose(delta, 0.0, atol=1e-5)).sum(axis=1).tolist()
    np.testing.assert_allclose(measured["L1_distance"], np.abs(delta).sum(axis=1))
    assert (measured["L0_merged"] == 1).all()
    category = measured["L0_distance"] == 2
    assert 0 < category.sum() < len(measured)
    np.testing.assert_allclose(measured.loc[category, "L1_merged"], 1.0)
    np.testing.assert_allclose(measured.loc[~category, "L1_merged"], measured.loc[~category, "L1_distance"])
    assert (measured["Redundancy_merged"] == 0).all()  # the only change is needed


def test_redundant_changes_are_those_that_can_be_taken_back_alone() -> None:
    model = Model(Data(None))
    method = ReLAXRecourse(model, GREEDY)
    factuals = negatives(model)[model.feature_input_order].iloc[:1]
    works = ["work_office", "work_private", "work_state"]
    rich = factuals.assign(gain=30.0, hours=30.0)  # either is enough
    rich[works] = np.roll(factuals[works].to_numpy(), 1, axis=1)
    measured = method.measures(factuals, rich).iloc[0]
    assert measured[["L0_distance", "L0_merged", "Redundancy_merged"]].tolist() == [4, 3, 3]
    expected = 0
    for column in rich:  # as carla.evaluation.catalog.redundancy does
        back = rich.assign(**{column: factuals[column]})
        expected += bool((rich[column] != factuals[column]).any() and model.predict_proba(back).argmax() == 1)
    assert measured["Redundancy"] == expected
    nothing = method.measures(factuals, rich * np.nan)
    assert nothing.empty and list(nothing) == list(method.measures(factuals, rich))


CARLA_API = """
from abc import ABC, abstractmethod

class RecourseMethod(ABC):
    def __init__(self, mlmodel):
        self._mlmodel = mlmodel

    @abstractmethod
    def get_counterfactuals(self, factuals):
        pass
"""


@pytest.mark.slow
@pytest.mark.parametrize("installed", ["recourse", "simulator", "none"])
def test_where_carla_can_be_imported_it_is_a_recourse_method(installed: str, tmp_path: Path) -> None:
    """CARLA itself installs nowhere now: this is a package with the abstract base class as it was published."""
    if installed != "none":
        (tmp_path / "carla").mkdir()
        (tmp_path / "carla" / "__init__.py").write_text("")
    if installed == "recourse":
        api = tmp_path / "carla" / "recourse_methods" / "api"
        api.mkdir(parents=True)
        (tmp_path / "carla" / "recourse_methods" / "__init__.py").write_text("")
        (api / "__init__.py").write_text(CARLA_API)
    told = """
import logging; logging.basicConfig()
from relax_plugin.adapters.carla import ReLAXRecourse
from test_carla import Data, GREEDY, Model, negatives
model = Model(Data(None))
method = ReLAXRecourse(model, GREEDY)
print([base.__module__ for base in ReLAXRecourse.__mro__])
print(method._mlmodel is model, method.get_counterfactuals(negatives(model).iloc[:3]).notna().all(axis=None))
"""
    root = Path(__file__).parents[2]
    path = os.pathsep.join(map(str, (tmp_path, root, root / "tests", root / "tests" / "adapters")))
    done = subprocess.run(
        [sys.executable, "-c", told], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path}, check=True
    )
    bases, answers = done.stdout.splitlines()
    assert ("carla.recourse_methods.api" in bases) == (installed == "recourse")
    assert answers == "True True"
    assert ("has no RecourseMethod" in done.stderr) == (installed == "simulator")


def test_unknown_or_empty_hyperparameters_are_refused(model: Model) -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'explainer'"):
        ReLAXRecourse(model, {"explaner": "greedy"})
    with pytest.raises(ValueError, match="'seed' is None"):
        ReLAXRecourse(model, {**GREEDY, "seed": None})
    with pytest.raises(UnknownNameError, match="no option 'quantile'"):
        ReLAXRecourse(model, {**GREEDY, "options": {"quantile": 3}})


def test_no_factuals_missing_columns_and_broken_codes_are_refused() -> None:
    model = Model(Data(None))
    method = ReLAXRecourse(model, GREEDY)
    factuals = negatives(model).iloc[:3]
    with pytest.raises(ValueError, match="at least one row"):
        method.get_counterfactuals(factuals.iloc[:0])
    with pytest.raises(InputError, match="must be a DataFrame"):
        method.get_counterfactuals(factuals.to_numpy())
    with pytest.raises(ColumnError, match="'hours' is missing"):
        method.get_counterfactuals(factuals.drop(columns="hours"))
    with pytest.raises(InputError, match="one-hot"):
        method.get_counterfactuals(factuals.assign(work_state=1.0, work_private=1.0))


def test_column_of_a_number_is_not_taken_for_a_category() -> None:
    data = Data("if_binary")
    data.df = data.df_train = data.df.rename(columns={"hours": "work_hours"})
    data.continuous = ["age", "work_hours", "gain"]
    method = ReLAXRecourse(Model(data), GREEDY)
    assert method.columns["work_hours"] == ["work_hours"]
    assert len(method.columns["work"]) == 3


def test_data_without_split_is_fitted_on_all_rows() -> None:
    model = Model(Data("if_binary"))
    names = ("df", "continuous", "categorical", "immutables", "target")
    model.data = SimpleNamespace(**{name: getattr(model.data, name) for name in names})
    cfs = ReLAXRecourse(model, GREEDY).get_counterfactuals(negatives(model).iloc[:3])
    assert cfs.notna().all(axis=None)


def test_immutables_may_name_the_columns_of_a_code_and_nothing_unknown() -> None:
    data = Data(None)
    data.immutables = ["work_office", "work_private", "work_state"]
    model = Model(data)
    factuals = negatives(model).iloc[:10]
    cfs = ReLAXRecourse(model, GREEDY).get_counterfactuals(factuals).dropna()
    assert len(cfs) > 5
    assert (cfs[data.immutables] == factuals.loc[cfs.index, data.immutables]).all(axis=None)
    data.immutables = ["wrok"]
    with pytest.raises(UnknownNameError, match="immutables names 'wrok'; did you mean 'work'"):
        ReLAXRecourse(model, GREEDY)


def test_a_fitted_explainer_of_another_model_or_of_spread_columns_is_refused() -> None:
    model = Model(Data(None))
    rows = model.data.df_train[model.feature_input_order]
    with pytest.raises(InputError, match="are one feature"):
        ReLAXRecourse(model, {"explainer": make_explainer("greedy", model.raw_model).fit(rows)})
    model.feature_input_order = CONTINUOUS
    model.raw_model = LogisticRegression().fit(rows[CONTINUOUS], model.data.df_train["income"])
    other = LogisticRegression().fit(rows[CONTINUOUS], 1 - model.data.df_train["income"])
    with pytest.raises(InputError, match="another model"):
        ReLAXRecourse(model, {"explainer": make_explainer("greedy", other).fit(rows[CONTINUOUS])})
