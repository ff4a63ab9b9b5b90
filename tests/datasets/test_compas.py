"""COMPAS: fetched with its sha256 and never embedded; tried on a table that is made here."""

import hashlib
import io
import urllib.request
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from relax_plugin import datasets
from relax_plugin.cli import main
from relax_plugin.datasets import compas
from relax_plugin.errors import InputError, MissingDataError

MADE = b"""id,name,sex,age,race,juv_fel_count,juv_misd_count,juv_other_count,priors_count,days_b_screening_arrest,\
c_charge_degree,is_recid,score_text,two_year_recid
1,of nobody,Male,34,Other,0,0,0,2,-1,F,0,Low,0
2,of nobody,Female,24,Caucasian,0,1,0,4,30,M,1,High,1
3,too late,Male,23,Other,0,0,0,1,31,F,1,High,1
4,nobody knows when,Male,41,Other,0,0,0,1,,F,0,Medium,0
5,nobody knows how it went on,Male,41,Other,0,0,0,1,0,F,-1,Medium,0
6,not scored,Male,41,Other,0,0,0,1,0,F,0,N/A,0
7,ordinary traffic,Male,41,Other,0,0,0,1,0,O,0,Low,0
8,of nobody,Male,52,Hispanic,1,0,2,9,-30,F,1,Medium,1
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty RELAX_DATA_HOME, a network that must not be used, and the table made here as the published one."""
    monkeypatch.setenv("RELAX_DATA_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(urllib.request, "urlopen", refuse)
    monkeypatch.setattr(compas, "SHA256", hashlib.sha256(MADE).hexdigest())
    return tmp_path / "home"


def refuse(*arguments: Any, **options: Any) -> None:
    raise AssertionError(f"the network was asked for {arguments}")


def put(folder: Path, content: bytes = MADE) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / compas.FILE).write_bytes(content)
    return folder


def test_the_rows_of_propublicas_analysis_are_kept_and_no_names(home: Path) -> None:
    put(home)
    data = datasets.load("compas")
    assert list(data.X.columns) == [
        *("sex", "age", "race", "juv_fel_count", "juv_misd_count", "juv_other_count", "priors_count"),
        "c_charge_degree",
    ]
    assert data.X["age"].tolist() == [34, 24, 52]
    assert data.y.tolist() == [0, 1, 1]


def test_its_space_holds_fixed_who_one_is_and_has_words_for_the_charge(home: Path) -> None:
    put(home)
    data = datasets.load("compas")
    space = data.space
    fixed = [feature.name for feature in space.features if feature.immutable]
    assert fixed == ["sex", "race", "juv_fel_count", "juv_misd_count", "juv_other_count"]
    assert data.words["c_charge_degree"] == {"F": "felony", "M": "misdemeanor"}
    start = space.values(data.X)
    low, _ = space.limits().span(start)
    age = space.names.index("age")
    assert (low[:, age] == start[:, age]).all(), "nobody gets younger"


def test_absent_or_altered_table_is_refused_with_what_to_do(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(
        MissingDataError, match=r"there is no .*two-years\.csv; .*`relax-plugin fetch compas`.*https://"
    ):
        datasets.load("compas")
    put(home, MADE + b"\n")
    found = hashlib.sha256(MADE + b"\n").hexdigest()
    with pytest.raises(MissingDataError, match=rf"its sha256 is {found}, but that of the published one is"):
        datasets.load("compas")
    monkeypatch.delenv("RELAX_DATA_HOME")
    for ask in (datasets.fetch_compas, lambda: datasets.load("compas")):
        with pytest.raises(MissingDataError, match="RELAX_DATA_HOME is not set"):
            ask()


def test_it_is_taken_from_a_folder_and_downloaded_only_where_there_is_none(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(MissingDataError, match=r"has no compas-scores-two-years\.csv"):
        datasets.fetch_compas(tmp_path)
    assert datasets.fetch_compas(put(tmp_path / "downloads")) == home / compas.FILE
    assert (home / compas.FILE).read_bytes() == MADE
    (home / compas.FILE).unlink()
    asked: list[Any] = []

    def answer(url: str, timeout: float) -> io.BytesIO:
        asked.append((url, timeout))
        return io.BytesIO(MADE)

    monkeypatch.setattr(urllib.request, "urlopen", answer)
    assert datasets.fetch_compas() == datasets.fetch_compas() == home / compas.FILE
    assert asked == [(compas.URL, compas.TIMEOUT)]
    (home / compas.FILE).unlink()
    with pytest.raises(InputError, match="https only"):
        datasets.fetch_compas(url="http://example.org/table.csv")


def test_a_wrong_download_leaves_the_folder_as_it_was(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(urllib.request, "urlopen", lambda url, timeout: io.BytesIO(b"<html>moved</html>"))
    with pytest.raises(MissingDataError, match="is not the published table"):
        datasets.fetch_compas()
    assert not home.exists() or not list(home.iterdir())


def test_the_command_says_where_it_put_the_table(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["fetch", "compas", "--folder", str(put(tmp_path / "downloads"))]) == 0
    assert capsys.readouterr().out.strip() == str(home / compas.FILE)


def test_the_published_digest_and_address_are_a_fixed_pair() -> None:
    """Of the repository at one commit; several public repositories print this digest for the file."""
    assert len(compas.SHA256) == 64 and int(compas.SHA256, 16)
    assert compas.URL.startswith("https://") and len(compas.COMMIT) == 40 and compas.COMMIT in compas.URL


def test_available_names_never_depend_on_what_was_fetched(home: Path) -> None:
    put(home)
    assert "compas" not in datasets.available()
    assert isinstance(datasets.load("compas").X, pd.DataFrame)
