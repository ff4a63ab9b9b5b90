"""The case study on COVID-19, on a table that is drawn at random."""

import gzip
import hashlib
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pandas as pd
import pytest
from reference.synthetic_covid import as_csv, needs_the_table, synthetic_table

from benchmarks.reproduction.claims import paper
from benchmarks.reproduction.covid import section as case_study
from benchmarks.reproduction.covid.discussion import directions, discussion, summary, transfer
from benchmarks.reproduction.covid.pictures import picture
from benchmarks.reproduction.covid.study import FREE, METHODS, Settings, combine, study
from relax_plugin import datasets
from relax_plugin.agent.config import ReLAXConfig
from relax_plugin.datasets import covid
from relax_plugin.pages.html import inline

SMALL = Settings(
    grids={"SVM": {"model__C": [1.0]}, "XGBoost": {"model__max_depth": [2], "model__learning_rate": [0.1, 0.3]}},
    folds=3,
    trees=20,
    splits=2,
    config=ReLAXConfig(steps=30, episodes=32, updates_per_step=1, hidden=16, start_pool=256, validate_every=30),
)


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
def test_picture_has_every_feature_and_no_country(frames: dict[str, pd.DataFrame]) -> None:
    figure = picture(frames)
    left, right = figure.axes
    assert len(left.get_yticklabels()) == len(covid.FEATURES)
    assert {label.get_text().split()[0] for label in right.get_yticklabels()} == set(covid.ACTIONABLE)
    assert inline(figure, "covid", "importance and suggested changes").startswith("<svg")


# The table itself.


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
def test_studies_are_run_once_and_read_again(
    frames: dict[str, pd.DataFrame], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, home = synthetic_table(), tmp_path / "home"
    monkeypatch.setenv("RELAX_DATA_HOME", str(home))
    monkeypatch.setattr(covid, "SHA256", hashlib.sha256(covid.canonical(table)).hexdigest())
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
def test_study_of_the_true_table_keeps_the_constraints() -> None:
    true = study(1, settings=replace(SMALL, trees=100))
    check_changes(true)
    assert true["models"]["test"].iloc[0] > true["models"]["majority"].iloc[0]
    assert true["counterfactuals"].query("method == 'relax-global'")["valid"].mean() > 0.8
