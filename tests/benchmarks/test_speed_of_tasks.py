"""How long the models take to answer: the unit in which every explainer's time is spent."""

from typing import Any

import pytest

from relax_plugin.evaluation.tasks import CORE_TASKS, load_task


@pytest.mark.parametrize("rows", [1, 1000])
@pytest.mark.parametrize("name", CORE_TASKS)
def test_prediction(benchmark: Any, name: str, rows: int) -> None:
    task = load_task(name)
    queries = task.X_test.sample(rows, replace=True, random_state=0)
    predict = getattr(task.model, "predict_proba", task.model.predict)
    answers = benchmark(predict, queries)
    assert len(answers) == rows
