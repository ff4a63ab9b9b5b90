"""Several counterfactuals a query: none contains another, nearly repeats it or has a change too many; or fewer."""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from reference.problems import ORIGIN, problem_of
from sklearn.ensemble import RandomForestClassifier
from sklearn.neural_network import MLPClassifier

from relax_plugin import Counterfactuals, FeatureSpace, ReLAXConfig, make_explainer
from relax_plugin.evaluation.metrics import redundancy
from relax_plugin.problem import Problem, Proposals
from relax_plugin.search.diverse import VISIBLE, Answer, Question, Search, fill_slots

RNG = np.random.default_rng(2)
ROWS = pd.DataFrame({"letter": RNG.choice(list("abc"), 60), "count": RNG.integers(1, 11, 60)})
MIXED = pd.DataFrame(
    {
        "a": RNG.normal(size=120),
        "b": RNG.integers(0, 20, 120),
        "c": RNG.normal(size=120).round(1),
        "letter": RNG.choice(list("uvwx"), 120),
        "owns": RNG.random(120) > 0.5,
    }
)
NUMBERS = pd.DataFrame(RNG.normal(size=(120, 5)), columns=list("abcde"))
SHORT = ReLAXConfig(
    steps=30, episodes=32, updates_per_step=1, hidden=16, start_pool=256, local_steps=5, local_episodes=4
)

# Every explainer that asks `fill_slots`, with little training, and what it can look into.
EXPLAINERS: dict[str, tuple[str, dict[str, Any]]] = {
    "greedy": ("mixed", {}),
    "move-table": ("mixed", {}),
    "random-order": ("mixed", {}),
    "surrogate-search": ("mixed", {"query_budget": 400}),
    "relax-global": ("mixed", {"config": SHORT, "progress": False}),
    "relax-local": ("mixed", {"config": SHORT, "progress": False}),
    "deepfool": ("network", {}),
    "grace": ("network", {}),
    "focus": ("forest", {"iterations": 200, "learning_rate": 0.1}),
    "mace": ("forest", {"seconds_per_row": 2.0}),
}
QUICK = ("greedy", "move-table", "deepfool")


def chance(rows: pd.DataFrame) -> np.ndarray:
    """Class 1 for 'b', and for 'c' with a count above four."""
    upper = (rows["letter"] == "b") | ((rows["letter"] == "c") & (rows["count"] > 4))
    return np.column_stack([~upper, upper]).astype(float)


def random_model(kind: str, seed: int) -> tuple[pd.DataFrame, Any]:
    """Rows, and a model of them that nobody has seen: it turns back here and there, and not all features matter."""
    rng = np.random.default_rng(seed)
    if kind != "mixed":
        labels = (NUMBERS.to_numpy() @ rng.normal(size=5) + np.sin(3 * NUMBERS["a"]) > 0).astype(int)
        network = MLPClassifier((8,), solver="lbfgs", max_iter=2000, random_state=seed)
        return NUMBERS, (network if kind == "network" else RandomForestClassifier(6, random_state=seed)).fit(
            NUMBERS, labels
        )
    weight, turns = rng.normal(size=5) * (rng.random(5) < 0.8), rng.normal(size=2)
    letters = dict(zip("uvwx", rng.normal(size=4), strict=True))

    def model(rows: pd.DataFrame) -> np.ndarray:
        a, b, c = rows["a"].to_numpy(), rows["b"].to_numpy() / 5 - 2, rows["c"].to_numpy()
        logit = weight[0] * a + weight[1] * b + weight[2] * c * turns[0] + turns[1] * np.sin(2 * a)
        logit = logit + weight[3] * rows["letter"].map(letters).to_numpy(float) + weight[4] * rows["owns"].to_numpy()
        upper = 1 / (1 + np.exp(-2 * logit))
        return np.column_stack([1 - upper, upper])

    return MIXED, model


