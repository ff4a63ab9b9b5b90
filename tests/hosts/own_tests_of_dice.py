"""DiCE's own test files, run as they are and again with this package's explainers in place of DiCE's.

Usage: python tests/hosts/own_tests_of_dice.py [--explainers relax-global greedy] [--folder .bench/dice]

Fetches the source archive of the installed dice-ml by pip, which holds its tests, and what they need beyond this
environment. Two data sets that the tests would download are drawn here with the same columns, the same for every run.
ReLAX trains for thirty steps only, because most tests make an explainer of their own. Prints how many tests pass for
each, and every test on which they differ, with the reason. Not part of `make test`: it needs an index of packages.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tarfile
import xml.etree.ElementTree as ElementTree
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

SUBJECT = "RELAX_PLUGIN_IN_DICES_TESTS"
FILES = [
    "test_counterfactual_explanations.py",
    "test_dice.py",
    *(f"test_dice_interface/test_{name}.py" for name in ("explainer_base", "dice_random", "dice_KD", "dice_genetic")),
    "test_dice_interface/test_dice_pytorch.py",
]
NEEDED = ["pytest-mock", "pytest-timeout", "rai-test-utils"]
OWN = "DiCE's own"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--explainers", nargs="+", default=["relax-global", "greedy"])
    parser.add_argument("--folder", type=Path, default=Path(".bench/dice"))
    given = parser.parse_args()
    fetch(given.folder)
    outcomes = {subject: run(given.folder, subject) for subject in (OWN, *given.explainers)}
    table = pd.DataFrame(outcomes).fillna("not run")
    passed = table == "passed"
    print(table.apply(lambda column: column.str.split(":").str[0].value_counts()).fillna(0).astype(int).T)
    for subject in given.explainers:
        print(f"\npassed by {subject}, failed by {OWN}: {(passed[subject] & ~passed[OWN]).sum()}; the other way round:")
        for name, told in table.loc[passed[OWN] & ~passed[subject], subject].items():
            print(f"  {name}\n      {told}")


def fetch(folder: Path) -> None:
    """Unpack DiCE's tests into the folder, and install what they need beside them."""
    folder.mkdir(parents=True, exist_ok=True)
    pip = [sys.executable, "-m", "pip", "--quiet"]
    wanted = f"dice-ml=={version('dice-ml')}"
    subprocess.run([*pip, "download", "--no-deps", "--no-binary", "dice-ml", wanted, "-d", folder], check=True)
    subprocess.run([*pip, "install", "--no-deps", "--upgrade", "--target", folder / "needed", *NEEDED], check=True)
    (archive,) = folder.glob(f"dice_ml-{version('dice-ml')}*.tar.gz")
    with tarfile.open(archive) as files:
        files.extractall(folder, filter="data")
    shutil.rmtree(folder / "tests", ignore_errors=True)
    (folder / archive.name.removesuffix(".tar.gz") / "tests").rename(folder / "tests")
    (folder / "pytest.ini").write_text("[pytest]\n")  # of the ancestors' settings none holds here


def run(folder: Path, subject: str) -> dict[str, str]:
    """What became of each test: "passed", "skipped", or "failed" with the last line of the reason."""
    report = folder.resolve() / f"{subject.replace(' ', '-')}.xml"
    paths = [str(Path(__file__).resolve().parent), str(folder.resolve() / "needed")]
    environment = os.environ | {SUBJECT: "" if subject == OWN else subject, "PYTHONPATH": os.pathsep.join(paths)}
    plugins = ["-p", "own_tests_of_dice", "-p", "no:cacheprovider", "-p", "no:randomly"]
    options = ["-q", "-W", "ignore", "--tb=line", "--timeout=100", f"--junitxml={report}"]
    command = [sys.executable, "-m", "pytest", *plugins, *options, *(f"tests/{name}" for name in FILES)]
    subprocess.run(command, cwd=folder, env=environment, check=False, stdout=subprocess.DEVNULL)
    outcomes = {}
    for case in ElementTree.parse(report).iter("testcase"):
        told = [child for child in case if child.tag in ("failure", "error", "skipped")]
        message = (told[0].get("message") or "").strip().splitlines()[:1] if told else []
        outcome = "passed" if not told else "skipped" if told[0].tag == "skipped" else "failed: " + "".join(message)
        outcomes[f"{case.get('classname')}.{case.get('name')}"] = outcome
    return outcomes


# From here on: the plugin of pytest, inside the runs.


def pytest_configure() -> None:
    import dice_ml
    import sklearn.datasets
    from dice_ml.utils import helpers

    helpers.load_adult_income_dataset = adult
    sklearn.datasets.fetch_california_housing = housing
    if os.environ.get(SUBJECT):
        dice_ml.Dice = swapped


def swapped(data: Any, model: Any, method: str = "random", **options: Any) -> Any:
    """This package's explainer for each of DiCE's model-agnostic methods."""
    from relax_plugin import ReLAXConfig
    from relax_plugin.adapters.dice import Dice, ReLAXDice

    if method not in ("random", "genetic", "kdtree"):
        return Dice(data, model, method=method, **options)
    name = os.environ[SUBJECT]
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
    main()
