"""ProPublica's table of COMPAS scores: read from the user's own folder, fetched only when asked to, never embedded.

It has names and dates of birth of real people, and no licence to hand it on: the package has its hash, not its cells,
and of the cells only what the features below need is kept when it is read.
"""

import io
from pathlib import Path

import pandas as pd

from relax_plugin.datasets.home import TIMEOUT, check_digest, fetched, stored

FILE = "compas-scores-two-years.csv"
COMMIT = "bafff5da3f2e45eca6c2d5055faad269defd135a"
URL = f"https://raw.githubusercontent.com/propublica/compas-analysis/{COMMIT}/{FILE}"
SHA256 = "c451db85908b2f7fef1d83203bedf6b71ecda0d5af468d82ae62178f91d0cc7d"  # of the file, as many who use it print it

TARGET = "two_year_recid"
COUNTS = ("juv_fel_count", "juv_misd_count", "juv_other_count", "priors_count")
FEATURES = ("sex", "age", "race", *COUNTS, "c_charge_degree")
FILTERED = ("days_b_screening_arrest", "is_recid", "score_text")
WINDOW = 30  # days between arrest and score, beyond which ProPublica doubts that they belong together


def load_compas() -> pd.DataFrame:
    """Read the table from the folder in RELAX_DATA_HOME; nothing is downloaded.

    Returns
    -------
    DataFrame
        The features in the order of `FEATURES`, then `two_year_recid`, of the rows that ProPublica's analysis keeps:
        scored within 30 days of the arrest, with a known outcome and score, no ordinary traffic offence.

    Raises
    ------
    MissingDataError
        If the folder is not set, the file is not there, or it is not the published table.
    """
    path = stored("compas", FILE, URL)
    data = verified(path.read_bytes(), str(path))
    table = pd.read_csv(io.BytesIO(data), usecols=[*FEATURES, *FILTERED, TARGET], keep_default_na=False, na_values=[""])
    within = table["days_b_screening_arrest"].between(-WINDOW, WINDOW)  # not where the days are unknown
    known = (table["is_recid"] != -1) & (table["score_text"] != "N/A") & (table["c_charge_degree"] != "O")
    return table.loc[within & known, [*FEATURES, TARGET]].reset_index(drop=True)


def fetch_compas(folder: str | Path | None = None, *, url: str = URL, timeout: float = TIMEOUT) -> Path:
    """Put the table into the folder in RELAX_DATA_HOME, from another folder or from where ProPublica published it.

    It is verified before it is written, and written whole or not at all. A good copy that is there already is kept,
    and nothing is downloaded then.

    Parameters
    ----------
    folder : path, optional
        A local folder with `compas-scores-two-years.csv`. With it nothing is downloaded.
    url : str
        Of the table; https only.
    timeout : float
        Seconds without an answer after which the download is given up.

    Returns
    -------
    Path
        Of the file that `relax_plugin.datasets.load("compas")` reads.

    Raises
    ------
    MissingDataError
        If RELAX_DATA_HOME is not set, nothing can be found or downloaded, or what was found is another table.
    """
    return fetched([FILE], folder, url, timeout, verified)


def verified(data: bytes, source: str) -> bytes:
    """The bytes of the file, if they are those of the published one."""
    check_digest(data, SHA256, source, "compas", URL)
    return data
