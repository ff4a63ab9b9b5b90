"""What `explain` does with one part of a large table, in a process of its own, and what it needs before."""

import argparse
import resource
import sys
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd

from relax_plugin.base import CounterfactualExplainer, make_explainer
from relax_plugin.commands import request_of_model
from relax_plugin.commands.found import Found
from relax_plugin.commands.output import said_warnings
from relax_plugin.commands.read_files import RESULT_COLUMNS, columns_along, model_and_rows
from relax_plugin.commands.rows import is_number, queries_in, row_names, text_columns
from relax_plugin.distributed.folder import Folder, Note
from relax_plugin.distributed.parts import Part, Parts
from relax_plugin.distributed.shipped import Shipped
from relax_plugin.distributed.tables import answer_dtype, settled, settled_dtypes
from relax_plugin.distributed.written import arrow_bytes, parquet_bytes
from relax_plugin.errors import ColumnError, InputError, ReLAXError
from relax_plugin.evaluation.spreadsheet import guarded


@dataclass(frozen=True)
class Tables:
    """The large tables of a run."""

    training: Parts  # of TRAINING
    rows: pd.DataFrame  # those that are learned from
    parts: Parts  # what is explained

    @classmethod
    def of(cls, chosen: argparse.Namespace) -> Self:
        """Cut the files in parts, and draw the rows to learn from."""
        training = Parts.of(chosen.training, chosen.part_rows, chosen.missing)
        rows = training.drawn(chosen.training_rows, chosen.seed)
        if len(rows) < training.rows:
            print(
                f"Of {training.rows} rows of {chosen.training}, {len(rows)} are learned from, drawn evenly; "
                "--training-rows says how many.",
                file=sys.stderr,
                flush=True,
            )
        if chosen.queries is None:
            return cls(training, rows, training)
        along = columns_along(chosen)
        texts = [name for name in text_columns(rows) if name not in along]
        return cls(training, rows, Parts.of(chosen.queries, chosen.part_rows, chosen.missing, texts))


def fitted_explainer(
    chosen: argparse.Namespace, method: str, options: dict[str, Any], tables: Tables, saved: Path
) -> tuple[CounterfactualExplainer, pd.DataFrame]:
    """The fitted explainer, and its columns in a table without rows.

    If the run goes on and the explainer can be saved, it is read from the file of the run.
    """
    model, training, _ = model_and_rows(chosen, tables.rows)
    taken = [name for name in RESULT_COLUMNS if name in training.columns]
    if taken:
        raise ColumnError(f"a feature is called {taken[0]!r}, as is a column of answers; rename it.")
    space, vary = request_of_model.space(chosen, training), chosen.vary or None
    space.limits(vary)
    space, values = space.taking_in(training)
    blackbox = request_of_model.blackbox(model, space, chosen.task)
    goal = request_of_model.goal(chosen, blackbox, values)
    explainer: Any = make_explainer(method, blackbox, space, goal=goal, seed=chosen.seed, **options)
    if hasattr(explainer, "load") and saved.exists():
        return type(explainer).load(saved, model=blackbox), training.iloc[:0]
    told = f"Fitting {method} on {len(training)} rows of {chosen.training}, to explain {tables.parts.rows} in "
    print(f"{told}{len(tables.parts)} parts.", file=sys.stderr, flush=True)
    with said_warnings():
        explainer.fit(training)
    return explainer, training.iloc[:0]


def kept_explainer(explainer: Any, path: Path) -> CounterfactualExplainer:
    """The explainer, as it is read from the file of the run if it can be saved: what goes on later has the same."""
    if not hasattr(explainer, "save"):
        kept: CounterfactualExplainer = explainer
        return kept
    if not path.exists():
        explainer.save(path)
    kept = type(explainer).load(path, model=explainer.model)
    return kept


