"""DeepFool (Moosavi-Dezfooli et al., 2016, algorithm 2) for one row without limits, in plain loops."""

import math
from collections.abc import Callable, Sequence


def slow_deepfool(
    logits: Callable[[list[float]], Sequence[float]],
    gradients: Callable[[list[float]], Sequence[Sequence[float]]],
    start: list[float],
    scale: list[float],
    overshoot: float,
    steps: int,
) -> tuple[list[float], int]:
    """The row across the nearest boundary, lengths being in units of `scale`, and how many steps it took."""
    first = _largest(logits(start))
    change = [0.0] * len(start)
    for count in range(1, steps + 1):
        here = [x + r for x, r in zip(start, change, strict=True)]
        f, w = logits(here), gradients(here)
        nearest, best = [0.0] * len(start), math.inf
        for k in range(len(f)):
            if k == first:
                continue
            direction = [(w[k][j] - w[first][j]) * scale[j] for j in range(len(start))]
            norm = math.sqrt(sum(d * d for d in direction))
            distance = abs(f[k] - f[first]) / norm
            if distance < best:
                best, nearest = distance, [d / norm for d in direction]
        for j in range(len(start)):
            change[j] += best * nearest[j] * scale[j]
        there = [x + (1 + overshoot) * r for x, r in zip(start, change, strict=True)]
        if _largest(logits(there)) != first:
            return there, count
    return there, steps


def _largest(values: Sequence[float]) -> int:
    return max(range(len(values)), key=lambda k: values[k])
