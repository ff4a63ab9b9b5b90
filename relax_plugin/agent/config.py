"""ReLAXConfig: every number of the method with its unit and its source.

Where the printed paper cannot be used or was clearly worse, the default deviates. All deviations, once:

1. Actions are directional (feature, up | down) with a magnitude in [0, 1] of the way to the bound, instead of one
   signed value a feature: the signed agent tends to solve one class and fail the other. ``actions="signed"``. The
   network of a directional action predicts where its number goes, from which the magnitude follows.
2. Distances are counted in standard deviations of the features; the paper's rows are unit vectors, of which a feature
   has a far smaller one. So λ of the reward is another number here for the same reward: `PAPER_LAMBDA`; likewise the
   radius of Local: `PAPER_RADIUS`.
3. Curiosity has coefficient 0: demonstrations explore better. A positive coefficient of the action term draws the
   policy to what is new; descent on the printed sum seeks what is known. ``state_curiosity=1, action_curiosity=-1`` is
   the printed form.
4. The discount is 0.85; the paper prints none. So it is with the n of the n-step target, ε, the sizes of networks,
   batches and replay, the learning rate and the length of training: they are ours, in `ReLAXConfig.paper()` too.
5. The horizon is `max_changes` and not 50,000, since a feature changes at most once (§4.1.2).
6. Many episodes run side by side, and several updates follow each of their steps; Algorithm 1 alternates single ones.
7. Starts are in part mixtures of training rows with noise, balanced over classes, under random constraints; Algorithm 1
   samples training rows.
8. Priorities are sampled from a cumulative sum, quicker at this size than §4.2's sum tree and of the same distribution.
9. The TD error enters L_Q by Huber's loss, not squared: a few misjudged steps must not throw the network. The
   learning rate falls; a part of the random actions has random parameters; each action has a value head of its own,
   which its parameter alone reaches. The weights kept are the best ones on rows set aside, not the last ones.
10. Training begins with demonstrations: training rows that the search engine solves. Their steps are in the replay with
   a bonus and are imitated, in place of L_π, and so are polished paths of the agent's own. ``demonstrations=0``.
11. Where the model is costly, the agent is trained on a surrogate model; the paper asks the model itself at every step.
   ``training="model"``.
12. Local delivers the best counterfactual seen in fine-tuning, or Global's if better, not what its last policy finds.

`ReLAXConfig.paper()` takes back 1, 3, 7, 10 and 11 and has the paper's λ and radius by 2; it keeps 5, 6, 8, 9 and 12.
Of these 8 alone leaves what is learned as it is: the others were chosen because they learn better, and may learn
otherwise.
"""

from dataclasses import dataclass, field, fields
from math import inf, isfinite
from numbers import Integral, Real
from sys import float_info
from typing import Any, Literal, get_args, get_origin

from relax_plugin.errors import InputError
from relax_plugin.surrogate import LEAST_QUERY_BUDGET, MOST_QUERY_BUDGET

# λ = 0.1, the middle of the paper's Figure 4, is per unit of L1 between rows of unit length (§4.4). There a feature of
# Sonar, on which λ was chosen, has a standard deviation of about 0.05.
PAPER_DEVIATION = 0.05
PAPER_LAMBDA = 0.1 * PAPER_DEVIATION  # per standard deviation
PAPER_RADIUS = 1.0 / PAPER_DEVIATION  # standard deviations


def ranged(default: float | None, low: float, high: float = inf) -> Any:
    """A number of the settings: its default, and from where to where it may be set."""
    return field(default=default, metadata={"low": low, "high": high})


