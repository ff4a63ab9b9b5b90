"""Alibi's own tests of its tabular RL explainer, and its Adult example, with `ReLAXTabular` in its place.

Usage: python benchmarks/hosts/own_tests_of_alibi.py [--explainer relax-global] [--notebook cfrl_adult.ipynb]

Alibi needs numpy below 2 and TensorFlow, so its explainer cannot run here beside ours; its source archive, fetched by
pip, holds the tests. What they import of alibi stays alibi's where it needs numpy, scikit-learn and torch alone (the
encoders and conditions of `alibi.explainers.backends`); the rest is stood in for, in this file only: `alibi.explainers`
and `alibi.saving` by our class, `alibi_testing` (which no index has) by scikit-learn's data and drawn ones,
TensorFlow by functions of numpy where a test calls it. Not run, with their reason in the table: the tests of
TensorFlow's backend, and those of alibi's other explainers. The Adult example is no part of the archive: a copy of
doc/source/examples/cfrl_adult.ipynb of alibi's repository is run if it is named; its data are drawn.
The outcome is stored in docs/results/hosts/alibi.csv. Not part of `make test`: it needs an index of packages.
"""

import argparse
import shutil
import sys
from dataclasses import replace
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sdists import RESULTS, ROOT, Host, beside, fetch, run, subject, told, watch

