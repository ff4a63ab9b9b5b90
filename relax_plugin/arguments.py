"""Arguments: numbers and flags that a user gives, or a sentence that says what would be accepted."""

from typing import Any, TypeGuard

import numpy as np

from relax_plugin.errors import InputError


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
