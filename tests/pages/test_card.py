"""The card of a query: what stands on it, by parsing it, for every kind of model and table."""

import copy
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from reference.card_page import parsed
from reference.people_files import EDUCATION, answers, people
from reference.readable import ROWS, explained, explainer, regression
from reference.tiny import gaussian_rows, three_class_probabilities, two_class_labels, two_class_probabilities
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OrdinalEncoder

from relax_plugin import FeatureSpace, Goal, make_explainer
from relax_plugin.errors import InputError
from relax_plugin.formatting import format_cell, percent, row_names
from relax_plugin.pages.card import LONGEST, cut_name
from relax_plugin.reading.sentences import alternatives
from relax_plugin.results import Counterfactuals

EVIL = "</style><script>alert('1')</script>\"><img src=x onerror=alert(1)>"


def card(result, query=0):
    """The card, parsed."""
    return parsed(result.card(query).html).one(".relax-card")


def bars(part) -> list[str]:
    return [one.attributes["aria-label"] for one in part.all(".rc-bar")]


def test_a_card_shows_every_alternative_with_its_sentence_and_its_changes():
    result = explained(rows=8, index=pd.Index([f"K{i}" for i in range(8)], name="customer"), n=3)
    told, changes = alternatives(result), result.changes()
    assert (result.found.sum(axis=1) > 1).any()
    for query in range(8):
        page = card(result, query)
        assert page.one(".rc-title").text == f"customer K{query}" == result.card(query).title
        assert page.one(".rc-answer").text == f"The model's answer: {result.before[query]}"
        shown = page.all(".rc-alternative")
        assert [one.one(".rc-sentence").text for one in shown] == told[query]
        assert len(shown) == result.found[query].sum()
        for slot, one in enumerate(shown):
            own = changes[(changes["query_id"] == query) & (changes["cf_id"] == slot)]
            assert len(one.one(".rc-changes").lines) == len(own)
            if "amount" in set(own["feature"]):
                old, new = own[own["feature"] == "amount"][["from", "to"]].iloc[0]
                assert ["amount (DM)", format_cell(old), format_cell(new)] in one.one(".rc-changes").lines


def test_a_card_shows_all_values_in_words_and_marks_those_that_change():
    result = explained(n=2)
    page, row = card(result), ROWS.iloc[0]
    lines = {name: (value, could) for name, value, could in page.one(".rc-values").lines}
    assert set(lines) == {"amount (DM)", "rate", "status", "age"}
    assert lines["status"][0].startswith({"A11": "overdrawn", "A12": "no account"}[row["status"]])
    assert lines["amount (DM)"][0].startswith(f"{row['amount']:,}")
    assert lines["age"] == (str(row["age"]), "fixed")
    for name, label in {"amount": "amount (DM)", "rate": "rate", "status": "status", "age": "age"}.items():
        changes = result.changes()
        slots = changes[(changes["query_id"] == 0) & (changes["feature"] == name)]["cf_id"] + 1
        mark = f"changes in {', '.join(map(str, slots))}" if len(slots) else ""
        assert lines[label][0].partition("changes")[1:] == mark.partition("changes")[1:]
    changed = [line.all("th")[0].text for line in page.all(".rc-changed")]
    assert changed == [name for name, *_ in page.one(".rc-values").lines][: len(changed)] and changed


def test_probabilities_stand_on_bars_with_the_line_at_which_the_answer_turns():
    result = explained()
    page = card(result)
    own = list(result.asked.classes).index(result.before[0])
    assert bars(page.one(".rc-said")) == [f"probability of {result.before[0]}: {percent(result.scores_before[0, own])}"]
    assert "(the answer turns at 50%)" in page.one(".rc-said").text
    before, after = result.scores_before[0, 1 - own], result.scores_after[0, 0, 1 - own]
    assert bars(page.one(".rc-alternative")) == [
        f"probability of {result.after[0, 0]}: {percent(before)} → {percent(after)}"
    ]
    places = [float(re.search(r"left:([\d.]+)%", line.attributes["style"])[1]) for line in page.all(".rc-line")]
    assert places == [50.0, 50.0]


def test_the_probability_that_was_asked_for_is_the_line():
    result = explained(rows=30, goal=Goal.to("good", min_probability=0.8))
    query = int(np.flatnonzero(result.found[:, 0] & (result.before == "bad"))[0])
    page = card(result, query)
    assert "Asked for: the answer good, with a probability of at least 80%." in page.text
    assert "(asked for: 80%)" in page.one(".rc-said").text
    assert [line.attributes["style"] for line in page.all(".rc-line")] == ["left:80.00%"] * 2


