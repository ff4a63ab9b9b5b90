"""Finding regions: proved where the model's trees can be read, tested by asking the model otherwise."""

from collections.abc import Iterable

import numpy as np

from relax_plugin.arrays import Booleans
from relax_plugin.base import CounterfactualExplainer
from relax_plugin.parameters import whole_number
from relax_plugin.regions.probed import Tested, probe_boxes, probe_cells
from relax_plugin.regions.proved import Prover, provers_of
from relax_plugin.regions.question import question_of
from relax_plugin.regions.regions import Regions
from relax_plugin.results import Counterfactuals


def find_regions(
    result: Counterfactuals,
    explainer: CounterfactualExplainer | None,
    rows: Iterable[int] | None,
    points: int,
    seed: int,
) -> Regions:
    """The regions of the found counterfactuals of some queries."""
    points, seed = whole_number("points", points, 1), whole_number("seed", seed, 0)
    rng = np.random.default_rng(seed)
    question = question_of(result, explainer, rows).without_needless()
    left, shape = np.arange(len(question)), question.values.shape
    cells, boxes = Tested.nothing(question, shape), Tested.nothing(question, shape[:1])
    for prover, some in provers_of(question):
        own_cells, own_boxes, sound = _proved(prover, rng)
        cells.put(some[sound], own_cells, sound)
        boxes.put(some[sound], own_boxes, sound)
        left = np.setdiff1d(left, some[sound])
    if len(left):
        part = question.part(left)
        own_cells = probe_cells(part, points, rng)
        cells.put(left, own_cells)
        boxes.put(left, probe_boxes(part, own_cells, points, rng))
    return Regions(
        space=question.space,
        query=question.query,
        cf_id=question.slot,
        start=question.start,
        values=question.values,
        alone=cells.spans,
        boxes=boxes.spans,
        allowed=question.span,
        proved=cells.proved,
        points=cells.points,
        wrong=cells.wrong,
        box_proved=boxes.proved,
        box_points=boxes.points,
        box_wrong=boxes.wrong,
        rows_asked=question.rows_asked,
    )


def _proved(prover: Prover, rng: np.random.Generator) -> tuple[Tested, Tested, Booleans]:
    """What is proved, and of which answers the model says the same: it is asked at the ends of cells and in boxes.

    A model that answers otherwise than its trees (they may have been read wrongly, or it may round otherwise) is found
    out here as far as a few rows can; its regions are tested then.
    """
    question, shape = prover.question, prover.question.values.shape
    cells, boxes = Tested.nothing(question, shape), Tested.nothing(question, shape[:1])
    cells.spans = prover.cells()
    boxes.spans = prover.boxes(cells.spans)
    answer, feature = np.nonzero(question.open)
    rows, owner = [], []
    for end in (cells.spans.low, cells.spans.high):
        values = question.values[answer]
        values[np.arange(len(answer)), feature] = end[answer, feature]
        moved = end[answer, feature] != question.values[answer, feature]
        rows.append(values[moved])
        owner.append(answer[moved])
        np.add.at(cells.points, (answer[moved], feature[moved]), 1)
    corners = np.repeat(np.arange(len(question)), 2)
    upper = np.broadcast_to(np.arange(len(corners))[:, None] % 2 == 1, (len(corners), shape[1]))
    rows += [boxes.spans.at_corners(corners, upper, rng), boxes.spans.drawn(corners, rng)]
    owners = np.concatenate([*owner, corners, corners])
    held = question.holds(np.concatenate(rows), owners)
    boxes.points[:] = 4
    cells.proved[:], boxes.proved[:] = True, True
    sound = np.ones(len(question), dtype=bool)
    sound[owners[~held]] = False
    return cells, boxes, sound
