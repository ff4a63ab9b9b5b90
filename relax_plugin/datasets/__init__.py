"""The data sets of the paper and three more, embedded with their attributions, and generators of others.

`load` gives a data set. The COVID-19 table and COMPAS are not embedded: `fetch_covid` and `fetch_compas` put them where
`load` finds them.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

import pandas as pd

from relax_plugin.datasets import compas, covid, generators
from relax_plugin.datasets.compas import fetch_compas
from relax_plugin.datasets.covid import fetch_covid
from relax_plugin.datasets.generators import clusters, credit, mixed, rare_class, simplex, waveform
from relax_plugin.errors import UnknownNameError, did_you_mean

if TYPE_CHECKING:
    from relax_plugin.features import FeatureSpace

__all__ = [
    "Dataset",
    "available",
    "clusters",
    "credit",
    "fetch_compas",
    "fetch_covid",
    "load",
    "mixed",
    "rare_class",
    "simplex",
    "waveform",
]

CATEGORICAL_SUFFIX = ":c"  # ends the name of a column of strings in the embedded files


@dataclass(frozen=True, eq=False)
class Dataset:
    """A table of features with its target and the constraints that go with it.

    Parameters
    ----------
    name : str
    X : DataFrame
        The features, one row per instance, in the units of the source; categories are strings. Cells of `adult` are
        missing (NaN) where they were not told.
    y : Series
        Class labels (integers) or, for regression, the numbers to predict.
    task : "classification" or "regression"
    constraints : mapping
        The keyword arguments of `FeatureSpace.infer` that belong to this data set: what may change, rules, and labels.
    origin : str
        Who collected the data, where it was published, and its licence.
    """

    name: str
    X: pd.DataFrame
    y: "pd.Series[Any]"
    task: Literal["classification", "regression"]
    constraints: Mapping[str, Any]
    origin: str

    @property
    def space(self) -> "FeatureSpace":
        """The feature space of all rows, under the data set's constraints."""
        from relax_plugin.features import FeatureSpace

        return FeatureSpace.infer(self.X, **self.constraints)

    @property
    def words(self) -> dict[str, dict[str, str]]:
        """Words for the codes of the columns that hold codes: `load("german").words["status"]["A11"]`."""
        labels = self.constraints.get("labels", {})
        return {name: dict(given[1]) for name, given in labels.items() if not isinstance(given, str)}


def available() -> list[str]:
    """Names that `load` gives without more ado, on any machine; `covid` and `compas` have to be fetched first.

    Returns
    -------
    list of str
    """
    return [name for name in _sources() if name != "compas"]


def load(name: str) -> Dataset:
    """Load a data set by name; nothing is downloaded.

    Parameters
    ----------
    name : str
        One of `available()`. `wave2` and `wave3` are generated, 5000 rows with seed 0, in two and three classes;
        `classes3` and the like by `clusters`, `mixed`, `rare_class`, `credit` and `simplex`, with seed 0, too.
        Or `covid` or `compas`, which are read from the folder in the environment variable RELAX_DATA_HOME (see
        `fetch_covid` and `fetch_compas`).

    Returns
    -------
    Dataset

    Raises
    ------
    UnknownNameError
        If there is no data set of that name.
    MissingDataError
        If `covid` or `compas` is not in that folder, or is not the published table.
    """
    sources = _sources()
    if name == "covid":
        table = covid.load_covid()
        y = table.pop(covid.TARGET)
        return Dataset(name, table, y, "classification", MappingProxyType(dict(covid.CONSTRAINTS)), covid.ORIGIN)
    if name not in sources:
        raise UnknownNameError(f"There is no data set {name!r}; {did_you_mean(name, [*sources, 'covid'])}")
    source = sources[name]
    constraints = _read(source["constraints"])
    if "generated" in source:
        function, arguments = source["generated"]
        table, y = getattr(generators, function)(**arguments)
    elif name == "compas":
        table = compas.load_compas()
        y = table.pop(compas.TARGET)
    else:
        with resources.files(__name__).joinpath(f"{name}.csv.gz").open("rb") as file:
            table = pd.read_csv(file, compression="gzip")
        y = table.pop("target")
        marked = [column for column in table.columns if column.endswith(CATEGORICAL_SUFFIX)]
        if marked:
            table.columns = table.columns.str.removesuffix(CATEGORICAL_SUFFIX)
            constraints["categorical"] = tuple(column.removesuffix(CATEGORICAL_SUFFIX) for column in marked)
    return Dataset(name, table, y, source["task"], MappingProxyType(constraints), source["origin"])


def _sources() -> dict[str, dict[str, Any]]:
    """Where each table is from, what may change in it, and why so: `sources.json`."""
    told: dict[str, dict[str, Any]] = json.loads(resources.files(__name__).joinpath("sources.json").read_bytes())
    return told


def _read(constraints: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of `FeatureSpace.infer`. Labels of codes are pairs in the file: JSON has no keys that are numbers."""
    read = {key: tuple(value) if isinstance(value, list) else dict(value) for key, value in constraints.items()}
    if "labels" in read:
        labels = constraints["labels"].items()
        read["labels"] = {name: own if isinstance(own, str) else (own[0], dict(own[1])) for name, own in labels}
    return read
