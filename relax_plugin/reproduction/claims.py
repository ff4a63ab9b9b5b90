"""The paper's claims, each held against our measurements. A claim counts as held only if the intervals part."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pandas as pd

from relax_plugin.reproduction.comparisons import Status, counted, duels, rows_to_explain, seconds_for_all
from relax_plugin.reproduction.intervals import Interval, Outcome, by_seed
from relax_plugin.reproduction.plan import ARCHITECTURES, LAMBDAS, MOST_CHANGES, PAIRS, SHIFTS

OF_THE_PAPER = (
    *("nearest-ct", "lore", "dice-random", "dice-genetic", "dice-kdtree"),
    *("mace", "feat-tweak", "focus", "deepfool", "grace"),
)
NOT_IN_THE_PAPER = ("greedy", "move-table", "surrogate-search")
LARGEST, SMALLEST = "sonar/mlp", "sonar/mlp-64"
SAME = f"same_validity@{MOST_CHANGES}"  # of Global, on the rows that the other was given

Tables = Mapping[str, pd.DataFrame]


@dataclass(frozen=True)
class Claim:
    """One claim of the paper in our words, what became of it, and by how much."""

    source: str
    text: str
    status: Status
    evidence: str


def all_claims(tables: Tables) -> list[Claim]:
    """Every claim that the tables at hand can decide."""
    makers: dict[str, tuple[Callable[[pd.DataFrame], Claim], ...]] = {
        "sparsity": (_trade_off, _trade_off_beyond, _sparser, _softened, _dense, _proximity),
        "regression": (_harder, _local_regression),
        "lambda": (_lambda,),
        "architecture": (_robust, _beats_at_each_size, _local_on_sonar),
        "pretraining": (pretraining_claim,),
        "ablation": (_curiosity,),
    }
    claims = [make(tables[part]) for part, functions in makers.items() if part in tables for make in functions]
    if {"sparsity", "models"} <= set(tables):
        claims.append(_time(tables["sparsity"], tables["models"]))
    return claims


def _trade_off(sparsity: pd.DataFrame) -> Claim:
    found = duels(sparsity, OF_THE_PAPER)
    status, evidence = counted((duel.outcome for duel in found), "each pair, method and cap")
    few = sum(not duel.enough for duel in found)
    evidence += f" ({few} of them for want of queries)" if few else ""
    evidence += "".join(f"; behind {d.method} on {d.task} at k = {d.cap}" for d in found if d.outcome == "lower")
    if found:
        ours, theirs = sum(duel.ours.mean for duel in found), sum(duel.theirs.mean for duel in found)
        evidence += f"; over all of them valid {ours / len(found):.3f} against {theirs / len(found):.3f}"
        evidence += f", {ours / theirs - 1.0:+.0%} (§1 says +60 %)" if theirs else ""
    alone = sparsity[sparsity["method"] == "relax-global, policy"]
    if len(alone):
        shares = [f"{task} {by_seed(part, 'validity').mean:.3f}" for task, part in alone.groupby("task", sort=False)]
        evidence += f"; the agent alone, at most {MOST_CHANGES} changes: " + ", ".join(shares)
    text = "At every cap on changed features ReLAX (here Global, default search) is more often valid than every other."
    return Claim("Figure 3", text, status, evidence)


def _trade_off_beyond(sparsity: pd.DataFrame) -> Claim:
    status, evidence = counted((d.outcome for d in duels(sparsity, NOT_IN_THE_PAPER)), "each pair, method and cap")
    greedy = sparsity[(sparsity["method"] == "greedy") & (sparsity["cap"] == MOST_CHANGES)]
    for name in ("L0", "L1"):
        ratios = [
            f"{task} {part[f'common_{name}_ours'].mean() / part[f'common_{name}'].mean():.2f}"
            for task, part in greedy.groupby("task", sort=False)
        ]
        evidence += f"; {name} of ReLAX by that of greedy search on common rows: " + ", ".join(ratios)
    text = "The same against methods the paper does not have: greedy search, a table of moves, search on a copy."
    return Claim("not in the paper", text, status, evidence)


def _sparser(sparsity: pd.DataFrame) -> Claim:
    outcomes: list[Outcome] = []
    ratios = []
    for method in OF_THE_PAPER:
        mine = sparsity[(sparsity["method"] == method) & (sparsity["cap"] == MOST_CHANGES)]
        for _, part in mine.groupby("task", sort=False):
            ours, theirs = Interval.of(part["common_L0_ours"]), Interval.of(part["common_L0"])
            if theirs.count:
                outcomes.append(theirs.against(ours))  # the more the others change, the better for ReLAX
                ratios.append(ours.mean / theirs.mean)
    status, evidence = counted(outcomes, f"features changed on common rows, at most {MOST_CHANGES}")
    if ratios:
        share = 1.0 - sum(ratios) / len(ratios)
        evidence += (
            f"; ReLAX changes {share:.0%} fewer on average (from {1 - max(ratios):.0%} to {1 - min(ratios):.0%})"
        )
    text = "Its counterfactuals are about 40 % sparser than those of the others (Global, default search)."
    return Claim("§1", text, status, evidence)


def _softened(sparsity: pd.DataFrame) -> Claim:
    outcomes, words = [], []
    for task in PAIRS:
        mine = sparsity[(sparsity["task"] == task) & (sparsity["method"] == "lore")]
        free, capped = mine[mine["cap"].isna()], mine[mine["cap"] == 1]
        if len(free) and len(capped):
            after, before = by_seed(free, "validity"), by_seed(capped, "validity")
            outcomes.append(after.against(before))
            words.append(f"{task} {before.mean:.2f} → {after.mean:.2f} (ReLAX {by_seed(free, SAME).mean:.2f})")
    status, _ = counted(outcomes, "")
    evidence = "at most one change → no cap, and ReLAX with at most five on the same rows: " + ", ".join(words)
    return Claim("Figure 3", "As the cap is softened LORE is more often valid, and nears ReLAX.", status, evidence)


def _dense(sparsity: pd.DataFrame) -> Claim:
    free = sparsity[sparsity["cap"].isna() & sparsity["method"].isin(["nearest-ct", "deepfool"])]
    outcomes: list[Outcome] = []
    words = []
    few = Interval(MOST_CHANGES, MOST_CHANGES, MOST_CHANGES, 0.0, 1)
    for (task, method), part in free.groupby(["task", "method"], sort=False):
        changed = by_seed(part, "L0")
        if changed.count:
            outcomes.append(changed.against(few))
            words.append(f"{method} on {task} {changed.mean:.1f}")
    status, _ = counted(outcomes, "")
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
    status, evidence = counted(outcomes, "L1 on common rows")
    text = "ReLAX's counterfactuals (Global, default search) are closer in L1 than those of LORE and MACE."
    return Claim("Table 4", text, status, f"{evidence}; " + ", ".join(words))


def _time(sparsity: pd.DataFrame, models: pd.DataFrame) -> Claim:
    outcomes: list[Outcome] = []
    words = []
    capped = sparsity[sparsity["cap"] == MOST_CHANGES]
    for task in PAIRS:
        of_task, rows = capped[capped["task"] == task], rows_to_explain(task, models)
        ours = seconds_for_all(of_task[of_task["method"] == "relax-global"], rows)
        for method in ("lore", "mace"):
            theirs = seconds_for_all(of_task[of_task["method"] == method], rows)
            if theirs.count:
                outcomes.append(theirs.against(ours))
                words.append(f"{task} {ours.mean:.0f} s, {method} {theirs.mean:.0f} s for {rows} rows")
    status, evidence = counted(outcomes, "seconds for all test rows")
    text = (
        "With training included ReLAX-Global takes less time than LORE and MACE (both in our implementation); the "
        "paper says up to 42 % less."
    )
    return Claim("Table 4", text, status, f"{evidence}; " + ", ".join(words))


def _harder(regression: pd.DataFrame) -> Claim:
    easy, hard = (_of_shift(regression, "relax-global, policy", shift) for shift in (SHIFTS[0], SHIFTS[-1]))
    a, b = by_seed(easy, "validity"), by_seed(hard, "validity")
    status, _ = counted([a.against(b)], "")
    search = [by_seed(_of_shift(regression, "relax-global", shift), "validity").mean for shift in SHIFTS]
    evidence = f"the agent alone: δ = {SHIFTS[0]} {a.text(3)}, δ = {SHIFTS[-1]} {b.text(3)}; with the default search "
    evidence += " / ".join(f"{value:.3f}" for value in search)
    return Claim("Table 3", "The larger δ, the harder it is to find a valid counterfactual.", status, evidence)


def _local_regression(regression: pd.DataFrame) -> Claim:
    outcomes, words = [], []
    for shift in SHIFTS:
        lines = _of_shift(regression, "relax-local, policy", shift)
        local, global_ = by_seed(lines, "validity"), by_seed(lines, SAME)
        outcomes.append(local.against(global_))
        words.append(f"δ = {shift}: {local.text(3)} against {global_.text(3)}")
    status, _ = counted(outcomes, "")
    text = "On Boston Housing Local is more often valid than Global (agents alone, same rows)."
    return Claim("Table 3", text, status, ", ".join(words))


def _of_shift(regression: pd.DataFrame, method: str, shift: float) -> pd.DataFrame:
    return regression[(regression["task"] == f"boston/mlp {shift} range") & (regression["method"] == method)]


def _lambda(table: pd.DataFrame) -> Claim:
    policy = {weight: table[table["setting"].astype(float) == weight] for weight in LAMBDAS}
    smallest, largest = LAMBDAS[0], LAMBDAS[-1]
    # Where nothing is solved there is no sparsity: it is compared at the largest λ at which every seed solves some.
    solving = [weight for weight, part in policy.items() if len(part) and by_seed(part, "L0").count == len(part)]
    valid = by_seed(policy[smallest], "validity"), by_seed(policy[largest], "validity")
    evidence = f"the agent alone: validity {valid[0].text()} at λ = {smallest}, {valid[1].text()} at {largest}"
    outcomes = [valid[0].against(valid[1])]
    if smallest in solving and solving[-1] != smallest:
        changed = by_seed(policy[smallest], "L0"), by_seed(policy[solving[-1]], "L0")
        outcomes.append(changed[0].against(changed[1]))
        evidence += f"; features changed {changed[0].text()} at {smallest}, {changed[1].text()} at {solving[-1]}, the "
        evidence += "largest λ at which every seed solves some query (each over its own solved ones)"
    status, _ = counted(outcomes, "")
    text = "A larger λ gives sparser counterfactuals and less validity."
    return Claim("Figure 4", text, status, evidence)


def _cell(table: pd.DataFrame, task: str, method: str) -> pd.DataFrame:
    return table[(table["task"] == task) & (table["method"] == method)]


def _robust(table: pd.DataFrame) -> Claim:
    def fall(method: str) -> Interval:
        """How much validity is lost from the smallest network to the largest, seed by seed."""
        small, large = (_cell(table, task, method).set_index("seed")["validity"] for task in (SMALLEST, LARGEST))
        return Interval.of(small - large)

    ours = fall("relax-global")
    falls = {method: fall(method) for method in ("grace", "lore")}
    outcomes = [theirs.against(ours) for theirs in falls.values() if theirs.count and ours.count]
    status, _ = counted(outcomes, "")
    words = ", ".join(f"{method} {theirs.text()}" for method, theirs in falls.items())
    evidence = f"validity lost from 64 to 256 units: {words}, ReLAX {ours.text()}"
    text = "With the size of the network GRACE and LORE get worse, and ReLAX (Global, default search) less so."
    return Claim("Table 5", text, status, evidence)


def _beats_at_each_size(table: pd.DataFrame) -> Claim:
    lines = [_cell(table, task, method) for task in ARCHITECTURES for method in ("grace", "lore")]
    outcomes = [by_seed(part, SAME).against(by_seed(part, "validity")) for part in lines if part[SAME].notna().any()]
    status, evidence = counted(outcomes, "each size and method, same rows")
    text = "ReLAX-Global (default search) is more often valid than GRACE and LORE at every size."
    return Claim("Table 5", text, status, evidence)


def _local_on_sonar(table: pd.DataFrame) -> Claim:
    outcomes, words = [], []
    for task, size in ARCHITECTURES.items():
        for method, effort in (("relax-local", "search"), ("relax-local, policy", "agents alone")):
            lines = _cell(table, task, method)
            local, global_ = by_seed(lines, "validity"), by_seed(lines, SAME)
            if local.count and global_.count:
                outcomes.append(local.against(global_))
                words.append(f"{size}, {effort}: {local.text()} against {global_.text()}")
    status, _ = counted(outcomes, "")
    return Claim("Table 5", "On Sonar Local is more often valid than Global.", status, "; ".join(words))


def pretraining_claim(table: pd.DataFrame) -> Claim:
    """Whether Local with Global's weights needs less time for the validity that it has from scratch in the end."""
    runs = {
        method: [part for _, part in sorted(mine.groupby(mine["setting"].astype(int)), key=lambda group: int(group[0]))]
        for method in ("from scratch", "pretrained")
        for mine in (table[table["method"] == method],)
    }
    aim = by_seed(runs["from scratch"][-1], "validity").mean
    # Of either the fewest steps that reach the aim; from scratch the last one does by definition.
    first = {
        method: next((part for part in parts if by_seed(part, "validity").mean >= aim), None)
        for method, parts in runs.items()
    }
    slow, quick = first["from scratch"], first["pretrained"]
    text = (
        "Local that begins with Global's weights is as valid in less time (generation only: Global's training is not "
        "counted, and Local keeps Global's answer where that is better)."
    )
    if slow is None or quick is None:
        return Claim("Table 6", text, "not held", f"pretrained never reaches {aim:.3f}, the validity from scratch")
    status, _ = counted([by_seed(slow, "explain_seconds").against(by_seed(quick, "explain_seconds"))], "")
    words = []
    for name, part in (("from scratch", slow), ("pretrained", quick)):
        seconds, total = by_seed(part, "explain_seconds"), (part["fit_seconds"] + part["explain_seconds"]).mean()
        words.append(
            f"{name} {by_seed(part, 'validity').text(3)} after {part['setting'].iloc[0]} steps in {seconds.text(1)} s "
            f"({total:.1f} s with fit)"
        )
    return Claim("Table 6", text, status, "; ".join(words))


def _curiosity(table: pd.DataFrame) -> Claim:
    outcomes, words = [], []
    names = ("state curiosity", "action curiosity", "both curiosities", "both, as printed")
    for task, part in table.groupby("task", sort=False):
        usual = by_seed(part[part["setting"] == "default"], "validity")
        for name in names:
            with_it = by_seed(part[part["setting"] == name], "validity")
            outcomes.append(with_it.against(usual))
            words.append(f"{task} {name} {with_it.mean - usual.mean:+.3f}")
    status, evidence = counted(outcomes, "validity of the agent alone", whom="curiosity")
    text = "Curiosity makes the agent better (§4.3 argues for it; no table shows it)."
    return Claim("§4.3", text, status, f"{evidence}; " + ", ".join(words))
