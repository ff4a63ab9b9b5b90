"""n-step returns (§4.2) by walking one stream of steps at a time."""

from dataclasses import dataclass


@dataclass
class Moment:
    """One step: the state it was taken in, its reward, the state it led to, and whether the episode ended with it."""

    state: int
    reward: float
    after: int
    done: bool


def n_step_target(stream: list[Moment], at: int, n: int, discount: float) -> tuple[float, float, int]:
    """R_n, γ^n (0 after an end) and the state to bootstrap from, of the step at a position of one episode's stream."""
    total, factor = 0.0, 1.0
    for moment in stream[at : at + n]:
        total += factor * moment.reward
        factor *= discount
        if moment.done:
            return total, 0.0, moment.after
    return total, factor, moment.after