@dataclass(frozen=True)
class PartWork:
    """What is done with a part, wherever."""

    chosen: argparse.Namespace  # what was typed
    features: pd.DataFrame  # columns of the training rows that are features, without rows
    parts: Parts
    folder: Folder

    def check(self, part: Part) -> None:
        """Refuse rows without the columns needed, and say which columns are left out, before others begin."""
        self._refuse_texts()
        self._queries(part, say=True)

    def _refuse_texts(self) -> None:
        """Refuse a CSV with texts where numbers are needed: one makes a text of the whole column, in every part."""
        for name in self.features.columns:
            if self.parts.kinds.get(name) != "text" or not is_number(self.features[name]):
                continue
            for part in self.parts.parts:
                cells = self.parts.read(part)[name]
                wrong = np.flatnonzero(pd.to_numeric(cells, errors="coerce").isna() & cells.notna())
                if len(wrong):
                    told = f"feature {name!r} is {cells.iloc[wrong[0]]!r} in row {part.first + int(wrong[0])} of "
                    raise InputError(f"{told}{part.path}, but a number is needed.")

    def __call__(self, part: Part, shipped: Shipped) -> Note:
        known = self.folder.note(part.number)
        if known is not None:  # by a worker that died before it could tell
            return known
        started, cpu = time.perf_counter(), time.process_time()
        chosen, explainer = self.chosen, shipped.explainer()
        with warnings.catch_warnings(record=True) as noted:
            warnings.simplefilter("default")
            try:
                queries = self._queries(part, say=False)
                result = explainer.explain(
                    queries,
                    n=chosen.n,
                    vary=chosen.vary or None,
                    carry=chosen.carry or None,
                    plausible=False if chosen.plausible == "no" else chosen.plausible,
                )
            except ReLAXError as error:
                raise InputError(f"{part}, counted from the first of these: {error}") from error
        found = Found(result, queries.index.to_numpy(), chosen.id)
        answers = answer_dtype(explainer)
        dtypes = settled_dtypes(queries, explainer) | {"before": answers, "after": answers}
        content, sentences = self._content(settled(found.frame(), dtypes))
        solved = result.found.any(axis=1)
        unsolved: dict[str, list[Any]] = {}
        for row in np.flatnonzero(~solved):
            unsolved.setdefault(str(result.statuses[row, 0]), []).append(_plain(found.ids[row]))
        note = {
            "part": part.number,
            "file": str(part.path),
            "first": part.first,
            "rows": part.rows,
            "solved": int(solved.sum()),
            "counterfactuals": int(result.found.sum()),
            "model_rows": int(result.rows_queried.sum()),
            "seconds": time.perf_counter() - started,
            "cpu_seconds": time.process_time() - cpu,
            "peak_mebibytes": peak_mebibytes(),
            "notes": [*dict.fromkeys(str(w.message) for w in noted if issubclass(w.category, UserWarning)), *sentences],
            "unsolved": unsolved,
        }
        self.folder.done(part.number, content, note)
        return note

    def _queries(self, part: Part, *, say: bool) -> pd.DataFrame:
        """The rows of a part, with what is carried, called by their numbers in the table or by the column of --id."""
        chosen, frame = self.chosen, self.parts.read(part)
        queries = queries_in(frame, chosen, self.features, part.path, say=say)
        first = part.before + part.first
        if chosen.id is None:
            return queries.set_axis(pd.RangeIndex(first, first + len(queries)), axis=0)
        names = row_names(queries, chosen.id, part.path)
        named = queries.set_axis(pd.Index(names), axis=0).rename_axis(chosen.id)
        return named.drop(columns=[] if chosen.id in chosen.carry else [chosen.id])

    def _content(self, table: pd.DataFrame) -> tuple[bytes, list[str]]:
        if self.folder.ending == ".parquet":
            return parquet_bytes(table), []
        if self.folder.ending != ".csv":
            return arrow_bytes(table), []
        table, formulas = guarded(table)
        told = ["texts that a spreadsheet would take for formulas begin with an apostrophe."] if formulas else []
        return table.to_csv(index=False).encode("utf-8"), told


def _plain(cell: Any) -> Any:
    cell = cell.item() if hasattr(cell, "item") else cell
    return cell if isinstance(cell, int | float | str) else str(cell)


def peak_mebibytes() -> float:
    """The most memory that this process has held.

    Linux's `ru_maxrss` is no less than that of the process which started this one, so it is asked only elsewhere.
    """
    status = Path("/proc/self/status")
    if status.is_file():
        return (
            next(int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith("VmHWM")) / 2**10
        )
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)
