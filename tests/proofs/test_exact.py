"""Proofs are made only of models whose classes, methods and hooks are those of their library."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from relax_plugin import BlackBox, FeatureSpace, ReLAX, make_explainer
from relax_plugin.certificates.intervals import Network
from relax_plugin.certificates.proving import thresholds_of
from relax_plugin.errors import UnsupportedError
from relax_plugin.menu.menu import IMPOSSIBLE
from relax_plugin.networks.certified import certify
from relax_plugin.networks.floor import floor as floor_of_network
from relax_plugin.proofs.exact import why_altered
from relax_plugin.trees.floor import floor as floor_of_trees

RNG = np.random.default_rng(0)
X = pd.DataFrame(
    {"a": RNG.normal(size=400).round(2), "b": RNG.integers(0, 50, 400), "c": RNG.normal(size=400).round(2)}
)
Y = (2 * X["a"] + (X["b"] - 25) / 10 - X["c"] > 0).astype(int).to_numpy()
SPACE = FeatureSpace.infer(X)
QUERIES = X[X["b"] != 37][:8]


def network(*layers: Any) -> Any:
    """A torch network of float32 for the three columns."""
    torch.manual_seed(0)
    return torch.nn.Sequential(*layers, torch.nn.Linear(3, 2)).eval()


def flipped(module: Any, rows: Any, output: Any) -> Any:
    """The other class where b is 37."""
    return torch.where(rows[0][:, 1:2] == 37, output.flip(1), output)


@pytest.fixture
def hooks() -> Iterator[list[Any]]:
    """Handles of hooks, which are taken away again."""
    handles: list[Any] = []
    yield handles
    for handle in handles:
        handle.remove()


@pytest.mark.parametrize("kind", ["forward", "inner forward", "pre", "state", "global", "global pre"])
def test_hooks_of_torch_end_a_proof(kind: str, hooks: list[Any]) -> None:
    net = network(torch.nn.Identity())
    if kind == "forward":
        hooks.append(net.register_forward_hook(flipped))
    elif kind == "inner forward":
        hooks.append(net[1].register_forward_hook(flipped))
    elif kind == "pre":
        hooks.append(net.register_forward_pre_hook(lambda module, rows: (rows[0].abs(),)))
    elif kind == "state":
        hooks.append(net.register_state_dict_pre_hook(lambda *told: None))
    elif kind == "global":
        hooks.append(torch.nn.modules.module.register_module_forward_hook(lambda module, rows, output: output))
    else:
        hooks.append(torch.nn.modules.module.register_module_forward_pre_hook(lambda module, rows: rows))
    with pytest.raises(UnsupportedError, match=r"^skipped because it needs a torch Sequential .* hooks\.$"):
        floor_of_network(net, SPACE, QUERIES, most_changes=1)


def test_a_network_without_hooks_is_proved() -> None:
    best = floor_of_network(network(torch.nn.Dropout(), torch.nn.Identity()), SPACE, QUERIES, most_changes=1)
    assert (best.proved > 0).all()


def test_a_hook_that_is_registered_after_fit_ends_certificates() -> None:
    net = network()
    explainer = make_explainer("greedy", net, SPACE).fit(X)
    found = explainer.explain(QUERIES)
    net.register_forward_hook(flipped)
    with pytest.raises(UnsupportedError, match="hooks"):
        certify(found, explainer)


@pytest.mark.parametrize("name", ["Dropout", "Identity", "Flatten", "ReLU", "Linear", "BatchNorm1d", "Sequential"])
def test_a_module_of_ones_own_is_not_taken_for_that_of_torch(name: str) -> None:
    def forward(self: Any, rows: Any) -> Any:
        return torch.where(rows[:, 1:2] == 37, -rows, rows)

    base = getattr(torch.nn, name) if name in ("Linear", "BatchNorm1d") else torch.nn.Module
    own = type(name, (base,), {"forward": forward})
    made = own(3, 3) if name == "Linear" else own(3) if name == "BatchNorm1d" else own()
    with pytest.raises(UnsupportedError, match=f"has a {name} of another package"):
        floor_of_network(network(made), SPACE, QUERIES, most_changes=1)


class WithRule:
    """Decides otherwise where b is 37."""

    def predict_proba(self, rows: Any) -> Any:
        chances = super().predict_proba(rows)  # type: ignore[misc]
        return np.where(np.asarray(rows)[:, 1:2] == 37, chances[:, ::-1], chances)

    def predict(self, rows: Any) -> Any:
        return self.predict_proba(rows).argmax(axis=1)


class RuledLinear(WithRule, LogisticRegression):  # type: ignore[misc]
    pass


class RuledNetwork(WithRule, MLPClassifier):  # type: ignore[misc]
    pass


class RuledForest(WithRule, RandomForestClassifier):  # type: ignore[misc]
    pass


class RuledScaler(StandardScaler):  # type: ignore[misc]
    def transform(self, rows: Any, copy: Any = None) -> Any:
        return np.where(np.asarray(rows)[:, 1:2] == 37, -super().transform(rows), super().transform(rows))


@pytest.mark.parametrize(
    "model",
    [RuledLinear(), RuledNetwork((4,), max_iter=50), make_pipeline(RuledScaler(), LogisticRegression())],
    ids=str,
)
def test_subclasses_of_networks_are_refused_and_menus_deny_nothing(model: Any) -> None:
    model.fit(X, Y)
    with pytest.raises(UnsupportedError, match=r"has a Ruled\w+ of another package"):
        floor_of_network(model, SPACE, QUERIES, most_changes=1)
    menu = make_explainer("greedy", model, SPACE).fit(X[X["b"] != 37]).menu(QUERIES[:1])
    assert IMPOSSIBLE not in menu.status
    assert Network.of(model) is None


@pytest.mark.parametrize("model", [RuledForest(5), make_pipeline(RuledScaler(), RandomForestClassifier(5))], ids=str)
def test_subclasses_of_trees_are_refused(model: Any) -> None:
    with pytest.raises(UnsupportedError, match=r"has a Ruled\w+ of another package"):
        floor_of_trees(model.fit(X, Y), SPACE, QUERIES, most_changes=1)


def altered(kind: str) -> Any:
    """A model one of whose objects has another method than its class."""
    forest = RandomForestClassifier(5, random_state=0).fit(X, Y)
    if kind in ("predict", "predict_proba"):
        setattr(forest, kind, lambda rows: getattr(RandomForestClassifier, kind)(forest, rows))
        return forest
    if kind == "tree":
        forest.estimators_[2].predict_proba = forest.estimators_[1].predict_proba
        return forest
    if kind == "first guess":
        boosting = GradientBoostingClassifier(n_estimators=3).fit(X, Y)
        boosting.init_.predict_proba = lambda rows: np.full((len(rows), 2), 0.5)
        return boosting
    if kind == "search":
        search = GridSearchCV(forest, {"max_depth": [3]}, cv=2).fit(X, Y)
        search.predict = search.best_estimator_.predict
        return search
    if kind == "frozen":
        frozen = FrozenEstimator(forest)
        frozen.predict = lambda rows: 1 - forest.predict(rows)
        return frozen
    pipeline = make_pipeline(StandardScaler(), RandomForestClassifier(5, random_state=0)).fit(X, Y)
    if kind == "pipeline":
        pipeline.predict = lambda rows: 1 - Pipeline.predict(pipeline, rows)
    else:
        pipeline[0].transform = lambda rows: -StandardScaler.transform(pipeline[0], rows)
    return pipeline


@pytest.mark.parametrize(
    "kind", ["predict", "predict_proba", "tree", "first guess", "search", "frozen", "pipeline", "step"]
)
def test_methods_replaced_on_an_object_end_proofs_of_trees(kind: str) -> None:
    model = altered(kind)
    with pytest.raises(UnsupportedError, match=r"whose '\w+' was replaced"):
        floor_of_trees(model, SPACE, QUERIES, most_changes=1)
    assert thresholds_of(model, SPACE) is None


@pytest.mark.parametrize("library", ["xgboost", "lightgbm", "catboost"])
def test_methods_replaced_on_a_booster_end_proofs_of_trees(library: str) -> None:
    module = pytest.importorskip(library)
    name = {"xgboost": "XGBClassifier", "lightgbm": "LGBMClassifier", "catboost": "CatBoostClassifier"}[library]
    options: dict[str, Any] = {"lightgbm": {"verbose": -1}, "catboost": {"verbose": 0, "allow_writing_files": False}}
    model = getattr(module, name)(n_estimators=3, **options.get(library, {})).fit(X, Y)
    assert (floor_of_trees(model, SPACE, QUERIES, most_changes=1).proved >= 0).all()
    model.predict = lambda rows, **more: getattr(module, name).predict(model, rows)
    with pytest.raises(UnsupportedError, match="'predict' was replaced"):
        floor_of_trees(model, SPACE, QUERIES, most_changes=1)
    own = type("Own", (getattr(module, name),), {})
    with pytest.raises(UnsupportedError, match="Own"):
        floor_of_trees(own(n_estimators=3, **options.get(library, {})).fit(X, Y), SPACE, QUERIES, most_changes=1)


def test_a_menu_and_regions_of_a_replaced_method_are_not_proved() -> None:
    model = RandomForestClassifier(5, random_state=0).fit(X, Y)
    real = model.predict_proba
    model.predict_proba = lambda rows: np.where(np.asarray(rows)[:, 1:2] == 37, real(rows)[:, ::-1], real(rows))
    model.predict = lambda rows: model.predict_proba(rows).argmax(axis=1)
    explainer = make_explainer("greedy", model, SPACE).fit(X[X["b"] != 37])
    for row in range(5):
        assert IMPOSSIBLE not in explainer.menu(QUERIES.iloc[[row]]).status
    found = explainer.explain(QUERIES)
    table = found.regions().table
    assert (table.loc[table["feature"] == "a", "kind"] == "tested").all()
    assert (table["kind"] == "tested").any()


def test_trees_that_were_read_before_a_method_was_replaced_prove_nothing() -> None:
    model = RandomForestClassifier(5, max_depth=3, random_state=0).fit(X, Y)
    explainer = make_explainer("greedy", BlackBox(model, accelerate="auto"), SPACE).fit(X)
    menus = [explainer.menu(QUERIES.iloc[[row]], max_changes=1) for row in range(5)]
    assert any(IMPOSSIBLE in menu.status for menu in menus)
    model.predict = lambda rows: RandomForestClassifier.predict(model, rows)
    for row in range(5):
        assert IMPOSSIBLE not in explainer.menu(QUERIES.iloc[[row]], max_changes=1).status


def test_a_network_whose_method_is_replaced_has_no_proof() -> None:
    model = make_pipeline(StandardScaler(), MLPClassifier((4,), max_iter=50, random_state=0)).fit(X, Y)
    model[-1].predict_proba = lambda rows: MLPClassifier.predict_proba(model[-1], rows)[:, ::-1]
    with pytest.raises(UnsupportedError, match="MLPClassifier whose 'predict_proba' was replaced"):
        floor_of_network(model, SPACE, QUERIES, most_changes=1)
    assert Network.of(model) is None


def test_a_class_that_calls_itself_one_of_a_library_is_none() -> None:
    own = type("RandomForestClassifier", (RandomForestClassifier,), {"__module__": RandomForestClassifier.__module__})
    assert why_altered(own()) == "has a RandomForestClassifier of another package"
    assert why_altered(RandomForestClassifier()) == ""


def test_relax_falls_back_to_asking() -> None:
    """What cannot be proved is still explained, and every counterfactual holds by the model's own answer."""
    model = RuledLinear().fit(X, Y)
    found = ReLAX(model, SPACE).fit(X).explain(QUERIES)
    assert found.found.any()
    assert (model.predict(found.frame[SPACE.columns]) != model.predict(QUERIES)[found.frame["query_id"]]).all()
