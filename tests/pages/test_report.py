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

from relax_plugin.evaluation import tables
from relax_plugin.pages.headline import choose, finding, finding_of_task, of_task
from relax_plugin.pages.report import MOST_INSTANCES, explorer_data, render, write_report

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


@pytest.mark.slow
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


def test_explorer_opens_on_the_median_query_by_what_all_methods_change(rows) -> None:
    kept = rows[(rows["task"] == LOANS) & (rows["seed"] == 0) & (rows["state"] == "ok")]
    solved = kept[kept["valid"]].groupby("instance")["sparsity"].agg(["size", "mean"])
    by_all = solved[solved["size"] == kept["method"].nunique()]["mean"]
    assert len(by_all) > 2
    (data, _) = explorer_data(rows, list(METHODS))
    shown = by_all[data["instances"][data["typical"]]]
    assert (by_all < shown).sum() <= len(by_all) / 2 and (by_all > shown).sum() <= len(by_all) / 2
    nobody = kept.assign(valid=False)
    assert explorer_data(nobody, list(METHODS))[0]["typical"] == 0


def test_choices_stand_before_the_tables_with_their_numbers(rows, without_matplotlib) -> None:
    loans = rows[(rows["task"] == LOANS) & (rows["state"] == "ok") & (rows["seed"] == 0)].assign(valid=True)
    text = render(loans, title="t")
    assert text.index('class="choose"') < text.index("<nav") < text.index("The main numbers")
    strip = Page(text.partition('<ul class="choose"')[2].partition("</ul>")[0]).text
    for wish in ("Solves most", "Sparsest", "Nearest", "Cheapest", "Quickest", "Most plausible"):
        assert wish in strip
    cheapest = loans.groupby("method")["rows"].mean()
    assert f"{cheapest.min():,.0f} model rows a query {cheapest.idxmin()}" in strip
    assert "(tied within noise)" in strip
    assert "A query costs from" in Page(text).text.partition("Sparsest")[0], "the headline tells the cost"


def test_every_task_of_several_has_its_choices(rows, page) -> None:
    table = page.tables["What to choose"]
    assert table[0] == ["task", "Solves most", "Sparsest", "Nearest", "Cheapest", "Quickest", "Most plausible"]
    assert [line[0] for line in table[1:]] == [LOANS, PRICES]
    for task, *cells in table[1:]:
        made = choose(rows[rows["task"] == task], of_task(tables.summary(rows), task)).choices
        assert len(made) in (0, 6)
        for cell, choice in zip(cells, made, strict=False):
            assert cell.startswith(choice.methods[0].partition(":")[0]) and choice.number in cell
        assert made or set(cells) == {"–"}  # noqa: RUF001
    assert any(cell != "–" for line in table[1:] for cell in line[1:])  # noqa: RUF001


@pytest.mark.slow
def test_a_table_that_reads_the_same_everywhere_is_one_sentence_and_folded(rows, text, without_matplotlib) -> None:
    solved = rows[(rows["state"] == "ok")].assign(valid=True)
    solved = solved[solved["method"].isin(["greedy", "relax-global"])]
    both = render(solved, title="t")
    assert "Every method solves 100.0% of the queries of every task" in both
    assert re.search(r'<details><summary>The table of it</summary>\s*<div[^>]*aria-label="Validity by task"', both)
    assert "every method solves 100.0% of each class" in both
    assert "The table of it" not in text and "of each class" not in text


def test_detail_is_folded_and_what_one_looks_at_first_is_not(text) -> None:
    section = text.partition('<section id="task-0"')[2].partition("</section>")[0]
    folded = re.findall(r"<details.*?</details>", section, re.DOTALL)
    shown = re.sub(r"<details.*?</details>", "", section, flags=re.DOTALL)
    assert shown.count('<svg role="img"') == 1 and "What model rows buy" in shown
    assert f"The main numbers on {LOANS}" in shown
    inside = " ".join(folded)
    for label in ("Quality on", "Cost on", "Validity by class on"):
        assert f"{label} {LOANS}" in inside and f"{label} {LOANS}" not in shown


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


@pytest.mark.slow
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


@pytest.mark.slow
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
    columns |= {"rows": [10.0, 200.0, 10.5][: len(validity)], "training rows": [1000.0, 0.0, 0.0][: len(validity)]}
    return pd.DataFrame({**columns, "seeds": seeds}, index=index)


def rows_of(solved, changes, task="task", failed=()) -> pd.DataFrame:
    """Tidy rows of the methods a, b, c as far as a finding reads them: 100 queries of each of the seeds.

    `solved` and `changes` have for each method a function of seed and query, or a number.
    """
    records = []
    for method, valid, count in zip("abc", solved, changes, strict=False):
        for seed in range(5):
            if (method, seed) in failed:
                records.append((task, method, seed, "crashed", -1, 9, False, np.nan))
                continue
            for query in range(100):
                is_valid = query < 100 * valid if isinstance(valid, float) else valid(seed, query)
                records.append((task, method, seed, "ok", query, 9, bool(is_valid), count if is_valid else np.nan))
    return pd.DataFrame(
        records, columns=["task", "method", "seed", "state", "instance", "features", "valid", "sparsity"]
    )


