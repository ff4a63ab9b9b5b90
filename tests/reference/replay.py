"""n-step returns (§4.2) by walking one stream of steps at a time."""

from dataclasses import dataclass


@dataclass
class Step:
    """One stored step: the state it was taken in, its reward, and whether the episode ended with it."""

    state: int
    reward: float
    done: bool


def n_step_target(stream: list[Step], at: int, n: int, discount: float) -> tuple[float, float, int | None]:
    """R_n, γ^n (0 after an end) and the state to bootstrap from (None after an end), of the step at a position.

    The stream is one of the episodes that run side by side, the oldest step first, the next episode following the end
    of one. What the newest step leads to is not known yet, so the walk goes up to its state and no further.
    """
    newest = len(stream) - 1
    total, factor = 0.0, 1.0
    for _ in range(n):
        if at == newest:
            break
        total += factor * stream[at].reward
        factor *= discount
        if stream[at].done:
            return total, 0.0, None
        at += 1
    return total, factor, stream[at].state