def test_a_model_that_decides_by_another_line_has_none_drawn():
    X = gaussian_rows(60)
    model = type("Strict", (), {})()
    model.classes_ = np.array([0, 1])
    model.predict_proba = two_class_probabilities
    model.predict = lambda rows: (two_class_probabilities(rows)[:, 1] > 0.3).astype(int)
    result = make_explainer("greedy", model).fit(X).explain(X)
    assert (result.scores_before.argmax(axis=1) != result.before).any()
    for query in np.flatnonzero(result.found[:, 0])[:3]:
        page = card(result, int(query))
        assert page.all(".rc-bar") and not page.all(".rc-line") and "turns" not in page.one(".rc-said").text


def test_three_classes_show_the_likeliest_and_no_line():
    X = gaussian_rows(60)
    result = make_explainer("greedy", three_class_probabilities).fit(X).explain(X[:3])
    page = card(result)
    shares = [float(re.search(r"([\d.]+)%", text)[1]) for text in bars(page.one(".rc-said"))]
    assert len(shares) == 3 and shares == sorted(shares, reverse=True) and sum(shares) == pytest.approx(100, abs=2)
    assert not page.all(".rc-line")


def test_labels_alone_have_answers_and_no_bars():
    X = gaussian_rows(60)
    page = card(make_explainer("nearest-ct", two_class_labels).fit(X).explain(X[:3]))
    assert not page.all(".rc-bar") and page.one(".rc-alternative").text.startswith("Answer: ")


def test_numbers_lie_on_a_line_with_what_was_asked_for():
    result = regression().explain(ROWS[:4], n=2)
    page = card(result)
    assert "Asked for: a number at least 0.3 higher or lower." in page.text
    assert bars(page.one(".rc-said")) == [f"the model's number: {format_cell(result.before[0])}"]
    alternative = page.all(".rc-alternative")[0]
    assert bars(alternative) == [
        f"the model's number: {format_cell(result.before[0])} → {format_cell(result.after[0, 0])}"
    ]
    dot = float(re.search(r"left:([\d.]+)%", alternative.one(".rc-dot").attributes["style"])[1])
    zones = [re.findall(r"[\d.]+", zone.attributes["style"]) for zone in alternative.all(".rc-zone")]
    assert any(float(left) - 0.1 <= dot <= float(left) + float(width) + 0.1 for left, width in zones)


def test_an_unsolved_query_shows_why_and_the_closest_attempt_with_the_models_answer():
    goal = Goal.to("good", min_probability=0.999)
    result = explained(rows=60, goal=goal, vary=["rate"], max_changes=1)
    moved = (result.values[:, 0] != result.start).any(axis=1)
    lost = int(np.flatnonzero(~result.found[:, 0] & moved)[0])
    page = card(result, lost)
    assert page.one(".rc-why").text.lower() == f"{result.statuses[lost, 0]}.".lower()
    attempt = page.one(".rc-attempt")
    row = ROWS.iloc[[lost]].assign(rate=result.values[lost, 0, 1])
    answer = explainer().blackbox_.model.predict(row)[0]
    assert f"The model's answer to it: {answer}" in attempt.text
    assert [line[0] for line in attempt.one(".rc-changes").lines] == ["rate"]
    assert "→" in bars(attempt)[0]
    assert "Not proved: That there is none; the search found none." in page.text
    from_file = Counterfactuals.from_json(result.to_json())
    told = card(from_file, lost).one(".rc-attempt")
    assert "answer to it" not in told.text and told.one(".rc-changes").lines == attempt.one(".rc-changes").lines


def test_nothing_has_to_change_where_the_goal_is_met():
    result = explained(rows=30, goal=Goal.to("good"))
    page = card(result, int(np.flatnonzero(result.before == "good")[0]))
    assert "Nothing has to change" in page.text and not page.all(".rc-alternative") and not page.all(".rc-why")


def test_fewer_alternatives_than_wanted_are_told():
    result = explained(rows=30, n=10)
    query = int(np.flatnonzero(~result.found.all(axis=1))[0])
    count = int(result.found[query].sum())
    assert f"{count} of 10 alternatives: No further" in card(result, query).text


def test_what_is_proved_is_told_from_what_is_tested():
    result = explained()
    page = card(result).one(".rc-proved").text
    assert "Tested: The model itself was asked about each alternative" in page
    assert "Not proved: That no alternative has fewer or smaller changes." in page
    proof = "no counterfactual changes fewer than 2 features"
    certified = replace(result, proofs=np.array([proof] * len(result), dtype=object))
    page = card(certified).one(".rc-proved").text
    assert f"Proved: {proof.capitalize()}." in page and "Not proved" not in page


