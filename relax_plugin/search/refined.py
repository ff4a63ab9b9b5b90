"""Refined: the few actions that a ranking puts first, judged by the model at each step, with a touch of polish."""

import numpy as np

from relax_plugin.search.engine import Engine
from relax_plugin.search.polish import touch_up
from relax_plugin.search.proposers import Proposer, RankedChanges
from relax_plugin.search.state import Observer, Ranker

WIDTH = 4  # actions that the model judges at each step,
WIDER = 16  # and of queries that these leave without a counterfactual


def best_actions(ranker: Ranker, observer: Observer, name: str) -> list[Proposer]:
    """The actions ranked highest, and the path of the highest alone, since scores may mislead."""
    return [RankedChanges(ranker, observer, WIDTH, name), RankedChanges(ranker, observer, 1, name)]


def refined(
    ranker: Ranker,
    observer: Observer,
    name: str,
    rows: int | None = None,
    until: float = np.inf,
    fallback: tuple[Proposer, ...] = (),
) -> Engine:
    """An engine of few model evaluations; what it leaves unsolved goes to more actions, and to the `fallback`."""
    wider = (RankedChanges(ranker, observer, WIDER, name), *fallback)
    return Engine(best_actions(ranker, observer, name), wider, rows=rows, until=until, polished=touch_up)
