"""Arrays: the kinds of NumPy arrays that signatures name, once for all modules, and how one is taken from a file."""

from typing import Any

import numpy as np

from relax_plugin.errors import InputError

Array = np.ndarray[Any, Any]
Floats = np.ndarray[Any, np.dtype[np.float64]]
Integers = np.ndarray[Any, np.dtype[np.int64]]
Booleans = np.ndarray[Any, np.dtype[np.bool_]]
Values = np.ndarray[tuple[int, int], np.dtype[np.float64]]  # rows as numbers: (rows, features), categories as codes


def take_array(arrays: dict[str, Array], name: str, kind: Any, shape: tuple[int, ...]) -> Array:
    """An array of finite numbers, taken out of a file's."""
    array = arrays.pop(name, np.zeros(0))
    if array.shape != shape or array.dtype != kind or not np.isfinite(array).all():
        what = f"{array.dtype} of shape {array.shape}"
        raise InputError(f"finite numbers, {np.dtype(kind)} of shape {shape}, are expected for {name!r}, not {what}.")
    return array
