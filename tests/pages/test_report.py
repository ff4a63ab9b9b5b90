"""The report of a benchmark: one file with everything in it, whose numbers are those of the rows."""

import json
import re
import sys
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from reference.sample_rows import (
    FEATURES,
    INSTANCES,
    LOANS,
    METHODS,
    PRICES,
    SKIP_REASON,
    TIME_OUT_REASON,
    UNSOLVED_REASON,
    sample_rows,
)
from reference.tiny import gaussian_rows, mixed_probabilities, mixed_rows, mixed_space, numbers

from relax_plugin import Goal, make_explainer
from relax_plugin.blackbox import BlackBox
from relax_plugin.evaluation import tables
from relax_plugin.pages.explorer import MOST_INSTANCES, explorer_data
from relax_plugin.pages.headline import finding, finding_of_task, of_task
from relax_plugin.pages.html import MOST_QUERIES, explanation_page
from relax_plugin.pages.report import render, write_report

EVIL = "</script><script>alert(1)</script>"
MATHS = "$debt_{}$ & <b>1.2345678</b>"


class Page(HTMLParser):
    """What is in a page: tags with their attributes, texts, and tables as lists of cells by the label of their box."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags, self.texts, self.tables = [], [], {}
        self.label, self.cell = "", False
        self.feed(text)
        self.text = " ".join(" ".join(self.texts).split())

    def handle_starttag(self, tag, attributes):
        named = dict(attributes)
        self.tags.append((tag, named))
        if named.get("role") == "region":
            self.label = named["aria-label"]
        if tag == "tr":
            self.tables.setdefault(self.label, []).append([])
        elif tag in ("td", "th"):
            self.tables[self.label][-1].append("")
            self.cell = True

    def handle_endtag(self, tag):
        self.cell = self.cell and tag not in ("td", "th")

    def handle_data(self, data):
        if self.tags and self.tags[-1][0] not in ("script", "style"):
            self.texts.append(data)
        if self.cell:
            self.tables[self.label][-1][-1] += data.strip()

    def named(self, tag: str) -> list[dict[str, str]]:
        return [attributes for name, attributes in self.tags if name == tag]


@pytest.fixture(scope="module")
def rows() -> pd.DataFrame:
    return sample_rows()


@pytest.fixture(scope="module")
def text(rows) -> str:
    return render(rows, title="Loans & prices", command="relax-plugin bench --seeds 2", versions={"numpy": "2.4.6"})


@pytest.fixture(scope="module")
def page(text) -> Page:
    return Page(text)


@pytest.fixture
def without_matplotlib(monkeypatch) -> None:
    """As if it were not installed; drawing also takes most of the time."""
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)


def data_of(text: str) -> list:
    return json.loads(re.search(r'<script type="application/json"[^>]*>(.*?)</script>', text, re.DOTALL)[1])


def read(value) -> str:
    """A value of a cell as people read it."""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def renamed(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows with names that are markup: of a task, a method and two features."""
    changed = rows.replace({"task": {LOANS: EVIL}, "method": {"greedy": f"greedy{EVIL}"}})
    for column in ("query", "changes", "sentence"):
        named = changed[column].str.replace("debt", MATHS, regex=False)
        changed[column] = named.str.replace("income", EVIL, regex=False)
    return changed


@pytest.mark.slow
def test_nothing_is_loaded_from_anywhere(text, page) -> None:
    links = [named[name] for _, named in page.tags for name in ("src", "href", "srcset", "action") if name in named]
    assert links
    assert all(link.startswith("#") or link == "data:," for link in links)
    assert not re.search(r"url\((?!#)|@import|https?://", text)
    assert "default-src 'none'" in next(named["content"] for named in page.named("meta") if "http-equiv" in named)


def test_every_id_occurs_once_and_every_reference_has_its_target(text, page) -> None:
    ids = [named["id"] for _, named in page.tags if "id" in named]
    assert len(ids) == len(set(ids))
    used = set(re.findall(r'url\(#([^)]+)\)|href="#([^"]+)"', text))
    targets = {first or second for first, second in used}
    assert len([target for target in targets if target.startswith(("tradeoff", "pareto", "anytime"))]) > 6
    assert targets <= set(ids)


@pytest.mark.slow
def test_same_rows_give_the_same_file(rows, text) -> None:
    again = render(rows, title="Loans & prices", command="relax-plugin bench --seeds 2", versions={"numpy": "2.4.6"})
    assert again == text


