"""Tables of a reproduction, made up, from which verdicts are known."""

from typing import Any

import numpy as np
import pandas as pd

from benchmarks.reproduction.claims.claims import all_claims
from benchmarks.reproduction.claims.comparisons import Claim
from benchmarks.reproduction.plan import CAPS, MOST_CHANGES, PAIRS, SEEDS, cases
from benchmarks.reproduction.results import COLUMNS


def made_up(validity: dict[str, float], noise: float = 0.005) -> pd.DataFrame:
    """A table of Figure 3 in which every method has one validity at all caps, on every pair, in five seeds."""
    lines = []
    generator = np.random.default_rng(0)
    for task in PAIRS:
        for method, mean in validity.items():
            for cap in (*CAPS, None):
                for seed in SEEDS:
                    value, ours = mean + noise * generator.standard_normal(2)
                    ours += validity["relax-global"] - mean
                    line: dict[str, Any] = {"task": task, "method": method, "cap": cap, "setting": "", "seed": seed}
                    line |= {"state": "ok", "reason": "", "instances": 50, "validity": value, "worst_class": value}
                    line |= {"L0": 2.0 if cap else 9.0, "L1": 3.0, "rows": 30.0, "fit_rows": 1800.0, "violations": 0}
                    line |= {"fit_seconds": 10.0 if method.startswith("relax") else 0.1, "explain_seconds": 5.0}
                    line |= {f"validity@{k}": value for k in range(1, MOST_CHANGES + 1)}
                    line |= {f"same_validity@{k}": ours for k in range(1, MOST_CHANGES + 1)}
                    line |= {f"alone_validity@{k}": ours for k in range(1, MOST_CHANGES + 1)}
                    line |= {"common": 50, "common_L1": 3.0, "common_L1_ours": 2.0}
                    line |= {"common_L0": 2.0, "common_L0_ours": 2.0}
                    lines.append(line)
    return pd.DataFrame(lines).reindex(columns=COLUMNS)


def part_of(part: str, validity: Any, **columns: Any) -> pd.DataFrame:
    """A part of the full plan, with a validity for each case and the same in five seeds but for a little noise."""
    generator = np.random.default_rng(2)
    lines = []
    for case in cases(quick=False):
        if case.part == part:
            line = {name: getattr(case, name) for name in ("task", "method", "cap", "setting", "seed")}
            value = validity(case) + 0.002 * generator.standard_normal()
            line |= {"state": "ok", "reason": "", "instances": 63, "validity": value, "L0": 2.0, "L1": 3.0}
            line |= {"same_validity@5": 0.95 + 0.002 * generator.standard_normal(), "fit_seconds": 10.0}
            lines.append(line | {name: make(case) for name, make in columns.items()})
    return pd.DataFrame(lines)


def claim_of(part: str, table: pd.DataFrame, words: str) -> Claim:
    (found,) = [claim for claim in all_claims({part: table}) if words in claim.text]
    return found
