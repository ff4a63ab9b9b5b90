"""Models that are slow on purpose, as one behind a network is: to measure what asking fewer rows is worth.

Sleep is wall time, not CPU time. A slow model is a black box: methods that look inside do not apply to it.
"""

import time
from typing import Any

SECONDS_A_ROW = 0.001


class SlowModel:
    """A trained model that sleeps 1 ms for each row it is asked, and then gives its own answers."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def predict(self, rows: Any) -> Any:
        time.sleep(len(rows) * SECONDS_A_ROW)
        return self.model.predict(rows)

    def __sklearn_tags__(self) -> Any:
        return self.model.__sklearn_tags__()


class SlowClassifier(SlowModel):
    """The same of a classifier that gives probabilities."""

    @property
    def classes_(self) -> Any:
        return self.model.classes_

    def predict_proba(self, rows: Any) -> Any:
        time.sleep(len(rows) * SECONDS_A_ROW)
        return self.model.predict_proba(rows)
