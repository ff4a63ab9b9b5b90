"""A model that is slow on purpose, as one behind a network is: to measure what asking fewer rows is worth."""

import time
from typing import Any

from sklearn.base import BaseEstimator
from sklearn.utils.metaestimators import available_if

SECONDS_A_ROW = 0.001


class SlowModel(BaseEstimator):
    """A trained model that sleeps 1 ms for each row it is asked, and gives its own answers then.

    Sleep is wall time, not CPU time. It is a black box: what looks inside models does not apply to it.

    Parameters
    ----------
    model : fitted classifier or regressor with the manners of scikit-learn
    """

    def __init__(self, model: Any) -> None:
        self.model = model

    def predict(self, rows: Any) -> Any:
        time.sleep(len(rows) * SECONDS_A_ROW)
        return self.model.predict(rows)

    @available_if(lambda slow: hasattr(slow.model, "predict_proba"))
    def predict_proba(self, rows: Any) -> Any:
        time.sleep(len(rows) * SECONDS_A_ROW)
        return self.model.predict_proba(rows)

    @property
    def classes_(self) -> Any:
        return self.model.classes_

    def __sklearn_tags__(self) -> Any:
        return self.model.__sklearn_tags__()
