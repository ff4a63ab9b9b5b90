"""What a question allowed, in words: by the table, by the call, by the row; and the goal."""

import numpy as np
import pandas as pd
import pytest
from reference.readable import ROWS, explained, explainer, regression

from relax_plugin import FeatureSpace, Goal, make_explainer
from relax_plugin.pages.card import MOST_NAMES, Allowed, listing


def held(result, query=0) -> dict[str, str]:
    return {one.what: one.about for one in Allowed(result).held(query)}


def could(result, query=0) -> dict[str, str]:
    return dict(zip(result.space.names, Allowed(result).could_become(query), strict=False))


def test_what_the_table_fixes_is_told_from_what_the_question_fixes():
    told = held(explained(immutable=["status"], increase_only=["amount"], bounds={"rate": (0.25, None)}))
    assert told["Never change, by the table"] == "age"
    assert told["Held for this question"] == "status"
    assert told["Only upwards in this question"] == "amount (DM)"
    assert told["Range in this question"] == "rate of at least 0.25"
    assert told["Looked for"] == "the fewest changes" and int(told["Values changed at most"]) > 0
    assert "Only these could change in this question" not in told and "Plausibility" not in told


def test_each_value_says_what_it_could_become():
    row = ROWS.iloc[0]
    told = could(explained(increase_only=["amount"], bounds={"rate": (0.25, 0.75)}))
    assert told == {
        "amount": f"up to {ROWS['amount'].max():,}",
        "rate": "0.25 to 0.75",
        "status": "1 other",
        "age": "fixed",
    }
    assert could(explained(vary=["amount"], decrease_only=["amount"])) == {
        "amount": f"down to {ROWS['amount'].min():,}",
        "rate": "held",
        "status": "held",
        "age": "fixed",
    }
    assert could(explained(bounds={"status": [row["status"]]}))["status"] == "no other"
    lowest = int(ROWS["amount"].argmin())
    result = explainer().explain(ROWS.iloc[[lowest]], decrease_only=["amount"])
    assert could(result)["amount"] == "at its end"


def test_bounds_of_each_row_are_those_of_the_row_also_of_a_part():
    result = explained(bounds={"amount": ([2000 + i for i in range(6)], None)})
    assert held(result, 4)["Range in this question"] == "amount (DM) of at least 2,004"
    assert held(result[4])["Range in this question"] == "amount (DM) of at least 2,004"
    assert could(result[4])["amount"].startswith("2,004 to ")


def test_categories_that_are_never_chosen_and_prices_and_rules_are_told():
    rows = ROWS.assign(town=np.array(["Rome", "Bonn", "Oslo"])[np.arange(len(ROWS)) % 3])
    space = FeatureSpace.infer(
        rows, bounds={"town": ["Rome", "Bonn"]}, costs={"age": 5}, rules=["amount >= 100 * rate"], decrease_only=["age"]
    )
    fitted = make_explainer("greedy", lambda frame: (frame["rate"] > 0.5) * 0.8 + 0.1, space).fit(rows)
    told = held(fitted.explain(rows[:2], objective="closest", plausible="require"))
    assert told["Never chosen"] == "town: Oslo" and told["Prices of changes (others 1)"] == "age 5"
    assert told["Rule"] == "amount >= 100 * rate" and told["Only downwards, by the table"] == "age"
    assert told["Looked for"] == "the smallest changes"
    assert told["Plausibility"] == "only rows that look like training rows were accepted"


def test_missing_cells_are_kept_unless_they_may_be_filled():
    rows = ROWS.assign(debt=np.where(np.arange(len(ROWS)) % 4 == 0, np.nan, 5.0 + np.arange(len(ROWS))))

    def model(frame):
        return 1 / (1 + np.exp(-4 * (frame["rate"].astype(float) - 0.5)))

    for fillable, words in ((False, "stays missing"), (True, "6 to 124")):
        space = FeatureSpace.infer(rows, fill_missing=["debt"] if fillable else [])
        result = make_explainer("greedy", model, space).fit(rows).explain(rows[:2])
        assert could(result)["debt"] == words
        assert ("Missing, and kept so" in held(result)) == (not fillable)
        assert "Missing, and kept so" not in held(result, 1)


@pytest.mark.parametrize(
    ("goal", "words"),
    [
        (None, "another answer"),
        (Goal.to("good"), "the answer good"),
        (Goal.flip(min_probability=0.7), "another answer, with a probability of at least 70%"),
        (Goal.to("good", raise_by=0.07), "a probability of good that is 7 points higher"),
        (Goal.to(["good", "bad"]), "the answer good"),
    ],
)
def test_the_goal_of_a_classifier_in_words(goal, words):
    assert Allowed(explained(rows=2, goal=goal)).wished(0) == words


@pytest.mark.parametrize(
    ("goal", "words"),
    [
        (Goal.shift(0.3, direction="up"), "a number at least 0.3 higher"),
        (Goal.between(None, 1.5), "a number of at most 1.5"),
        (Goal.between([0.5, 0.75], 2000), "a number from 0.75 to 2,000"),
    ],
)
def test_the_goal_of_a_regressor_in_words(goal, words):
    assert Allowed(regression().explain(ROWS[:2], goal=goal)).wished(1) == words


def test_many_names_are_counted():
    names = [f"n{i}" for i in range(30)]
    assert listing(names[:MOST_NAMES]).count(",") == MOST_NAMES - 1
    assert listing(["race, as asked", "sex"]) == "race, as asked; sex"
    assert listing(names).endswith(f"n{MOST_NAMES - 2} and {31 - MOST_NAMES} more")


def test_a_result_that_does_not_know_its_question_says_so():
    result = explained()
    result.asked = None
    assert "not known" in held(result)["This question"] and held(result)["Never change, by the table"] == "age"
    assert Allowed(result).wished(0) == "" and could(result)["age"] == "fixed"
    assert isinstance(result.queries, pd.DataFrame)
