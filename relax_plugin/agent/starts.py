"""Starts of training episodes: rows like the training rows, balanced over classes, under random constraints."""

from dataclasses import replace
from typing import Any

import numpy as np

from relax_plugin.agent.config import ReLAXConfig
from relax_plugin.arrays import Booleans, Values
from relax_plugin.blackbox import Answer, BlackBox, answered
from relax_plugin.features import FeatureSpace
from relax_plugin.goal import Goal
from relax_plugin.limits import Limits
from relax_plugin.search.goals import random_goals
from relax_plugin.search.state import Episodes

GAUSSIAN = 0.25  # share of mixtures that are Gaussian instead
NOISE = 0.3  # standard deviations

MASK_RATE = 0.8  # highest share of features frozen, or narrowed, in one start


def draw_starts(
    values: Values,
    blackbox: BlackBox,
    goal: Goal | None,
    max_changes: int,
    config: ReLAXConfig,
    rng: np.random.Generator,
) -> Episodes:
    """A pool of starts, each asked about once: training rows, and mixtures of two with noise.

    Training rows alone generalise worse: on small data the agent would learn them by heart.
    """
    space = blackbox.space
    assert space is not None
    made = round(config.made_share * config.start_pool)
    real = values[rng.permutation(len(values))[: config.start_pool - made]]
    candidates = np.concatenate([real, mixtures(values, space, rng, made)])
    candidates, answer = answered(blackbox, candidates)
    goals = random_goals(goal, blackbox, answer, rng)
    open_ = np.flatnonzero(~goals.met(answer))
    if len(open_) == 0:
        return Episodes.begin(candidates[:0], answer.take(open_), goals.take(open_), space.limits(), max_changes)
    balanced = config.balanced and blackbox.task == "classification"
    chosen = open_[_draw(answer.take(open_), balanced, config.start_pool, rng)]
    start = candidates[chosen]
    limits = random_limits(space, start, config, rng)
    return Episodes.begin(start, answer.take(chosen), goals.take(chosen), limits, max_changes)


def mixtures(values: Values, space: FeatureSpace, rng: np.random.Generator, count: int) -> Values:
    """Rows between two training rows, with noise; some are drawn from a Gaussian instead."""
    one, other = (values[rng.integers(0, len(values), count)] for _ in range(2))
    share = rng.random((count, 1))
    mixed = one + share * (other - one)
    mixed += NOISE * space.scale * rng.standard_normal(mixed.shape)
    gaussian = space.mean + space.scale * rng.standard_normal(mixed.shape)
    mixed = np.where(rng.random((count, 1)) < GAUSSIAN, gaussian, mixed)
    low, high = space.limits().ends
    mixed = np.where(low > high, one, space.limits().inside(mixed))
    from_one = rng.random(mixed.shape) >= share
    at_once = space.is_categorical | (one == space.missing_codes) | (other == space.missing_codes)
    return np.where(at_once, np.where(from_one, one, other), mixed)


def typical_gap(starts: Episodes) -> float:
    """A typical distance of starts from their goals: the unit in which the agent sees gaps and is rewarded for them.

    A quantile, since models differ: AdaBoost's probabilities live near one half, a network's at 0 and 1.
    """
    gap = np.abs(starts.goal.gap(starts.answer))
    return float(max(np.quantile(gap, 0.75), 1e-6)) if gap.any() else 1.0


def around(
    targets: Values, space: FeatureSpace, limits: Limits, radius: float, count: int, rng: np.random.Generator
) -> Values:
    """Points within L2 distance `radius` of each target (§4.4), target by target, the target itself first."""
    n, d = targets.shape
    direction = rng.standard_normal((n, count, d))
    direction[:, :, space.is_categorical] = 0.0
    direction[np.broadcast_to((targets == space.missing_codes)[:, None], direction.shape)] = 0.0
    length = np.maximum(np.linalg.norm(direction, axis=2, keepdims=True), 1e-12)
    numbers = max(int((~space.is_categorical).sum()), 1)
    distance = radius * rng.random((n, count, 1)) ** (1.0 / numbers)  # uniform in the ball
    points = targets[:, None] + direction / length * distance * space.scale
    points[:, 0] = targets
    flat = points.reshape(-1, d)
    origin = np.repeat(targets, count, axis=0)
    low, high = limits.ends
    return np.where((flat == origin) | (low > high), origin, limits.inside(flat))


def random_limits(space: FeatureSpace, start: Values, config: ReLAXConfig, rng: np.random.Generator) -> Limits:
    """Random frozen features and narrowed bounds, so that `vary` and `bounds` at the call need no new fit."""
    limits, own = space.limits(), space.limits(values=start)
    n, d = start.shape
    frozen = _random_masks(n, d, config.masked_share, MASK_RATE, rng)
    actionable = np.flatnonzero(~limits.frozen[0])
    frozen[np.arange(n), rng.choice(actionable, n)] = False  # something must stay free
    narrowed = _random_masks(n, d, config.bounded_share, MASK_RATE, rng) & ~space.is_categorical
    inside = np.clip(start, limits.low, limits.high)
    low = np.where(narrowed, inside - rng.random((n, d)) * (inside - limits.low), limits.low)
    high = np.where(narrowed, inside + rng.random((n, d)) * (limits.high - inside), limits.high)
    choices = np.repeat(limits.choices, n, axis=0)
    choices &= ~_random_masks(n, choices.shape[1], config.bounded_share, MASK_RATE, rng)
    return replace(limits, low=low, high=high, frozen=own.frozen | frozen, choices=choices)


def _draw(answer: Answer, balanced: bool, count: int, rng: np.random.Generator) -> Any:
    """Positions drawn at random; balanced: so that every predicted class is as frequent as any other."""
    if not balanced:
        return rng.integers(0, len(answer), count)
    _, inverse, frequency = np.unique(answer.output, return_inverse=True, return_counts=True)
    weight = 1.0 / frequency[inverse]
    return rng.choice(len(answer), count, p=weight / weight.sum())


def _random_masks(n: int, d: int, share: float, rate: float, rng: np.random.Generator) -> Booleans:
    rates = np.where(rng.random((n, 1)) < share, rng.random((n, 1)) * rate, 0.0)
    return np.asarray(rng.random((n, d)) < rates)
