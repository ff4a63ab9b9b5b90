"""The outputs shown in README.md and the documentation come from stored runs, and the model agrees with them.

A trained model or agent gives other digits on another processor. So the code of a page is run, the form of what it
prints is compared with the form of what the page shows, and the model fitted here is asked about the printed rows.
"""

import html
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import joblib
import pandas as pd
import pytest
from markdown_files import blocks, conversations, printed

from benchmarks.tables import outputs
from benchmarks.tables.outputs import pictures

ROOT = Path(__file__).resolve().parent.parent
STORED = json.loads(outputs.OUTPUTS.read_text(encoding="utf-8"))

NUMBER = r"-?\d[\d,]*(?:\.\d+)?"
PERCENT = r"\d+(?:\.\d+)?%"
CHANGE = rf"\w+ were (?:at most |at least )?{NUMBER} instead of {NUMBER}"
LIST = rf"{CHANGE}(?:, {CHANGE})*(?: and {CHANGE})?"
ANSWER = (
    rf"if {LIST}, the answer would be \w+ instead of \w+ \(probability of \w+: {PERCENT} before, {PERCENT} after\)\."
)
FORMS = {
    "found": rf"\w+ \w+: {ANSWER}(?: Or {ANSWER})*",
    "not found": r"Row \d+: no counterfactual; none was found within \d+ changes\.",
    "count": rf"Counterfactuals: \d+ of \d+ found, (?:up to )?\d+ per query, {NUMBER} evaluations per query",
    "header of rows": r" +query_id  cf_id(?: +(?!feature)[\w.]+)+",
    "whole row": rf"\w+ +\d+ +\d+(?: +(?:{NUMBER}|\.\.\.))+",
    "size": r"\[\d+ rows x \d+ columns\]",
    "header": r" +query_id  cf_id +feature +from +to",
    "row": rf"\d+ +\d+ +\d+ +\w+ +{NUMBER} +{NUMBER}",
    "header of the command": r"query_id  cf_id  feature +from +to  before  after",
    "rule": r"[- ]+",
    "row of the command": rf"\w+ +\d+  \w+ +{NUMBER} +{NUMBER}  \w+  \w+",
    "summary": rf"\d+ of \d+ rows have a counterfactual \(relax-global, {NUMBER} model rows each\)\. "
    rf"Regions of changed cells: .+, {NUMBER} model rows in all\.",
    "empty": "",
    "truth": "True|False",
}
REPEATED = {"row", "whole row", "row of the command"}  # how many there are depends on what was found


def forms(text: str) -> list[str]:
    """The form of each line; a run of rows of a table counts once."""
    found: list[str] = []
    for line in text.splitlines():
        names = [name for name, form in FORMS.items() if re.fullmatch(form, line)]
        assert len(names) == 1, (line, names)
        if not (found and found[-1] == names[0] and names[0] in REPEATED):
            found += names
    return found


def number(text: str) -> float:
    return float(text.replace(",", ""))


def sentences(text: str) -> Iterator[tuple[str, dict[str, tuple[float, float]], str, str]]:
    """Each counterfactual: the name of the row, its changes (from, to), the predictions before and after."""
    for line in text.splitlines():
        if not re.fullmatch(FORMS["found"], line):
            continue
        row = line.partition(":")[0].split()[1]
        for answer in re.findall(r"(?:if|Or if) (.+?), the answer would be (\w+) instead of (\w+) ", line):
            changed = re.findall(rf"(\w+) were (?:at most |at least )?({NUMBER}) instead of ({NUMBER})", answer[0])
            yield row, {name: (number(old), number(new)) for name, new, old in changed}, answer[2], answer[1]


def check_counterfactual(row: pd.Series, changes: dict[str, tuple[float, float]], predict: Any) -> tuple[str, str]:
    """The printed old values are those of the row; the predictions for it and for the changed row."""
    changed = row.copy()
    for name, (old, new) in changes.items():
        assert row[name] == pytest.approx(old, rel=1e-6)
        changed[name] = new
    rows = pd.DataFrame([row, changed]).astype(float)
    if "left" in rows:  # the derived column of docs/real_tables.md
        rows["left"] = rows["salary"] - rows["rent"]
    before, after = predict(rows)
    return str(before), str(after)


