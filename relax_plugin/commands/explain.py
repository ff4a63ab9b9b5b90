"""`relax-plugin explain`: counterfactuals for rows of a CSV file and a saved model."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from relax_plugin.commands import request
from relax_plugin.commands.first_look import check_model_path, header
from relax_plugin.commands.output import DONE, INCOMPLETE, LAST_SEED, add_json, print_table, whole
from relax_plugin.errors import ColumnError, InputError, UnknownNameError, did_you_mean

if TYPE_CHECKING:
    import pandas as pd

    from relax_plugin.commands.found import Found

MOST_A_ROW = 1_000_000  # counterfactuals; more could not be held, nor read
FIRST_ROWS = 10  # explained when neither --queries nor --rows says which
RESULT_COLUMNS = ("before", "after")  # added to the features in a CSV of counterfactuals

EXAMPLES = """examples:
  relax-plugin explain train.csv --model model.joblib --target approved
      the first rows of train.csv: what would have to be different for another answer
  relax-plugin explain train.csv --model model.joblib --target approved --queries refused.csv --to yes \\
      --immutable sex --increase-only age --bounds income=0:90000 'town=Rome|Bonn' --output out.csv --html page.html
  relax-plugin explain train.csv --model model.onnx --target price --rows 0 3 5 --shift 2000 --json
  relax-plugin explain train.csv --model model.onnx --between - 5000 --method greedy --option quantiles=10

exit codes:
  0  every row has its counterfactual
  1  some have none; the reasons are printed
  2  refused: nothing was written
"""


def add(commands: Any) -> None:
    """Describe the command's arguments."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "explain",
        help="counterfactuals for the rows of a CSV file and a saved model",
        description="Fits an explainer on the training rows and prints what would have to be different in each row\n"
        "for another answer of the model. A joblib file runs code when it is loaded: load only files you trust.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("training", type=Path, metavar="TRAINING.csv", help="rows to learn the features from")
    parser.add_argument("--model", type=Path, required=True, metavar="FILE", help="saved by joblib, or an .onnx file")
    parser.add_argument("--task", choices=("auto", "classification", "regression"), default="auto")
    parser.add_argument("--target", metavar="COLUMN", help="column of TRAINING.csv that is no feature")

    rows = parser.add_argument_group("rows to explain").add_mutually_exclusive_group()
    rows.add_argument("--queries", type=Path, metavar="FILE.csv", help=f"default: the first {FIRST_ROWS} of training")
    rows.add_argument("--rows", type=int, nargs="+", metavar="ROW", help="rows of TRAINING.csv, from 0 on")

    goal = parser.add_argument_group("goal (default: another class)")
    kinds = goal.add_mutually_exclusive_group()
    kinds.add_argument("--to", metavar="LABEL", help="this class")
    kinds.add_argument("--shift", type=float, metavar="DELTA", help="a regressor's answer at least so far away")
    kinds.add_argument(
        "--between", nargs=2, metavar=("LOW", "HIGH"), help="a regressor's answer in this range; - for no limit"
    )
    goal.add_argument("--min-probability", type=float, metavar="P", help="of the class reached")
    goal.add_argument(
        "-n", "--n", type=whole(1, MOST_A_ROW), default=1, metavar="N", help="counterfactuals a row (default 1)"
    )

    limits = parser.add_argument_group("what may change")
    limits.add_argument("--max-changes", type=whole(1), metavar="K", help="features (default: the method's own)")
    for option, text in (
        ("--categorical", "numbers that are names"),
        ("--immutable", "never change"),
        ("--increase-only", "never fall"),
        ("--decrease-only", "never rise"),
        ("--vary", "only these change"),
    ):
        limits.add_argument(option, nargs="+", action="extend", default=[], metavar="FEATURE", help=text)
    limits.add_argument(
        "--bounds",
        nargs="+",
        action="extend",
        default=[],
        metavar="FEATURE=RANGE",
        help="age=18:80, either end may be empty; 'town=Rome|Bonn' (default: what the training rows show)",
    )

    method = parser.add_argument_group("method")
    method.add_argument("--method", default="relax-global", help="see `relax-plugin list` (default relax-global)")
    method.add_argument("--option", nargs="+", action="extend", default=[], metavar="NAME=VALUE", help="of the method")
    method.add_argument("--seed", type=whole(0, LAST_SEED), default=0, help="default 0")

    output = parser.add_argument_group("output")
    output.add_argument(
        "--output",
        type=Path,
        metavar="FILE",
        help="counterfactuals as .csv, or everything as .json; in a .csv, texts that a spreadsheet would take for "
        "formulas (they begin with = + - or @) have an apostrophe before them",
    )
    output.add_argument("--html", type=Path, metavar="FILE", help="a page to read")
    add_json(parser)
    parser.set_defaults(run=run)


