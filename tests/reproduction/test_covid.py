"""Facts about the COVID-19 table, which is never part of the package, and about the case study on it."""

import gzip
import hashlib
import io
import os
import urllib.error
import urllib.request
import zipfile
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd
import pytest

from relax_plugin import datasets
from relax_plugin.agent.config import ReLAXConfig
from relax_plugin.cli import main
from relax_plugin.datasets import covid
from relax_plugin.errors import InputError, MissingDataError, UnknownNameError
from relax_plugin.pages.svg import inline
from relax_plugin.reproduction.claims import paper
from relax_plugin.reproduction.covid import section as case_study
from relax_plugin.reproduction.covid.discussion import directions, discussion, summary, transfer
from relax_plugin.reproduction.covid.pictures import picture
from relax_plugin.reproduction.covid.study import FREE, METHODS, Settings, combine, study
from relax_plugin.reproduction.report.page import render

HOME = os.environ.get("RELAX_DATA_HOME")
needs_the_table = pytest.mark.skipif(
    HOME is None or not (Path(HOME) / covid.FILE).is_file(), reason="RELAX_DATA_HOME has no covid.csv.gz"
)
SMALL = Settings(
    grids={"SVM": {"model__C": [1.0]}, "XGBoost": {"model__max_depth": [2], "model__learning_rate": [0.1, 0.3]}},
    folds=3,
    trees=20,
    splits=2,
    config=ReLAXConfig(steps=30, episodes=32, updates_per_step=1, hidden=16, start_pool=256, validate_every=30),
)


def synthetic_table(rows: int = 120) -> pd.DataFrame:
    """A table of the same columns: the class depends on Death_rate, Obe and Doc_per (the wrong way), with noise."""
    generator = np.random.default_rng(0)
    table = pd.DataFrame(generator.gamma(4.0, 2.0, size=(rows, len(covid.FEATURES))).round(3), columns=covid.FEATURES)
    for name in ("GDP", "labor_force", "lad_area", "pop", "Urban_pop"):
        table[name] = (table[name] * 1000).astype("int64")
    table["median_age"] = (20 + table["Doc_per"] + generator.normal(0, 1, rows)).round(1)
    risk = table["Death_rate"] + table["Obe"] + 0.7 * table["Doc_per"] + generator.normal(0, 1, rows)
    table[covid.TARGET] = (risk > risk.quantile(0.65)).astype("int64")
    return table


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


def as_csv(table: pd.DataFrame) -> bytes:
    return table.to_csv(index=False).encode()


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


# The study.


@pytest.fixture(scope="module")
def frames() -> dict[str, pd.DataFrame]:
    """Two splits of the synthetic table."""
    table = synthetic_table()
    y = table.pop(covid.TARGET)
    constraints = MappingProxyType(dict(covid.CONSTRAINTS))
    dataset = datasets.Dataset("synthetic", table, y, "classification", constraints, "nowhere")
    return combine(study(seed, dataset, SMALL) for seed in range(2))


@pytest.mark.slow
def test_every_frame_has_both_seeds(frames: dict[str, pd.DataFrame]) -> None:
    assert set(frames) == {"models", "counterfactuals", "changes", "importance", "transfer", "association"}
    for name, frame in frames.items():
        assert frame.columns[0] == "seed", name
        assert set(frame["seed"]) == {0, 1}, name


@pytest.mark.slow
def test_every_country_called_high_risk_is_asked_for(frames: dict[str, pd.DataFrame]) -> None:
    explained = frames["models"].query("model == 'XGBoost'").set_index("seed")
    assert (explained["training_rows"] == 84).all() and (explained["test_rows"] == 36).all()
    assert explained["cv"].between(0.6, 1.0).all()
    counts = frames["counterfactuals"].groupby(["method", "seed"]).size()
    for method in METHODS:
        assert counts[method].to_dict() == explained["called_high"].to_dict()


def check_changes(frames: dict[str, pd.DataFrame]) -> None:
    """What holds of every change, and of the numbers computed from them."""
    changes, queries = frames["changes"], frames["counterfactuals"]
    assert set(changes["feature"]) <= set(covid.ACTIONABLE)
    kept = changes[changes["method"] != FREE]
    assert (kept.loc[kept["feature"].isin(covid.INCREASE_ONLY), "direction"] == 1).all()
    assert (kept.loc[kept["feature"].isin(covid.DECREASE_ONLY), "direction"] == -1).all()
    assert (queries["violations"] == 0).all()
    assert (queries["claimed"] == queries["valid"]).all()
    keys = ["seed", "method", "query"]
    solved = queries[queries["valid"]].set_index(keys)
    cells = changes.groupby(keys)["size"].agg(["size", "sum"]).loc[solved.index]
    assert cells["size"].tolist() == solved["sparsity"].tolist()
    assert cells["sum"].to_numpy() == pytest.approx(solved["proximity"].to_numpy())
    assert solved["sparsity"].between(1, 3).all()


