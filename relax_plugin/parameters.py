"""Parameters: declared once with their default, a sentence and a check, and read by all who ask about them."""

import inspect
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from functools import wraps
from typing import Any, TypeGuard, TypeVar, dataclass_transform

import numpy as np

from relax_plugin.errors import InputError, did_you_mean

Check = Callable[[str, Any], Any]  # raises for a wrong value of the parameter of that name
Class = TypeVar("Class", bound=type[Any])


def param(default: Any = MISSING, about: str = "", check: Check | None = None) -> Any:
    """A parameter of a dataclass: its default, what it does, and what refuses a wrong value.

    None is accepted where it is the default.
    """
    return field(default=default, metadata={"about": about, "check": check})


@dataclass_transform(eq_default=False, kw_only_default=True)
def with_parameters(made: Class) -> Class:
    """Make a class a dataclass whose own parameters are given by keyword; its docstring lists all parameters."""
    dataclass(eq=False, repr=False, kw_only=True)(made)  # which changes the class itself
    return documented(made)


def documented(made: Class) -> Class:
    """List the parameters of a dataclass in its docstring."""
    lines = ["", "", "Parameters", "----------"]
    for one in inspect.signature(made).parameters.values():
        default = "" if one.default is one.empty else f", default {one.default!r}"
        lines += [f"{one.name} : {inspect.formatannotation(one.annotation)}{default}", f"    {about(made, one.name)}"]
    text, attributes, rest = inspect.cleandoc(made.__doc__ or "").partition("\n\nAttributes\n")
    made.__doc__ = text + "\n".join(lines) + attributes + rest
    return made


def about(declared: Any, name: str) -> str:
    """What a dataclass says about a parameter; nothing where it is not declared."""
    declaring = fields(declared) if is_dataclass(declared) else ()
    return next((one.metadata.get("about", "") for one in declaring if one.name == name), "")


def check_parameters(declared: Any) -> None:
    """Refuse wrong values of an object's parameters, in the order in which they are declared."""
    for one in fields(declared):
        if check := one.metadata.get("check"):
            value = getattr(declared, one.name)
            if value is not None or one.default is not None:
                check(one.name, value)


def whole(least: int, most: float = np.inf) -> Check:
    """Accepts whole numbers between two ends."""

    def check(name: str, value: Any) -> None:
        if whole_number(name, value, least) > most:
            real_number(name, value, least, most)

    return check


def real(low: float, high: float = np.inf) -> Check:
    """Accepts numbers between two ends."""
    return lambda name, value: real_number(name, value, low, high)


def one_of(accepted: Sequence[str]) -> Check:
    """Accepts some words."""

    def check(name: str, value: Any) -> None:
        if not isinstance(value, str) or value not in accepted:
            raise InputError(f"{name} is {value!r}; {did_you_mean(value, accepted)}")

    return check


def instance_of(kind: type) -> Check:
    """Accepts objects of a class."""

    def check(name: str, value: Any) -> None:
        if not isinstance(value, kind):
            raise InputError(f"{name} is a {type(value).__name__}; a {kind.__name__} is needed.")

    return check


def whole_number(name: str, value: Any, least: int) -> int:
    """The value as an int, or a sentence that says what would be accepted."""
    if not _is_number(value) or value != int(value) or value < least:
        raise InputError(f"{name} is {value!r}, but must be a whole number of at least {least}.")
    return int(value)


def real_number(name: str, value: Any, low: float, high: float) -> float:
    """The value as a float, or a sentence that says what would be accepted."""
    if not _is_number(value) or not low <= value <= high:
        upper = f" to {high:g}" if np.isfinite(high) else " on"
        raise InputError(f"{name} is {value!r}, but must be a number from {low:g}{upper}.")
    return float(value)


def flag(name: str, value: Any) -> bool:
    """The value as a bool, or a sentence that says what would be accepted."""
    if not isinstance(value, bool | np.bool_):
        raise InputError(f"{name} is {value!r}, but must be True or False.")
    return bool(value)


def _is_number(value: Any) -> TypeGuard[float]:
    if isinstance(value, bool | np.bool_):
        return False
    return isinstance(value, int | np.integer) or (isinstance(value, float | np.floating) and bool(np.isfinite(value)))


def with_outdated(outdated: Mapping[str, str], **becomes: str) -> Callable[[Class], Class]:
    """Let a class accept parameters that it had before, with a warning that says what takes their place.

    `becomes` names, for a parameter of today, the one of before whose value it takes over.
    """

    def decorate(made: Class) -> Class:
        init = made.__init__

        @wraps(init)
        def accepting(self: Any, *args: Any, **given: Any) -> None:
            old = {name: given.pop(name) for name in outdated if name in given}
            for name in old:
                told = f"{name} is a parameter of {made.__name__} in version 0.2 and will be refused by the next one"
                warnings.warn(f"{told}; {outdated[name]}.", FutureWarning, stacklevel=2)
            taken = {new: old[name] for new, name in becomes.items() if name in old}
            init(self, *args, **taken | given)

        made.__init__ = accepting
        return made

    return decorate
