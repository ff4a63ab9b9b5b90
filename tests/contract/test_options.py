"""Every option of every explainer: a wrong value is refused by a sentence, before anything is done with it."""

import inspect
from functools import cache
from typing import Any

import numpy as np
import pytest
from reference.every_explainer import ON_TREES
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression

from relax_plugin import CounterfactualExplainer, ReLAXConfig, list_explainers
from relax_plugin.errors import InputError
from relax_plugin.formatting import plain_scalars
from relax_plugin.registry import explainer_class

RNG = np.random.default_rng(2)
ROWS = RNG.normal(size=(80, 3))
LABELS = ROWS[:, 0] + ROWS[:, 1] > 0
FOREST = RandomForestClassifier(5, max_depth=3, random_state=0).fit(ROWS, LABELS)
LINEAR = LogisticRegression().fit(ROWS, LABELS)

SMALL = ReLAXConfig(steps=2, episodes=8, updates_per_step=1, hidden=8, start_pool=64, local_steps=2, local_episodes=2)
QUICK: dict[str, dict[str, Any]] = {
    "relax-global": {"config": SMALL, "progress": False},
    "relax-local": {"config": SMALL, "progress": False},
    "dice-random": {"sample_size": 50},
    "lore": {"population": 40, "generations": 2},
    "focus": {"iterations": 10, "learning_rate": 0.2},
    "growing-spheres": {"samples": 20},
    "wachter": {"steps": 10},
    "cfrl": {"steps": 10, "tries": 20},
    "fastar": {"steps": 2_000, "tries": 4},
}

NAN, INF, PAIR = float("nan"), float("inf"), np.array([1, 2])
WRONG: dict[type, list[Any]] = {
    bool: [None, 0, 1, 2.0, NAN, "yes", "", [], PAIR],
    int: [None, True, -3, 2.5, NAN, INF, -INF, "many", "", 1j, [3], PAIR, np.float64(1.5), np.bool_(True)],
    float: [None, True, -1, -0.5, NAN, INF, -INF, 1e300, 10**400, "much", "", 1j, [], (), ["a"], np.float32("nan")],
    str: [None, True, 3, NAN, "", "no such word", ["distance"], PAIR],
    object: [True, 3, NAN, "no such thing", [], PAIR],
}
ZERO_IS_FINE = {"gamma", "seed", "seconds", "sparsity_weight"}
NONE_IS_FINE = {"max_changes", "max_queries", "seconds", "goal", "space", "config"}
HUGE = (10**7, 10**30, 10**400)


def kind_of(option: str, default: Any) -> type:
    """What an option takes, told by its default."""
    if option in ("max_changes", "max_queries"):
        return int
    if option == "seconds":
        return float
    if default is None:
        return object
    return float if isinstance(default, tuple) else type(default)


def options_of(name: str) -> dict[str, type]:
    signature = inspect.signature(explainer_class(name)[0].__init__)
    return {
        option: kind_of(option, parameter.default)
        for option, parameter in signature.parameters.items()
        if option not in ("self", "model") and parameter.kind is not parameter.VAR_KEYWORD
    }


def wrong_values(option: str, kind: type) -> list[Any]:
    values = [value for value in WRONG[kind] if value is not None or option not in NONE_IS_FINE]
    if option == "also":  # no further model is fine
        values = [value for value in values if not (isinstance(value, list | tuple) and not value)]
    return values + ([0] if kind in (int, float) and option not in ZERO_IS_FINE else [])


EVERY_OPTION = [(name, option, kind) for name in list_explainers() for option, kind in options_of(name).items()]
every_option = pytest.mark.parametrize(
    ("name", "option", "kind"), EVERY_OPTION, ids=[f"{name}-{option}" for name, option, _ in EVERY_OPTION]
)
counts = pytest.mark.parametrize(
    ("name", "option"), [(name, option) for name, option, kind in EVERY_OPTION if kind is int], ids=str
)


def make(name: str, **options: Any) -> CounterfactualExplainer:
    explainer, fixed = explainer_class(name)
    return explainer(FOREST if name in ON_TREES else LINEAR, **{**fixed, **QUICK.get(name, {}), **options})


@cache
def fitted(name: str) -> CounterfactualExplainer:
    return make(name).fit(ROWS)


def assert_names(error: InputError, option: str, value: Any) -> None:
    """The sentence says which option, what it is, and what would be accepted."""
    sentence = str(error)
    assert option in sentence
    assert plain_scalars(repr(value)) in sentence or type(value).__name__ in sentence
    assert any(words in sentence for words in ("must be", "accepted are", "is needed", "known are", "did you mean"))
    assert sentence.endswith((".", "?"))


@pytest.mark.slow
@every_option
def test_a_wrong_value_is_refused_by_fit_and_again_by_explain(name: str, option: str, kind: type) -> None:
    explainer = fitted(name)
    right = explainer.get_params(deep=False)[option]
    for value in wrong_values(option, kind):
        with pytest.raises(InputError) as refused:
            make(name, **{option: value}).fit(ROWS)
        assert_names(refused.value, option, value)
        explainer.set_params(**{option: value})
        try:
            with pytest.raises(InputError) as refused:
                explainer.explain(ROWS[:2])
        finally:
            explainer.set_params(**{option: right})
        assert_names(refused.value, option, value)
    assert explainer.explain(ROWS[:2]).found.shape == (2, 1), "and once it is right again, it explains as before"


@pytest.mark.slow
@counts
def test_a_huge_count_is_refused_or_does_no_harm(name: str, option: str) -> None:
    for value in HUGE:
        try:
            result = make(name, **{option: value}).fit(ROWS).explain(ROWS[:2])
        except InputError as error:
            assert_names(error, option, value)
        else:
            assert result.found.any()


@pytest.mark.slow
@counts
def test_a_whole_number_may_be_written_as_a_float_or_by_numpy(name: str, option: str) -> None:
    right = make(name).get_params(deep=False)[option]
    right = {"max_queries": 50}.get(option, 2) if right is None else right
    expected = make(name, **{option: right}).fit(ROWS).explain(ROWS[:2])
    for value in (float(right), np.int32(right), np.float64(right)):
        result = make(name, **{option: value}).fit(ROWS).explain(ROWS[:2])
        np.testing.assert_array_equal(result.values, expected.values)


def test_the_list_of_options_is_not_empty() -> None:
    assert len(EVERY_OPTION) > 5 * len(list_explainers())
    assert {kind for _, _, kind in EVERY_OPTION} == {bool, int, float, str, object}
