"""`relax-plugin list`: the methods and the tasks, and what each is for."""

import argparse
import inspect
import json
import sys
from typing import Any

from relax_plugin.commands.output import DONE, add_json, print_table, terminal_width, text_table
from relax_plugin.errors import MissingExtraError, UnknownNameError
from relax_plugin.registry import explainer_class, list_explainers

HIDDEN = ("model", "space", "goal", "seed")  # parameters of every method


def add(commands: Any) -> None:
    parser: argparse.ArgumentParser = commands.add_parser(
        "list",
        help="methods and tasks, and what each supports",
        description="The explainers of the registry, with those of other packages, and the tasks of bench.",
        epilog="examples:\n  relax-plugin list\n  relax-plugin list --wide\n  relax-plugin list --json",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_json(parser)
    parser.add_argument(
        "--wide", action="store_true", help="print the options of the methods and the sizes of the tasks too"
    )
    parser.set_defaults(run=run)


def run(chosen: argparse.Namespace) -> int:
    """Print both lists."""
    methods = _methods()
    if chosen.json:
        print(json.dumps({"methods": methods, "tasks": _tasks()}, indent=1))
        return DONE
    print("Methods (bench and explain take them by name, with options: greedy:quantiles=10)\n")
    if chosen.wide:
        _print_wide(methods)
    else:
        yes = {True: "yes", False: "no"}
        heads = ["method", "tasks", "categorical", "labels only", "extra", "of its paper"]
        lines = [[method["method"], ", ".join(method["tasks"]), yes[method["categorical"]], yes[method["labels only"]],
                  f"[{method['extra']}]" if method["extra"] else "", method["tier"]] for method in methods]  # fmt: skip
        print(text_table(heads, lines, terminal_width()))
        print("\nTasks\n")
        named = _named_tasks()
        print(text_table(list(named[0]), [list(task.values()) for task in named], terminal_width()))
        print("\nOptions of the methods, and sizes of the tasks: relax-plugin list --wide")
    print("\n`:labels` after the name of a classifier's task: the model answers labels alone.")
    print("`slow/` before the name of a task: the model sleeps 1 ms for each row asked.")
    return DONE


def _print_wide(methods: list[dict[str, Any]]) -> None:
    import pandas as pd

    shown = pd.DataFrame(methods).set_index("method").drop(columns=["paper", "evidence"])  # too long for a column
    shown["tasks"] = shown["tasks"].map(", ".join)
    shown["options"] = shown["options"].map(lambda options: " ".join(f"{k}={v}" for k, v in options.items()))
    shown["extra"] = shown["extra"].map("[{}]".format, na_action="ignore").fillna("")
    for column in ("categorical", "labels only"):
        shown[column] = shown[column].map({True: "yes", False: "no"})
    print_table(shown, as_json=False, wide=True)
    print("\nTasks\n")
    print_table(pd.DataFrame(_tasks()).set_index("task"), as_json=False, wide=True)


def _methods() -> list[dict[str, Any]]:
    methods = []
    for name in list_explainers():
        try:
            methods.append(_described(name))
        except (MissingExtraError, UnknownNameError) as error:  # neither hides the other methods
            print(f"relax-plugin: {name}: {error}", file=sys.stderr)
    return methods


def _described(name: str) -> dict[str, Any]:
    explainer, preset = explainer_class(name)
    parameters, supports = inspect.signature(explainer).parameters.items(), explainer.supports
    return {
        "method": name,
        "tasks": list(supports.tasks),
        "categorical": supports.categorical,
        "labels only": supports.labels_only,
        "extra": supports.extra,
        "paper": supports.paper,
        "tier": supports.tier,
        "evidence": supports.evidence,
        "options": {key: _plain(one.default) for key, one in parameters if key not in (*HIDDEN, *preset)},
    }


def _named_tasks() -> list[dict[str, str]]:
    from relax_plugin.evaluation.tasks import name_tasks

    return name_tasks()


def _tasks() -> list[dict[str, Any]]:
    from relax_plugin.evaluation.tasks import describe_tasks

    return describe_tasks()


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(part) for part in value]
    return value if isinstance(value, int | float | str | None) else type(value).__name__