def run(chosen: argparse.Namespace) -> int:
    """Explain the rows, write the files, print changes and sentences."""
    # From what costs nothing to what may cost most: arguments, the header, the rows; last the model, which may be code.
    method, options = request.method(chosen.method, chosen.option, chosen.max_changes)
    _check_files(chosen)
    request.check_goal(chosen)
    _check_header(chosen)

    from relax_plugin.base import make_explainer
    from relax_plugin.commands import request_of_model
    from relax_plugin.commands.found import Found
    from relax_plugin.commands.models import load_model

    training = _training(chosen)
    request_of_model.check_named(chosen, training)
    model, training = load_model(chosen.model, training, chosen.training, chosen.task)
    _check_names(chosen, training)
    queries = _queries(chosen, training)
    space, vary = request_of_model.space(chosen, training), chosen.vary or None
    space.limits(vary)
    space.values(queries)
    blackbox = request_of_model.blackbox(model, space, chosen.task)
    goal = request_of_model.goal(chosen, blackbox, space.values(training))

    _say(f"Fitting {method} on {len(training)} rows of {chosen.training}, to explain {len(queries)}.")
    explainer = make_explainer(method, blackbox, space, goal=goal, seed=chosen.seed, **options)
    result = explainer.fit(training).explain(queries, n=chosen.n, vary=vary)
    found = Found(result, queries.index.to_numpy())
    _write(chosen, found, explainer.blackbox_.classes)
    solved, cost = int(result.found.any(axis=1).sum()), result.rows_queried.mean()
    summary = f"{solved} of {len(result)} rows have a counterfactual ({method}, {cost:.1f} model rows each)."
    if chosen.json:
        print_table(found.table().set_index("query_id"), as_json=True)
        _say(summary)
    else:
        found.print_changes()
        print("\n".join([*found.sentences(), "", summary]), flush=True)
    return DONE if solved == len(result) else INCOMPLETE


def _training(chosen: argparse.Namespace) -> "pd.DataFrame":
    """The training rows without the target, after a look whether the rows to explain are there."""
    from relax_plugin.commands.rows import read_rows

    rows, target = read_rows(chosen.training), chosen.target
    _check_target(chosen, list(rows.columns))
    request.check_names(chosen, [str(name) for name in rows.columns if name != target])
    for row in chosen.rows or ():
        if not 0 <= row < len(rows):
            raise InputError(f"there is no row {row} in {chosen.training}; there are 0 to {len(rows) - 1}.")
    return rows.drop(columns=[] if target is None else [str(target)])


def _check_header(chosen: argparse.Namespace) -> None:
    """Refuse names that the training file does not have, as far as its first line can be read without pandas."""
    names = header(chosen.training)
    if names is None:
        return
    _check_target(chosen, names)
    request.check_names(chosen, [name for name in names if name != chosen.target])


def _check_target(chosen: argparse.Namespace, names: Sequence[str]) -> None:
    if chosen.target is not None and chosen.target not in names:
        raise UnknownNameError(
            f"{chosen.training} has no target column {chosen.target!r}; {did_you_mean(chosen.target, names)}"
        )


def _check_names(chosen: argparse.Namespace, training: "pd.DataFrame") -> None:
    taken = [name for name in RESULT_COLUMNS if name in training.columns]
    if taken and chosen.output is not None and chosen.output.suffix == ".csv":
        raise ColumnError(f"a feature is called {taken[0]!r}, as is a column of answers in a .csv; write a .json.")


def _check_files(chosen: argparse.Namespace) -> None:
    """Refuse what is not there, could not be written, or would overwrite what is read."""
    if not chosen.training.is_file():
        raise InputError(f"there is no file {chosen.training}.")
    check_model_path(chosen.model)
    if chosen.queries is not None and not chosen.queries.is_file():
        raise InputError(f"there is no file {chosen.queries} of queries.")
    read = {path.resolve() for path in (chosen.training, chosen.model, chosen.queries) if path is not None}
    for option, endings in (("output", (".csv", ".json")), ("html", (".html", ".htm"))):
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


def _queries(chosen: argparse.Namespace, training: "pd.DataFrame") -> "pd.DataFrame":
    """The rows to explain; their index says which rows of their file they are."""
    from relax_plugin.commands.rows import read_queries

    if chosen.queries is not None:
        return read_queries(chosen.queries, training, chosen.target)
    if chosen.rows is None:
        _say(f"Neither --queries nor --rows: the first {FIRST_ROWS} rows of {chosen.training} are explained.")
        return training.head(FIRST_ROWS)
    return training.iloc[list(dict.fromkeys(chosen.rows))]


def _write(chosen: argparse.Namespace, found: "Found", classes: Any) -> None:
    """Write the files asked for, none before all of them are made."""
    from relax_plugin.files import write_text
    from relax_plugin.pages.html import explanation_page

    texts: dict[Path, str] = {}
    if chosen.output is not None:
        as_csv = chosen.output.suffix == ".csv"
        texts[chosen.output], formulas = found.csv() if as_csv else (found.result.to_json(), 0)
        if formulas:
            guarded = "texts that a spreadsheet would take for formulas begin with an apostrophe."
            _say(f"In {chosen.output}, {formulas} {guarded}")
    if chosen.html is not None:
        source = chosen.queries or chosen.training
        note = f"Model {chosen.model.name}, method {chosen.method}, seed {chosen.seed}; {found.rows_of(source.name)}."
        title = f"Counterfactuals for {source.name}"
        texts[chosen.html] = explanation_page(found.result, title=title, note=note, classes=classes)
    for path, text in texts.items():
        try:
            write_text(path, text)
        except OSError as error:
            raise InputError(f"{path} cannot be written: {error}.") from error
        _say(f"Written: {path}")


def _say(sentence: str) -> None:
    """On stderr: stdout is for the table."""
    print(sentence, file=sys.stderr, flush=True)
