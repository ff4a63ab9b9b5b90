"""Certified answers of networks: a sentence for each query about the fewest changes that are proved to be needed."""

from dataclasses import replace

import numpy as np

from relax_plugin.arrays import Array
from relax_plugin.base import CounterfactualExplainer, fitted
from relax_plugin.errors import InputError
from relax_plugin.formatting import BY_BOUNDS, BY_SOLVER
from relax_plugin.networks.floor import NetworkFloor, floor
from relax_plugin.results import Counterfactuals


def certify(
    counterfactuals: Counterfactuals,
    explainer: CounterfactualExplainer,
    *,
    most_changes: int = 3,
    seconds_per_row: float = 10.0,
) -> Counterfactuals:
    """The same counterfactuals with what is proved of each query, about the question of their call.

    As `relax_plugin.trees.floor.certify` does for trees. What is proved of distances holds up to a ten-thousandth only,
    so that no answer is called the closest.

    Parameters
    ----------
    counterfactuals : Counterfactuals
    explainer : the fitted explainer that made them
    most_changes, seconds_per_row
        As for `floor`.
    """
    asked, space, start = counterfactuals.asked, counterfactuals.space, counterfactuals.start
    own = fitted(explainer)
    goal = own.wanted_goal() if asked is None else asked.goal
    limits = space.limits(values=start, **({} if asked is None else vars(asked.constraints)))
    best = floor(
        own.blackbox_,
        space,
        counterfactuals.queries,
        goal,
        limits=limits,
        most_changes=most_changes,
        seconds_per_row=seconds_per_row,
    )
    fewer = np.where(counterfactuals.found, counterfactuals.sparsity, np.inf).min(axis=1) < best.proved
    if fewer.any():
        raise InputError(
            f"query {int(np.argmax(fewer))} has a counterfactual with fewer changes than is proved possible: "
            "the explainer must be the one that found it."
        )
    least = np.where(best.possible | (best.changes == 0), best.proved, len(space) + 1)
    proved = np.column_stack([least, np.full(len(least), np.nan)]).astype(np.float64)
    return replace(counterfactuals, proofs=_sentences(best), proved=proved)


def _sentences(best: NetworkFloor) -> Array:
    told = (best.proved > 1) | (~best.possible & (best.changes != 0))
    ways = np.where(best.by_solver, BY_SOLVER, BY_BOUNDS)
    texts = [f"{text}, {way}" if tell else "" for tell, text, way in zip(told, best.sentences(), ways, strict=True)]
    return np.array(texts, dtype=object)
