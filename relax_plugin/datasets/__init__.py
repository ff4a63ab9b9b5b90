"""The data sets of the paper, embedded with their attributions, and a generator for the waveform data.

`load` gives a data set. The COVID-19 table is not embedded: `fetch_covid` puts it where `load` finds it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd

from relax_plugin.datasets import covid
from relax_plugin.datasets.covid import fetch_covid
from relax_plugin.errors import InputError, UnknownNameError, did_you_mean

if TYPE_CHECKING:
    from relax_plugin.features import FeatureSpace

__all__ = ["Dataset", "available", "fetch_covid", "load", "waveform"]

TaskKind = Literal["classification", "regression"]

CATEGORICAL_SUFFIX = ":c"  # ends the name of a column of strings in the embedded files
WAVEFORM_ROWS = 5000  # ReLAX, table of data sets
WAVEFORM_CLASSES = {"wave2": 2, "wave3": 3}
WAVEFORM_ORIGIN = (
    "Generated after L. Breiman, J. H. Friedman, R. A. Olshen and C. J. Stone, "
    "Classification and Regression Trees (1984)."
)


@dataclass(frozen=True)
class _Source:
    """What is known of an embedded file beside its cells."""

    task: TaskKind
    origin: str
    constraints: Mapping[str, Any] = field(default_factory=dict)


_EMBEDDED = {
    "breast_cancer": _Source(
        "classification",
        "Wisconsin Breast Cancer (original), W. H. Wolberg, University of Wisconsin Hospitals; UCI Machine Learning "
        "Repository, CC BY 4.0. Target 1 is malignant. The 16 of 699 rows with a missing value were dropped.",
    ),
    "diabetes": _Source(
        "classification",
        "Pima Indians Diabetes, National Institute of Diabetes and Digestive and Kidney Diseases; UCI Machine Learning "
        "Repository. Target 1 is positive. Zeros that stand for missing values are kept.",
    ),
    "sonar": _Source(
        "classification",
        "Connectionist Bench (Sonar, Mines vs. Rocks), R. P. Gorman and T. J. Sejnowski; UCI Machine Learning "
        "Repository, CC BY 4.0. Target 1 is a mine.",
    ),
    "boston": _Source(
        "regression",
        "Boston Housing, D. Harrison and D. L. Rubinfeld, Hedonic housing prices and the demand for clean air (1978); "
        "StatLib. The target is the median value of homes, in thousands of dollars. Column b encodes a racial share "
        "of the population: the data set is here to compare with the paper, not to draw conclusions about housing.",
    ),
    "german": _Source(
        "classification",
        "Statlog (German Credit Data), H. Hofmann, Universität Hamburg; UCI Machine Learning Repository, CC BY 4.0. "
        "Target 1 is bad credit. Column personal joins marital status and sex. Not in the paper: the mixed-type case.",
        {"immutable": ("age", "personal")},
    ),
}


@dataclass(frozen=True, eq=False)
class Dataset:
    """A table of features with its target and the constraints that go with it.

    Parameters
    ----------
    name : str
    X : DataFrame
        The features, one row per instance, in the units of the source; categories are strings.
    y : Series
        Class labels (integers) or, for regression, the numbers to predict.
    task : "classification" or "regression"
    constraints : mapping
        The keyword arguments of `FeatureSpace.infer` that belong to this data set.
    origin : str
        Who collected the data, where it was published, and its licence.
    """

    name: str
    X: pd.DataFrame
    y: "pd.Series[Any]"
    task: TaskKind
    constraints: Mapping[str, Any]
    origin: str

    @property
    def space(self) -> "FeatureSpace":
        """The feature space of all rows, under the data set's constraints."""
        from relax_plugin.features import FeatureSpace

        return FeatureSpace.infer(self.X, **self.constraints)


def available() -> list[str]:
    """Names that `load` gives without more ado, on any machine; `covid` has to be fetched first.

    Returns
    -------
    list of str
    """
    return [*_EMBEDDED, *WAVEFORM_CLASSES]


def load(name: str) -> Dataset:
    """Load a data set by name; nothing is downloaded.

    Parameters
    ----------
    name : str
        One of `available()`. `wave2` and `wave3` are generated, 5000 rows with seed 0, in two and three classes.
        Or `covid`, which is read from the folder in the environment variable RELAX_DATA_HOME (see `fetch_covid`).

    Returns
    -------
    Dataset

    Raises
    ------
    UnknownNameError
        If there is no data set of that name.
    MissingDataError
        If `covid` is not in that folder, or is not the published table.
    """
    if name == "covid":
        table = covid.load_covid()
        y = table.pop(covid.TARGET)
        return Dataset(name, table, y, "classification", MappingProxyType(dict(covid.CONSTRAINTS)), covid.ORIGIN)
    if name in WAVEFORM_CLASSES:
        X, y = waveform(WAVEFORM_ROWS, classes=WAVEFORM_CLASSES[name], seed=0)
        return Dataset(name, X, y, "classification", MappingProxyType({}), WAVEFORM_ORIGIN)
    if name not in _EMBEDDED:
        raise UnknownNameError(f"There is no data set {name!r}; {did_you_mean(name, [*available(), 'covid'])}")

    source = _EMBEDDED[name]
    with resources.files(__name__).joinpath(f"{name}.csv.gz").open("rb") as file:
        table = pd.read_csv(file, compression="gzip")
    y = table.pop("target")
    constraints = dict(source.constraints)
    marked = [column for column in table.columns if column.endswith(CATEGORICAL_SUFFIX)]
    if marked:
        table.columns = table.columns.str.removesuffix(CATEGORICAL_SUFFIX)
        constraints["categorical"] = tuple(column.removesuffix(CATEGORICAL_SUFFIX) for column in marked)
    return Dataset(name, table, y, source.task, MappingProxyType(constraints), source.origin)


def waveform(n: int, classes: int = 3, seed: int = 0) -> tuple[pd.DataFrame, "pd.Series[Any]"]:
    """Generate the waveform data of Breiman et al., Classification and Regression Trees (1984).

    Each class is a random convex combination of two of three triangular waves, sampled at 21 points, plus noise
    of N(0, 1) at each point. Values are rounded to 4 decimals, as in the published tables.

    Parameters
    ----------
    n : int
        Number of rows, at least 1.
    classes : int
        2 (classes 0 and 1, which share a wave) or 3; all are equally likely.
    seed : int

    Returns
    -------
    X : DataFrame of shape (n, 21)
        Columns `x1` to `x21`.
    y : Series of int
        The class, from 0.
    """
    if n < 1:
        raise InputError(f"n is {n}, but at least 1 row has to be generated.")
    if classes not in (2, 3):
        raise InputError(f"classes is {classes}, but the waveform data has 2 or 3 classes.")
    generator = np.random.default_rng(seed)
    position = np.arange(1, 22)
    waves = np.maximum(6.0 - np.abs(position - np.array([[11], [15], [7]])), 0.0)  # h1, h2, h3 by their peaks
    mixed_waves = np.array([[0, 1], [0, 2], [1, 2]])  # the two waves of each class

    label = generator.integers(classes, size=n)
    share = generator.uniform(size=(n, 1))
    first, second = waves[mixed_waves[label, 0]], waves[mixed_waves[label, 1]]
    values = share * first + (1.0 - share) * second + generator.standard_normal((n, position.size))
    X = pd.DataFrame(values.round(4), columns=[f"x{i}" for i in position])
    return X, pd.Series(label, name="target")
