"""Facts about files in parts: what is read part by part is what is read whole, cell for cell and type for type."""

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow
import pyarrow.parquet
import pytest

from relax_plugin.commands.rows import read_rows
from relax_plugin.distributed.parts import Parts, arrow_bytes, columns_with_gaps, cut_csv, parquet_bytes, table_files
from relax_plugin.errors import ColumnError, InputError

ROWS = 103


def table() -> pd.DataFrame:
    """Columns of every kind, with what differs between the first and the last rows."""
    rng = np.random.default_rng(0)
    late = np.arange(ROWS) > 90
    return pd.DataFrame(
        {
            "whole": rng.integers(0, 9, ROWS),
            "whole, then fractions": np.where(late, 0.5, rng.integers(0, 9, ROWS)),
            "whole with one gap": pd.Series(np.where(np.arange(ROWS) == 97, np.nan, 4.0)).astype("Int64"),
            "flag": rng.random(ROWS) < 0.5,
            "text": rng.choice(["a", "b, c", 'd "e"', "f\ng", "7"], ROWS),
            "number, then text": np.where(late, "x", "12"),
            "nothing, then text": np.where(late, "x", None),
            "empty": np.full(ROWS, np.nan),
        }
    )


def read_in_parts(path: Path, rows: int, missing: tuple[str, ...] = ()) -> pd.DataFrame:
    parts = Parts.of(path, rows, missing)
    assert [part.rows for part in parts.parts[:-1]] == [rows] * (len(parts) - 1)
    assert [part.number for part in parts.parts] == list(range(len(parts)))
    read = [parts.read(part) for part in parts.parts]
    for some in read:
        pd.testing.assert_series_equal(some.dtypes, read[0].dtypes)
    return pd.concat(read, ignore_index=True)


@pytest.mark.parametrize("rows", [7, 64, ROWS, 1000])
@pytest.mark.parametrize("ending", [".csv", ".parquet", ".feather"])
def test_parts_together_are_the_file(tmp_path: Path, ending: str, rows: int) -> None:
    path = tmp_path / f"table{ending}"
    if ending == ".csv":
        table().to_csv(path, index=False)
    elif ending == ".parquet":
        table().to_parquet(path, row_group_size=37)
    else:
        batches = pyarrow.Table.from_pandas(table()).to_batches(max_chunksize=29)
        with pyarrow.ipc.new_file(path, batches[0].schema) as file:
            for batch in batches:
                file.write_batch(batch)
    pd.testing.assert_frame_equal(read_in_parts(path, rows), read_rows(path), check_exact=True)


CELLS = {
    "fractions late": ["1", "2", "2.5"],
    "whole with a gap": ["1", "", "3"],
    "gap words among numbers": ["1", "NA", "2.5"],
    "gap words alone": ["NA", "null", "NA"],
    "gap words and text": ["NA", "1", "Rome"],
    "numbers with zeros, then text": ["007", "08", "x"],
    "flags": ["True", "False", "True"],
    "flags with a gap": ["True", "", "False"],
    "flags and numbers": ["True", "1", "0"],
    "flags, then text": ["True", "False", "maybe"],
    "empty, then whole": ["", "4", "5"],
    "all empty": ["", "", ""],
    "larger than 64 bits of sign": ["1", "2", "18446744073709551615"],
    "a text that means missing": ["?", "3", "4"],
}


@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize("cells", CELLS.values(), ids=list(CELLS))
def test_a_part_of_a_csv_has_the_types_of_the_whole(tmp_path: Path, cells: list[str], rows: int) -> None:
    path = tmp_path / "table.csv"
    path.write_text("one,other\n" + "".join(f"{cell},0\n" for cell in cells))
    expected = read_rows(path, ("?",))
    pd.testing.assert_frame_equal(read_in_parts(path, rows, ("?",)), expected, check_exact=True)


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("a,b\n1,2\n3,4\n", [1, 1]),
        ("a,b\r\n1,2\r\n3,4", [1, 1]),  # no line end at the end
        ('a,b\n"1\n\n1",2\n3,"4 ""x\n"""\n', [1, 1]),
        ("\n\na,b\n\n1,2\n  \n3,4\n\n", [1, 1]),  # empty lines are no rows
        ('a,b\n5" pipe,2\n3,4\n', [1, 1]),  # a quotation mark within a cell begins nothing
        ('"a\nb",c\n1,2\n', [1]),
        ("a,b\n", [0]),
        ("\ufeffa,b\n1,2\n", [1]),
    ],
)
def test_a_csv_is_cut_between_rows(tmp_path: Path, text: str, rows: list[int]) -> None:
    path = tmp_path / "table.csv"
    path.write_bytes(text.encode())
    spans = cut_csv(path, 1)
    assert [span.rows for span in spans if span.rows] == [count for count in rows if count]
    assert spans[-1].end <= len(text.encode())
    if sum(rows):
        pd.testing.assert_frame_equal(read_in_parts(path, 1), read_rows(path), check_exact=True)


