"""Training (Algorithm 1): every ingredient counts, budgets hold, and nothing outside is touched."""

import random
import warnings
from dataclasses import fields, replace

import matplotlib.figure
import numpy as np
import pytest
import torch
from reference import tiny
from reference.tiny import QUICK, Counting, gaussian_rows, two_class_labels, two_class_probabilities

from relax_plugin import BlackBox, FeatureSpace, Goal, ReLAX, ReLAXConfig
from relax_plugin.agent.environment import CounterfactualEnv
from relax_plugin.agent.history import History, Returns
from relax_plugin.agent.pdqn import Agent
from relax_plugin.agent.starts import draw_starts, random_limits
from relax_plugin.agent.training import train
from relax_plugin.errors import InputError, ModelError
from relax_plugin.search.actions import ActionTable
from relax_plugin.search.state import Observer

ROWS = gaussian_rows()
QUICK = replace(QUICK, training="model")  # here it is the model itself that is asked at every step
SHORT = replace(QUICK, steps=12, validate_every=4)
EVERYTHING = replace(SHORT, steps_of_return=2, shaping=3.0, state_curiosity=0.1, action_curiosity=0.1)


def fitted(config=SHORT, model=two_class_probabilities, rows=ROWS, seed=0, **options):
    options = {"max_changes": 3, "effort": "policy", **options}
    return ReLAX(model, config=config, seed=seed, progress=False, **options).fit(rows)


def weights_of(explainer):
    return explainer.agent_.weights


def equal(one, other):
    return all(one[name].shape == other[name].shape and (one[name] == other[name]).all() for name in one)


# Every ingredient of the paper, and of ours.

INGREDIENTS = {
    "n-step returns": {"steps_of_return": 1},
    "prioritised replay": {"priority_exponent": 0.0},
    "shaping": {"shaping": 0.0},
    "state curiosity": {"state_curiosity": 0.0},
    "action curiosity": {"action_curiosity": 0.0},
    "random masks": {"masked_share": 0.0},
    "random bounds": {"bounded_share": 0.0},
    "made starts": {"made_share": 0.0},
    "demonstrations": {"demonstrations": 0},
    "first updates": {"first_updates": 1},
    "self-imitation": {"imitate_every": 100},
    "directional actions": {"actions": "signed"},
    "distance in the reward": {"distance_weight": 0.0},
    "exploration": {"exploration_start": 0.0, "exploration_end": 0.0},
    "discount": {"discount": 0.0},
}


@pytest.fixture(scope="module")
def with_everything():
    return fitted(EVERYTHING)


@pytest.mark.slow
@pytest.mark.parametrize("ingredient", INGREDIENTS)
def test_an_ingredient_switched_off_changes_what_is_learned(with_everything, ingredient):
    without = fitted(replace(EVERYTHING, **INGREDIENTS[ingredient]))
    assert not equal(weights_of(with_everything), weights_of(without))
    assert len(without.history_.rows) == 3
    assert without.explain(ROWS[:5]).found.shape == (5, 1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "off"),
    [("pdqn.PARAMETER_NOISE", 0.0), ("pdqn.TARGET_RATE", 1.0), ("replay.IMPORTANCE", 0.0), ("replay.BONUS", 0.0)],
)
def test_a_number_switched_off_changes_what_is_learned(with_everything, monkeypatch, number, off):
    monkeypatch.setattr(f"relax_plugin.agent.{number}", off)
    assert not equal(weights_of(with_everything), weights_of(fitted(EVERYTHING)))


@pytest.mark.slow
def test_same_seed_same_weights(with_everything):
    again, other = fitted(EVERYTHING), fitted(EVERYTHING, seed=1)
    assert equal(weights_of(with_everything), weights_of(again))
    assert not equal(weights_of(with_everything), weights_of(other))
    kept = [name for name in again.history_.rows[0] if name != "seconds"]
    assert again.history_.frame()[kept].equals(with_everything.history_.frame()[kept])


@pytest.mark.slow
def test_training_earns_its_keep():
    """A trained agent solves unseen rows that the same agent untrained does not."""
    unseen = gaussian_rows(seed=9)
    untrained = fitted(replace(QUICK, learning_rate=0.0), max_changes=2).explain(unseen).found.mean()
    trained = fitted(replace(QUICK, steps=60), max_changes=2).explain(unseen).found.mean()
    assert trained > 0.85
    assert trained > untrained + 0.1


