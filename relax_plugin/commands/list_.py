"""`relax-plugin list`: the methods and the tasks, and what each is for."""

import argparse
import inspect
import json
import sys
from typing import Any

from relax_plugin.commands.output import DONE, add_json, print_table
from relax_plugin.errors import UnknownNameError
from relax_plugin.registry import explainer_class, list_explainers

HIDDEN = ("model", "space", "goal", "seed")  # parameters of every method


def add(commands: Any) -> None:
    parser: argparse.ArgumentParser = commands.add_parser(
        "list",
        help="methods and tasks, and what each supports",
        description="The explainers of the registry, with those of other packages, and the tasks of bench.",
        epilog="examples:\n  relax-plugin list\n  relax-plugin list --json",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_json(parser)
    parser.set_defaults(run=run)


def run(chosen: argparse.Namespace) -> int:
    """Print both lists."""
    import pandas as pd

    methods, tasks = _methods(), _tasks()
    if chosen.json:
        print(json.dumps({"methods": methods, "tasks": tasks}, indent=1))
        return DONE
    shown = pd.DataFrame(methods).set_index("method").drop(columns="paper")  # too long for a column
    shown["tasks"] = shown["tasks"].map(", ".join)
    shown["options"] = shown["options"].map(lambda options: " ".join(f"{k}={v}" for k, v in options.items()))
    shown["extra"] = shown["extra"].map("[{}]".format, na_action="ignore").fillna("")
    for column in ("categorical", "labels only"):
        shown[column] = shown[column].map({True: "yes", False: "no"})
    print("Methods (bench and explain take them by name, with options: greedy:quantiles=10)\n")
    print_table(shown, as_json=False)
    print("\nTasks\n")
    print_table(pd.DataFrame(tasks).set_index("task"), as_json=False)
    print("\n`:labels` after the name of a classification task: the model answers labels alone.")
    print("`slow/` before the name of a task: the model sleeps 1 ms for each row it is asked.")
    return DONE


def _methods() -> list[dict[str, Any]]:
    methods = []
    for name in list_explainers():
        try:
            explainer, preset = explainer_class(name)
        except UnknownNameError as error:  # a broken package must not hide all others
            print(f"relax-plugin: {error}", file=sys.stderr)
            continue
        parameters = inspect.signature(explainer).parameters.items()
        options = {key: _plain(p.default) for key, p in parameters if key not in (*HIDDEN, *preset)}
        methods.append(
            {
                "method": name,
                "tasks": list(explainer.supports.tasks),
                "categorical": explainer.supports.categorical,
                "labels only": explainer.supports.labels_only,
                "extra": explainer.supports.extra,
                "paper": explainer.supports.paper,
                "options": options,
            }
        )
    return methods


def _tasks() -> list[dict[str, Any]]:
    from relax_plugin.evaluation.tasks import describe_tasks

    return describe_tasks()


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(part) for part in value]
    return value if isinstance(value, int | float | str | None) else type(value).__name__
