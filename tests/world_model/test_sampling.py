"""Imagination: which rows a world model costs, agents trained in it, and answers that only the model itself gives."""

import logging
import subprocess
import sys
from dataclasses import asdict, replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import tiny
from reference.tiny import QUICK, Counting, gaussian_rows, two_class_labels, two_class_probabilities
from sklearn.base import clone

from relax_plugin import BlackBox, FeatureSpace, Goal, ReLAX, ReLAXConfig
from relax_plugin.agent.config import AGENT_STEPS, SEARCH_STEPS
from relax_plugin.baselines.surrogate_search import SurrogateSearch
from relax_plugin.errors import InputError, UnsupportedError
from relax_plugin.search.greedy import Moves
from relax_plugin.world_model import model as world_model
from relax_plugin.world_model import sampling as imagination
from relax_plugin.world_model.sampling import ENOUGH, ROUND, Mixing, imagine, moved

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


def case(kind):
    """What counts the rows, the model, training rows, and options."""
    counter = {
        "scores": Estimator(two_class_probabilities),
        "ties": Estimator(tied_scores),
        "labels only": Counting(two_class_labels),
        "regressor": Counting(tiny.numbers),
        "mixed": Counting(tiny.mixed_probabilities),
        "noise": Counting(noise),
    }[kind]
    if kind == "mixed":
        return counter, counter, MIXED, {"space": SPACE}
    if kind == "regressor":
        return counter, BlackBox(counter, task="regression"), ROWS, {"goal": Goal.shift(2.0)}
    return counter, counter, gaussian_rows(5000) if kind == "labels only" else ROWS, {}  # more than any budget


KINDS = ["scores", "ties", "labels only", "regressor", "mixed"]


def fitted(model=two_class_probabilities, rows=ROWS, training="imagined", budget=1000, **options):
    config = options.pop("config", replace(QUICK, steps=10, training=training, query_budget=budget))
    return ReLAX(model, config=config, progress=False, **{"max_changes": 3, **options}).fit(rows)


def imagined(model, rows):
    """A world model of a model of which 64 answers are known, made of further rows."""
    blackbox = BlackBox(model, FeatureSpace.infer(ROWS))
    known = ROWS[:64], blackbox.learn(ROWS[:64])
    model.forget()
    return imagine(blackbox, ROWS, known, rows, Mixing(), np.random.default_rng(0))


def same_answers(one, other):
    for name in ("values", "found", "status", "rows_queried"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


@pytest.fixture
def hurried(monkeypatch):
    """World models that are hardly fitted, where only the rows that are asked matter."""
    monkeypatch.setattr(world_model, "MOST_STEPS", 20)


@pytest.fixture(scope="module")
def two_class():
    return fitted(Counting(two_class_probabilities))


# How long is trained


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "options", "steps", "epochs"),
    [
        ("scores", {}, 4, [2]),
        ("regressor", {}, 4, [2]),
        ("scores", {"effort": "policy"}, 7, [3]),
        ("scores", {"effort": "refined"}, 7, [3]),
        ("scores", {"variant": "local"}, 7, [3]),  # whose agents begin with Global's
        ("labels only", {}, 7, [3]),
        ("noise", {}, 7, [2, 3]),  # not good enough, not even with all epochs: the search has only the agent
        ("noise", {"config": replace(QUICK, steps=None, training="imagined", query_budget=1000)}, 7, [2, 3]),
        ("scores", {"config": replace(QUICK, steps=5)}, 5, [2]),  # as the user says
    ],
)
def test_an_agent_is_trained_for_less_beside_a_world_model(kind, options, steps, epochs, monkeypatch):
    monkeypatch.setattr("relax_plugin.agent.training.AGENT_STEPS", 7)
    monkeypatch.setattr("relax_plugin.agent.explainer.SEARCH_STEPS", 4)
    monkeypatch.setattr(imagination, "EPOCHS", 3)
    monkeypatch.setattr(imagination, "SEARCH_EPOCHS", 2)
    seen, fit = [], world_model.WorldModel.fit
    monkeypatch.setattr(world_model.WorldModel, "fit", lambda self, *rows: (seen.append(rows[2]), fit(self, *rows))[1])
    _, model, rows, own = case(kind)
    config = replace(QUICK, steps=None, training="imagined" if kind == "labels only" else "auto", query_budget=1000)
    explainer = fitted(model, rows, **{"config": config, **own, **options})
    assert explainer.history_.frame()["step"].iloc[-1] == steps
    assert seen == epochs


@pytest.mark.slow
def test_how_long_is_decided_anew_at_every_fit(tmp_path):
    explainer = fitted(config=replace(QUICK, steps=None, episodes=8, updates_per_step=1))
    assert explainer.history_.frame()["step"].iloc[-1] == SEARCH_STEPS < AGENT_STEPS
    explainer.save(tmp_path / "agent")
    loaded = ReLAX.load(tmp_path / "agent", model=two_class_probabilities)
    for again in (explainer, loaded, clone(loaded)):
        again.set_params(effort="policy", progress=False, config=replace(again.config, patience=100)).fit(ROWS)
        assert again.history_.frame()["step"].iloc[-1] == AGENT_STEPS


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