def test_the_letter_of_the_paper_trains_and_runs():
    paper = ReLAXConfig.paper()
    assert (paper.actions, paper.shaping, paper.state_curiosity, paper.action_curiosity) == ("signed", 0.0, 1.0, -1.0)
    assert paper.made_share == paper.masked_share == paper.bounded_share == paper.demonstrations == 0
    assert paper.training == "model"
    small = {field.name: getattr(SHORT, field.name) for field in fields(SHORT) if field.type is int}
    small |= {"steps_of_return": paper.steps_of_return, "demonstrations": 0}
    explainer = fitted(replace(paper, **small))
    assert len(explainer.observer_.actions) == ROWS.shape[1]
    found = explainer.explain(ROWS[:20])
    assert (found.after[found.found] != found.before[found.found[:, 0]]).all()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "goal"),
    [
        (two_class_labels, None),
        (tiny.three_class_probabilities, Goal.to(2)),
        (BlackBox(tiny.numbers, task="regression"), Goal.shift(2.0)),
        (BlackBox(tiny.numbers, task="regression"), Goal.between(3.0, 9.0)),
    ],
    ids=["labels only", "targeted", "shift", "range"],
)
def test_every_kind_of_goal_is_learned(model, goal):
    explainer = fitted(replace(QUICK, steps=60), model, goal=goal)
    assert explainer.history_.frame()["validity"].max() > 0.6
    assert explainer.explain(gaussian_rows(seed=5)).found.mean() > 0.6


@pytest.mark.slow
def test_mixed_features_are_learned():
    rows = tiny.mixed_rows()
    explainer = fitted(replace(QUICK, steps=40), tiny.mixed_probabilities, rows, space=tiny.mixed_space(rows))
    assert explainer.history_.frame()["validity"].max() > 0.5


# Budgets and ends of training.


def test_the_budget_of_steps_is_one_model_call_a_step():
    model = Counting(two_class_probabilities)
    explainer = fitted(replace(SHORT, steps=9, validate_every=4, demonstrations=0), model)
    assert [len(rows) for rows in model.seen].count(SHORT.episodes) == 9
    assert explainer.history_.stopped == "all steps done"
    assert [row["step"] for row in explainer.history_.rows] == [4, 8, 9]
    assert explainer.history_.frame()["rows"].iloc[-1] == explainer.fit_rows_ == model.rows


class ScriptedValidation:
    """Says how good the agent is in turn, and remembers its weights at each validation."""

    def __init__(self, agent, objectives):
        self.agent, self.objectives, self.weights = agent, objectives, []

    def __call__(self):
        if len(self.weights) == len(self.objectives):
            raise KeyboardInterrupt
        self.weights.append(self.agent.copied_weights())
        return {"validity": 0.5, "objective": self.objectives[len(self.weights) - 1]}


@pytest.mark.slow
@pytest.mark.parametrize("steps", [20, 21, 40])  # to the end, and interrupted at the sixth validation
def test_the_weights_of_the_best_validation_are_kept(steps):
    values, config = gaussian_rows(), replace(SHORT, steps=steps, validate_every=4)
    space = FeatureSpace.infer(values)
    blackbox = BlackBox(two_class_probabilities, space)
    blackbox.learn(values)
    rng = np.random.default_rng(0)
    starts = draw_starts(values, blackbox, Goal.flip(), 2, config, rng)
    observer = Observer(space, ActionTable(space), 2, 1.0)
    env = CounterfactualEnv(starts, observer, blackbox, config, 48)
    agent = Agent(env.single_observation_space.shape[0], observer, config, seed=0)
    validation = ScriptedValidation(agent, [0.1, 0.8, 0.9, 0.3, 0.9])
    history = train(env, agent, config, rng, validation)
    assert history.stopped == ("all steps done" if steps == 20 else "interrupted")
    assert [row["objective"] for row in history.rows] == validation.objectives
    assert [equal(agent.policy.weights, weights) for weights in validation.weights] == [
        False,
        False,
        True,
        False,
        False,
    ]


class Interrupting:
    """A model whose user presses Ctrl-C during one of its calls."""

    def __init__(self, at):
        self.at, self.calls = at, 0

    def __call__(self, rows):
        self.calls += 1
        if self.calls == self.at:
            raise KeyboardInterrupt
        return two_class_probabilities(rows)


@pytest.mark.slow
@pytest.mark.parametrize("at", [18, 60])
def test_interrupted_training_leaves_a_usable_explainer(at, caplog):
    """Before the first validation, and after some."""
    config = replace(QUICK, steps=200, validate_every=4)
    interrupting = Interrupting(at)
    explainer = fitted(config, interrupting, effort="search")
    assert explainer.history_.stopped == "interrupted"
    assert bool(explainer.history_.rows) == (at == 60)
    assert "interrupted" in caplog.text
    found = explainer.explain(ROWS[:20])
    assert found.found.mean() > 0.8