def check_sentences(text: str, rows: pd.DataFrame, predict: Any) -> None:
    told = list(sentences(text))
    assert told
    for name, changes, before, after in told:
        assert check_counterfactual(rows.loc[name], changes, predict) == (before, after), (name, changes)


@pytest.mark.parametrize("page", STORED["pages"])
def test_a_page_shows_the_stored_output_of_its_code(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    stored = STORED["pages"][page]
    if page == outputs.COMMAND_PAGE:
        shown = [(outputs.explain_command(text), next(code for language, code in blocks(text) if language == "text"))]
    else:
        shown = conversations(text)
    assert shown == [(output["code"], output["printed"]) for output in stored], "run `make outputs`"


def test_every_page_that_shows_an_output_is_stored() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    showing = {
        page.relative_to(ROOT).as_posix()
        for page in pages
        if any(said for _, said in conversations(page.read_text(encoding="utf-8")))
    }
    assert showing | {outputs.COMMAND_PAGE} == STORED["pages"].keys()


@pytest.mark.slow
def test_the_quick_start_prints_what_its_form_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for page in outputs.PYTHON_PAGES[0]:
        for output in STORED["pages"][page]:
            assert forms(printed(output["code"], names)) == forms(output["printed"])
    assert (tmp_path / "agent").is_file()
    patients, predict = names["patients"], names["model"].predict
    (readme,) = STORED["pages"]["README.md"]
    check_sentences(readme["printed"], patients.set_index(patients.index.astype(str)), predict)
    table = STORED["pages"]["docs/quick_start.md"][0]["printed"]
    rows = [line.split()[1:] for line in table.splitlines() if re.fullmatch(FORMS["row"], line)]
    changes: dict[tuple[int, int], dict[str, tuple[float, float]]] = {}
    for query, counterfactual, name, old, new in rows:
        changes.setdefault((int(query), int(counterfactual)), {})[name] = (number(old), number(new))
    assert len(changes) == 6
    for (query, _), changed in changes.items():
        before, after = check_counterfactual(patients.iloc[query], changed, predict)
        assert before != after


@pytest.mark.slow
def test_the_page_on_real_tables_prints_what_its_form_says() -> None:
    names: dict[str, Any] = {}
    (output,) = STORED["pages"]["docs/real_tables.md"]
    assert forms(printed(output["code"], names)) == forms(output["printed"])
    refused = names["refused"]
    check_sentences(output["printed"], refused.set_index(refused.index.astype(str)), names["model"].predict)


@pytest.mark.slow
def test_the_first_five_minutes_print_what_their_form_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (output,) = STORED["pages"][outputs.COMMAND_PAGE]
    assert forms(outputs.run_explain(output["code"])) == forms(output["printed"])
    wine, model = pd.read_csv("wine.csv").set_index("bottle"), joblib.load("model.joblib")
    check_sentences(output["printed"], wine[list(model.feature_names_in_)], model.predict)
    assert "bottle B001" in (tmp_path / "cards.html").read_text(encoding="utf-8")


def test_the_picture_of_readme_shows_the_stored_run() -> None:
    text = (ROOT / "docs" / "picture.svg").read_text(encoding="utf-8")
    assert pictures.picture(STORED["picture"]) == text, "run `make tables`"
    assert "![A patient" in (ROOT / "README.md").read_text(encoding="utf-8")
    assert "→" in html.unescape(text)


@pytest.mark.slow
def test_the_model_agrees_with_the_rows_of_the_picture() -> None:
    run, here = STORED["picture"], pictures.run_for_picture()
    assert run.keys() == here.keys() and here["predictions"] == ["diabetes", "healthy", "healthy"]
    readme = {}
    printed(STORED["pages"]["README.md"][0]["code"].partition("explainer =")[0], readme)
    rows = pd.DataFrame(run["rows"])[list(readme["known"])]
    assert list(readme["model"].predict(rows)) == run["predictions"]
    assert rows.iloc[0].to_dict() == readme["data"].X.loc[pictures.PATIENT].to_dict()