def test_plausibility_is_told_where_it_was_asked_for_and_costs_nothing_where_not():
    told = card(explained(plausible="prefer"))
    assert re.search(r"(Looks|Does not look) like the training rows", told.one(".rc-alternative").text)
    assert "Plausibility: rows that look like training rows were preferred" in told.one(".rc-held").text
    silent = explained()
    assert "training rows" not in card(silent).one(".rc-alternative").text
    assert "plausibility" not in vars(silent)


class Known:
    """What a result knows of regions, as `Counterfactuals.known_regions` has it."""

    table = pd.DataFrame({"query_id": [0, 0, 1], "kind": ["proved", "tested", "tested"], "points": [0, 40, 7]})

    def take(self, queries):
        known = Known()
        kept = self.table[self.table["query_id"].isin(queries)]
        known.table = kept.assign(query_id=kept["query_id"].map({int(q): i for i, q in enumerate(queries)}))
        return known

    def phrase(self, query, slot, name):
        return f"at least 12 for {name}"

    def needless(self, query, slot, name):
        return False


def test_ranges_say_whether_they_are_proved_or_tested():
    result = replace(explained(vary=["amount"], rows=30), known_regions=Known())
    page = card(result).one(".rc-proved").text
    assert "Proved: 1 of 2 ranges of values." in page and "Tested: 1 of 2 ranges of values, by 40 rows." in page
    assert "Tested: 1 of 1 ranges of values, by 7 rows." in card(result, 1).one(".rc-proved").text
    solved = int(np.flatnonzero(result.found[:2, 0])[0])
    assert "at least 12 for amount" in card(result, solved).one(".rc-sentence").text


def test_many_changes_are_read_in_the_table_and_not_in_a_sentence():
    X = gaussian_rows(60, 7)
    result = make_explainer("nearest-ct", two_class_probabilities).fit(X).explain(X[:2])
    told = card(replace(result, known_regions=Known())).one(".rc-alternative")
    assert (
        told.one(".rc-sentence").text == f"If these 7 values were as below, the answer would be {result.after[0, 0]}."
    )
    assert len(told.one(".rc-changes").lines) == 7
    assert all(new.endswith(f"(at least 12 for {name})") for name, _, new in told.one(".rc-changes").lines)
    assert "probability of" in told.one(".rc-bar-label").text


def test_every_card_says_what_it_is_and_is_not():
    for result in (explained(), regression().explain(ROWS[:2])):
        text = card(result).text
        assert "This explains how the model answers. It is not advice, and not a promise" in text


@pytest.fixture(scope="module")
def table():
    """People with gaps, a one-hot group, an order, a derived column; explained under rules and constraints."""
    rows = people()
    columns = make_column_transformer(
        (
            OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1),
            make_column_selector(dtype_exclude="number"),
        ),
        remainder="passthrough",
    ).set_output(transform="pandas")
    model = make_pipeline(columns, RandomForestClassifier(20, random_state=0, max_depth=6)).fit(rows, answers(rows))
    space = FeatureSpace.infer(
        rows,
        one_hot={"home": ["home_own", "home_rent", "home_free"]},
        ordered={"education": EDUCATION},
        derived={"spent": "rent + food"},
        increase_only=["age", "education"],
        rules=["rent >= food"],
        labels={"home": ("home", {"own": "a home of one's own"}), "spent": "spent in all"},
    )
    queries = rows[rows["debt"].isna()].head(12)
    queries.index = pd.MultiIndex.from_product([["north"], range(12)], names=["branch", "number"])
    queries = queries.assign(remark=[EVIL, *["fine"] * 11])
    explained = make_explainer("greedy", model, space).fit(rows)
    return explained.explain(queries, n=2, carry=["remark"], vary=["rent", "home", "hours-per-week", "education"])


@pytest.mark.slow
def test_groups_gaps_sums_and_carried_columns_are_read_as_people_have_them(table):
    assert row_names(table)[3] in card(table, 3).one(".rc-title").text
    for query in range(4):
        page = card(table, query)
        lines = {name: (value, could) for name, value, could in page.one(".rc-values").lines}
        assert not {"home_own", "home_rent", "home_free"} & set(lines)
        homes = {"home_own": "a home of one's own", "home_rent": "rent", "home_free": "free"}
        own = next(name for name in homes if table.queries[name].iloc[query] == 1)
        assert lines["home"][0].startswith(homes[own])
        assert lines["debt"] == ("missing", "held") and lines["spent in all"][1] == "computed"
        assert lines["remark"] == (EVIL if query == 0 else "fine", "not known to the model")
        held = page.one(".rc-held").text
        for text in (
            *("Only these could change in this question: rent, home, hours-per-week, education", "Rule: rent >= food"),
            *("Missing, and kept so: debt", "Computed: spent in all = rent + food", "Only upwards, by the table: age"),
        ):
            assert text in held


