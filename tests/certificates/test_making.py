"""What a certificate says, how small it is, and that a result keeps what is proved."""

import json
import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression

from relax_plugin import Counterfactuals, FeatureSpace, Goal, make_explainer
from relax_plugin.certificates.spaces import space_from_plain, space_to_plain
from relax_plugin.certificates.words import CLAIMS, checksum
from relax_plugin.datasets import load
from relax_plugin.errors import GoalError, InputError, ModelError, NotFittedError
from relax_plugin.trees.floor import certify

RNG = np.random.default_rng(0)
ROWS = pd.DataFrame(RNG.integers(0, 7, (200, 4)), columns=list("abcd")).assign(town=RNG.choice(["Rome", "Bonn"], 200))
NUMBERS = ROWS.drop(columns="town")
LABELS = (NUMBERS["a"] + NUMBERS["b"] > 6).astype(int)
FOREST = RandomForestClassifier(8, max_depth=4, random_state=0).fit(NUMBERS, LABELS)


def explained(**call: Any) -> tuple[Any, Counterfactuals]:
    explainer = make_explainer("greedy", FOREST).fit(NUMBERS)
    return explainer, explainer.explain(NUMBERS[:12], **call)


def test_a_certificate_is_plain_data_and_says_what_was_asked() -> None:
    _, result = explained(goal=Goal.to(1), immutable=["d"], bounds={"c": (1, 5)})
    told = result.certificate(0)
    assert json.loads(json.dumps(told)) == told
    assert told["goal"] == {"kind": "to", "label": 1}
    assert told["asked"]["immutable"] == ["d"]
    assert told["asked"]["bounds"] == [["c", [1, 5]]]
    assert told["query"] == NUMBERS.iloc[0].tolist()
    assert told["model"]["type"] == "RandomForestClassifier"
    assert told["sha256"] == checksum(told)
    assert told["rows"] == result.rows_queried[0]


def test_every_answer_carries_a_word() -> None:
    explainer, result = explained(goal=Goal.to(1))
    words = {result.certificate(row)["claim"] for row in range(len(result))}
    assert "already" in words
    certified = certify(result, explainer)
    for row in range(len(result)):
        told = certified.certificate(row)
        assert told["claim"] in CLAIMS
        if told["claim"] in ("fewest", "closest"):
            assert certified.proved is not None
            assert told["changes"] == max(1, certified.proved[row, 0])
            assert told["word"].startswith(f"proved {told['claim']}: no counterfactual changes fewer than ")
    assert "closest" in {certified.certificate(row)["claim"] for row in range(len(result))}


def test_what_was_not_proved_is_called_the_best_found() -> None:
    explainer = make_explainer("greedy", FOREST).fit(NUMBERS)
    result = explainer.explain(NUMBERS, goal=Goal.flip(min_probability=0.9))
    several = np.flatnonzero(result.sparsity[:, 0] > 1)
    assert len(several)
    told = result.certificate(int(several[0]))
    assert told["claim"] == "found"
    assert told["word"] == f"best found within {result.rows_queried[several[0]]} model rows"


def test_none_within_the_limits_is_proved_impossible_or_just_not_found() -> None:
    explainer, result = explained(vary=["d"])
    unsolved = int(np.argmin(result.found[:, 0]))
    assert not result.found[unsolved, 0]
    assert result.certificate(unsolved)["claim"] == "not found"
    certified = certify(result, explainer)
    told = certified.certificate(unsolved)
    assert told["claim"] == "impossible"
    assert told["answer"] is None


def test_what_is_proved_survives_files_parts_and_pickles() -> None:
    explainer, result = explained()
    certified = certify(result, explainer)
    before = [certified.certificate(row) for row in range(len(certified))]
    again = Counterfactuals.from_json(certified.to_json())
    assert [again.certificate(row, explainer) for row in range(len(again))] == before
    assert certified[[3, 5]].certificate(1) == before[5]
    copied = pickle.loads(pickle.dumps(certified))
    assert copied.certificate(2, explainer) == before[2]


