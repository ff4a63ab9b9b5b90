"""Learning a surrogate: which rows it costs, where they lie, agents trained in it, and answers of the model alone."""

import subprocess
import sys
from dataclasses import asdict, replace

import numpy as np
import pytest
from reference import tiny
from reference.tiny import QUICK, Counting, gaussian_rows, two_class_labels, two_class_probabilities

from relax_plugin import BlackBox, FeatureSpace, Goal, ReLAX, ReLAXConfig
from relax_plugin.baselines.surrogate_search import SurrogateSearch
from relax_plugin.errors import GoalError, InputError, UnsupportedError
from relax_plugin.search.goals import random_goals
from relax_plugin.surrogate.acquisition import CELLS
from relax_plugin.surrogate.learning import fit_surrogate
from relax_plugin.surrogate.model import SurrogateModel

ROWS = gaussian_rows()
QUERIES = gaussian_rows(40, seed=7)
MIXED = tiny.mixed_rows()
SPACE = tiny.mixed_space(MIXED)


class Estimator(Counting):
    """Scores and labels are asked apart, and the rows of both are counted; ties go to class 1, and not to the first."""

    classes_ = np.array([0, 1])
    predict_proba = Counting.__call__

    def predict(self, rows):
        negative, positive = self(rows).T
        return (positive >= negative).astype(int)


def tied_scores(rows):
    """One half, which is a tie, between -0.5 and 0.5."""
    positive = np.clip(np.round(rows[:, 0] + rows[:, 1]) / 2 + 0.5, 0.0, 1.0)
    return np.column_stack([1.0 - positive, positive])


def noise(rows):
    """The same row always gets the same answer, but no row tells anything about its neighbours."""
    positive = 0.5 + 0.4 * np.sin(1e5 * np.asarray(rows).sum(axis=1))
    return np.column_stack([1.0 - positive, positive])


def rare(rows):
    """A class that two training rows in a hundred have."""
    positive = 1.0 / (1.0 + np.exp(-4.0 * (np.asarray(rows)[:, 0] - 2.0)))
    return np.column_stack([1.0 - positive, positive])


def case(kind):
    """What counts the rows, the model, training rows, and options."""
    counter = {
        "scores": Estimator(two_class_probabilities),
        "ties": Estimator(tied_scores),
        "labels only": Counting(two_class_labels),
        "regressor": Counting(tiny.numbers),
        "three classes": Counting(tiny.three_class_probabilities),
        "rare": Counting(rare),
        "mixed": Counting(tiny.mixed_probabilities),
        "noise": Counting(noise),
        "constant": Counting(lambda rows: np.tile([0.2, 0.8], (len(rows), 1))),
    }[kind]
    if kind == "mixed":
        return counter, counter, MIXED, {"space": SPACE}
    if kind == "regressor":
        return counter, BlackBox(counter, task="regression"), ROWS, {"goal": Goal.shift(2.0)}
    return counter, counter, gaussian_rows(5000) if kind == "labels only" else ROWS, {}  # more than any budget


KINDS = ["scores", "ties", "labels only", "regressor", "three classes", "rare", "mixed"]


def fitted(model=two_class_probabilities, rows=ROWS, **options):
    """An agent that is trained on a surrogate model, since few model evaluations are allowed."""
    config = options.pop("config", replace(QUICK, steps=10))
    return ReLAX(model, config=config, progress=False, **{"max_changes": 3, "max_queries": 12, **options}).fit(rows)


def imagined(kind, rows, goal=None, seed=0):
    """A surrogate model of a model of which 64 answers are known, made of further rows; and what counted them."""
    counter, _, training, options = case(kind)
    space = options.get("space") or FeatureSpace.infer(training)
    values = space.values(training)
    blackbox = BlackBox(counter, space, "regression" if kind == "regressor" else "auto")
    known = values[:64], blackbox.learn(values[:64])
    counter.forget()
    goal = goal or options.get("goal", Goal.flip())
    return fit_surrogate(blackbox, values, known, rows, goal, 3, np.random.default_rng(seed)), counter


def same_answers(one, other):
    for name in ("values", "found", "status", "rows_queried"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


# Which rows are asked


@pytest.mark.slow
@pytest.mark.parametrize("rows", [0, 1, 2, 3, 7, 136, 400])
@pytest.mark.parametrize("kind", [*KINDS, "noise", "constant"])
def test_learning_asks_no_more_rows_than_it_may_and_nearly_as_many(kind, rows):
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        world, counter = imagined(kind, rows)
    assert rows - 2 < counter.rows <= rows
    values = world.space.values(case(kind)[2])[:20]
    assert np.isfinite(world.predict(values)).all() and world.error > 0


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["scores", "three classes", "regressor", "mixed"])
def test_most_rows_are_asked_where_the_search_goes(kind):
    """What would be proposed lies nearer to the boundary of the goal than what is asked first, and than any row."""
    world, counter = imagined(kind, 600)
    asked = counter.seen[-1]
    assert len(counter.seen) >= 2
    assert world.agreement.rows == len(counter.seen[-1]) and sum(map(len, counter.seen[1:])) > 0.4 * counter.rows
    if kind == "scores":
        margins = [np.abs(two_class_probabilities(rows)[:, 1] - 0.5).mean() for rows in (asked, ROWS, counter.seen[0])]
        assert margins[0] < 0.9 * margins[1] and margins[0] < 0.8 * margins[2]


