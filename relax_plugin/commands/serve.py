"""`relax-plugin serve`: a page on this machine on which rows of a file are asked about, one what-if after the other."""

import argparse
import os
import sys
import time
import webbrowser
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from relax_plugin.commands import request
from relax_plugin.commands.arguments import add_along, add_files, add_goal, add_limits, add_method, add_table
from relax_plugin.commands.output import DONE, say, whole
from relax_plugin.commands.request import check_header, check_read
from relax_plugin.errors import InputError, MissingExtraError, ReLAXError

if TYPE_CHECKING:
    from relax_plugin.arrays import Values
    from relax_plugin.blackbox import BlackBox
    from relax_plugin.goal import Goal
    from relax_plugin.whatif.session import WhatIf

PORT = 8765
LAST_PORT = 65535
NEEDED = ("starlette", "uvicorn")
ROWS_FOR_A_GOAL = 1000  # training rows of which a regressor is asked, to find a goal to begin with

EXAMPLES = """examples:
  relax-plugin serve train.csv --model model.joblib --target approved
  relax-plugin serve train.csv --model model.joblib --target approved --queries refused.csv --id number --to yes \\
      --immutable sex --increase-only age --rule 'age >= work_years + 16' --labels words.json
  relax-plugin serve houses.parquet --model price.onnx --task regression --shift 20000 --port 0 --no-browser

The page is at 127.0.0.1, under an address that nobody can guess; Ctrl-C ends it.
"""


def add(commands: Any) -> None:
    """Describe the command's arguments."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "serve",
        help="a page on this machine: a row as a form, what may change, the answer at once",
        description="Fits an explainer on the training rows and opens a page on which a row is chosen, edited and\n"
        "asked about: what would have to be different for another answer of the model. Only this machine can open it.\n"
        "A joblib file runs code when it is loaded: load only files you trust.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_files(parser)
    rows = parser.add_argument_group("rows to choose from")
    rows.add_argument("--queries", type=Path, metavar="FILE", help="rows like those of TRAINING (default: its own)")
    add_along(parser, "no features, but shown with a row")
    add_goal(parser, "goal that the page begins with (default: another class; a regressor's answer a bit away)")
    add_limits(parser)
    add_table(parser)
    add_method(parser)
    page = parser.add_argument_group("page")
    page.add_argument("--port", type=whole(0, LAST_PORT), default=PORT, help=f"default {PORT}; 0: any that is free")
    opening = page.add_mutually_exclusive_group()
    opening.add_argument(
        "--open", action="store_true", default=None, help="open a browser (default: if there is a display)"
    )
    opening.add_argument("--no-browser", action="store_false", dest="open", help="only print the address")
    page.add_argument(
        "--patience",
        type=whole(1, 3600),
        default=30,
        metavar="SECONDS",
        help="after which the page says that the model has not answered (default 30)",
    )
    parser.set_defaults(run=run, rows=None)


def run(chosen: argparse.Namespace) -> int:
    """Fit the explainer, and serve the page until Ctrl-C."""
    for library in NEEDED:
        if find_spec(library) is None:
            raise MissingExtraError(
                f"serve needs {library}, which is not installed: pip install 'relax-plugin[serve]'."
            )
    method, options = request.method(chosen.method, chosen.option, chosen.max_changes)
    check_read(chosen)
    request.check_goal(chosen, needed=False)
    check_header(chosen)

    from relax_plugin.whatif.app import address_of, listening, new_token, what_if_app
    from relax_plugin.whatif.app import run as serve

    bound = listening(chosen.port)  # better known before the fit than after
    try:
        session = _session(chosen, method, options)
        token = new_token()
        address = address_of(bound, token)
        app = what_if_app(session, token, bound.getsockname()[1], float(chosen.patience))

        def ready() -> None:
            print(f"The page: {address}\nCtrl-C ends it.", flush=True)
            if chosen.open if chosen.open is not None else _has_display():
                webbrowser.open(address)

        serve(app, bound, ready)
    finally:
        bound.close()
    say("The page is closed.")
    return DONE


def _session(chosen: argparse.Namespace, method: str, options: dict[str, Any]) -> "WhatIf":
    from relax_plugin.base import make_explainer
    from relax_plugin.commands import request_of_model
    from relax_plugin.commands.output import said_warnings
    from relax_plugin.commands.rows import rows_to_explain
    from relax_plugin.commands.serve_setup import setup_text
    from relax_plugin.features import FeatureSpace
    from relax_plugin.whatif.session import WhatIf

    model, training, whole_rows = request_of_model.model_and_rows(chosen)
    rows = rows_to_explain(chosen, training, whole_rows, None)
    space = request_of_model.space(chosen, training)
    arguments = request_of_model.space_arguments(chosen, training)
    if chosen.vary:
        space.limits(chosen.vary)
        fixed = [f.name for f in space.features if not f.carried and (f.immutable or f.name not in chosen.vary)]
        arguments["immutable"] = fixed
        space = FeatureSpace.infer(training, **arguments)
    space, values = space.taking_in(training)
    blackbox = request_of_model.blackbox(model, space, chosen.task)
    goal = _goal(chosen, blackbox, values)
    explainer = make_explainer(method, blackbox, space, goal=goal, seed=chosen.seed, **options)
    say(f"Fitting {method} on {len(training)} rows of {chosen.training} ...")
    started = time.perf_counter()
    with said_warnings():
        explainer.fit(training)
    session = WhatIf(
        explainer,
        rows,
        setup_text(chosen, training, arguments, method, options, goal),
        title=f"What if? {chosen.model.name} on {(chosen.queries or chosen.training).name}",
        plausible=chosen.plausible,
    )
    fitted = time.perf_counter() - started
    try:
        first = session.warm_up()
    except ReLAXError as error:  # of this row; the page says it again for any other
        say(f"The first row cannot be explained: {error}")
    else:
        say(f"Fitted in {fitted:.1f} s; the first answer took {first:.2f} s.")
    return session


def _goal(chosen: argparse.Namespace, blackbox: "BlackBox", values: "Values") -> "Goal":
    """The goal that the page begins with: for a regressor, half a standard deviation of its answers away."""
    from relax_plugin.commands import request_of_model
    from relax_plugin.goal import Goal

    said = any(getattr(chosen, name) is not None for name in ("to", "shift", "between", "min_probability"))
    if said or blackbox.task != "regression":
        return request_of_model.goal(chosen, blackbox, values)
    spread = float(blackbox.learn(values[:ROWS_FOR_A_GOAL]).output.std()) / 2
    if spread == 0.0:
        raise InputError("the model gives all training rows one answer; say what is wanted: --shift or --between.")
    return Goal.shift(float(f"{spread:.2g}"))


def _has_display() -> bool:
    return sys.platform in ("darwin", "win32") or any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))