# Which rows are asked


def moved_mixed(seed):
    rows = SPACE.values(MIXED)
    return rows, moved(rows, SPACE, Moves.quantiles(rows, SPACE, imagination.QUANTILES), np.random.default_rng(seed))


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_moved_rows_keep_every_constraint(seed):
    rows, result = moved_mixed(seed)
    changed = result != rows
    assert changed.sum(axis=1).max() <= 3
    for j, feature in enumerate(SPACE.features):
        now, before = result[changed[:, j], j], rows[changed[:, j], j]
        assert len(now) == 0 or feature.name != "birthplace"
        assert ((feature.low <= now) & (now <= feature.high)).all()
        assert feature.name not in ("grade", "years") or (now > before).all()
        assert feature.name != "single" or (now < before).all()
        if feature.kind == "categorical":
            assert set(now) <= set(np.flatnonzero(feature.choices))
        elif feature.name in ("tenths", "count", "years"):
            steps = (now - MIXED[feature.name].min()) / {"tenths": 0.25, "count": 2.0, "years": 1.0}[feature.name]
            np.testing.assert_allclose(steps, np.round(steps), atol=1e-9)


def test_moved_rows_differ_in_none_to_three_features_often_at_a_bound_and_again_so():
    (rows, one), (_, again), (_, other) = (moved_mixed(seed) for seed in (5, 5, 6))
    np.testing.assert_array_equal(one, again)
    assert (one != other).any() and (rows == SPACE.values(MIXED)).all()  # what is given stays as it is
    changed = one != rows
    assert set(changed.sum(axis=1)) == {0, 1, 2, 3}
    np.testing.assert_array_equal(changed.any(axis=0), [name != "birthplace" for name in SPACE.names])
    smooth = one[changed[:, 0], 0]
    assert (smooth == -3.0).any() and (smooth == 5.0).any() and np.abs(smooth - 1.0).min() < 1.0


@pytest.mark.slow
@pytest.mark.parametrize("rows", [0, 1, 7, 300, 1501])
@pytest.mark.parametrize("kind", ["scores", "ties", "labels only", "noise"])
def test_imagining_asks_no_more_rows_than_it_may_and_uses_what_is_known(kind, rows, hurried):
    model = case(kind)[0]
    world = imagined(model, rows)
    assert model.rows <= rows
    assert world.agreement.rows == 64 + model.rows // (2 if kind == "ties" else 1)


BATCHES = {two_class_probabilities: [ROUND], noise: [ROUND, ROUND, 200], two_class_labels: [2 * ROUND + 200]}


@pytest.mark.slow
@pytest.mark.parametrize("answer", BATCHES)
def test_one_round_if_good_enough_more_up_to_the_budget_if_not_and_labels_all_at_once(answer):
    model = Counting(answer)
    agreement = imagined(model, 2 * ROUND + 200).agreement
    assert [len(batch) for batch in model.seen] == BATCHES[answer]
    assert (agreement.explained < ENOUGH) == (answer is noise) and (agreement.labels > 0.9) == (answer is not noise)


# What training costs


@pytest.mark.slow
@pytest.mark.parametrize("budget", [200, 500, 1000, 4000])
@pytest.mark.parametrize("kind", KINDS)
def test_training_in_imagination_never_costs_more_than_its_budget(kind, budget, hurried):
    counter, model, rows, options = case(kind)
    explainer = fitted(model, rows, budget=budget, **options)
    assert explainer.fit_rows_ == counter.rows <= budget
    assert explainer.training_ == f"in imagination: {explainer.world_model_.agreement}"
    assert explainer.blackbox_.rows_per_question == (2 if kind == "ties" else 1)
    assert kind != "labels only" or explainer.fit_rows_ == budget  # nothing is left over where every row is needed
    counter.forget()
    if kind == "labels only":
        with pytest.raises(UnsupportedError, match="skipped because it needs scores, and the model answers labels"):
            SurrogateSearch(model, query_budget=budget).fit(rows)
    else:
        search = SurrogateSearch(model, query_budget=budget, **options).fit(rows)
        assert search.fit_rows_ == counter.rows <= budget
        assert search.world_model_.agreement.rows > budget // 4


PAPER = replace(ReLAXConfig.paper(), steps=10, episodes=48, batch=48, start_pool=256, hidden=24, validation_rows=32)


@pytest.mark.parametrize("options", [{"training": "model"}, {"config": PAPER}], ids=["asked for", "paper"])
def test_training_on_the_model_costs_every_step(options):
    model = Counting(two_class_probabilities)
    explainer = fitted(model, **options)
    assert explainer.fit_rows_ == model.rows > 256 + 10 * 48
    assert [len(batch) for batch in model.seen].count(48) == 10
    assert explainer.world_model_ is None and explainer.training_ == "on the model"


