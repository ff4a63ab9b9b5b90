"""Facts about the rules by hand, under which several changes must be made together."""

import itertools
import pickle

import numpy as np
import pytest

from relax_plugin.arrays import Floats
from relax_plugin.evaluation.rules import KINDS, RuleClassifier, rule, rule_table
from relax_plugin.evaluation.tasks import COORDINATED_TASKS, available_tasks, describe_tasks, load_task

SEEDS = range(5)
BY_RULE = [name for name in COORDINATED_TASKS if name.endswith("/rule")]


def row_with(model: RuleClassifier, held: tuple[bool, ...], features: int = 20) -> Floats:
    """A row that fulfils these conditions of the rule and no others."""
    row = np.full(features, 0.5)
    for condition, holds in zip(model.conditions, held, strict=True):
        row[condition.column] = float(condition.above == holds)
    return row


def score_of(model: RuleClassifier, *held: bool) -> float:
    return float(model.predict_proba(row_with(model, held)[None])[0, 1])


@pytest.mark.parametrize("seed", SEEDS)
def test_each_right_change_lowers_the_score_of_a_lock_but_the_last(seed: int) -> None:
    model = rule("lock3", seed)
    by_number: list[set[float]] = [set(), set(), set(), set()]
    for held in itertools.product((False, True), repeat=3):
        by_number[sum(held)].add(score_of(model, *held))
    none, one, two, three = (scores.pop() for scores in by_number)
    assert not any(by_number), "whichever conditions hold, their number alone matters"
    assert three > 0.5 > none > one > two


@pytest.mark.parametrize("seed", SEEDS)
def test_the_score_of_and4_is_flat_until_all_four_changes_are_made(seed: int) -> None:
    model = rule("and4", seed)
    scores = {score_of(model, *held) for held in itertools.product((False, True), repeat=4) if not all(held)}
    assert len(scores) == 1 and scores.pop() < 0.5 < score_of(model, True, True, True, True)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_change_of_the_sequence_moves_nothing_before_the_ones_that_it_comes_after(seed: int) -> None:
    model = rule("sequence", seed)
    nothing = score_of(model, False, False, False)
    for second, third in itertools.product((False, True), repeat=2):
        assert score_of(model, False, second, third) == nothing
    first, both = score_of(model, True, False, False), score_of(model, True, True, False)
    assert score_of(model, True, False, True) == first
    assert first < nothing < both < 0.5 < score_of(model, True, True, True)


@pytest.mark.parametrize("name", [name.removesuffix("/rule") for name in BY_RULE])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_few_per_cent_of_the_rows_are_positive(name: str, seed: int) -> None:
    table, kind = rule_table(name, seed), KINDS[name.partition("-")[0]]
    assert 0.5 * kind.positives < table.y.mean() < 1.6 * kind.positives
    assert np.array_equal(table.y, rule(name, seed).predict(table.X))


def test_same_seed_same_rule_and_rows() -> None:
    assert rule("lock3", 1).conditions == rule("lock3", 1).conditions
    assert rule_table("lock3", 1).X.equals(rule_table("lock3", 1).X)
    drawn = {rule(name, seed).conditions for name in ("lock3", "sequence", "lock3-500") for seed in SEEDS}
    assert len(drawn) == 15, "another seed, kind or width draws another rule"
    assert not rule_table("lock3", 1).X.equals(rule_table("lock3", 2).X)


def test_conditions_are_about_different_features_and_look_both_ways() -> None:
    rules = [rule(name, seed) for name in KINDS for seed in SEEDS]
    for model in rules:
        assert len({condition.column for condition in model.conditions}) == len(model.conditions)
    assert {condition.above for model in rules for condition in model.conditions} == {True, False}


def test_a_rule_survives_pickling_and_answers_for_frames_and_arrays_alike() -> None:
    task = load_task("sequence/rule")
    again = pickle.loads(pickle.dumps(task.model))
    expected = task.model.predict_proba(task.X_test)
    assert np.array_equal(again.predict_proba(task.X_test.to_numpy()), expected)
    assert np.allclose(expected.sum(axis=1), 1.0)
    assert np.array_equal(task.model.predict(task.X_test), expected.argmax(axis=1))


def test_the_names_tell_the_width() -> None:
    features = {line["task"]: line["features"] for line in describe_tasks()}
    assert set(COORDINATED_TASKS) <= set(available_tasks())
    for name in BY_RULE:
        assert features[name] == int(name.removesuffix("/rule").partition("-")[2] or 20)


def test_a_task_by_rule_is_made_for_its_seed_and_has_labels_alone_too() -> None:
    first, second = (load_task("lock3/rule", seed) for seed in (0, 1))
    assert first.model.conditions != second.model.conditions and not first.X_train.equals(second.X_train)
    assert first.model.score(first.X_test, first.y_test) == 1.0
    labels = load_task("lock3/rule:labels")
    assert np.array_equal(labels.model(first.X_test), first.y_test)
