"""CEval's face: our results as CEval reads them, any model as CEval asks it: an independent judge scores them.

CEval (Bayrak and Bach, 2024) computes its own validity, sparsity, proximity, redundancy and more. It encodes categories
by numbers before it asks a model, row by row; what is asked here is translated back into the columns of the model.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from relax_plugin.arrays import Floats, Integers
from relax_plugin.errors import InputError, UnsupportedError, import_extra
from relax_plugin.features import Rows
from relax_plugin.results import Counterfactuals

INSTANCE = "instance"  # CEval's column that says whose counterfactual a row is


def judged(
    results: Mapping[str, Counterfactuals],
    data: Rows,
    *,
    k_nn: int = 5,
    distance: str | None = None,
    constraints: Sequence[str] | None = None,
    label: str = "label",
) -> Any:
    """A `ceval.CEval` that has scored the results; its `comparison_table` has a line for each.

    Queries without a counterfactual are in no row of it: CEval's validity is a share of the counterfactuals, `count`
    how many there are for each query. Their product is the share of the queries, if one is wanted for each.

    Parameters
    ----------
    results : mapping of a name to Counterfactuals
        Of the same queries and the same classifier, fresh from `explain`: files are without the model.
    data : DataFrame or array
        Training rows; their labels are the model's answers.
    k_nn : int
        Neighbours of CEval's metrics about training rows.
    distance : str, optional
        A metric of scipy's `cdist`, such as "cityblock", in place of CEval's own mixture.
    constraints : list of str, optional
        Columns that must not change.
    label : str
        What the column with the answers is called; no other column may be called so.
    """
    if not results:
        raise InputError("there are no results to score; give a mapping of names to Counterfactuals.")
    first = next(iter(results.values()))
    queries, model = first.space.frame(first.queries), Asked(first, label)
    training = first.space.frame(data).reset_index(drop=True)
    judge = _library("ceval").CEval(
        samples=model.labelled(queries),
        label=label,
        data=model.labelled(training),
        model=_library("ceval.wrappers").GenericWrapper(model.predict, model.shares),
        k_nn=k_nn,
        distance=distance,
        constraints=None if constraints is None else list(constraints),
    )
    model.encoder = judge.encoder
    model.remember(training)
    for name, result in results.items():
        if not result.space.frame(result.queries).reset_index(drop=True).equals(queries.reset_index(drop=True)):
            raise InputError(f"the result {name!r} has other queries than the first; score it apart.")
        rows, mode = explanations(name, result, model)
        for known in (queries, rows.drop(columns=[INSTANCE, label], errors="ignore")):
            model.remember(known)
        judge.add_explainer(name, rows, "generated-cf", mode)
    return judge


def explanations(name: str, result: Counterfactuals, model: "Asked") -> tuple[pd.DataFrame, str]:
    """The found counterfactuals of a result as `CEval.add_explainer` takes them, and its mode."""
    if not result.found.any():
        raise InputError(f"the result {name!r} has no counterfactual at all: there is nothing that CEval could score.")
    rows = model.labelled(result.frame[result.space.columns])
    if result.found.shape[1] == 1 and result.found.all():
        return rows, "1to1"
    return rows.assign(**{INSTANCE: result.frame["query_id"].to_numpy()}), "1toN"


class Asked:
    """The model of a result, asked in CEval's numbers; an answer that is known is not asked for again.

    Parameters
    ----------
    result : Counterfactuals
        Fresh from `explain`.
    label : str
        The name of the column with the answers.
    """

    def __init__(self, result: Counterfactuals, label: str) -> None:
        if result.blackbox is None:
            raise InputError("this result is from a file or a copy, without its model; score the result of `explain`.")
        if result.blackbox.task == "regression":
            raise UnsupportedError("CEval scores counterfactuals of classifiers; this model is a regressor.")
        self.space, self.blackbox, self.label = result.space, result.blackbox.for_call(), label
        clash = {label, INSTANCE} & {str(column) for column in self.space.columns}
        if clash:
            raise InputError(
                f"a column is called {min(clash)!r}, which CEval needs for itself; rename it, or give label=."
            )
        self.dtypes = self.space.frame(result.queries).dtypes
        self.encoder: Any = None  # CEval's, once it is fitted
        self.known: dict[bytes, int] = {}

    def labelled(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Rows with the model's answers in a further column: positions of classes, which is how CEval writes them."""
        return _as_objects(rows).assign(**{self.label: self._answers(rows)})

    def _answers(self, rows: pd.DataFrame) -> Integers:
        asked: Any = rows.to_numpy() if self.space.container == "array" else rows
        return np.asarray(self.blackbox.confirm(asked).output, dtype=np.int64)

    def remember(self, rows: pd.DataFrame) -> None:
        """Ask the model about rows at once that CEval will ask about one by one."""
        rows = rows.astype(self.dtypes)
        codes = self.encoder.transform(_as_objects(rows)).to_numpy(dtype=np.float64)
        back = self._decoded(codes)
        for column in rows.columns:
            lost = (back[column].to_numpy() != rows[column].to_numpy()) & rows[column].notna().to_numpy()
            if lost.any():
                cell = rows[column].iloc[int(lost.argmax())]
                raise InputError(f"column {column!r} holds {cell!r}, which no row of data has; give CEval all of them.")
        keys = [code.tobytes() for code in codes]
        self.known |= dict(zip(keys, self._answers(rows).tolist(), strict=True))

    def _decoded(self, codes: Floats) -> pd.DataFrame:
        rows: pd.DataFrame = self.encoder.inverse_transform(pd.DataFrame(codes, columns=pd.Index(self.space.columns)))
        return rows.astype(self.dtypes)

    def predict(self, codes: Any) -> Integers:
        """Positions of classes, as CEval asks for them."""
        rows = np.atleast_2d(np.asarray(codes, dtype=np.float64))
        keys = [row.tobytes() for row in rows]
        new = [place for place, key in enumerate(keys) if key not in self.known]
        if new:
            answers = self._answers(self._decoded(rows[new])).tolist()
            self.known |= dict(zip((keys[place] for place in new), answers, strict=True))
        return np.array([self.known[key] for key in keys], dtype=np.int64)

    def shares(self, codes: Any) -> Floats:
        """1 for the class that the model gives a row: of probabilities CEval takes the largest, which may be a tie."""
        assert self.blackbox.classes is not None
        return np.eye(len(self.blackbox.classes))[self.predict(codes)]


def _as_objects(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows whose columns are numbers or objects, which is all that CEval and gower know."""
    numbers = set(rows.select_dtypes("number").columns)
    return rows.reset_index(drop=True).astype({name: object for name in rows.columns if name not in numbers})


def _library(name: str) -> Any:
    return import_extra(name, "CEval's face needs ceval", "ceval")