def test_an_easy_model_is_imagined_by_itself(caplog):
    with caplog.at_level(logging.WARNING):
        explainer = fitted(training="auto")
    assert explainer.world_model_.agreement.explained >= ENOUGH and explainer.fit_rows_ <= 1000
    assert explainer.training_ == f"in imagination: {explainer.world_model_.agreement}"
    assert not caplog.records


@pytest.mark.slow
def test_labels_alone_are_imagined_only_if_asked_for(caplog):
    asked = fitted(Counting(two_class_labels), training="imagined")
    assert asked.fit_rows_ == asked.model.rows == 1000  # a label tells little: the whole budget is asked
    assert asked.training_ == f"in imagination: {asked.world_model_.agreement}"
    assert asked.explain(QUERIES).found.mean() > 0.9
    by_itself = fitted(Counting(two_class_labels), training="auto")
    assert by_itself.world_model_ is None and by_itself.fit_rows_ == by_itself.model.rows
    assert by_itself.training_.startswith("on the model, which answers labels only")
    assert not caplog.records


@pytest.mark.slow
def test_a_model_that_cannot_be_imagined_is_trained_on_and_that_is_said(caplog):
    model = Counting(noise)
    with caplog.at_level(logging.WARNING):
        explainer = fitted(model, training="auto", budget=400)
    assert explainer.world_model_ is None
    assert explainer.training_.startswith("on the model, since a world model of it was not good enough: the same label")
    assert [record.getMessage() for record in caplog.records] == [f"training {explainer.training_}"]
    assert explainer.fit_rows_ == model.rows > 400 + 10 * QUICK.episodes
    assert fitted(noise, budget=400).world_model_.agreement.explained < ENOUGH  # who insists gets it


def test_bad_settings_are_refused_with_a_sentence():
    for budget in (0, 10, 199, 1.5, "many", None):
        with pytest.raises(InputError, match=r"^query_budget is .*, but must be a whole number from 200\.$"):
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
    if damaged:
        generator = torch.Generator().manual_seed(0)
        for weight in explainer.world_model_.network.parameters():
            weight.data.normal_(generator=generator)
    believed = explainer.world_model_.predict(QUERIES).argmax(axis=1)
    assert ((believed == two_class_labels(QUERIES)).mean() < 0.8) == damaged
    model.forget()
    found = explainer.explain(QUERIES)
    assert found.rows_queried.sum() == model.rows
    solved = found.found[:, 0]
    assert solved.mean() > (0.3 if damaged else 0.9)
    assert (two_class_labels(found.values[solved, 0]) != two_class_labels(QUERIES)[solved]).all()


@pytest.mark.slow
def test_constraints_of_the_call_hold_after_imagined_training(two_class):
    varied = two_class.explain(QUERIES, vary=["x0", "x3"])
    assert not (varied.values[:, 0] != QUERIES)[:, [1, 2]].any() and varied.found.mean() > 0.4
    bounded = two_class.explain(QUERIES, bounds={"x0": (-0.5, 0.5), "x1": (None, 0.2)})
    changed = bounded.values[:, 0] != QUERIES
    assert np.abs(bounded.values[:, 0, 0][changed[:, 0]]).max() <= 0.5 and bounded.found.mean() > 0.4
    assert bounded.values[:, 0, 1][changed[:, 1]].max() <= 0.2
    several = two_class.explain(QUERIES, n=3)
    assert several.found.all(axis=1).mean() > 0.8
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
def test_same_seed_same_world_same_answers(two_class):
    again, other = fitted(), fitted(seed=1)
    assert again.world_model_.agreement == two_class.world_model_.agreement != other.world_model_.agreement
    same_answers(two_class.explain(QUERIES, n=2), again.explain(QUERIES, n=2))


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_world_model_survives_saving(kind, tmp_path):
    _, model, rows, options = case(kind)
    explainer = fitted(model, rows, budget=500, **options)
    explainer.save(tmp_path / "agent")
    loaded = ReLAX.load(tmp_path / "agent", model=model)
    assert (loaded.training_, loaded.fit_rows_) == (explainer.training_, explainer.fit_rows_)
    np.testing.assert_equal(asdict(loaded.world_model_.agreement), asdict(explainer.world_model_.agreement))
    values = explainer.space_.values(rows)
    np.testing.assert_array_equal(loaded.world_model_.predict(values), explainer.world_model_.predict(values))
    same_answers(explainer.explain(rows[:20], n=2), loaded.explain(rows[:20], n=2))


@pytest.mark.slow
def test_a_file_without_a_world_model_is_read(tmp_path):
    explainer = fitted(training="model")
    explainer.save(tmp_path / "agent")
    loaded = ReLAX.load(tmp_path / "agent", model=two_class_probabilities)
    assert loaded.world_model_ is None and loaded.training_ == "on the model"
    same_answers(explainer.explain(QUERIES), loaded.explain(QUERIES))
