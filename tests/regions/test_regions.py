"""Facts about the object that tells of regions: its table, boxes, words, JSON and what a notebook shows."""

import json
from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pytest
from reference.region_rows import AtRandom

from relax_plugin import Counterfactuals, FeatureSpace
from relax_plugin.errors import InputError, UnknownNameError


def model(rows: pd.DataFrame) -> np.ndarray:
    return ((rows["income"] >= 6579) & rows["job"].isin(["a<b", "cook"])).to_numpy().astype(int)


ROWS = pd.DataFrame({"income": np.arange(1000, 9000, 20), "job": np.tile(["a<b", "cook", "dancer", "editor"], 100)})


@cache
def found() -> Counterfactuals:
    queries = pd.DataFrame({"income": [2000, 3000, 7000], "job": ["editor", "cook", "cook"]}, index=["x", "y", "z"])
    return AtRandom(model, FeatureSpace.infer(ROWS), max_changes=2).fit(ROWS).explain(queries)


def test_the_table_has_a_line_for_each_changed_cell() -> None:
    result = found()
    regions = result.regions()
    changes = result.changes()
    columns = ["query_id", "cf_id", "feature"]
    merged = regions.table.merge(changes, on=columns, how="outer", indicator=True)
    for query, cf_id, feature, where in zip(*(merged[name] for name in columns), merged["_merge"], strict=True):
        assert (where == "right_only") == regions.needless(query, cf_id, feature)
    assert not regions.table.duplicated(columns).any() and (merged["_merge"] != "left_only").all()
    assert list(regions.table.columns) == [*columns, "low", "high", "categories", "kind", "points", "wrong"]
    numbers = regions.table.query("feature == 'income' and query_id < 2")
    assert (numbers["low"] >= 6579).all() and (numbers["high"] == 8980).all()
    assert {"tested"} == set(numbers["kind"])


def test_words_are_those_of_the_call_and_none_where_nothing_is_to_say() -> None:
    regions = found().regions()
    assert regions.phrase(0, 0, "income") in ("at least 6,580", "at least 6,600")
    assert regions.phrase(0, 0, "job") == "one of a<b, cook"
    assert regions.phrase(0, 9, "income") is None
    with pytest.raises(UnknownNameError, match="did you mean 'income'"):
        regions.phrase(0, 0, "incme")


def test_regions_of_some_queries_are_those_of_a_result_of_them() -> None:
    result = found()
    regions = result.regions()
    part = result[[1, 0]].known_regions
    assert part is not None and len(part) == 2
    for new, old in ((0, 1), (1, 0)):
        assert part.box(new) == regions.box(old)
        assert part.phrase(new, 0, "income") == regions.phrase(old, 0, "income")
    assert part.table["query_id"].is_monotonic_increasing


def test_sentences_say_where_cells_may_be() -> None:
    result = found()
    result.regions()
    assert "income were at least 6,6" in result.sentences()[0] or "income were at least 6,580" in result.sentences()[0]


def needless() -> tuple[Counterfactuals, int]:
    """Answers one of which changes a job that would do as it is, and the position of that one."""
    result = found()
    before, after = (values[..., 1] for values in (result.start, result.values[:, 0]))
    query = next(i for i in range(3) if before[i] in (0.0, 1.0) and result.values[i, 0, 0] != result.start[i, 0])
    values = result.values.copy()
    values[query, 0, 1] = 1.0 - before[query]
    assert after.shape == before.shape
    return replace(result, values=values), query


def test_a_change_whose_range_would_hold_the_querys_own_value_is_not_named() -> None:
    result, query = needless()
    regions = result.regions()
    assert "job" in result.changes().query(f"query_id == {query}")["feature"].tolist()
    assert "job" not in result.sentences()[query] and "income were at least" in result.sentences()[query]
    assert "job" not in regions.box(query).ranges and regions.phrase(query, 0, "job") is None
    assert "job" not in regions.table.query(f"query_id == {query}")["feature"].tolist()
    for spans in (regions.alone, regions.boxes):
        for j in range(2):
            changed = np.flatnonzero(regions.changed[:, j])
            start = regions.start[changed, j]
            if j == 1:
                held = spans.of_feature(1)[changed, start.astype(int)]
            else:
                held = (spans.low[changed, j] <= start) & (start <= spans.high[changed, j])
            assert len(changed) and not held.any()


def test_regions_have_sentences() -> None:
    regions = found().regions()
    told = regions.sentences()
    assert len(told) == len(regions) and str(regions) == "\n".join(told)
    words = regions.phrase(0, 0, "income")
    assert told[0] == f"Query 0: the goal is met if income is {words} and job is one of a<b, cook (tested)."


def test_a_box_names_every_changed_feature() -> None:
    regions = found().regions()
    box = regions.box(0, 0)
    low, high = box.ranges["income"]
    assert low >= 6579 and high == 8980 and box.ranges["job"] == ["a<b", "cook"]
    assert box.kind == "tested" and box.points >= 100 and box.wrong == 0
    with pytest.raises(InputError, match="counterfactual 5 of query 0"):
        regions.box(0, 5)


def test_the_dictionary_is_ready_for_json_and_says_the_same() -> None:
    regions = found().regions()
    read = json.loads(json.dumps(regions.to_dict()))
    assert read["rows_asked"] == regions.rows_asked > 0
    assert [cell["feature"] for cell in read["cells"]] == regions.table["feature"].tolist()
    first = read["cells"][0]
    assert first["low"] == regions.table["low"].iloc[0] and first["categories"] is None
    assert len(read["boxes"]) == len(regions)
    assert dict(read["boxes"][0]["ranges"])["job"] == ["a<b", "cook"]


def test_a_notebook_shows_a_short_table_and_escapes_it() -> None:
    regions = found().regions()
    page = regions._repr_html_()
    assert "a&lt;b" in page and "a<b" not in page and "<table" in page
    assert "Regions(" in page and f"{regions.rows_asked} model rows" in repr(regions)
