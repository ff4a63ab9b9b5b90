"""How cells, intervals, names and messages are written: no NumPy scalars, and nothing that would steer a terminal."""

import pickle
from decimal import Decimal

import joblib
import numpy as np
import pandas as pd
import pytest
from reference import tiny
from reference.readable import explained
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from relax_plugin import FeatureSpace, Goal, Plausibility, ReLAXConfig, make_explainer
from relax_plugin.cli import main
from relax_plugin.errors import InputError, ReLAXError
from relax_plugin.formatting import (
    format_cell,
    format_choice,
    format_decimal,
    format_interval,
    percent,
    plain_scalars,
    printable,
    printable_lines,
    rounded_inwards,
    row_name,
    row_names,
)

ROWS = np.random.default_rng(0).normal(size=(60, 3)).round(2)
TABLE = pd.DataFrame({"a": ROWS[:, 0], "k": np.random.default_rng(1).choice([1, 2], 60)})


def model(rows):
    return tiny.two_class_probabilities(
        np.column_stack([np.asarray(rows, dtype=float)[:, :2], np.zeros((len(rows), 2))])
    )


def asked(**arguments):
    rows = arguments.pop("rows", ROWS[:2])
    own = TABLE if isinstance(rows, pd.DataFrame) else ROWS
    space = FeatureSpace.infer(own, categorical=["k"]) if own is TABLE else None
    return make_explainer("greedy", model, space).fit(own).explain(rows, **arguments)


