"""What it takes to train a policy of a given validity, on the model itself and on a surrogate model.

Budgets of training steps are doubled until the policy alone (effort "policy") reaches the validity on rows that the
fit has not seen; a fit with that budget is then timed. The rows are training rows: test rows choose nothing.
"""

import numpy as np
import pytest

from benchmarks.speed.measuring import describe, timed
from relax_plugin import ReLAXConfig, make_explainer
from relax_plugin.evaluation.tasks import load_task

TASKS = ("breast_cancer/rf", "wave2/xgb", "sonar/mlp")
VALIDITY = 0.9
BUDGETS = (5, 10, 20, 40, 80)  # steps of 256 episodes
SEEDS = (0, 1)
HELD_OUT = 0.25  # share of the training rows


def parted(task_name):
    """Rows to fit and rows held out, both training rows of the task."""
    shuffled = load_task(task_name).X_train.sample(frac=1.0, random_state=0)
    count = round(HELD_OUT * len(shuffled))
    return shuffled.iloc[count:], shuffled.iloc[:count]


def fit(task_name, training, steps, seed):
    task, (rows, _) = load_task(task_name), parted(task_name)
    config = ReLAXConfig(training=training, steps=steps)
    policy = make_explainer("relax-global", task.model, task.space, effort="policy", seed=seed, config=config)
    return policy.fit(rows)


def validity(policies, task_name):
    """Share of the held-out rows for which the policies find a counterfactual, on average."""
    _, held_out = parted(task_name)
    return float(np.mean([policy.explain(held_out).found.mean() for policy in policies]))


@pytest.mark.parametrize("training", ["model", "surrogate"])
@pytest.mark.parametrize("task_name", TASKS)
def test_training_to_a_validity(benchmark, task_name, training):
    reached = steps = 0
    for steps in BUDGETS:
        reached = validity([fit(task_name, training, steps, seed) for seed in SEEDS], task_name)
        if reached >= VALIDITY:
            break
    describe(benchmark, f"training to validity {VALIDITY}, {task_name}", training, yardstick=training == "model")
    seeds = iter(SEEDS)
    policy = timed(benchmark, fit, rounds=len(SEEDS), setup=lambda: ((task_name, training, steps, next(seeds)), {}))
    benchmark.extra_info.update(validity=reached, steps=steps, model_rows=policy.fit_rows_)
    assert reached >= VALIDITY, f"{steps} steps reach {reached:.3f} only"
