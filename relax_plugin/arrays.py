"""Arrays: the kinds of NumPy arrays that signatures name, once for all modules."""

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Floats = np.ndarray[Any, np.dtype[np.float64]]
Integers = np.ndarray[Any, np.dtype[np.int64]]
Booleans = np.ndarray[Any, np.dtype[np.bool_]]
Values = np.ndarray[tuple[int, int], np.dtype[np.float64]]  # rows as numbers: (rows, features), categories as codes