def test_tables_hold_the_numbers_of_the_summary(rows, page) -> None:
    summary = tables.summary(rows)
    quality = page.tables[f"Quality on {LOANS}"]
    assert quality[0][:4] == ["method", "validity", "worst class", "L0"]
    assert [line[0] for line in quality[1:]] == list(METHODS)
    for line in quality[1:]:
        numbers = summary.loc[(LOANS, line[0])]
        assert line[1] == f"{100 * numbers['validity']:.1f}% ± {100 * numbers['± validity']:.1f}"
        assert line[2] == f"{100 * numbers['worst class']:.1f}%"
        told = "–" if np.isnan(numbers["L0"]) else f"{numbers['L0']:.2f}"  # noqa: RUF001
        assert line[3].split(" ± ")[0] == told
        assert line[8] == "0"
    cost = page.tables[f"Cost on {LOANS}"]
    at = {name: cost[0].index(name) for name in ("training rows", "fit, s", "a query, ms", "failed")}
    assert [line[at["training rows"]] for line in cost[1:]] == ["256", "512", "768", "1,024"]
    assert [line[at["fit, s"]] for line in cost[1:]] == ["2.00", "4.00", "6.00", "8.00"]
    assert [line[at["a query, ms"]] for line in cost[1:]] == ["10.0", "20.0", "30.0", "40.0"]
    assert [line[at["failed"]] for line in cost[1:]] == ["0", "0", "0", "1"]


def test_skipped_method_has_no_numbers_and_no_place_in_the_mean(page) -> None:
    skipped = next(line for line in page.tables[f"Quality on {PRICES}"] if line[0] == "move-table")
    assert set(skipped[1:]) == {"–"}  # noqa: RUF001
    overview = {line[0]: line[1:] for line in page.tables["Validity by task"]}
    assert overview["method"] == [LOANS, PRICES, "mean"]
    assert overview["move-table"][1:] == ["–", "–"]  # noqa: RUF001
    assert overview["greedy"] == ["70.8%", "79.2%", "75.0%"]


def test_classes_have_their_own_validity_and_a_regressor_has_no_classes(rows, page) -> None:
    table = page.tables[f"Validity by class on {LOANS}"]
    assert table[0] == ["method", "granted (8)", "refused (16)"]
    greedy = rows[(rows["task"] == LOANS) & (rows["method"] == "greedy")]
    share = greedy.groupby(["seed", "before"])["valid"].mean().groupby("before").mean()
    assert [cell.split(" ± ")[0] for cell in table[1][1:]] == [
        f"{100 * share[name]:.1f}%" for name in sorted(share.index)
    ]
    assert f"Validity by class on {PRICES}" not in page.tables


def test_skips_and_failures_are_listed_with_their_reasons(page) -> None:
    failures = page.tables["Skips and failures"]
    assert ["move-table", PRICES, "0, 1", "skipped", SKIP_REASON] in failures
    assert ["relax-global:effort=policy", LOANS, "1", "timed out", TIME_OUT_REASON] in failures
    unsolved = page.tables["Unsolved queries"]
    assert ["greedy", LOANS, "7", UNSOLVED_REASON] in unsolved


def test_zero_violations_are_said_and_one_is_an_alarm(rows, page, without_matplotlib) -> None:
    delivered = int(rows["claimed"].sum())
    assert f"0 constraints violated by {delivered} delivered counterfactuals" in page.text
    assert not [named for _, named in page.tags if named.get("role") == "alert"]
    broken = rows.copy()
    first = broken.index[broken["claimed"]][0]
    broken.loc[first, ["violations", "valid"]] = [2, False]
    alarmed = Page(render(broken, title="broken"))
    assert [named["class"] for _, named in alarmed.tags if named.get("role") == "alert"] == ["checked bad"]
    assert "2 constraints violated" in alarmed.text and f"greedy on {LOANS}: 2" in alarmed.text
    assert "0 constraints violated" not in alarmed.text
    assert f"1 of {delivered} counterfactuals said to be found are not valid" in alarmed.text
    assert "alarm" in [named.get("class") for named in alarmed.named("td")]


def test_what_is_needed_to_reproduce_is_there(page, rows, without_matplotlib) -> None:
    assert "relax-plugin bench --seeds 2" in page.text
    assert "seeds 0, 1" in page.text and "numpy 2.4.6" in page.text
    bare = Page(render(rows[rows["task"] == PRICES], title="t", machine="a small one", note="A note."))
    assert "The command was not recorded." in bare.text
    assert "machine a small one" in bare.text and "A note." in bare.text


