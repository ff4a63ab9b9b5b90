"""What one row costs beside the model: a dict goes in, what a web client needs comes out.

The target is 10 ms of CPU time, the model's own taken out; `own_milliseconds` in the JSON is the median over the rows,
`total_milliseconds` that with the model's.
CPU time, since a server's neighbours are no fault of ours; on a busy machine it is higher nevertheless.
"""

import time

import numpy as np
import pytest

from benchmarks.speed.measuring import describe, timed
from relax_plugin import BlackBox, ReLAX
from relax_plugin.evaluation.tasks import load_task

ROWS = 30
TARGET = 10.0  # milliseconds


class Watched:
    """The CPU time that goes by in a model's own methods."""

    def __init__(self, model):
        self.spent, self.depth = 0.0, 0
        for name in ("predict", "predict_proba"):
            setattr(model, name, self._watched(getattr(model, name)))

    def _watched(self, method):
        def called(rows):
            started = time.process_time()
            self.depth += 1  # `predict` of some models calls their `predict_proba`
            try:
                return method(rows)
            finally:
                self.depth -= 1
                if self.depth == 0:
                    self.spent += time.process_time() - started

        return called


@pytest.mark.parametrize("given", ["a dict", "a Series", "a list of one record", "a dict, its trees as arrays"])
@pytest.mark.parametrize("task", ["wave2/xgb", "breast_cancer/rf", "german/rf", "diabetes/ada"])
def test_one_row_beside_the_model(benchmark, task, given):
    task = load_task(task)
    box = BlackBox(task.model, accelerate="auto" if given.endswith("arrays") else None)
    explainer = ReLAX(box, task.space).fit(task.X_train)
    model, own, total = Watched(task.model), [], []
    make = {"a Series": lambda row: row, "a list of one record": lambda row: [row.to_dict()]}
    make = make.get(given, lambda row: row.to_dict())
    rows = [make(task.X_test.iloc[row]) for row in range(ROWS)]
    explainer.explain(rows[0])

    def answer_each():
        answers = []
        for row in rows:
            started, asked = time.process_time(), model.spent
            answers.append(explainer.explain(row).to_dict())
            total.append(time.process_time() - started)
            own.append(total[-1] - (model.spent - asked))
        return answers

    describe(benchmark, f"one row of {task.name}, served", given, ROWS, given == "a dict")
    answers = timed(benchmark, answer_each, rounds=3, warmup=1)
    milliseconds = 1000 * float(np.median(own[ROWS:]))
    benchmark.extra_info.update(
        own_milliseconds=milliseconds,
        total_milliseconds=1000 * float(np.median(total[ROWS:])),
        target_milliseconds=TARGET,
        reached=milliseconds <= TARGET,
    )
    assert all(len(answer["queries"]) == 1 for answer in answers)
