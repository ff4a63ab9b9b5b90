"""What this package set out to reach in the paper's experiments, and whether it does."""

from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd

from benchmarks.reproduction.claims.claims import NEVER_WORSE, generation, pretraining_claim, pretraining_compared
from benchmarks.reproduction.claims.comparisons import LEAST_ROWS, duels
from benchmarks.reproduction.claims.intervals import by_seed
from benchmarks.reproduction.claims.paper import ARCHITECTURES
from benchmarks.reproduction.plan import ALONE, LOOK_INSIDE, PEERS

SONAR = "sonar/mlp"
AGNOSTIC = tuple(name for name in PEERS if name not in LOOK_INSIDE and not name.startswith("relax"))
LEAST_VALIDITY = {"relax-global": 0.88, "relax-local": 0.95}
LETTER_VALIDITY = {SONAR: 0.8, "wave2/xgb": 0.9}


@dataclass(frozen=True)
class Target:
    """An aim, whether it is met, and the figures."""

    text: str
    met: bool
    evidence: str


def all_targets(tables: Mapping[str, pd.DataFrame]) -> list[Target]:
    """Every target that the tables at hand can decide."""
    made = []
    if "sparsity" in tables:
        made.append(_no_lower(tables["sparsity"]))
    if "architecture" in tables:
        made += [_on_sonar(tables["architecture"], method) for method in LEAST_VALIDITY]
    if "pretraining" in tables:
        made.append(_pretraining(tables["pretraining"]))
    if "ablation" in tables:
        made.append(_letter(tables["ablation"]))
    return made


def _no_lower(sparsity: pd.DataFrame) -> Target:
    measured = duels(sparsity, (*AGNOSTIC, "mace"))
    behind = [duel for duel in measured if duel.behind]
    words = [f"{d.task}, k = {d.cap}: {d.ours.text(3)}, {d.method} {d.theirs.text(3)}" for d in behind]
    few = sum(not duel.enough for duel in measured)
    evidence = f"{len(measured) - len(behind)} of {len(measured)} comparisons"
    evidence += f" ({few} of them on fewer than {LEAST_ROWS} queries)" if few else ""
    evidence += "; behind on " + "; ".join(words) if words else ""
    text = (
        "On every classification pair and at every cap ReLAX-Global is no less often valid than any other "
        "model-agnostic method, within one standard deviation of its own"
    )
    return Target(text, bool(measured) and not behind, evidence)


def _on_sonar(architecture: pd.DataFrame, method: str) -> Target:
    mine = architecture[(architecture["task"] == SONAR) & (architecture["method"] == method)]
    valid, changed = by_seed(mine, "validity"), by_seed(mine, "L0")
    most = ARCHITECTURES[SONAR][1][method].sparsity
    text = f"Sonar [256, 256]: {method} is valid on at least {LEAST_VALIDITY[method]} and changes fewer than {most}"
    met = valid.mean >= LEAST_VALIDITY[method] and changed.mean < most
    evidence = f"validity {valid.text(3)}, features changed {changed.text()}"
    if method == "relax-local":
        alone = architecture[(architecture["task"] == SONAR) & (architecture["method"] == method + ALONE)]
        evidence += f"; the agents alone {by_seed(alone, 'validity').text(3)}" if len(alone) else ""
        evidence += f"; {NEVER_WORSE}"
    return Target(text, met, evidence)


def _pretraining(table: pd.DataFrame) -> Target:
    compared = pretraining_compared(table)
    met = compared is not None and generation(compared[0]).against(generation(compared[1])) == "higher"
    text = "Local with pretraining is quicker than without at equal validity (generation)"
    return Target(text, met, pretraining_claim(table).evidence)


def _letter(ablation: pd.DataFrame) -> Target:
    letter = ablation[ablation["setting"] == "letter of the paper"]
    valid = {task: by_seed(letter[letter["task"] == task], "validity") for task in LETTER_VALIDITY}
    aims = " and ".join(f"{least:.2f} of {task}" for task, least in LETTER_VALIDITY.items())
    text = f"By the letter of the paper (ReLAXConfig.paper()) the agent alone is valid on at least {aims}"
    met = all(valid[task].mean >= least for task, least in LETTER_VALIDITY.items())
    return Target(text, met, ", ".join(f"{task} {interval.text(3)}" for task, interval in valid.items()))
