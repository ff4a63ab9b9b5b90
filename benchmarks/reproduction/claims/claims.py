"""The paper's claims, each held against our measurements. A claim counts as held only if the intervals part.

Those about other methods are in `rivals.py`.
"""

from collections.abc import Callable, Mapping

import pandas as pd

from benchmarks.reproduction.claims import rivals
from benchmarks.reproduction.claims.comparisons import Claim, counted
from benchmarks.reproduction.claims.intervals import ZERO, Interval, by_seed
from benchmarks.reproduction.plan import ALONE, ARCHITECTURES, LAMBDAS, MOST_CHANGES, SHIFTS, VARIANTS, base_of

LARGEST, SMALLEST = "sonar/mlp", "sonar/mlp-64"
SAME = f"same_validity@{MOST_CHANGES}"  # of Global, on the rows that the other was given
NEVER_WORSE = (
    "Local keeps the answer of the Global it began with where that is better, so it can tie or win, not lose to that"
)

Tables = Mapping[str, pd.DataFrame]


def all_claims(tables: Tables) -> list[Claim]:
    """Every claim that the tables at hand can decide."""
    makers: dict[str, tuple[Callable[[pd.DataFrame], Claim], ...]] = {
        "sparsity": rivals.ABOUT_QUALITY,
        "regression": (_harder, _local_regression),
        "lambda": (_lambda,),
        "architecture": (_robust, _beats_at_each_size, _local_on_sonar),
        "pretraining": (pretraining_claim,),
        "ablation": (_curiosity,),
    }
    claims = [make(tables[part]) for part, functions in makers.items() if part in tables for make in functions]
    if {"sparsity", "models"} <= set(tables):
        claims.append(rivals.time_claim(tables["sparsity"], tables["models"], tables.get("lore_sa")))
        claims += [make(tables["sparsity"], tables["models"]) for make in rivals.ABOUT_COST]
    return claims


def _harder(regression: pd.DataFrame) -> Claim:
    easy, hard = (_of_shift(regression, f"relax-global{ALONE}", shift) for shift in (SHIFTS[0], SHIFTS[-1]))
    a, b = by_seed(easy, "validity"), by_seed(hard, "validity")
    status, _ = counted([a.against(b)], "")
    search = [by_seed(_of_shift(regression, "relax-global", shift), "validity").mean for shift in SHIFTS]
    evidence = f"the agent alone: δ = {SHIFTS[0]} {a.text(3)}, δ = {SHIFTS[-1]} {b.text(3)}; with the default search "
    evidence += " / ".join(f"{value:.3f}" for value in search)
    return Claim("Table 3", "The larger δ, the harder it is to find a valid counterfactual.", status, evidence)


def _local_regression(regression: pd.DataFrame) -> Claim:
    outcomes, words = [], []
    for shift in SHIFTS:
        lines = _of_shift(regression, f"relax-local{ALONE}", shift)
        local, global_ = by_seed(lines, "validity"), by_seed(lines, SAME)
        outcomes.append(local.against(global_))
        words.append(f"δ = {shift}: {local.text(3)} against {global_.text(3)}")
    status, _ = counted(outcomes, "")
    text = "On Boston Housing Local is more often valid than Global (agents alone, same rows)."
    return Claim("Table 3", text, status, ", ".join(words) + f"; {NEVER_WORSE}")


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
    measured = [theirs for theirs in falls.values() if theirs.count and ours.count]
    outcomes = [theirs.against(other) for theirs in measured for other in (ZERO, ours)]  # worse, and more so than ReLAX
    status, _ = counted(outcomes, "")
    words = ", ".join(f"{method} {theirs.text()}" for method, theirs in falls.items())
    evidence = f"validity lost from 64 to 256 units: {words}, ReLAX {ours.text()}"
    text = "With the size of the network GRACE and LORE get worse, and ReLAX (Global, default search) less so."
    return Claim("Table 5", text, status, evidence)


def _beats_at_each_size(table: pd.DataFrame) -> Claim:
    outcomes, words = [], []
    for task, size in ARCHITECTURES.items():
        for method in ("grace", "lore"):
            part = _cell(table, task, method)
            ours, theirs = by_seed(part, SAME), by_seed(part, "validity")
            if ours.count and theirs.count:
                outcomes.append(ours.against(theirs))
                words.append(f"{size} {ours.text()} against {method} {theirs.text()}")
    status, evidence = counted(outcomes, "each size and method, same rows")
    evidence = "; ".join([evidence, *words])
    text = "ReLAX-Global (default search) is more often valid than GRACE and LORE at every size."
    return Claim("Table 5", text, status, evidence)