@pytest.mark.slow
def test_names_that_are_markup_stay_text(rows, page) -> None:
    text = render(renamed(rows), title=EVIL, note=EVIL, command=EVIL, versions={EVIL: EVIL}, machine=EVIL)
    evil = Page(text)
    assert len(evil.named("script")) == len(page.named("script")) == 2  # the data and the page's own
    assert len(evil.named("b")) == len(page.named("b"))
    assert f"Quality on {EVIL}" in evil.tables
    features = data_of(text)[0]["features"]
    assert features == [EVIL, MATHS, "purpose", "years"]
    assert MATHS in " ".join(evil.texts)  # in the heat map: as it is written, no formula, not rounded


def test_explorer_holds_what_every_method_made_of_the_first_seed(rows, text) -> None:
    loans, prices = data_of(text)
    assert (loans["task"], loans["seed"], loans["total"]) == (LOANS, 0, INSTANCES)
    assert loans["features"] == list(FEATURES[LOANS])
    assert list(loans["results"]) == list(METHODS)
    assert list(prices["results"]) == [method for method in METHODS if method != "move-table"]
    first = rows[(rows["task"] == LOANS) & (rows["seed"] == 0) & (rows["method"] == "relax-global")]
    for position, row in enumerate(first.to_dict("records")):
        shown = loans["results"]["relax-global"][position]
        changes = json.loads(row["changes"])
        assert shown["valid"] == row["valid"]
        assert [loans["features"][j] for j, _, _ in shown["changes"]] == [name for name, _, _ in changes]
        assert [to for _, to, _ in shown["changes"]] == [read(to) for _, _, to in changes]
        assert [way for *_, way in shown["changes"]] == [
            "◆" if isinstance(to, str) else "▲" if to > old else "▼" for _, old, to in changes
        ]
        assert loans["queries"][position] == [read(value) for value in json.loads(row["query"]).values()]
        assert shown["sentence"].lower() in row["sentence"].lower()
    assert prices["results"]["greedy"][0]["probability"] == [None, None]


def test_explorer_is_limited_and_says_so(rows) -> None:
    one = rows[(rows["task"] == LOANS) & (rows["method"] == "greedy") & (rows["seed"] == 0)]
    many = pd.concat([one.assign(instance=one["instance"] + INSTANCES * i) for i in range(11)])
    (data,) = explorer_data(many, ["greedy"])
    assert (len(data["instances"]), data["total"]) == (MOST_INSTANCES, 11 * INSTANCES)
    assert len(data["results"]["greedy"]) == len(data["queries"]) == MOST_INSTANCES


@pytest.mark.slow
def test_method_that_was_asked_for_fewer_queries_is_told(rows, without_matplotlib) -> None:
    few = (rows["method"] == "greedy") & (rows["instance"] >= 5)
    fewer = rows[~few].assign(instances=np.where(rows[~few]["method"] == "greedy", 5, INSTANCES))
    assert data_of(render(fewer[fewer["task"] == LOANS], title="t"))[0]["results"]["greedy"][5:] == [None] * 7
    assert "not all asked for the same number of queries" in Page(render(fewer, title="t")).text


def test_first_sentences_are_there_without_scripts(rows, page) -> None:
    table = page.tables[f"First queries of {LOANS}"]
    row = rows[(rows["task"] == LOANS) & (rows["seed"] == 0) & (rows["instance"] == 1)].iloc[1]
    sentence = row["sentence"].partition(": ")[2]
    assert ["1", row["method"], sentence[0].upper() + sentence[1:]] in table


@pytest.mark.slow
def test_file_is_small(rows) -> None:
    loans = rows[(rows["task"] == LOANS) & (rows["seed"] == 0) & (rows["state"] == "ok")]
    wide = {f"feature number {i}": 123.456 + i for i in range(30)}
    loans = loans.assign(
        query=[json.dumps({**json.loads(query), **wide}) for query in loans["query"]],
        sentence=loans["sentence"].str.ljust(300, "."),
    )
    copies = [loans.assign(method=loans["method"] + f":copy={i}", rows=loans["rows"] + 7 * i) for i in range(3)]
    many = pd.concat(
        [c.assign(instance=c["instance"] + INSTANCES * i, instances=205) for c in copies for i in range(18)]
    )
    many = many[many["instance"] < 205]
    assert many["method"].nunique() >= 8
    assert len(render(many, title="many").encode()) < 1_500_000


