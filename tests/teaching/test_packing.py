"""Columns of numbers as short texts: what is read is what was stored, rounded to the unit."""

import numpy as np
import pandas as pd
import pytest
from reference.unpacked import unpack

from relax_plugin.errors import InputError
from relax_plugin.teaching.packing import pack, packed


def test_numbers_of_every_size_can_be_packed() -> None:
    for values in ([np.nan], [], [0.0, np.nan, 12.5], [31.999, -32.0], [400.25, -1e6]):
        column = pack(values, 1e-3)
        assert column["unit"] == 1e-3
        assert np.allclose(unpack(column), values, rtol=0, atol=0.51e-3, equal_nan=True)


def test_what_is_counted_is_never_rounded() -> None:
    for largest, size in ((127, 1), (128, 2), (32_767, 2), (32_768, 4), (123_457, 4)):
        numbers = [0.0, 1.0, largest - 1.0, np.nan, float(largest), float(-largest), np.nan]
        column = pack(numbers, 1.0)
        assert column["bytes"] == size
        assert np.array_equal(unpack(column), numbers, equal_nan=True)


@pytest.mark.parametrize(("number", "unit"), [(3e9, 1.0), (-3e6, 1e-3), (np.inf, 1e-3)])
def test_what_is_too_large_for_the_page_is_refused(number, unit) -> None:
    with pytest.raises(InputError, match="too large for the page"):
        pack([0.0, number], unit)


def test_smooth_columns_take_less_than_a_byte_a_number() -> None:
    assert len(pack(np.sin(np.linspace(0, 9, 5000)), 1e-3)["data"]) < 5000


def test_columns_have_their_own_unit_or_thousandths() -> None:
    table = packed(pd.DataFrame({"rows": [3.0, 12.0], "Q": [0.1234, -2.0]}), {"rows": 1.0})
    assert table["rows"]["unit"] == 1.0 and table["Q"]["unit"] == 1e-3
    assert unpack(table["Q"]) == pytest.approx([0.123, -2.0])
