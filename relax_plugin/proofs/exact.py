"""Exact models: whether an object behaves as its library wrote it, so that what is read from it is how it answers."""

import sys
from functools import reduce
from typing import Any

LIBRARIES = ("sklearn", "torch", "xgboost", "lightgbm", "catboost")
ASKED = ("predict", "predict_proba", "decision_function", "transform")  # also where the class only hands them on
GLOBAL_HOOKS = ("_global_forward_hooks", "_global_forward_pre_hooks")  # of torch.nn.modules.module


def library_of(part: Any) -> str:
    """The library whose own class the object has; "" for subclasses and classes of other packages."""
    kind = type(part)
    own: Any = sys.modules.get(kind.__module__)
    try:
        own = reduce(getattr, kind.__qualname__.split("."), own)
    except AttributeError:
        return ""
    library = kind.__module__.partition(".")[0]
    return library if own is kind and library in LIBRARIES else ""


def why_altered(part: Any) -> str:
    """Why an object may behave otherwise than its library wrote it, as the end of a sentence; "" if it cannot.

    Only the object itself is looked at. Readers ask for every part that they read: steps, trees and layers too.
    """
    name = type(part).__name__
    if not library_of(part):
        return f"has a {name} of another package"
    held = getattr(part, "__dict__", {})
    replaced = [attribute for attribute in held if attribute in ASKED or callable(getattr(type(part), attribute, None))]
    if replaced or held.get("_compiled_call_impl") is not None:
        return f"has a {name} whose {(replaced or ['forward'])[0]!r} was replaced"
    if any(hooks for attribute, hooks in held.items() if attribute.endswith(("_hooks", "_hooks_with_kwargs"))):
        return f"has a {name} with hooks"
    if library_of(part) == "torch":
        shared = sys.modules["torch.nn.modules.module"]
        if any(getattr(shared, hooks) for hooks in GLOBAL_HOOKS):
            return "is asked while torch has global hooks"
    return ""
