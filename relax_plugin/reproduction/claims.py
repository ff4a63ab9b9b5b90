"""The paper's claims, each held against our measurements. A claim counts as held only if the intervals part."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

import pandas as pd

from relax_plugin.reproduction.intervals import Interval, Outcome, by_seed
from relax_plugin.reproduction.plan import ARCHITECTURES, LAMBDAS, LOOK_INSIDE, MOST_CHANGES, PAIRS, PEERS, SHIFTS
from relax_plugin.reproduction.results import at_cap

Status = Literal["held", "held in part", "not held", "reversed", "not measured"]

OF_THE_PAPER = (
    *("nearest-ct", "lore", "dice-random", "dice-genetic", "dice-kdtree"),
    *("mace", "feat-tweak", "focus", "deepfool", "grace"),
)
NOT_IN_THE_PAPER = ("greedy", "move-table", "surrogate-search")
AGNOSTIC = tuple(name for name in PEERS if name not in LOOK_INSIDE and not name.startswith("relax"))
LARGEST, SMALLEST = "sonar/mlp", "sonar/mlp-64"

Tables = Mapping[str, pd.DataFrame]


@dataclass(frozen=True)
class Claim:
    """One claim of the paper in our words, what became of it, and by how much."""

    source: str
    text: str
    status: Status
    evidence: str


@dataclass(frozen=True)
class Duel:
    """ReLAX-Global against one method, at one cap, on the rows that both were given."""

    task: str
    method: str
    cap: int
    ours: Interval
    theirs: Interval

    @property
    def outcome(self) -> Outcome:
        return self.ours.against(self.theirs)

    @property
    def lower_by_more_than_a_deviation(self) -> bool:
        """Whether ReLAX is behind by more than one standard deviation, the larger of both."""
        spread = max(self.ours.deviation, self.theirs.deviation)
        return self.theirs.mean - self.ours.mean > spread + 1e-12


def duels(sparsity: pd.DataFrame, methods: Iterable[str]) -> list[Duel]:
    """Validity with at most k changes, for every pair of data set and model, method and cap that was measured."""
    found = []
    for task in PAIRS:
        for method in methods:
            mine = sparsity[(sparsity["task"] == task) & (sparsity["method"] == method)]
            for cap in range(1, MOST_CHANGES + 1):
                lines = at_cap(mine, cap)
                ours, theirs = by_seed(lines, f"same_validity@{cap}"), by_seed(lines, f"validity@{cap}")
                if ours.count and theirs.count:
                    found.append(Duel(task, method, cap, ours, theirs))
    return found


def all_claims(tables: Tables) -> list[Claim]:
    """Every claim that the tables at hand can decide."""
    makers = {
        "sparsity": (_trade_off, _trade_off_beyond, _softened, _dense, _proximity, _time),
        "regression": (_harder, _local_regression),
        "lambda": (_lambda,),
        "architecture": (_robust, _beats_at_each_size, _local_on_sonar),
        "pretraining": (pretraining_claim,),
        "ablation": (_curiosity,),
    }
    return [make(tables[part]) for part, functions in makers.items() if part in tables for make in functions]


def _counted(outcomes: Iterable[Outcome], what: str) -> tuple[Status, str]:
    """Status and words for many comparisons, of which "higher" is what the paper claims."""
    count = Counter(outcomes)
    total = sum(count.values())
    if total == 0:
        return "not measured", "nothing to compare"
    words = f"{what}: {count['higher']} of {total} intervals part for ReLAX, {count['lower']} against it, "
    words += f"{count['overlap']} overlap"
    if count["higher"] == total:
        return "held", words
    if count["higher"] == 0:
        return ("reversed" if count["lower"] else "not held"), words
    return "held in part", words


def _trade_off(sparsity: pd.DataFrame) -> Claim:
    status, evidence = _counted(
        (d.outcome for d in duels(sparsity, OF_THE_PAPER)), "validity, each pair, method and cap"
    )
    behind = [d for d in duels(sparsity, OF_THE_PAPER) if d.outcome == "lower"]
    evidence += "".join(f"; behind {d.method} on {d.task} at k = {d.cap}" for d in behind)
    text = "At every cap on the number of changed features ReLAX is more often valid than every other method."
    return Claim("Figure 3", text, status, evidence)


def _trade_off_beyond(sparsity: pd.DataFrame) -> Claim:
    status, evidence = _counted(
        (d.outcome for d in duels(sparsity, NOT_IN_THE_PAPER)), "validity, each pair, method and cap"
    )
    greedy = sparsity[(sparsity["method"] == "greedy") & (sparsity["cap"] == MOST_CHANGES)]
    ratios = [
        f"{task} {part['common_L1_ours'].mean() / part['common_L1'].mean():.2f}"
        for task, part in greedy.groupby("task", sort=False)
    ]
    evidence += "; L1 of ReLAX divided by that of greedy search on common rows: " + ", ".join(ratios)
    text = "The same against methods the paper does not know: greedy search, a table of moves, search on a copy."
    return Claim("not in the paper", text, status, evidence)


def _softened(sparsity: pd.DataFrame) -> Claim:
    free = sparsity[sparsity["cap"].isna()]
    outcomes, words = [], []
    for task in PAIRS:
        lore = by_seed(free[(free["task"] == task) & (free["method"] == "lore")], "validity")
        capped = sparsity[(sparsity["task"] == task) & (sparsity["method"] == "lore") & (sparsity["cap"] == 1)]
        if lore.count and len(capped):
            outcomes.append(lore.against(by_seed(capped, "validity")))
            words.append(f"{task} {by_seed(capped, 'validity').mean:.2f} → {lore.mean:.2f}")
    status, _ = _counted(outcomes, "")
    evidence = "validity of LORE with at most one change → without a cap: " + ", ".join(words)
    return Claim("Figure 3", "Without a strict cap LORE catches up.", status, evidence)


def _dense(sparsity: pd.DataFrame) -> Claim:
    free = sparsity[sparsity["cap"].isna() & sparsity["method"].isin(["nearest-ct", "deepfool"])]
    outcomes: list[Outcome] = []
    words = []
    for (task, method), part in free.groupby(["task", "method"], sort=False):
        changed = by_seed(part, "L0")
        if changed.count:
            outcomes.append("higher" if changed.low > MOST_CHANGES else "overlap")
            words.append(f"{method} on {task} {changed.mean:.1f}")
    status, _ = _counted(outcomes, "")
    text = f"DeepFool and Nearest-CT change a large part of the features (more than {MOST_CHANGES})."
    return Claim("§5.2", text, status, "features changed without a cap: " + ", ".join(words))


def _proximity(sparsity: pd.DataFrame) -> Claim:
    outcomes: list[Outcome] = []
    words = []
    for method in ("lore", "mace"):
        mine = sparsity[(sparsity["method"] == method) & (sparsity["cap"] == MOST_CHANGES)]
        for task, part in mine.groupby("task", sort=False):
            ours, theirs = Interval.of(part["common_L1_ours"]), Interval.of(part["common_L1"])
            if theirs.count:
                outcomes.append(theirs.against(ours))  # the higher their distance, the better for ReLAX
                words.append(f"{task} {method} {theirs.mean:.2f}, ReLAX {ours.mean:.2f}")
    status, evidence = _counted(outcomes, "L1 on common rows")
    text = "ReLAX's counterfactuals are closer (L1) than those of LORE and MACE."
    return Claim("Table 4", text, status, f"{evidence}; " + ", ".join(words))


def seconds_for_all(frame: pd.DataFrame, test_rows: float) -> Interval:
    """Seconds of fit and of so many rows, from the seconds of a row that were measured."""
    each = frame["explain_seconds"] / frame["instances"]
    return Interval.of((frame["fit_seconds"] + each * test_rows)[frame["state"] == "ok"])


def _time(sparsity: pd.DataFrame) -> Claim:
    outcomes: list[Outcome] = []
    words = []
    capped = sparsity[sparsity["cap"] == MOST_CHANGES]
    for task in PAIRS:
        of_task = capped[capped["task"] == task]
        relax = of_task[of_task["method"] == "relax-global"]
        rows = float(relax["instances"].max())
        ours = seconds_for_all(relax, rows)
        for method in ("lore", "mace"):
            theirs = seconds_for_all(of_task[of_task["method"] == method], rows)
            if theirs.count:
                outcomes.append(theirs.against(ours))
                words.append(f"{task} {ours.mean:.0f} s, {method} {theirs.mean:.0f} s for {rows:.0f} rows")
    status, evidence = _counted(outcomes, "seconds")
    text = "With training included ReLAX takes less time than LORE and MACE."
    return Claim("Table 4", text, status, f"{evidence}; " + ", ".join(words))


def _harder(regression: pd.DataFrame) -> Claim:
    easy, hard = (_of_shift(regression, "relax-global, policy", shift) for shift in (SHIFTS[0], SHIFTS[-1]))
    a, b = by_seed(easy, "validity"), by_seed(hard, "validity")
    status, _ = _counted([a.against(b)], "")
    search = [by_seed(_of_shift(regression, "relax-global", shift), "validity").mean for shift in SHIFTS]
    evidence = f"policy alone: δ = {SHIFTS[0]} {a.text(3)}, δ = {SHIFTS[-1]} {b.text(3)}; with the default search "
    evidence += " / ".join(f"{value:.3f}" for value in search)
    return Claim("Table 3", "The larger δ, the harder it is to find a valid counterfactual.", status, evidence)


def _local_regression(regression: pd.DataFrame) -> Claim:
    outcomes, words = [], []
    for shift in SHIFTS:
        local, global_ = (
            by_seed(_of_shift(regression, f"relax-{variant}, policy", shift), "validity")
            for variant in ("local", "global")
        )
        outcomes.append(local.against(global_))
        words.append(f"δ = {shift}: {local.text(3)} against {global_.text(3)}")
    status, _ = _counted(outcomes, "")
    text = "On Boston Housing Local is more often valid than Global."
    return Claim("Table 3", text, status, "policies alone: " + ", ".join(words))


def _of_shift(regression: pd.DataFrame, method: str, shift: float) -> pd.DataFrame:
    return regression[(regression["task"] == f"boston/mlp {shift} range") & (regression["method"] == method)]


def _lambda(table: pd.DataFrame) -> Claim:
    policy = {weight: table[table["setting"].astype(float) == weight] for weight in LAMBDAS}
    smallest, largest = LAMBDAS[0], LAMBDAS[-1]
    # Where nothing is solved there is no sparsity: it is compared at the largest λ at which every seed solves some.
    last = max(weight for weight, part in policy.items() if by_seed(part, "L0").count == len(part))
    valid = by_seed(policy[smallest], "validity"), by_seed(policy[largest], "validity")
    changed = by_seed(policy[smallest], "L0"), by_seed(policy[last], "L0")
    status, _ = _counted([valid[0].against(valid[1]), changed[0].against(changed[1])], "")
    evidence = f"policy alone: validity {valid[0].text()} at λ = {smallest}, {valid[1].text()} at {largest}; features "
    evidence += (
        f"changed {changed[0].text()} at {smallest}, {changed[1].text()} at {last}, the largest λ at which every "
    )
    evidence += "seed solves some query"
    text = "A larger λ gives sparser counterfactuals and less validity."
    return Claim("Figure 4", text, status, evidence)


def _cell(table: pd.DataFrame, task: str, method: str, column: str = "validity") -> Interval:
    return by_seed(table[(table["task"] == task) & (table["method"] == method)], column)


def _robust(table: pd.DataFrame) -> Claim:
    outcomes, words = [], []
    for method in ("grace", "lore"):
        small, large = _cell(table, SMALLEST, method), _cell(table, LARGEST, method)
        outcomes.append(small.against(large))
        words.append(f"{method} {small.text()} → {large.text()}")
    ours = _cell(table, SMALLEST, "relax-global"), _cell(table, LARGEST, "relax-global")
    outcomes.append("higher" if ours[0].against(ours[1]) == "overlap" else "overlap")
    words.append(f"relax-global {ours[0].text()} → {ours[1].text()}")
    status, _ = _counted(outcomes, "")
    text = "With the size of the network GRACE and LORE get worse, and ReLAX does not."
    return Claim("Table 5", text, status, "validity, 64 → 256 units: " + ", ".join(words))


def _beats_at_each_size(table: pd.DataFrame) -> Claim:
    outcomes = [
        _cell(table, task, "relax-global").against(_cell(table, task, method))
        for task in ARCHITECTURES
        for method in ("grace", "lore")
    ]
    status, evidence = _counted(outcomes, "validity, each size and method")
    return Claim("Table 5", "ReLAX-Global is more often valid than GRACE and LORE at every size.", status, evidence)


def _local_on_sonar(table: pd.DataFrame) -> Claim:
    outcomes, words = [], []
    for task, size in ARCHITECTURES.items():
        for suffix in ("", ", policy"):
            local, global_ = (_cell(table, task, f"relax-{variant}{suffix}") for variant in ("local", "global"))
            if local.count and global_.count:
                outcomes.append(local.against(global_))
                words.append(f"{size}{suffix} {local.text()} against {global_.text()}")
    status, _ = _counted(outcomes, "")
    text = "On Sonar Local is more often valid than Global."
    return Claim("Table 5", text, status, ", ".join(words))


def pretraining_claim(table: pd.DataFrame) -> Claim:
    """Whether Local with Global's weights needs less time for the validity that it has from scratch."""
    scratch = table[table["method"] == "from scratch"]
    longest = max(scratch["setting"].astype(int))
    slow = scratch[scratch["setting"].astype(int) == longest]
    aim = by_seed(slow, "validity")
    pretrained = table[table["method"] == "pretrained"]
    for steps in sorted(set(pretrained["setting"].astype(int))):
        part = pretrained[pretrained["setting"].astype(int) == steps]
        reached = by_seed(part, "validity")
        if reached.mean >= aim.mean:  # the fewest steps that do as well
            break
    times = by_seed(slow, "explain_seconds"), by_seed(part, "explain_seconds")
    totals = [Interval.of(frame["fit_seconds"] + frame["explain_seconds"]) for frame in (slow, part)]
    better = reached.mean >= aim.mean
    status, _ = _counted([times[0].against(times[1]) if better else "overlap"], "")
    evidence = f"from scratch {aim.text()} after {longest} steps in {times[0].text(1)} s; pretrained {reached.text()} "
    evidence += (
        f"after {steps} steps in {times[1].text(1)} s (fit included {totals[0].mean:.1f} and {totals[1].mean:.1f} s)"
    )
    text = "Local that begins with Global's weights is as valid in less time."
    return Claim("Table 6", text, status, evidence)


def _curiosity(table: pd.DataFrame) -> Claim:
    outcomes, words = [], []
    names = ("state curiosity", "action curiosity", "both curiosities", "both, as printed")
    for task, part in table.groupby("task", sort=False):
        usual = by_seed(part[part["setting"] == "default"], "validity")
        for name in names:
            with_it = by_seed(part[part["setting"] == name], "validity")
            outcomes.append(with_it.against(usual))
            words.append(f"{task} {name} {with_it.mean - usual.mean:+.3f}")
    status, evidence = _counted(outcomes, "validity with curiosity against without")
    evidence = evidence.replace("for ReLAX", "for curiosity")
    text = "Curiosity makes the agent better (§4.3 argues for it; no table shows it)."
    return Claim("§4.3", text, status, f"{evidence}; " + ", ".join(words))