def _local_on_sonar(table: pd.DataFrame) -> Claim:
    outcomes, words = [], []
    for task, size in ARCHITECTURES.items():
        for method, effort in (("relax-local", "search"), (f"relax-local{ALONE}", "agents alone")):
            lines = _cell(table, task, method)
            local, global_ = by_seed(lines, "validity"), by_seed(lines, SAME)
            if local.count and global_.count:
                outcomes.append(local.against(global_))
                words.append(f"{size}, {effort}: {local.text(3)} against {global_.text(3)}")
    status, _ = counted(outcomes, "")
    return Claim("Table 5", "On Sonar Local is more often valid than Global.", status, "; ".join([*words, NEVER_WORSE]))


def pretraining_claim(table: pd.DataFrame) -> Claim:
    """Whether Local with Global's weights needs less time for the validity that it has from scratch in the end."""
    text = "Local that begins with Global's weights is as valid in less time: of generation, and with fit."
    if not {"from scratch", "pretrained"} <= set(table["method"]):
        return Claim("Table 6", text, "not measured", "nothing to compare")
    compared = pretraining_compared(table)
    if compared is None:
        return Claim("Table 6", text, "not held", "pretrained never reaches the validity that it has from scratch")
    slow, quick = compared
    outcomes = [seconds(slow).against(seconds(quick)) for seconds in (generation, _with_fit)]
    words = []
    for name, part in (("from scratch", slow), ("pretrained", quick)):
        words.append(
            f"{name} {by_seed(part, 'validity').text(3)} after {part['setting'].iloc[0]} steps in "
            f"{generation(part).text(1)} s, with fit {_with_fit(part).text(1)} s"
        )
    most = table["setting"].astype(int) == table["setting"].astype(int).max()
    ends = (table[most & (table["method"] == name)] for name in ("pretrained", "from scratch"))
    same = " against ".join(f"{by_seed(end, 'validity').text(3)} in {_with_fit(end).text(1)} s" for end in ends)
    words.append(f"after the same {table['setting'][most].iloc[0]} steps pretrained {same} from scratch, with fit")
    before = table[table["setting"].astype(int) == 0]
    if len(before):
        words.append(f"Global itself, before any fine-tuning, {by_seed(before, 'validity').text(3)}; {NEVER_WORSE}")
    return Claim("Table 6", text, counted(outcomes, "")[0], "; ".join(words))


def pretraining_compared(table: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame] | None:
    """From scratch and pretrained, the runs of fewest steps that reach the validity of most steps from scratch."""
    steps = table["setting"].astype(int)
    runs = {
        method: [table[mine & (steps == count)] for count in sorted(set(steps[mine & (steps > 0)]))]
        for method in ("from scratch", "pretrained")
        for mine in (table["method"] == method,)
    }
    if not runs["from scratch"]:
        return None
    aim = by_seed(runs["from scratch"][-1], "validity").mean
    reached = {
        method: [part for part in parts if by_seed(part, "validity").mean >= aim] for method, parts in runs.items()
    }
    if not reached["pretrained"]:
        return None
    return reached["from scratch"][0], reached["pretrained"][0]


def generation(part: pd.DataFrame) -> Interval:
    """Seconds of generation, without fit."""
    return by_seed(part, "explain_seconds")


def _with_fit(part: pd.DataFrame) -> Interval:
    return Interval.of(part["fit_seconds"] + part["explain_seconds"])


def _curiosity(table: pd.DataFrame) -> Claim:
    """In the setting for which it was printed: the paper's own reward, no shaping, no surrogate model."""
    outcomes, words = [], []
    for task, part in table.groupby("task", sort=False):
        for name in VARIANTS:
            base = base_of(name)
            without, with_it = (by_seed(part[part["setting"] == one], "validity") for one in (base, name))
            if name.startswith("letter") and name != base and with_it.count and without.count:
                outcomes.append(with_it.against(without))
                words.append(f"{task} {name} {with_it.mean:.3f} ({with_it.mean - without.mean:+.3f})")
    status, evidence = counted(outcomes, "validity of the agent alone against no curiosity", whom="curiosity")
    text = "Curiosity makes the agent of the letter of the paper better (§4.3 argues for it; no table shows it)."
    return Claim("§4.3", text, status, f"{evidence}; " + ", ".join(words))