REFUSED = {
    "n": lambda: asked(n=np.int64(0)),
    "n, a fraction": lambda: asked(n=np.float64(1.5)),
    "max_changes": lambda: make_explainer("greedy", model, max_changes=np.int32(0)).fit(ROWS),
    "seed": lambda: make_explainer("greedy", model, seed=np.float32(0.5)).fit(ROWS),
    "option": lambda: make_explainer("relax-global", model, max_queries=np.uint8(0)).fit(ROWS),
    "label": lambda: asked(goal=Goal.to(np.int64(5))),
    "min_probability": lambda: Goal.to(np.int64(1), min_probability=np.float64(2)),
    "shift": lambda: Goal.shift(np.float64(0)),
    "between": lambda: Goal.between(np.float64(3), np.float64(1)),
    "bounds": lambda: asked(bounds={"x0": (np.float64(3), np.float64(1))}),
    "bounds of several": lambda: asked(bounds={"x0": [np.float64(3), np.float64(1), np.float64(2)]}),
    "bounds of a name": lambda: asked(bounds={np.int64(9): (0, 1)}),
    "immutable": lambda: asked(immutable=[np.int64(9)]),
    "immutable, no list": lambda: asked(immutable=np.int64(9)),
    "immutable, text": lambda: asked(immutable=[np.str_("b")]),
    "costs": lambda: asked(costs={"x0": np.float64(-1)}),
    "category": lambda: asked(rows=TABLE[:2], bounds={"k": [np.int64(7)]}),
    "order": lambda: FeatureSpace.infer(TABLE, ordered={"k": [np.int64(1), np.int64(1)]}),
    "step": lambda: FeatureSpace.infer(TABLE, steps={"a": np.float64(-1)}),
    "quantile": lambda: Plausibility(quantile=np.float64(2)),
    "config": lambda: ReLAXConfig(steps=np.int64(0)),
    "config, a flag": lambda: ReLAXConfig(pretrained=np.int64(3)),
    "query": lambda: asked().steps(np.int64(9)),
    "flag": lambda: asked(besides_query=np.int64(3)),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_refusal_shows_numbers_without_their_type(what):
    with pytest.raises(ReLAXError) as refused:
        REFUSED[what]()
    assert "np." not in str(refused.value) and str(refused.value).endswith((".", "?"))


@pytest.mark.parametrize(
    ("sentence", "plain"),
    [
        ("n is np.int64(0), but", "n is 0, but"),
        ("[np.float64(3.0), np.float64(nan)]", "[3.0, nan]"),
        ("names np.str_('b (c)')", "names 'b (c)'"),
        ("is np.True_ or np.bool_(True)", "is np.True_ or True"),
        ("category 'np.int64(0)'", "category 'np.int64(0)'"),
        ("call snp.int64(0) or np.intc", "call snp.int64(0) or np.intc"),
    ],
)
def test_only_scalars_lose_their_type(sentence, plain):
    assert plain_scalars(sentence) == plain


def test_an_error_stays_one_that_can_be_pickled_and_has_its_arguments():
    error = pickle.loads(pickle.dumps(InputError("n is np.int64(0)", 7)))
    assert type(error) is InputError and error.args == ("n is 0", 7)


HOSTILE = "\x1b]0;pwned\x07"


def test_a_text_cannot_steer_a_terminal():
    assert printable("a\x1b[31mb\nRow 7: c\td\u202e\x9b") == "a\\x1b[31mb Row 7: c d\\u202e\\x9b"
    assert printable_lines("a\x07\nb\r") == "a\\x07\nb "


@pytest.fixture
def hostile_folder(tmp_path, monkeypatch):
    """A table whose names and categories hold escape sequences and line breaks, and a model for it."""
    rng = np.random.default_rng(0)
    feature, broken = f"size{HOSTILE}", "big\nRow 7: if nothing were different, all would be well."
    rows = pd.DataFrame({"a": rng.normal(size=80).round(2), feature: rng.choice([f"small{HOSTILE}", broken], 80)})
    labels = np.where((rows[feature] == broken) | (rows["a"] > 1), f"yes{HOSTILE}", "no\nno")
    columns = make_column_transformer((OneHotEncoder(), [feature]), remainder="passthrough")
    fitted = make_pipeline(columns, LogisticRegression(C=100.0)).fit(rows, labels)
    rows.assign(**{f"id{HOSTILE}": [f"r{n}{HOSTILE}" for n in range(80)], "label": labels}).to_csv(
        tmp_path / "rows.csv", index=False
    )
    joblib.dump(fitted, tmp_path / "model.joblib")
    monkeypatch.chdir(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(
    "more", [[], ["--wide"], ["--target", "label"], ["--id", f"id{HOSTILE}"], ["--immutable", f"x{HOSTILE}"]]
)
def test_explain_prints_no_escape_sequence_and_no_false_line(hostile_folder, capsys, more):
    known = ["--model", "model.joblib", "--method", "greedy", "--rows", "0", "1", "2", "3"]
    columns = [] if "--id" in more else ["--id", f"id{HOSTILE}"]
    label = [] if "--target" in more else ["--target", "label"]
    try:
        main(["explain", "rows.csv", *known, *columns, *label, *more])
    except SystemExit:
        assert more == ["--wide"]  # an option that explain does not have
    told = capsys.readouterr()
    for text in (told.out, told.err):
        assert not [letter for letter in text if not letter.isprintable() and letter != "\n"]
        assert not [line for line in text.splitlines() if line.startswith("Row 7")]
    if not more:
        assert "\\x1b]0;pwned\\x07" in told.out


def test_sentences_hold_no_line_breaks_and_no_escape_sequences():
    feature = f"k{HOSTILE}"
    rows = pd.DataFrame({"a": ROWS[:, 0], feature: np.where(ROWS[:, 1] > 0, "x\nRow 7: y", f"z{HOSTILE}")})

    def by_text(frame):
        chance = np.where(frame[feature] == "x\nRow 7: y", 0.9, 0.1)
        return np.column_stack([1 - chance, chance])

    explainer = make_explainer("greedy", by_text, FeatureSpace.infer(rows)).fit(rows)
    found = explainer.explain(rows[:4])
    told = [*found.sentences(), *explainer.menu(rows[:1]).sentences(), *found.steps(0).lines()]
    assert found.found.all() and all(sentence.isprintable() for sentence in told)
    assert any("\\x1b]0;pwned\\x07" in sentence for sentence in told)


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        (6580, "6,580"),
        (np.int64(-12000), "-12,000"),
        (6580.0, "6,580"),
        (0.5, "0.5"),
        (1234.5678, "1,234.57"),
        (123456.789, "123,457"),
        (0.1 + 0.2, "0.3"),
        (0.00001234567, "1.23457e-05"),
        (1e20, "1e+20"),
        (float("nan"), "nan"),
        (True, "True"),
        (np.float32(2.5), "2.5"),
        ("A11", "A11"),
        (0, "0"),
        (0.0, "0"),
    ],
)
def test_a_cell_is_spoken_with_thousands_apart_and_six_digits(cell, text):
    assert format_cell(cell) == text


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0.31, "31%"),
        (0.5, "50%"),
        (0.4996, "49.96%"),
        (0.501, "50.1%"),
        (0.0, "0%"),
        (1.0, "100%"),
        (0.0004, "0.04%"),
        (0.9999, "99.99%"),
    ],
)
def test_a_percentage_does_not_round_to_none_half_or_all(share, text):
    assert percent(share) == text


