"""Facts about the copies of networks: they answer as the model does, and their gradients are right."""

import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.compose import TransformedTargetRegressor
from sklearn.decomposition import PCA
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge, RidgeClassifier
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, PolynomialFeatures, RobustScaler, StandardScaler
from sklearn.svm import LinearSVC

from relax_plugin import BlackBox, FeatureSpace, Goal
from relax_plugin.baselines.common import Network
from relax_plugin.baselines.deepfool import DeepFool
from relax_plugin.errors import UnsupportedError

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(300, 4)) * [1.0, 10.0, 0.1, 3.0] + [0.0, 50.0, 0.0, -2.0]
MANY = RNG.normal(size=(5000, 4)) * [1.5, 15.0, 0.15, 4.5] + [0.0, 50.0, 0.0, -2.0]
SIGNAL = ROWS[:, 0] + ROWS[:, 1] / 10 - 5 + np.tanh(10 * ROWS[:, 2])
TWO = np.where(SIGNAL > 0, "yes", "no")
THREE = np.digitize(SIGNAL, [-0.7, 0.7])
AMOUNT = 5 * SIGNAL + 40
SPACE = FeatureSpace.infer(ROWS)


def mlp(activation: str = "relu") -> Any:
    return MLPClassifier((12, 7), activation=activation, solver="lbfgs", max_iter=60, random_state=0)


def number_mlp(**options: Any) -> Any:
    return MLPRegressor(hidden_layer_sizes=(12,), max_iter=15, random_state=0, **options)


CLASSIFIERS: dict[str, tuple[Any, Any]] = {
    **{f"two classes, {name}": (mlp(name), TWO) for name in ("identity", "logistic", "tanh", "relu")},
    **{f"three classes, {name}": (mlp(name), THREE) for name in ("identity", "logistic", "tanh", "relu")},
    "no hidden layer": (MLPClassifier((), max_iter=15, random_state=0), THREE),
    "standardised": (make_pipeline(StandardScaler(), mlp()), THREE),
    "only centred": (make_pipeline(StandardScaler(with_std=False), mlp()), TWO),
    "only divided": (make_pipeline(StandardScaler(with_mean=False), mlp()), TWO),
    "to a range": (make_pipeline(MinMaxScaler((-1, 3)), mlp()), THREE),
    "by the largest": (make_pipeline(MaxAbsScaler(), mlp("tanh")), TWO),
    "robust": (make_pipeline(RobustScaler(), mlp()), THREE),
    "robust, not centred": (make_pipeline(RobustScaler(with_centering=False), mlp()), TWO),
    "robust, not divided": (make_pipeline(RobustScaler(with_scaling=False), mlp()), TWO),
    "rotated": (make_pipeline(StandardScaler(), PCA(3), mlp()), THREE),
    "rotated and whitened": (make_pipeline(PCA(whiten=True), mlp()), TWO),
    "nested": (make_pipeline(make_pipeline(StandardScaler(), "passthrough"), make_pipeline(mlp())), TWO),
    "logistic regression": (LogisticRegression(), TWO),
    "logistic regression of three": (make_pipeline(StandardScaler(), LogisticRegression()), THREE),
    "linear SVC": (LinearSVC(), TWO),
    "linear SVC of three": (LinearSVC(), THREE),
    "ridge classifier": (RidgeClassifier(), THREE),
}
REGRESSORS: dict[str, Any] = {
    "squared error": number_mlp(activation="tanh"),
    "scaled target": TransformedTargetRegressor(
        make_pipeline(StandardScaler(), number_mlp()), transformer=StandardScaler()
    ),
    "target to a range": TransformedTargetRegressor(number_mlp(), transformer=MinMaxScaler((-2, 5))),
    "least squares": LinearRegression(),
    "ridge": Ridge(),
}
if "loss" in number_mlp().get_params():  # from scikit-learn 1.7 on
    REGRESSORS["Poisson"] = make_pipeline(StandardScaler(), number_mlp(loss="poisson"))


