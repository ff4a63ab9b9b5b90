"""CPU seconds of a menu: every set of up to two features of one row of a forest of 100 trees."""

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier

from benchmarks.speed.measuring import describe, timed
from relax_plugin import make_explainer

PROMISED = {8: 0.1, 21: 1.0}  # features -> seconds


@pytest.mark.parametrize("features", PROMISED)
def test_menu(benchmark, features):
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(rng.normal(size=(800, features)).round(2)).rename(columns=str)
    labels = (rows.iloc[:, :4].sum(axis=1) + 0.5 * rng.normal(size=len(rows)) > 0).astype(int)
    model = RandomForestClassifier(100, max_depth=8, random_state=0, n_jobs=1).fit(rows, labels)
    explainer = make_explainer("greedy", model).fit(rows)
    describe(benchmark, "menu of sets of up to 2 features, forest of 100 trees", f"{features} features")
    menu = timed(benchmark, lambda: explainer.menu(rows.iloc[[1]]), rounds=5, warmup=1)
    assert menu.found.any() and not menu.possible.all()
    benchmark.extra_info.update(
        promised=PROMISED[features], kept=benchmark.extra_info["cpu_seconds"] < PROMISED[features]
    )