@pytest.mark.parametrize(
    ("index", "names"),
    [
        (pd.RangeIndex(2), ["Row 0", "Row 1"]),
        (pd.Index([17, 4]), ["Row 17", "Row 4"]),
        (pd.Index([17, 4], name="customer"), ["customer 17", "customer 4"]),
        (pd.Index(["Smith", "Wu"]), ["Smith", "Wu"]),
        (pd.Index(["Smith", "Wu"], name="client"), ["client Smith", "client Wu"]),
        (pd.MultiIndex.from_tuples([("a", 1), ("b", 2)]), ["Row a, 1", "Row b, 2"]),
        (
            pd.MultiIndex.from_tuples([("a", 1), ("b", 2)], names=["shop", "till"]),
            ["shop a, till 1", "shop b, till 2"],
        ),
    ],
)
def test_a_query_is_called_by_the_index_of_its_table(index, names):
    result = explained(rows=2, index=index)
    assert row_names(result) == names
    assert [row_name(result, query) for query in range(2)] == names


FREE = (False, False)


@pytest.mark.parametrize(
    ("low", "high", "value", "rises", "ends", "words"),
    [
        (6579.3, 9000.0, 6580.0, True, (False, True), "at least 6,580"),
        (0.0, 12.0, 3.0, False, (True, False), "at most 12"),
        (3.0, 7.0, 5.0, True, FREE, "between 3 and 7"),
        (3.0, 7.0, 5.0, True, (True, True), "at least 3"),
        (3.0, 7.0, 5.0, False, (True, True), "at most 7"),
        (0.0, 7.0, 5.0, True, (True, False), "at most 7"),  # the query is above, or below, another range
        (5.0, 5.0, 5.0, True, FREE, None),
        (-2.7262, 0.7233, 0.5, False, (True, False), "at most 0.7"),
        (-5000.0, -1234.0, -2000.0, False, (True, False), "at most -1,240"),
        (-0.01, 9.0, 1.0, True, (False, True), "at least 0"),
        (0.0313, 0.0316, 0.0314, True, FREE, "between 0.0313 and 0.0316"),
        (48.2, 67.1, 48.2, True, (False, True), "at least 48.2"),
        (1e18, 2e18, 1.5e18, True, (False, True), "at least 1e+18"),
    ],
)
def test_intervals_are_told_as_people_say_them(
    low: float, high: float, value: float, rises: bool, ends: tuple[bool, bool], words: str | None
) -> None:
    assert format_interval(low, high, value, rises, ends) == words


def test_a_long_number_is_rounded_inwards_even_past_the_answer_itself() -> None:
    """An answer just at the end of its interval has no short number between the two."""
    low = 6579.300000000001
    assert format_interval(low, 9000.0, low, True, (False, True)) == "at least 6,600"


def test_numbers_are_never_rounded_outwards_and_give_little_away() -> None:
    rng = np.random.default_rng(3)
    for _ in range(800):
        low = rng.normal() * 10.0 ** rng.integers(-6, 9)
        high = low + abs(rng.normal()) * 10.0 ** rng.integers(-6, 9)
        if not low < high:
            continue
        value = float(np.clip(low + rng.random() * (high - low), low, high))
        least, most = (rounded_inwards(low, high, value, up=up) for up in (True, False))
        assert low <= float(least) <= low + 0.0101 * (high - low)
        assert high - 0.0101 * (high - low) <= float(most) <= high
        for written, number in ((format_decimal(least), least), (format_decimal(most), most)):
            assert Decimal(written.replace(",", "")) == number


def test_of_numbers_that_admit_the_answer_the_shortest_is_said() -> None:
    rng = np.random.default_rng(4)
    for _ in range(80):
        low = float(np.round(rng.uniform(0, 1000), 3))
        high, value = low + 500.0, low + float(rng.uniform(0, 3))
        found = rounded_inwards(low, high, value, up=True)
        digits = len(found.normalize().as_tuple().digits)
        if digits >= 6:
            continue
        shorter = [round(k * 10.0**e, 6) for e in range(-3, 4) for k in range(10 ** (digits - 1))]
        assert not [number for number in shorter if low <= number <= value and number > 0]
        assert float(found) <= value


def test_categories_are_listed_and_a_single_one_says_nothing() -> None:
    assert format_choice(["A", "B"]) == "one of A, B"
    assert format_choice(["200 or more", "none"]) == 'one of "200 or more", "none"'
    assert format_choice(["A"]) is None
