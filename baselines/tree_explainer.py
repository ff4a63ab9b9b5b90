"""What the methods that look inside a tree ensemble share."""

import numpy as np

from relax_plugin.arrays import Values
from relax_plugin.base import CounterfactualExplainer, Supports
from relax_plugin.blackbox import Answer, BlackBox
from relax_plugin.errors import UnsupportedError
from relax_plugin.features import FeatureSpace
from relax_plugin.trees.ensemble import Trees
from relax_plugin.trees.readers import read_trees, why_unreadable


class TreeExplainer(CounterfactualExplainer):
    """Base of the methods that look inside a tree ensemble; `trees_` is what they see."""

    supports = Supports(tasks=("classification",), categorical=False)

    def skip_reason(self, blackbox: BlackBox, space: FeatureSpace) -> str | None:
        return super().skip_reason(blackbox, space) or why_unreadable(blackbox.model, space)

    def _fit(self, values: Values, rng: np.random.Generator) -> None:
        self._learn_answers()

    def _learn_answers(self) -> None:
        self.trees_ = self._read_trees()
        asked, answer = self.known_
        count = len(asked) if self.blackbox_.task == "regression" else (len(asked) + 1) // 2  # these `predict` answered
        if not np.allclose(self.answer(asked[:count]).output, answer.output[:count], rtol=1e-6):
            name = type(self.blackbox_.model).__name__
            raise UnsupportedError(f"skipped because the trees read from the {name} do not answer as it does.")

    def _read_trees(self) -> Trees:
        return read_trees(self.blackbox_.model, self.space_)

    def answer(self, values: Values) -> Answer:
        """What the model answers, read off its trees without asking it; labels are those of its `predict`."""
        scores = self.trees_.scores(values)
        if self.blackbox_.task == "regression":
            return Answer(self.trees_.decided(scores))
        return Answer(self.trees_.decided(scores), self.trees_.linked(scores).astype(np.float64))