def test_a_certificate_needs_the_model_and_a_query_that_there_is() -> None:
    explainer, result = explained()
    copied = Counterfactuals.from_json(result.to_json())
    with pytest.raises(InputError, match=r"give certificate\(i, explainer\)"):
        copied.certificate(0)
    with pytest.raises(NotFittedError, match="fitted explainer"):
        copied.certificate(0, make_explainer("greedy", FOREST))
    with pytest.raises(InputError, match="there is no query 99"):
        result.certificate(99)
    with pytest.raises(InputError, match="there is no counterfactual 3"):
        result.certificate(0, cf_id=3)
    assert copied.certificate(0, explainer) == result.certificate(0)


def test_a_regressor_of_an_untold_question_needs_the_goal() -> None:
    model = LinearRegression().fit(NUMBERS, NUMBERS["a"] * 2.0)
    explainer = make_explainer("greedy", model, goal=Goal.shift(3.0)).fit(NUMBERS)
    result = explainer.explain(NUMBERS[:2])
    told = result.certificate(0)
    assert told["goal"] == {"kind": "shift", "delta": 3.0, "direction": "either"}
    result.asked = None
    with pytest.raises(GoalError, match="does not tell its goal"):
        result.certificate(0)
    assert result.certificate(0, explainer)["goal"] == told["goal"]


@pytest.mark.parametrize("name", ["breast_cancer", "german", "boston", "sonar", "diabetes", "default"])
def test_a_certificate_has_less_than_five_kilobytes(name: str) -> None:
    data = load(name)
    space = FeatureSpace.infer(data.X)
    written = space_to_plain(space)
    row = data.X.iloc[0].tolist()
    assert len(json.dumps(written)) + len(json.dumps(row, default=float)) < 4300, "800 letters are left for the rest"


def test_a_space_in_few_letters_is_the_same_space() -> None:
    frame = ROWS.assign(x=NUMBERS["a"] / 8, red=(ROWS["a"] > 3).astype(int), blue=(ROWS["a"] <= 3).astype(int))
    frame["total"] = frame["a"] + frame["b"]
    space = FeatureSpace.infer(
        frame,
        one_hot={"colour": ["red", "blue"]},
        derived={"total": "a + b"},
        rules=["a <= c + 9"],
        bounds={"town": ["Rome"]},
        costs={"a": 2.0},
        increase_only=["b"],
        fill_missing=["c"],
    )
    again = space_from_plain(json.loads(json.dumps(space_to_plain(space))), space.to_dict()["rules"])
    assert again.names == space.names and again.columns == space.columns and again.rules == space.rules
    for one, other in zip(again.features, space.features, strict=True):
        assert one.choices == other.choices and one.direction == other.direction and one.cost == other.cost
        assert one.scale == pytest.approx(other.scale, rel=1e-10)
    one = FeatureSpace.infer(frame[["a"]])
    assert space_from_plain(space_to_plain(one), []).names == ["a"]


def test_a_model_that_refuses_rows_of_the_space_is_told_why_there_is_no_certificate() -> None:
    rows = pd.DataFrame(np.random.default_rng(0).integers(0, 10, (200, 2)), columns=["a", "b"])
    rows = rows[rows.sum(axis=1) < 12]

    def model(asked: Any) -> Any:
        if (asked.sum(axis=1) >= 12).any():
            raise ValueError("out of the domain")
        return np.where(asked["a"] > asked["b"], "yes", "no")

    result = make_explainer("nearest-ct", model, FeatureSpace.infer(rows)).fit(rows).explain(rows[:3])
    assert result.found.all()
    with pytest.raises(ModelError, match=r"48 rows drawn from the feature space, .* ValueError: out of the domain\. "):
        result.certificate(0)
