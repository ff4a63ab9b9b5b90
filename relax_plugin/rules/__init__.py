"""The language of rules between columns: parsed, bound to columns, kept, and suggested by data."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from relax_plugin.rules.rule import Rule
    from relax_plugin.rules.suggestions import suggest_rules

__all__ = ["Rule", "suggest_rules"]

# Loaded when first asked for: the command line reads rules without pandas.
_MODULE_OF = {"Rule": "relax_plugin.rules.rule", "suggest_rules": "relax_plugin.rules.suggestions"}


def __getattr__(name: str) -> object:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULE_OF[name]), name)