@pytest.mark.slow
def test_it_knows_a_smooth_model_well_where_the_search_goes_and_pure_noise_not_at_all():
    for kind in ("scores", "three classes", "regressor", "mixed"):
        world = imagined(kind, 900)[0]
        assert world.agreement.explained > 0.8, kind
    world = imagined("noise", 900)[0]
    assert world.agreement.explained < 0.2


@pytest.mark.slow
def test_a_wide_table_is_learned_in_little_memory(monkeypatch):
    """However many features there are, the search that learning runs holds rows of so many cells at once."""
    cells = []
    predict_near = SurrogateModel.predict_near

    def counted(self, states, hidden, owner, values):
        cells.append(values.size)
        return predict_near(self, states, hidden, owner, values)

    monkeypatch.setattr(SurrogateModel, "predict_near", counted)
    rows = np.random.default_rng(0).normal(size=(40, 170))
    explainer = SurrogateSearch(lambda table: (np.asarray(table)[:, :5].sum(axis=1) > 0) * 0.4 + 0.3).fit(rows)
    assert 0 < max(cells) <= CELLS
    assert explainer.surrogate_.agreement.rows > 100


def test_the_same_seed_asks_the_same_rows():
    one, same, other = (imagined("three classes", 200, seed=seed)[1].seen for seed in (1, 1, 2))
    for first, second in zip(one, same, strict=True):
        np.testing.assert_array_equal(first, second)
    assert (one[0] != other[0]).any()


# Goals


def goals_for(kind, goal, seed=0):
    world = BlackBox(case(kind)[0], FeatureSpace.infer(ROWS), "regression" if kind == "regressor" else "auto")
    answer = world.learn(ROWS)
    return answer, random_goals(goal, world, answer, np.random.default_rng(seed))


def test_goals_of_two_classes_are_the_other_class_and_of_numbers_the_goal_itself():
    for goal in (Goal.flip(), Goal.to(1)):
        answer, goals = goals_for("scores", goal)
        np.testing.assert_array_equal(goals.wanted.argmax(axis=1), 1 - answer.output)
        assert not goals.met(answer).any()
    answer, goals = goals_for("regressor", Goal.shift(2.0))
    np.testing.assert_allclose(goals.upper - answer.output, 2.0)


def test_goals_of_several_classes_are_half_of_them_targeted_many_at_the_label_of_the_goal():
    answer, goals = goals_for("three classes", Goal.flip(min_probability=0.6))
    several = goals.wanted.sum(axis=1)
    assert set(several) == {1, 2} and 0.35 < (several == 1).mean() < 0.65
    assert goals.min_probability == 0.6 and goals.avoided is None
    both = several == 2
    assert not goals.wanted[both, answer.output[both].astype(int)].any()
    assert set(goals.wanted[~both].argmax(axis=1)) == {0, 1, 2}
    _, to_one = goals_for("three classes", Goal.to(1))
    targeted = to_one.wanted[to_one.wanted.sum(axis=1) == 1].argmax(axis=1)
    assert (targeted == 1).mean() > 0.5 and set(targeted) == {0, 1, 2}


def test_goals_of_a_rise_can_be_met_and_are_many_of_them_the_goals_own():
    for kind, label in (("scores", 1), ("three classes", 1), ("three classes", [0, 2])):
        answer, goals = goals_for(kind, Goal.to(label, raise_by=0.4))
        assert (goals.wanted.sum(axis=1) == 1).all() and not goals.met(answer).any()
        assert (goals.least <= 1.0).mean() > 0.95
        np.testing.assert_allclose(goals.least - goals.chance(answer), 0.4)
        assert len(set(goals.wanted.argmax(axis=1))) == answer.scores.shape[1]


def test_of_ranges_a_row_any_is_learned_with():
    answer, goals = goals_for("regressor", Goal.between([0.0, 5.0], [1.0, None]))
    assert set(goals.lower) == {0.0, 5.0} and len(goals.lower) == len(answer)
    assert ((goals.upper == 1.0) == (goals.lower == 0.0)).all()
    with pytest.raises(GoalError, match="no range"):
        goals_for("regressor", Goal.between([], []))


def test_one_label_a_row_is_no_label_of_the_goal():
    _, goals = goals_for("three classes", Goal.to([0, 1]))
    assert goals.wanted.any(axis=1).all()


