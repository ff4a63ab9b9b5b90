"""The agent's job: whether training it can pay, and how far ahead it has to look. Imagination tells it for free.

A world model that looks one step ahead solves nearly every row of most models. There a search needs no agent, and one
that is followed alone learns soonest what single steps are worth. Where steps do not show the way, since several
changes help only together, an agent that looks far ahead finds what nothing else finds.
"""

from dataclasses import replace
from typing import NamedTuple

from relax_plugin.agent.config import AGENT_STEPS, NEAR_SIGHTED, ReLAXConfig
from relax_plugin.agent.policy import roll_out
from relax_plugin.search.state import Episodes, Observer
from relax_plugin.world_model.lookahead import LookaheadRanker
from relax_plugin.world_model.model import ImaginedBlackBox, WorldModel

STEPS_OF_A_CLASS = 20  # of training in imagination, beside AGENT_STEPS, for each class beyond the second
UNSOLVED = 0.05  # share of the rows set aside that looking one step ahead leaves unsolved, above which steps mislead


class Job(NamedTuple):
    """Whether the agent is trained, with which settings, and why."""

    trained: bool
    config: ReLAXConfig
    reason: str


def describe_job(
    config: ReLAXConfig, world: WorldModel | None, observer: Observer, checks: Episodes, *, searches: bool, scores: bool
) -> Job:
    """What the agent is for: followed alone, or (`searches`) to bring answers to a search in imagination.

    Parameters
    ----------
    config : ReLAXConfig
    world : WorldModel, optional
        None where the agent is trained on the model itself.
    observer : Observer
    checks : Episodes
        Rows set aside, whose goals are not met yet.
    searches, scores : bool
        Whether complete answers are searched for in imagination; whether the model gives scores.
    """
    found, misled = "", False
    if world is not None and len(checks.start):
        _, met = roll_out(LookaheadRanker(world, observer), observer, ImaginedBlackBox(world), checks)
        found = f"looking one step ahead solves {int(met.sum())} of {len(met)} rows set aside"
        misled = int((~met).sum()) > UNSOLVED * len(met)
    sight = config.sight
    if sight == "auto":
        as_set = config.is_set("shaping", "discount", "distance_weight")
        sight = "far" if (searches and world is not None) or misled or as_set or not scores else "near"
    chosen = replace(config, sight=sight, **({} if sight == "far" else NEAR_SIGHTED))
    if world is not None and config.steps is None and world.blackbox.classes is not None:
        more = STEPS_OF_A_CLASS * max(len(world.blackbox.classes) - 2, 0)
        chosen = replace(chosen, steps=AGENT_STEPS + more)
    if searches and world is not None and config.steps is None and not misled:
        why = f"the agent was not trained, since {found or 'there are no rows to be solved'}"
        return Job(False, chosen, f"{why}; config=ReLAXConfig(steps=...) trains it")
    seen = f"the agent is {sight}-sighted"
    return Job(True, chosen, f"{seen}, since {found}" if found and config.sight == "auto" else seen)
