"""`relax-plugin explain`: counterfactuals for rows of a CSV, Parquet or Arrow file and a saved model."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from relax_plugin.commands import request
from relax_plugin.commands.arguments import (
    Output,
    add_along,
    add_files,
    add_goal,
    add_limits,
    add_method,
    add_parts,
    add_table,
    in_parts,
)
from relax_plugin.commands.output import DONE, INCOMPLETE, add_json, print_table, say, whole
from relax_plugin.commands.request import (
    ARROW,
    RESULT_COLUMNS,
    check_header,
    check_parquet,
    check_read,
    is_columnar,
    is_parquet,
)
from relax_plugin.errors import ColumnError, InputError
from relax_plugin.formatting import printable_lines

if TYPE_CHECKING:
    import pandas as pd

    from relax_plugin.commands.found import Found
    from relax_plugin.plausibility import Plausible

MOST_A_ROW = 1_000_000  # counterfactuals; more could not be held, nor read
FIRST_ROWS = 10  # explained when neither --queries nor --rows says which

EXAMPLES = """examples:
  relax-plugin explain train.csv --model model.joblib --target approved
      the first rows of train.csv: what would have to be different for another answer
  relax-plugin explain train.csv --model model.joblib --target approved --queries refused.csv --to yes \\
      --immutable sex --increase-only age --bounds income=0:90000 'town=Rome|Bonn' --output out.csv --html page.html
  relax-plugin explain train.csv --model model.joblib --target approved --queries large.parquet --output answers/ \\
      --backend dask --scheduler tcp://127.0.0.1:8786
  relax-plugin explain train.csv --model model.onnx --target price --rows 0 3 5 --shift 2000 --direction down --json
  relax-plugin explain train.csv --model model.onnx --between - 5000 --method greedy --option quantiles=10
  relax-plugin explain people.parquet --model model.joblib --target income --id person --missing '?' \\
      --ordered 'education=school<college<master' --increase-only age education \\
      --rule 'education <= was(education) or age >= was(age) + 2' --cost age=5 --labels words.json --output out.parquet

exit codes:
  0  every row has its counterfactual
  1  some have none; the reasons are printed
  2  refused: nothing was written, or no further part
"""


def add(commands: Any) -> None:
    """Describe the command's arguments."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "explain",
        help="counterfactuals for the rows of a CSV or Parquet file and a saved model",
        description="Fits an explainer on the training rows and prints what would have to be different in each row\n"
        "for another answer of the model. A joblib file runs code when it is loaded: load only files you trust.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_files(parser)

    rows = parser.add_argument_group("rows to explain").add_mutually_exclusive_group()
    first = f"rows like those of TRAINING (default: its first {FIRST_ROWS})"
    rows.add_argument("--queries", type=Path, metavar="FILE", help=first)
    rows.add_argument("--rows", type=int, nargs="+", metavar="ROW", help="rows of TRAINING, from 0 on")
    add_along(parser, "no features, but in --output")
    goal = add_goal(parser, "goal (default: another class)")
    goal.add_argument(
        "-n", "--n", type=whole(1, MOST_A_ROW), default=1, metavar="N", help="counterfactuals a row (default 1)"
    )

    add_limits(parser)
    add_table(parser)
    add_method(parser)
    output = parser.add_argument_group("output")
    output.add_argument(
        "--regions",
        action="store_true",
        help='how far each change may go, "at least 6,580" in sentences and cards: proved where the model is a tree '
        "ensemble that can be read, else tested by asking the model some hundred rows more for each answer",
    )
    output.add_argument(
        "--output",
        action=Output,
        metavar="FILE",
        help="counterfactuals as .csv, .parquet or .feather, or everything as .json; in a .csv, texts that a "
        "spreadsheet would take for formulas (they begin with = + - or @) have an apostrophe before them. A FOLDER/ "
        "gets a file for each part of a large table",
    )
    output.add_argument(
        "--html",
        type=Path,
        metavar="FILE",
        help="a page to read: a card for each row (the first 200), with a search box; each prints on one sheet",
    )
    add_json(parser)
    add_parts(parser)
    parser.set_defaults(run=run)


