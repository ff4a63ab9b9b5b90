"""Tables for a page: columns of numbers as short texts, which its script unpacks.

A number is stored as a whole multiple of a unit. Neighbours are alike, so what is stored is the step from one to the
next, compressed: that is a quarter of the numbers themselves.
"""

import base64
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from relax_plugin.arrays import Floats
from relax_plugin.errors import InputError

FINEST = 1e-3  # unit in which fractions are stored
KINDS = ("<i1", "<i2", "<i4")


def packed(frame: pd.DataFrame, units: Mapping[str, float]) -> dict[str, dict[str, Any]]:
    """The columns of a frame as texts, each in its unit; those without one in thousandths."""
    return {str(name): pack(frame[name].to_numpy(dtype=np.float64), units.get(str(name), FINEST)) for name in frame}


def pack(values: Floats | Sequence[float], unit: float) -> dict[str, Any]:
    """Numbers as whole multiples of the unit, in the fewest bytes that hold them all; NaN as the lowest."""
    whole = np.round(np.asarray(values, dtype=np.float64) / unit)
    largest = float(np.nanmax(np.abs(whole), initial=0.0))
    kinds = [np.dtype(code) for code in KINDS]
    kind = next((kind for kind in kinds if largest <= np.iinfo(kind).max), None)
    if kind is None:
        raise InputError(
            f"{largest * unit:g} is too large for the page, which stores numbers in units of {unit:g}; "
            f"up to {np.iinfo(kinds[-1]).max * unit:g} is accepted."
        )
    numbers = np.where(np.isnan(whole), np.iinfo(kind).min, whole).astype(kind)
    steps = np.diff(numbers, prepend=np.zeros(1, dtype=kind))  # around the corner where it is too far: sums come back
    text = base64.b64encode(zlib.compress(steps.astype(kind).tobytes(), 9)).decode()
    return {"unit": unit, "bytes": kind.itemsize, "data": text}
