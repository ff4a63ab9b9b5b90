"""Supports: what an explainer can be used for, and why it is skipped where it cannot."""

from dataclasses import dataclass

import numpy as np

from relax_plugin.blackbox import BlackBox
from relax_plugin.features import FeatureSpace
from relax_plugin.problem import SPARSE

# How far a method was seen to be the one of its paper, the surest first.
TIERS = ("reproduced", "reproduced in part", "from the description only")


@dataclass(frozen=True)
class Supports:
    """What an explainer can be used for."""

    tasks: tuple[str, ...] = ("classification", "regression")
    categorical: bool = True
    several_columns: bool = True  # whether columns may be no features: those of one-hot groups, and derived ones
    labels_only: bool = True
    objectives: tuple[str, ...] = (SPARSE,)  # such a method takes `objective` as a parameter if it knows several
    extra: str | None = None  # of this package, which installs what the method needs
    paper: str = ""  # authors: title, venue, address; "" if the method is its package's own
    tier: str = ""  # how far its paper's or package's own answers were got again, one of TIERS; "" if it is its own
    evidence: str = ""  # by which that is known: what was compared with what, and where the numbers are

    def why_not(self, blackbox: BlackBox, space: FeatureSpace) -> str | None:
        """Why it does not apply to this model and space; None if it does."""
        if blackbox.task not in self.tasks:
            return f"it explains {' and '.join(self.tasks)} only, and the model is for {blackbox.task}"
        if not space.is_plain and not self.several_columns:
            other = next(name for name in space.columns if name not in space.names)
            what = "derived from others" if other in space.formulas else "part of a one-hot group"
            return f"it needs a feature for each column, and {other!r} is {what}"
        if space.is_categorical.any() and not self.categorical:
            feature = space.features[int(np.argmax(space.is_categorical))]
            what = "carried to the model as it is" if feature.carried else "categorical"
            return f"it needs numeric features, and {feature.name!r} is {what}"
        if not blackbox.has_scores and not self.labels_only:
            return "it needs scores, and the model answers labels only"
        return None
