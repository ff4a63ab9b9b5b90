"""`relax-plugin explain` on a table as people have it: gaps, groups, orders, sums, rules, prices, words."""

import json
import re
import shlex
from pathlib import Path

import joblib
import numpy as np
import pandas as pd
import pytest
from reference.card_page import parsed
from reference.people_files import EDUCATION, write_people

from relax_plugin.cli import main
from relax_plugin.results import Counterfactuals

pytestmark = pytest.mark.slow

ORDERED = ["--ordered", f"education={'<'.join(EDUCATION)}"]
ALONG = ["--target", "granted", "--id", "person", "--carry", "remark", "--missing", "?"]
ROWS = ["--rows", *map(str, range(40))]
TABLE = [*ORDERED, "--one-hot", "auto", "--derived", "spent=rent + food"]
RULES = [
    *("--increase-only", "age", "education"),
    *("--rule", "education <= was(education) or age >= was(age) + 2", "rent <= was(rent) or `hours-per-week` >= 40"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder: Path = tmp_path_factory.mktemp("people")
    write_people(folder)
    return folder


@pytest.fixture(scope="module")
def rows(folder) -> pd.DataFrame:
    return pd.read_csv(folder / "people.csv", na_values=["?"])


@pytest.fixture
def run(folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)

    def call(*arguments: str, training: str = "people.csv", along: list[str] = ALONG):
        named = ["explain", training, "--model", "people.joblib", "--method", "greedy", *along]
        try:
            code = main([*named, *arguments])
        except SystemExit as stopped:
            code = int(str(stopped.code))
        return code, *capsys.readouterr()

    return call


@pytest.fixture
def found(run, rows, tmp_path):
    """The delivered rows, and the rows that they are for."""

    def call(*arguments: str) -> tuple[pd.DataFrame, pd.DataFrame]:
        code, _, err = run(*ROWS, *arguments, "--output", str(tmp_path / "out.csv"))
        assert code in (0, 1), err
        new = pd.read_csv(tmp_path / "out.csv")
        return new, rows.set_index("person").loc[new["query_id"]].reset_index()

    return call


def test_delivered_rows_are_answered_by_the_model_as_the_file_says(found, folder):
    new, old = found(*TABLE, *RULES)
    model = joblib.load(folder / "people.joblib")
    features = list(model.feature_names_in_)
    assert len(new) > 30
    assert model.predict(new[features]).tolist() == new["after"].tolist()
    assert model.predict(old[features]).tolist() == new["before"].tolist()
    assert (new["before"] != new["after"]).all()


def test_missing_cells_stay_missing_unless_they_may_be_filled(found):
    new, old = found()
    assert old["debt"].isna().sum() >= 5 and old["occupation"].isna().any()
    assert new[["debt", "occupation"]].isna().equals(old[["debt", "occupation"]].isna())
    new, old = found("--fill-missing", "debt", "--vary", "debt", "--rows", *map(str, range(150)))
    filled = old["debt"].isna() & new["debt"].notna()
    assert filled.any() and not (old["debt"].notna() & new["debt"].isna()).any()


def test_values_become_missing_only_where_that_is_said(found):
    new, old = found("--may-vanish", "debt", "--vary", "debt")
    assert (old["debt"].notna() & new["debt"].isna()).any()
    new, old = found("--vary", "debt")
    assert len(new) and new["debt"].isna().equals(old["debt"].isna())


def test_a_rule_is_kept_which_is_broken_without_it(found):
    def kept(new, old):
        place = {name: position for position, name in enumerate(EDUCATION)}
        up = new["education"].map(place) > old["education"].map(place)
        return (~up | (new["age"] >= old["age"] + 2)) & ((new["rent"] <= old["rent"]) | (new["hours-per-week"] >= 40))

    new, old = found(*TABLE, *RULES, "--vary", "education", "age", "rent")
    assert len(new) and kept(new, old).all()
    new, old = found(*TABLE, "--increase-only", "age", "education", "--vary", "education", "age", "rent")
    assert not kept(new, old).all()


def test_groups_are_one_feature_and_sums_are_computed(found, run):
    dummies = ["home_own", "home_rent", "home_free"]
    named = f"home={','.join(dummies)}"
    new, _ = found(*TABLE, "--vary", "home", "rent")
    assert (new[dummies].sum(axis=1) == 1).all() and (new["spent"] == new["rent"] + new["food"]).all()
    by_name, _ = found(*ORDERED, "--derived", "spent=rent + food", "--one-hot", named, "--vary", "home", "rent")
    pd.testing.assert_frame_equal(by_name, new)
    torn, _ = found("--vary", *dummies, "spent")
    assert (torn[dummies].sum(axis=1) != 1).any() and (torn["spent"] != torn["rent"] + torn["food"]).any()
    assert "Note: One-hot groups, each of which is one feature: home" in run(*TABLE, "--rows", "0")[2]
    assert "look like the one-hot code of one feature" in run("--rows", "0")[2]


def test_a_derived_column_that_the_table_has_rounded_takes_a_tolerance(run, rows, folder):
    noise = np.random.default_rng(0).uniform(0.995, 1.005, len(rows))
    rows.assign(spent=(rows["spent"] * noise).round(2)).to_csv(folder / "rounded.csv", index=False, na_rep="?")
    more = [*ROWS, "--vary", "rent", "food", "--output", str(folder / "rounded_out.csv")]
    code, _, err = run(*more, "--derived", "spent=rent + food", training="rounded.csv")
    assert code == 2 and "FORMULA ~ TOLERANCE on the command line" in err
    code, _, err = run(*more, "--derived", "spent=rent + food ~ 0.01", training="rounded.csv")
    assert code in (0, 1), err
    new = pd.read_csv(folder / "rounded_out.csv")
    assert len(new) > 5 and np.isclose(new["spent"], new["rent"] + new["food"], rtol=0.01).all()


def test_a_dear_feature_is_changed_less_often(found):
    def share(*more: str) -> float:
        new, old = found(*TABLE, *more)
        return float((new["hours-per-week"] != old["hours-per-week"]).mean())

    assert share("--cost", "hours-per-week=100") < share()


def test_rows_are_named_by_their_identifier_and_bring_what_is_carried(run, tmp_path):
    code, out, err = run("--rows", "3", "1", "--output", str(tmp_path / "out.json"), "--html", str(tmp_path / "a.html"))
    assert code == 0, err
    assert [line.split(":")[0] for line in out.splitlines() if ": if " in line] == ["person P3", "person P1"]
    result = Counterfactuals.from_json((tmp_path / "out.json").read_text())
    assert list(result.queries.index) == ["P3", "P1"] and "person" not in result.space.columns
    assert result.frame["remark"].tolist() == ["seen, twice"] * 2
    page = parsed((tmp_path / "a.html").read_text())
    assert "rows P3, P1 of people.csv, by person" in page.one(".rc-head").text
    assert [title.text for title in page.all(".rc-title")] == ["person P3", "person P1"]
    for query, card in enumerate(page.all(".relax-card")):
        assert ["remark", "seen, twice", "not known to the model"] in card.one(".rc-values").lines
        assert card.one(".rc-sentence").text[3:] in out
        rows = f"{result.rows_queried[query]:,} model rows asked."
        assert card.one(".rc-foot").text == f"Model people.joblib, method greedy, seed 0; people.csv. {rows}"
    assert {line["query_id"] for line in json.loads(run("--rows", "3", "1", "--json")[1])} == {"P3", "P1"}


def test_labels_are_what_people_read(run, tmp_path):
    words = {"education": ["schooling", {"lower": "no diploma", "HS-grad": "diploma", "Some-college": "some college",
             "Bachelors": "bachelor", "Masters": "master", "Doctorate": "doctor"}],
             "hours-per-week": "hours of work", "home": {"own": "owned"}, "granted": "of the target"}  # fmt: skip
    (tmp_path / "words.json").write_text(json.dumps(words))
    page = tmp_path / "page.html"
    varied = [*TABLE, "--labels", str(tmp_path / "words.json"), "--vary", "education", "hours-per-week", "home"]
    code, out, err = run(*ROWS, *varied, "--html", str(page))
    assert code in (0, 1), err
    for text in (out, page.read_text()):
        assert "schooling" in text and "hours of work" in text and "owned" in text
        assert "hours-per-week" not in text and "HS-grad" not in text
    told = json.loads(run(*ROWS, *varied, "--json")[1])
    assert "hours-per-week" in {line["feature"] for line in told}, "programs read names"


def test_plausible_answers_are_preferred_required_or_not_looked_at(run):
    told = {word: run(*ROWS, *TABLE, "--plausible", word) for word in ("prefer", "require", "no")}
    assert run(*ROWS, *TABLE) == told["no"]
    assert "counterfactuals look like training rows; an independent detector says" in told["prefer"][1]
    assert "training rows" not in told["no"][1]
    required = next(line for line in told["require"][1].splitlines() if "look like training rows" in line)
    plausible, _, of = required.partition("each). ")[2].split()[:3]
    assert plausible == of
    assert told["no"][1].splitlines()[:-1] != told["prefer"][1].splitlines()[:-1]


def test_numbers_may_be_written_as_na_but_a_text_na_is_a_category(run, folder, rows, tmp_path):
    changed = rows.assign(occupation=rows["occupation"].replace("Sales", "NA"))
    changed["debt"] = changed["debt"].map(lambda debt: "NA" if np.isnan(debt) else str(debt))
    changed.to_csv(tmp_path / "na.csv", index=False, na_rep="")
    arguments = [*ROWS, "--vary", "occupation", "--bounds", "occupation=NA"]
    code, _, err = run(*arguments, training=str(tmp_path / "na.csv"))
    assert code in (0, 1), err
    code, _, err = run(*arguments, "--missing", "NA", training=str(tmp_path / "na.csv"))
    assert code == 2 and "feature 'occupation' has no category 'NA'" in err


def test_queries_may_have_gaps_where_training_rows_have_none(run, rows, tmp_path):
    gaps = rows.head(6).assign(age=np.nan)
    gaps.to_csv(tmp_path / "queries.csv", index=False, na_rep="?")
    code, _, err = run("--queries", str(tmp_path / "queries.csv"), "--output", str(tmp_path / "out.csv"))
    assert code in (0, 1), err
    assert pd.read_csv(tmp_path / "out.csv")["age"].isna().all()


def test_the_example_of_the_documentation_runs(folder, rows, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    page = (Path(__file__).parents[2] / "docs" / "commands.md").read_text(encoding="utf-8")
    (command,) = re.findall(r"```sh\nrelax-plugin (explain people.csv .*?)```", page, re.DOTALL)
    assert main(shlex.split(command.replace("\\\n", " "))) in (0, 1), capsys.readouterr().err
    new = pd.read_csv("out.csv")
    old = rows.set_index("person").loc[new["query_id"]].reset_index()
    assert len(new) and (new["age"] >= old["age"]).all() and (new["spent"] == new["rent"] + new["food"]).all()
    assert (new["remark"] == "seen, twice").all()


# Refusals.


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--rule", "age >= was(age"], "--rule: "),
        (["--rule", "hours-per-week >= 40"], "in backticks, `hours-per-week` is one"),
        (["--rule", "aeg >= 40"], "'aeg' is no column; did you mean 'age'?"),
        (["--rule", "education >= 'Masters'"], "needs an order"),
        (["--derived", "spent=rent + fod"], "'fod' is no column; did you mean 'food'?"),
        (["--derived", "spent=rent"], "derived column 'spent' is"),
        (["--derived", "spent=rent + food ~ 2"], "the tolerance of 'spent'"),
        (["--derived", "spent=rent ~ food"], "--derived: "),
        (["--derived", "spent= ~ 0.1"], "--derived: "),
        (["--derived", "spend=rent"], "--derived names feature 'spend'; did you mean 'spent'?"),
        (["--derived", "spent=rent + food", "--immutable", "spent"], "--immutable names feature 'spent'"),
        (["--one-hot", "home=home_own,home_rnt"], "--one-hot names column 'home_rnt' of group 'home'; did you mean"),
        (["--one-hot", "home"], "--one-hot is 'home'; write auto, or NAME=COLUMN,COLUMN"),
        (["--one-hot", "auto", "home=home_own,home_rent"], "--one-hot says auto and names groups too"),
        (["--one-hot", "home=home_own,home_rent,home_free", "--vary", "home_own"], "--vary names feature 'home_own'"),
        (["--one-hot", "auto", "--vary", "tenure"], "--vary names feature 'tenure'"),
        (["--ordered", "education=lower<HS-grad"], "which its order ['lower', 'HS-grad'] does not name"),
        (["--ordered", "education=lower"], "the order of feature 'education' is 'lower'; name each category once"),
        (["--cost", "age=-1"], "the cost of feature 'age' is '-1'; give a number above 0"),
        (["--cost", "aeg=1"], "--cost names feature 'aeg'; did you mean 'age'?"),
        (["--fill-missing", "dept"], "--fill-missing names feature 'dept'; did you mean 'debt'?"),
        (["--id", "persona"], "--id names column 'persona'; did you mean 'person'?"),
        (["--id", "remark"], "--id names column 'remark', which is that of another row in row 1 of people.csv"),
        (["--carry", "remarks"], "--carry names column 'remarks'; did you mean 'remark'?"),
        (["--immutable", "person"], "--immutable names feature 'person'"),
        (["--labels", "people.csv"], "--labels is people.csv, which is no JSON"),
        (["--labels", "list.json"], "list.json holds no labels; an object such as"),
        (["--labels", "unknown.json"], "unknown.json has a label of 'ages'; did you mean 'age'?"),
        (["--labels", "category.json"], "labels names category 'highr' of feature 'education'"),
    ],
)
def test_what_does_not_fit_the_table_is_refused_in_a_sentence(run, folder, arguments, sentence):
    (folder / "list.json").write_text("[]")
    (folder / "unknown.json").write_text('{"ages": "age"}')
    (folder / "category.json").write_text('{"education": {"highr": "higher"}}')
    along = ["--target", "granted", "--missing", "?"]
    along += [] if "--id" in arguments else ["--id", "person"]
    along += [] if "--carry" in arguments else ["--carry", "remark"] if "remark" not in arguments else []
    code, out, err = run(*arguments, along=along)
    assert code == 2 and out == ""
    assert sentence in err
    assert "Fitting" not in err