NOTEBOOK = "cfrl_adult.ipynb"
EXPLAINERS = "alibi/explainers"
HOST = Host(
    name="alibi",
    package="alibi",
    parts=[
        *(f"{EXPLAINERS}/{name}" for name in ("backends", "tests/test_cfrl.py", "tests/utils.py")),
        *("alibi/models/pytorch", "alibi/utils/missing_optional_dependency.py", "alibi/tests/test_saving.py"),
    ],
    tests=[f"{EXPLAINERS}/tests/test_cfrl.py", "alibi/tests/test_saving.py::test_save_cfrl"],
    plugin="own_tests_of_alibi",
    version="0.9.6",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--explainer", default="relax-global", help="one that can be saved, as a test saves it")
    parser.add_argument("--notebook", type=Path, help="a copy of alibi's Adult example")
    parser.add_argument("--folder", type=Path, default=ROOT / ".bench" / HOST.name)
    given = parser.parse_args()
    fetch(HOST, given.folder)
    host = HOST
    if given.notebook:
        shutil.copy(given.notebook, given.folder / "work" / NOTEBOOK)
        host = replace(HOST, tests=[*HOST.tests, NOTEBOOK])
    table = beside(host, {}, run(host, given.folder, given.explainer, host.tests))
    table["own"] = "unknown"  # alibi's own class cannot run here
    RESULTS.mkdir(parents=True, exist_ok=True)
    table.to_csv(RESULTS / f"{host.name}.csv", index=False, lineterminator="\n")
    print(f"{given.explainer} in alibi {host.version}: {told(table)}")
    for line in table[table["outcome"] == "failed"].itertuples():
        print(f"  {line.test}\n      {line.reason}")


# From here on: the plugin of pytest, inside the run.


class Nothing:
    """Whatever is asked of it, it is; for what builds and trains networks that nobody uses here."""

    def __init__(self, *given: Any, **named: Any) -> None:
        pass

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Nothing()

    def __call__(self, *given: Any, **named: Any) -> Any:
        return Nothing()


def module(name: str, path: Path | None = None, **members: Any) -> None:
    """A module of this name with these members; any other member is `Nothing`, unless it lies in the folder."""
    made = ModuleType(name)
    made.__spec__ = ModuleSpec(name, None, is_package=True)  # by which safetensors, for one, looks for TensorFlow
    made.__dict__.update(members)
    made.__path__ = [str(path)] if path else []
    made.__getattr__ = lambda member: _missing(member)  # type: ignore[method-assign]
    sys.modules[name] = made
    parent, _, own = name.rpartition(".")
    if parent in sys.modules:
        setattr(sys.modules[parent], own, made)


def _missing(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    return Nothing()


def pytest_configure() -> None:
    work = Path.cwd() / "alibi"
    ours = swapped()
    watch(*ours.__mro__[:2])
    module("alibi", work)
    module("alibi.explainers", work / "explainers", CounterfactualRLTabular=ours)
    module("alibi.explainers.cfrl_base")
    module("alibi.explainers.integrated_gradients")
    module("alibi.saving", load_explainer=ours.load)
    module("alibi.datasets", fetch_adult=adult)
    for name in ("models", "utils"):
        module(f"alibi.{name}", work / name)
    for name in ("utils.download", "models.tensorflow"):
        module(f"alibi.{name}")
    for name in ("autoencoder", "actor_critic", "cfrl_models"):
        module(f"alibi.models.tensorflow.{name}", AE=Autoencoder)
    module("alibi_testing")
    module("alibi_testing.data", get_iris_data=iris, get_diabetes_data=diabetes)
    module("pytest_lazyfixture", lazy_fixture=Lazy)
    layers = SimpleNamespace(Activation=Activation, Dense=Nothing)
    math = SimpleNamespace(tanh=np.tanh, atan=np.arctan, reduce_min=np.min, reduce_max=np.max)
    module("tensorflow", math=math)
    module(
        "tensorflow.keras", Model=Model, Sequential=Sequential, layers=layers, optimizers=Nothing(), losses=Nothing()
    )
    sys.modules["tensorflow"].data = Nothing()  # type: ignore[attr-defined]


def swapped() -> Any:
    """Our class with the explainer that is asked for; ReLAX trains for a few steps only."""
    from relax_plugin import ReLAXConfig
    from relax_plugin.adapters.alibi import ReLAXTabular

    few = ReLAXConfig(steps=30, episodes=32, updates_per_step=1, hidden=16, start_pool=256, validate_every=30)
    options = {"config": few, "progress": False} if str(subject()).startswith("relax") else {}

    class CounterfactualRLTabular(ReLAXTabular):
        def __init__(self, *given: Any, **named: Any) -> None:
            own = {} if "explainer" in named else {"explainer": subject(), "options": options}
            super().__init__(*given, **{**own, **named})

    return CounterfactualRLTabular


class Model:
    def __init__(self, **named: Any) -> None:
        pass

    def __call__(self, x: Any) -> Any:
        return self.call(x)

    def call(self, x: Any) -> Any:
        return x


class Activation(Model):
    def __init__(self, function: Any) -> None:
        self.function = function

    def call(self, x: Any) -> Any:
        return self.function(np.asarray(x, dtype=float))


class Sequential(Model):
    def __init__(self, layers: list[Any]) -> None:
        self.layers = layers

    def call(self, x: Any) -> Any:
        for layer in self.layers:
            x = layer(x)
        return x


class Autoencoder(Nothing):
    def __init__(self, encoder: Any, decoder: Any) -> None:
        self.encoder, self.decoder = encoder, decoder


class Lazy:
    """The value of a fixture, by its name, as a parameter."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: Any) -> None:
    if "callspec" in vars(item) and item.callspec.params.get("backend") == "tensorflow":
        pytest.skip("TensorFlow's backend: TensorFlow is not installed")


@pytest.hookimpl(tryfirst=True)
def pytest_fixture_setup(request: Any) -> None:
    if isinstance(getattr(request, "param", None), Lazy):
        request.param = request.getfixturevalue(request.param.name)


@pytest.fixture
def models(request: Any) -> Any:
    return [SimpleNamespace(layers=[Model(), Model(), Model()]), Model()]


@pytest.fixture
def rf_classifier(request: Any) -> Any:
    from sklearn.ensemble import RandomForestClassifier

    data = request.param
    return RandomForestClassifier(50, random_state=0).fit(data["X_train"], data["y_train"]), None


@pytest.fixture(scope="module")
def iris_data() -> Any:
    return iris()


@pytest.fixture(scope="module")
def adult_data() -> Any:
    return split(*as_arrays(adult()), adult().feature_names, adult().category_map)


@pytest.fixture(scope="module")
def diabetes_data() -> Any:
    return diabetes()


def split(X: Any, y: Any, names: list[str], categories: dict[int, list[str]]) -> dict[str, Any]:
    order = np.random.default_rng(0).permutation(len(X))
    train, test = order[: int(0.8 * len(X))], order[int(0.8 * len(X)) :]
    parts = {"X_train": X[train], "y_train": y[train], "X_test": X[test], "y_test": y[test]}
    return {**parts, "preprocessor": None, "metadata": {"feature_names": names, "category_map": categories}}


def as_arrays(data: Any) -> tuple[Any, Any]:
    return data.data, data.target


def iris() -> dict[str, Any]:
    from sklearn.datasets import load_iris

    return split(*as_arrays(load_iris()), list(load_iris().feature_names), {})


def diabetes() -> dict[str, Any]:
    from sklearn.datasets import load_diabetes

    return split(*as_arrays(load_diabetes()), list(load_diabetes().feature_names), {})


def adult() -> Any:
    """Drawn rows with the columns and some of the categories of `alibi.datasets.fetch_adult`."""
    rng, count = np.random.default_rng(0), 3000
    levels = {
        "Workclass": ["?", "Federal-gov", "Local-gov", "Private", "Self-emp-inc", "State-gov"],
        "Education": ["Associates", "Bachelors", "Dropout", "High School grad", "Masters"],
        "Marital Status": ["Married", "Never-Married", "Separated"],
        "Occupation": ["?", "Admin", "Blue-Collar", "Professional", "Sales", "Service"],
        "Relationship": ["Husband", "Not-in-family", "Wife"],
        "Race": ["Black", "Other", "White"],
        "Sex": ["Female", "Male"],
        "Country": ["?", "Other", "United-States"],
    }
    columns = ["Age", *list(levels)[:7], "Capital Gain", "Capital Loss", "Hours per week", "Country"]
    frame = pd.DataFrame({name: rng.integers(0, len(names), count) for name, names in levels.items()})
    frame["Age"], frame["Hours per week"] = rng.integers(17, 90, count), rng.integers(10, 80, count)
    frame["Capital Gain"] = (rng.random(count) < 0.1) * rng.integers(100, 20000, count)
    frame["Capital Loss"] = (rng.random(count) < 0.05) * rng.integers(100, 3000, count)
    score = frame["Capital Gain"] / 5000 + (frame["Hours per week"] - 45) / 20 + 0.6 * (frame["Education"] == 4)
    score += (frame["Age"] - 45) / 25 + 0.8 * (frame["Workclass"] == 4) + rng.normal(0, 0.4, count)
    return SimpleNamespace(
        data=frame[columns].to_numpy(),
        target=(score > 0.6).astype(int).to_numpy(),
        feature_names=columns,
        target_names=["<=50K", ">50K"],
        category_map={columns.index(name): names for name, names in levels.items()},
    )


if __name__ == "__main__":
    main()
