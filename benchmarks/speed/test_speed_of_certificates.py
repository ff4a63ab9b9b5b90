"""CPU seconds of a certificate, made and checked again, and its size."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier

from benchmarks.speed.measuring import describe, timed
from relax_plugin import make_explainer
from relax_plugin.certificates.checking import check
from relax_plugin.trees.floor import certify

PROMISED = 0.005  # seconds to make one, once the model's fingerprint is known
LETTERS = 5_000


@pytest.mark.parametrize("features", [9, 30])
@pytest.mark.parametrize("part", ["made", "checked"])
def test_certificate(benchmark, features, part):
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(rng.normal(size=(500, features)).round(2)).rename(columns=str)
    labels = (rows.iloc[:, :4].sum(axis=1) + 0.5 * rng.normal(size=len(rows)) > 0).astype(int)
    model = RandomForestClassifier(100, max_depth=8, random_state=0, n_jobs=1).fit(rows, labels)
    explainer = make_explainer("greedy", model).fit(rows)
    result = certify(explainer.explain(rows[:20]), explainer, most_changes=1)
    told = result.certificate(3)
    describe(benchmark, f"certificate {part}, forest of 100 trees", f"{features} features")
    if part == "made":
        again = timed(benchmark, lambda: result.certificate(3), rounds=20, warmup=2)
        assert again == told
        promised = PROMISED
        benchmark.extra_info.update(promised=promised, kept=benchmark.extra_info["cpu_seconds"] < promised)
    else:
        checked = timed(benchmark, lambda: check(told, model), rounds=5, warmup=1)
        assert checked.claim == told["claim"]
    size = len(json.dumps(told))
    benchmark.extra_info.update(letters=size)
    assert size < LETTERS