@pytest.mark.slow
def test_changes_keep_directions_and_add_up_to_sparsity_and_proximity(frames: dict[str, pd.DataFrame]) -> None:
    check_changes(frames)
    assert frames["counterfactuals"].query("method == 'relax-global'")["valid"].mean() > 0.5


@pytest.mark.slow
def test_stored_frames_hold_no_cell_of_the_table(frames: dict[str, pd.DataFrame]) -> None:
    cells = set(synthetic_table()["Obe"]) | set(synthetic_table()["pop"])
    for name in ("counterfactuals", "changes", "transfer"):
        numbers = frames[name].select_dtypes("number").drop(columns=["seed", "query"])
        numbers = numbers.drop(columns=["violations", "sparsity", "direction", "other_seed"], errors="ignore")
        assert not cells & set(numbers.to_numpy().ravel()), name


@pytest.mark.slow
def test_other_models_are_those_of_the_other_splits(frames: dict[str, pd.DataFrame]) -> None:
    rows = frames["transfer"]
    assert (rows["other_seed"] == 1 - rows["seed"]).all()
    found = frames["counterfactuals"].groupby(["seed", "method"])["valid"].sum()
    assert rows.groupby(["seed", "method"]).size().to_dict() == found[found > 0].to_dict()
    asked = rows[rows["high_before"].astype(bool)]
    counts = transfer(frames).set_index(["method", "held_out"])
    for key, part in asked.groupby(["method", "held_out"]):
        share = part["normal_after"].astype(bool).sum() / len(part)
        assert counts.loc[key].to_list() == [len(part), pytest.approx(share)]


@pytest.mark.slow
def test_association_tells_confounding_from_the_effect_of_age(frames: dict[str, pd.DataFrame]) -> None:
    table = frames["association"].query("seed == 0").set_index("feature")
    assert table.loc["Doc_per", "correlation"] > 0.2  # made so: the more doctors, the higher the risk
    assert table.loc["Doc_per", "with_age"] > 0.9
    assert table.loc["pop", "with_population"] == pytest.approx(1.0)
    assert np.isnan(table.loc["median_age", "given_age"])
    assert table.loc["Doc_per", "auc"] > 0.6


@pytest.mark.slow
def test_importance_ranks_what_the_class_was_made_of_first(frames: dict[str, pd.DataFrame]) -> None:
    first = frames["importance"].query("rank <= 3")
    assert set(first["feature"]) <= {"Death_rate", "Obe", "Doc_per", "median_age"}
    assert frames["importance"].groupby("seed")["importance"].sum().to_numpy() == pytest.approx(1.0, abs=1e-4)


@pytest.mark.slow
def test_directions_count_what_the_changes_say(frames: dict[str, pd.DataFrame]) -> None:
    table = directions(frames)
    assert table["count"].sum() == len(frames["changes"])
    assert (table["least"] <= table["share"]).all() and (table["share"] <= table["most"]).all()
    assert summary(frames).groupby("method")["called_high"].sum().nunique() == 1


@pytest.mark.slow
def test_discussion_states_only_numbers_of_the_frames(frames: dict[str, pd.DataFrame]) -> None:
    text = " ".join(discussion(frames))
    assert len(discussion(frames)) == 7
    assert "the 120 countries" in text and "36 test countries" in text
    assert "{" not in text and "nan" not in text
    fewer = frames["changes"].query("method == @FREE and feature == 'Doc_per' and direction == -1")
    assert f"lowers Doc_per in {len(fewer)} and" in text


@pytest.mark.slow
def test_frames_survive_a_csv_file(frames: dict[str, pd.DataFrame], tmp_path: Path) -> None:
    stored = {}
    for name, frame in frames.items():
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
        stored[name] = pd.read_csv(tmp_path / f"{name}.csv")
    assert discussion(stored) == discussion(frames)


@pytest.mark.slow
def test_picture_has_every_feature_and_no_country(frames: dict[str, pd.DataFrame]) -> None:
    figure = picture(frames)
    left, right = figure.axes
    assert len(left.get_yticklabels()) == len(covid.FEATURES)
    assert {label.get_text().split()[0] for label in right.get_yticklabels()} == set(covid.ACTIONABLE)
    assert inline(figure, "covid", "importance and suggested changes").startswith("<svg")


@pytest.mark.slow
def test_picture_of_a_single_split_without_changes_can_be_drawn(frames: dict[str, pd.DataFrame]) -> None:
    one = {name: frame[frame["seed"] == 0] for name, frame in frames.items()}
    one["changes"] = one["changes"].iloc[:0]
    one["counterfactuals"] = one["counterfactuals"].assign(valid=False)
    assert len(picture(one).axes) == 2


