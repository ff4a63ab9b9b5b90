"""Facts about Counterfactuals, on what `greedy` really delivers for numeric and mixed data."""

import json
import pickle
import sys
from typing import Any

import numpy as np
import pandas as pd
import pytest

from relax_plugin import Counterfactuals, FeatureSpace, Goal, make_explainer
from relax_plugin.errors import MissingExtraError, SavedFileError, UnknownNameError
from relax_plugin.formatting import six_digits
from relax_plugin.pages.drawing import LONGEST_NAME, MOST_FEATURES

RNG = np.random.default_rng(3)
NUMERIC = pd.DataFrame(RNG.normal(size=(80, 3)).round(3), columns=["a", "b", "c"])
MIXED = pd.DataFrame(
    {
        "amount": RNG.normal(size=80).astype(np.float32),
        "years": RNG.integers(0, 30, 80),
        "town": RNG.choice(["Rome", "Bonn", "<b>Oslo</b> & Co"], 80),
        "owns": RNG.random(80) > 0.5,
        "size": pd.Categorical(RNG.choice(["small", "large"], 80), categories=["small", "large"], ordered=True),
    },
    index=[f"row {i}" for i in range(80)],
)


def two(positive: Any) -> Any:
    chance = 1 / (1 + np.exp(-np.asarray(positive, dtype=float)))
    return np.column_stack([1 - chance, chance])


def numeric_model(rows: Any) -> Any:
    rows = np.asarray(rows, dtype=float)
    return two(rows[:, 0] + 2 * rows[:, 1])


def mixed_model(rows: Any) -> Any:
    town = rows["town"].map({"Rome": 2.0, "Bonn": -1.0, "<b>Oslo</b> & Co": 0.0}).to_numpy(float)
    years = rows["years"].to_numpy(float)
    return two(rows["amount"].to_numpy(float) + town + years / 10 - 2 + (rows["size"] == "large"))


def numeric(n: int = 1, count: int = 10) -> Counterfactuals:
    return make_explainer("greedy", numeric_model).fit(NUMERIC).explain(NUMERIC[:count], n=n)


def mixed(n: int = 1, count: int = 10, **limits: Any) -> Counterfactuals:
    return make_explainer("greedy", mixed_model).fit(MIXED).explain(MIXED[:count], n=n, **limits)


def some_unsolved() -> Counterfactuals:
    """Only the years may change: enough for some rows, not for others."""
    result = mixed(vary=["years"], count=30)
    assert 0 < result.found.sum() < 30
    return result


# Tables.


@pytest.mark.parametrize("make", [numeric, mixed])
def test_the_frame_has_one_row_for_each_found_slot(make: Any) -> None:
    result = make(n=3)
    frame = result.frame
    assert frame.columns.tolist() == ["query_id", "cf_id", *result.space.names]
    assert list(zip(frame["query_id"], frame["cf_id"], strict=True)) == [tuple(at) for at in np.argwhere(result.found)]
    assert (frame.dtypes[result.space.names] == result.queries.dtypes).all()
    assert result.found[:, 0].all()


def test_the_frame_of_array_queries_has_the_names_of_the_space() -> None:
    rows = NUMERIC.to_numpy()
    result = make_explainer("greedy", numeric_model).fit(rows).explain(rows[:4])
    assert result.frame.columns.tolist() == ["query_id", "cf_id", "x0", "x1", "x2"]
    assert len(result.changes()) >= 4


@pytest.mark.parametrize("make", [numeric, mixed])
def test_the_changes_applied_to_the_queries_give_the_frame(make: Any) -> None:
    result = make(n=2)
    rebuilt = result.queries.reset_index(drop=True).iloc[result.frame["query_id"]].reset_index(drop=True).astype(object)
    position = {tuple(ids): i for i, ids in enumerate(result.frame[["query_id", "cf_id"]].to_numpy().tolist())}
    for change in result.changes().to_dict("records"):
        row = position[change["query_id"], change["cf_id"]]
        assert rebuilt.loc[row, change["feature"]] == change["from"]
        assert change["from"] != change["to"]
        rebuilt.loc[row, change["feature"]] = change["to"]
    expected = result.frame[result.space.names].astype(object).reset_index(drop=True)
    assert (rebuilt == expected).all(axis=None)


