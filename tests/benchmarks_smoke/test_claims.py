"""Verdicts follow from intervals: each claim and target is decided by its own numbers, in the right direction."""

import re

import numpy as np
import pandas as pd
import pytest
from reference.made_up_results import claim_of, made_up, part_of

from benchmarks.reproduction.claims.claims import all_claims
from benchmarks.reproduction.claims.comparisons import duels, seconds_for_all
from benchmarks.reproduction.claims.targets import all_targets
from benchmarks.reproduction.plan import LIMIT, PAIRS, Case

MODELS = pd.DataFrame([{"task": task, "training_rows": 100} for task in PAIRS])


@pytest.mark.slow
def test_the_trade_off_is_held_only_if_all_intervals_part() -> None:
    words = "more often valid than every other"
    assert claim_of("sparsity", made_up({"relax-global": 0.95, "lore": 0.7, "mace": 0.8}), words).status == "held"
    assert (
        claim_of("sparsity", made_up({"relax-global": 0.95, "lore": 0.7, "mace": 0.95}), words).status == "held in part"
    )
    equal = made_up({"relax-global": 0.95, "lore": 0.95, "mace": 0.95}, noise=0.0)
    assert claim_of("sparsity", equal, words).status == "not held"
    lost = claim_of("sparsity", made_up({"relax-global": 0.7, "lore": 0.9, "mace": 0.9}), words)
    assert lost.status == "reversed"
    assert "behind lore on sonar/mlp at k = 1" in lost.evidence


@pytest.mark.slow
def test_where_greedy_wins_it_is_said() -> None:
    beaten = claim_of("sparsity", made_up({"relax-global": 0.7, "greedy": 0.9}), "greedy search")
    assert beaten.status == "reversed"
    assert re.search(r"0 of 30 intervals part for ReLAX, 30 against it", beaten.evidence)


@pytest.mark.slow
def test_a_target_is_missed_if_one_rival_is_ahead_by_more_than_a_deviation() -> None:
    equal, behind = (made_up({"relax-global": 0.9, "lore": 0.9, "greedy": greedy}, noise=0.0) for greedy in (0.9, 0.97))
    (met, *_), (missed, *_) = all_targets({"sparsity": equal}), all_targets({"sparsity": behind})
    assert met.met and not missed.met
    assert "greedy" in missed.evidence and "lore" not in missed.evidence


@pytest.mark.slow
def test_few_queries_decide_nothing() -> None:
    table = made_up({"relax-global": 0.95, "mace": 0.5}, noise=0.0)
    table.loc[table["method"] == "mace", "instances"] = 3
    few = claim_of("sparsity", table, "more often valid than every other")
    assert few.status == "not held" and "30 of them for want of queries" in few.evidence


def test_lambda_is_judged_also_where_nothing_is_solved() -> None:
    none = part_of("lambda", lambda case: 0.0, L0=lambda case: np.nan)
    assert all_claims({"lambda": none})[0].status == "not held"
    falls = part_of(
        "lambda",
        lambda case: 0.9 if float(case.setting) < 1 else 0.0,
        L0=lambda case: {"0.001": 3.0, "0.01": 2.0, "0.1": 1.5}.get(case.setting, np.nan) + 0.01 * case.seed,
    )
    (found,) = all_claims({"lambda": falls})
    assert found.status == "held" and "at 0.1, the largest" in found.evidence


def test_robustness_is_a_smaller_fall_and_needs_relax_to_be_measured() -> None:
    def validity(case: Case) -> float:
        large = case.task == "sonar/mlp"
        return {"grace": 0.6 if large else 0.9, "lore": 0.5 if large else 0.9}.get(case.explainer, 0.95)

    table = part_of("architecture", validity)
    assert claim_of("architecture", table, "With the size").status == "held"
    without = table[table["method"] != "relax-global"]
    assert claim_of("architecture", without, "With the size").status == "not measured"
    assert claim_of("architecture", table.assign(validity=0.95), "With the size").status == "not held"
    assert claim_of("architecture", table, "than GRACE and LORE").status == "held"


@pytest.mark.parametrize(("quicker", "status"), [(True, "held"), (False, "reversed")])
def test_pretraining_is_judged_at_the_fewest_steps_of_both(quicker: bool, status: str) -> None:
    seconds = {"pretrained": 0.1 if quicker else 1.0, "from scratch": 0.5}
    table = part_of(
        "pretraining",
        lambda case: 0.95,
        explain_seconds=lambda case: int(case.setting) * seconds[case.method] + 0.001 * case.seed,
    )
    table["validity"] = 0.95
    found = claim_of("pretraining", table, "begins with Global's weights")
    assert found.status == status
    assert found.evidence.count("after 5 steps") == 2


def test_curiosity_that_changes_nothing_is_not_held() -> None:
    table = part_of("ablation", lambda case: 0.9)
    table["validity"] = 0.9
    assert claim_of("ablation", table, "Curiosity").status == "not held"


def test_duels_are_over_every_cap() -> None:
    found = duels(made_up({"relax-global": 0.9, "lore": 0.8}), ["lore"])
    assert [(duel.task, duel.cap) for duel in found] == [(task, cap) for task in PAIRS for cap in range(1, 6)]


