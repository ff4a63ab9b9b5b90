"""`nice`: the way from a query to its nearest unlike neighbour, one feature at a time, by a reward."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier

from relax_plugin import FeatureSpace, Goal, make_explainer
from relax_plugin.baselines import nice
from relax_plugin.baselines.nice import REWARDS, Nice
from relax_plugin.errors import InputError

RNG = np.random.default_rng(4)
ROWS = pd.DataFrame(
    {
        "a": RNG.normal(size=200),
        "b": RNG.normal(size=200) * 50,
        "c": RNG.normal(size=200),
        "letter": RNG.choice(list("uvw"), 200),
    }
)


def chance(rows: pd.DataFrame) -> Any:
    logit = rows["a"] + rows["b"] / 30 - rows["c"] + rows["letter"].map({"u": -1.0, "v": 0.0, "w": 1.0})
    chance = 1 / (1 + np.exp(-logit.to_numpy(float)))
    return np.column_stack([1 - chance, chance])


def nearest(query: Any) -> Any:
    """The nearest training row of the other class by HEOM, in a plain loop."""
    label, numbers = chance(query.to_frame().T.astype(ROWS.dtypes))[0].argmax(), ["a", "b", "c"]
    width = ROWS[numbers].max() - ROWS[numbers].min()
    best: tuple[float, Any] = (np.inf, None)
    for (_, row), answer in zip(ROWS.iterrows(), chance(ROWS).argmax(axis=1), strict=True):
        far = sum(abs(row[name] - query[name]) / width[name] for name in numbers) + (row["letter"] != query["letter"])
        if answer != label and far < best[0]:
            best = far, row
    return best[1]


def way(query: Any, reward: str) -> Any:
    """The paper's best-first search, in a plain loop."""
    target, here = nearest(query), query.copy()
    numbers = ["a", "b", "c"]
    width = ROWS[numbers].max() - ROWS[numbers].min()

    def ask(row: Any) -> Any:
        return chance(row.to_frame().T.astype(ROWS.dtypes))[0]

    label = ask(query).argmax()
    while ask(here).argmax() == label:
        best: tuple[float, Any] = (-np.inf, None)
        for name in [name for name in ROWS if here[name] != target[name]]:
            trial = here.copy()
            trial[name] = target[name]
            gain = ask(trial)[1 - label] - ask(here)[1 - label]
            if reward == "proximity":
                gain /= (1.0 if name == "letter" else abs(trial[name] - here[name]) / width[name]) + 1e-11
            if gain > best[0]:
                best = gain, trial
        here = best[1]
    return here


@pytest.mark.slow
@pytest.mark.parametrize("reward", ["none", "sparsity", "proximity"])
def test_side_by_side_equals_the_loop_of_the_paper(reward: str) -> None:
    queries = ROWS[:15]
    found = Nice(chance, reward=reward).fit(ROWS).explain(queries)
    assert found.found.all()
    for place, (_, query) in enumerate(queries.iterrows()):
        expected = nearest(query) if reward == "none" else way(query, reward)
        assert found.frame.iloc[place][list(ROWS)].tolist() == expected.tolist()


def test_changed_cells_are_those_of_one_training_row() -> None:
    found = Nice(chance).fit(ROWS).explain(ROWS[:30])
    for query, row in zip(ROWS[:30].to_numpy(), found.frame[list(ROWS)].to_numpy(), strict=True):
        changed = row != query
        assert (ROWS.to_numpy()[:, changed] == row[changed]).all(axis=1).any()


def test_rewards_are_what_they_are_called() -> None:
    found = {reward: Nice(chance, reward=reward).fit(ROWS).explain(ROWS[:60]) for reward in REWARDS}
    changes = {reward: np.nanmean(result.sparsity) for reward, result in found.items()}
    assert changes["sparsity"] == min(changes.values()) < changes["none"]
    distance = {
        reward: result.space.distance(result.values[:, 0], result.start).mean() for reward, result in found.items()
    }
    assert distance["proximity"] < distance["none"]


def test_the_error_of_the_autoencoder_is_larger_off_the_data() -> None:
    rows = pd.DataFrame({"a": RNG.normal(size=300)}).assign(b=lambda rows: rows["a"], c=lambda rows: -rows["a"])
    forest = RandomForestClassifier(5, random_state=0).fit(rows, rows["a"] > 0)
    network = Nice(forest, reward="plausibility").fit(rows).autoencoder_
    assert network is not None
    on, off = rows.to_numpy(), rows.assign(b=lambda rows: -rows["a"]).to_numpy()
    assert network.error(off[np.abs(on[:, 0]) > 1]).mean() > 5 * network.error(on).mean()


def test_further_neighbours_are_tried_where_the_first_is_of_no_use(monkeypatch: pytest.MonkeyPatch) -> None:
    explainer = Nice(chance, FeatureSpace.infer(ROWS, immutable=["a"])).fit(ROWS)
    found = explainer.explain(ROWS[:60], max_changes=1)
    assert np.nanmax(found.sparsity) == 1
    monkeypatch.setattr(nice, "ROUNDS", (1,))
    alone = explainer.explain(ROWS[:60], max_changes=1)
    assert (found.found >= alone.found).all()
    assert found.found.sum() > alone.found.sum()


def test_a_probability_or_a_range_is_a_goal_too() -> None:
    found = Nice(chance).fit(ROWS).explain(ROWS[:20], goal=Goal.to(1, min_probability=0.8))
    assert found.found.all()
    assert (chance(found.frame[list(ROWS)])[:, 1] >= 0.8).all()


def test_an_autoencoder_cannot_be_asked_for_after_the_fit() -> None:
    explainer = make_explainer("nice", chance).fit(ROWS)
    with pytest.raises(InputError, match="must be so when fit is called"):
        explainer.set_params(reward="plausibility").explain(ROWS[:2])
    with pytest.raises(InputError, match="reward is 'sparsty'; did you mean 'sparsity'"):
        make_explainer("nice", chance, reward="sparsty").fit(ROWS)