def test_there_are_as_many_changes_as_sparsity_says() -> None:
    result = mixed(n=2)
    assert len(result.changes()) == np.nansum(result.sparsity)
    assert np.isnan(result.sparsity[~result.found]).all()


def test_proximity_is_the_distance_of_the_space() -> None:
    result = numeric()
    frame, queries = result.frame[["a", "b", "c"]].to_numpy(), NUMERIC[:10].to_numpy()
    expected = (np.abs(frame - queries) / NUMERIC.to_numpy().std(axis=0)).sum(axis=1)
    assert result.proximity[:, 0] == pytest.approx(expected)


def test_an_unsolved_query_has_a_reason_and_no_row() -> None:
    result = some_unsolved()
    lost = ~result.found[:, 0]
    assert all(status != "found" and status for status in result.statuses[lost, 0])
    assert (result.statuses[~lost, 0] == "found").all()
    assert not set(np.flatnonzero(lost)) & set(result.frame["query_id"])
    assert (result.stages[lost] == "").all()
    assert (result.stages[~lost] != "").all()


def test_before_and_after_are_the_answers_of_the_model() -> None:
    result = mixed()
    assert result.before.tolist() == mixed_model(MIXED[:10]).argmax(axis=1).tolist()
    delivered = mixed_model(result.frame[list(MIXED)])
    assert result.after[:, 0].tolist() == delivered.argmax(axis=1).tolist()
    assert result.scores_after is not None
    assert result.scores_after[:, 0] == pytest.approx(delivered)


def test_the_array_is_padded_with_nan() -> None:
    result = some_unsolved()
    array = result.to_array()
    assert array.shape == (30, 1, 5)
    empty = pd.isna(array).all(axis=2)
    assert (empty == ~result.found).all()
    assert array[result.found][:, 2].tolist() == result.frame["town"].tolist()
    assert numeric(n=2).to_array().dtype == np.float64


# Sentences.


def test_a_sentence_names_the_changes_and_both_answers() -> None:
    result = mixed(vary=["years"], count=30)
    query = int(np.flatnonzero(result.found[:, 0])[0])
    row = result.frame[result.frame["query_id"] == query].iloc[0]
    assert result.sentences()[query].partition(" (probability of ")[0] == (
        f"row {query}: if years were {row['years']} instead of {MIXED['years'].iloc[query]}, "
        f"the answer would be {result.after[query, 0]} instead of {result.before[query]}"
    )


def test_a_sentence_has_other_words_for_features_if_it_is_given_some() -> None:
    result = mixed(count=30)
    words = {"amount": "the amount (EUR)", "years": "the years of work"}
    for told, plain in zip(result.sentences(names=words), result.sentences(), strict=True):
        for name, word in words.items():
            plain = plain.replace(f" {name} were", f" {word} were")
        assert told == plain
    with pytest.raises(UnknownNameError, match="names feature 'yaers'; did you mean 'years'"):
        result.sentences(names={"yaers": "the years"})


def test_a_sentence_of_an_answer_that_stays_says_still() -> None:
    explainer = make_explainer("greedy", numeric_model).fit(NUMERIC)
    result = explainer.explain(NUMERIC[:20], goal=Goal.to(1), besides_query=True)
    for query, sentence in enumerate(result.sentences()):
        assert ("the answer would still be 1" in sentence) == (result.before[query] == 1)
        assert ("be 1 instead of 0" in sentence) == (result.before[query] == 0)


def test_there_is_a_sentence_for_every_query() -> None:
    result = some_unsolved()
    sentences = result.sentences()
    assert len(sentences) == 30
    for query, sentence in enumerate(sentences):
        assert ("no counterfactual" in sentence) == (not result.found[query, 0])


def test_a_goal_that_is_met_already_is_said_so() -> None:
    result = make_explainer("greedy", numeric_model, goal=Goal.to(1)).fit(NUMERIC).explain(NUMERIC[:10])
    already = result.before == 1
    assert 0 < already.sum() < 10
    for query in np.flatnonzero(already):
        assert result.found[query, 0]
        assert "meets the goal already" in result.sentences()[query]


def test_the_repr_counts_the_solved() -> None:
    result = numeric()
    first, *lines = repr(result).split("\n")
    cost = f"{result.rows_queried.mean():.1f}".removesuffix(".0")
    assert first == f"Counterfactuals: 10 of 10 found, 1 per query, {cost} evaluations per query"
    assert lines == str(result.frame.head()).split("\n") and len(lines) == 6
    assert repr(numeric(n=2)).startswith("Counterfactuals: 10 of 10 found, up to 2 per query, ")
    assert repr(numeric()[:0]) == "Counterfactuals: 0 of 0 found, 1 per query, 0 evaluations per query"


