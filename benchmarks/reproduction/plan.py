"""What is run: every experiment of the paper as cases, each one method on one task with one seed under the judge.

The full plan has five seeds. `quick` has two, and fewer rows for slow methods, fewer caps and fewer variants.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from benchmarks.reproduction.models import GRIDS, tuned_task
from relax_plugin.agent.config import ReLAXConfig
from relax_plugin.errors import InputError
from relax_plugin.evaluation.plan import Method, Unit
from relax_plugin.evaluation.tasks import CORE_TASKS, Task

if TYPE_CHECKING:
    import pandas as pd

PAIRS = tuple(name for name in CORE_TASKS if not name.startswith("boston"))  # Figure 3
SEEDS = (0, 1, 2, 3, 4)  # ReLAX §5.1: five repeats
QUICK_SEEDS = (0, 1)
MOST_CHANGES = 5  # ReLAX §5.3: "the maximal sparsity limited to 5 features"
CAPS = tuple(range(1, MOST_CHANGES + 1))
SOME_CAPS = (1, 3, 5)  # of the slowest: validity at 2 and 4 is read off the runs around them
NO_CAP = (None,)
SHIFTS = (0.2, 0.4, 0.6)  # Table 3
LAMBDAS = (0.001, 0.01, 0.1, 1.0, 10.0)  # Figure 4
ARCHITECTURES = {"sonar/mlp": "[256, 256]", "sonar/mlp-128": "[128, 128]", "sonar/mlp-64": "[64, 64]"}  # Table 5
ALONE = ", policy"  # ends the name of a method that is the paper's agent, without the search that is our default
LIMIT = 600.0  # seconds for one case
LOCAL_STEPS = (5, 20, 40, 60)  # of fine-tuning; 60 is the default
LOCAL_ROWS = 20  # of Local, which takes long, where the paper has one number for many

UNITS = {
    "range": "share of the range of the training targets",
    "deviation": "standard deviations of the training targets",
    "thousand": "thousand dollars",
}
"""What δ of Table 3 may be measured in; the paper does not say. `range` is used, the others show what that matters."""


class Peer(NamedTuple):
    """A method of Figure 3: how many test rows it is given, at which caps, in the full run and in the quick one."""

    rows: int
    quick_rows: int
    caps: tuple[int | None, ...]
    quick_caps: tuple[int | None, ...]


PEERS = {
    "relax-global": Peer(200, 100, CAPS, SOME_CAPS),
    "relax-local": Peer(10, 10, SOME_CAPS, (5,)),
    "nearest-ct": Peer(200, 100, CAPS + NO_CAP, SOME_CAPS + NO_CAP),
    "greedy": Peer(200, 100, CAPS, SOME_CAPS),
    "move-table": Peer(200, 100, CAPS, SOME_CAPS),
    "surrogate-search": Peer(200, 100, CAPS, SOME_CAPS),
    "lore": Peer(40, 20, CAPS + NO_CAP, SOME_CAPS + NO_CAP),
    "dice-random": Peer(12, 3, CAPS, SOME_CAPS),
    "dice-genetic": Peer(12, 3, CAPS, SOME_CAPS),
    "dice-kdtree": Peer(3, 1, (5,), (5,)),
    "mace": Peer(6, 1, SOME_CAPS, (5,)),
    "feat-tweak": Peer(40, 20, CAPS, SOME_CAPS),
    "focus": Peer(20, 10, CAPS, SOME_CAPS),
    "deepfool": Peer(200, 100, CAPS + NO_CAP, SOME_CAPS + NO_CAP),
    "grace": Peer(200, 100, CAPS, SOME_CAPS),
}
"""The methods of the registry at the last full run, but the control. The slow ones are given fewer rows, and ReLAX is
compared with them on the same rows."""

LOOK_INSIDE = frozenset({"feat-tweak", "focus", "deepfool", "grace", "mace"})
"""Methods that read the model itself; the paper counts MACE among the model-agnostic ones, so here it is in both."""

LETTER = ReLAXConfig.paper()
VARIANTS: dict[str, ReLAXConfig] = {
    "default": ReLAXConfig(),
    "no demonstrations": ReLAXConfig(demonstrations=0),
    "with curiosity": ReLAXConfig(state_curiosity=1.0, action_curiosity=1.0),
    "uniform replay": ReLAXConfig(priority_exponent=0.0),
    "1-step returns": ReLAXConfig(steps_of_return=1),
    "untrained": ReLAXConfig(learning_rate=0.0),
    "letter, no curiosity": replace(LETTER, state_curiosity=0.0, action_curiosity=0.0),
    "letter, state curiosity": replace(LETTER, action_curiosity=0.0),
    "letter, action curiosity": replace(LETTER, state_curiosity=0.0),
    "letter of the paper": LETTER,
    "letter, drawn to new actions": replace(LETTER, action_curiosity=-LETTER.action_curiosity),
}
"""The ablation. Of the default one thing is changed at a time. Of the letter of the paper, which has both curiosities,
curiosity alone is."""


def base_of(variant: str) -> str:
    """The variant that another one of the ablation is held against."""
    return "letter, no curiosity" if variant.startswith("letter") else "default"


SECONDS: Mapping[str, tuple[float, float]] = {
    "relax-global": (2.0, 0.003),
    f"relax-global{ALONE}": (5.0, 0.001),
    "relax-local": (5.5, 0.14),
    "nearest-ct": (0.1, 0.015),
    "greedy": (0.1, 0.006),
    "move-table": (0.2, 0.003),
    "surrogate-search": (0.4, 0.003),
    "lore": (0.1, 0.025),
    "dice-random": (0.1, 0.3),
    "dice-genetic": (0.1, 0.15),
    "dice-kdtree": (0.1, 8.0),
    "mace": (0.1, 2.5),
    "feat-tweak": (0.1, 0.01),
    "focus": (0.1, 0.17),
    "deepfool": (0.1, 0.002),
    "grace": (0.1, 0.003),
}
"""Seconds of fit and of each row on one core of the machine of README, to tell beforehand how long a run will take."""
TEST_ROWS = {"sonar": 63, "boston": 152}  # where all of them are asked for
TUNING_SECONDS = 10.5  # of one model, on average
STUDY_SECONDS = 45.0  # of the case study on one split


@dataclass(frozen=True)
class Case:
    """One method on one task with one seed, and where in the report it belongs."""

    part: str  # "sparsity", "regression", "lambda", "architecture", "pretraining" or "ablation"
    task: str
    method: str  # as it is shown
    seed: int
    explainer: str  # as the registry knows it
    cap: int | None = MOST_CHANGES
    setting: str = ""  # λ, steps, the variant of the ablation
    rows: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """What tells the case from all others of the same task and seed."""
        cap = "no cap" if self.cap is None else f"at most {self.cap}"
        return " | ".join(part for part in (self.part, self.method, cap, self.setting) if part)

    def unit(self, task: Task) -> Unit:
        method = Method(self.label, self.explainer, {"max_changes": self.cap, **self.options})
        return Unit(task, method, self.seed, self.rows)

    @property
    def expected_seconds(self) -> float:
        name = self.explainer
        if name == "relax-global" and self.options.get("effort") == "policy":
            name += ALONE
        fit, each = SECONDS[name]
        config = self.options.get("config")
        if config is not None:
            fit *= config.steps / ReLAXConfig().steps
        return fit + each * (self.rows or TEST_ROWS[self.task.partition("/")[0]])


def seeds_of(quick: bool) -> tuple[int, ...]:
    """The seeds of a run."""
    return QUICK_SEEDS if quick else SEEDS


def cases(quick: bool) -> list[Case]:
    """All cases, part by part; seed by seed within a part, so that what is there after an interruption is balanced."""
    return [case for part in PARTS.values() for seed in seeds_of(quick) for case in part(seed, quick)]


def models_needed(quick: bool) -> list[tuple[str, int]]:
    """The models that are tuned before anything is explained."""
    return [(name, seed) for seed in seeds_of(quick) for name in GRIDS]


def chosen_cases(wanted: Sequence[Case], only: Sequence[str]) -> Sequence[Case]:
    """The cases with one of the texts in their label; all, if there is no text."""
    for text in only:
        if text != "covid" and not any(text in case.label for case in wanted):
            raise InputError(f"no case has {text!r} in its label; one is {wanted[0].label!r}.")
    return [case for case in wanted if any(text in case.label for text in only)] if only else wanted


def task_of(case: Case, tuned: "pd.DataFrame") -> Task:
    """The trained model of a case under the case's name, with the goal that the name tells."""
    from relax_plugin.goal import Goal

    if case.part != "regression":
        return replace(tuned_task(tuned, case.task, case.seed), name=case.task)
    task = tuned_task(tuned, "boston/mlp", case.seed)
    _, shift, unit = case.task.split(" ")
    targets = task.y_train
    scale = {"range": targets.max() - targets.min(), "deviation": targets.std(), "thousand": 1.0}[unit]
    return replace(task, name=case.task, goal=Goal.shift(float(shift) * float(scale)))


