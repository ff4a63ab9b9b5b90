"""ProPublica's table of COMPAS scores: read from the user's own folder, fetched only when asked to, never embedded.

It has names and dates of birth of real people, and no licence to hand it on: the package has its hash, not its cells,
and of the cells only what the features below need is kept when it is read.
"""

import hashlib
import io
import os
from pathlib import Path

import pandas as pd

from relax_plugin.datasets import words
from relax_plugin.datasets.covid import HOME_VARIABLE, TIMEOUT, download
from relax_plugin.errors import MissingDataError

FILE = "compas-scores-two-years.csv"
COMMIT = "bafff5da3f2e45eca6c2d5055faad269defd135a"
URL = f"https://raw.githubusercontent.com/propublica/compas-analysis/{COMMIT}/{FILE}"
SHA256 = "c451db85908b2f7fef1d83203bedf6b71ecda0d5af468d82ae62178f91d0cc7d"  # of the file, as many who use it print it

TARGET = "two_year_recid"
COUNTS = ("juv_fel_count", "juv_misd_count", "juv_other_count", "priors_count")
FEATURES = ("sex", "age", "race", *COUNTS, "c_charge_degree")
FILTERED = ("days_b_screening_arrest", "is_recid", "score_text")
WINDOW = 30  # days between arrest and score, beyond which ProPublica doubts that they belong together

# What a person was charged with and how often says why the answer is as it is; it is no advice. Sex, race and what was
# done as a juvenile are not up for change even in thought, and nobody gets younger.
CONSTRAINTS = {
    "categorical": ("sex", "race", "c_charge_degree"),
    "immutable": ("sex", "race", *COUNTS[:3]),
    "increase_only": ("age",),
    "labels": words.COMPAS,
}
ORIGIN = (
    "COMPAS recidivism scores of Broward County, Florida, 2013 and 2014, collected by ProPublica (J. Angwin, J. "
    "Larson, S. Mattu, L. Kirchner, Machine Bias, 2016): compas-scores-two-years.csv of the GitHub repository "
    "propublica/compas-analysis, with the rows that its analysis keeps. Target 1 is a new charge within two years. The "
    "data are of real people, biased as policing is, and a benchmark only; they are not part of this package."
)


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
    home = os.environ.get(HOME_VARIABLE)
    if not home:
        raise MissingDataError(
            f"the data set 'compas' is not part of the package, and {HOME_VARIABLE} is not set; {_how()}"
        )
    path = Path(home) / FILE
    if not path.is_file():
        raise MissingDataError(f"the data set 'compas' is not part of the package, and there is no {path}; {_how()}")
    return kept(verified(path.read_bytes(), str(path)))


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
    from relax_plugin.files import replacing

    home = os.environ.get(HOME_VARIABLE)
    if not home:
        raise MissingDataError(f"{HOME_VARIABLE} is not set: set it to the folder that the table is to be kept in.")
    target = Path(home) / FILE
    if target.is_file() and hashlib.sha256(target.read_bytes()).hexdigest() == SHA256:
        return target
    if folder is None:
        data = verified(download(url, timeout), url)
    elif (Path(folder) / FILE).is_file():
        data = verified((Path(folder) / FILE).read_bytes(), str(Path(folder) / FILE))
    else:
        raise MissingDataError(f"{folder} has no {FILE}.")
    with replacing(target) as temporary:
        temporary.write_bytes(data)
    return target


def verified(data: bytes, source: str) -> bytes:
    """The bytes of the file, if they are those of the published one."""
    found = hashlib.sha256(data).hexdigest()
    if found != SHA256:
        raise MissingDataError(
            f"{source} is not the published table: its sha256 is {found}, but that of the published one is {SHA256}; "
            f"{_how()}"
        )
    return data


def kept(data: bytes) -> pd.DataFrame:
    """The features and the target of the rows that ProPublica's analysis keeps."""
    table = pd.read_csv(io.BytesIO(data), usecols=[*FEATURES, *FILTERED, TARGET], keep_default_na=False, na_values=[""])
    within = table["days_b_screening_arrest"].between(-WINDOW, WINDOW)  # not where the days are unknown
    known = (table["is_recid"] != -1) & (table["score_text"] != "N/A") & (table["c_charge_degree"] != "O")
    return table.loc[within & known, [*FEATURES, TARGET]].reset_index(drop=True)


def _how() -> str:
    return (
        f"set {HOME_VARIABLE} to a folder and run `relax-plugin fetch compas`, which downloads it from {URL}, "
        "or `relax-plugin fetch compas --folder FOLDER` if you have a copy."
    )