def test_statuses_of_one_counterfactual_a_query_have_one_dimension() -> None:
    for n, shape in ((1, (10,)), (2, (10, 2))):
        result = numeric(n=n)
        again = Counterfactuals.from_json(result.to_json())
        for made in (result, again, result[:4], pickle.loads(pickle.dumps(result))):
            assert made.status.shape == made.stage.shape == (len(made), *shape[1:])
            assert made.statuses.shape == made.stages.shape == made.found.shape
        assert (again.status == result.status).all() and (again.stage == result.stage).all()
        data = json.loads(result.to_json())
        assert [len(row) for name in ("status", "stage") for row in data[name]] == [n] * 20
    assert pd.Series(numeric().stage).value_counts().sum() == 10


# JSON.


@pytest.mark.parametrize("make", [numeric, mixed])
def test_json_brings_everything_back(make: Any) -> None:
    result = make(n=2)
    again = Counterfactuals.from_json(result.to_json())
    pd.testing.assert_frame_equal(again.frame, result.frame, check_exact=True)
    pd.testing.assert_frame_equal(again.queries, result.queries, check_exact=True)
    pd.testing.assert_frame_equal(again.changes(), result.changes())
    assert again.sentences() == result.sentences()
    assert again.space == result.space
    for name in ("values", "found", "status", "stage", "before", "after", "rows_queried", "scores_after"):
        assert np.array_equal(getattr(again, name), getattr(result, name)), name
    assert again.seconds == result.seconds
    assert again.to_json() == result.to_json()


def test_json_is_strict_json() -> None:
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    json.loads(some_unsolved().to_json(), parse_constant=refuse)


@pytest.mark.parametrize(
    "index", [["p", "p", "p"], pd.date_range("2020-01-01", periods=3), pd.MultiIndex.from_product([[1], list("abc")])]
)
def test_json_stands_any_index(index: Any) -> None:
    queries = MIXED[:3].set_axis(index)
    result = make_explainer("greedy", mixed_model).fit(MIXED).explain(queries)
    again = Counterfactuals.from_json(result.to_json())
    pd.testing.assert_frame_equal(again.frame, result.frame, check_freq=False)  # the rows need not be a day apart


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_json_of_array_queries_gives_arrays(dtype: Any) -> None:
    rows = NUMERIC.to_numpy().astype(dtype)
    result = make_explainer("greedy", numeric_model).fit(rows).explain(rows[:4])
    again = Counterfactuals.from_json(result.to_json())
    assert isinstance(again.queries, np.ndarray)
    assert again.queries.dtype == dtype
    assert np.array_equal(again.to_array(), result.to_array())


def test_json_of_a_regressor_and_of_text_labels() -> None:
    space = FeatureSpace.infer(NUMERIC)
    regressor = make_explainer("greedy", _Sum(), space, goal=Goal.shift(1.0)).fit(NUMERIC).explain(NUMERIC[:4])
    assert np.array_equal(Counterfactuals.from_json(regressor.to_json()).after, regressor.after)
    words = make_explainer("greedy", _Words(), space).fit(NUMERIC).explain(NUMERIC[:4])
    assert Counterfactuals.from_json(words.to_json()).after.tolist() == words.after.tolist()
    assert set(words.after.ravel()) <= {"no", "yes"}


class _Sum:
    _estimator_type = "regressor"

    def predict(self, rows: Any) -> Any:
        return np.asarray(rows).sum(axis=1)


class _Words:
    _estimator_type = "classifier"
    classes_ = np.array(["no", "yes"])

    def predict_proba(self, rows: Any) -> Any:
        return numeric_model(rows)

    def predict(self, rows: Any) -> Any:
        return self.classes_[numeric_model(rows).argmax(axis=1)]


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.99])
def test_truncated_json_is_refused(share: float) -> None:
    text = numeric().to_json()
    with pytest.raises(SavedFileError, match="cut off"):
        Counterfactuals.from_json(text[: int(share * len(text))])