def test_a_sum_that_changes_along_is_told_as_computed(table):
    changes = table.changes()
    query, slot = changes[changes["feature"] == "rent"][["query_id", "cf_id"]].iloc[0]
    shown = card(table, int(query)).all(".rc-alternative")[int(slot)]
    new = table.frame.query("query_id == @query and cf_id == @slot")["spent"].iloc[0]
    assert ["spent in all (computed)", format_cell(table.queries["spent"].iloc[query]), format_cell(new)] in shown.one(
        ".rc-changes"
    ).lines


def test_hostile_texts_are_texts():
    rows = ROWS.rename(columns={"rate": EVIL}).assign(status=np.where(ROWS["status"] == "A11", EVIL, "A12"))
    labels = {"amount": EVIL + " (DM)"}

    def model(asked):
        numbers = asked[EVIL] + (asked["status"] == "A12") - asked["amount"] / 1e4
        return np.where(numbers.astype(float) > 0, EVIL, "good")

    space = FeatureSpace.infer(rows, labels=labels)
    result = (
        make_explainer("nearest-ct", model, space).fit(rows).explain(rows[:4].rename(index=lambda i: f"{EVIL}{i}"), n=2)
    )
    for text in (result.card(0).html, result.card(0)._repr_html_()):
        page = parsed(text)
        assert not page.all("script") and not page.all("img") and EVIL in page.text


def test_a_long_cell_is_cut_and_whole_in_its_title():
    long = "word " * 200
    rows = ROWS.assign(status=np.where(ROWS["status"] == "A11", long, "A12"), note="x" * 5000)
    model = lambda frame: (frame["amount"] > 9000).astype(int).to_numpy()  # noqa: E731
    result = make_explainer("nearest-ct", model).fit(rows).explain(rows[rows["status"] == long][:1])
    page = card(result)
    assert max(len(cell) for line in page.one(".rc-values").lines for cell in line) <= LONGEST
    assert long in [one.attributes.get("title") for one in page.all("span")]


def test_many_values_stand_in_a_box_that_scrolls_those_that_change_first():
    X = gaussian_rows(60, 60)
    result = make_explainer("greedy", two_class_probabilities).fit(X).explain(X[:2], n=10)
    page = card(result)
    box = page.one(".rc-values")
    assert "rc-boxed" in box.attributes["class"] and box.attributes["tabindex"] == "0" and len(box.lines) == 60
    marked = ["changes" in value for _, value, _ in box.lines]
    assert marked == sorted(marked, reverse=True) and marked[0] and not marked[-1]
    assert "rc-boxed" not in card(explained()).one(".rc-values").attributes["class"]


def test_the_fragment_of_a_notebook_styles_nothing_but_itself():
    fragment = parsed(explained().card(0)._repr_html_())
    style = "".join(fragment.one("style").children)
    rules = re.findall(r"(?:^|[{}])\s*([^{}@/]+)\{", re.sub(r"/\*.*?\*/", "", style, flags=re.S))
    assert len(rules) > 30
    assert all(part.strip().startswith(".relax-card") for rule in rules for part in rule.split(","))
    assert "@page" not in style and not fragment.all("html") and "id" not in fragment.one(".relax-card").attributes


def test_a_card_is_the_same_whether_its_query_stands_alone_or_among_others():
    result = explained(n=2)
    alone = result[3].card(0)
    assert alone.html == result.card(3).html.replace("card-3", "card-0")
    kept = copy.deepcopy(result)
    assert kept.card(3).html == result.card(3).html


def test_a_card_is_saved_whole_under_its_name(tmp_path):
    path = explained().card(1).save(tmp_path / "card.html")
    assert path.read_text(encoding="utf-8") == explained().card(1).html
    assert [one.name for one in tmp_path.iterdir()] == ["card.html"]
    assert explained().card(1).save(str(tmp_path / "card.html")) == path
    text = path.read_text(encoding="utf-8")
    assert text.startswith("<!DOCTYPE html>") and "http://" not in text and "https://" not in text


@pytest.mark.parametrize("query", [6, -1, 1.0, "0"])
def test_a_query_that_is_not_there_has_no_card(query):
    with pytest.raises(InputError, match="there is no query"):
        explained().card(query)


def test_names_break_after_an_underscore_and_nowhere_else():
    assert cut_name("od280/od315_wines") == "od280/<wbr>od315_<wbr>wines"
    assert cut_name("a<b_") == "a&lt;b_"
    assert "<wbr>" not in cut_name("a_" * LONGEST)  # its title must stay a text
