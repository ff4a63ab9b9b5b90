"""What to choose: the best of each wish on the queries that all solved, and a tie where noise does not part them."""

import numpy as np
import pandas as pd
import pytest

from relax_plugin.evaluation import tables
from relax_plugin.evaluation.schema import ROW
from relax_plugin.pages.headline import WISHES, Choice, Chosen, choose, of_task

QUERIES = 40


def judged(method: str, *, seed: int = 0, solved: float = 1.0, **columns: object) -> pd.DataFrame:
    """The rows of one unit; numbers that are not given are the same for every method."""
    usual = {"sparsity": 2.0, "proximity": 3.0, "rows": 50.0, "neighbour_distance": 9.0, "redundant": 0.0}
    frame = pd.DataFrame({"instance": range(QUERIES), "valid": np.arange(QUERIES) < solved * QUERIES})
    unit = {"task": "t", "method": method, "seed": seed, "state": "ok", "reason": "", "instances": QUERIES}
    unit |= {"kind": "classification", "before": "no", "after": "yes", "violations": 0, "claimed": True, "features": 9}
    unit |= {"explain_calls": 1, "fit_rows": 0.0, "max_changes": 5.0, "fit_seconds": 1.0, "fit_cpu": 1.0}
    unit |= {"explain_seconds": 0.4, "explain_cpu": 0.4, "model_seconds": 0.1, "inside_box": 1.0, "found_count": 1}
    untold = {column.name: column.missing for column in ROW if column.name not in ("instance", "valid")}
    return frame.assign(**{**untold, **unit, **usual, "diversity": np.nan, **columns})


def chosen(*units: pd.DataFrame) -> Chosen:
    rows = pd.concat(units, ignore_index=True)
    return choose(rows, of_task(tables.summary(rows), "t"))


def by_wish(made: Chosen) -> dict[str, Choice]:
    return {choice.wish: choice for choice in made.choices}


def test_each_wish_has_its_best_with_its_number() -> None:
    made = by_wish(
        chosen(
            judged("a", sparsity=1.0, rows=900.0, fit_rows=7.0),
            judged("b", proximity=1.5, explain_seconds=0.1, fit_seconds=30.0),
            judged("c", rows=5.0, fit_rows=1234.0, neighbour_distance=2.25),
        )
    )
    assert list(made) == ["Solves most", *(wish.name for wish in WISHES)]
    assert made["Solves most"].methods == ["a", "b", "c"] and made["Solves most"].number == "100.0%"
    assert (made["Sparsest"].methods, made["Sparsest"].number) == (["a"], "1.00")
    assert (made["Nearest"].methods, made["Nearest"].number) == (["b"], "1.50")
    assert (made["Cheapest"].methods, made["Cheapest"].number) == (["c"], "5")
    assert (made["Quickest"].methods, made["Quickest"].number) == (["b"], "2.50")
    assert (made["Most plausible"].methods, made["Most plausible"].number) == (["c"], "2.25")
    assert "next: b, 50" in made["Cheapest"].note and "after 1,234 in fit" in made["Cheapest"].note
    assert "after 30.0 s of fit" in made["Quickest"].note


def test_what_noise_may_have_parted_is_a_tie_and_what_it_cannot_is_none() -> None:
    noise = np.random.default_rng(0).normal(0.0, 1.0, QUERIES)
    made = by_wish(
        chosen(
            judged("a", proximity=3.0),
            judged("near", proximity=3.0 + noise - noise.mean() + 0.2),  # 0.2 is 1.3 standard errors
            judged("far", proximity=3.0 + noise - noise.mean() + 0.5),
            judged("always", proximity=3.01),  # little, but at every query
        )
    )
    assert made["Nearest"].methods == ["a", "near"]
    assert made["Nearest"].note.startswith("next: always, 3.01")
    assert set(made["Sparsest"].methods) == {"a", "near", "far", "always"}
    assert "noise" in made["Sparsest"].note


def test_who_solves_little_is_not_chosen_for_the_easy_queries() -> None:
    made = chosen(judged("a"), judged("b"), judged("picky:x=1", solved=0.5, sparsity=1.0, rows=1.0))
    assert "picky:x=1" not in made.winners and made.left_out == ["picky (50.0% solved)"]
    assert made.common == QUERIES, "its failures must not take queries from the others"


def test_only_queries_that_all_solved_are_compared() -> None:
    easy = np.where(np.arange(QUERIES) < 38, 2.0, 50.0)  # the last two are hard, and b does not solve them
    made = chosen(judged("a", sparsity=easy), judged("b", solved=0.95))
    assert made.common == 38
    assert set(by_wish(made)["Sparsest"].methods) == {"a", "b"}


@pytest.mark.parametrize(("seconds", "tied"), [(0.45, True), (0.6, False)])
def test_times_of_one_seed_are_tied_within_a_fifth(seconds: float, tied: bool) -> None:
    made = by_wish(chosen(judged("a"), judged("b", explain_seconds=seconds)))
    assert made["Quickest"].methods == (["a", "b"] if tied else ["a"])


def test_times_of_several_seeds_are_compared_seed_by_seed() -> None:
    parts = [judged("a", seed=seed) for seed in range(3)]
    parts += [judged("b", seed=seed, explain_seconds=0.41 + 0.001 * seed) for seed in range(3)]
    assert by_wish(chosen(*parts))["Quickest"].methods == ["a"]


def test_one_method_or_none_leaves_nothing_to_choose() -> None:
    assert chosen(judged("a")).choices == []
    assert chosen(judged("a", valid=False), judged("b", valid=False)).choices == []
