"""Facts about networks as they are read: they answer as the library does, and rounding is within its bound."""

from typing import Any

import numpy as np
import pytest
import torch
from sklearn.decomposition import PCA
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler

from relax_plugin import BlackBox, FeatureSpace
from relax_plugin.errors import UnsupportedError
from relax_plugin.networks.relu import ReluNetwork

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

RNG = np.random.default_rng(2)
ROWS = RNG.normal(size=(200, 5)) * [1, 20, 0.1, 4, 1] + [0, 100, 0, -7, 0]
LABELS = np.digitize(ROWS[:, 0] + ROWS[:, 3] + 7, [-1, 1])
MANY = RNG.uniform(ROWS.min(axis=0), ROWS.max(axis=0), (4000, 5))


@pytest.mark.parametrize("steps", [(), (StandardScaler(),), (MinMaxScaler((-2, 3)), PCA(4))], ids=len)
def test_scalers_are_folded_into_the_weights(steps: tuple[Any, ...]) -> None:
    model = make_pipeline(*steps, MLPClassifier((12, 7), max_iter=20, random_state=0)).fit(ROWS, LABELS)
    network = ReluNetwork.of(BlackBox(model))
    assert (network.hidden, network.width) == ([12, 7], 3)
    logits = network.outputs(MANY)
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    np.testing.assert_allclose(powers / powers.sum(axis=1, keepdims=True), model.predict_proba(MANY), atol=1e-9)


def module() -> torch.nn.Sequential:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        parts = torch.nn.BatchNorm1d(5), torch.nn.Linear(5, 30), torch.nn.ReLU(), torch.nn.Linear(30, 2)
        made = torch.nn.Sequential(parts[0], torch.nn.Sequential(*parts[1:]))
    made[0].running_mean[:] = torch.tensor(ROWS.mean(axis=0))
    made[0].running_var[:] = torch.tensor(ROWS.var(axis=0))
    return made.eval()


def test_the_library_is_within_the_bound_of_rounding() -> None:
    model = module()
    network = ReluNetwork.of(BlackBox(model, FeatureSpace.infer(ROWS)))
    with torch.no_grad():
        said = model(torch.tensor(MANY).float()).double().numpy()
    off = np.abs(network.outputs(MANY) - said).max(axis=0)
    bound = network.rounding(MANY.min(axis=0), MANY.max(axis=0), 0.0)
    assert (off <= bound).all()
    assert (bound < 0.05).all(), "but it is one that tells something"
    assert off.max() > 1e-9, "single precision does round"


def test_a_module_of_another_precision_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="float32"):
        ReluNetwork.of(BlackBox(module().double()))
