"""`face`: the shortest ways through dense regions of the training rows."""

import heapq
from typing import Any

import numpy as np
import pandas as pd
import pytest

from relax_plugin import FeatureSpace
from relax_plugin.baselines.face import Face, Ways

RNG = np.random.default_rng(7)
ROWS = pd.DataFrame({"a": RNG.normal(size=120), "b": RNG.normal(size=120), "town": RNG.choice(list("uvw"), 120)})


def sign(rows: pd.DataFrame) -> Any:
    return (rows["a"].to_numpy() > 0.3).astype(int)


def by_loop(ways: Ways, start: Any) -> Any:
    """Dijkstra's algorithm with a heap, on the same edges."""
    edges, first = ways.edges.tolil(), ways._edges(start[None], ways.count).tolil()
    best = np.full(edges.shape[0], np.inf)
    heap = [(weight, node) for node, weight in zip(first.rows[0], first.data[0], strict=True)]
    heapq.heapify(heap)
    while heap:
        length, node = heapq.heappop(heap)
        if length >= best[node]:
            continue
        best[node] = length
        for other, weight in zip(edges.rows[node], edges.data[node], strict=True):
            heapq.heappush(heap, (length + weight, other))
    return best


@pytest.mark.parametrize("graph", ["knn", "epsilon"])
def test_the_ways_are_those_of_a_plain_loop(graph: str) -> None:
    space = FeatureSpace.infer(ROWS)
    values = space.values(ROWS)
    ways = Ways(space, np.unique(values, axis=0), graph, 5, 1.0)
    start = values[:6] + 0.01
    start[:, 2] = values[:6, 2]
    for row, lengths in zip(start, ways.lengths(start), strict=True):
        np.testing.assert_allclose(lengths, by_loop(ways, row))


def test_an_edge_is_longer_than_its_length_and_more_so_where_rows_are_rare() -> None:
    rows = pd.DataFrame({"a": [0.0, 0.1, 0.2, 0.3, 2.0, 2.1], "b": 0.0})
    space = FeatureSpace.infer(rows, continuous=["b"])
    edges = Ways(space, space.values(rows), "knn", 2, 1.0).edges.toarray()
    unit = space.scale[0]
    assert edges[0, 1] == pytest.approx(0.1 / unit)
    assert edges[3, 4] > 1.7 / unit * 2


def test_the_way_leads_around_a_gap_in_the_data() -> None:
    """Rows on a horseshoe: the nearest row of the goal is across the gap, but no row lies between."""
    angle = np.linspace(0.0, 1.7 * np.pi, 120)
    arc = pd.DataFrame({"x": np.cos(angle), "y": np.sin(angle)})

    def model(rows: pd.DataFrame) -> Any:  # from half of the arc on, also beyond the gap
        turned = np.mod(np.arctan2(rows["y"].to_numpy(), rows["x"].to_numpy()), 2 * np.pi)
        return (turned > 0.8 * np.pi).astype(int)

    query = arc[:1]
    face = Face(model, neighbours=4).fit(arc).explain(query)
    reached = np.mod(np.arctan2(face.frame["y"], face.frame["x"]), 2 * np.pi).to_numpy()
    assert face.found.all()
    assert reached[0] == pytest.approx(0.8 * np.pi, abs=0.1), "the first row of the goal along the arc"
    distance = np.hypot(*(arc.to_numpy() - query.to_numpy()).T)
    assert np.mod(angle[np.argmin(np.where(model(arc) == 1, distance, np.inf))], 2 * np.pi) > 1.5 * np.pi


def test_without_constraints_answers_are_training_rows_in_dense_places() -> None:
    explainer = Face(sign).fit(ROWS)
    found = explainer.explain(ROWS[:20])
    assert found.found.all()
    rows = {tuple(row) for row in explainer.neighbours_.rows[explainer.ways_.dense]}
    assert all(tuple(row) in rows for row in found.values[:, 0])
    assert not explainer.ways_.dense.all()


def test_a_row_that_no_way_leads_to_is_no_answer() -> None:
    far = pd.DataFrame({"a": [*np.linspace(0, 1, 40), *np.linspace(900, 901, 40)], "b": np.tile(np.arange(4.0), 20)})
    found = Face(lambda rows: (rows["a"].to_numpy() > 500).astype(int), neighbours=3).fit(far).explain(far[:5])
    assert not found.found.any()
    assert all("shortest ways" in told for told in found.statuses[:, 0])
