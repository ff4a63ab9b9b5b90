"""The tree of a policy: a known rule is found again, fidelity is that of rows set aside, and the control stands by."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from reference import tiny
from reference.tiny import QUICK, Counting, gaussian_rows, two_class_labels, two_class_probabilities

from relax_plugin import BlackBox, FeatureSpace, Goal, ReLAX, ReLAXConfig
from relax_plugin.agent.policy_tree import MOST_ROWS, PolicyTree, distilled
from relax_plugin.errors import InputError, NotFittedError
from relax_plugin.search.actions import ActionTable
from relax_plugin.search.state import Episodes, Observer

RNG = np.random.default_rng(5)
LOANS = pd.DataFrame(
    {
        "income": RNG.integers(10, 90, 400),
        "debt": RNG.uniform(0.0, 20.0, 400).round(1),
        "contract": RNG.choice(["fixed", "temporary"], 400),
    }
)
SMALL = replace(QUICK, steps=6)


def granted(rows: pd.DataFrame) -> np.ndarray:
    """Granted from an income of 60 on, with a fixed contract and little debt."""
    good = (rows["income"] >= 60) & (rows["debt"] <= 5) & (rows["contract"] == "fixed")
    return np.column_stack([1 - 0.9 * good, 0.9 * good]).astype(np.float64)


class Rule:
    """A contract first; then less debt, all the way, if it is above 5; then most of the way to the highest income."""

    def __init__(self, observer: Observer) -> None:
        self.observer = observer

    def choose(self, values: Any) -> Any:
        return np.where(values[:, 2] == 1, 4, np.where(values[:, 1] > 5, 3, 0))

    def rank(self, episodes: Episodes) -> tuple[Any, Any]:
        allowed = self.observer.allowed(episodes)
        value = np.where(allowed, 0.0, -np.inf)
        value[np.arange(len(value)), self.choose(episodes.values)] += 1.0
        return value, np.where(self.observer.actions.sign > 0, 0.8, 1.0) * np.ones_like(value)


class Whim(Rule):
    """A policy without a rule."""

    def rank(self, episodes: Episodes) -> tuple[Any, Any]:
        allowed = self.observer.allowed(episodes)
        value = np.random.default_rng(len(allowed)).random(allowed.shape)
        return np.where(allowed, value, -np.inf), np.ones(allowed.shape)


def distilled_from(rule: type[Rule], rows: pd.DataFrame = LOANS, depth: int = 3, changes: int = 3) -> PolicyTree:
    space = FeatureSpace.infer(rows)
    blackbox = BlackBox(granted, space)
    values = space.values(rows)
    answer = blackbox.learn(values)
    refused = np.flatnonzero(answer.output == 0)
    goal = Goal.to(1).bind(blackbox, answer)
    starts = Episodes.begin(values[refused], answer.take(refused), goal.take(refused), space.limits(), changes)
    observer = Observer(space, ActionTable(space), changes, 1.0)
    return distilled(rule(observer), observer, blackbox, starts, depth, np.random.default_rng(0))


def relax(model: Any = two_class_probabilities, rows: Any = None, config: ReLAXConfig = SMALL, **options: Any) -> ReLAX:
    options = {"max_changes": 3, "effort": "policy", **options}
    return ReLAX(model, config=config, progress=False, **options).fit(gaussian_rows() if rows is None else rows)


@pytest.fixture(scope="module")
def on_a_surrogate() -> tuple[Counting, ReLAX]:
    model = Counting(two_class_probabilities)
    return model, relax(model, max_queries=20)


# What the tree says.


def test_a_known_rule_is_found_again() -> None:
    tree = distilled_from(Rule)
    assert tree.fidelity > 0.97
    contract = tree.root
    assert contract.question in ("contract is temporary", "contract is fixed")
    first, then = (contract.yes, contract.no) if "temporary" in contract.question else (contract.no, contract.yes)
    assert first is not None and then is not None and then.yes is not None and then.no is not None
    assert (first.told, first.share) == ("set contract to fixed", 1.0)
    name, _, limit = then.question.partition(" at most ")
    assert name == "debt" and 4.5 < float(limit) < 5.5
    assert then.no.action == "lower debt" and then.no.told.endswith("to 0")
    assert then.yes.action == "raise income"


def test_how_far_is_the_median_of_what_was_done() -> None:
    incomes = [20] * 60 + [30] * 30 + [70] * 10  # 80% of the way to 70 leads to 60 and 62
    rows = LOANS[:100].assign(contract=["fixed"] * 99 + ["temporary"], debt=1.0, income=incomes)
    assert distilled_from(Rule, rows).root.told == "raise income by 40, to 60"


def test_what_has_no_rule_has_no_fidelity_on_rows_set_aside() -> None:
    """On the rows it was grown from, a tree that is deep enough would repeat anything."""
    tree = distilled_from(Whim, depth=12, changes=1)

    def repeated(node: Any) -> float:
        return sum(repeated(branch) for _, branch in node.branches) or node.share * node.decisions

    assert repeated(tree.root) / tree.root.decisions > 0.4
    assert tree.fidelity < tree.baseline + 0.1


def test_the_control_is_always_the_most_common_action() -> None:
    tree = distilled_from(Rule)
    assert tree.most_common in ("set contract to fixed", "lower debt", "raise income")
    assert 1 / 3 < tree.baseline < tree.fidelity
    assert f'always "{tree.most_common}" would in {tree.baseline:.0%}' in str(tree)


def test_questions_that_make_no_difference_are_left_out() -> None:
    tree = distilled_from(Rule, depth=8)

    def check(node: Any) -> set[str]:
        below = [check(branch) for _, branch in node.branches]
        assert len(below) == 0 or any(len(one) > 1 for one in below) or below[0] != below[1]
        return set().union(*below) if below else {node.action}

    assert len(check(tree.root)) == 3


# Of a trained agent.


@pytest.mark.slow
def test_on_a_surrogate_model_the_model_is_not_asked(on_a_surrogate: tuple[Counting, ReLAX]) -> None:
    model, explainer = on_a_surrogate
    assert explainer.surrogate_ is not None
    model.forget()
    tree = explainer.policy_tree()
    assert model.rows == tree.rows == 0
    assert "on the surrogate model" in str(tree)
    assert 100 < tree.starts <= len(gaussian_rows()) and 20 < tree.held_out < tree.starts * 3


def test_on_the_model_the_rows_are_few_and_said() -> None:
    model = Counting(two_class_probabilities)
    explainer = relax(model, gaussian_rows(1500), SMALL)
    model.forget()
    tree = explainer.policy_tree()
    assert tree.rows == model.rows <= MOST_ROWS
    assert f"on the model ({tree.rows} evaluations)" in str(tree)
    assert explainer.fit_rows_ > 0


@pytest.mark.slow
def test_the_tree_names_what_the_agent_does_next(on_a_surrogate: tuple[Counting, ReLAX]) -> None:
    """Followed by hand from the rows handed in, where one change is all there may be."""
    _, explainer = on_a_surrogate
    rows = gaussian_rows(60, seed=3)
    one = ReLAX(two_class_probabilities, effort="policy", max_changes=1, config=SMALL, progress=False).fit(rows)
    tree, found = one.policy_tree(rows), one.explain(rows)
    assert tree.starts == len(rows)
    moves = found.values[:, 0] - found.start
    directions = [(name, sign) for row in moves for name, sign in zip(found.space.names, np.sign(row), strict=True)]
    done = {f"{'raise' if sign > 0 else 'lower'} {name}" for name, sign in directions if sign}

    def actions(node: Any) -> set[str]:
        return {node.action}.union(*(actions(branch) for _, branch in node.branches))

    assert actions(tree.root) <= done
    assert explainer.policy_tree(rows).starts == len(rows)


@pytest.mark.slow
def test_same_seed_same_tree(on_a_surrogate: tuple[Counting, ReLAX]) -> None:
    _, explainer = on_a_surrogate
    assert explainer.policy_tree() == explainer.policy_tree()
    assert relax(max_queries=20).policy_tree() == explainer.policy_tree()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "goal", "config"),
    [
        (tiny.mixed_probabilities, None, SMALL),
        (tiny.mixed_probabilities, Goal.to(2), replace(SMALL, actions="signed")),
        (tiny.mixed_labels, None, SMALL),
    ],
)
def test_categories_several_classes_and_labels(model: Any, goal: Goal | None, config: ReLAXConfig) -> None:
    rows = tiny.mixed_rows()
    tree = relax(model, rows, config, space=tiny.mixed_space(rows), goal=goal).policy_tree(depth=4)
    assert 0.0 <= tree.baseline <= 1.0 and 0.0 <= tree.fidelity <= 1.0
    assert "birthplace was" not in str(tree) and "set birthplace" not in str(tree)
    assert set(str(tree.root.action).split()[:1]) <= {"raise", "lower", "set"}


@pytest.mark.slow
def test_a_regressor_has_a_tree_too() -> None:
    regressor = BlackBox(tiny.numbers, task="regression")
    tree = relax(regressor, goal=Goal.shift(1.5), config=replace(SMALL, steps=15)).policy_tree(depth=5)
    assert tree.reached > 0.2 and tree.held_out > 20
    assert "the answer is" not in str(tree)


@pytest.mark.slow
def test_a_goal_of_the_call_takes_the_place_of_the_explainers() -> None:
    explainer = relax(tiny.three_class_probabilities)
    everyone, some = explainer.policy_tree(), explainer.policy_tree(goal=Goal.to(1))
    assert some.starts < everyone.starts
    with pytest.raises(InputError, match="no class 7"):
        explainer.policy_tree(goal=Goal.to(7))


# What is refused.


@pytest.mark.slow
def test_an_explainer_without_a_policy_says_how_to_get_one(tmp_path: Any) -> None:
    with pytest.raises(NotFittedError, match="not fitted"):
        ReLAX(two_class_probabilities).policy_tree()
    with pytest.warns(UserWarning, match="nothing can be learned"):
        constant = relax(lambda rows: np.tile([0.7, 0.3], (len(rows), 1)))
    with pytest.raises(NotFittedError, match="there is no policy to explain: no agent was trained"):
        constant.policy_tree()
    scratch = replace(SMALL, pretrained=False)
    with pytest.raises(NotFittedError, match="an agent of its own"):
        relax(config=scratch, variant="local").policy_tree()


@pytest.mark.slow
def test_local_has_the_tree_of_the_agent_its_agents_begin_with(on_a_surrogate: tuple[Counting, ReLAX]) -> None:
    assert relax(variant="local", max_queries=20).policy_tree() == on_a_surrogate[1].policy_tree()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"depth": 0}, "depth is 0, but must be a whole number of at least 1"),
        ({"X": gaussian_rows(4)}, "in [0-4] rows, .* at least 10"),
        ({"goal": Goal.to([0, 1])}, "one label"),
        ({"goal": 1}, r"goal is 1; give a Goal, such as Goal.to\(1\)"),
        ({"X": gaussian_rows(40)[:, :1] + np.array([9.0, -9.0, 9.0, -9.0]), "goal": Goal.to(1)}, "decide in 0 rows"),
    ],
)
def test_bad_input_gets_a_sentence(on_a_surrogate: tuple[Counting, ReLAX], options: Any, told: str) -> None:
    with pytest.raises(InputError, match=told):
        on_a_surrogate[1].policy_tree(**options)


def test_a_loaded_explainer_has_the_same_tree(on_a_surrogate: tuple[Counting, ReLAX], tmp_path: Any) -> None:
    model, explainer = on_a_surrogate
    explainer.save(tmp_path / "relax.safetensors")
    again = ReLAX.load(tmp_path / "relax.safetensors", model=model)
    assert again.policy_tree() == explainer.policy_tree()


@pytest.mark.slow
def test_a_file_without_training_rows_asks_for_some(tmp_path: Any) -> None:
    explainer = relax(two_class_labels, config=SMALL)
    explainer.save(tmp_path / "relax.safetensors", training_rows=False)
    again = ReLAX.load(tmp_path / "relax.safetensors", model=two_class_labels)
    with pytest.raises(InputError, match=r"holds no training rows .* give policy_tree\(X\)"):
        again.policy_tree()
    rows = gaussian_rows(50)
    assert again.policy_tree(rows) == explainer.policy_tree(rows)


# How it looks.


@pytest.mark.slow
def test_text_picture_and_html_tell_the_same() -> None:
    hostile = LOANS.rename(columns={"income": "<b>in$come$"})

    def renamed(rows: pd.DataFrame) -> np.ndarray:
        return granted(rows.rename(columns={"<b>in$come$": "income"}))

    tree = relax(renamed, hostile, goal=Goal.to(1)).policy_tree()
    figure = tree.plot()
    drawn = " ".join(text.get_text().replace("\n", " ") for text in figure.axes[0].texts)
    assert f"{tree.fidelity:.0%}" in figure.axes[0].get_title()
    assert "<b>" not in tree._repr_html_()

    def check(node: Any) -> None:
        told = f"{node.question}?" if node.branches else node.told
        assert told in drawn and told in str(tree)
        for _, branch in node.branches:
            check(branch)

    check(tree.root)
    assert tree.to_text() == str(tree)


def test_a_tree_is_drawn_where_it_is_told_to() -> None:
    axes = Figure().subplots()
    figure = distilled_from(Rule).plot(ax=axes)
    assert figure is axes.figure and len(axes.texts) > 5
