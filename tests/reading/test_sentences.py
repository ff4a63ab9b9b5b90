"""Sentences: every counterfactual, probabilities, words of the space, thresholds where a region is known."""

from dataclasses import replace

import numpy as np
import pandas as pd
from reference.readable import ROWS, explained, regression

from relax_plugin import Goal
from relax_plugin.reading.sentences import alternatives, sentences


def test_a_sentence_tells_words_answers_and_probabilities():
    result = explained(rows=30, index=pd.RangeIndex(30, name="customer"), vary=["status"])
    query = int(np.flatnonzero(result.found[:, 0])[0])
    text = sentences(result)[query]
    assert text.startswith(f"customer {query}: if status were ")
    assert "overdrawn" in text and "no account" in text and "A11" not in text
    assert "(probability of " in text and text.endswith("% after).")


def test_all_counterfactuals_of_a_query_are_told():
    result = explained(rows=4, n=3)
    for query, (text, every) in enumerate(zip(sentences(result), alternatives(result), strict=True)):
        assert len(every) == result.found[query].sum() > 1
        assert text.count(" Or if ") == len(every) - 1
        assert all(one[3:-1] in text for one in every)


def test_three_changes_are_a_list_with_one_and():
    result = explained(rows=120, goal=Goal.to("good", min_probability=0.97))
    told = [text for every in alternatives(result) for text in every]
    three = [text for text in told if text.count(" were ") == 3]
    assert three
    for text in three:
        assert text.count(" and ") == 1 and ", " in text.partition(" and ")[0]


def test_where_a_region_is_known_its_words_stand_for_the_number():
    class Known:
        def phrase(self, query, slot, name):
            return "at least 6,580" if name == "amount" else None

        def needless(self, query, slot, name):
            return False

    result = replace(explained(rows=30, vary=["amount"]), known_regions=Known())
    told = [every[0] for every, found in zip(alternatives(result), result.found[:, 0], strict=True) if found]
    assert told and all("amount (DM) were at least 6,580 instead of " in text for text in told)


def test_a_regressor_has_answers_but_no_probability():
    told = sentences(regression().explain(ROWS[:3]))
    assert all("the answer would be " in text and "probability" not in text for text in told)