def _sparsity(seed: int, quick: bool) -> Iterator[Case]:
    for task in PAIRS:
        for name, peer in PEERS.items():
            for cap in peer.quick_caps if quick else peer.caps:
                yield Case("sparsity", task, name, seed, name, cap, rows=peer.quick_rows if quick else peer.rows)
        peer, alone = PEERS["relax-global"], {"effort": "policy"}
        for cap in () if quick else SOME_CAPS:
            name = f"relax-global{ALONE}"
            yield Case("sparsity", task, name, seed, "relax-global", cap, rows=peer.rows, options=alone)


def _regression(seed: int, quick: bool) -> Iterator[Case]:
    alone = {"effort": "policy"}
    for shift in SHIFTS:
        task = f"boston/mlp {shift} range"
        for name in ("relax-global", "relax-local"):
            rows = (10 if quick else 2 * LOCAL_ROWS) if name == "relax-local" else None
            yield Case("regression", task, name, seed, name, rows=rows)
            yield Case("regression", task, name + ALONE, seed, name, rows=rows, options=alone)
        for name in ("nearest-ct", "greedy"):
            yield Case("regression", task, name, seed, name)
        for unit in () if quick and shift != SHIFTS[1] else ("deviation", "thousand"):
            other = f"boston/mlp {shift} {unit}"
            yield Case("regression", other, "relax-global", seed, "relax-global")
            for name in () if quick else ("relax-global", "relax-local"):
                rows = LOCAL_ROWS if name == "relax-local" else None
                yield Case("regression", other, name + ALONE, seed, name, rows=rows, options=alone)


