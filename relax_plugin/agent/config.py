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

from dataclasses import dataclass
from typing import Literal

from relax_plugin.parameters import Check, check_parameters, documented, flag, one_of, param, real, whole
from relax_plugin.surrogate import LEAST_QUERY_BUDGET, MOST_QUERY_BUDGET

# λ = 0.1, the middle of the paper's Figure 4, is per unit of L1 between rows of unit length (§4.4). There a feature of
# Sonar, on which λ was chosen, has a standard deviation of about 0.05.
PAPER_DEVIATION = 0.05
PAPER_LAMBDA = 0.1 * PAPER_DEVIATION  # per standard deviation
PAPER_RADIUS = 1.0 / PAPER_DEVIATION  # standard deviations


def count(least: int = 1, most: int = 10**9) -> Check:
    """Accepts whole numbers; of what `explain` makes room for few, since a saved file may say anything."""
    return whole(least, most)


SHARE, POSITIVE, ANY = real(0, 1), real(0), real(-1e300)


@documented
@dataclass(frozen=True)
class ReLAXConfig:
    """Settings of ReLAX. `ReLAXConfig.paper()` follows the letter of the paper where it is explicit."""

    # Markov decision process (§4.1)
    actions: Literal["directional", "signed"] = param(
        "directional", "Two actions a number, up and down, or one signed one.", one_of(("directional", "signed"))
    )
    distance_weight: float = param(0.03, "λ of the reward, per standard deviation of L1.", POSITIVE)
    shaping: float = param(0.0, "Reward for closing the whole gap to the goal.", POSITIVE)
    # Policy optimisation (§4.2)
    discount: float = param(0.85, "One more change costs 1 less the discount.", SHARE)
    steps_of_return: int = param(3, "n of the n-step target.", count(1, 100))
    learning_rate: float = param(3e-3, "Of Adam, falling linearly to a tenth.", POSITIVE)
    batch: int = param(128, "Transitions of one update.", count())
    priority_exponent: float = param(0.6, "β of p ∝ |TD error|^β; 0 draws uniformly.", POSITIVE)
    replay: int = param(32_768, "Transitions kept.", count())
    hidden: int = param(96, "Units of a hidden layer.", count(1, 100_000))
    # Exploration (§4.3)
    exploration_start: float = param(0.3, "ε, the share of random discrete actions, at first.", SHARE)
    exploration_end: float = param(0.1, "ε at the end.", SHARE)
    state_curiosity: float = param(0.0, "Weight of r^{i,s}.", ANY)
    action_curiosity: float = param(0.0, "Weight of r^{i,a}.", ANY)
    # What the agent is trained on
    training: Literal["auto", "model", "surrogate"] = param(
        "auto", "auto: on the model, as in the paper, unless it is costly.", one_of(("auto", "model", "surrogate"))
    )
    query_budget: int | None = param(
        None,
        "Model evaluations of a surrogate model. None: 1,000 where a search runs on it too, or else 4,000.",
        whole(LEAST_QUERY_BUDGET, MOST_QUERY_BUDGET),
    )
    # Demonstrations, an addition to the paper
    demonstrations: int = param(350, "Starts that the search engine solves; 0: nothing is imitated.", count(0))
    first_updates: int = param(100, "Updates from demonstrations alone.", count(0))
    imitate_every: int = param(5, "Steps, after which the agent's own paths are polished and imitated.", count())
    # Training (Algorithm 1)
    steps: int = param(40, "Steps of all episodes side by side.", count())
    episodes: int = param(256, "Episodes side by side.", count())
    updates_per_step: int = param(12, "Updates after each step.", count())
    start_pool: int = param(2048, "Starts, each evaluated once.", count())
    balanced: bool = param(True, "Whether every predicted class is as frequent among the starts.", flag)
    made_share: float = param(0.3, "Share of the starts that are mixtures of training rows with noise.", SHARE)
    masked_share: float = param(0.5, "Share with frozen features: `vary` then works without a new fit.", SHARE)
    bounded_share: float = param(0.25, "Share with narrowed bounds: so does `bounds`.", SHARE)
    validation_rows: int = param(128, "Training rows set aside to choose the best weights.", count())
    validate_every: int = param(5, "Steps between two validations.", count())
    # ReLAX-Local (§4.4)
    local_radius: float = param(1.0, "Of the ball around a query, L2 in standard deviations.", POSITIVE)
    local_steps: int = param(60, "Steps of the fine-tuning on one query.", count(1, 100_000))
    local_episodes: int = param(16, "Episodes side by side for each query.", count(1, 10_000))
    local_batch: int = param(32, "Transitions of one update.", count(1, 100_000))
    local_updates: int = param(3, "Updates after each step.", count(1, 1_000))
    local_learning_rate: float = param(1e-3, "Of fine-tuning; from scratch it is `learning_rate`.", POSITIVE)
    pretrained: bool = param(True, "Whether Local starts from Global's weights, or from scratch.", flag)

    def __post_init__(self) -> None:
        check_parameters(self)

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