def test_report_is_written_whole_or_not_at_all(rows, tmp_path, without_matplotlib) -> None:
    prices = rows[rows["task"] == PRICES]
    path = write_report(prices, tmp_path / "report.html", title="First")
    assert path == tmp_path / "report.html"
    assert "<title>First</title>" in path.read_text(encoding="utf-8")
    with pytest.raises(KeyError):
        write_report(prices.drop(columns="proximity"), path, title="Second")
    assert "<title>First</title>" in path.read_text(encoding="utf-8")
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match="folder"):
        write_report(prices, tmp_path / "folder", title="Third")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["folder", "report.html"]


def test_without_matplotlib_the_tables_are_there_and_the_page_says_what_to_install(rows, without_matplotlib) -> None:
    page = Page(render(rows, title="t"))
    assert f"Quality on {LOANS}" in page.tables
    assert "pip install 'relax-plugin[plots]'" in page.text
    assert not [named for named in page.named("svg") if named.get("role") == "img"]


@pytest.mark.slow
@pytest.mark.parametrize("state", ["skipped", "crashed"])
def test_benchmark_in_which_nothing_worked_has_a_report(rows, state) -> None:
    failed = rows[rows["state"] == "timed out"].assign(state=state, reason="no luck")
    page = Page(render(failed, title="t"))
    assert [LOANS, "1", state, "no luck"] == page.tables["Skips and failures"][1][1:]
    assert "No run gave results that could be looked at." in page.text
    assert ("No method could be measured." in page.text) == (state == "skipped")


@pytest.mark.slow
def test_counterfactuals_without_changes_have_a_report(rows) -> None:
    already = rows[(rows["task"] == LOANS) & rows["valid"]].assign(changes="[]", sparsity=0.0, proximity=0.0)
    assert "Quality" in render(already, title="t")


def summary_of(validity, spread, changes, failed=(0, 0, 0), seeds=5) -> pd.DataFrame:
    index = pd.MultiIndex.from_product([["task"], ["a", "b", "c"][: len(validity)]], names=["task", "method"])
    columns = {"validity": validity, "± validity": spread, "L0 common": changes, "failed": failed[: len(validity)]}
    return pd.DataFrame({**columns, "seeds": seeds}, index=index)


def test_finding_calls_a_tie_what_lies_within_the_spread() -> None:
    clear = finding(summary_of([0.9, 0.8, 0.7], [0.01, 0.02, 0.03], [2.0, 1.0, 3.0]))
    assert clear.startswith("a solves the most queries (90.0%; within the spread over 5 seeds), then b (80.0%).")
    assert "b changes the fewest features (1.00 on average, the next 2.00)" in clear
    tied = finding(summary_of([0.9, 0.89, 0.7], [0.01, 0.02, 0.03], [2.0, 2.01, 3.0]))
    assert tied.startswith("a and b solve the most queries (89.0% to 90.0%;")
    assert "a and b change the fewest features (2.00 to 2.01 on average, the next 3.00)" in tied
    same = finding(summary_of([0.9, 0.9, 0.9], [0.0, 0.0, 0.0], [2.0, 2.0, 2.0]))
    assert same.startswith("All 3 methods solve about the same share of the queries (90.0%;")
    assert "they change about as many features (2.00 on average)" in same


def test_failed_run_is_no_excuse_in_the_finding() -> None:
    table = summary_of([0.9, 0.5], [0.01, 0.7], [2.0, 1.0], failed=(0, 1))
    assert finding(table).startswith("a solves the most queries")
    assert "fewest" not in finding(table)  # the common queries of b are those of other seeds


def test_one_seed_has_no_spread_in_the_finding() -> None:
    nothing = [float("nan")] * 2
    table = summary_of([0.9, 0.89], nothing, [2.0, 2.0], seeds=1)
    assert finding(table).startswith("a solves the most queries (90.0%; one seed, so the spread is unknown)")
    alone = summary_of([0.9], nothing[:1], [2.0], seeds=1)
    assert finding_of_task(of_task(alone, "task")) == "a solves 90.0% of the queries."


