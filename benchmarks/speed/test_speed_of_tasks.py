"""How long the models take to answer: the unit in which every explainer's time is spent."""

import pytest

from benchmarks.speed.measuring import describe, timed
from relax_plugin.evaluation.tasks import CORE_TASKS, load_task


@pytest.mark.parametrize("rows", [1, 1000])
@pytest.mark.parametrize("name", CORE_TASKS)
def test_prediction(benchmark, name, rows):
    task = load_task(name)
    queries = task.X_test.sample(rows, replace=True, random_state=0)
    predict = getattr(task.model, "predict_proba", task.model.predict)
    describe(benchmark, f"prediction of {rows} rows", name, rows)
    answers = timed(benchmark, lambda: predict(queries), rounds=30, warmup=2)
    assert len(answers) == rows
