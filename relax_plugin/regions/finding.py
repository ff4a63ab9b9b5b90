"""Finding regions: proved where the model's trees can be read, tested by asking the model otherwise."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from relax_plugin.arrays import Booleans, Integers
from relax_plugin.base import CounterfactualExplainer
from relax_plugin.parameters import whole_number
from relax_plugin.regions.probed import Tested, probe_cells
from relax_plugin.regions.probed_boxes import probe_boxes
from relax_plugin.regions.proved import prover_of
from relax_plugin.regions.question import Question, question_of
from relax_plugin.regions.regions import Regions
from relax_plugin.regions.spans import Spans
from relax_plugin.results import Counterfactuals


@dataclass
class Found:
    """Regions of cells alone and of boxes, for some answers."""

    cells: Tested
    boxes: Tested

    @classmethod
    def nothing(cls, question: Question) -> "Found":
        shape = question.values.shape
        made = []
        for counts in (shape, shape[:1]):
            spans = Spans.of_points(question.space, question.values)
            nothing = np.zeros(counts, dtype=np.int64)
            made.append(Tested(spans, nothing, nothing.copy(), np.zeros(counts, dtype=bool)))
        return cls(*made)

    def put(self, index: Integers, part: "Found", some: Any = slice(None)) -> None:
        """Take over what was found for some of the answers of a part."""
        for own, theirs in ((self.cells, part.cells), (self.boxes, part.boxes)):
            own.spans.put(index, theirs.spans.take(some))
            own.points[index] += theirs.points[some]
            own.wrong[index] += theirs.wrong[some]
            own.proved[index] = theirs.proved[some]


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
    found, left = Found.nothing(question), np.arange(len(question))
    prover = prover_of(question)
    if prover is not None:
        proved, some = prover
        cells = proved.cells()
        boxes = proved.boxes(cells)
        part, sound = _confirmed(proved.question, cells, boxes, rng)
        found.put(some[sound], part, sound)
        left = np.setdiff1d(left, some[sound])
    if len(left):
        part_of = question.part(left)
        found.put(left, _tested(part_of, points, rng))
    return Regions(
        space=question.space,
        query=question.query,
        cf_id=question.slot,
        start=question.start,
        values=question.values,
        alone=found.cells.spans,
        boxes=found.boxes.spans,
        allowed=question.span,
        proved=found.cells.proved,
        points=found.cells.points,
        wrong=found.cells.wrong,
        box_proved=found.boxes.proved,
        box_points=found.boxes.points,
        box_wrong=found.boxes.wrong,
        rows_asked=question.rows_asked,
    )


def _tested(question: Question, points: int, rng: np.random.Generator) -> Found:
    cells = probe_cells(question, points, rng)
    boxes = probe_boxes(question, cells.spans, points, rng)
    # A box of one cell that is not just a point is that cell's region.
    moves = cells.spans.low < cells.spans.high
    for j in np.flatnonzero(question.space.is_categorical):
        moves[:, j] = cells.spans.of_feature(j).sum(axis=1) > 1
    single = np.flatnonzero(moves.sum(axis=1) <= 1)
    boxes.spans.put(single, cells.spans.take(single))
    boxes.points[single], boxes.wrong[single] = cells.points[single].sum(axis=1), cells.wrong[single].sum(axis=1)
    boxes.proved[single] = (cells.proved | ~question.changed)[single].all(axis=1)
    return Found(cells, boxes)


def _confirmed(question: Question, cells: Spans, boxes: Spans, rng: np.random.Generator) -> tuple[Found, Booleans]:
    """What is proved, and of which answers the model says the same: it is asked at the ends of cells and in boxes.

    A model that answers otherwise than its trees (they may have been read wrongly, or it may round otherwise) is found
    out here as far as a few rows can; its regions are tested then.
    """
    found = Found.nothing(question)
    found.cells.spans, found.boxes.spans = cells, boxes
    answer, feature = np.nonzero(question.open)
    rows, owner, of = [], [], []
    for end in (cells.low, cells.high):
        values = question.values[answer].copy()
        values[np.arange(len(answer)), feature] = end[answer, feature]
        moved = end[answer, feature] != question.values[answer, feature]
        rows.append(values[moved])
        owner.append(answer[moved])
        of.append(feature[moved])
    corners = np.repeat(np.arange(len(question)), 2)
    upper = np.broadcast_to(np.arange(len(corners))[:, None] % 2 == 1, (len(corners), len(question.space)))
    rows += [boxes.at_corners(corners, upper, rng), boxes.drawn(corners, rng)]
    asked, owners = np.concatenate(rows), np.concatenate([*owner, corners, corners])
    held = question.holds(asked, owners)
    np.add.at(found.cells.points, (np.concatenate(owner), np.concatenate(of)), 1)
    found.boxes.points[:] = 4
    found.cells.proved[:], found.boxes.proved[:] = True, True
    sound = np.ones(len(question), dtype=bool)
    sound[owners[~held]] = False
    return found, sound