def found(solved, changes, spread=(0.1, 0.1, 0.1), **more) -> str:
    shares = [share if isinstance(share, float) else 0.85 for share in solved]
    return finding(rows_of(solved, changes, **more), summary_of(shares, list(spread)[: len(shares)], list(changes)))


def test_finding_compares_the_same_queries_and_calls_a_tie_what_noise_may_part() -> None:
    clear = found([0.9, 0.8, 0.7], [2.0, 1.0, 3.0])
    assert clear.startswith("a solves the most queries (90.0%; compared query by query over 5 seeds), then b (80.0%).")
    assert "b changes the fewest features (1.00 on average, the next 2.00)" in clear
    tied = found([0.9, 0.898, 0.7], [2.0, 2.01, 3.0])
    assert tied.startswith("a and b solve the most queries (89.8% to 90.0%;")
    assert "a and b change the fewest features (2.00 to 2.01 on average, the next 3.00)" in tied
    same = found([0.9, 0.9, 0.9], [2.0, 2.0, 2.0])
    assert same.startswith("All 3 methods solve about the same share of the queries (90.0%;")
    assert "they change about as many features (2.00 on average)" in same


def test_a_difference_within_each_seed_is_seen_though_seeds_differ_more() -> None:
    """a solves 2 queries more than b in every seed, and seeds range from 20 to 100 %: means hide it, pairs do not."""
    table = summary_of([0.60, 0.58], [0.3, 0.3], [2.0, 2.0])

    def solves(less):
        return lambda seed, query: query < 20 * (seed + 1) - less

    told = finding(rows_of([solves(0), solves(2)], [2.0, 2.0]), table)
    assert told.startswith("a solves the most queries (60.0%; compared query by query over 5 seeds), then b (58.0%).")
    crossed = [lambda seed, query: (query + seed) % 10 < 6, lambda seed, query: (query + 5 * seed + 4) % 10 < 6]
    assert finding(rows_of(crossed, [2.0, 2.0]), table).startswith("All 2 methods solve about the same share")


def test_more_changes_on_single_queries_do_not_part_two_methods_and_on_many_do() -> None:
    for many, said in ((2, "they change about as many features"), (60, "a changes the fewest features")):
        rows = rows_of([1.0, 1.0], [2.0, 2.0])
        rows.loc[(rows["method"] == "b") & (rows["instance"] < many) & (rows["seed"] == 0), "sparsity"] += 4
        mean = rows[rows["method"] == "b"]["sparsity"].mean()
        assert said in finding(rows, summary_of([1.0, 1.0], [0.0, 0.0], [2.0, mean]))


def test_failed_run_is_no_excuse_in_the_finding() -> None:
    table = summary_of([0.9, 0.7], [0.01, 0.7], [2.0, 1.0], failed=(0, 1))
    told = finding(rows_of([0.9, 0.9], [2.0, 1.0], failed={("b", 3)}), table)
    assert told.startswith("a solves the most queries")
    assert "fewest" not in told  # the common queries of b are those of other seeds


def test_one_method_alone_is_compared_with_none() -> None:
    alone = summary_of([0.9], [float("nan")], [2.0], seeds=1)
    assert finding_of_task(rows_of([0.9], [2.0]), of_task(alone, "task")) == "a solves 90.0% of the queries."
    two = summary_of([0.9, 0.89], [float("nan")] * 2, [2.0, 2.0], seeds=1)
    one_seed = rows_of([0.9, 0.89], [2.0, 2.0]).query("seed == 0")
    assert "(89.0% to 90.0%; compared query by query of one seed)" in finding(one_seed, two)


def test_finding_over_tasks_counts_where_a_method_is_among_the_best() -> None:
    first = summary_of([0.9, 0.8, 0.7], [0.01, 0.01, 0.01], [2.0, 1.0, 3.0])
    second = summary_of([0.9, 0.9, float("nan")], [0.01, 0.01, float("nan")], [2.0, 2.0, float("nan")])
    both = pd.concat([first, second.rename(index={"task": "other"})])
    rows = [rows_of([0.9, 0.8, 0.7], [2.0, 1.0, 3.0]), rows_of([0.9, 0.9], [2.0, 2.0], task="other")]
    assert finding(pd.concat(rows), both) == (
        "Most queries solved (compared query by query over 5 seeds): a on 2 of 2 tasks, b on 1 of 2 tasks. "
        "Fewest features changed, on queries that all methods of a task solved: b on 2 of 2 tasks, a on 1 of 2 tasks. "
        "Fewest model rows a query: a on 2 of 2 tasks, c on 1 of 1 task."
    )


def test_finding_tells_what_a_query_costs() -> None:
    told = found([0.9, 0.9, 0.9], [2.0, 2.0, 2.0])
    assert told.endswith("A query costs from 10 model rows (a and c, after 0 to 1,000 in fit) to 200 (b).")
    alike = summary_of([0.9, 0.9], [0.0, 0.0], [2.0, 2.0]).assign(rows=[10.0, 10.4])
    told = finding(rows_of([0.9, 0.9], [2.0, 2.0]), alike)
    assert told.endswith("A query costs about as many model rows with each of them (10 to 10).")
