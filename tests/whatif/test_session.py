"""The what-if session: rows as forms, edits by hand, and questions whose Python gives the same answer."""

import json
import threading
from typing import Any

import numpy as np
import pandas as pd
import pytest
from reference.what_if import HOSTILE, SETUP, Loans, session, table
from sklearn.linear_model import LinearRegression

from relax_plugin.base import BlackBox, make_explainer
from relax_plugin.errors import ColumnError, GoalError, InputError, ModelError, NotFittedError, ReLAXError
from relax_plugin.features import FeatureSpace
from relax_plugin.goal import Goal
from relax_plugin.whatif.session import WhatIf


@pytest.fixture(scope="module")
def own() -> WhatIf:
    return session()


def fields(own: WhatIf) -> dict[str, dict[str, Any]]:
    return {field["name"]: field for field in own.describe()["fields"]}


def test_the_description_is_plain_data_and_tells_every_kind_of_column(own):
    told = fields(own)
    json.dumps(own.describe(), allow_nan=False)
    assert {name: field["kind"] for name, field in told.items()} == {
        "age": "integer",
        "income": "continuous",
        "rent": "integer",
        "town": "categorical",
        "size": "categorical",
        "sex": "categorical",
        "job": "categorical",
        "total": "derived",
    }
    assert told["town"]["words"] == "home town"
    assert {one["value"]: one["words"] for one in told["town"]["categories"]} == {
        "R": "Rome",
        "B": "Bonn",
        HOSTILE: HOSTILE,
    }
    assert [one["value"] for one in told["size"]["categories"]] == ["S", "M", "L"] and told["size"]["ordered"]
    assert told["sex"]["fixed"] and told["age"]["direction"] == "increase"
    assert told["income"]["may_be_missing"] and not told["rent"]["may_be_missing"]
    assert told["total"]["formula"] == "income + rent"


def test_a_row_is_a_form_with_the_models_answer(own):
    row, cells = table().iloc[5], own.row(5)["cells"]
    assert own.row(5)["name"] == "customer 1005"
    assert cells["income"] == {"cell": None, "shown": "missing"}
    assert cells["age"]["cell"] == row["age"] and cells["town"]["cell"] == row["town"]
    assert f"job_{cells['job']['cell']}" == next(name for name in ("job_a", "job_b", "job_c") if row[name] == 1)
    assert own.row(5)["carried"] == [{"name": "remark", "shown": "person 5"}]
    model, training = Loans(), table().drop(columns="remark")
    answer = own.row(5)["answer"]
    assert answer["answer"] == model.predict(training.iloc[[5]])[0]
    assert [one["probability"] for one in answer["probabilities"]] == model.predict_proba(training.iloc[[5]])[
        0
    ].tolist()


@pytest.mark.parametrize(("text", "first", "total"), [("1017", 17, 1), ("person 42", 42, 1), (" ", 0, 120)])
def test_a_row_is_found_by_its_name_or_its_cells(own, text, first, total):
    found = own.find(text)
    assert (found["rows"][0]["row"], found["total"]) == (first, total)


def test_names_that_begin_so_come_before_cells_that_contain_it(own):
    assert [one["row"] for one in own.find("101")["rows"]][:10] == list(range(10, 20))


def test_words_of_labels_are_searched_and_nothing_found_is_told(own):
    romans = table()["town"].eq("R")
    assert romans[5], "a row with a missing cell is found too"
    assert own.find("ROME")["total"] == romans.sum()
    assert own.find("nobody at all") == {"total": 0, "rows": []}


def test_answers_to_listed_rows_are_the_models(own):
    assert own.answers([3, 9]) == Loans().predict(table().iloc[[3, 9]]).tolist()
    with pytest.raises(InputError, match="too many"):
        own.answers(list(range(21)))


def test_an_edit_moves_the_answer_and_what_is_derived(own):
    edited = table().iloc[[0]].assign(income=500.0, town="R")
    edited["total"] = edited["income"] + edited["rent"]
    told = own.predict({"row": 0, "cells": {"income": 500, "town": "R"}})
    chances = [one["probability"] for one in told["answer"]["probabilities"]]
    assert chances == pytest.approx(Loans().predict_proba(edited)[0].tolist(), abs=0)
    assert told["derived"]["total"].replace(",", "") == f"{edited['total'].iloc[0]:g}"
    assert chances != [one["probability"] for one in own.row(0)["answer"]["probabilities"]]


def test_an_edit_of_a_group_sets_its_columns(own):
    question = own.read({"row": 0, "cells": {"job": "b"}})
    row, columns = own.edited(question)
    assert row[["job_a", "job_b", "job_c"]].to_numpy().tolist() == [[0, 1, 0]]
    assert set(columns) <= {"job_a", "job_b", "job_c"}
    assert row.dtypes.equals(own.rows.dtypes)


def test_edits_that_change_nothing_are_none(own):
    age = int(own.rows["age"].iloc[0])
    told = own.predict({"row": 0, "cells": {"age": age}})
    assert told["met"] is None and "number" not in told


