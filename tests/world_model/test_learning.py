"""Learning a world model: which rows it costs, where they lie, agents trained in it, and answers of the model alone."""

import logging
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
from relax_plugin.world_model.learning import good_enough, imagine, random_goals
from relax_plugin.world_model.model import Agreement
from relax_plugin.world_model.sampling import Mixing

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


def fitted(model=two_class_probabilities, rows=ROWS, training="imagined", budget=1000, **options):
    config = options.pop("config", replace(QUICK, steps=10, training=training, query_budget=budget))
    return ReLAX(model, config=config, progress=False, **{"max_changes": 3, **options}).fit(rows)


def imagined(kind, rows, goal=None, seed=0):
    """A world model of a model of which 64 answers are known, made of further rows; and what counted them."""
    counter, _, training, options = case(kind)
    space = options.get("space") or FeatureSpace.infer(training)
    values = space.values(training)
    blackbox = BlackBox(counter, space, "regression" if kind == "regressor" else "auto")
    known = values[:64], blackbox.learn(values[:64])
    counter.forget()
    goal = goal or options.get("goal", Goal.flip())
    return imagine(blackbox, values, known, rows, goal, 3, Mixing(), np.random.default_rng(seed)), counter


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
    assert 0.0 <= world.weight <= 1.0


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
        assert world.agreement.explained > 0.8 and good_enough(world), kind
    world = imagined("noise", 900)[0]
    assert world.agreement.explained < 0.2 and not good_enough(world)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "agreement", "enough"),
    [
        ("scores", Agreement(0.99, 0.9, 0.9, 50), True),
        ("scores", Agreement(0.99, 0.5, 0.9, 50), False),
        ("scores", Agreement(0.99, 0.9, -0.5, 50), False),
        ("three classes", Agreement(0.7, 0.5, 0.9, 50), True),
        ("three classes", Agreement(0.7, 0.35, 0.9, 50), False),
        ("regressor", Agreement(np.nan, np.nan, 0.9, 50), True),
        ("regressor", Agreement(np.nan, np.nan, -0.5, 50), False),
        ("regressor", Agreement(np.nan, np.nan, np.nan, 0), False),
    ],
)
def test_good_enough_looks_at_the_worst_class_and_at_what_is_explained(kind, agreement, enough):
    """By chance one label in two is the same, of three classes one in three."""
    world = imagined(kind, 100)[0]
    world.agreement = agreement
    assert good_enough(world) == enough


@pytest.mark.slow
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
@pytest.mark.parametrize("budget", [200, 1000])
@pytest.mark.parametrize("kind", KINDS)
def test_training_in_imagination_never_costs_more_than_its_budget(kind, budget):
    counter, model, rows, options = case(kind)
    explainer = fitted(model, rows, budget=budget, **options)
    assert explainer.fit_rows_ == counter.rows <= budget
    assert explainer.training_.startswith(f"in imagination: {explainer.world_model_.agreement}")
    assert explainer.blackbox_.rows_per_question == (2 if kind == "ties" else 1)
    counter.forget()
    if kind == "labels only":
        with pytest.raises(UnsupportedError, match="skipped because it needs scores, and the model answers labels"):
            SurrogateSearch(model, query_budget=budget).fit(rows)
    else:
        search = SurrogateSearch(model, query_budget=budget, **options).fit(rows)
        assert search.fit_rows_ == counter.rows <= budget
        assert search.world_model_.agreement.rows > 0


PAPER = replace(ReLAXConfig.paper(), steps=10, episodes=48, batch=48, start_pool=256, hidden=24, validation_rows=32)


@pytest.mark.slow
@pytest.mark.parametrize("options", [{"training": "model"}, {"config": PAPER}], ids=["asked for", "paper"])
def test_training_on_the_model_costs_every_step(options):
    model = Counting(two_class_probabilities)
    explainer = fitted(model, **options)
    assert explainer.fit_rows_ == model.rows > 256 + 10 * 48
    assert [len(batch) for batch in model.seen].count(48) == 10
    assert explainer.world_model_ is None and explainer.training_.startswith("on the model; the agent is ")


@pytest.mark.slow
def test_an_easy_model_is_imagined_by_itself(caplog):
    with caplog.at_level(logging.WARNING):
        explainer = fitted(training="auto")
    assert good_enough(explainer.world_model_) and explainer.fit_rows_ <= 1000
    assert explainer.training_.startswith("in imagination: ")
    assert not caplog.records


@pytest.mark.slow
def test_labels_alone_are_imagined_only_if_asked_for(caplog):
    asked = fitted(Counting(two_class_labels), training="imagined")
    assert asked.fit_rows_ == asked.model.rows <= 1000
    assert asked.explain(QUERIES).found.mean() > 0.9
    by_itself = fitted(Counting(two_class_labels), training="auto")
    assert by_itself.world_model_ is None and by_itself.fit_rows_ == by_itself.model.rows
    assert by_itself.training_.startswith("on the model, which answers labels only")
    assert not caplog.records


@pytest.mark.slow
def test_an_agent_that_shall_do_alone_is_trained_on_a_model_that_cannot_be_imagined_and_that_is_said(caplog):
    model = Counting(noise)
    with caplog.at_level(logging.WARNING):
        explainer = fitted(model, training="auto", budget=400, effort="policy")
    assert explainer.world_model_ is None
    assert explainer.training_.startswith("on the model, since a world model of it was not good enough: the same label")
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == 1 and f"training {explainer.training_}".startswith(told[0])
    assert explainer.fit_rows_ == model.rows > 400 + 10 * QUICK.episodes
    assert not good_enough(fitted(noise, budget=400).world_model_)  # who insists gets it


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
        with pytest.raises(InputError, match=r"^query_budget is .*, but must be a whole number from 200.*\.$"):
            ReLAXConfig(query_budget=budget)
        with pytest.raises(InputError, match=r"^query_budget is .*, but must be a whole number of at least 200\.$"):
            SurrogateSearch(two_class_probabilities, query_budget=budget).fit(ROWS)
    with pytest.raises(InputError, match=r"^training is 'dream'; accepted are 'model', 'imagined' and 'auto'\.$"):
        ReLAXConfig(training="dream")


