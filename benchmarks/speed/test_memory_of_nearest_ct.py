"""The memory of `nearest-ct` at full size: 100 queries against a million training rows."""

import subprocess
import sys

from benchmarks.speed.measuring import describe, timed

TRAINING_ROWS = 1_000_000
QUERIES = 100
GIGABYTE = 10**9

# In a process of its own, whose peak is nobody else's; it prints the peak and how many were found.
PROGRAM = f"""
import numpy as np
from benchmarks.speed.measuring import peak_mebibytes
from sklearn.linear_model import LogisticRegression
from relax_plugin import make_explainer

rows = np.random.default_rng(0).normal(size=({TRAINING_ROWS}, 10))
model = LogisticRegression().fit(rows[:1000], rows[:1000, 0] + rows[:1000, 1] > 0)
result = make_explainer("nearest-ct", model).fit(rows).explain(rows[:{QUERIES}])
print(peak_mebibytes(), result.found.sum())
"""


def run():
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path[:] = {sys.path!r}\n{PROGRAM}"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    peak, found = done.stdout.split()
    return float(peak), int(found)


def test_a_million_training_rows_take_less_than_a_gigabyte(benchmark):
    describe(benchmark, "memory, nearest-ct", f"{TRAINING_ROWS:,} training rows", QUERIES, yardstick=True)
    peak, found = timed(benchmark, run, rounds=1)
    benchmark.extra_info.update(peak_mebibytes=peak)
    assert found == QUERIES
    assert peak * 2**20 < GIGABYTE
