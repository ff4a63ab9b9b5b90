"""The COVID-19 table of the ReLAX authors: read from the user's own folder, fetched only when asked to, never embedded.

The authors published it without a licence, so the package has its hash, not its cells. The hash is that of the numbers
in a fixed way of writing them: it is the same for the published CSV and for a copy that was compressed, that has other
line endings or columns in another order, or that names the countries.
"""

import gzip
import io
import zipfile
import zlib
from pathlib import Path

import pandas as pd

from relax_plugin.datasets.home import LARGEST, TIMEOUT, check_digest, fetched, stored
from relax_plugin.errors import MissingDataError

FILE = "covid.csv.gz"
MEMBER = "dataset/classification_h.csv"  # inside the published archive
ARCHIVE = "Covid_Github.zip"
URL = f"https://raw.githubusercontent.com/Mewtwo1996/ReLAX/b5c496dee9f124a8d32f68bc8f625ab991e9dc2d/{ARCHIVE}"

TARGET = "class"
FEATURES = (
    *("Birth_rate", "Death_rate", "GDP", "infant_mortality", "labor_force", "lad_area", "median_age", "netimig", "pop"),
    *("unemploy", "Doc_per", "Nurse_per", "Obe", "Density", "Health", "Urban_pop", "Urban_pop%"),
)
SHA256 = "209abd8e15a340dc317b1c1dcee6d8966df215e8c1acb323e24a38e4ebf389c1"  # of `canonical(table)`

# The authors' published experiment; everything else is immutable.
INCREASE_ONLY = ("GDP", "Doc_per", "Nurse_per")
DECREASE_ONLY = ("Death_rate", "unemploy", "Obe")
EITHER_WAY = ("Density", "Urban_pop")
ACTIONABLE = tuple(name for name in FEATURES if name in (*INCREASE_ONLY, *DECREASE_ONLY, *EITHER_WAY))
CONSTRAINTS = {
    "immutable": tuple(name for name in FEATURES if name not in ACTIONABLE),
    "increase_only": INCREASE_ONLY,
    "decrease_only": DECREASE_ONLY,
}
ORIGIN = (
    "Country-level table published by the authors of ReLAX (Chen, Silvestri, Wang, Zhu, Ahn, Tolomei, CIKM 2022): "
    f"{MEMBER} in {ARCHIVE} of the GitHub repository Mewtwo1996/ReLAX. Class 1 is a high risk of mortality. "
    "No licence is stated: it is not part of this package."
)


def load_covid() -> pd.DataFrame:
    """Read the table from the folder in RELAX_DATA_HOME; nothing is downloaded.

    Returns
    -------
    DataFrame
        The features in the order of `FEATURES`, then `class`; one row for each country, without its name.

    Raises
    ------
    MissingDataError
        If the folder is not set, the file is not there, or it is not the published table.
    """
    path = stored("covid", FILE, URL)
    return verified(path.read_bytes(), str(path))


def fetch_covid(folder: str | Path | None = None, *, url: str = URL, timeout: float = TIMEOUT) -> Path:
    """Put the table into the folder in RELAX_DATA_HOME, from another folder or from where its authors published it.

    It is verified before it is written, and written whole or not at all. A good copy that is there already is kept,
    and nothing is downloaded then.

    Parameters
    ----------
    folder : path, optional
        A local folder with `covid.csv.gz`, `Covid_Github.zip` or `dataset/classification_h.csv`. With it nothing is
        downloaded.
    url : str
        Of the authors' archive, or of the table itself as CSV; https only.
    timeout : float
        Seconds without an answer after which the download is given up.

    Returns
    -------
    Path
        Of the file that `relax_plugin.datasets.load("covid")` reads.

    Raises
    ------
    MissingDataError
        If RELAX_DATA_HOME is not set, nothing can be found or downloaded, or what was found is another table.
    """
    return fetched([FILE, ARCHIVE, MEMBER, Path(MEMBER).name], folder, url, timeout, _packed)


def verified(data: bytes, source: str) -> pd.DataFrame:
    """The table in a CSV, a gzipped CSV or the authors' archive, if it is the published one; else refused."""
    try:
        cells = pd.read_csv(io.BytesIO(_unpacked(data)), dtype=str, encoding="utf-8-sig")
    except (OSError, EOFError, ValueError, KeyError, zlib.error, zipfile.BadZipFile) as error:
        raise MissingDataError(f"{source} cannot be read as a table: {type(error).__name__} {error}.") from error
    absent = [name for name in (*FEATURES, TARGET) if name not in cells.columns]
    if absent:
        raise MissingDataError(f"{source} is not the published table: it has no column {absent[0]!r}.")
    # The paper speaks of three countries more than the table has: rows with an empty cell are none of it.
    cells = cells[[*FEATURES, TARGET]].dropna().reset_index(drop=True)
    check_digest(canonical(cells), SHA256, source, "covid", URL)
    return numbers(cells)


def _packed(data: bytes, source: str) -> bytes:
    return gzip.compress(canonical(verified(data, source)), mtime=0)


def numbers(cells: pd.DataFrame) -> pd.DataFrame:
    """Cells of text as numbers; a column of whole ones becomes integer, however they are written."""
    table = cells.astype("float64")
    whole = [name for name in table.columns if (table[name] % 1 == 0).all()]
    return table.astype(dict.fromkeys(whole, "int64"))


def canonical(table: pd.DataFrame) -> bytes:
    """The numbers as CSV in one fixed way: the shortest digits of each, whole ones without a point."""
    columns = [*FEATURES, TARGET]
    lines = [",".join(columns)]
    for row in table[columns].itertuples(index=False):
        lines.append(",".join(_number(cell) for cell in row))
    return ("\n".join(lines) + "\n").encode()


def _number(cell: object) -> str:
    try:
        number = float(cell)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return str(cell)  # what is no number changes the hash, and so is refused with a sentence
    return str(int(number)) if number.is_integer() else repr(number)


def _unpacked(data: bytes) -> bytes:
    """The CSV, whatever it is packed in; never more than `LARGEST` bytes of it."""
    if data[:2] == b"\x1f\x8b":
        with gzip.open(io.BytesIO(data)) as stream:
            return stream.read(LARGEST)
    if data[:4] == b"PK\x03\x04":
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            # The archive may have a folder around all; the copy in __MACOSX is not the table.
            names = [name for name in archive.namelist() if name.endswith(MEMBER) and "__MACOSX" not in name]
            if not names:
                raise KeyError(f"the archive has no {MEMBER}")
            with archive.open(names[0]) as member:
                return member.read(LARGEST)
    return data