def test_interrupting_before_training_is_not_swallowed():
    with pytest.raises(KeyboardInterrupt):
        fitted(QUICK, Interrupting(1))


def test_history_is_a_frame_and_a_page():
    history = fitted().history_
    frame = history.frame()
    recorded = {"step", "seconds", "rows", "exploration", "reward", "return", "td_error", "top_tenth"}
    assert recorded | {"validity", "sparsity", "proximity", "objective"} == set(frame)
    assert frame["step"].is_monotonic_increasing and frame["rows"].is_monotonic_increasing
    assert frame["validity"].dropna().between(0.0, 1.0).all()
    figure = history.plot()
    assert isinstance(figure, matplotlib.figure.Figure)
    panels = {axes.get_title(): axes.lines[0].get_ydata() for axes in figure.axes}
    shown = {"return of an episode, exploring": "return", "validity, validation rows": "validity"}
    shown |= {"features changed, if valid": "sparsity", "exploration ε": "exploration"}
    shown |= {"mean |TD error| of a batch": "td_error", "draws of the top 10% priorities": "top_tenth"}
    assert list(panels) == list(shown)
    for title, name in shown.items():
        np.testing.assert_array_equal(panels[title], frame[name].dropna())


def test_the_page_says_why_training_ended_and_marks_the_validation_that_was_kept():
    history = History([{"step": 10 * i, "validity": 0.5, "objective": o} for i, o in enumerate((0.1, 0.8, 0.8, 0.3))])
    history.stopped = "no improvement on the validation rows"
    figure = history.plot()
    (axes,) = figure.axes  # what was not recorded, as in files of older versions, has no panel
    assert axes.get_title() == "validity, validation rows"
    marked = [line for line in axes.lines if line.get_linestyle() == "--"]
    assert [line.get_xdata()[0] for line in marked] == [10]  # the first of the best, as Best keeps it
    assert "step 30: no improvement on the validation rows" in figure.get_suptitle()
    assert "the agent of step 10" in figure.get_suptitle()
    with pytest.raises(InputError, match="no validation took place"):
        History().plot()


def test_the_return_is_the_reward_of_the_paper_added_up_over_each_episode():
    returns = Returns(3)
    returns.add(np.array([-0.1, -0.2, 1.0]), np.array([False, False, True]))
    returns.add(np.array([0.9, -0.3, -0.5]), np.array([True, False, False]))
    assert returns.mean() == pytest.approx((1.0 + 0.8) / 2)
    assert np.isnan(returns.mean())  # none ended since
    returns.add(np.array([0.0, 1.0, 0.7]), np.array([False, True, True]))
    assert returns.mean() == pytest.approx((0.5 + 0.2) / 2)


def test_returns_of_training_are_at_most_those_of_winning_at_once():
    free = fitted(replace(SHORT, distance_weight=0.0, shaping=5.0, state_curiosity=1.0)).history_.frame()
    assert free["return"].dropna().between(0.0, 1.0).all()  # no shaping, no curiosity: 1 if won, else 0
    dear = fitted(replace(SHORT, distance_weight=50.0)).history_.frame()
    assert (dear["return"].dropna() < 0.0).all() and dear["return"].notna().sum() == 3


def test_validation_rows_are_never_starts():
    """The rows that choose the weights are set aside: no start of training equals one of them."""
    model = Counting(two_class_probabilities)
    config = replace(SHORT, made_share=0.0)
    fitted(config, model)
    batches = [{tuple(row) for row in seen} for seen in model.seen]
    known = {tuple(row) for row in ROWS}
    at, pool = next((at, batch) for at, batch in enumerate(batches) if 100 < len(batch) < 200 and batch <= known)
    checks = next(batch for batch in batches[at + 1 :] if len(batch) == config.validation_rows and batch <= known)
    assert not pool & checks


def test_a_goal_that_every_validation_row_meets_still_trains():
    model = BlackBox(tiny.numbers, task="regression")
    rows = ROWS[np.abs(tiny.numbers(ROWS)) < 2.0]
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        explainer = fitted(SHORT, model, rows, goal=Goal.between(-2.0, 2.0))
    assert explainer.history_.stopped == "all steps done"


# What is outside stays as it is.


@pytest.mark.slow
def test_no_global_random_state_is_touched():
    states = random.getstate(), np.random.get_state()[1].copy(), torch.get_rng_state()  # noqa: NPY002
    explainer = fitted(EVERYTHING, variant="local", effort="search")
    explainer.explain(ROWS[:3], n=2)
    assert random.getstate() == states[0]
    assert (np.random.get_state()[1] == states[1]).all()  # noqa: NPY002
    assert torch.equal(torch.get_rng_state(), states[2])