def check_that_all_are_others(result: Counterfactuals, answers: Callable[[Any], Any]) -> None:
    """Of the answers to each query none contains another, is a near copy of it, or has a change too many."""
    space, start = result.space, result.start
    for query, found in enumerate(result.found):
        rows = result.values[query, found]
        changed, way = rows != start[query], np.sign(rows - start[query])
        for a, b in itertools.permutations(range(len(rows)), 2):
            if (changed[a] >= changed[b]).all():
                assert (changed[a] == changed[b]).all(), "one contains another"
                apart = space.distances(rows[a], rows[b]) >= VISIBLE - 1e-9
                assert (apart | (way[a] != way[b])).any(), "one is a near copy of another"
        assert (np.lexsort((space.distance(rows, start[query]), changed.sum(axis=1))) == np.arange(len(rows))).all()
    query, slot = np.nonzero(result.found)
    before = answers(result.queries)

    def meets(rows: Any, owner: Any) -> Any:
        return answers(space.restore(rows, result.queries.iloc[query[owner]])) != before[query[owner]]

    assert (redundancy(start[query], result.values[query, slot], meets) == 0).all(), "one has a change too many"


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", [pytest.param(n, marks=() if n in QUICK else pytest.mark.slow) for n in EXPLAINERS])
def test_of_no_query_does_one_answer_contain_another_or_nearly_repeat_it_or_change_too_much(
    name: str, seed: int
) -> None:
    kind, options = EXPLAINERS[name]
    rows, model = random_model(kind, seed)
    queries = rows[: 6 if name in ("mace", "relax-local") else 25]
    result = make_explainer(name, model, **options).fit(rows).explain(queries, n=5)
    check_that_all_are_others(result, model.predict if kind != "mixed" else lambda rows: model(rows).argmax(axis=1))
    assert result.found.sum() >= 1.5 * result.found[:, 0].sum() > 0, "several are found where there are several"
    assert (result.statuses[result.found] == "found").all()
    missing = ~result.found & result.found[:, :1]
    assert all("changes other features" in told for told in result.statuses[missing])


def test_categories_of_one_feature_are_different_answers() -> None:
    """With 'a' or with 'c' a count of 3 is of class 0, and no count is with 'b': these two are all there are."""
    queries = pd.DataFrame({"letter": list("bb"), "count": [3, 9]})
    result = make_explainer("greedy", chance).fit(ROWS).explain(queries, n=14)
    assert result.found.sum(axis=1).tolist() == [2, 1]
    assert set(result.frame["letter"][:2]) == {"a", "c"}
    assert (result.frame["count"] == [3, 3, 9]).all()


@pytest.mark.parametrize("name", ["greedy", "move-table"])
def test_further_ones_keep_every_constraint(name: str) -> None:
    space = FeatureSpace.infer(ROWS, increase_only=["count"], bounds={"letter": ["a", "c"]})
    queries = pd.DataFrame({"letter": list("bbb"), "count": [2, 3, 8]})
    result = make_explainer(name, chance, space, max_changes=2).fit(ROWS).explain(queries, n=8)
    frame = result.frame
    assert (frame["count"].to_numpy() >= queries["count"].to_numpy()[frame["query_id"]]).all()
    assert set(frame["letter"]) <= {"a", "c"}
    assert result.found.sum(axis=1).tolist() == [2, 2, 1]


def test_a_number_may_go_either_way_but_not_further_than_is_needed() -> None:
    """From 5 on, and from -5 down, the goal is met; 6 and -7 are no other answers than 5 and -5."""
    rows = np.tile(np.arange(-10, 11)[:, None], 3)
    result = make_explainer("greedy", far_from_zero, max_changes=1).fit(rows).explain(np.zeros((1, 3)), n=6)
    assert result.found.sum() == 2
    assert sorted(result.values[0, :2, 0]) == [-5, 5]
    assert (result.values[0, :, 1:] == 0).all()


def far_from_zero(rows: np.ndarray) -> np.ndarray:
    far = np.clip(np.abs(rows[:, 0]) / 10, 0, 1)
    return np.column_stack([1 - far, far + 1e-9])


def known(
    wanted: list[list[float]], needed: int = 1
) -> tuple[Problem, Callable[[Problem], Proposals], list[list[int]]]:
    """A problem that asks for so many changes, a solver that offers the first of these rows, and what was frozen."""
    problem = problem_of(lambda x: (x > 0).sum(axis=1) / needed, ORIGIN)
    frozen: list[list[int]] = []

    def solve(part: Problem) -> Proposals:
        made = Proposals.empty(part, 1)
        frozen.append(np.flatnonzero(np.broadcast_to(part.limits.frozen, part.start.shape)[0]).tolist())
        for row in wanted:
            if part.limits.kept(np.array([row]), part.start)[0]:
                made.values[0, 0], made.offered[0, 0], made.stage[0, 0] = row, True, "known"
                break
        return made

    return problem, solve, frozen


