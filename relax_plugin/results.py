"""Counterfactuals: what was found for each query, with statuses, changes, sentences, JSON and HTML."""

import hashlib
import html
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from relax_plugin.arrays import Array, Booleans, Floats, Integers, Values
from relax_plugin.columns import EXACT, dtype_from_text, dtype_text
from relax_plugin.errors import InputError, SavedFileError
from relax_plugin.features import FeatureSpace, Rows
from relax_plugin.inference import refuse_unknown
from relax_plugin.tables import array_dtype, as_array

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from relax_plugin.base import CounterfactualExplainer
    from relax_plugin.blackbox import BlackBox
    from relax_plugin.search.steps import Steps

JSON_VERSION = 2  # 2 added a checksum and the dtype of arrays


@dataclass(eq=False)
class Counterfactuals:
    """The counterfactuals of a call: one slot for each of `n` wanted a query.

    Attributes
    ----------
    queries : DataFrame or array
        As they were handed in.
    values : array (queries, slots, features)
        Numbers in the user's unit, categories as positions; where nothing was found, the closest attempt.
    found : bool array (queries, slots)
        Whether the model's answer to the delivered row meets the goal and the row keeps every constraint.
    status, stage : str arrays (queries, slots)
        Why nothing was found, or "found"; which part of the method found it.
    before, after : arrays (queries,) and (queries, slots)
        The model's answers, as it writes them. `scores_before`, `scores_after` where it gives scores.
    rows_queried : int array (queries,)
        Rows the model was asked for each query, the query itself and the final confirmation included.
    seconds : float
    certificate : str array (queries,), optional
        What is proved about the optimum of each query (`relax_plugin.trees.floor.certify`), "" if nothing is.
    blackbox : BlackBox, optional
        The model that gave the answers, for `steps`. Files, pickles and copies are without it.
    """

    space: FeatureSpace
    queries: Rows
    values: Floats
    found: Booleans
    status: Array
    stage: Array
    before: Array
    after: Array
    scores_before: Floats | None
    scores_after: Floats | None
    rows_queried: Integers
    seconds: float
    certificate: Array | None = None
    blackbox: "BlackBox | None" = field(default=None, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        """All but the model, which may be large, or not to be pickled at all."""
        return vars(self) | {"blackbox": None}

    def __len__(self) -> int:
        return len(self.found)

    def __repr__(self) -> str:
        return (
            f"Counterfactuals({int(self.found.any(axis=1).sum())} of {len(self)} queries solved, "
            f"{self.found.shape[1]} wanted each, {self.rows_queried.mean() if len(self) else 0:.1f} model rows a query)"
        )

    @cached_property
    def start(self) -> Values:
        return self.space.values(self.queries)

    @cached_property
    def frame(self) -> pd.DataFrame:
        """The found counterfactuals, one row each: query_id (position), cf_id, then the features in their dtypes."""
        query, slot = np.nonzero(self.found)
        original = self.space.frame(self.queries).iloc[query]
        rows = self.space.restore(self.values[query, slot], taken(self.queries, query))
        rows = pd.DataFrame(rows, columns=pd.Index(self.space.names)) if isinstance(rows, np.ndarray) else rows
        rows = rows.set_axis(original.index).reset_index(drop=True)
        return pd.concat([pd.DataFrame({"query_id": query, "cf_id": slot}), rows], axis=1)

    @property
    def sparsity(self) -> Floats:
        """Number of changed features (queries, slots); NaN where nothing was found."""
        changed = (self.values != self.start[:, None, :]).sum(axis=2)
        return np.where(self.found, changed, np.nan)

    @property
    def proximity(self) -> Floats:
        """L1 distance in standardised space (queries, slots), a changed category counting 1; NaN if not found."""
        return np.where(self.found, self.space.distance(self.values, self.start[:, None, :]), np.nan)

    def changes(self) -> pd.DataFrame:
        """One row for each changed cell: query_id, cf_id, feature, from, to."""
        return self._changes.copy()

    @cached_property
    def _changes(self) -> pd.DataFrame:
        original = self.space.frame(self.queries).reset_index(drop=True)
        ids = self.frame[["query_id", "cf_id"]].to_numpy()
        columns: dict[str, list[Any]] = {"query_id": [], "cf_id": [], "feature": [], "from": [], "to": []}
        changed = self.values[ids[:, 0], ids[:, 1]] != self.start[ids[:, 0]]
        for j, name in enumerate(self.space.names):
            rows = np.flatnonzero(changed[:, j])
            columns["query_id"] += ids[rows, 0].tolist()
            columns["cf_id"] += ids[rows, 1].tolist()
            columns["feature"] += [name] * len(rows)
            columns["from"] += original[name].iloc[ids[rows, 0]].tolist()
            columns["to"] += self.frame[name].iloc[rows].tolist()
        tidy = pd.DataFrame({key: pd.Series(column, dtype=object) for key, column in columns.items()})
        tidy[["query_id", "cf_id"]] = tidy[["query_id", "cf_id"]].astype(int)
        return tidy.sort_values(["query_id", "cf_id"], kind="stable", ignore_index=True)

    def sentences(self, names: Mapping[Any, str] | None = None) -> list[str]:
        """One sentence a query: what would have to be different, or why nothing was found (first slot).

        `names` are other words for features, by the names they have in the space.
        """
        refuse_unknown("sentences(names=...)", names or {}, self.space.names)
        words = {**dict(zip(self.space.names, self.space.names, strict=True)), **(names or {})}
        by_query: dict[int, list[str]] = {}
        for change in self.changes().query("cf_id == 0").itertuples():
            part = f"{words[change.feature]} were {shown(change.to)} instead of {shown(change[4])}"
            by_query.setdefault(int(str(change.query_id)), []).append(part)
        sentences = []
        for query in range(len(self)):
            if not self.found[query, 0]:
                sentences.append(f"Query {query}: no counterfactual; {self.status[query, 0]}.")
            elif query not in by_query:
                sentences.append(f"Query {query}: the answer {shown(self.before[query])} meets the goal already.")
            else:
                old, new = shown(self.before[query]), shown(self.after[query, 0])
                same = self.before[query] == self.after[query, 0]  # with `besides_query`, or a higher probability
                would = f"still be {new}" if same else f"be {new} instead of {old}"
                sentences.append(f"Query {query}: if {' and '.join(by_query[query])}, the answer would {would}.")
        if self.certificate is None:
            return sentences
        proofs = [f" Proved: {proof}." if proof else "" for proof in self.certificate]
        return [text + proof for text, proof in zip(sentences, proofs, strict=True)]

    def steps(self, query: int = 0, explainer: "CounterfactualExplainer | None" = None, *, cf_id: int = 0) -> "Steps":
        """In which order to make the changes of one counterfactual, with the model's score and answer after each.

        Each step is the one that does most towards the answer, given those before it. The model is asked for this:
        k (k + 1) / 2 - 1 rows for k changes, twice as many where scores and `predict` are two questions. No other
        count holds these rows. `print` shows the steps; where nothing is to be done, or nothing was found, there are
        none, and the text says why.

        Parameters
        ----------
        query : int
            Position of the query.
        explainer : CounterfactualExplainer, optional
            Fitted to the model, for a result that was read from a file or is a copy: those hold no model.
        cf_id : int
            Which of the query's counterfactuals.
        """
        from relax_plugin.search.steps import model_of, ordered_steps

        self._refuse_unknown_query(query)
        if not isinstance(cf_id, int | np.integer) or not 0 <= cf_id < self.found.shape[1]:
            raise InputError(f"there is no counterfactual {cf_id!r}; a query has {self.found.shape[1]}, from 0 on.")
        return ordered_steps(self, model_of(self, explainer), int(query), int(cf_id))

    def to_array(self) -> Array:
        """The counterfactuals as an array (queries, slots, features), NaN where nothing was found.

        Of float64, or of objects where that does not hold every cell: categories, whole numbers from 2^53 on.
        """
        exact = not self.space.is_categorical.any() and (np.abs(self.start) < EXACT).all()
        dtype: Any = np.float64 if exact else object
        array = np.full(self.values.shape, np.nan, dtype=dtype)
        query, slot = np.nonzero(self.found)
        array[query, slot] = self.frame[self.space.names].to_numpy(dtype=dtype)
        return array

    def to_json(self) -> str:
        """Everything as JSON text; `from_json` reads it back."""
        queries = self.space.frame(self.queries)
        arrays = {
            "values": self.values,
            "found": self.found,
            "status": self.status,
            "stage": self.stage,
            "before": self.before,
            "after": self.after,
            "scores_before": self.scores_before,
            "scores_after": self.scores_after,
            "rows_queried": self.rows_queried,
        }
        if self.certificate is not None:
            arrays["certificate"] = self.certificate
        data = {
            "format": "relax_plugin.Counterfactuals",
            "version": JSON_VERSION,
            "space": self.space.to_dict(),
            "queries": {
                "index": list(queries.index),
                "array": str(self.queries.dtype) if isinstance(self.queries, np.ndarray) else "object",
                "columns": [queries[name].tolist() for name in self.space.names],
                "dtypes": [dtype_text(queries[name].dtype) for name in self.space.names],
            },
            "seconds": self.seconds,
            "slots": self.found.shape[1],
            **{name: None if array is None else array.tolist() for name, array in arrays.items()},
        }
        text = json.dumps(
            _without_nan(data), default=lambda value: value.item() if hasattr(value, "item") else str(value)
        )
        return f'{text[:-1]}, "sha256": "{_checksum(text)}"}}'

    @classmethod
    def from_json(cls, text: str) -> "Counterfactuals":
        """Read what `to_json` wrote."""
        try:
            data = json.loads(text)
        except (ValueError, TypeError, RecursionError) as error:
            raise SavedFileError(f"this is not JSON, or it is cut off: {error}.") from error
        if not isinstance(data, dict) or data.get("format") != "relax_plugin.Counterfactuals":
            raise SavedFileError("this JSON was not written by Counterfactuals.to_json.")
        if data.get("version") != JSON_VERSION:
            raise SavedFileError(f"the JSON has version {data.get('version')}; this package reads {JSON_VERSION}.")
        checksum = data.pop("sha256", None)
        if checksum != _checksum(json.dumps(data)):
            raise SavedFileError("the JSON is damaged or was changed: its checksum is not that of its content.")
        try:
            return cls._from_data(data)
        except Exception as error:  # whatever was written under a right checksum
            raise SavedFileError(f"the JSON is damaged or incomplete: {type(error).__name__} {error}.") from error

    @classmethod
    def _from_data(cls, data: dict[str, Any]) -> "Counterfactuals":
        space = FeatureSpace.from_dict(data["space"])
        index = pd.Index([tuple(key) if isinstance(key, list) else key for key in data["queries"]["index"]])
        columns = {}
        for feature, column, text in zip(
            space.features, data["queries"]["columns"], data["queries"]["dtypes"], strict=True
        ):
            dtype = dtype_from_text(text, feature.categories, feature.ordered)
            columns[feature.name] = pd.Series(pd.array(column, dtype=dtype), index=index, dtype=dtype)
        queries = pd.DataFrame(columns, index=index)
        space.values(queries)  # refuses what is not of the space
        numbers = {name: _floats(data[name]) for name in ("values", "scores_before", "scores_after")}
        shape = (len(queries), data["slots"])
        _check_numbers(space, data, numbers, shape)
        proofs = data.get("certificate")
        return cls(
            space=space,
            queries=queries if space.container == "frame" else as_array(queries, array_dtype(data["queries"]["array"])),
            values=np.asarray(numbers["values"]).reshape(*shape, len(space)),
            found=np.asarray(data["found"], dtype=bool).reshape(shape),
            status=np.asarray(data["status"], dtype=object).reshape(shape),
            stage=np.asarray(data["stage"], dtype=object).reshape(shape),
            before=_labels(data["before"]).reshape(shape[0]),
            after=_labels(data["after"]).reshape(shape),
            scores_before=numbers["scores_before"],
            scores_after=numbers["scores_after"],
            rows_queried=np.asarray(data["rows_queried"], dtype=np.int64).reshape(shape[0]),
            seconds=data["seconds"],
            certificate=None if proofs is None else np.asarray(proofs, dtype=object).reshape(shape[0]),
        )

    def _repr_html_(self) -> str:
        """The first queries with their counterfactuals below them, changed cells in bold."""
        names = "".join(f"<th>{html.escape(str(name))}</th>" for name in self.space.names)
        lines = [f"<p>{html.escape(repr(self))}</p><table><tr><th></th>{names}<th>answer</th></tr>"]
        original = self.space.frame(self.queries)
        positions = self.frame.groupby(["query_id", "cf_id"]).indices
        for query in range(min(len(self), 10)):
            cells = "".join(f"<td>{html.escape(shown(v))}</td>" for v in original.iloc[query])
            lines.append(f"<tr><td>query {query}</td>{cells}<td>{html.escape(shown(self.before[query]))}</td></tr>")
            for slot in range(self.found.shape[1]):
                if not self.found[query, slot]:
                    note = html.escape(str(self.status[query, slot]))
                    lines.append(f"<tr><td></td><td colspan='{len(self.space) + 1}'><i>{note}</i></td></tr>")
                    continue
                row = self.frame[self.space.names].iloc[positions[(query, slot)][0]]
                changed = self.values[query, slot] != self.start[query]
                cells = "".join(
                    f"<td><b>{html.escape(shown(v))}</b></td>" if change else "<td style='opacity:.5'>=</td>"
                    for v, change in zip(row, changed, strict=True)
                )
                answer = html.escape(shown(self.after[query, slot]))
                lines.append(f"<tr><td>&rarr;</td>{cells}<td>{answer}</td></tr>")
            if self.certificate is not None and self.certificate[query]:
                proof = html.escape(f"Proved: {self.certificate[query]}.")
                lines.append(f"<tr><td></td><td colspan='{len(self.space) + 1}'><i>{proof}</i></td></tr>")
        return "".join(lines) + "</table>"

    def plot(self, query: int = 0) -> "Figure":
        """The changes of one query's counterfactuals as arrows, with the values they lead from and to."""
        from relax_plugin.pages.drawing import changes_as_arrows

        self._refuse_unknown_query(query)
        changes = self.changes().query("query_id == @query")
        position = {name: j for j, name in enumerate(self.space.names)}
        features = changes["feature"].map(position).to_numpy(dtype=int)
        moved = self.values[query, changes["cf_id"], features] - self.start[query, features]
        categorical = self.space.is_categorical[features]
        changes = changes.assign(move=np.where(categorical, 1.0, moved / self.space.scale[features]))
        changes = changes.assign(categorical=categorical, **{end: changes[end].map(shown) for end in ("from", "to")})
        return changes_as_arrows(changes, *self._told(query))

    def _refuse_unknown_query(self, query: int) -> None:
        if not isinstance(query, int | np.integer) or not 0 <= query < len(self):
            raise InputError(f"there is no query {query!r}; there are {len(self)}, from 0 on.")

    def _told(self, query: int) -> tuple[str, str]:
        """A query's sentence as a title, and what is written where nothing is to be drawn."""
        found, before = self.found[query], shown(self.before[query])
        if not found.any():
            status = str(self.status[query, 0])
            return f"Query {query}: no counterfactual, the answer stays {before}", f"{status[:1].upper()}{status[1:]}."
        counts = self.sparsity[query][found].astype(int)
        low, high = int(counts.min()), int(counts.max())
        if high == 0:
            return f"Query {query}: the answer {before} meets the goal already", "Nothing has to change."
        answers = " or ".join(dict.fromkeys(shown(answer) for answer in self.after[query][found]))
        changed = f"{low} feature{'' if low == 1 else 's'}" if low == high else f"{low} to {high} features"
        wanted = "" if len(found) == 1 else f" ({found.sum()} of {len(found)} counterfactuals found)"
        title = f"Query {query}: the answer would be {answers} instead of {before}"
        return f"{title}\nif {changed} were different{wanted}", ""


def concatenate(parts: list[Counterfactuals], queries: Rows, order: Any = slice(None)) -> Counterfactuals:
    """The results of batches as one; `order` says where each query is, if the batches are not consecutive."""
    first = parts[0]

    def joined(name: str) -> Any:
        arrays = [getattr(part, name) for part in parts]
        return None if arrays[0] is None else np.concatenate(arrays)[order]

    names = ["values", "found", "status", "stage", "before", "after", "scores_before", "scores_after", "rows_queried"]
    names.append("certificate")
    seconds = sum(part.seconds for part in parts)
    arrays = {name: joined(name) for name in names}
    return Counterfactuals(first.space, queries, **arrays, seconds=seconds, blackbox=first.blackbox)


def taken(queries: Rows, index: Any) -> Rows:
    """Some of the rows, in whatever container they are."""
    return queries.iloc[index] if isinstance(queries, pd.DataFrame) else np.asarray(queries[index])


def shown(value: Any) -> str:
    """A cell or an answer as people read it: numbers in at most six digits."""
    if isinstance(value, float | np.floating):
        return f"{value:.6g}"
    return str(value)


def _check_numbers(space: FeatureSpace, data: dict[str, Any], numbers: dict[str, Any], shape: tuple[int, int]) -> None:
    """Refuse numbers that no call could have left, though shapes may fit."""
    values = np.asarray(numbers["values"]).reshape(*shape, len(space))
    counts = np.array([len(f.categories) if f.kind == "categorical" else np.inf for f in space.features])
    codes = ~space.is_categorical | ((values >= 0) & (values < counts) & (values % 1 == 0))
    whole = all(isinstance(rows, int) and rows >= 0 for rows in data["rows_queried"])
    flags = all(isinstance(found, bool) for row in data["found"] for found in row)
    sound = shape[1] >= 1 and np.isfinite(values).all() and codes.all() and whole and flags
    seconds = data["seconds"]
    sound = sound and isinstance(seconds, int | float) and 0 <= seconds < np.inf
    for name, outer in (("scores_before", shape[:1]), ("scores_after", shape)):
        scores = numbers[name]
        if scores is not None and shape[0] > 0:
            sound = sound and scores.shape[:-1] == outer and np.isfinite(scores).all()
    if not sound:
        raise InputError("a number among its results is none that a call could have left.")


def _checksum(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _labels(values: Any) -> Array:
    array = np.asarray(values)
    return array if array.dtype.kind in "if" else np.asarray(values, dtype=object)


def _floats(values: Any) -> Any:
    return None if values is None else np.asarray(values, dtype=np.float64)


def _without_nan(data: Any) -> Any:
    if isinstance(data, dict):
        return {key: _without_nan(value) for key, value in data.items()}
    if isinstance(data, list):
        return [_without_nan(value) for value in data]
    return None if isinstance(data, float) and np.isnan(data) else data