@pytest.mark.slow
@pytest.mark.parametrize("name", CLASSIFIERS)
def test_a_copied_classifier_answers_as_the_library_does(name: str) -> None:
    model, labels = CLASSIFIERS[name]
    model.fit(ROWS, labels)
    network = Network(BlackBox(model, SPACE))
    answer = network.answer(MANY)
    assert (model.classes_[answer.output.astype(int)] == model.predict(MANY)).all()
    assert len(np.unique(answer.output)) > 1
    if hasattr(model, "predict_proba"):
        np.testing.assert_allclose(answer.scores, model.predict_proba(MANY), rtol=0, atol=1e-6)
    else:
        decision = model.decision_function(MANY)
        expected = np.column_stack([-decision, decision]) / 2 if decision.ndim == 1 else decision
        np.testing.assert_allclose(network.outputs(MANY), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", REGRESSORS)
def test_a_copied_regressor_answers_as_the_library_does(name: str) -> None:
    model = REGRESSORS[name].fit(ROWS, AMOUNT)
    network = Network(BlackBox(model, SPACE))
    assert network.regression
    np.testing.assert_allclose(network.answer(MANY).output, model.predict(MANY), rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["two classes, tanh", "three classes, logistic", "rotated", "to a range", "nested"])
def test_gradients_are_those_of_finite_differences(name: str) -> None:
    model, labels = CLASSIFIERS[name]
    network = Network(BlackBox(model.fit(ROWS, labels), SPACE))
    check_gradients(network)


@pytest.mark.parametrize("name", sorted({"squared error", "Poisson", "scaled target"} & set(REGRESSORS)))
def test_gradients_of_regressors_are_those_of_finite_differences(name: str) -> None:
    check_gradients(Network(BlackBox(REGRESSORS[name].fit(ROWS, AMOUNT), SPACE)))


def check_gradients(network: Network) -> None:
    rows = MANY[:40]
    outputs, gradients = network.jacobian(rows)
    assert (outputs == network.outputs(rows)).all()
    assert gradients.shape == (*outputs.shape, 4)
    assert (np.abs(gradients).max(axis=(0, 1)) > 0).all()
    for j in range(4):
        step = 1e-6 * SPACE.scale[j] * np.eye(4)[j]
        slope = (network.outputs(rows + step) - network.outputs(rows - step)) / (2e-6 * SPACE.scale[j])
        close = np.isclose(slope, gradients[:, :, j], rtol=1e-4, atol=1e-5 * np.abs(gradients[:, :, j]).max())
        assert close.mean() > 0.97, "but for a kink of the rectifier now and then"


def layers(outputs: int, *last: torch.nn.Module) -> torch.nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(3)
        first = torch.nn.Linear(4, 9)
        first.weight.data /= torch.tensor([1.0, 10.0, 0.1, 3.0])
        first.bias.data -= first.weight.data @ torch.tensor([0.0, 50.0, 0.0, -2.0])
        return torch.nn.Sequential(first, torch.nn.Tanh(), torch.nn.Linear(9, outputs), *last)


MODULES = {
    "one logit": layers(1),
    "one flat logit": layers(1, torch.nn.Flatten(0)),
    "one probability": layers(1, torch.nn.Sigmoid()),
    "three logits": layers(3),
    "three probabilities": layers(3, torch.nn.Softmax(dim=1)),
}


@pytest.mark.parametrize("name", MODULES)
def test_a_module_answers_as_the_black_box_reads_it(name: str) -> None:
    blackbox = BlackBox(MODULES[name], SPACE)
    blackbox.learn(ROWS)
    answer, asked = Network(blackbox).answer(MANY), blackbox.ask(MANY)
    assert (answer.output == asked.output).all()
    np.testing.assert_allclose(answer.scores, asked.scores, rtol=0, atol=1e-6)
    assert len(np.unique(asked.output)) > 1


@pytest.mark.parametrize("name", MODULES)
def test_gradients_of_a_module_are_those_of_finite_differences(name: str) -> None:
    """In single precision, with steps as long as that needs."""
    blackbox = BlackBox(MODULES[name], SPACE)
    blackbox.learn(ROWS)
    network, rows = Network(blackbox), MANY[:40]
    _, gradients = network.jacobian(rows)
    for j in range(4):
        step = 1e-2 * SPACE.scale[j] * np.eye(4)[j]
        slope = (network.outputs(rows + step) - network.outputs(rows - step)) / (2e-2 * SPACE.scale[j])
        np.testing.assert_allclose(slope, gradients[:, :, j], rtol=0.02, atol=0.02 * np.abs(gradients[:, :, j]).max())


def test_a_regressing_module_answers_in_numbers() -> None:
    blackbox = BlackBox(MODULES["one logit"], SPACE, task="regression")
    blackbox.learn(ROWS)
    np.testing.assert_allclose(Network(blackbox).answer(MANY).output, blackbox.ask(MANY).output, rtol=1e-6)


def test_a_module_is_left_as_it_was_found() -> None:
    module = layers(2, torch.nn.BatchNorm1d(2), torch.nn.Dropout(0.9))
    module.train()
    module[3].eval()
    module[0].weight.grad = torch.full((9, 4), 7.0)
    before = {name: value.clone() for name, value in module.state_dict().items()}
    blackbox = BlackBox(module, SPACE)
    blackbox.learn(ROWS)
    network = Network(blackbox)
    with torch.no_grad():
        first = network.jacobian(MANY[:10])
    with torch.inference_mode():
        second = network.jacobian(MANY[:10])
    assert (first[1] == second[1]).all(), "no dropout"
    assert [part.training for part in module] == [True, True, True, False, True]
    assert (module[0].weight.grad == 7).all()
    assert module[2].weight.grad is None
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())


