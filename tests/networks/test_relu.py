"""Facts about networks as they are read: they answer as the library does, within bounds of rounding and of boxes."""

from itertools import pairwise
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
from relax_plugin.networks.relu import ReluNetwork, upper_bounds

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


def random_network(rng: np.random.Generator, sizes: tuple[int, ...]) -> ReluNetwork:
    pairs = list(pairwise(sizes))
    weights = [rng.normal(size=pair) / np.sqrt(pair[0]) for pair in pairs]
    return ReluNetwork(weights, [0.3 * rng.normal(size=pair[1]) for pair in pairs], [], 0.0)


@pytest.mark.parametrize("sizes", [(4, 3), (4, 8, 2), (5, 12, 9, 3), (3, 7, 7, 7, 2)], ids=str)
def test_nothing_in_a_box_is_above_its_bound(sizes: tuple[int, ...]) -> None:
    rng = np.random.default_rng(len(sizes))
    network, boxes, moves = random_network(rng, sizes), 20, 2
    first = network.biases[0]
    slope = np.array([network.weights[0][rng.choice(sizes[0], moves, replace=False)] for _ in range(boxes)])
    low = rng.normal(size=(boxes, moves))
    high = low + 2 * rng.random((boxes, moves))
    functions, offset = rng.normal(size=(4, sizes[-1])), rng.normal(size=4)
    told = upper_bounds(network, first, slope, low, high, functions, offset)
    share = rng.random((500, boxes, moves))
    share[:4] = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])[:, None]  # the corners
    amount = low + share * (high - low)
    sums = first + np.einsum("nbk,bkh->nbh", amount, slope)
    reached = network.from_first(sums.reshape(500 * boxes, -1)).reshape(500, boxes, -1) @ functions.T + offset
    assert (reached.max(axis=0) <= told.most + 1e-9).all()
    if len(sizes) == 2:
        assert np.allclose(reached.max(axis=0), told.most), "of a linear function it is reached in a corner"
    middle = 0.5 * (low + high)
    point = upper_bounds(network, first, slope, middle, middle, functions, offset)
    sums = first + np.einsum("bk,bkh->bh", middle, slope)
    assert np.allclose(point.most, network.from_first(sums) @ functions.T + offset), "of a point it is exact"