@pytest.mark.slow
def test_an_unseen_category_is_shown_kept_and_can_be_edited_away(own):
    rows = own.rows.assign(town=own.rows["town"].astype(object).mask(np.arange(len(own.rows)) == 3, "Z"))
    strange = WhatIf(own.explainer, rows)
    assert strange.row(3)["cells"]["town"] == {"cell": None, "shown": "Z", "foreign": True}
    assert strange.predict({"row": 3, "cells": {"age": 50}})["answer"]["answer"] in ("no", "yes")
    with pytest.warns(UserWarning, match="'Z' in row 1003 "):
        assert strange.explain({"row": 3})["alternatives"][0]["found"]
    row, columns = strange.edited(strange.read({"row": 3, "cells": {"town": "R"}}))
    assert row["town"].iloc[0] == "R" and columns == ["town"]


def test_it_is_told_whether_an_edit_reaches_the_goal_and_what_is_odd(own):
    refused = int(np.argmax(Loans().predict(table()) == "no"))
    best = {"age": 80, "income": 899, "town": "R", "size": "L", "job": "b"}
    assert own.predict({"row": refused, "cells": best})["met"] is True
    low, high = table()["rent"].min(), table()["rent"].max()
    assert own.predict({"row": refused, "cells": {"rent": 899.0}})["notes"] == [f"rent is outside {low:g} to {high:g}."]
    assert "The rule 'rent <= 900' is broken." in own.predict({"row": refused, "cells": {"rent": 950}})["notes"]


QUESTIONS = [
    {"row": 0, "n": 1, "plausible": "prefer"},
    {"row": 1, "n": 3, "goal": {"kind": "to", "label": "yes", "min_probability": 0.7}, "plausible": "no"},
    {"row": 7, "n": 2, "features": {"age": {"locked": True}, "town": {"categories": ["R", HOSTILE]}}, "max_changes": 2},
    {"row": 3, "features": {"income": {"low": 100, "high": 800.5, "direction": "up"}, "size": {"direction": "up"}}},
    {"row": 4, "cells": {"age": 44, "town": HOSTILE, "job": "c", "income": 120.5}, "n": 2},
    {"row": 9, "features": {"job": {"categories": ["a", "b"]}}, "plausible": "require"},
    {"row": 5, "n": 2, "cells": {"income": 700.5}},  # which is missing in the table
    {"row": 6, "cells": {"income": None}, "goal": {"kind": "to", "label": "no"}},
]


@pytest.fixture(scope="module")
def elsewhere() -> dict[str, Any]:
    """What the setup makes, in a namespace of its own."""
    namespace: dict[str, Any] = {}
    exec(SETUP, namespace)
    return namespace


@pytest.mark.slow
@pytest.mark.parametrize("sent", QUESTIONS)
def test_the_python_of_a_question_gives_the_same_answer(own, elsewhere, sent):
    told = own.explain(sent)
    namespace = dict(elsewhere)
    exec(told["python"], namespace)
    found = namespace["found"]
    records = found.to_dict()["queries"][0]["counterfactuals"]
    assert [one["row"] for one in records] == [one["row"] for one in told["alternatives"]]
    assert [one["status"] for one in records] == [one["status"] for one in told["alternatives"]]
    assert found.card(0)._repr_html_() == told["card"]
    assert any(one["found"] for one in told["alternatives"])


def test_plausibility_is_off_unless_it_is_asked_for(own):
    assert own.describe()["plausible"] == "no"
    assert "plausible=False" in own.explain({"row": 0})["python"]
    assert 'plausible="prefer"' in own.explain({"row": 0, "plausible": "prefer"})["python"]


@pytest.mark.slow
def test_alternatives_keep_locks_ranges_and_directions(own):
    features = {
        "age": {"locked": True},
        "town": {"locked": True},
        "income": {"low": 0, "high": 850},
        "size": {"direction": "down"},
    }
    for row in range(4):
        start = table().iloc[row]
        for one in own.explain({"row": row, "n": 2, "features": features})["alternatives"]:
            for change in one["changes"]:
                assert change["feature"] not in ("age", "town", "sex")
                assert change["feature"] != "income" or 0 <= change["to"] <= 850
                assert change["feature"] != "size" or "SML".index(change["to"]) < "SML".index(start["size"])


@pytest.mark.slow
def test_an_alternative_put_into_the_form_is_answered_as_it_was_told(own):
    told = own.explain({"row": 7, "n": 2})["alternatives"][0]
    cells = {change["feature"]: change["cell"] for change in told["changes"]}
    again = own.predict({"row": 7, "cells": cells})
    assert again["met"] is True and again["answer"]["answer"] == told["answer"]


@pytest.mark.slow
def test_the_card_shows_a_hostile_category_as_text(own):
    row = int(np.argmax(table()["town"] == HOSTILE))
    card = own.explain({"row": row, "n": 1})["card"]
    assert "<img" not in card and "&lt;img src=x onerror=alert(1)&gt;" in card


