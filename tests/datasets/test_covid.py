"""Facts about the COVID-19 table, which is never part of the package."""

import gzip
import hashlib
import io
import os
import urllib.error
import urllib.request
import zipfile
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from reference.synthetic_covid import as_csv, needs_the_table, synthetic_table

from relax_plugin import datasets
from relax_plugin.cli import main
from relax_plugin.datasets import covid
from relax_plugin.errors import InputError, MissingDataError, UnknownNameError


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> pd.DataFrame:
    """The synthetic table, which counts as the published one."""
    table = synthetic_table()
    monkeypatch.setattr(covid, "SHA256", hashlib.sha256(covid.canonical(table)).hexdigest())
    return table


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty RELAX_DATA_HOME, and a network that must not be used."""
    monkeypatch.setenv("RELAX_DATA_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(urllib.request, "urlopen", refuse)
    return tmp_path / "home"


def refuse(*arguments: Any, **options: Any) -> None:
    raise AssertionError(f"the network was asked for {arguments}")


def archive(content: bytes, folder: str = "Covid_Github/") -> bytes:
    """A zip file as the authors' one: their table in a folder, and what a Mac adds."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as packed:
        packed.writestr(f"__MACOSX/{folder}{covid.MEMBER}", b"not the table")
        packed.writestr(f"{folder}train.py", b"pass")
        packed.writestr(f"{folder}{covid.MEMBER}", content)
    return stream.getvalue()


def put(home: Path, content: bytes) -> None:
    home.mkdir(parents=True, exist_ok=True)
    (home / covid.FILE).write_bytes(gzip.compress(content))


# Loading.


