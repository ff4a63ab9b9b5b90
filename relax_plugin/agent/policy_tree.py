"""PolicyTree: what a trained agent does, as a small decision tree, and how often it says the same as the agent."""

import html
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from sklearn.tree import DecisionTreeClassifier

from relax_plugin.agent.policy import AgentRanker
from relax_plugin.arrays import Array, Booleans, Floats, Integers
from relax_plugin.base import fitted, whole_number
from relax_plugin.blackbox import BlackBox
from relax_plugin.errors import GoalError, InputError, NotFittedError
from relax_plugin.features import Rows
from relax_plugin.formatting import six_digits
from relax_plugin.goal import Goal
from relax_plugin.search.state import Episodes, Observer, Ranker

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from relax_plugin.agent.explainer import ReLAX

DEPTH = 3  # questions one after the other: eight ends are read in a minute
MOST_STARTS = 2_000  # rows from which the policy is followed
MOST_CELLS = 20_000_000  # of all states on the way: bounds the memory for wide tables
MOST_ROWS = 2_000  # that may be asked of the model, where there is no surrogate model
LEAST_STARTS = 10  # of which some are set aside
HELD_OUT = 0.3  # share of the rows that are
LEAST_DECISIONS = 5  # at an end of the tree


@dataclass(frozen=True)
class Node:
    """What the policy does mostly in some states; with a question that tells them apart, if there is one."""

    action: str  # "raise income", "set contract to fixed"
    amount: str  # how far: the medians over the states where it does so; "" for a category
    share: float  # of the decisions in these states that are this action
    decisions: int
    question: str = ""
    yes: "Node | None" = None
    no: "Node | None" = None

    @property
    def branches(self) -> tuple[tuple[str, "Node"], ...]:
        """The answers to the question and what follows from them; none at an end."""
        return () if self.yes is None or self.no is None else (("yes", self.yes), ("no", self.no))

    @property
    def told(self) -> str:
        return self.action + self.amount

    @property
    def support(self) -> str:
        return f"{self.share:.0%} of {self.decisions} decisions"


@dataclass(frozen=True)
class PolicyTree:
    """A trained policy as a small decision tree: which feature it changes next, in which direction, and how far.

    Attributes
    ----------
    root : Node
    fidelity : float
        Share of the decisions from rows set aside in which the tree names the action that the policy takes.
    most_common : str
        The action that the policy takes most often.
    baseline : float
        Share of the same decisions that are this action: what a tree without a question would reach.
    held_out : int
        How many decisions these are.
    starts : int
        Rows from which the policy was followed, those set aside included.
    reached : float
        Share of them from which the policy meets the goal, by the answers it was followed with.
    rows : int
        Model evaluations for it: none where the policy is followed on a surrogate model.
    """

    root: Node
    fidelity: float
    most_common: str
    baseline: float
    held_out: int
    starts: int
    reached: float
    rows: int

    def to_text(self) -> str:
        """The tree with a line for each question and each end, and what it is worth."""
        return "\n".join([*self._worth(), "", *_lines(self.root)])

    __str__ = to_text

    def _worth(self) -> list[str]:
        followed = f"on the model ({self.rows} evaluations)" if self.rows else "on the surrogate model"
        return [
            f"The policy, followed from {self.starts} rows {followed}: it meets the goal from {self.reached:.0%}.",
            f"The tree names the policy's next action in {self.fidelity:.0%} of {self.held_out} decisions "
            f'from rows set aside; always "{self.most_common}" would in {self.baseline:.0%}.',
            "How far: the medians where the policy acts so.",
        ]

    def _repr_html_(self) -> str:
        return f"<pre class='policy-tree'>{html.escape(self.to_text())}</pre>"

    def plot(self, ax: "Axes | None" = None) -> "Figure":
        """The tree from left to right, drawn into `ax` if there is one."""
        from relax_plugin.pages.diagrams import policy_tree_picture

        title = f'fidelity {self.fidelity:.0%} on rows set aside; always "{self.most_common}": {self.baseline:.0%}'
        return policy_tree_picture(self.root, title, ax)