def test_the_global_seed_does_not_matter():
    np.random.seed(1)  # noqa: NPY002
    torch.manual_seed(1)
    one = fitted()
    np.random.seed(2)  # noqa: NPY002
    torch.manual_seed(2)
    assert equal(weights_of(one), weights_of(fitted()))


def test_the_number_of_torch_threads_is_given_back():
    before = torch.get_num_threads()
    during = set()

    def model(rows):
        during.add(torch.get_num_threads())
        return two_class_probabilities(rows)

    class Breaking:
        calls = 0

        def __call__(self, rows):
            self.calls += 1
            if self.calls > 8:
                raise RuntimeError("broken")
            return two_class_probabilities(rows)

    try:
        torch.set_num_threads(2)
        fitted(SHORT, model).explain(ROWS[:3])
        assert torch.get_num_threads() == 2
        assert 1 in during
        with pytest.raises(ModelError, match="broken"):
            fitted(SHORT, Breaking())
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


# Starts


def test_starts_are_balanced_over_classes():
    def rare(rows):
        return (np.asarray(rows)[:, 0] > 1.6).astype(int)  # one row in twenty

    values = gaussian_rows(400)
    space = FeatureSpace.infer(values)
    blackbox = BlackBox(rare, space)
    assert blackbox.learn(values).output.mean() < 0.1
    starts = draw_starts(values, blackbox, Goal.flip(), 3, replace(QUICK, start_pool=2000), np.random.default_rng(0))
    assert 0.45 < starts.answer.output.mean() < 0.55
    np.testing.assert_array_equal(starts.answer.output, rare(starts.start))
    assert not starts.goal.met(starts.answer).any()


def test_starts_lie_within_the_space():
    rows = tiny.mixed_rows()
    space = tiny.mixed_space(rows)
    blackbox = BlackBox(tiny.mixed_probabilities, space)
    values = space.values(rows)
    blackbox.learn(values)
    starts = draw_starts(values, blackbox, Goal.flip(), 3, QUICK, np.random.default_rng(0)).start
    own = {tuple(row) for row in values}
    made = np.array([row for row in starts if tuple(row) not in own])
    assert len(made) > 100
    limits = space.limits()
    assert (made >= limits.low).all() and (made <= limits.high).all()
    numbers_ = ~space.is_categorical
    np.testing.assert_array_equal(made[:, numbers_], limits.round_to_grid(made)[:, numbers_])


def test_without_mixture_starts_are_training_rows():
    config = replace(QUICK, made_share=0.0)
    space = FeatureSpace.infer(ROWS)
    blackbox = BlackBox(two_class_probabilities, space)
    blackbox.learn(ROWS)
    starts = draw_starts(ROWS, blackbox, Goal.flip(), 3, config, np.random.default_rng(0)).start
    assert {tuple(row) for row in starts} <= {tuple(row) for row in ROWS}


def test_several_classes_are_trained_targeted_and_untargeted():
    space = FeatureSpace.infer(ROWS)
    blackbox = BlackBox(tiny.three_class_probabilities, space)
    blackbox.learn(ROWS)
    starts = draw_starts(ROWS, blackbox, Goal.flip(), 3, QUICK, np.random.default_rng(0))
    wanted = starts.goal.wanted.sum(axis=1)
    assert set(wanted) == {1, 2}
    assert 0.2 < (wanted == 1).mean() < 0.7
    assert not starts.goal.wanted[np.arange(len(wanted)), starts.answer.output.astype(int)].any()


def test_random_masks_leave_something_free(monkeypatch):
    rows = tiny.mixed_rows()
    space = tiny.mixed_space(rows)
    monkeypatch.setattr("relax_plugin.agent.starts.MASK_RATE", 1.0)
    config = replace(QUICK, masked_share=1.0, bounded_share=1.0)
    start = np.repeat(space.values(rows), 20, axis=0)
    limits = random_limits(space, start, config, np.random.default_rng(0))
    immutable = space.limits().frozen[0]
    assert (~limits.frozen).any(axis=1).all()
    assert limits.frozen[:, immutable].all()
    assert 0.3 < limits.frozen[:, ~immutable].mean() < 0.7
    narrowed = limits.low > space.limits().low
    assert 0.2 < narrowed[:, ~space.is_categorical].mean() < 0.8


def test_no_masks_when_they_are_switched_off():
    space = FeatureSpace.infer(ROWS)
    limits = random_limits(space, ROWS, replace(QUICK, masked_share=0.0, bounded_share=0.0), np.random.default_rng(0))
    assert not limits.frozen.any()
    assert (limits.low == space.limits().low).all() and (limits.high == space.limits().high).all()
