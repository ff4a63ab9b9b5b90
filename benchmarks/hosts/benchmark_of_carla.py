"""CARLA's own `Benchmark`, with `ReLAXRecourse` as its recourse method.

Usage: python benchmarks/hosts/benchmark_of_carla.py
    [--explainers relax-global greedy] [--folder .bench/carla] [--rows 100]

Takes the wheel of carla-recourse 0.0.5, fetched by pip without what it requires: nothing installs its pins (numpy 1.19,
TensorFlow 1.14) now. Its data catalogue, its abstract classes, its `Benchmark` and all its measures run as they are.
What its other recourse methods import is stood in for, if it is not installed, by modules that hold nothing. Two names
are put back: `numpy.float`, and `sparse` of scikit-learn's OneHotEncoder. Exits with 1 if a measure says something else
than the adapter promises. `make venv` fetches the wheel, and a test of `make test` runs this file on a few rows.
"""

import argparse
import subprocess
import sys
import tempfile
import zipfile
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from sklearn import preprocessing
from sklearn.linear_model import LogisticRegression

from relax_plugin.datasets import load

ROOT = Path(__file__).resolve().parents[2]
WHEEL = "carla-recourse==0.0.5"
ABSENT = ("causalgraphicalmodels", "dice_ml", "keras", "lime", "recourse", "tensorflow", "torchvision", "seaborn")


class Empty(type):
    """Classes that have every attribute, may be called and inherited, and do nothing."""

    def __getattr__(cls, name: str) -> Any:
        return nothing(name)


def nothing(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    return Empty(name, (), {"__init__": lambda *_, **__: None})


class Nothing(ModuleType):
    """A module of which anything may be imported."""

    __path__: ClassVar[list[str]] = []

    def __getattr__(self, name: str) -> Any:
        return nothing(name)


class StandIns(MetaPathFinder, Loader):
    """Finds the modules that CARLA's other methods import and that are not installed."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        return ModuleSpec(fullname, self, is_package=True) if fullname.partition(".")[0] in ABSENT else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return Nothing(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """There is nothing in it."""


class Encoder(preprocessing.OneHotEncoder):  # type: ignore[misc]
    """With the parameter `sparse`, as scikit-learn 0.23 called `sparse_output`."""

    def __init__(self, *, sparse: bool = True, handle_unknown: str = "error", drop: str | None = None) -> None:
        super().__init__(sparse_output=sparse, handle_unknown=handle_unknown, drop=drop)
        self.sparse = sparse

    def get_feature_names(self, names: Any) -> Any:
        return self.get_feature_names_out(names)


def fetch(folder: Path) -> None:
    """Unpack CARLA's wheel and let it be imported."""
    folder.mkdir(parents=True, exist_ok=True)
    if not list(folder.glob("carla_recourse-*.whl")):
        command = [sys.executable, "-m", "pip", "--quiet", "download", "--no-deps", "-d", str(folder), WHEEL]
        subprocess.run(command, check=True)
    (wheel,) = folder.glob("carla_recourse-*.whl")
    with zipfile.ZipFile(wheel) as files:
        files.extractall(folder / "unpacked")
    sys.path.insert(0, str(folder / "unpacked"))
    sys.meta_path.append(StandIns())  # the last: what is installed is imported
    vars(np)["float"] = float
    preprocessing.OneHotEncoder = Encoder


def catalogue(folder: Path) -> Any:
    """The German credit data as CARLA reads a table of one's own."""
    from carla.data.catalog import CsvCatalog

    data = load("german")
    frame, space = data.X, data.space
    categorical = [f.name for f in space.features if f.categories]
    path = folder / "german.csv"
    frame.assign(target=(data.y == sorted(set(data.y))[-1]).astype(int)).to_csv(path, index=False)
    continuous = [name for name in frame if name not in categorical]
    immutable = [f.name for f in space.features if f.immutable]
    np.random.seed(0)  # noqa: NPY002  # CARLA splits by the global generator
    return CsvCatalog(str(path), categorical, continuous, immutable, "target")


def logistic(data: Any) -> Any:
    """A logistic regression as one of CARLA's models."""
    from carla.models.api import MLModel

    class Logistic(MLModel):  # type: ignore[misc]
        feature_input_order: ClassVar[list[str]] = [name for name in data.df if name != data.target]
        backend, raw_model = "sklearn", None

        def predict(self, x: Any) -> Any:
            return self.predict_proba(x)[:, 1]

        def predict_proba(self, x: Any) -> Any:
            rows = x if isinstance(x, np.ndarray) else self.get_ordered_features(x).to_numpy()
            return self.raw_model.predict_proba(rows)

    made = Logistic(data)
    rows = data.df_train
    made.raw_model = LogisticRegression(max_iter=2000).fit(rows[made.feature_input_order].to_numpy(), rows[data.target])
    return made


def run(explainer: str, rows: int, folder: Path) -> pd.Series:
    """CARLA's measures of an explainer, as means over the factuals."""
    from carla import Benchmark, RecourseMethod
    from carla.models.negative_instances import predict_negative_instances

    from relax_plugin.adapters.carla import ReLAXRecourse

    model = logistic(catalogue(folder))
    factuals = predict_negative_instances(model, model.data.df)[:rows]
    method = ReLAXRecourse(model, {"explainer": explainer})
    if not isinstance(method, RecourseMethod):
        raise SystemExit("ReLAXRecourse is no RecourseMethod of CARLA")
    measured = Benchmark(model, method, factuals).run_benchmark()
    told = measured.mean().rename(explainer)
    merged = method.measures(factuals, method.get_counterfactuals(factuals))
    if told["Constraint_Violation"] != 0.0 or not np.isclose(merged["L1_distance"].mean(), told["Distance_2"]):
        raise SystemExit(f"CARLA measured something else than the adapter says:\n{told}")
    return told


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--explainers", nargs="+", default=["relax-global", "greedy"])
    parser.add_argument("--folder", type=Path, default=ROOT / ".bench" / "carla")
    parser.add_argument("--rows", type=int, default=100)
    given = parser.parse_args()
    fetch(given.folder)
    with tempfile.TemporaryDirectory() as scratch:
        print(pd.DataFrame([run(name, given.rows, Path(scratch)) for name in given.explainers]).round(3).to_string())


if __name__ == "__main__":
    main()
