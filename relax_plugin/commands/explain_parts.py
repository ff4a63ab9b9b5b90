"""`relax-plugin explain --output FOLDER/`: a table larger than memory, part by part, here or on a Dask cluster."""

import argparse
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from relax_plugin.commands import request
from relax_plugin.commands.output import DONE, INCOMPLETE, say
from relax_plugin.errors import InputError
from relax_plugin.formatting import printable

if TYPE_CHECKING:
    from relax_plugin.distributed.folder import Note

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

    from relax_plugin.commands.part_work import PartWork, Tables, fitted_explainer, kept_explainer
    from relax_plugin.distributed.folder import Folder, checksum, files_seen
    from relax_plugin.distributed.places import in_processes, on_cluster
    from relax_plugin.distributed.shipped import Shipped

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
    from relax_plugin.commands.first_look import check_model_path, check_parquet
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
    from relax_plugin.commands.part_work import peak_mebibytes

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