# Answers are the model's own


@pytest.mark.slow
@pytest.mark.parametrize("agent", [True, False])
@pytest.mark.parametrize("damaged", [False, True])
def test_what_is_found_holds_on_the_model_even_if_the_world_model_is_wrong(agent, damaged):
    model = Counting(two_class_probabilities)
    explainer = fitted(model, fallback=False) if agent else SurrogateSearch(model, fallback=False).fit(ROWS)
    world = explainer.world_model_
    if damaged:
        world.network.second, world.trees.values = -world.network.second, -world.trees.values
    believed = world.targets.answer(world.predict(QUERIES)).output
    assert ((believed == two_class_labels(QUERIES)).mean() < 0.6) == damaged
    model.forget()
    found = explainer.explain(QUERIES)
    assert found.rows_queried.sum() == model.rows
    solved = found.found[:, 0]
    assert solved.mean() > (0.2 if damaged else 0.9)
    assert (two_class_labels(found.values[solved, 0]) != two_class_labels(QUERIES)[solved]).all()


@pytest.mark.slow
def test_constraints_of_the_call_hold_after_imagined_training():
    two_class = fitted()
    varied = two_class.explain(QUERIES, vary=["x0", "x3"])
    assert not (varied.values[:, 0] != QUERIES)[:, [1, 2]].any() and varied.found.mean() > 0.4
    bounded = two_class.explain(QUERIES, bounds={"x0": (-0.5, 0.5), "x1": (None, 0.2)})
    changed = bounded.values[:, 0] != QUERIES
    assert np.abs(bounded.values[:, 0, 0][changed[:, 0]]).max() <= 0.5 and bounded.found.mean() > 0.4
    assert bounded.values[:, 0, 1][changed[:, 1]].max() <= 0.2
    several = two_class.explain(QUERIES, n=3)
    assert several.found.all(axis=1).mean() > 0.7
    assert all(len(np.unique(rows, axis=0)) == 3 for rows in several.values[several.found.all(axis=1)])
    delivered = two_class_labels(several.frame[two_class.space_.names])
    assert (delivered != two_class_labels(QUERIES)[several.frame["query_id"]]).all()


@pytest.mark.slow
def test_goals_of_the_call_hold_after_imagined_training():
    explainer = fitted(tiny.three_class_probabilities)
    for target in (0, 1, 2):
        found = explainer.explain(QUERIES, goal=Goal.to(target, min_probability=0.6))
        assert found.found.mean() > 0.8
        assert (tiny.three_class_probabilities(found.values[found.found])[:, target] >= 0.6).all()


@pytest.mark.slow
def test_mixed_features_keep_their_constraints_after_imagined_training():
    queries = tiny.mixed_rows(25, seed=3)
    found = fitted(tiny.mixed_probabilities, MIXED, space=SPACE).explain(queries, n=2)
    assert found.found[:, 0].mean() > 0.8
    query, slot = np.nonzero(found.found)
    assert SPACE.limits().kept(found.values[query, slot], SPACE.values(queries)[query]).all()
    before = tiny.mixed_probabilities(queries).argmax(axis=1)[query]
    assert (tiny.mixed_probabilities(found.frame[SPACE.names]).argmax(axis=1) != before).all()


@pytest.mark.slow
def test_local_is_tuned_on_the_model_after_imagined_training():
    model = Counting(two_class_probabilities)
    globally = fitted(effort="policy").explain(QUERIES)
    explainer = fitted(model, effort="policy", variant="local")
    assert explainer.world_model_ is not None and explainer.fit_rows_ == model.rows <= 1000
    model.forget()
    locally = explainer.explain(QUERIES)
    assert locally.rows_queried.sum() == model.rows > len(QUERIES) * QUICK.local_steps
    assert (locally.found >= globally.found).all() and (locally.stage == "local").any()


@pytest.mark.slow
def test_same_seed_same_world_same_answers():
    one, again, other = fitted(), fitted(), fitted(seed=1)
    assert again.world_model_.agreement == one.world_model_.agreement != other.world_model_.agreement
    same_answers(one.explain(QUERIES, n=2), again.explain(QUERIES, n=2))


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_world_model_survives_saving(kind, tmp_path):
    _, model, rows, options = case(kind)
    explainer = fitted(model, rows, budget=500, **options)
    explainer.save(tmp_path / "agent")
    loaded = ReLAX.load(tmp_path / "agent", model=model)
    assert (loaded.training_, loaded.fit_rows_) == (explainer.training_, explainer.fit_rows_)
    np.testing.assert_equal(asdict(loaded.world_model_.agreement), asdict(explainer.world_model_.agreement))
    values = explainer.space_.values(rows)[:200]
    np.testing.assert_array_equal(loaded.world_model_.predict(values), explainer.world_model_.predict(values))
    same_answers(explainer.explain(rows[:20], n=2), loaded.explain(rows[:20], n=2))


@pytest.mark.slow
def test_a_file_without_a_world_model_is_read(tmp_path):
    explainer = fitted(training="model")
    explainer.save(tmp_path / "agent")
    loaded = ReLAX.load(tmp_path / "agent", model=two_class_probabilities)
    assert loaded.world_model_ is None and loaded.training_ == "on the model; the agent is near-sighted"
    same_answers(explainer.explain(QUERIES), loaded.explain(QUERIES))