@dataclass(frozen=True)
class ReLAXConfig:
    """Settings of ReLAX. `ReLAXConfig.paper()` follows the letter of the paper where it is explicit.

    A number stands as `ranged(default, low, high)`; what `explain` makes room for has an upper end, since a saved file
    may say anything.
    """

    # Markov decision process (§4.1)
    actions: Literal["directional", "signed"] = "directional"
    distance_weight: float = ranged(0.03, 0)  # λ of the reward, per standard deviation of L1
    shaping: float = ranged(0.0, 0)  # reward for closing the whole gap to the goal; 0 switches shaping off
    # Policy optimisation (§4.2)
    discount: float = ranged(0.85, 0, 1)  # γ: one more change costs 1 - γ
    steps_of_return: int = ranged(3, 1, 100)  # n of the n-step target
    learning_rate: float = ranged(3e-3, 0)  # Adam, falling linearly to a tenth
    batch: int = ranged(128, 1)  # transitions of one update
    target_rate: float = ranged(0.02, 0, 1)  # share of the online network that its target takes over at each update
    priority_exponent: float = ranged(0.6, 0)  # β of p ∝ |TD error|^β; 0 draws uniformly
    importance_exponent: float = ranged(0.4, 0)  # how far the bias of priorities is corrected
    replay: int = ranged(32_768, 1)  # transitions kept
    hidden: int = ranged(96, 1, 100_000)  # units of a hidden layer
    # Exploration (§4.3)
    exploration_start: float = ranged(0.3, 0, 1)  # ε, share of random discrete actions at first
    exploration_end: float = ranged(0.1, 0, 1)
    state_curiosity: float = ranged(0.0, -inf)  # weight of r^{i,s}
    action_curiosity: float = ranged(0.0, -inf)  # weight of r^{i,a}
    # What the agent is trained on
    training: Literal["auto", "model", "surrogate"] = "auto"  # auto: the model (the paper), unless it is costly
    query_budget: int | None = ranged(None, LEAST_QUERY_BUDGET, MOST_QUERY_BUDGET)  # model rows of a surrogate; None:
    # 1,000 where a search runs on it too, 4,000 where it is for training alone
    # Demonstrations, an addition to the paper
    demonstrations: int = ranged(350, 0)  # starts that the search engine solves; 0: none, and nothing is imitated
    demonstration_bonus: float = ranged(0.2, 0)  # added to the priority of a demonstrated step
    first_updates: int = ranged(100, 0)  # from demonstrations alone
    imitate_every: int = ranged(5, 1)  # steps; then the agent's own paths, polished, become demonstrations
    # Training (Algorithm 1)
    steps: int = ranged(40, 1)  # of all episodes side by side
    seconds: float | None = ranged(None, 0)  # a second budget, for impatience; the answer then depends on the machine
    episodes: int = ranged(256, 1)  # side by side
    updates_per_step: int = ranged(12, 1)
    start_pool: int = ranged(2048, 1)  # starts scored once
    balanced: bool = True  # whether every predicted class is as frequent among the starts as any other
    made_share: float = ranged(0.3, 0, 1)  # of the starts are mixtures of training rows with noise
    masked_share: float = ranged(0.5, 0, 1)  # of the starts have features frozen: `vary` then works without a new fit
    mask_rate: float = ranged(0.8, 0, 1)  # highest share of features frozen
    bounded_share: float = ranged(0.25, 0, 1)  # of the starts have narrowed bounds: so does `bounds`
    validation_rows: int = ranged(128, 1)  # training rows set aside to choose the best weights
    validate_every: int = ranged(5, 1)  # steps
    # ReLAX-Local (§4.4)
    local_radius: float = ranged(1.0, 0)  # of the ball around a query, L2 in standard deviations
    local_steps: int = ranged(60, 1, 100_000)
    local_episodes: int = ranged(16, 1, 10_000)  # side by side for each target
    local_batch: int = ranged(32, 1, 100_000)  # transitions of one update of each agent
    local_updates: int = ranged(3, 1, 1_000)  # updates per step
    local_learning_rate: float = ranged(1e-3, 0)  # of fine-tuning; from scratch `learning_rate` holds
    pretrained: bool = True  # Local starts from Global's weights; False trains it from scratch, as the paper compares

    def __post_init__(self) -> None:
        for setting in fields(self):
            name, value = setting.name, getattr(self, setting.name)
            if setting.type is bool:
                if not isinstance(value, bool):
                    raise InputError(f"{name} is {value!r}, but must be True or False.")
            elif get_origin(setting.type) is Literal:
                *words, last = map(repr, get_args(setting.type))
                if value not in get_args(setting.type):
                    raise InputError(f"{name} is {value!r}; accepted are {', '.join(words)} and {last}.")
            elif value is not None or setting.default is not None:
                low, high = setting.metadata["low"], setting.metadata["high"]
                whole = setting.type in (int, int | None)
                kind: type[Any] = Integral if whole else Real
                if not isinstance(value, kind) or not low <= value <= high or not abs(value) <= float_info.max:
                    raise InputError(
                        f"{name} is {value!r}, but must be a {'whole' if whole else 'finite'} number"
                        f"{f' from {low:g}' if isfinite(low) else ''}{f' to {high:g}' if isfinite(high) else ''}."
                    )

    @classmethod
    def paper(cls) -> "ReLAXConfig":
        """The letter of the paper: signed actions, its reward, printed curiosity, training rows as starts.

        What the paper leaves open, such as the steps and the replay, was chosen on training rows that were set aside.
        """
        return cls(
            actions="signed",
            training="model",
            demonstrations=0,
            distance_weight=PAPER_LAMBDA,
            local_radius=PAPER_RADIUS,
            state_curiosity=1.0,
            action_curiosity=-1.0,
            discount=0.9,
            balanced=False,
            made_share=0.0,
            masked_share=0.0,
            bounded_share=0.0,
            hidden=64,
            exploration_start=0.5,
            exploration_end=0.2,
            steps=600,
            updates_per_step=6,
            validate_every=30,
            replay=16_384,  # the last 64 steps: what was new and paid for it long ago is forgotten
        )