# What training costs


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_fitting_a_surrogate_never_costs_more_than_its_budget(kind):
    counter, model, rows, options = case(kind)
    if kind == "labels only":
        with pytest.raises(UnsupportedError, match="skipped because it needs scores, and the model answers labels"):
            SurrogateSearch(model, query_budget=200).fit(rows)
        return
    explainer = fitted(model, rows, **options)
    assert explainer.fit_rows_ == counter.rows <= 1000
    assert explainer.training_ == f"on a surrogate model: {explainer.surrogate_.agreement}"
    assert explainer.blackbox_.rows_per_question == (2 if kind == "ties" else 1)
    for budget in (200, 1000):
        counter.forget()
        search = SurrogateSearch(model, query_budget=budget, **options).fit(rows)
        assert search.fit_rows_ == counter.rows <= budget
        assert search.surrogate_.agreement.rows > 0


@pytest.mark.slow
def test_an_agent_may_be_trained_on_a_surrogate_of_a_cheap_model():
    model = Counting(two_class_probabilities)
    config = replace(QUICK, steps=10, training="surrogate", query_budget=400)
    explainer = fitted(model, config=config, max_queries=None)
    assert explainer.surrogate_ is None and explainer.training_.startswith("on a surrogate model: ")
    assert explainer.fit_rows_ == model.rows <= 400 + len(ROWS)  # what the search knows of training rows
    assert explainer.explain(QUERIES).found.all()


@pytest.mark.slow
def test_fit_does_not_import_the_compiler_of_torch():
    """It would take more than a second, as much as all of the training."""
    program = (
        "import sys, numpy as np; from relax_plugin import ReLAX, ReLAXConfig; "
        "rows = np.random.default_rng(0).standard_normal((100, 3)); "
        "model = lambda x: np.column_stack([1 / (1 + np.exp(x.sum(1))), 1 / (1 + np.exp(-x.sum(1)))]); "
        "ReLAX(model, config=ReLAXConfig(steps=2), progress=False).fit(rows).explain(rows[:2]); "
        "print('torch._dynamo' in sys.modules)"
    )
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "False"


def test_bad_settings_are_refused_with_a_sentence():
    for budget in (0, 10, 199, 1.5, "many"):
        with pytest.raises(InputError, match=r"^query_budget is .*, but must be a whole number of at least 200\.$"):
            ReLAXConfig(query_budget=budget)
        with pytest.raises(InputError, match=r"^query_budget is .*, but must be a whole number of at least 200\.$"):
            SurrogateSearch(two_class_probabilities, query_budget=budget).fit(ROWS)
    with pytest.raises(InputError, match=r"^training is 'dream'; known are 'auto', 'model', 'surrogate'\.$"):
        ReLAXConfig(training="dream")


# Answers are the model's own


@pytest.mark.slow
@pytest.mark.parametrize("agent", [True, False])
@pytest.mark.parametrize("damaged", [False, True])
def test_what_is_found_holds_on_the_model_even_if_the_surrogate_is_wrong(agent, damaged):
    model = Counting(two_class_probabilities)
    explainer = fitted(model) if agent else SurrogateSearch(model).fit(ROWS)
    world = explainer.surrogate_
    if damaged:
        world.weights[2] = -world.weights[2]
    believed = world.targets.answer(world.predict(QUERIES)).output
    assert ((believed == two_class_labels(QUERIES)).mean() < 0.6) == damaged
    model.forget()
    found = explainer.explain(QUERIES)
    assert found.rows_queried.sum() == model.rows
    solved = found.found[:, 0]
    assert solved.mean() > (0.0 if damaged else 0.9)
    assert (two_class_labels(found.values[solved, 0]) != two_class_labels(QUERIES)[solved]).all()


@pytest.mark.slow
def test_same_seed_same_surrogate_same_answers():
    one, again, other = fitted(), fitted(), fitted(seed=1)
    assert again.surrogate_.agreement == one.surrogate_.agreement != other.surrogate_.agreement
    same_answers(one.explain(QUERIES, n=2), again.explain(QUERIES, n=2))


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_surrogate_survives_saving(kind, tmp_path):
    _, model, rows, options = case(kind)
    if kind == "labels only":
        return  # which have no surrogate model
    explainer = fitted(model, rows, **options)
    explainer.save(tmp_path / "agent")
    loaded = ReLAX.load(tmp_path / "agent", model=model)
    assert (loaded.training_, loaded.fit_rows_) == (explainer.training_, explainer.fit_rows_)
    np.testing.assert_equal(asdict(loaded.surrogate_.agreement), asdict(explainer.surrogate_.agreement))
    values = explainer.space_.values(rows)[:200]
    np.testing.assert_array_equal(loaded.surrogate_.predict(values), explainer.surrogate_.predict(values))
    same_answers(explainer.explain(rows[:20], n=2), loaded.explain(rows[:20], n=2))