def test_finding_over_tasks_counts_where_a_method_is_among_the_best() -> None:
    first = summary_of([0.9, 0.8, 0.7], [0.01, 0.01, 0.01], [2.0, 1.0, 3.0])
    second = summary_of([0.9, 0.9, float("nan")], [0.01, 0.01, float("nan")], [2.0, 2.0, float("nan")])
    both = pd.concat([first, second.rename(index={"task": "other"})])
    assert finding(both) == (
        "Most queries solved (within the spread over 5 seeds): a on 2 of 2 tasks, b on 1 of 2 tasks. "
        "Fewest features changed, on queries that all methods of a task solved: b on 2 of 2 tasks, a on 1 of 2 tasks."
    )


def explained(rows, model=mixed_probabilities, method="greedy", **options):
    explainer = make_explainer(method, model, mixed_space(mixed_rows(60)), **options)
    return explainer.fit(mixed_rows(60)).explain(rows)


def test_explanation_page_shows_every_change_and_why_a_query_is_unsolved() -> None:
    result = explained(mixed_rows(60), max_changes=1)
    assert result.found.any() and not result.found.all()
    page = Page(explanation_page(result, title="Why <this>?", note="A note."))
    assert "Why <this>?" in page.text and "A note." in page.text
    assert f"{int(result.found.sum())} of 60 queries have a counterfactual" in page.text
    assert len(page.named("article")) == 60
    for line in result.changes().to_dict("records"):
        cells = [line["feature"], read(line["from"]), read(line["to"])]
        assert cells in page.tables[f"Changes of query {line['query_id']}"]
    for query in np.flatnonzero(~result.found[:, 0]):
        assert str(result.status[query, 0]) in page.text.partition(f"Query {query}: ")[2].partition("Query")[0]
        assert f"Changes of query {query}" not in page.tables


def test_explanation_page_shows_several_counterfactuals_of_a_query() -> None:
    rows = mixed_rows(60)
    explainer = make_explainer("greedy", mixed_probabilities, mixed_space(rows)).fit(rows)
    result = explainer.explain(rows.head(8), n=2)
    page = Page(explanation_page(result, title="t"))
    query = int(np.flatnonzero(result.found.all(axis=1))[0])
    for line in result.changes().query("query_id == @query").to_dict("records"):
        assert [line["feature"], read(line["from"]), read(line["to"])] in page.tables[f"Changes of query {query}"]
    assert "Counterfactual 2:" in page.text


def test_explanation_page_shows_the_probability_of_the_class_reached() -> None:
    result = explained(mixed_rows(60))
    assert "probability" not in Page(explanation_page(result, title="t")).text, "the order of classes is not known"
    page = Page(explanation_page(result, title="t", classes=[0, 1, 2]))
    for query in np.flatnonzero(result.found[:, 0]):
        reached = int(result.after[query, 0])
        before, after = result.scores_before[query, reached], result.scores_after[query, 0, reached]
        text = page.text.partition(f"Query {query}: ")[2]
        assert f"probability of {reached} before {100 * before:.1f}%" in text
        assert f"probability of {reached} after {100 * after:.1f}%" in text


def test_explanation_page_of_numbers_has_answers_and_no_probabilities() -> None:
    X = gaussian_rows(30)
    explainer = make_explainer("greedy", BlackBox(numbers, task="regression"), goal=Goal.shift(1.0)).fit(X)
    page = Page(explanation_page(explainer.explain(X), title="t"))
    assert "probability" not in page.text and "Answer: " in page.text


def test_explanation_page_of_names_that_are_markup_has_no_script() -> None:
    rows = mixed_rows(60).rename(columns={"smooth": EVIL})
    model = lambda frame: mixed_probabilities(frame.rename(columns={EVIL: "smooth"}))  # noqa: E731
    result = make_explainer("greedy", model).fit(rows).explain(rows)
    assert EVIL in set(result.changes()["feature"])
    page = Page(explanation_page(result, title=EVIL, note=EVIL))
    assert not page.named("script")
    assert EVIL in page.text


def test_explanation_page_shows_the_first_queries_and_says_so() -> None:
    page = Page(explanation_page(explained(mixed_rows(MOST_QUERIES + 1)), title="t"))
    assert len(page.named("article")) == MOST_QUERIES
    assert f"The first {MOST_QUERIES} queries are shown." in page.text
    none = Page(explanation_page(explained(mixed_rows(60).head(0)), title="t"))
    assert "0 of 0 queries have a counterfactual." in none.text