def _lambda(seed: int, _: bool) -> Iterator[Case]:
    for weight in LAMBDAS:
        options = {"effort": "policy", "config": ReLAXConfig(distance_weight=weight)}
        yield Case("lambda", "sonar/mlp", "policy", seed, "relax-global", setting=str(weight), options=options)


def _architecture(seed: int, quick: bool) -> Iterator[Case]:
    for task in ARCHITECTURES:
        for name in ("relax-global", "relax-local", "grace", "lore", "greedy"):
            few = name in ("relax-local", "lore") if quick else name == "relax-local" and task != "sonar/mlp"
            yield Case("architecture", task, name, seed, name, rows=LOCAL_ROWS if few else None)
    for name in () if quick else ("relax-global", "relax-local"):  # the paper's agent, on the paper's main network
        yield Case("architecture", "sonar/mlp", name + ALONE, seed, name, options={"effort": "policy"})


def _pretraining(seed: int, quick: bool) -> Iterator[Case]:
    # Before any fine-tuning: what Local begins with, and keeps where its own answer is no better.
    alone = {"effort": "policy"}
    yield Case("pretraining", "sonar/mlp", "pretrained", seed, "relax-global", setting="0", options=alone)
    for steps in (5, 60) if quick else LOCAL_STEPS:
        for method, pretrained in (("pretrained", True), ("from scratch", False)):
            if pretrained and steps == 40:
                continue  # it is there long before
            options = {"effort": "policy", "config": ReLAXConfig(local_steps=steps, pretrained=pretrained)}
            yield Case("pretraining", "sonar/mlp", method, seed, "relax-local", setting=str(steps), options=options)


def _ablation(seed: int, quick: bool) -> Iterator[Case]:
    for task in ("sonar/mlp",) if quick else ("sonar/mlp", "wave2/xgb"):
        for name, config in VARIANTS.items():
            options = {"effort": "policy", "config": config}
            yield Case("ablation", task, "relax-global", seed, "relax-global", setting=name, rows=300, options=options)


PARTS = {
    "regression": _regression,
    "lambda": _lambda,
    "architecture": _architecture,
    "pretraining": _pretraining,
    "ablation": _ablation,
    "sparsity": _sparsity,
}
