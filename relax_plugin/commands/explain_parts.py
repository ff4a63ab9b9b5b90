"""`relax-plugin explain --output FOLDER/`: a table larger than memory, part by part, here or on a Dask cluster."""

import argparse
import os
import resource
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd

from relax_plugin.base import CounterfactualExplainer
from relax_plugin.commands import request, request_of_model
from relax_plugin.commands.found import Found
from relax_plugin.commands.output import DONE, INCOMPLETE, said_warnings, say
from relax_plugin.commands.request import RESULT_COLUMNS, columns_along
from relax_plugin.commands.rows import is_number, queries_in, row_names, text_columns
from relax_plugin.distributed.frames import answer_dtype, settled, settled_dtypes
from relax_plugin.distributed.parts import Part, Parts, arrow_bytes, parquet_bytes
from relax_plugin.distributed.places import Folder, Note, Shipped
from relax_plugin.errors import ColumnError, InputError, ReLAXError
from relax_plugin.evaluation.store import guarded
from relax_plugin.formatting import printable


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
    model, training, _ = request_of_model.model_and_rows(chosen, tables.rows)
    taken = [name for name in RESULT_COLUMNS if name in training.columns]
    if taken:
        raise ColumnError(f"a feature is called {taken[0]!r}, as is a column of answers; rename it.")
    explainer: Any = request_of_model.unfitted(chosen, model, training, method, options)
    if hasattr(explainer, "load") and saved.exists():
        return type(explainer).load(saved, model=explainer.model), training.iloc[:0]
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


# What may be otherwise when a run goes on: where it runs, and what is printed.
NOT_ASKED = (
    "output",
    "parts",
    "backend",
    "scheduler",
    "jobs",
    "json",
    "html",
    "regions",
    "rows",
    "run",
    "command",
    "said",
)
FILES = ("training", "queries", "model", "labels")


def run(chosen: argparse.Namespace) -> int:
    """Explain the parts that are not done yet, and say what was found in all of them."""
    method, options = request.method(chosen.method, chosen.option, chosen.max_changes)
    _check(chosen)
    request.check_goal(chosen)

    from relax_plugin.distributed.places import Folder, Shipped, checksum, files_seen, in_processes, on_cluster

    started = time.perf_counter()
    tables = Tables.of(chosen)
    parts = tables.parts
    suffix = parts.files[0].suffix.lower() if chosen.format is None else f".{chosen.format}"
    folder = Folder(chosen.output, suffix)
    asked: dict[str, Any] = {
        name.replace("_", "-"): value for name, value in vars(chosen).items() if name not in (*NOT_ASKED, *FILES)
    }
    asked |= {"format": suffix, "model": checksum(chosen.model), "tables": files_seen(parts.files)}
    asked |= {"labels": None if chosen.labels is None else checksum(chosen.labels)}
    asked |= {"training": files_seen(tables.training.files)}
    goes_on = folder.holds(asked)
    done = {part.number: note for part in parts.parts if (note := folder.note(part.number)) is not None}
    if goes_on:
        say(f"{chosen.output} holds {len(done)} of {len(parts)} parts of this run, which goes on.")
    left = [part for part in parts.parts if part.number not in done]
    if left:
        explainer, features = fitted_explainer(chosen, method, options, tables, folder.explainer)
        work = PartWork(chosen, features, parts, folder)
        work.check(left[0])
        if not goes_on:
            folder.begin(asked)
        shipped = Shipped.of(kept_explainer(explainer, folder.explainer))
        if chosen.backend == "dask":
            notes = on_cluster(work, left, shipped, chosen.scheduler)
        else:
            notes = in_processes(work, left, shipped, chosen.jobs or os.cpu_count() or 1)
        for note in _told(notes, len(done), len(parts)):
            done[note["part"]] = note
    return _summary(chosen, method, [done[part.number] for part in parts.parts], time.perf_counter() - started)


def _check(chosen: argparse.Namespace) -> None:
    from relax_plugin.commands.request import check_model_path, check_parquet
    from relax_plugin.distributed.parts import table_files

    for name, given in (("html", chosen.html), ("regions", chosen.regions or None), ("rows", chosen.rows)):
        if given is not None:
            raise InputError(f"--{name} is for tables that fit in memory, and --output {chosen.output}/ is for others.")
    if chosen.backend == "dask" and chosen.scheduler is None:
        raise InputError("backend 'dask' needs the address of a scheduler, such as --scheduler tcp://127.0.0.1:8786.")
    if chosen.backend != "dask" and chosen.scheduler is not None:
        raise InputError(f"the scheduler {chosen.scheduler} is for --backend dask.")
    if chosen.backend == "dask" and chosen.jobs is not None:
        raise InputError("--jobs is for processes of this machine; a Dask cluster has its own number of workers.")
    check_model_path(chosen.model)
    for path in (chosen.training, chosen.queries):
        if path is None:
            continue
        check_parquet(table_files(path)[0])
        if chosen.output.resolve() == path.resolve() and path.is_dir():
            raise InputError(f"--output is {chosen.output}, which is read; give another folder.")
    if chosen.format is not None:
        check_parquet(Path(f"part.{chosen.format}"))
    if chosen.output.is_file():
        raise InputError(f"--output is {chosen.output}/, but that is a file; give a folder.")


def _told(notes: Iterator["Note"], before: int, total: int) -> Iterator["Note"]:
    said: set[str] = set()
    for count, note in enumerate(notes, start=before + 1):
        for sentence in note["notes"]:
            if sentence not in said:
                said.add(sentence)
                say(f"Note: {sentence[:1].upper()}{sentence[1:]}")
        pace = note["rows"] / max(note["seconds"], 1e-9)
        say(f"Part {note['part']} is done ({count} of {total}): {note['rows']} rows, {pace:,.0f} a second.")
        yield note


def _summary(chosen: argparse.Namespace, method: str, notes: Sequence["Note"], seconds: float) -> int:
    import pandas as pd

    from relax_plugin.commands.output import print_table

    rows, solved = (sum(note[name] for note in notes) for name in ("rows", "solved"))
    cost = sum(note["model_rows"] for note in notes) / rows
    peak = max(peak_mebibytes(), *(note["peak_mebibytes"] for note in notes))
    summary = (
        f"{solved} of {rows} rows have a counterfactual ({method}, {cost:.1f} model rows each), in {len(notes)} parts "
        f"of {chosen.output}; {seconds:.1f} s now, at most {peak:,.0f} MiB a process."
    )
    if chosen.json:
        shown = [{key: cell for key, cell in note.items() if key not in ("notes", "unsolved")} for note in notes]
        print_table(pd.DataFrame(shown).set_index("part"), as_json=True)
        say(summary)
    else:
        reasons: dict[str, list[Any]] = {}
        for note in notes:
            for reason, ids in note["unsolved"].items():
                reasons.setdefault(reason, []).extend(ids)
        for reason, ids in reasons.items():
            first = ", ".join(map(str, ids[:5])) + (", ..." if len(ids) > 5 else "")
            print(printable(f"{len(ids)} rows without one, {reason} (rows {first})"))
        print(summary, flush=True)
    return DONE if solved == rows else INCOMPLETE
