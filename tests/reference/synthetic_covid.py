"""A table like that of the COVID-19 case study, drawn at random."""

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from relax_plugin.datasets import covid

HOME = os.environ.get("RELAX_DATA_HOME")
needs_the_table = pytest.mark.skipif(
    HOME is None or not (Path(HOME) / covid.FILE).is_file(), reason="RELAX_DATA_HOME has no covid.csv.gz"
)


def synthetic_table(rows: int = 120) -> pd.DataFrame:
    """A table of the same columns: the class depends on Death_rate, Obe and Doc_per (the wrong way), with noise."""
    generator = np.random.default_rng(0)
    table = pd.DataFrame(generator.gamma(4.0, 2.0, size=(rows, len(covid.FEATURES))).round(3), columns=covid.FEATURES)
    for name in ("GDP", "labor_force", "lad_area", "pop", "Urban_pop"):
        table[name] = (table[name] * 1000).astype("int64")
    table["median_age"] = (20 + table["Doc_per"] + generator.normal(0, 1, rows)).round(1)
    risk = table["Death_rate"] + table["Obe"] + 0.7 * table["Doc_per"] + generator.normal(0, 1, rows)
    table[covid.TARGET] = (risk > risk.quantile(0.65)).astype("int64")
    return table


def as_csv(table: pd.DataFrame) -> bytes:
    return table.to_csv(index=False).encode()
