"""The oracle of real tables: every delivered cell beside the query's own, by plain Python on the user's cells."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.fuzz.real_tables import RealColumn, RealTable, floats, is_gap, joined

Broken = Iterator[tuple[str, str]]
ROUNDING = 1e-5  # relative, of derived cells and shares


def identical(one: Any, other: Any) -> bool:
    """Whether two cells are the same: of one type, one kind of missing, one sign of zero."""
    if is_gap(one) or is_gap(other):
        return is_gap(one) and is_gap(other) and type(one) is type(other)
    if type(one) is not type(other):
        return False
    return bool(one == other) and not (isinstance(one, float) and np.signbit(one) != np.signbit(other))


class RealOracle:
    """Judges one result of `explain` on a real table."""

    def __init__(self, case: Any, result: Any) -> None:
        self.case, self.table, self.result = case, case.table, result
        self.training, self.queries = case.training, case.queries
        self.rows = result.frame
        self.owner = self.rows["query_id"].to_numpy()
        self.features: dict[str, list[str]] = {name: [name] for name in self.table.names}
        self.features |= self.table.group_columns | {name: [name] for name in self.table.share_names}

    def check(self) -> Broken:
        if len(self.rows) != self.result.found.sum():
            yield "shape", f"{len(self.rows)} rows in frame, {self.result.found.sum()} found"
            return
        wanted = ["query_id", "cf_id", *self.training.columns]
        if list(self.rows.columns) != [*wanted, *self.case.call.extra_columns]:
            yield "shape", f"frame has the columns {list(self.rows.columns)}"
            return
        after = {name: self.rows[name].tolist() for name in self.training.columns}
        before = {name: self.queries[name].iloc[self.owner].tolist() for name in self.training.columns}
        self.same = {
            name: np.array([identical(a, b) for a, b in zip(before[name], after[name], strict=True)], dtype=bool)
            for name in after
        }
        self.after, self.before = after, before
        for name, column in zip(self.table.names, self.table.columns, strict=True):
            yield from self.of_column(name, column)
        yield from self.of_groups()
        yield from self.of_derived()
        yield from self.of_shares()
        yield from self.of_whole_rows()
        yield from self.answers()
        for name in self.case.call.extra_columns:
            told = self.rows[name].tolist()
            if told != [self.case.extra[name][i] for i in self.owner]:
                yield "carry", f"{name!r} came back as {told[:3]}"

    def at(self, name: str, row: int) -> str:
        return f"{name!r}: {self.before[name][row]!r} became {self.after[name][row]!r} in query {self.owner[row]}"

    def of_column(self, name: str, column: RealColumn) -> Broken:
        seen = [cell for cell in self.training[name].tolist() if not is_gap(cell)]
        frozen, direction = self.case.frozen(name), self.case.direction(name)
        for row in np.flatnonzero(~self.same[name]):
            old, new = self.before[name][row], self.after[name][row]
            if is_gap(old) and is_gap(new):
                yield "kind of missing", self.at(name, row)
            elif column.is_carried:
                yield "carried", self.at(name, row)
            elif frozen:
                yield "immutable", self.at(name, row)
            elif is_gap(old) and not column.fills:
                yield "filled", self.at(name, row)
            elif is_gap(new):
                if not column.vanishes:
                    yield "vanished", self.at(name, row)
            elif not is_gap(old) and old == new:
                yield "bits", self.at(name, row)
            elif not column.is_number:
                if new not in seen:
                    yield "category", self.at(name, row)
                place = column.categories.index
                if direction and not is_gap(old) and (place(new) - place(old)) * direction < 0:
                    yield "direction", self.at(name, row)
            else:
                low, high = self.case.bounds(name, self.owner[row])
                if not max(min(seen), low) <= new <= min(max(seen), high):
                    yield "bounds", self.at(name, row)
                if direction and not is_gap(old) and (new - old) * direction < 0:
                    yield "direction", self.at(name, row)
                if column.is_whole and new != int(new):
                    yield "whole", self.at(name, row)

    def of_groups(self) -> Broken:
        for name, columns in self.table.group_columns.items():
            for row in range(len(self.rows)):
                cells = [self.after[column][row] for column in columns]
                if sum(map(float, cells)) != 1 or {float(cell) for cell in cells} - {0.0, 1.0}:
                    yield "torn group", f"{name!r} is {cells} in query {self.owner[row]}"
                    return
                kinds = {type(self.before[column][row]) for column in columns}
                if {type(cell) for cell in cells} - kinds:
                    yield "type", f"{name!r} is {cells} in query {self.owner[row]}"
                    return

    def of_derived(self) -> Broken:
        for name, (a, b, how) in self.table.formulas.items():
            ones, others = floats(self.rows[a]), floats(self.rows[b])
            for row in range(len(self.rows)):
                if self.same[a][row] and self.same[b][row]:
                    if not self.same[name][row]:
                        yield "derived, though nothing changed", self.at(name, row)
                    continue
                wanted, told = joined(ones[row], others[row], how), self.after[name][row]
                if wanted != wanted:
                    if not is_gap(told):
                        yield "derived", f"{self.at(name, row)}, but an input is missing"
                elif is_gap(told) or abs(told - wanted) > ROUNDING * (1.0 + abs(wanted)):
                    yield "derived", f"{self.at(name, row)}, but its formula says {wanted!r}"

    def of_shares(self) -> Broken:
        if not self.table.shares:
            return
        changed = ~np.logical_and.reduce([self.same[name] for name in self.table.share_names])
        for row in np.flatnonzero(changed):
            cells = [self.after[name][row] for name in self.table.share_names]
            if abs(sum(cells) - 100.0) > 1e-6:
                yield "shares", f"{cells} in query {self.owner[row]}"
            for name, cell in zip(self.table.share_names, cells, strict=True):
                if not self.training[name].min() <= cell <= self.training[name].max() and not self.same[name][row]:
                    yield "bounds", self.at(name, row)

    def of_whole_rows(self) -> Broken:
        """Rules, and how many features have changed."""
        changed = np.column_stack(
            [~np.logical_and.reduce([self.same[c] for c in columns]) for columns in self.features.values()]
        )
        count = changed.sum(axis=1)
        most = self.case.max_changes
        if most is not None and (count > most).any():
            yield "max_changes", f"{count.max()} changes in query {self.owner[count.argmax()]}, {most} are allowed"
        for row in np.flatnonzero(count > 0):
            after, before = ({name: cells[row] for name, cells in of.items()} for of in (self.after, self.before))
            for rule in self.case.rules:
                if not rule.keeps(after, before):
                    yield (
                        f"rule ({rule.kind})",
                        f"{rule.handed} is broken in query {self.owner[row]}: {after}, {before}",
                    )

    def answers(self) -> Broken:
        machine, count = self.case.machine, len(self.queries)
        before, answers = machine.predict(self.queries), machine.predict(self.rows[list(self.training.columns)])
        target = self.case.target
        met = answers == target if target is not None else answers != before[self.owner]
        if not met.all():
            yield "goal", f"query {self.owner[np.argmin(met)]} misses the goal"
        if self.result.before.tolist() != before.tolist():
            yield "before", "the model's answers to the queries are told otherwise"
        if self.result.after[self.result.found].tolist() != answers.tolist():
            yield "after", "the model's answers to the counterfactuals are told otherwise"
        if len(self.result.sentences()) != count:
            yield "sentences", "not one sentence a query"


__all__ = ["RealOracle", "RealTable", "identical"]
