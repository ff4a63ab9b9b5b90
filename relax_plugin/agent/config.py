"""ReLAXConfig: every number of the method with its unit and its source.

Where the printed paper cannot be used or was clearly worse, the default deviates. All deviations, once:

1. Actions are directional (feature, up | down) with a magnitude in [0, 1] of the way to the bound, instead of one
   signed value a feature: the signed agent tends to solve one class and fail the other. ``actions="signed"``.
2. Shaping by the change of the model's score is added to the reward where scores exist (§4.3 calls it hard to design
   for all models; a scaled logit gap does it). ``shaping=0``.
3. Curiosity has coefficient 0: as printed (coefficient 1) it drowns the reward, and small ones made no difference that
   five seeds could show, not even where the model answers labels only. The action term is subtracted from the
   policy's loss, since descent on the printed sum would seek what is known. ``state_curiosity=1,
   action_curiosity=-1`` is the printed form.
4. Discount 0.2 instead of the customary 0.95: sparser at equal validity, since the horizon is `max_changes`. Where the
   model answers labels only nothing is earned before the goal, and the discount is 0.9.
5. The horizon is `max_changes` and not 50,000, since a feature changes at most once (§4.1.2).
6. Many episodes run side by side, and one update follows several transitions; Algorithm 1 alternates single steps.
7. Starts are mixtures of training rows with noise, balanced over classes, under random constraints; Algorithm 1
   samples training rows.
8. Priorities are sampled from a cumulative sum, quicker at this size than §4.2's sum tree and of the same distribution.
9. The raw parameters are pulled towards 0 a little (`parameter_decay`): one saturated at its end could not come back.
10. The TD error enters L_Q by Huber's loss, not squared: a few misjudged steps must not throw the network. The
    learning rate falls; a part of the random actions has random parameters; each action has a value head of its own,
    which its parameter alone reaches. Curiosity is divided by its running mean, so that a coefficient has a meaning.
11. The agent is trained on a world model, a small copy of the model fitted to less than 2,000 of its answers, where
    it gives scores and that copy is good enough on held-out rows; the paper asks the model itself at every step.
    ``training="model"``.
12. Local delivers the best counterfactual seen in fine-tuning, or Global's if better, not what its last policy finds.

`ReLAXConfig.paper()` takes back 1 to 4, 7, 9 and 11, not 12; 5, 6, 8 and 10 change how, not what is learned.
"""

from dataclasses import dataclass, fields, replace
from math import inf, isfinite
from numbers import Integral, Real
from typing import Literal

from relax_plugin.errors import InputError
from relax_plugin.world_model import LEAST_QUERY_BUDGET

NO_NUMBERS = frozenset({"actions", "training", "pretrained", "balanced"})
AGENT_STEPS = 200  # of training, unless:
SEARCH_STEPS = 60  # Global, effort "search", a good world model of scores: 200 gain .2 % of L1 on held-out rows

# Upper ends of what `explain` makes room for, since a file may say anything.
MOST = {
    "steps_of_return": 100,
    "hidden": 100_000,
    "code": 10_000,
    "local_steps": 100_000,
    "local_episodes": 10_000,
    "local_batch": 100_000,
    "local_updates": 1_000,
}

SHARES = frozenset(
    {
        "discount",
        "labels_only_discount",
        "target_rate",
        "exploration_start",
        "exploration_end",
        "mixture",
        "gaussian_share",
        "masked_share",
        "mask_rate",
        "bounded_share",
    }
)