# The table itself.


@pytest.mark.slow
def test_section_of_the_report_shows_the_papers_numbers_beside_ours(frames: dict[str, pd.DataFrame]) -> None:
    shown = case_study.section(frames)
    numbers = next(table for table in shown["tables"] if table.caption == "Counterfactuals")
    line = dict(zip(numbers.headings, numbers.lines[0], strict=True))
    mine = frames["counterfactuals"].query("method == 'relax-global'")
    changed = mine.groupby("seed")["sparsity"].mean().mean()
    assert line["paper: features changed"] == "1.67"
    assert line["features changed"].startswith(f"{changed:.2f}")
    assert len(shown["discussion"]) == 7
    text = render({}, [], quick=True, covid=frames)
    assert 'class="printed words">down' in text and "It was not run" not in text
    assert "It was not run" in render({}, [], quick=True)


@pytest.mark.slow
def test_claim_of_the_five_changes_follows_the_counts(frames: dict[str, pd.DataFrame]) -> None:
    changes = [
        ("relax-global", query, feature, sign, 1.0)
        for feature, sign in paper.COVID_DIRECTIONS.items()
        for query in range(3)
    ]
    rare = ("relax-global", 0, "GDP", 1, 1.0)
    made = pd.DataFrame([*changes, rare], columns=["method", "query", "feature", "direction", "size"])
    made.insert(0, "seed", 0)
    first, _ = case_study.covid_claims({**frames, "changes": made})
    assert first.status == "held" and "GDP up" in first.evidence
    often = pd.concat([made, *[made[made["feature"] == "GDP"]] * 5], ignore_index=True)
    some = case_study.covid_claims({**frames, "changes": often})[0]
    assert some.status == "not held" and "pick 2.5 of them, and as many or more with probability 0.10" in some.evidence


@pytest.mark.slow
@pytest.mark.parametrize(("changes", "status"), [(paper.COVID_CHANGES, "compatible"), (2.9, "different")])
def test_numbers_of_the_paper_are_compatible_within_two_deviations(
    frames: dict[str, pd.DataFrame], changes: float, status: str
) -> None:
    spread = {0: -0.01, 1: 0.01}
    cells, models = frames["counterfactuals"].copy(), frames["models"].copy()
    cells["sparsity"] = changes + cells["seed"].map(spread)
    cells["proximity"] = paper.COVID_DISTANCE + cells["seed"].map(spread)
    models["test"] = paper.COVID_ACCURACY + models["seed"].map(spread)
    made = {**frames, "counterfactuals": cells, "models": models}
    assert case_study.covid_claims(made)[1].status == status
    single = {name: frame[frame["seed"] == 0] for name, frame in made.items()}
    assert case_study.covid_claims(single)[1].status == "not measured", "one split has no deviation"


@pytest.mark.slow
def test_studies_are_run_once_and_read_again(
    frames: dict[str, pd.DataFrame], home: Path, table: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    assert case_study.run_studies(tmp_path / "units", [0, 1], 1, said.append) == {}
    assert "left out" in said[-1] and "fetch covid" in said[-1]
    home.mkdir(parents=True)
    (home / covid.FILE).write_bytes(gzip.compress(as_csv(table)))
    asked: list[int] = []

    def numbered(seed: int) -> tuple[int, dict[str, pd.DataFrame]]:
        asked.append(seed)
        return seed, {name: frame[frame["seed"] == seed] for name, frame in frames.items()}

    monkeypatch.setattr(case_study, "_numbered", numbered)
    first = case_study.run_studies(tmp_path / "units", [0, 1], 1, said.append)
    again = case_study.run_studies(tmp_path / "units", [0, 1], 1, said.append)
    assert asked == [0, 1]
    for name, frame in first.items():
        pd.testing.assert_frame_equal(frame, again[name])


@needs_the_table
def test_true_table_is_the_authors() -> None:
    dataset = datasets.load("covid")
    assert dataset.X.shape == (153, 17)
    assert int(dataset.y.sum()) == 42
    density = dataset.X["pop"] / dataset.X["lad_area"]  # why a changed Density is called a contradiction
    assert density.to_numpy() == pytest.approx(dataset.X["Density"].to_numpy(), rel=1e-8)
    assert {f.name for f in dataset.space.features if not f.immutable} == set(covid.ACTIONABLE)


@needs_the_table
def test_study_of_the_true_table_keeps_the_constraints() -> None:
    true = study(1, settings=replace(SMALL, trees=100))
    check_changes(true)
    assert true["models"]["test"].iloc[0] > true["models"]["majority"].iloc[0]
    assert true["counterfactuals"].query("method == 'relax-global'")["valid"].mean() > 0.8
