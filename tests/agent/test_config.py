"""The settings: each within its range, refused by a sentence otherwise, and as the paper has them."""

from dataclasses import asdict, fields

import numpy as np
import pytest
from reference.tiny import QUICK

from relax_plugin import ReLAXConfig
from relax_plugin.agent.config import PAPER_LAMBDA, PAPER_RADIUS
from relax_plugin.datasets import load
from relax_plugin.errors import InputError

INVALID = [
    {"actions": "sideways"},
    {"steps": 0},
    {"steps": 2.5},
    {"steps": "60"},
    {"batch": 0},
    {"hidden": -3},
    {"learning_rate": -1e-3},
    {"discount": 1.5},
    {"discount": float("nan")},
    {"discount": "high"},
    {"made_share": -2.0},
    {"exploration_start": 1.2},
    {"masked_share": -0.1},
    {"made_share": 2.0},
    {"distance_weight": None},
    {"state_curiosity": float("inf")},
    {"hidden": 10**6},
    {"local_updates": 10**400},
    {"steps": 10**400},
    {"query_budget": 199},
    {"training": "asleep"},
    {"demonstrations": -1},
    {"balanced": 1},
]


@pytest.mark.parametrize("setting", INVALID, ids=str)
def test_invalid_settings_are_refused_with_a_sentence(setting):
    (name,) = setting
    with pytest.raises(InputError, match=rf"^{name} is .*\.$"):
        ReLAXConfig(**setting)


def test_every_default_is_valid_and_survives_a_round_trip():
    for config in (ReLAXConfig(), ReLAXConfig.paper(), QUICK):
        assert ReLAXConfig(**asdict(config)) == config
    assert ReLAXConfig(state_curiosity=-1.0, action_curiosity=-1.0, shaping=0.0)


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [("discount", 0, 1), ("steps_of_return", 1, 100), ("hidden", 1, 100_000), ("local_updates", 1, 1_000)],
)
def test_the_ends_of_a_range_are_accepted_and_what_lies_beyond_is_not(name, low, high):
    for end, beyond in ((low, low - 1), (high, high + 1)):
        assert getattr(ReLAXConfig(**{name: end}), name) == end
        with pytest.raises(InputError, match=rf"^{name} is {beyond}, but must be .*\.$"):
            ReLAXConfig(**{name: beyond})


def test_the_docstring_tells_every_setting():
    for setting in fields(ReLAXConfig):
        assert f"\n{setting.name} : " in ReLAXConfig.__doc__ and setting.metadata["about"].endswith(".")


@pytest.mark.parametrize("scaled", [False, True])
def test_the_papers_lambda_is_a_tenth_per_unit_of_unit_vectors(scaled):
    """On Sonar, as it comes and scaled to [0, 1]: the paper does not say which of them is normalised."""
    rows = load("sonar").X.to_numpy(dtype=float)
    rows = (rows - rows.min(axis=0)) / np.ptp(rows, axis=0) if scaled else rows
    deviation = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).std(axis=0).mean()
    assert 0.1 * deviation == pytest.approx(PAPER_LAMBDA, rel=0.2)
    assert ReLAXConfig.paper().distance_weight == PAPER_LAMBDA
    assert 1.0 / deviation == pytest.approx(PAPER_RADIUS, rel=0.2)
    assert ReLAXConfig.paper().local_radius == PAPER_RADIUS