@pytest.mark.parametrize("text", ["[]", "3", "null", "{}", '{"format": "something else", "version": 1}'])
def test_foreign_json_is_refused(text: str) -> None:
    with pytest.raises(SavedFileError, match="not written by"):
        Counterfactuals.from_json(text)


@pytest.mark.parametrize("version", [99, None, "1"])
def test_json_of_another_version_is_refused(version: Any) -> None:
    data = {**json.loads(numeric().to_json()), "version": version}
    with pytest.raises(SavedFileError, match="version"):
        Counterfactuals.from_json(json.dumps(data))


def test_json_without_one_of_its_parts_is_refused() -> None:
    data = json.loads(numeric(count=2).to_json())
    for name in data.keys() - {"format", "version"}:
        with pytest.raises(SavedFileError):
            Counterfactuals.from_json(json.dumps({key: part for key, part in data.items() if key != name}))


def test_json_with_parts_of_different_lengths_is_refused() -> None:
    data = json.loads(numeric(count=3).to_json())
    for name in ("values", "found", "status", "after", "before", "rows_queried"):
        with pytest.raises(SavedFileError):
            Counterfactuals.from_json(json.dumps({**data, name: data[name][:-1]}))


# HTML and plot.


def test_html_escapes_what_comes_from_the_data() -> None:
    rows = MIXED.rename(columns={"amount": "<i>amount</i>"})

    def model(asked: Any) -> Any:
        return mixed_model(asked.rename(columns={"<i>amount</i>": "amount"}))

    page = make_explainer("greedy", model).fit(rows).explain(rows[:10], n=2)._repr_html_()
    assert "<b>Oslo" not in page
    assert "<i>amount" not in page
    assert "&lt;b&gt;Oslo&lt;/b&gt; &amp; Co" in page
    assert page.count("<tr>") == page.count("</tr>")


def test_html_shows_changed_cells_in_bold_and_reasons_in_italics() -> None:
    result = some_unsolved()
    page = result._repr_html_()
    first = result.changes().query("query_id < 10")
    assert page.count("<b ") == len(first)
    assert page.count("<i>") == int((~result.found[:10]).sum())


def arrows_of(axes: Any) -> list[Any]:
    """Arrows of numbers, as long as their changes; those between two chips all have one length."""
    arrows = [text for text in axes.texts if getattr(text, "arrow_patch", None) is not None]
    return [arrow for arrow in arrows if arrow.xycoords == "data"]


def chips_of(axes: Any) -> list[Any]:
    return [text for text in axes.texts if text.get_bbox_patch() is not None]


@pytest.mark.slow
def test_the_plot_has_a_line_for_each_changed_feature() -> None:
    result = mixed(n=2)
    figure = result.plot(3)
    changed = result.changes().query("query_id == 3")
    (axes,) = figure.axes
    names = [label.get_text() for label in axes.get_yticklabels()]
    assert set(names) == set(changed["feature"])
    assert len(arrows_of(axes)) + len(chips_of(axes)) / 2 == len(changed)
    figure.canvas.draw()


@pytest.mark.slow
def test_arrows_of_the_plot_are_the_changes_in_standard_deviations_with_both_values_written() -> None:
    result = mixed(n=2, count=6)
    for query in range(6):
        changed = result.changes().query("query_id == @query")
        axes = result.plot(query).axes[0]
        categorical = changed["feature"].isin(["town", "owns", "size"])
        moves = []
        for name, slot in zip(changed["feature"][~categorical], changed["cf_id"][~categorical], strict=True):
            j = result.space.names.index(name)
            moves.append((result.values[query, slot, j] - result.start[query, j]) / result.space.scale[j])
        assert sorted(arrow.xy[0] for arrow in arrows_of(axes)) == pytest.approx(sorted(moves))
        written = [text.get_text() for text in axes.texts if text.get_text()]
        assert sorted(written) == sorted(map(six_digits, [*changed["from"], *changed["to"]]))
        names = [text.get_text() for text in chips_of(axes)]
        assert sorted(names) == sorted(map(six_digits, changed[["from", "to"]][categorical].to_numpy().ravel()))