def test_gaps_are_found_with_and_without_statistics(tmp_path: Path) -> None:
    cells = pa_table({"gap late": [1, 2, None], "none": [1, 2, 3], "text": ["a", None, "b"]})
    for statistics in (True, False):
        pyarrow.parquet.write_table(cells, tmp_path / "table.parquet", row_group_size=1, write_statistics=statistics)
        assert columns_with_gaps([tmp_path / "table.parquet"]) == {"gap late"}
        pd.testing.assert_frame_equal(read_in_parts(tmp_path / "table.parquet", 1), cells.to_pandas())


def pa_table(columns: dict[str, list[object]]) -> pyarrow.Table:
    return pyarrow.table(columns)


def test_a_folder_is_its_files_in_the_order_of_their_names(tmp_path: Path) -> None:
    whole = table()
    for number, some in enumerate((whole[:40], whole[40:90], whole[90:])):
        some.to_csv(tmp_path / f"{number}.csv", index=False)
    (tmp_path / "_notes").write_text("no table")
    parts = Parts.of(tmp_path, 30)
    assert [(part.path.name, part.before + part.first, part.rows) for part in parts.parts] == [
        *(("0.csv", 0, 30), ("0.csv", 30, 10), ("1.csv", 40, 30), ("1.csv", 70, 20), ("2.csv", 90, 13)),
    ]
    assert parts.kinds["whole, then fractions"] == "number"
    assert parts.kinds["number, then text"] == "text"
    together = pd.concat([parts.read(part) for part in parts.parts], ignore_index=True)
    whole.to_csv(tmp_path.parent / "whole.csv", index=False)
    pd.testing.assert_frame_equal(together, read_rows(tmp_path.parent / "whole.csv"), check_exact=True)


def test_rows_are_drawn_evenly_and_in_order(tmp_path: Path) -> None:
    pd.DataFrame({"row": np.arange(1000)}).to_parquet(tmp_path / "table.parquet")
    parts = Parts.of(tmp_path / "table.parquet", 64)
    drawn = parts.drawn(100, seed=3)["row"].to_numpy()
    assert len(drawn) == 100 and (np.diff(drawn) > 0).all()
    assert 400 < drawn.mean() < 600
    assert (drawn == parts.drawn(100, seed=3)["row"]).all()
    assert (parts.drawn(100, seed=4)["row"] != drawn).any()
    assert (parts.drawn(5000, seed=3)["row"] == np.arange(1000)).all()


@pytest.mark.parametrize("write", [parquet_bytes, arrow_bytes])
def test_a_table_without_rows_keeps_its_types(tmp_path: Path, write: object) -> None:
    path = tmp_path / ("t.parquet" if write is parquet_bytes else "t.arrow")
    empty = table().drop(columns="nothing, then text").iloc[:0]
    path.write_bytes(write(empty))  # type: ignore[operator]
    read = pd.read_parquet(path) if path.suffix == ".parquet" else pd.read_feather(path)
    pd.testing.assert_series_equal(read.dtypes, empty.dtypes)


def test_what_cannot_be_read_in_parts_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no file"):
        table_files(tmp_path / "none.csv")
    with pytest.raises(InputError, match="no table in the folder"):
        table_files(tmp_path)
    (tmp_path / "packed.csv.gz").write_text("")
    with pytest.raises(InputError, match=r"packed.csv.gz is no table that is read in parts; .*\.parquet"):
        table_files(tmp_path)
    (tmp_path / "packed.csv.gz").unlink()
    (tmp_path / "a.csv").write_text("a,b\n1,2\n")
    (tmp_path / "b.csv").write_text("a,c\n1,2\n")
    with pytest.raises(ColumnError, match=r"b.csv has other columns than the files before it, or another order: 'b'"):
        Parts.of(tmp_path)
    (tmp_path / "b.csv").write_text("")
    with pytest.raises(InputError, match=r"b.csv is empty"):
        Parts.of(tmp_path)
    (tmp_path / "c.parquet").write_text("not Parquet")
    with pytest.raises(InputError, match=r"two kinds, a.csv and c.parquet"):
        Parts.of(tmp_path)
    with pytest.raises(InputError, match=r"c.parquet cannot be read as Parquet"):
        Parts.of(tmp_path / "c.parquet")


def test_a_file_that_changed_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "table.parquet"
    table().to_parquet(path)
    parts = Parts.of(path, 50)
    table()[:60].to_parquet(path)
    with pytest.raises(InputError, match="has changed while it was read: rows 50 to 99"):
        parts.read(parts.parts[1])