@dataclass(frozen=True)
class ReLAXConfig:
    """Settings of ReLAX. `ReLAXConfig.paper()` follows the letter of the paper where it is explicit."""

    # Markov decision process (§4.1)
    actions: Literal["directional", "signed"] = "directional"
    distance_weight: float = 0.03  # λ of the reward, per standard deviation of L1; findings: .2 collapses validity
    shaping: float = 3.0  # reward for closing the whole gap to the goal; 0 switches shaping off
    labels_only_distance_weight: float = 0.005  # λ where no shaping outweighs it on the way
    # Policy optimisation (§4.2)
    discount: float = 0.2  # γ
    labels_only_discount: float = 0.9  # γ where the reward comes at the goal alone and has to reach the first step
    steps_of_return: int = 2  # n of the n-step target
    learning_rate: float = 3e-3  # Adam, falling linearly to a tenth
    parameter_decay: float = 3e-3  # pull of the parameter network's raw outputs to 0, against saturation
    batch: int = 128  # transitions of one update
    target_rate: float = 0.02  # share of the online network taken over by the target network at each update
    priority_exponent: float = 0.6  # β of p ∝ |TD error|^β; 0 draws uniformly
    importance_exponent: float = 0.4  # how far the bias of priorities is corrected
    replay: int = 65_536  # transitions kept
    hidden: int = 64  # units of a hidden layer
    code: int = 4  # numbers by which the state describes one action to its value head
    # Exploration (§4.3)
    exploration_start: float = 0.5  # ε, share of random discrete actions at first
    exploration_end: float = 0.2
    parameter_noise: float = 0.2  # standard deviation of the noise on magnitudes, times ε
    state_curiosity: float = 0.0  # weight of r^{i,s}; even with labels only .05 is within the spread of seeds
    action_curiosity: float = 0.0  # weight of r^{i,a}
    # What the agent is trained on
    training: Literal["model", "imagined", "auto"] = "auto"  # the model (the paper), a world model of it, or as it fits
    query_budget: int = 4000  # model rows that training in imagination may cost, all in all
    # Training (Algorithm 1)
    steps: int | None = None  # of all episodes side by side; None: as AGENT_STEPS and SEARCH_STEPS say
    seconds: float | None = None  # a second budget, for impatience; the answer then depends on the machine
    episodes: int = 256  # side by side
    updates_per_step: int = 6
    start_pool: int = 2048  # starts scored once
    balanced: bool = True  # whether every predicted class is as frequent among the starts as any other
    mixture: float = 1.0  # how far a start may lie from one training row towards another; 0: training rows only
    gaussian_share: float = 0.25  # of the starts are Gaussian instead
    start_noise: float = 0.3  # standard deviations
    masked_share: float = 0.5  # of the starts have features frozen, so that `vary` works without a new fit
    mask_rate: float = 0.8  # highest share of features frozen
    bounded_share: float = 0.25  # of the starts have narrowed bounds, so that `bounds` works without a new fit
    validation_rows: int = 128  # training rows set aside to choose the best weights and to stop early
    validate_every: int = 30  # steps
    patience: int = 3  # validations without improvement that are forgiven; the next one stops the training
    # ReLAX-Local (§4.4)
    local_radius: float = 1.0  # L2, standard deviations
    local_steps: int = 60
    local_episodes: int = 16  # side by side for each target
    local_batch: int = 32  # transitions of one update of each agent
    local_updates: int = 3  # updates per step
    local_learning_rate: float = 1e-3  # of fine-tuning; from scratch `learning_rate` holds
    pretrained: bool = True  # Local starts from Global's weights; False trains it from scratch, as the paper compares

    def __post_init__(self) -> None:
        if self.actions not in ("directional", "signed"):
            raise InputError(f"actions is {self.actions!r}; accepted are 'directional' and 'signed'.")
        if self.training not in ("model", "imagined", "auto"):
            raise InputError(f"training is {self.training!r}; accepted are 'model', 'imagined' and 'auto'.")
        for name in ("pretrained", "balanced"):
            if not isinstance(getattr(self, name), bool):
                raise InputError(f"{name} is {getattr(self, name)!r}, but must be True or False.")
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name in NO_NUMBERS or (value is None and field.default is None):
                continue
            kind, low, high = Real, 0.0, inf
            if field.type in (int, int | None):
                kind, low = Integral, LEAST_QUERY_BUDGET if field.name == "query_budget" else 1
            elif field.name.endswith("curiosity"):
                low = -inf
            elif field.name in SHARES:
                high = 1.0
            high = min(high, MOST.get(field.name, inf))
            if not isinstance(value, kind) or not isfinite(value) or not low <= float(value) <= high:
                raise InputError(
                    f"{field.name} is {value!r}, but must be a {'whole' if kind is Integral else 'finite'} number"
                    f"{f' from {low:g}' if isfinite(low) else ''}{f' to {high:g}' if isfinite(high) else ''}."
                )

    def for_model(self, has_scores: bool) -> "ReLAXConfig":
        """The settings that hold for a model with scores, or for one that answers labels only."""
        if has_scores:
            return self
        return replace(self, discount=self.labels_only_discount, distance_weight=self.labels_only_distance_weight)

    @classmethod
    def paper(cls) -> "ReLAXConfig":
        """The letter of the paper: signed actions, no shaping, printed curiosity, training rows as starts."""
        return cls(
            actions="signed",
            training="model",
            shaping=0.0,
            discount=0.95,
            labels_only_discount=0.95,
            distance_weight=0.1,
            labels_only_distance_weight=0.1,
            state_curiosity=1.0,
            action_curiosity=-1.0,
            steps_of_return=3,
            parameter_decay=0.0,
            balanced=False,
            mixture=0.0,
            gaussian_share=0.0,
            start_noise=0.0,
            masked_share=0.0,
            bounded_share=0.0,
        )