def test_rows_of_the_copy_are_counted_and_not_asked_of_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    model, asked = MLPClassifier((5,), max_iter=15, random_state=0).fit(ROWS, TWO), []
    network = Network(BlackBox(model, SPACE))
    asked_of_the_model = MLPClassifier.predict_proba
    monkeypatch.setattr(
        MLPClassifier, "predict_proba", lambda self, X: asked.append(len(X)) or asked_of_the_model(self, X)
    )
    network.jacobian(MANY[:30])
    network.answer(MANY[:12])
    assert (network.spent, asked) == (42, [])


def test_a_copy_can_be_pickled() -> None:
    network = Network(BlackBox(make_pipeline(StandardScaler(), mlp()).fit(ROWS, THREE), SPACE))
    again = pickle.loads(pickle.dumps(network))
    assert (again.outputs(MANY) == network.outputs(MANY)).all()


class Detached(torch.nn.Module):
    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return (rows[:, :2] > 0).float()


class Contrary(MLPClassifier):
    """Its weights do not tell what it says."""

    def predict_proba(self, X: Any) -> Any:
        return super().predict_proba(X)[:, ::-1]

    def predict(self, X: Any) -> Any:
        return self.classes_[self.predict_proba(X).argmax(axis=1)]


FOREST = RandomForestClassifier(3).fit(ROWS, TWO)
REFUSED: dict[str, tuple[Any, str]] = {
    "forest": (FOREST, "scikit-learn's MLP.*the model is a RandomForestClassifier"),
    "frozen forest": (FrozenEstimator(FOREST), "is a RandomForestClassifier"),
    "function": (lambda rows: np.full((len(rows), 2), 0.5), "the model is a function"),
    "powers": (make_pipeline(PolynomialFeatures(), mlp()), "steps that only scale.*PolynomialFeatures"),
    "clips": (make_pipeline(MinMaxScaler(clip=True), mlp()), "a MinMaxScaler that clips"),
    "no gradient": (Detached(), "torch cannot give it: "),
    "contrary": (Contrary((5,), max_iter=15), "the model has a Contrary of another package"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_copied_is_skipped_with_the_reason(name: str) -> None:
    model, reason = REFUSED[name]
    if hasattr(model, "fit"):
        model.fit(ROWS, TWO)
    with pytest.raises(UnsupportedError, match=f"^skipped because .*{reason}"):
        DeepFool(model).fit(ROWS)


def test_a_network_that_answers_otherwise_than_its_copy_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    model = MLPClassifier((5,), max_iter=15).fit(ROWS, TWO)
    told = MLPClassifier.predict_proba
    monkeypatch.setattr(MLPClassifier, "predict_proba", lambda self, X: told(self, X)[:, ::-1])
    with pytest.raises(UnsupportedError, match="the MLPClassifier answers otherwise than a copy"):
        DeepFool(model).fit(ROWS)


def test_a_frozen_network_is_copied() -> None:
    model = make_pipeline(FrozenEstimator(StandardScaler().fit(ROWS)), mlp()).fit(ROWS, THREE)
    answer = Network(BlackBox(FrozenEstimator(model), SPACE)).answer(MANY)
    assert (answer.output == model.predict(MANY)).all()


def test_several_answers_a_row_are_refused() -> None:
    model = mlp().fit(ROWS, np.column_stack([TWO == "yes", THREE == 1]))
    with pytest.raises(UnsupportedError, match="the model has 2 answers a row"):
        Network(BlackBox(model, SPACE))


def test_a_target_that_is_not_only_scaled_is_skipped() -> None:
    model = TransformedTargetRegressor(number_mlp(), func=np.log, inverse_func=np.exp).fit(ROWS, np.exp(SIGNAL / 9))
    with pytest.raises(UnsupportedError, match=r"target is only scaled.*FunctionTransformer"):
        DeepFool(model, goal=Goal.shift(0.1)).fit(ROWS)


def test_categories_are_skipped() -> None:
    frame = pd.DataFrame({"a": ROWS[:, 0], "b": ROWS[:, 1] > 50})
    model = Pipeline([("network", mlp())]).fit(frame, TWO)
    with pytest.raises(UnsupportedError, match="needs numeric features, and 'b' is categorical"):
        DeepFool(model).fit(frame)
