"""Records: plain data that a web client can read, and a few numbers about all of it."""

import json

import numpy as np
import pandas as pd
import pytest
from reference.readable import ROWS, Model, explained, explainer, regression

from relax_plugin import Goal
from relax_plugin.reading.records import plain


def test_a_record_has_query_changes_answers_probabilities_and_status():
    result = explained(rows=5, index=pd.Index(list("abcde"), name="customer"), n=2)
    told = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    assert told["method"] == "greedy" and told["classes"] == ["bad", "good"] and len(told["queries"]) == 5
    changes = result.changes()
    for query, record in enumerate(told["queries"]):
        assert record["id"] == "abcde"[query] and record["name"] == f"customer {'abcde'[query]}"
        assert record["query"] == {name: plain(cell) for name, cell in ROWS.iloc[query].items()}
        assert record["answer"] == result.before[query]
        for slot, made in enumerate(record["counterfactuals"]):
            own = changes[(changes["query_id"] == query) & (changes["cf_id"] == slot)]
            assert [(one["feature"], one["from"], one["to"]) for one in made["changes"]] == [
                (name, plain(old), plain(new)) for name, old, new in own[["feature", "from", "to"]].to_numpy()
            ]
            if not made["found"]:
                assert made["row"] is None and made["sentence"] is None
                continue
            delivered = pd.DataFrame([made["row"]])
            assert Model().predict(delivered)[0] == made["answer"] != record["answer"]
            chance = Model().predict_proba(delivered)[0, told["classes"].index(made["answer"])]
            assert np.isclose(made["probability"]["after"], chance, atol=1e-12)


def test_a_record_of_what_was_not_found_says_why():
    result = explained(rows=20, vary=["rate"], goal=Goal.to("good", min_probability=0.99))
    lost = [record for record in result.to_dict()["queries"] if not record["counterfactuals"][0]["found"]]
    assert lost and all(record["counterfactuals"][0]["status"] for record in lost)


def test_carried_columns_and_numbers_are_in_records_too():
    made = regression().explain(ROWS[:2].assign(name=["Ann", "Bo"]), carry=["name"]).to_dict()
    assert [record["carried"] for record in made["queries"]] == [{"name": "Ann"}, {"name": "Bo"}]
    assert all(record["probability"] is None for record in made["queries"])


@pytest.mark.parametrize(
    ("cell", "told"),
    [
        (np.float64("nan"), None),
        (float("inf"), None),
        (pd.NA, None),
        (pd.NaT, None),
        (pd.Timestamp("2026-01-02"), "2026-01-02T00:00:00"),
        (np.int8(3), 3),
        ((1, np.nan), [1, None]),
        (np.bool_(True), True),
    ],
)
def test_a_cell_is_plain(cell, told):
    assert plain(cell) == told


def test_the_summary_counts_and_averages():
    result = explained(rows=20, n=2)
    told = result.summary()
    assert told["queries"] == 20 and told["solved"] == result.found.any(axis=1).sum()
    assert told["counterfactuals"] == result.found.sum()
    assert told["changed features"] == np.nanmean(result.sparsity[:, 0])
    assert told["model rows a query"] == result.rows_queried.mean()
    assert "plausible" not in told
    result.plausibility  # noqa: B018
    assert 0.0 <= result.summary()["plausible"] <= 1.0


def test_a_part_of_a_result_is_what_the_whole_says_of_it():
    whole = explained(rows=6, n=2, index=pd.Index([5, 7, 9, 11, 13, 15]))
    whole.plausibility  # noqa: B018
    assert len(whole[2]) == 1 and len(list(whole)) == 6
    assert [one.sentences()[0] for one in whole] == whole.sentences()
    assert whole[-1].sentences() == whole.sentences()[-1:]
    assert whole[1:3].sentences() == whole[[1, 2]].sentences() == whole.sentences()[1:3]
    part = whole[whole.found.all(axis=1)]
    records = np.array(whole.to_dict()["queries"], dtype=object)
    assert part.to_dict()["queries"] == records[whole.found.all(axis=1)].tolist()
    assert np.array_equal(whole[3].plausibility["score"], whole.plausibility["score"][6:8], equal_nan=True)
    with pytest.raises(IndexError, match="no query 6; there are 6"):
        whole[6]
    assert explainer().explain(ROWS[:0]).summary()["solved"] == 0