@pytest.mark.parametrize(("curious", "others", "status"), [(0.95, 0.8, "held"), (0.8, 0.95, "reversed")])
def test_curiosity_is_judged_in_the_setting_of_the_letter(curious: float, others: float, status: str) -> None:
    """Against the letter without it: the default, far better or worse, does not matter."""

    def validity(case: Case) -> float:
        if not case.setting.startswith("letter"):
            return 1.0 - curious
        return others if case.setting == "letter, no curiosity" else curious

    assert claim_of("ablation", part_of("ablation", validity), "Curiosity").status == status


@pytest.mark.parametrize(("sonar", "wave", "met"), [(0.81, 0.91, True), (0.7, 0.91, False), (0.81, 0.8, False)])
def test_the_letter_has_an_aim_for_each_task(sonar: float, wave: float, met: bool) -> None:
    table = part_of("ablation", lambda case: sonar if case.task == "sonar/mlp" else wave)
    assert [target.met for target in all_targets({"ablation": table})] == [met]


# Every claim in both directions: a sign turned round would be seen.


def lines_of(table: pd.DataFrame, method: str) -> "pd.Series[bool]":
    return table["method"] == method


def changed(table: pd.DataFrame, method: str, **columns: float) -> pd.DataFrame:
    """The table with other numbers in the lines of one method, a little apart from seed to seed."""
    table = table.copy()
    for column, value in columns.items():
        mine = lines_of(table, method)
        table.loc[mine, column] = value * (1.0 + 0.001 * table.loc[mine, "seed"])
    return table


def rivals() -> pd.DataFrame:
    methods = ("relax-global", "lore", "mace", "nearest-ct", "greedy", "move-table", "surrogate-search")
    return made_up(dict.fromkeys(methods, 0.9), noise=0.0)


def everywhere(**columns: float) -> pd.DataFrame:
    table = rivals()
    for method in table["method"].unique():
        table = changed(table, method, **columns)
    return table


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "columns"),
    [
        ("are sparser than those of every other", ("common_L0", "common_L0_ours")),
        ("closer in L1", ("common_L1", "common_L1_ours")),
    ],
)
def test_distances_are_decided_by_the_smaller_one(words: str, columns: tuple[str, str]) -> None:
    theirs, ours = columns
    assert claim_of("sparsity", everywhere(**{theirs: 3.0, ours: 2.0}), words).status == "held"
    assert claim_of("sparsity", everywhere(**{theirs: 2.0, ours: 3.0}), words).status == "reversed"
    few = everywhere(**{theirs: 3.0, ours: 2.0}).assign(common=5)
    assert claim_of("sparsity", few, words).status == "not held", "25 common rows decide nothing"


@pytest.mark.slow
@pytest.mark.parametrize(("capped", "free", "status"), [(0.9, 0.3, "reversed")])
def test_lore_is_judged_with_one_change_against_no_cap(capped: float, free: float, status: str) -> None:
    table = rivals()
    table.loc[lines_of(table, "lore"), "validity"] = free
    table.loc[lines_of(table, "lore") & (table["cap"] == 1), "validity"] = capped
    assert claim_of("sparsity", table, "As the cap is softened").status == status


@pytest.mark.slow
@pytest.mark.parametrize(("changes", "status"), [(3.0, "reversed")])
def test_dense_means_more_than_five(changes: float, status: str) -> None:
    table = rivals()
    table.loc[table["cap"].isna(), "L0"] = changes
    assert claim_of("sparsity", table, "DeepFool and Nearest-CT").status == status


def test_a_run_that_was_ended_took_at_least_its_time() -> None:
    line = {"state": ["timed out"], "fit_seconds": [np.nan], "explain_seconds": [np.nan], "instances": [10]}
    assert seconds_for_all(pd.DataFrame(line), 100).mean == 10 * LIMIT


@pytest.mark.parametrize(("small", "large", "status"), [(1.0, 0.8, "held"), (0.8, 1.0, "reversed")])
def test_a_larger_shift_is_harder_if_validity_falls(small: float, large: float, status: str) -> None:
    table = part_of("regression", lambda case: small if " 0.2 " in case.task else large)
    assert claim_of("regression", table, "larger δ").status == status


@pytest.mark.parametrize("part", ["regression", "architecture"])
def test_local_is_held_against_global_on_the_same_rows(part: str) -> None:
    for local, status in ((0.99, "held"), (0.8, "reversed")):  # Global has .95 on the same rows
        table = part_of(part, lambda case, local=local: local)
        assert claim_of(part, table, "Local is more often valid").status == status


@pytest.mark.parametrize(("validity", "changes", "met"), [(0.97, 2.0, True), (0.8, 2.0, False), (0.97, 3.5, False)])
def test_sonar_needs_validity_and_sparsity(validity: float, changes: float, met: bool) -> None:
    table = part_of("architecture", lambda case: validity, L0=lambda case: changes)
    assert [target.met for target in all_targets({"architecture": table})] == [met, met]


def test_pretraining_is_quicker_in_generation_but_perhaps_not_with_fit() -> None:
    table = part_of("pretraining", lambda case: 0.95, explain_seconds=lambda case: 1.0 + 0.01 * case.seed)
    table["validity"] = 0.95
    table.loc[lines_of(table, "from scratch"), "explain_seconds"] += 5.0
    table.loc[lines_of(table, "pretrained"), "fit_seconds"] = 50.0
    assert claim_of("pretraining", table, "begins with Global's weights").status == "held in part"
    (target,) = all_targets({"pretraining": table})
    assert target.met and "before any fine-tuning, 0.950" in target.evidence