def test_features_are_frozen_in_turn_the_largest_change_first_and_few_before_many() -> None:
    problem, solve, frozen = known([[0, 3, 7], [5, 3, 0], [5, 0, 7]], needed=2)
    made = fill_slots(problem, 4, solve)
    assert frozen[:3] == [[], [2], [1]]  # without the 7, then without the 3: that rules out both
    assert made.values[0, :3].tolist() == [[5, 3, 0], [0, 3, 7], [5, 0, 7]]  # the closest first
    assert made.offered[0].tolist() == [True, True, True, False]
    assert made.stage[0].tolist() == ["known"] * 3 + [""]


def test_of_the_same_features_other_values_are_another_answer_if_one_can_see_it() -> None:
    """The numbers have a standard deviation of 5: 6 is too like 7, and 1 is not."""
    problem, solve, _ = known([[7, 3, 0], [6, 4, 0], [1, 9.5, 0]], needed=2)
    made = fill_slots(problem, 3, solve)
    assert made.values[0, made.offered[0]].tolist() == [[7, 3, 0], [1, 9.5, 0]]


def test_what_is_not_needed_is_undone_before_answers_are_compared() -> None:
    problem, solve, frozen = known([[5, 7, 3], [5, 0, 0]])
    made = fill_slots(problem, 2, solve)
    assert made.values[0].tolist() == [[0, 0, 3], [5, 0, 0]]  # of three changes any one would do
    assert frozen == [[], [2]]


def test_an_answer_goes_when_one_is_found_that_it_contains() -> None:
    search = Search(3)
    search.add(Answer(np.array([2.0, 1.0, 0.0]), (0, 1), 3.0, ""))
    assert search.question() == Question(frozenset({0}))
    search.add(Answer(np.array([0.0, 4.0, 0.0]), (1,), 4.0, ""))
    assert [answer.features for answer in search.answers] == [(1,)]
    assert search.question() == Question(frozenset({1}))


def test_nothing_is_asked_twice_nor_with_more_frozen_where_nothing_was_found() -> None:
    search = Search(4)
    search.add(Answer(np.array([2.0, 1.0, 0.0, 0.0]), (0, 1), 3.0, ""))
    search.give_up(Question(frozenset({0})))
    search.add(Answer(np.array([3.0, 0.0, 3.0, 0.0]), (0, 2), 6.0, ""))  # without 1; one of its own must go as well
    asked = []
    while (question := search.question()) is not None:
        asked.append((sorted(question.frozen), question.feature, question.unlike))
        search.give_up(question)
    further = [([2, 3], 0, (2.0,)), ([2, 3], 1, (1.0,)), ([1, 3], 0, (3.0,)), ([1, 3], 2, (3.0,))]
    assert asked == [([1, 2], None, ()), *further]  # and not [0, 1]


def test_a_single_one_is_the_solvers_own() -> None:
    problem, solve, _ = known([[5, 7, 3]])
    assert fill_slots(problem, 1, solve).values[0].tolist() == [[5, 7, 3]]
    assert problem.spent.sum() == 0


def test_the_first_may_cost_more_than_further_ones() -> None:
    problem, solve, frozen = known([[5, 0, 0], [0, 7, 0]])
    made = fill_slots(problem, 3, solve, further=lambda part: Proposals.empty(part, 1))
    assert made.offered[0].tolist() == [True, False, False] and frozen == [[]]


@pytest.mark.slow
def test_two_thousand_counterfactuals_are_asked_for_and_the_call_ends() -> None:
    rows = pd.DataFrame(np.random.default_rng(0).normal(0, 1, (80, 4)).round(3), columns=list("abcd"))

    def above(asked: pd.DataFrame) -> np.ndarray:
        chance = 1 / (1 + np.exp(-2 * (asked["a"] + asked["b"]).to_numpy()))
        return np.column_stack([1 - chance, chance])

    result = make_explainer("greedy", above).fit(rows).explain(rows[:3], n=2000)
    assert result.found.shape == (3, 2000) and result.found.sum(axis=1).min() >= 2
    check_that_all_are_others(result, lambda rows: above(rows).argmax(axis=1))
