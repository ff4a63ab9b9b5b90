"""One fitted explainer on many threads: the same answers and the same counts as one call after the other."""

import random
import sys
import threading
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from reference import tiny
from reference.every_explainer import ON_NETWORKS, ON_TREES, every_explainer
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression

from relax_plugin import CounterfactualExplainer, Counterfactuals, Goal, make_explainer

THREADS = 8
ROUNDS = 2
QUICK: dict[str, dict[str, Any]] = {
    "relax-global": {"config": tiny.QUICK, "progress": False},
    "relax-local": {"config": tiny.QUICK, "progress": False},
    "dice-random": {"sample_size": 100},
    "lore": {"population": 80, "generations": 3},
    "focus": {"iterations": 30, "learning_rate": 0.2},
    "cfrl": {"steps": 60},
    "fastar": {"steps": 4_000, "tries": 3},
    "mace": {"seconds_per_row": 600.0},  # a limit that is reached would make the answer depend on the machine
}

RNG = np.random.default_rng(5)
ROWS = pd.DataFrame(RNG.normal(size=(120, 4)), columns=["a", "b", "c", "d"])
LABELS = (ROWS["a"] + ROWS["b"] * ROWS["c"] > 0).to_numpy()


class Reseeding:
    """A model that turns the global generators over whenever it is asked, as a careless `predict` may."""

    def __init__(self, model: Any, seed: int) -> None:
        self.model, self.seed, self.classes_ = model, seed, model.classes_

    def predict_proba(self, rows: Any) -> Any:
        self.turn_over()
        return self.model.predict_proba(rows)

    def predict(self, rows: Any) -> Any:
        self.turn_over()
        return self.model.predict(rows)

    def turn_over(self) -> None:
        np.random.seed(self.seed)  # noqa: NPY002
        random.seed(self.seed)
        torch.manual_seed(self.seed)


class Dropping(torch.nn.Module):
    """A network left in training mode: wherever it is asked without being switched, dropout makes its answer random."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.inner, self.outer = torch.nn.Linear(4, 16), torch.nn.Linear(16, 2)
        for weights in self.parameters():
            weights.data = torch.randn(weights.shape, generator=generator)
        self.dropout = torch.nn.Dropout(0.5)
        self.train()

    def forward(self, rows: torch.Tensor) -> Any:
        return self.outer(self.dropout(torch.tanh(self.inner(rows))))


@cache
def model_for(name: str) -> Any:
    if name in ON_TREES:
        return RandomForestClassifier(6, max_depth=3, random_state=0).fit(ROWS.to_numpy(), LABELS)
    if name in ON_NETWORKS:
        return Dropping()
    return LogisticRegression().fit(ROWS.to_numpy(), LABELS)


@cache
def fitted(name: str) -> CounterfactualExplainer:
    return make_explainer(name, model_for(name), max_changes=3, **QUICK.get(name, {})).fit(ROWS.to_numpy())


@pytest.fixture
def hurried_switches() -> Iterator[None]:
    """Threads are switched a thousand times as often as usual, so that what is shared shows."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(5e-6)
    yield
    sys.setswitchinterval(before)


def calls(explainer: CounterfactualExplainer) -> list[Callable[[], Counterfactuals]]:
    """A different call for each thread: other rows, other numbers of counterfactuals, other goals and limits."""
    rows = ROWS.to_numpy()
    return [
        lambda: explainer.explain(rows[0:3]),
        lambda: explainer.explain(rows[3:5], n=2),
        lambda: explainer.explain(rows[5:8], vary=["x0", "x1"]),
        lambda: explainer.explain(rows[8:11], goal=Goal.to(explainer.blackbox_.classes[1])),
        lambda: explainer.explain(rows[11:14], bounds={"x2": (-0.5, 0.5)}),
        lambda: explainer.explain(rows[0:3]),
        lambda: explainer.explain(rows[14:16], n=2),
        lambda: explainer.explain(rows[16:17]),
    ]


def all_at_once(work: list[Callable[[], Any]]) -> list[Any]:
    """What each call gives when all begin together, each on its own thread."""
    results: list[Any] = [None] * len(work)
    start = threading.Barrier(len(work))

    def run(position: int) -> None:
        start.wait()
        try:
            results[position] = work[position]()
        except BaseException as error:
            results[position] = error

    threads = [threading.Thread(target=run, args=(position,)) for position in range(len(work))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return results


def assert_same(first: Counterfactuals, second: Counterfactuals) -> None:
    pd.testing.assert_frame_equal(first.frame, second.frame, check_exact=True)
    np.testing.assert_array_equal(first.found, second.found)
    np.testing.assert_array_equal(first.status, second.status)
    np.testing.assert_array_equal(first.stage, second.stage)
    np.testing.assert_array_equal(first.rows_queried, second.rows_queried)


@pytest.mark.slow
@pytest.mark.usefixtures("hurried_switches")
@every_explainer
def test_threads_give_the_answers_and_the_counts_of_one_call_after_the_other(name: str) -> None:
    explainer = fitted(name)
    serially = [call() for call in calls(explainer)]
    assert any(result.found.any() for result in serially)
    for _ in range(ROUNDS):
        for alone, together in zip(serially, all_at_once(calls(explainer)), strict=True):
            assert_same(alone, together)


@pytest.fixture
def torch_gets_its_threads_back() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.slow
@pytest.mark.usefixtures("torch_gets_its_threads_back")
@every_explainer
def test_explaining_on_threads_leaves_the_process_as_it_was(name: str) -> None:
    explainer = fitted(name)
    np.random.seed(7)  # noqa: NPY002
    random.seed(7)
    numpy_before, random_before, torch_before = np.random.get_state(), random.getstate(), torch.get_rng_state()  # noqa: NPY002
    output = sys.stdout
    torch.set_num_threads(2)
    all_at_once(calls(explainer))
    numpy_after = np.random.get_state()  # noqa: NPY002
    assert (numpy_before[1] == numpy_after[1]).all()
    assert numpy_before[2:] == numpy_after[2:]
    assert random_before == random.getstate()
    assert torch.equal(torch_before, torch.get_rng_state())
    assert (torch.get_num_threads(), sys.stdout) == (2, output)
    if isinstance(model_for(name), torch.nn.Module):
        assert all(part.training for part in model_for(name).modules())


@pytest.mark.slow
@pytest.mark.usefixtures("hurried_switches")
@pytest.mark.parametrize("name", ["deepfool", "grace"])
def test_rows_through_the_network_are_counted_on_all_threads(name: str) -> None:
    network = fitted(name).network_  # type: ignore[attr-defined]
    before = network.spent
    for call in calls(fitted(name)):
        call()
    serially, before = network.spent - before, network.spent
    all_at_once(calls(fitted(name)))
    assert network.spent - before == serially


@pytest.mark.slow
@every_explainer
def test_a_model_that_reseeds_the_global_generators_changes_no_answer(name: str) -> None:
    if name in (*ON_TREES, *ON_NETWORKS):
        pytest.skip("it looks inside the model, and a wrapped one has no inside")
    model, rows = model_for(name), ROWS.to_numpy()
    options = {"max_changes": 3, **QUICK.get(name, {})}
    plain = fitted(name).explain(rows[:4], n=2)
    for seed in (1, 2):
        reseeded = make_explainer(name, Reseeding(model, seed), **options).fit(rows).explain(rows[:4], n=2)
        assert_same(plain, reseeded)
