"""Through the faces of other toolkits: ReLAX against the host's own method, and the face against the bare explainer.

The same rows in the same run. What is delivered is asked again, and its changes are counted: quick must not mean worse.
"""

from functools import cache

import dice_ml
import numpy as np
import pandas as pd
import pytest
from benchmarks.measuring import describe, timed

from relax_plugin import make_explainer
from relax_plugin.adapters.dice import Dice
from relax_plugin.evaluation.tasks import load_task

TASK = "german/rf"
ROWS = 1000  # all there are; the last 300 were not trained on
GROUP = f"a counterfactual for each of {ROWS} rows through DiCE, {TASK}"
DICE, TRAINED, WITH_TRAINING = "dice_ml random", "relax, trained", "relax, training included"
LEAST_RATIO = {TRAINED: 20.0, WITH_TRAINING: 1.0}  # how many times quicker than DiCE

measured: dict[str, dict[str, float]] = {}


@cache
def interfaces():
    task = load_task(TASK)
    rows = pd.concat([task.X_train, task.X_test])
    numbers = [name for name in rows if rows[name].dtype.kind in "if"]
    frame = task.X_train.assign(outcome=task.model.predict(task.X_train))
    data = dice_ml.Data(dataframe=frame, continuous_features=numbers, outcome_name="outcome")
    return data, dice_ml.Model(model=task.model, backend="sklearn"), rows[:ROWS]


@cache
def trained():
    data, model, rows = interfaces()
    return Dice(data, model, method="relax", options={"progress": False}).fit(rows)


def quality(explanations):
    """Share of rows whose counterfactual, as delivered, has another class, and the mean number of its changes."""
    _, model, rows = interfaces()
    before, changes = model.model.predict(rows), np.full(len(rows), np.nan)
    for i, example in enumerate(explanations.cf_examples_list):
        cf = example.final_cfs_df_sparse
        if cf is not None and model.model.predict(cf[list(rows)])[0] != before[i]:
            changes[i] = (cf[list(rows)].iloc[0].to_numpy(dtype=object) != rows.iloc[i].to_numpy(dtype=object)).sum()
    return {"validity": float(np.isfinite(changes).mean()), "sparsity": float(np.nanmean(changes))}


@pytest.mark.parametrize("label", [DICE, TRAINED, WITH_TRAINING])
def test_a_thousand_rows_through_dice(benchmark, label):
    data, model, rows = interfaces()
    if label == TRAINED:
        trained()

    def explain():
        if label == TRAINED:
            return trained().generate_counterfactuals(rows, 1)
        method = "random" if label == DICE else "relax"
        return Dice(data, model, method=method).generate_counterfactuals(rows, 1)

    describe(benchmark, GROUP, label, len(rows), label == DICE)
    explanations = timed(benchmark, explain, rounds=3 if label == TRAINED else 1)
    measured[label] = {"seconds": benchmark.stats.stats.min, **quality(explanations)}
    benchmark.extra_info.update(measured[label])
    if label != DICE and DICE in measured:
        own, other = measured[label], measured[DICE]
        assert other["seconds"] >= LEAST_RATIO[label] * own["seconds"]
        assert own["validity"] >= other["validity"]
        assert own["sparsity"] <= other["sparsity"]


@pytest.mark.parametrize("label", ["bare", "through DiCE"])
def test_what_the_face_of_dice_adds(benchmark, label):
    """The same agent asked directly, and through DiCE's interfaces; both find the same."""
    exp, (_, model, rows) = trained(), interfaces()
    bare = make_explainer("relax-global", model.model, exp.explainer.space_, progress=False).fit(rows[:700])
    explain = bare.explain if label == "bare" else lambda queries: exp.generate_counterfactuals(queries, 1)
    describe(benchmark, f"the face of DiCE, {len(rows)} rows, {TASK}", label, len(rows), label == "bare")
    timed(benchmark, lambda: explain(rows), rounds=5, warmup=1)
