"""DiCE's own test files and documentation, run as they are and again with this package's explainers in DiCE's place.

Usage: python benchmarks/hosts/own_tests_of_dice.py [--explainers relax-global greedy] [--folder .bench/dice]

Fetches the source archive of the installed dice-ml by pip, which holds its tests, its README and its notebooks, and
what they need beyond this environment. Two data sets that they would download are drawn here with the same columns,
the same for every run. ReLAX trains for thirty steps only, because most tests make an explainer of their own. Prints
how many pass for each, and every one on which they differ, with the reason; the outcome of the first explainer is
stored in docs/results/hosts/dice.csv. Not part of `make test`: it needs an index of packages.
"""

from typing import Any

import numpy as np
import pandas as pd
from sdists import Host, compare, subject, watch

TESTS = [
    "test_counterfactual_explanations.py",
    "test_dice.py",
    *(f"test_dice_interface/test_{name}.py" for name in ("explainer_base", "dice_random", "dice_KD", "dice_genetic")),
    "test_dice_interface/test_dice_pytorch.py",
]
NOTEBOOKS = "docs/source/notebooks"
HOST = Host(
    name="dice",
    package="dice-ml",
    parts=["tests", "README.rst", NOTEBOOKS],
    tests=[*(f"tests/{name}" for name in TESTS), "README.rst", NOTEBOOKS],
    plugin="own_tests_of_dice",
    needed=["pytest-mock", "rai-test-utils"],
)


def pytest_configure() -> None:
    import dice_ml
    import sklearn.datasets
    from dice_ml.utils import helpers

    helpers.load_adult_income_dataset = adult
    sklearn.datasets.fetch_california_housing = housing
    if subject():
        from relax_plugin.adapters.dice import ReLAXDice, _LaterExamples

        watch(ReLAXDice, _LaterExamples)
        dice_ml.Dice = swapped


def swapped(data: Any, model: Any, method: str = "random", **options: Any) -> Any:
    """This package's explainer for each of DiCE's model-agnostic methods."""
    from relax_plugin import ReLAXConfig
    from relax_plugin.adapters.dice import Dice, ReLAXDice

    if method not in ("random", "genetic", "kdtree"):
        return Dice(data, model, method=method, **options)
    name = str(subject())
    few = ReLAXConfig(steps=30, episodes=32, updates_per_step=1, hidden=16, start_pool=256, validate_every=30)
    return ReLAXDice(data, model, name, {"config": few, "progress": False} if name.startswith("relax") else None)


def adult(only_train: bool = True) -> pd.DataFrame:
    rng, count = np.random.default_rng(0), 2000
    levels = ["Assoc", "Bachelors", "Doctorate", "HS-grad", "Masters", "Prof-school", "School", "Some-college"]
    jobs = ["Blue-Collar", "Other/Unknown", "Professional", "Sales", "Service", "White-Collar"]
    choices = {
        "workclass": ["Government", "Other/Unknown", "Private", "Self-Employed"],
        "education": levels,
        "marital_status": ["Divorced", "Married", "Separated", "Single", "Widowed"],
        "occupation": jobs,
        "race": ["Other", "White"],
        "gender": ["Female", "Male"],
    }
    drawn = {name: rng.choice(values, count) for name, values in choices.items()}
    hours = rng.integers(1, 100, count)
    frame = pd.DataFrame({"age": rng.integers(17, 91, count), **drawn, "hours_per_week": hours})
    return frame.assign(income=((frame.age > 40) & (frame.hours_per_week > 40)).astype(int))


def housing(**_: Any) -> Any:
    from sklearn.utils import Bunch

    rng, count = np.random.default_rng(0), 2000
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
    price = 0.45 * frame.MedInc + 0.01 * frame.HouseAge - 0.1 * frame.AveOccup + rng.normal(0, 0.3, count)
    return Bunch(data=frame.to_numpy(), target=price.clip(0.15, 5.0).to_numpy(), feature_names=list(frame))


if __name__ == "__main__":
    compare(HOST, ["relax-global", "greedy"])