def explained_policy(explainer: "ReLAX", X: Rows | None, goal: Goal | None, depth: int) -> PolicyTree:
    """The tree of an explainer's trained policy; see `ReLAX.policy_tree`."""
    fitted(explainer)
    depth = whole_number("depth", depth, 1)
    if explainer.variant == "local" and not explainer.config_.pretrained:
        raise NotFittedError("with pretrained=False each row has an agent of its own; fit with variant='global'.")
    if not explainer.history_.rows:
        raise NotFittedError(f"there is no policy to explain: {explainer.training_}.")
    values = explainer.answered_.neighbours.rows if X is None else explainer.space_.values(X)
    if len(values) == 0:
        raise InputError(
            "the saved explainer holds no training rows (training_rows=False); give policy_tree(X) some rows."
        )
    goal = explainer.wanted_goal(goal)
    if not isinstance(goal, Goal):
        raise GoalError(f"goal is {goal!r}; give a Goal, such as Goal.to({goal!r}).")
    if goal.rows is not None:
        what = "label" if goal.kind == "to" else "range"
        raise InputError(
            f"the goal has a {what} for each query; give policy_tree(goal=Goal.{goal.kind}(...)) one {what}."
        )
    rng, most = np.random.default_rng(int(explainer.seed)), explainer._most_changes()
    count = min(MOST_STARTS, MOST_CELLS // (len(explainer.space_) * most))
    world: BlackBox
    if explainer.surrogate_ is None:
        world = explainer.blackbox_.for_call()
        count = min(count, MOST_ROWS // (world.rows_per_question * (1 + most)))
    else:
        from relax_plugin.surrogate.model import SurrogateBlackBox

        world = SurrogateBlackBox(explainer.surrogate_)
    values = values[rng.permutation(len(values))[: max(count, LEAST_STARTS)]]
    answer = world.ask(values)
    goals = goal.bind(world, answer)
    open_ = np.flatnonzero(~goals.met(answer))
    limits = explainer.space_.limits()
    episodes = Episodes.begin(values[open_], answer.take(open_), goals.take(open_), limits, most)
    ranker = AgentRanker(explainer.agent_, explainer.observer_)
    asked = None if explainer.surrogate_ is None else 0
    return distilled(ranker, explainer.observer_, world, episodes, depth, rng, asked)


def distilled(
    ranker: Ranker,
    observer: Observer,
    blackbox: BlackBox,
    starts: Episodes,
    depth: int,
    rng: np.random.Generator,
    asked: int | None = None,
) -> PolicyTree:
    """The tree of what the best of a ranking of actions does from these starts; some are set aside for its fidelity.

    `asked` are the model evaluations, where the black box is not the model.
    """
    made, questions = followed(ranker, observer, blackbox, starts), questions_of(observer, starts)
    deciding = rng.permutation(np.unique(made.start))
    if len(deciding) < LEAST_STARTS:
        raise InputError(
            f"the policy has something to decide in {len(deciding)} rows, those that miss the goal and may change; "
            f"a tree needs at least {LEAST_STARTS}."
        )
    aside = np.isin(made.start, deciding[: int(HELD_OUT * len(deciding))])
    grown, rest = made.take(~aside), made.take(aside)
    tree = DecisionTreeClassifier(max_depth=depth, min_samples_leaf=LEAST_DECISIONS, random_state=0)
    tree.fit(grown.inputs, grown.action)
    actions, frequency = np.unique(grown.action, return_counts=True)
    most_common = str(actions[frequency.argmax()])
    return PolicyTree(
        root=_node(tree, questions, grown, 0),
        fidelity=float((tree.predict(rest.inputs) == rest.action).mean()),
        most_common=most_common,
        baseline=float((rest.action == most_common).mean()),
        held_out=len(rest.start),
        starts=len(starts.start),
        reached=float(made.met.sum() / len(starts.start)),
        rows=blackbox.rows_asked if asked is None else asked,
    )


class Decisions(NamedTuple):
    """What a policy did, decision by decision: in which state, and what came of it."""

    start: Integers  # position of the row the episode began from
    inputs: Floats  # of the state, a column for each question
    action: Array  # in words
    move: Floats  # the new value less the old
    to: Floats  # the new value
    met: Booleans  # whether it meets the goal

    def take(self, index: Any) -> "Decisions":
        return Decisions(*(column[index] for column in self))


def followed(ranker: Ranker, observer: Observer, blackbox: BlackBox, starts: Episodes) -> Decisions:
    """All decisions on the ways from these starts."""
    state, start, made = starts, np.arange(len(starts.start)), []
    while True:
        able = observer.allowed(state).any(axis=1) & (state.left > 0)
        state, start = state.take(able), start[able]
        values, magnitudes = ranker.rank(state)
        rows, taken = np.arange(len(start)), values.argmax(axis=1)
        after = observer.advance(state, taken, magnitudes[rows, taken], blackbox)
        feature = observer.actions.feature[taken]
        to = after.values[rows, feature]
        move, met = to - state.values[rows, feature], after.goal.met(after.answer)
        inputs = np.column_stack([question.column for question in questions_of(observer, state)])
        made.append(Decisions(start, inputs, in_words(observer, taken, move), move, to, met))
        state, start = after.take(~met), start[~met]
        if len(start) == 0:
            return Decisions(*(np.concatenate(column) for column in zip(*made, strict=True)))


def in_words(observer: Observer, taken: Integers, move: Floats) -> Array:
    """What was done: "raise income", "lower debt", "set contract to fixed"."""
    actions, features = observer.actions, observer.space.features
    words = np.empty(len(taken), dtype=object)
    for row, (action, up) in enumerate(zip(taken, move > 0, strict=True)):
        feature, category = features[actions.feature[action]], actions.category[action]
        numeric = f"{'raise' if up else 'lower'} {feature.name}"
        words[row] = numeric if category < 0 else f"set {feature.name} to {feature.categories[category]}"
    return words


class Question(NamedTuple):
    """What a tree may ask of a state: whether a fact holds (0 or 1), or whether a number is at most so large."""

    text: str
    fact: bool
    column: Floats


def questions_of(observer: Observer, state: Episodes) -> list[Question]:
    """What may be asked of these states, and the answers: of numbers in their own units."""
    space, changed, blackbox, answer = observer.space, state.values != state.start, state.goal.blackbox, state.answer
    asked = [Question(f"{name} was changed", True, changed[:, j]) for j, name in enumerate(space.names)]
    asked.append(Question("the number of changes so far", False, changed.sum(axis=1)))
    for feature, values in zip(space.features, state.values.T, strict=True):
        if feature.kind == "categorical":
            names = enumerate(feature.categories)
            asked += [Question(f"{feature.name} is {name}", True, values == code) for code, name in names]
        else:
            asked.append(Question(str(feature.name), False, values))
    if blackbox.classes is None:
        asked.append(Question("the prediction", False, answer.output))
    else:
        labels = enumerate(blackbox.classes)
        asked += [Question(f"the answer is {label}", True, answer.output == code) for code, label in labels]
    if blackbox.has_probabilities and state.goal.wanted is not None and answer.scores is not None:
        asked.append(Question("the goal's probability", False, (state.goal.wanted * answer.scores).sum(axis=1)))
    elif blackbox.has_scores:
        asked.append(Question("what is missing to the goal", False, state.goal.gap(answer)))
    return asked


def _node(tree: DecisionTreeClassifier, questions: list[Question], made: Decisions, at: int) -> Node:
    """The fitted tree from one of its nodes on; questions that make no difference to the action are left out."""
    fitted_tree = tree.tree_
    here = made.take(tree.decision_path(made.inputs).tocsc()[:, at].indices)
    action = str(tree.classes_[fitted_tree.value[at, 0].argmax()])
    such = here.take(here.action == action)
    move, to = (np.quantile(column, 0.5, method="inverted_cdf") for column in (such.move, such.to))
    amount = "" if action.startswith("set ") else f" by {six_digits(abs(move))}, to {six_digits(to)}"
    end = Node(action, amount, len(such.start) / len(here.start), len(here.start))
    if fitted_tree.children_left[at] < 0:
        return end
    branches = (fitted_tree.children_left[at], fitted_tree.children_right[at])
    low, high = (_node(tree, questions, made, int(child)) for child in branches)
    if not low.branches and not high.branches and low.action == high.action:
        return end
    question = questions[fitted_tree.feature[at]]
    if question.fact:
        return replace(end, question=question.text, yes=high, no=low)
    limit = six_digits(float(fitted_tree.threshold[at]))
    return replace(end, question=f"{question.text} at most {limit}", yes=low, no=high)


def _lines(node: Node) -> Iterator[str]:
    yield node.question + "?" if node.branches else f"{node.told} ({node.support})"
    for answer, branch in node.branches:
        first, *others = _lines(branch)
        yield f"{answer:>3}: {first}"
        bar = "|" if answer == "yes" else " "
        yield from (f"  {bar}  {line}" for line in others)
