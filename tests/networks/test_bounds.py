"""Facts about the bounds of networks: nothing in a box is above them, and shorter boxes have tighter ones."""

from itertools import pairwise

import numpy as np
import pytest

from relax_plugin.networks.bounds import upper_bounds
from relax_plugin.networks.relu import ReluNetwork


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
