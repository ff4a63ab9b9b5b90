"""A model in a file and tables that are cut in many parts: what `explain --output FOLDER/` is tried on."""

import time
from pathlib import Path

import joblib
import numpy as np
import pandas as pd
from sklearn.ensemble import RandomForestClassifier

ROWS, PART_ROWS = 120, 10
PARTS = ROWS // PART_ROWS
ENDINGS = ("csv", "parquet", "feather")


def large_rows(count: int, seed: int) -> pd.DataFrame:
    return pd.DataFrame(np.random.default_rng(seed).normal(size=(count, 3)).round(3), columns=["a", "b", "c"])


def write_files(folder: Path, trees: int = 5) -> None:
    """train.csv, model.joblib and the same queries as large.csv, large.parquet and large.feather."""
    training = large_rows(200, 0)
    labels = np.where(training["a"] + training["b"] * training["c"] > 0, "yes", "no")
    joblib.dump(RandomForestClassifier(trees, random_state=0).fit(training, labels), folder / "model.joblib")
    training.assign(target=labels).to_csv(folder / "train.csv", index=False)
    queries = large_rows(ROWS, 1).assign(person=[f"person {row}" for row in range(ROWS)])
    queries.to_csv(folder / "large.csv", index=False)
    queries.to_parquet(folder / "large.parquet", row_group_size=50)
    queries.to_feather(folder / "large.feather")


def command(folder: Path, queries: str | None = "large.parquet", *, method: str = "greedy") -> list[str]:
    """What is typed to explain the queries, but where to."""
    typed = ["explain", str(folder / "train.csv"), "--model", str(folder / "model.joblib"), "--target", "target"]
    typed += ["--method", method, "--plausible", "no"]
    return typed if queries is None else [*typed, "--queries", str(folder / queries)]


def read_parts(folder: Path, ending: str = "parquet") -> pd.DataFrame:
    """The tables of the parts, one after the other."""
    read = {"csv": pd.read_csv, "parquet": pd.read_parquet}.get(ending, pd.read_feather)
    tables = [read(path) for path in sorted(folder.glob(f"part-*.{ending}"))]
    for table in tables:
        pd.testing.assert_series_equal(table.dtypes, tables[0].dtypes)
    return pd.concat(tables, ignore_index=True)


def wait_for_notes(folder: Path, count: int, seconds: float = 240.0) -> int:
    """Wait until so many parts are noted as done; how many there are then."""
    end = time.monotonic() + seconds
    while (done := len(list(folder.glob("_notes/part-*.json")))) < count:
        if time.monotonic() > end:
            raise TimeoutError(f"only {done} parts were done in {seconds:g} s.")
        time.sleep(0.02)
    return done
