"""SHAP's own tests of plots, explanations and model-agnostic explainers, with `CounterfactualShap` in their place.

Usage: python benchmarks/hosts/own_tests_of_shap.py [--explainers greedy nearest-ct] [--folder .bench/shap]

Fetches the source archive of the installed shap by pip, which holds its tests and its README (the notebooks are not in
it). Wherever a test makes a Tree, Exact, Permutation or automatic explainer, it gets ours, fitted to the background, or
without one to the first rows it is asked about. Two data sets that the tests would download are drawn here with the
same columns, the same for every run. Not run: tests of images, texts and networks, of colours and of the older helpers,
which have no explainer of tables in them. Prints how many pass, and each that differs, with the reason; the outcome of
the first explainer is stored in docs/results/hosts/shap.csv. Not part of `make test`: it needs an index of packages.
"""

from typing import Any

import numpy as np
import pandas as pd
from sdists import Host, compare, subject, watch

PLOTS = (
    *("bar", "beeswarm", "decision", "dependence", "dependence_string_features", "force", "force_js"),
    *("group_difference", "heatmap", "scatter", "style", "summary", "violin", "waterfall"),
)
HOST = Host(
    name="shap",
    package="shap",
    parts=["tests", "README.md"],
    tests=[
        *(f"tests/plots/test_{name}.py" for name in PLOTS),
        *("tests/test_explanation.py", "tests/explainers/test_exact.py", "tests/explainers/test_permutation.py"),
        "README.md",
    ],
    plugin="own_tests_of_shap",
)
REPLACED = ("TreeExplainer", "ExactExplainer", "PermutationExplainer", "Explainer")


def pytest_configure() -> None:
    import shap

    shap.datasets.adult, shap.datasets.california = adult, california
    if subject():
        from relax_plugin.adapters.shap import CounterfactualExplanation, CounterfactualShap

        watch(CounterfactualShap, CounterfactualExplanation)
        stand_in = swapped()
        for name in REPLACED:
            for place in (shap, shap.explainers):
                if hasattr(place, name):
                    setattr(place, name, stand_in)


def swapped() -> type:
    """`CounterfactualShap` with the constructor of shap's explainers."""
    import shap

    from relax_plugin import BlackBox, Goal, make_explainer
    from relax_plugin.adapters.shap import CounterfactualShap

    class Swapped(CounterfactualShap):
        def __init__(self, model: Any, masker: Any = None, data: Any = None, **named: Any) -> None:
            self.model, self.masker = model, masker if masker is not None else data
            rows = getattr(self.masker, "data", self.masker)
            self.data = rows  # by these attributes tests ask a TreeExplainer for its background, and others to mask
            self.data_feature_names = list(getattr(rows, "columns", []))
            if isinstance(masker, np.ndarray):
                self.masker = shap.maskers.Independent(masker)
            if isinstance(rows, np.ndarray | pd.DataFrame) and len(rows) > 1:
                self.fit(rows)

        def fit(self, rows: Any) -> None:
            model, task = self.model, None
            if not hasattr(model, "predict"):  # as shap has it, a function answers numbers, or numbers by class
                answer = np.asarray(model(rows))
                task = "regression" if answer.ndim == 1 else None
            elif not hasattr(model, "classes_"):
                task = "regression"
            box = BlackBox(model, task=task) if task else model
            goal = None
            if task:
                answers = model.predict(rows) if hasattr(model, "predict") else model(rows)
                goal = Goal.shift(max(float(np.std(answers)) / 2, 1e-9))
            made = make_explainer(str(subject()), box, goal=goal).fit(rows)
            boosted = type(model).__module__.startswith(("xgboost", "lightgbm"))
            several = 0 if task else len(made.blackbox_.classes)
            super().__init__(made, every_class=several > (2 if boosted else 1))

        def __call__(self, X: Any, **named: Any) -> Any:
            if not hasattr(self, "explainer"):
                self.fit(X)
            return super().__call__(X, **{key: value for key, value in named.items() if key == "max_evals"})

        def shap_values(self, X: Any, **named: Any) -> Any:
            if not hasattr(self, "explainer"):
                self.fit(X)
            return super().shap_values(X)

    return Swapped


def adult(display: bool = False, n_points: int | None = None) -> tuple[pd.DataFrame, np.ndarray]:
    rng, count = np.random.default_rng(0), n_points or 2000
    levels = {
        "Workclass": 9,
        "Marital Status": 7,
        "Occupation": 15,
        "Relationship": 6,
        "Race": 5,
        "Sex": 2,
        "Country": 42,
    }
    codes = pd.DataFrame({name: rng.integers(0, high, count) for name, high in levels.items()})
    numbers = pd.DataFrame(
        {
            "Age": rng.integers(17, 90, count).astype(np.float32),
            "Education-Num": rng.integers(1, 17, count).astype(np.float32),
            "Capital Gain": (rng.random(count) < 0.1) * rng.integers(100, 20000, count).astype(np.float32),
            "Capital Loss": (rng.random(count) < 0.05) * rng.integers(100, 3000, count).astype(np.float32),
            "Hours per week": rng.integers(10, 80, count).astype(np.float32),
        }
    )
    order = ["Age", "Workclass", "Education-Num", "Marital Status", "Occupation", "Relationship", "Race", "Sex"]
    order += ["Capital Gain", "Capital Loss", "Hours per week", "Country"]
    frame = pd.concat([numbers, codes.astype(np.int32)], axis=1)[order]
    score = (frame["Age"] - 45) / 15 + (frame["Education-Num"] - 9) / 3 + frame["Capital Gain"] / 4000
    target = (score + rng.normal(0, 0.5, count) > 0.3).to_numpy()
    if display:
        for name in levels:
            frame[name] = frame[name].map(lambda code, name=name: f"{name} {code}").astype("category")
    return frame, target


def california(n_points: int | None = None) -> tuple[pd.DataFrame, np.ndarray]:
    rng, count = np.random.default_rng(0), n_points or 2000
    frame = pd.DataFrame(
        {
            "MedInc": rng.gamma(3, 1.3, count),
            "HouseAge": rng.integers(1, 53, count).astype(float),
            "AveRooms": rng.gamma(20, 0.27, count),
            "AveBedrms": rng.gamma(30, 0.036, count),
            "Population": rng.integers(3, 5000, count).astype(float),
            "AveOccup": rng.gamma(10, 0.3, count),
            "Latitude": rng.uniform(32.5, 42, count).round(2),
            "Longitude": rng.uniform(-124.3, -114.3, count).round(2),
        }
    )
    return frame, (0.45 * frame["MedInc"] + 0.01 * frame["HouseAge"] + rng.normal(0, 0.3, count)).to_numpy()


if __name__ == "__main__":
    compare(HOST, ["greedy"])
