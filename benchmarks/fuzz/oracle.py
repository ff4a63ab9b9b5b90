"""The oracle: judges what was delivered by the user's own rows, the raw cells and the model's own answers.

It shares no code with the package. Every check yields `(kind, text)`: the kind names the promise that was broken.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.fuzz.laws import Law

Broken = Iterator[tuple[str, str]]
ALREADY = "the query meets the goal already"


def plain(column: Any) -> np.ndarray[Any, Any]:
    """The cells of a column as an array: numbers in their own dtype, all else as objects."""
    if isinstance(column, np.ndarray):
        return column if column.dtype.kind in "iuf" else column.astype(object)
    dtype = column.dtype
    if pd.api.types.is_numeric_dtype(dtype) and not pd.api.types.is_bool_dtype(dtype):
        return column.to_numpy(dtype=getattr(dtype, "numpy_dtype", dtype))
    return column.to_numpy(dtype=object)


def cells_of(rows: Any) -> list[np.ndarray[Any, Any]]:
    """The columns of a table or array; those of an object array that hold numbers only are numbers."""
    if isinstance(rows, pd.DataFrame):
        return [plain(rows.iloc[:, j]) for j in range(rows.shape[1])]
    columns = [plain(rows[:, j]) for j in range(rows.shape[1])]
    return [as_numbers(column) for column in columns]


def as_numbers(column: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    kinds = {type(cell) for cell in column.tolist()} if column.dtype == object else set()
    if kinds == {int}:
        return np.array(column.tolist(), dtype=np.int64)
    return np.array(column.tolist(), dtype=np.float64) if kinds and kinds <= {int, float} else column


def same_cells(a: Any, b: Any) -> Any:
    """Where two columns hold the same value, whatever its sign of zero or its type."""
    if a.dtype == object or b.dtype == object:
        return np.array([x == y for x, y in zip(a.tolist(), b.tolist(), strict=True)], dtype=bool)
    return a == b


class Oracle:
    """Judges one result of `explain`."""

    def __init__(self, case: Any, result: Any) -> None:
        self.case, self.result = case, result
        self.model, self.laws = case.model, case.laws
        self.queries, self.names = case.queries, case.names
        self.count, self.slots = len(case.queries), case.call.n
        self.before = self.model.predict(self.queries)
        everyone = np.arange(self.count)
        self.already = case.wanted.met(self.model, self.before, self.queries, everyone, self.count)
        self.original = cells_of(self.queries)
        self.frame = result.frame

    def check(self) -> Broken:
        yield from self.shapes()
        self.owner = self.frame["query_id"].to_numpy()
        self.delivered_rows = self.rows_of(self.frame)
        self.delivered = cells_of(self.delivered_rows)
        self.old = [column[self.owner] for column in self.original]
        self.changed = np.column_stack(
            [~same_cells(old, new) for old, new in zip(self.old, self.delivered, strict=True)]
        ).reshape(len(self.frame), len(self.names))
        yield from self.statuses()
        yield from self.cells()
        yield from self.constraints()
        yield from self.answers()
        yield from self.distinct()
        yield from self.views()
        yield from self.attempts()

    def shapes(self) -> Broken:
        result, shape = self.result, (self.count, self.slots)
        texts = shape if self.slots > 1 else shape[:1]
        for name, right in (("found", shape), ("status", texts), ("stage", texts), ("after", shape)):
            if getattr(result, name).shape != right:
                yield "shape", f"{name} has shape {getattr(result, name).shape}, not {right}"
        if len(result) != self.count or len(result.before) != self.count or len(result.rows_queried) != self.count:
            yield "shape", f"{len(result)} entries for {self.count} queries"
        if len(self.frame) != result.found.sum():
            yield "shape", f"{len(self.frame)} rows in frame, {result.found.sum()} found"
        if not np.isfinite(result.values).all():
            yield "finite", "values are not finite"
        places = np.argwhere(result.found)
        if not np.array_equal(places, self.frame[["query_id", "cf_id"]].to_numpy()):
            yield "shape", "query_id and cf_id of frame are not the places of what is found"
        if (result.found[:, 1:] & ~result.found[:, :-1]).any():
            yield "shape", "a slot is found behind one that is not"
        if list(self.frame.columns) != ["query_id", "cf_id", *self.names]:
            yield "shape", f"frame has the columns {list(self.frame.columns)}"

    def rows_of(self, frame: pd.DataFrame) -> Any:
        """The delivered rows in the container of the queries."""
        rows = frame[self.names]
        if isinstance(self.queries, pd.DataFrame):
            return rows
        dtype = self.queries.dtype
        return rows.to_numpy(dtype=object).astype(str) if dtype.kind == "U" else rows.to_numpy(dtype=dtype)

    def statuses(self) -> Broken:
        result = self.result
        if result.status.size != result.found.size:
            return  # `shapes` has told
        for (query, slot), status in np.ndenumerate(result.statuses):
            found = result.found[query, slot]
            if not isinstance(status, str) or not status.strip():
                yield "status", f"query {query} slot {slot} has the status {status!r}"
            elif not found and status == "found":
                yield "status", f"query {query} slot {slot} is not found, and its status is 'found'"
            elif found and status not in ("found", ALREADY):
                yield "status", f"query {query} slot {slot} is found, and its status is {status!r}"
            elif self.already[query] and slot == 0 and not (found and status == ALREADY):
                yield "already", f"query {query} meets the goal already; found {found}, status {status!r}"
            elif not self.already[query] and status == ALREADY:
                yield "already", f"query {query} does not meet the goal, and its status is {status!r}"
        if (result.rows_queried <= 0).any():
            yield "rows", "a query cost no model row"

    def cells(self) -> Broken:
        """Unchanged cells are the query's own, in dtype, bits and type; changed ones have the column's."""
        for j, name in enumerate(self.names):
            if isinstance(self.queries, pd.DataFrame) and self.frame[name].dtype != self.queries[name].dtype:
                yield "dtype", f"{name!r} is delivered as {self.frame[name].dtype}, not {self.queries[name].dtype}"
            old, new, changed = self.old[j], self.delivered[j], self.changed[:, j]
            if old.dtype.kind == "f" and new.dtype.kind == "f":
                flipped = (np.signbit(old) != np.signbit(new)) & ~changed
                if flipped.any():
                    yield "bits", f"{name!r}: an unchanged zero has another sign in row {self.place(flipped)}"
        raw_old = self.queries.iloc[self.owner] if isinstance(self.queries, pd.DataFrame) else self.queries[self.owner]
        raw_old, raw_new = pd.DataFrame(raw_old), pd.DataFrame(self.rows_of(self.frame))
        for j, name in enumerate(self.names):
            dtype = raw_old.dtypes.iloc[j]
            if not pd.api.types.is_object_dtype(dtype) and not isinstance(dtype, pd.StringDtype):
                continue
            kinds = {type(cell) for cell in self.case.training_cells[j]}
            pairs = zip(raw_old.iloc[:, j].tolist(), raw_new.iloc[:, j].tolist(), self.changed[:, j], strict=True)
            for row, (old_cell, new_cell, moved) in enumerate(pairs):
                if (type(new_cell) not in kinds) if moved else (type(new_cell) is not type(old_cell)):
                    yield "type", f"{name!r}: {old_cell!r} became {new_cell!r} in {self.where(row)}"
                    break

    def constraints(self) -> Broken:
        for j, law in enumerate(self.laws):
            rows = np.flatnonzero(self.changed[:, j])
            if len(rows) == 0:
                continue
            for rule, broken in law.broken(self.old[j][rows], self.delivered[j][rows]).items():
                if broken.any():
                    row = rows[int(np.argmax(broken))]
                    old, new = self.old[j][row], self.delivered[j][row]
                    yield rule, f"{law.name!r}: {old!r} became {new!r} in {self.where(row)}; {law}"
        most = self.case.max_changes
        count = self.changed.sum(axis=1)
        if most is not None and (count > most).any():
            yield "max_changes", f"{count.max()} changes in {self.where(int(count.argmax()))}, {most} are allowed"

    def answers(self) -> Broken:
        if len(self.frame) == 0:
            return
        met = self.case.wanted.met(self.model, self.before, self.delivered_rows, self.owner, self.count)
        if not met.all():
            row = int(np.argmin(met))
            answer = self.model.predict(self.delivered_rows)[row]
            was = self.before[self.owner[row]]
            yield (
                "goal",
                f"{(~met).sum()} of {len(met)} found rows miss the goal; {self.where(row)}: {was!r} -> {answer!r}",
            )
        told = self.result.after[self.result.found].tolist()
        told_before = self.result.before.tolist()
        for what, mine, his in (
            ("after", self.model.predict(self.delivered_rows).tolist(), told),
            ("before", self.before.tolist(), told_before),
        ):
            for row, (a, b) in enumerate(zip(mine, his, strict=True)):
                if a != b or isinstance(a, bool | np.bool_) != isinstance(b, bool | np.bool_):
                    yield what, f"{what} is {b!r} in row {row}, but the model says {a!r}"
                    break

    def distinct(self) -> Broken:
        """The found rows of a query differ from one another in a cell."""
        slot = self.frame["cf_id"].to_numpy()
        for distance in range(1, self.slots):
            first = np.flatnonzero((slot[distance:] - slot[:-distance] == distance) if distance < len(slot) else [])
            first = first[self.owner[first] == self.owner[first + distance]]
            same = np.ones(len(first), dtype=bool)
            for column in self.delivered:
                same &= same_cells(column[first], column[first + distance])
            if same.any():
                yield "distinct", f"two equal counterfactuals: {self.where(int(first[np.argmax(same)]))}"

    def views(self) -> Broken:
        """`to_array` and `changes` say what `frame` says."""
        array = self.result.to_array()
        if array.shape != (self.count, self.slots, len(self.names)):
            yield "to_array", f"shape {array.shape}"
            return
        empty = np.array([cell != cell for cell in array.ravel().tolist()], dtype=bool).reshape(array.shape)
        if not (empty == ~self.result.found[:, :, None]).all():
            yield "to_array", "NaN is not where nothing was found"
        cells = array[self.result.found]
        for j, column in enumerate(self.delivered):
            if not same_cells(cells[:, j].astype(object), column.astype(object)).all():
                yield "to_array", f"{self.names[j]!r} differs from frame"
        told = self.result.changes()
        slot = self.frame["cf_id"].to_numpy()
        mine = [
            (self.owner[row], slot[row], self.names[j], self.old[j][row], self.delivered[j][row])
            for row, j in np.argwhere(self.changed)
        ]
        his = list(told[["query_id", "cf_id", "feature", "from", "to"]].itertuples(index=False, name=None))
        if len(mine) != len(his):
            yield "changes", f"{len(his)} changes are told, {len(mine)} were made"
        elif sorted(map(repr_of, mine)) != sorted(map(repr_of, his)):
            wrong = next(
                a for a, b in zip(sorted(map(repr_of, his)), sorted(map(repr_of, mine)), strict=True) if a != b
            )
            yield "changes", f"{wrong} is told, and was not made"
        if len(self.result.sentences()) != self.count:
            yield "sentences", "not one sentence a query"

    def attempts(self) -> Broken:
        """What is shown as an attempt that failed does fail: found is not missed either."""
        query, slot = np.nonzero(~self.result.found & ~self.already[:, None])
        if len(query) == 0:
            return
        values, features = self.result.values[query, slot], self.result.space.features
        columns, deliverable = [], np.ones(len(query), dtype=bool)
        for j, (law, original) in enumerate(zip(self.laws, self.original, strict=True)):
            old, wanted = original[query], values[:, j]
            if law.is_number:
                same = old.astype(np.float64) == wanted
                with np.errstate(all="ignore"):
                    new = wanted.astype(old.dtype)
                    deliverable &= same | (new.astype(np.float64) == wanted)
            else:
                known = np.array([*features[j].categories, None], dtype=object)
                new = known[np.clip(wanted, 0, len(known) - 1).astype(int)]
                same = same_cells(old, new)
            new = np.where(same, old, new)
            for broken in law.broken(old[~same], new[~same]).values():
                deliverable[np.flatnonzero(~same)[broken]] = False
            columns.append(new)
        changed = np.column_stack([~same_cells(o[query], c) for o, c in zip(self.original, columns, strict=True)])
        deliverable &= changed.any(axis=1)
        if self.case.max_changes is not None:
            deliverable &= changed.sum(axis=1) <= self.case.max_changes
        picked = np.flatnonzero(deliverable & (slot == 0))
        if len(picked) == 0:
            return
        rows = self.like_queries([column[picked] for column in columns])
        met = self.case.wanted.met(self.model, self.before, rows, query[picked], self.count)
        if met.any():
            at = picked[int(np.argmax(met))]
            yield "missed", f"query {query[at]} slot {slot[at]} is not found, but {[c[at] for c in columns]} is valid"

    def like_queries(self, columns: list[Any]) -> Any:
        """Rows of these columns in the container and dtypes of the queries."""
        if isinstance(self.queries, pd.DataFrame):
            made = {
                name: pd.Series(column.tolist(), dtype=self.queries[name].dtype)
                for name, column in zip(self.names, columns, strict=True)
            }
            return pd.DataFrame(made)
        rows = np.empty((len(columns[0]), len(columns)), dtype=object)
        for j, column in enumerate(columns):
            rows[:, j] = column.tolist()
        return rows.astype(str) if self.queries.dtype.kind == "U" else rows.astype(self.queries.dtype)

    def place(self, where: Any) -> str:
        return self.where(int(np.argmax(where)))

    def where(self, row: int) -> str:
        return f"query {self.owner[row]} slot {self.frame['cf_id'].iloc[row]}"


def repr_of(change: tuple[Any, ...]) -> str:
    """A change as text, numbers of any library as Python's."""
    return repr(tuple(part.item() if isinstance(part, np.generic) else part for part in change))


__all__ = ["Law", "Oracle", "cells_of", "same_cells"]
