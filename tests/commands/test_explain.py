"""`relax-plugin explain`: real CSV files, models saved by joblib and converted to ONNX, and every option."""

import json
from pathlib import Path
from typing import NamedTuple

import joblib
import numpy as np
import pandas as pd
import pytest
from reference.saved_models import NUMBERS, write_files
from sklearn.linear_model import LogisticRegression

from relax_plugin.cli import main
from relax_plugin.results import Counterfactuals

ROWS = ["--rows", *map(str, range(4, 20))]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder: Path = tmp_path_factory.mktemp("explain")
    write_files(folder)
    return folder


class Run(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def run(folder, monkeypatch, capsys):
    """The command in the folder of the files, with the quickest method."""
    monkeypatch.chdir(folder)

    def call(*arguments: str, model: str = "model.joblib", training: str = "train.csv", method: str = "greedy") -> Run:
        named = ["explain", training, "--model", model, "--method", method]
        try:
            code = main([*named, *arguments])
        except SystemExit as stopped:  # argparse's own refusals
            code = int(str(stopped.code))
        return Run(code, *capsys.readouterr())

    return call


@pytest.fixture
def explained(run, folder, tmp_path):
    """The delivered rows next to the training rows they are for."""

    def call(*arguments: str, **files: str) -> tuple[pd.DataFrame, pd.DataFrame]:
        path = tmp_path / "out.csv"
        done = run(*ROWS, *arguments, "--output", str(path), **files)
        assert done.code in (0, 1), done.err
        found = pd.read_csv(path)
        return found, pd.read_csv(folder / "train.csv").loc[found["query_id"]].reset_index(drop=True)

    return call


@pytest.mark.slow
def test_delivered_rows_are_answered_by_the_model_as_the_file_says(explained, folder):
    found, start = explained("--target", "approved")
    model = joblib.load(folder / "model.joblib")
    features = list(start.columns.drop("approved"))
    assert found["query_id"].tolist() == list(range(4, 20))
    assert model.predict(found[features]).tolist() == found["after"].tolist()
    assert model.predict(start[features]).tolist() == found["before"].tolist()
    assert (found["before"] != found["after"]).all()
    assert found[features].dtypes.equals(start[features].dtypes)


def test_first_ten_rows_are_explained_unless_others_are_named(run):
    done = run()
    assert done.code == 0
    assert "the first 10 rows of train.csv are explained" in done.err
    assert "10 of 10 rows have a counterfactual" in done.out
    assert "Row 9: if " in done.out and "Row 10:" not in done.out
    assert "Left out of train.csv, since they are no features: approved." in done.err


@pytest.mark.slow
def test_rows_that_have_the_wanted_answer_are_told_apart(run):
    done = run("--rows", "0", "1", "2", "3", "4", "5", "--target", "approved", "--to", "yes")
    already = done.out.count("meets the goal already")
    assert 0 < already < 6
    assert "6 of 6 rows have a counterfactual" in done.out and f" {already} of them met the goal as " in done.out


@pytest.mark.slow
def test_rows_keep_their_numbers_in_table_sentences_and_json(run):
    done = run("--rows", "7", "3")
    assert [line.split(":")[0] for line in done.out.splitlines() if line.startswith("Row")] == ["Row 7", "Row 3"]
    done = run("--rows", "7", "3", "--json")
    assert {line["query_id"] for line in json.loads(done.out)} == {3, 7}
    assert "2 of 2 rows have a counterfactual" in done.err


@pytest.mark.slow
def test_queries_may_have_their_columns_in_another_order(run, folder, tmp_path):
    rows = pd.read_csv(folder / "train.csv").iloc[[5, 6]]
    rows[rows.columns[::-1]].to_csv(tmp_path / "queries.csv", index=False)
    done = run("--target", "approved", "--queries", str(tmp_path / "queries.csv"), "--json")
    same = run("--target", "approved", "--rows", "5", "6", "--json")
    assert done.code == 0 and "Left out" not in done.err
    assert done.out == same.out.replace('"query_id": 5', '"query_id": 0').replace('"query_id": 6', '"query_id": 1')


def test_a_category_that_looks_like_a_number_stays_text_in_queries(run, folder, tmp_path):
    rows = pd.read_csv(folder / "train.csv").assign(town=lambda rows: rows["town"].replace("Rome", "1"))
    model = joblib.load(folder / "model.joblib")
    joblib.dump(model.fit(rows.drop(columns="approved"), rows["approved"]), tmp_path / "model.joblib")
    rows.to_csv(tmp_path / "train.csv", index=False)
    rows[rows["town"] == "1"].head(3).to_csv(tmp_path / "queries.csv", index=False)
    files = {"model": str(tmp_path / "model.joblib"), "training": str(tmp_path / "train.csv")}
    assert run("--queries", str(tmp_path / "queries.csv"), **files).code == 0


@pytest.mark.slow
def test_json_lists_changes_and_reasons(run):
    done = run(*ROWS, "--to", "yes", "--vary", "town", "--json")
    lines = json.loads(done.out)
    assert list(lines[0]) == ["query_id", "cf_id", "feature", "from", "to", "before", "after", "reason"]
    assert [line["query_id"] for line in lines] == list(range(4, 20))
    unsolved = [line for line in lines if line["after"] is None]
    already = [line for line in lines if line["before"] == "yes"]
    assert unsolved and already and len(unsolved) + len(already) < 16
    assert all(line["feature"] is None and line["reason"].startswith("none was found") for line in unsolved)
    assert all(line["after"] == "yes" and "already" in line["reason"] for line in already)
    assert done.code == 1
    more = json.loads(run(*ROWS, "--to", "yes", "-n", "2", "--json").out)
    assert [line for line in more if line["before"] == "yes"] == already


def test_what_a_joblib_file_does_is_said_before_it_is_loaded(run):
    done = run(model="trap.joblib")
    assert done.code == 2
    assert done.err.index("trap.joblib is a joblib file: loading it runs whatever code") < done.err.index("CODE RAN")


@pytest.mark.parametrize(
    "wrong",
    [
        ["--target", "aproved"],
        ["--queries", "nowhere.csv"],
        ["--rows", "150"],
        ["--option", "quantile=3"],
        ["--output", "page.txt"],
        ["--html", "nowhere/page.html"],
    ],
)
def test_a_refused_request_loads_no_code(run, wrong):
    done = run(*wrong, model="trap.joblib")
    assert done.code == 2 and "CODE RAN" not in done.err


# Goals.


@pytest.mark.slow
@pytest.mark.parametrize("typed", ["yes", "YES"])
def test_to_reaches_the_label(explained, typed):
    found, _ = explained("--to", typed)
    assert (found["after"] == "yes").all() and len(found) == 16


@pytest.mark.slow
@pytest.mark.parametrize(
    ("labels", "typed"), [((0, 1), "1"), ((False, True), "true"), ((1.0, 2.0), "2"), (("a", "1"), "1")]
)
def test_labels_of_any_type_can_be_typed(run, folder, tmp_path, labels, typed):
    rows = pd.read_csv(folder / "train.csv")
    target = np.array(labels)[(rows["income"] > 400).astype(int)]
    joblib.dump(LogisticRegression().fit(rows[NUMBERS], target), tmp_path / "model.joblib")
    done = run("--to", typed, "--json", model=str(tmp_path / "model.joblib"))
    lines = json.loads(done.out)
    assert done.code == 0
    assert {line["after"] for line in lines} == {np.array(labels)[1].item()}


@pytest.mark.slow
def test_min_probability_is_reached(explained, folder):
    found, start = explained("--min-probability", "0.95")
    chances = joblib.load(folder / "model.joblib").predict_proba(found[start.columns.drop("approved")])
    assert len(found) and (chances.max(axis=1) >= 0.95).all()


@pytest.mark.slow
def test_shift_and_between_are_goals_of_regressors(explained):
    found, _ = explained("--shift", "1.5", model="points.joblib")
    assert len(found) == 16 and ((found["after"] - found["before"]).abs() >= 1.5).all()
    found, _ = explained("--shift", "0.5", "--direction", "down", model="points.joblib")
    assert len(found) and (found["after"] - found["before"] <= -0.5).all()
    found, _ = explained("--between", "3.5", "3.9", model="points.joblib")
    assert found["after"].between(3.5, 3.9).all() and not found["before"].between(3.5, 3.9).all()
    found, _ = explained("--between", "-", "3", model="points.joblib")
    assert (found["after"] <= 3).all() and (found["after"] < 2.5).any()


@pytest.mark.slow
@pytest.mark.parametrize(
    "said", [[], ["--immutable", "age (years)"], ["--vary", "income"], ["--bounds", "income=100:900"]]
)
def test_that_nothing_is_fixed_is_said_once(run, said):
    done = run("--rows", "0", "--method", "greedy", *said)
    assert done.code in (0, 1)
    assert done.err.count("No feature is fixed: each may change in either direction. --immutable, ") == (not said)


@pytest.mark.slow
def test_n_asks_for_several(explained):
    found, _ = explained("-n", "3")
    assert found.groupby("query_id").size().max() == 3
    assert not found.drop(columns="cf_id").duplicated().any()


# What may change.


@pytest.mark.slow
@pytest.mark.parametrize(
    ("option", "kept"),
    [
        (
            ["--immutable", "income", "town"],
            lambda new, old: (new[["income", "town"]] == old[["income", "town"]]).all(),
        ),
        (["--increase-only", *NUMBERS], lambda new, old: new[NUMBERS] >= old[NUMBERS]),
        (["--decrease-only", *NUMBERS], lambda new, old: new[NUMBERS] <= old[NUMBERS]),
        (["--vary", "age (years)"], lambda new, old: _same(new, old)),
        (["--bounds", "income=300:400.5"], lambda new, old: new["income"].between(300, 400.5) | _same(new, old)),
        (["--bounds", "income=400:", "age (years)=:30"], lambda new, old: (new["income"] >= 400) | _same(new, old)),
        (["--max-changes", "1"], lambda new, old: (new[old.columns[:4]] != old[old.columns[:4]]).sum(axis=1) <= 1),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_a_constraint_is_kept_which_is_broken_without_it(explained, option, kept):
    # A high probability takes large changes of several features.
    found, start = explained(*option, "--min-probability", "0.8")
    assert len(found) and np.all(kept(found, start))
    assert not np.all(kept(*explained("--min-probability", "0.8")))


def _same(new, old):
    return new["income"] == old["income"]


@pytest.mark.slow
def test_bounds_of_categories_and_bools_are_typed_as_text(explained):
    found, start = explained("--vary", "town", "member", "--bounds", "town=rome|Oslo", "member=False")
    moved = found["town"] != start["town"]
    assert moved.any() and found.loc[moved, "town"].isin(["Rome", "Oslo"]).all()
    assert not found.loc[found["member"] != start["member"], "member"].any()
    free, start = explained("--vary", "town", "member")
    assert (free["town"] == "Bonn")[free["town"] != start["town"]].any()


@pytest.mark.slow
def test_bounds_may_be_wider_than_the_data(explained):
    wide = ["--vary", "income", "--to", "yes"]
    assert len(explained(*wide, "--bounds", "income=0:5000")[0]) > len(explained(*wide)[0])


@pytest.mark.slow
def test_numbers_named_categorical_take_only_values_of_the_data(run, folder, tmp_path):
    rows = pd.read_csv(folder / "train.csv")
    data = pd.DataFrame({"zone": rows["age (years)"] // 20 * 20, "income": rows["income"]})
    data.to_csv(tmp_path / "zones.csv", index=False)
    joblib.dump(LogisticRegression().fit(data, data["zone"] >= 40), tmp_path / "model.joblib")
    files = {"training": str(tmp_path / "zones.csv"), "model": str(tmp_path / "model.joblib")}
    options = ["--vary", "zone", "--json"]
    free, bound = (json.loads(run(*options, *more, **files).out) for more in ([], ["--categorical", "zone"]))
    zones = set(data["zone"])
    assert all(line["to"] in zones for line in bound) and not all(line["to"] in zones for line in free)
    done = run(*options, "--categorical", "zone", "--bounds", "zone=0|40.0", **files)
    assert {line["to"] for line in json.loads(done.out) if line["to"] is not None} <= {0, 40}


# Methods.


@pytest.mark.slow
def test_method_option_and_seed_count(run):
    rows = ["--rows", "1", "2", "3", "4", "-n", "2", "--json"]
    default = run(*rows).out
    assert run(*rows).out == default
    assert run(*rows, "--option", "quantiles=3").out == run(*rows, method="greedy:quantiles=3").out != default
    assert run(*rows, "--option", "quantiles=3", "refined=False").out != run(*rows, "--option", "quantiles=3").out
    assert run(*rows, method="nearest-ct").out != default
    by_chance = {"method": "random-order:max_queries=15"}
    several = [*ROWS, "--json"]
    first = run(*several, **by_chance).out
    assert run(*several, "--seed", "1", **by_chance).out != first == run(*several, **by_chance).out


@pytest.mark.slow
def test_task_is_asked_for_where_the_model_does_not_tell_it(run):
    files = {"model": "labels.joblib", "method": "nearest-ct"}
    done = run("--target", "approved", **files)
    assert done.code == 2 and "--task classification or --task regression" in done.err
    for goal in (["--task", "classification", "--to", "1"], ["--task", "regression", "--shift", "1"]):
        assert run("--target", "approved", *goal, **files).code == 0


# Files.


def test_json_file_and_page_hold_the_result_and_leave_nothing_else(run, tmp_path):
    done = run("--rows", "3", "4", "--output", str(tmp_path / "out.json"), "--html", str(tmp_path / "page.html"))
    assert done.code == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.json", "page.html"]
    result = Counterfactuals.from_json((tmp_path / "out.json").read_text())
    assert result.found.all() and list(result.queries.index) == [3, 4]
    page = (tmp_path / "page.html").read_text()
    assert "rows 3, 4 of train.csv" in page
    assert all(sentence.split(": if ")[1] in page for sentence in done.out.splitlines() if sentence.startswith("Row"))


def test_a_query_that_the_model_refuses_has_a_status_and_the_others_are_answered(run, folder, tmp_path):
    rows = pd.read_csv(folder / "train.csv").drop(columns="approved").head(3)
    rows.assign(town=["Rome", "Oslo", "Paris"]).to_csv(tmp_path / "queries.csv", index=False)
    done = run("--queries", str(tmp_path / "queries.csv"), "--output", str(tmp_path / "out.json"))
    assert done.code == 1 and "Feature 'town' is 'Paris' in row 2, but the training data has only" in done.err
    assert "raised ValueError: Found unknown categories ['Paris']" in done.out
    assert "2 of 3 rows have a counterfactual" in done.out


def test_a_run_that_fails_writes_nothing(run, folder, tmp_path):
    """The model refuses every row of training, which is quoted."""
    pd.read_csv(folder / "train.csv").assign(town="Paris").to_csv(tmp_path / "train.csv", index=False)
    (tmp_path / "out.csv").write_text("kept")
    options = ["--output", str(tmp_path / "out.csv"), "--html", str(tmp_path / "page.html")]
    done = run(*options, training=str(tmp_path / "train.csv"))
    assert done.code == 2 and "it raised ValueError: Found unknown categories ['Paris']" in done.err
    assert (tmp_path / "out.csv").read_text() == "kept"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.csv", "train.csv"]


@pytest.mark.slow
def test_regions_are_told_in_sentences_and_cards(run, tmp_path):
    plain = run("--rows", "3", "4", "--html", str(tmp_path / "plain.html"))
    told = run("--rows", "3", "4", "--regions", "--html", str(tmp_path / "page.html"))
    assert told.code == 0 and "Regions of changed cells: " in told.out and "Regions" not in plain.out
    words = ("at least", "at most", "between", "one of")
    assert any(word in told.out for word in words) and not any(word in plain.out for word in words)
    page = (tmp_path / "page.html").read_text()
    assert any(word in page for word in words)