def run(chosen: argparse.Namespace) -> int:
    """Explain the rows, write the files, print changes and sentences."""
    if in_parts(chosen):
        from relax_plugin.commands import explain_parts

        return explain_parts.run(chosen)
    # From what costs nothing to what may cost most: arguments, the header, the rows; last the model, which may be code.
    method, options = request.method(chosen.method, chosen.option, chosen.max_changes)
    _check_files(chosen)
    request.check_goal(chosen)
    check_header(chosen)

    from relax_plugin.commands import request_of_model
    from relax_plugin.commands.found import Found, plausible_words, regions_words
    from relax_plugin.commands.output import said_warnings
    from relax_plugin.features import NOTHING_FIXED

    model, training, whole = request_of_model.model_and_rows(chosen)
    _check_names(chosen, training)
    queries, vary = _queries(chosen, training, whole), chosen.vary or None
    explainer = request_of_model.unfitted(chosen, model, training, method, options)

    say(f"Fitting {method} on {len(training)} rows of {chosen.training}, to explain {len(queries)}.")
    assert explainer.space is not None
    if explainer.space.nothing_is_fixed and not (vary or chosen.bounds):
        say(f"{NOTHING_FIXED} --immutable, --increase-only and --decrease-only name those that may not.")
    plausible: Plausible = False if chosen.plausible == "no" else chosen.plausible
    with said_warnings():
        result = explainer.fit(training).explain(
            queries, n=chosen.n, vary=vary, carry=chosen.carry or None, plausible=plausible
        )
        regions = result.regions(explainer) if chosen.regions else None
    found = Found(result, queries.index.to_numpy(), chosen.id)
    _write(chosen, found)
    solved, cost = int(result.found.any(axis=1).sum()), result.rows_queried.mean()
    summary = f"{solved} of {len(result)} rows have a counterfactual ({method}, {cost:.1f} model rows each)."
    already = int((result.stages[:, 0] == "query").sum())
    if already:
        summary += f" {already} of them met the goal as {'it was' if already == 1 else 'they were'}."
    if chosen.plausible != "no" and result.found.any():
        summary += f" {plausible_words(result)}"
    if regions is not None:
        summary += f" {regions_words(regions)}"
    if chosen.json:
        print_table(found.table().set_index("query_id"), as_json=True)
        say(summary)
    else:
        found.print_changes()
        print(printable_lines("\n".join([*found.sentences(), "", summary])), flush=True)
    return DONE if solved == len(result) else INCOMPLETE


def _check_names(chosen: argparse.Namespace, training: "pd.DataFrame") -> None:
    taken = [name for name in RESULT_COLUMNS if name in training.columns]
    if taken and chosen.output is not None and chosen.output.suffix != ".json":
        ending = chosen.output.suffix
        raise ColumnError(f"a feature is called {taken[0]!r}, as is a column of answers in a {ending}; write a .json.")


def _check_files(chosen: argparse.Namespace) -> None:
    check_read(chosen)
    check_parquet(chosen.output)
    files = (chosen.training, chosen.model, chosen.queries, chosen.labels)
    read = {path.resolve() for path in files if path is not None}
    for option, endings in (("output", (".csv", ".json", ".parquet", *ARROW)), ("html", (".html", ".htm"))):
        path = getattr(chosen, option)
        if path is None:
            continue
        if path.suffix not in endings:
            raise InputError(f"--{option} is {path}; a name that ends in {' or '.join(endings)} is needed.")
        if path.is_dir():
            raise InputError(f"--{option} is {path}, which is a folder; give the name of a file.")
        if not path.parent.is_dir():
            raise InputError(f"there is no folder {path.parent} to write {path.name!r} in.")
        if path.resolve() in read:
            raise InputError(f"--{option} would overwrite {path}, which is read; give another name.")


def _queries(chosen: argparse.Namespace, training: "pd.DataFrame", whole: "pd.DataFrame") -> "pd.DataFrame":
    """The rows to explain, with what is carried; their index says which rows of their file they are."""
    from relax_plugin.commands.rows import rows_to_explain

    rows = chosen.rows
    if chosen.queries is None and rows is None:
        say(f"Neither --queries nor --rows: the first {FIRST_ROWS} rows of {chosen.training} are explained.")
        rows = range(min(FIRST_ROWS, len(training)))
    return rows_to_explain(chosen, training, whole, rows)


def _write(chosen: argparse.Namespace, found: "Found") -> None:
    """Write the files asked for, none before all of them are made."""
    from relax_plugin.files import write_bytes
    from relax_plugin.pages.card import explanation_page

    texts: dict[Path, str | bytes] = {}
    if chosen.output is not None and is_columnar(chosen.output):
        texts[chosen.output] = found.parquet() if is_parquet(chosen.output) else found.arrow()
    elif chosen.output is not None:
        as_csv = chosen.output.suffix == ".csv"
        texts[chosen.output], formulas = found.csv() if as_csv else (found.result.to_json(), 0)
        if formulas:
            guarded = "texts that a spreadsheet would take for formulas begin with an apostrophe."
            say(f"In {chosen.output}, {formulas} {guarded}")
    if chosen.html is not None:
        source = chosen.queries or chosen.training
        how = f"Model {chosen.model.name}, method {chosen.method}, seed {chosen.seed}"
        title, note, foot = f"Alternatives for {source.name}", found.rows_of(source.name), f"{how}; {source.name}."
        texts[chosen.html] = explanation_page(found.result, title=title, note=f"{how}; {note}.", foot=foot)
    for path, text in texts.items():
        try:
            write_bytes(path, text.encode("utf-8") if isinstance(text, str) else text)
        except OSError as error:
            raise InputError(f"{path} cannot be written: {error}.") from error
        say(f"Written: {path}")
