"""Objectives: what makes one valid counterfactual better than another."""

from typing import Any

from relax_plugin.errors import InputError, UnsupportedError, did_you_mean
from relax_plugin.features import FeatureSpace

SPARSE = "sparse"  # the fewest changes, and of as many the least distance
CLOSEST = "closest"  # the least distance, with however many changes up to the limit
OBJECTIVES = (SPARSE, CLOSEST)


def check_objective(objective: Any) -> None:
    """Refuse what is no objective, nor None, by a sentence."""
    if objective is not None and (not isinstance(objective, str) or objective not in OBJECTIVES):
        raise InputError(
            f"objective is {objective!r}, but must be None or one of them; {did_you_mean(objective, OBJECTIVES)}"
        )


def chosen_objective(asked: str | None, space: FeatureSpace, known: tuple[str, ...], method: str) -> str:
    """The objective of a call: what is asked for, else "closest" where changes have prices and the method knows it.

    Parameters
    ----------
    asked : "sparse", "closest" or None
        Of the call, or else of the explainer.
    space : FeatureSpace
        With the prices of the call.
    known : tuple of str
        What the method can aim at; every one knows "sparse".
    method : str
        What it is called in a refusal.
    """
    check_objective(asked)
    if asked is None:
        return CLOSEST if space.has_prices and CLOSEST in known else SPARSE
    if asked not in known:
        raise UnsupportedError(f"{method} does not know objective={asked!r}; it knows {', '.join(map(repr, known))}.")
    return asked