def test_the_plot_of_categories_alone_is_read_by_their_words_and_has_no_axis() -> None:
    rows = pd.DataFrame({"status": ["A11", "A12", "A13"] * 20, "size": np.arange(60) % 7})
    labels = {"status": ("account", {"A11": "overdrawn", "A12": "below 200", "A13": "none"})}
    space = FeatureSpace.infer(rows, immutable=["size"], labels=labels)
    result = make_explainer("greedy", lambda asked: two((asked["status"] == "A13") - 0.5), space).fit(rows)
    figure = result.explain(rows[:1]).plot(0)
    (axes,) = figure.axes
    assert [text.get_text() for text in chips_of(axes)] == ["overdrawn", "none"]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["account"]
    assert len(axes.get_xticks()) == 0 and axes.get_xlabel() == "" and not arrows_of(axes)
    figure.canvas.draw()
    old, new = (text.get_window_extent() for text in chips_of(axes))
    assert figure.bbox.x0 <= old.x0 < old.x1 < new.x0 < new.x1 <= figure.bbox.x1


def test_the_plot_is_titled_by_both_answers_and_what_it_takes() -> None:
    result = numeric(n=2)
    title = result.plot(1).axes[0].get_title()
    assert title.startswith(f"Row 1: the answer would be {result.after[1, 0]} instead of {result.before[1]}\nif ")
    assert title.endswith(f"were different ({result.found[1].sum()} of 2 counterfactuals found)")
    assert [text.get_text() for text in result.plot(1).legends[0].get_texts()] == [
        "counterfactual 0",
        "counterfactual 1",
    ]
    assert not numeric().plot(1).legends
    met = make_explainer("greedy", numeric_model, goal=Goal.to(0)).fit(NUMERIC).explain(NUMERIC[:20])
    already = int(np.flatnonzero(met.before == 0)[0])
    assert met.plot(already).axes[0].get_title() == f"Row {already}: the answer 0 meets the goal already"


def test_the_plot_of_an_unsolved_query_has_no_arrows_and_says_why() -> None:
    result = some_unsolved()
    lost = int(np.flatnonzero(~result.found[:, 0])[0])
    (axes,) = result.plot(lost).axes
    assert not arrows_of(axes)
    assert axes.get_title() == f"row {lost}: no counterfactual, the answer stays {result.before[lost]}"
    (text,) = axes.texts
    assert " ".join(text.get_text().split()).lower() == f"{result.statuses[lost, 0]}.".lower()


def test_the_plot_of_many_changes_shows_the_farthest_and_says_so() -> None:
    rows = pd.DataFrame(np.random.default_rng(0).normal(size=(60, MOST_FEATURES + 5)))
    rows = rows.rename(columns=lambda j: f"${j}_x$ " + "long name " * 6)

    def model(asked: Any) -> Any:
        return two(np.asarray(asked, dtype=float)[:, 0])

    result = make_explainer("nearest-ct", model).fit(rows).explain(rows[:2])
    figure = result.plot(0)
    (axes,) = figure.axes
    assert len(arrows_of(axes)) == MOST_FEATURES
    assert f"the {MOST_FEATURES} that move farthest" in axes.get_title()
    moves = np.abs(result.values[0, 0] - result.start[0]) / result.space.scale
    assert sorted(abs(arrow.xy[0]) for arrow in arrows_of(axes)) == pytest.approx(sorted(moves)[-MOST_FEATURES:])
    assert max(len(label.get_text()) for label in axes.get_yticklabels()) <= LONGEST_NAME
    figure.canvas.draw()  # a dollar is no formula


def test_the_plot_without_matplotlib_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtraError, match=r"relax-plugin\[plots\]"):
        numeric(count=1).plot()


# Nothing.


@pytest.mark.parametrize("make", [numeric, mixed])
def test_no_queries_give_an_empty_result_with_all_its_views(make: Any) -> None:
    result = make(n=2, count=0)
    assert len(result) == 0
    assert result.found.shape == (0, 2)
    assert result.frame.columns.tolist() == ["query_id", "cf_id", *result.space.names]
    assert (result.frame.dtypes[result.space.names] == result.queries.dtypes).all()
    assert result.changes().columns.tolist() == ["query_id", "cf_id", "feature", "from", "to"]
    assert len(result.changes()) == 0
    assert result.sentences() == []
    assert result.to_array().shape == (0, 2, len(result.space))
    assert "0 of 0" in repr(result)
    assert "0 of 0" in result._repr_html_()
    again = Counterfactuals.from_json(result.to_json())
    assert again.found.shape == (0, 2)
    pd.testing.assert_frame_equal(again.frame, result.frame)