@pytest.mark.slow
def test_history_keeps_questions_and_the_last_state_of_edits_for_each_tab(own):
    own.explain({"row": 0, "tab": "first"})
    own.explain({"row": 0, "tab": "first", "keep": False})
    for age in (40, 41, 42):
        own.predict({"row": 0, "cells": {"age": age}, "tab": "first"})
    own.explain({"row": 1, "tab": "second"})
    tried = own.tried("first")
    assert [(one["number"], one["kind"], one["row"]) for one in tried] == [
        (1, "asked", "customer 1000"),
        (2, "tried", "customer 1000"),
    ]
    assert tried[1]["edited"] == {"age": "42"}
    assert [one["row"] for one in own.tried("second")] == ["customer 1001"]


@pytest.mark.slow
def test_a_model_that_raises_is_told_and_the_next_question_is_answered(own):
    with pytest.raises(ModelError, match="no luck today"):
        own.predict({"row": 0, "cells": {"age": 99}})
    with pytest.raises(ModelError, match="no luck today"):
        own.explain({"row": 0, "cells": {"age": 99}})
    assert own.explain({"row": 0})["alternatives"]


@pytest.mark.slow
def test_several_tabs_at_once_get_their_own_answers(own):
    wanted = [own.explain({"row": row, "n": 2, "keep": False})["alternatives"] for row in range(6)]
    found: dict[int, Any] = {}

    def ask(row: int) -> None:
        found[row] = own.explain({"row": row, "n": 2, "keep": False})["alternatives"]

    threads = [threading.Thread(target=ask, args=(row,)) for row in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [found[row] for row in range(6)] == wanted


@pytest.mark.slow
def test_a_regressor_has_numbers_and_goals_of_its_own():
    rows = table()[["age", "income", "rent"]].fillna(0)
    model = LinearRegression().fit(rows, rows["age"] + rows["income"])
    own = WhatIf(make_explainer("greedy", model, FeatureSpace.infer(rows), goal=Goal.shift(50)).fit(rows), rows)
    assert own.describe()["classes"] is None and own.describe()["goal"]["kind"] == "shift"
    before = own.row(3)["answer"]["number"]
    told = own.explain(
        {
            "row": 3,
            "goal": {"kind": "between", "low": before + 100, "high": None},
            "features": {"age": {"locked": True}},
        }
    )
    assert told["alternatives"][0]["answer"] >= before + 100
    with pytest.raises(ReLAXError, match="kind 'flip'; known are 'shift', 'between'"):
        own.explain({"row": 3, "goal": {"kind": "flip"}})


def _scores(X: Any) -> Any:
    return np.column_stack([1 - np.asarray(X)[:, 0], np.asarray(X)[:, 0]])


def _number(X: Any) -> Any:
    return 3 * np.asarray(X)[:, 0]


def test_what_is_no_session_is_refused():
    rows = table().drop(columns="remark")
    with pytest.raises(NotFittedError):
        WhatIf(make_explainer("greedy", Loans()), rows)
    fitted = make_explainer("greedy", Loans(), FeatureSpace.infer(rows)).fit(rows)
    with pytest.raises(InputError, match="no rows"):
        WhatIf(fitted, rows.iloc[:0])
    with pytest.raises((InputError, ColumnError), match="'town'"):
        WhatIf(fitted, rows.drop(columns="town"))
    numbers = pd.DataFrame(np.random.default_rng(0).random((50, 2)))
    unnamed = make_explainer("greedy", _scores).fit(numbers)
    with pytest.raises(InputError, match="names are texts"):
        WhatIf(unnamed, numbers)
    without_goal = make_explainer("greedy", BlackBox(_number, task="regression")).fit(numbers.rename(columns=str))
    with pytest.raises(GoalError, match="a regressor needs a goal"):
        WhatIf(without_goal, numbers.rename(columns=str))


class Both:
    """A model whose classes people write alike: the number 1, the text "1" and what its representation is."""

    classes_ = np.array([1, "1", "'1'", 2.0], dtype=object)
    _estimator_type = "classifier"

    def predict_proba(self, rows):
        points = np.column_stack([rows["a"] * place for place in (-1.0, 1.0, 2.0, 3.0)]) / 10
        return np.exp(points) / np.exp(points).sum(axis=1, keepdims=True)

    def predict(self, rows):
        return self.classes_[self.predict_proba(rows).argmax(axis=1)]


def test_a_class_is_found_by_itself_and_not_by_how_it_is_written():
    rows = pd.DataFrame({"a": np.linspace(-3, 3, 40), "b": np.arange(40.0)})
    explainer = make_explainer("greedy", Both(), FeatureSpace.infer(rows), goal=Goal.to("1")).fit(rows)
    own = WhatIf(explainer, rows)
    told = own.describe()
    texts = [one["value"] for one in told["classes"]]
    assert len(set(texts)) == 4 and told["goal"]["label"] == texts[1]
    for text, label in zip(texts, Both.classes_, strict=True):
        goal = own.read({"row": 0, "goal": {"kind": "to", "label": text}}).arguments["goal"]
        assert goal.label == label and type(goal.label) is type(label)