def test_absent_table_is_an_error_that_says_how_to_get_it(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(MissingDataError, match=r"there is no .*covid\.csv\.gz; .*`relax-plugin fetch covid`.*https://"):
        datasets.load("covid")
    monkeypatch.delenv("RELAX_DATA_HOME")
    with pytest.raises(MissingDataError, match=r"RELAX_DATA_HOME is not set; .*`relax-plugin fetch covid`"):
        datasets.load("covid")


def test_available_names_never_depend_on_what_was_fetched(home: Path, table: pd.DataFrame) -> None:
    put(home, as_csv(table))
    assert "covid" not in datasets.available()
    with pytest.raises(UnknownNameError, match="did you mean 'covid'"):
        datasets.load("covidd")


def test_loaded_table_has_the_columns_in_order_and_whole_numbers_as_integers(home: Path, table: pd.DataFrame) -> None:
    put(home, as_csv(table))
    dataset = datasets.load("covid")
    pd.testing.assert_frame_equal(dataset.X, table[list(covid.FEATURES)])
    assert dataset.y.tolist() == table[covid.TARGET].tolist()
    assert "no licence" in dataset.origin.lower()


def test_directions_and_fixed_features_are_the_authors() -> None:
    actionable = {"Death_rate", "GDP", "unemploy", "Doc_per", "Nurse_per", "Obe", "Density", "Urban_pop"}
    assert set(covid.ACTIONABLE) == actionable
    assert len(covid.CONSTRAINTS["immutable"]) == 9
    assert set(covid.CONSTRAINTS["increase_only"]) == {"GDP", "Doc_per", "Nurse_per"}
    assert set(covid.CONSTRAINTS["decrease_only"]) == {"Death_rate", "unemploy", "Obe"}


def test_tampered_table_is_refused_with_both_hashes(home: Path, table: pd.DataFrame) -> None:
    table.loc[3, "Obe"] += 0.001
    put(home, as_csv(table))
    found = hashlib.sha256(covid.canonical(table)).hexdigest()
    with pytest.raises(MissingDataError, match=rf"{found}.*{covid.SHA256}"):
        datasets.load("covid")


def test_rows_in_another_order_are_another_table(home: Path, table: pd.DataFrame) -> None:
    put(home, as_csv(table[::-1]))
    with pytest.raises(MissingDataError, match="sha256"):
        datasets.load("covid")


@pytest.mark.parametrize("content", [b"", b"\x1f\x8b broken", b"PK\x03\x04 broken", b"a,b\n1,2\n", b"\xff\xfe\x00"])
def test_what_is_no_table_is_refused_with_a_sentence(home: Path, content: bytes) -> None:
    home.mkdir()
    (home / covid.FILE).write_bytes(content)
    with pytest.raises(MissingDataError, match=r"cannot be read as a table|has no column"):
        datasets.load("covid")


def test_text_in_place_of_a_number_is_refused(home: Path, table: pd.DataFrame) -> None:
    put(home, as_csv(table).replace(b",0\n", b",no\n", 1))
    with pytest.raises(MissingDataError, match="sha256"):
        datasets.load("covid")


def test_hash_is_of_the_numbers_and_not_of_how_they_are_written(table: pd.DataFrame) -> None:
    loaded = covid.verified(as_csv(table), "it")
    named = table.assign(country=[f"country {i}, the" for i in range(len(table))])
    empty_row = "\n" + "," * (len(named.columns) - 1)
    ways = {
        "compressed": gzip.compress(as_csv(table)),
        "archive": archive(as_csv(table)),
        "archive without a folder": archive(as_csv(table), folder=""),
        "other line endings": as_csv(table).replace(b"\n", b"\r\n"),
        "byte order mark": b"\xef\xbb\xbf" + as_csv(table),
        "whole numbers with a point": as_csv(table.astype({"pop": "float64", covid.TARGET: "float64"})),
        "more columns, in another order": as_csv(named[named.columns[::-1]]),
        "an empty row": as_csv(named).rstrip() + empty_row.encode(),
    }
    for way, content in ways.items():
        pd.testing.assert_frame_equal(covid.verified(content, way), loaded)


# Fetching.


@pytest.mark.parametrize("name", [covid.FILE, covid.ARCHIVE, covid.MEMBER])
def test_table_is_taken_from_a_local_folder_without_the_network(
    name: str, home: Path, table: pd.DataFrame, tmp_path: Path
) -> None:
    path = tmp_path / "downloads" / name
    path.parent.mkdir(parents=True)
    packed = {covid.FILE: gzip.compress, covid.ARCHIVE: archive}.get(name, bytes)
    path.write_bytes(packed(as_csv(table)))
    assert datasets.fetch_covid(tmp_path / "downloads") == home / covid.FILE
    assert len(datasets.load("covid").X) == len(table)


@pytest.mark.slow
def test_table_is_downloaded_only_by_fetch_and_only_once(
    home: Path, table: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def answer(url: str, timeout: float) -> io.BytesIO:
        asked.append((url, timeout))
        return io.BytesIO(archive(as_csv(table)))

    monkeypatch.setattr(urllib.request, "urlopen", answer)
    with pytest.raises(MissingDataError):
        datasets.load("covid")
    assert not asked
    assert datasets.fetch_covid() == datasets.fetch_covid() == home / covid.FILE
    assert asked == [(covid.URL, covid.TIMEOUT)]
    assert covid.URL.startswith("https://")
    assert len(datasets.load("covid").X) == len(table)


def test_wrong_download_leaves_the_folder_as_it_was(
    home: Path, table: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(home, b"an old file")
    before = (home / covid.FILE).read_bytes()
    other = as_csv(table.assign(pop=1))
    monkeypatch.setattr(urllib.request, "urlopen", lambda url, timeout: io.BytesIO(archive(other)))
    with pytest.raises(MissingDataError, match=rf"{covid.ARCHIVE} is not the published table.*{covid.SHA256}"):
        datasets.fetch_covid()
    assert [path.name for path in home.iterdir()] == [covid.FILE]
    assert (home / covid.FILE).read_bytes() == before


def test_interrupted_write_leaves_nothing_behind(
    home: Path, table: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / covid.FILE).write_bytes(gzip.compress(as_csv(table)))
    monkeypatch.setattr(os, "replace", lambda *paths: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        datasets.fetch_covid(tmp_path)
    assert list(home.iterdir()) == []


def test_broken_copy_is_replaced_by_a_good_one(home: Path, table: pd.DataFrame, tmp_path: Path) -> None:
    put(home, as_csv(table)[:-9])
    (tmp_path / Path(covid.MEMBER).name).write_bytes(as_csv(table))
    datasets.fetch_covid(tmp_path)
    assert len(datasets.load("covid").X) == len(table)


def test_unreachable_network_and_empty_folder_are_sentences(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(url: str, timeout: float) -> None:
        raise urllib.error.URLError("no route")

    monkeypatch.setattr(urllib.request, "urlopen", fail)
    with pytest.raises(MissingDataError, match=r"cannot be downloaded: URLError .*no route"):
        datasets.fetch_covid()
    with pytest.raises(MissingDataError, match=r"has none of covid\.csv\.gz, Covid_Github\.zip"):
        datasets.fetch_covid(tmp_path)
    with pytest.raises(InputError, match="https only"):
        datasets.fetch_covid(url="http://example.org/Covid_Github.zip")
    monkeypatch.delenv("RELAX_DATA_HOME")
    with pytest.raises(MissingDataError, match="RELAX_DATA_HOME is not set"):
        datasets.fetch_covid(tmp_path)


def test_command_fetches_and_says_where(
    home: Path, table: pd.DataFrame, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / covid.FILE).write_bytes(gzip.compress(as_csv(table)))
    assert main(["fetch", "covid", "--folder", str(tmp_path)]) == 0
    assert capsys.readouterr().out.strip() == str(home / covid.FILE)
    assert main(["fetch", "covid", "--folder", str(tmp_path / "nowhere")]) == 0  # it is there already
    (home / covid.FILE).unlink()
    assert main(["fetch", "covid", "--folder", str(tmp_path / "nowhere")]) == 2
    assert "has none of" in capsys.readouterr().err
    with pytest.raises(SystemExit) as end:
        main(["fetch", "--help"])
    assert end.value.code == 0
    assert "  relax-plugin fetch covid --folder downloads" in capsys.readouterr().out


@needs_the_table
def test_true_table_is_the_authors() -> None:
    dataset = datasets.load("covid")
    assert dataset.X.shape == (153, 17)
    assert int(dataset.y.sum()) == 42
    density = dataset.X["pop"] / dataset.X["lad_area"]  # why a changed Density is called a contradiction
    assert density.to_numpy() == pytest.approx(dataset.X["Density"].to_numpy(), rel=1e-8)
    assert {f.name for f in dataset.space.features if not f.immutable} == set(covid.ACTIONABLE)
