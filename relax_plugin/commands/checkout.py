"""`relax-plugin reproduce` and `relax-plugin figures`, which run `benchmarks/` of a checkout: it is not installed."""

import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from relax_plugin.errors import InputError

ADDRESS = "https://github.com/relax-plugin/relax-plugin"
COMMANDS = {
    "reproduce": "repeat the paper's experiments with every method, and write a report beside the paper's numbers",
    "figures": "the figures about ReLAX itself: efforts, controls, constraints, labels only, surrogates, rivals",
}
FOLDERS = {"reproduce": "reproduction", "figures": "figures"}


def add(commands: Any, given: Sequence[str]) -> None:
    """Add both commands; of the one that is given, with the options that its folder reads."""
    for name, about in COMMANDS.items():
        if name in given[:1]:
            root = checkout()
            if root is None:
                raise InputError(
                    f"`relax-plugin {name}` runs benchmarks/{FOLDERS[name]}, which is not installed: start it in a "
                    f"clone of {ADDRESS}."
                )
            if str(root) not in sys.path:
                sys.path.insert(0, str(root))
            import_module(f"benchmarks.{FOLDERS[name]}.command").add(commands, about)
        else:
            commands.add_parser(name, help=about)


def checkout() -> Path | None:
    """The checkout that this package is imported from, or else the one that it was started in."""
    roots = (Path(__file__).resolve().parents[2], Path.cwd())
    return next((root for root in roots if (root / "benchmarks" / "reproduction" / "command.py").is_file()), None)
