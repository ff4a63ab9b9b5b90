"""Arrays: the kinds of NumPy arrays that signatures name, once for all modules, and how one is taken from a file."""

from typing import Any

import numpy as np

from relax_plugin.errors import InputError

Array = np.ndarray[Any, Any]
Floats = np.ndarray[Any, np.dtype[np.float64]]
Integers = np.ndarray[Any, np.dtype[np.int64]]
Booleans = np.ndarray[Any, np.dtype[np.bool_]]
Values = np.ndarray[tuple[int, int], np.dtype[np.float64]]  # rows as numbers: (rows, features), categories as codes


def take_array(arrays: dict[str, Array], name: str, kind: Any, *shape: int | None, finite: bool = True) -> Array:
    """An array of numbers, taken out of those of a file; None in its shape stands for any length."""
    array = arrays.pop(name, np.zeros(0))
    fits = array.dtype == kind and array.ndim == len(shape)
    if not (fits and all(wanted in (None, given) for wanted, given in zip(shape, array.shape, strict=True))):
        what = f"{array.dtype} of shape {array.shape}"
        raise InputError(f"{np.dtype(kind)} of shape {shape} is expected for {name!r}, not {what}.")
    if not (np.isfinite(array) if finite else ~np.isnan(array)).all():
        raise InputError(f"{name!r} holds what is no number.")
    return array
