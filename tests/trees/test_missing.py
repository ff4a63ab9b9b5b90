"""Facts about missing numbers in trees: what is looked into answers as the model does, and proofs hold."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from reference.floor import every_row, slow_floor
from reference.gaps import space_with
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier, RandomForestRegressor

from relax_plugin import BlackBox, FeatureSpace, Goal
from relax_plugin.errors import UnsupportedError
from relax_plugin.trees import missing
from relax_plugin.trees.ensemble import Decision, Tree, Trees
from relax_plugin.trees.floor import floor
from relax_plugin.trees.missing import Gap, gaps, trees_for, with_gaps_kept
from relax_plugin.trees.readers import read_trees

lightgbm = pytest.importorskip("lightgbm")
xgboost = pytest.importorskip("xgboost")

RNG = np.random.default_rng(3)
ROWS = 300
WHOLE = pd.DataFrame(
    {
        "smooth": RNG.normal(size=ROWS),
        "tenths": RNG.normal(size=ROWS).round(1),
        "count": RNG.integers(0, 7, ROWS).astype(float),
        "level": RNG.integers(0, 4, ROWS).astype(float),
    }
)
LACK = RNG.random(WHOLE.shape) < 0.25
HOLED = WHOLE.mask(LACK)
SIGNAL = WHOLE["smooth"] - WHOLE["tenths"] + 0.5 * (WHOLE["count"] - 3) - 0.6 * LACK[:, 1] + 0.8 * LACK[:, 2]
SIGNAL = SIGNAL.to_numpy() + 0.5 * RNG.normal(size=ROWS)
TARGETS: dict[str, Any] = {"two": (SIGNAL > 0).astype(int), "three": np.digitize(SIGNAL, [-0.8, 0.8]), "number": SIGNAL}
QUIET: dict[str, Any] = {"n_jobs": 1, "verbose": -1, "n_estimators": 8, "num_leaves": 6}
MODELS: dict[tuple[str, str], Any] = {
    ("forest", "two"): RandomForestClassifier(6, max_leaf_nodes=14, random_state=0),
    ("forest", "three"): RandomForestClassifier(6, max_leaf_nodes=14, random_state=0),
    ("extra trees", "two"): ExtraTreesClassifier(7, max_depth=5, random_state=0),
    ("xgboost", "two"): xgboost.XGBClassifier(n_jobs=1, n_estimators=8, max_depth=4),
    ("xgboost", "three"): xgboost.XGBClassifier(n_jobs=1, n_estimators=5, max_depth=3),
    ("lightgbm", "two"): lightgbm.LGBMClassifier(**QUIET),
    ("regression forest", "number"): RandomForestRegressor(6, max_depth=4, random_state=0),
}
for (_, kind), model in MODELS.items():
    model.fit(HOLED, TARGETS[kind])
TIGHT: dict[str, Any] = {"increase_only": ["smooth"], "bounds": {"count": (1, 4)}, "immutable": ["level"]}
QUERIES = HOLED[LACK.sum(axis=1) > 0].iloc[:14]
every_model = pytest.mark.parametrize("which", MODELS, ids=lambda which: "-".join(which).replace(" ", "-"))


def space_of(fillable: tuple[str, ...], **options: Any) -> FeatureSpace:
    return space_with(WHOLE, fillable, **options)


# Trees without missing numbers.


@pytest.mark.slow
@every_model
def test_the_trees_of_a_gap_answer_as_those_that_know_of_missing_numbers(which: tuple[str, str]) -> None:
    """Filled in or not: every mixture of codes and of numbers within the bounds."""
    space = space_of(())
    trees = read_trees(MODELS[which], space)
    rng = np.random.default_rng(0)
    numbers = WHOLE.to_numpy()[rng.integers(0, ROWS, 2000)]
    grown = 0
    for kind in range(3**4):
        state = np.array([kind // 3**j % 3 for j in range(4)])
        gap = Gap(np.arange(1), state > 0, state == 2)
        seen = trees_for(trees, gap)
        assert seen is not None
        stays = gap.missing & ~(gap.fillable & (rng.random(numbers.shape) < 0.5))
        rows = np.where(stays, space.missing_codes, numbers)
        assert (seen.scores(rows) == trees.scores(rows)).all()
        assert (seen.leaf_tree == np.sort(seen.leaf_tree)).all()
        low, high = seen.boxes
        inside = ((low < rows[:40, None]) & (rows[:40, None] <= high)).all(axis=2)
        assert (np.nonzero(inside)[1].reshape(40, -1) == seen.leaves(rows[:40])).all()
        grown = max(grown, len(seen.leaf_tree) - len(trees.leaf_tree))
        if not gap.fillable.any():
            assert len(seen.leaf_tree) <= len(trees.leaf_tree), "decided tests are gone"
    assert grown > 0


def test_thresholds_below_the_code_and_tests_that_part_the_missing_are_right() -> None:
    """A single outlier far below puts a threshold under the code; splits on being missing alone are infinite."""
    rng = np.random.default_rng(2)
    x = np.r_[rng.normal(size=20_000), [-5000.0] * 30, [np.nan] * 3000]
    y = np.select([np.isnan(x), x < -100, x < 0.5], [2, 1, 0], 1)
    frame = pd.DataFrame({"x": x, "z": rng.normal(size=len(x))})
    model = RandomForestClassifier(5, random_state=0).fit(frame, y)
    space = FeatureSpace.infer(frame[:20_000])
    trees = read_trees(model, space)
    assert (trees.cuts[0] < space.missing_codes[0]).any()
    assert np.isinf(trees.cuts[0]).any()
    seen = trees_for(trees, Gap(np.arange(1), np.array([True, False]), np.array([True, False])))
    assert seen is not None
    rows = np.column_stack([np.r_[rng.normal(size=50), [space.missing_codes[0]] * 50], rng.normal(size=100)])
    assert (seen.labels(rows) == model.predict(pd.DataFrame(space.numbers(rows), columns=["x", "z"]))).all()
    assert (seen.labels(rows)[50:] == 2).all()


@pytest.mark.parametrize("goes_left", [True, False])
@pytest.mark.parametrize("threshold", [-500.0, 0.0, np.inf, -np.inf])
def test_a_single_test_by_hand(threshold: float, goes_left: bool) -> None:
    scores, way = np.array([[0.0], [1.0], [2.0]]), np.array([goes_left, False, False])
    stump = Tree(
        np.array([0, -2, -2]), np.full(3, threshold), np.array([1, -1, -1]), np.array([2, -1, -1]), scores, way
    )
    trees = replace(Trees.joined([stump], Decision("number"), 1), codes=np.array([-64.0]))
    rows = np.array([[-64.0], [-3.0], [3.0]])
    expected = [1.0 if goes_left else 2.0] + [1.0 if x <= threshold else 2.0 for x in (-3.0, 3.0)]
    assert trees.labels(rows).tolist() == expected
    yes, no = np.array([True]), np.array([False])
    filled, kept = (trees_for(trees, Gap(np.arange(1), yes, fillable)) for fillable in (yes, no))
    assert filled is not None
    assert kept is not None
    assert filled.labels(rows).tolist() == expected
    assert kept.labels(rows[:1]).tolist() == expected[:1]
    assert len(kept.leaf_tree) == 1


def test_rows_are_grouped_by_what_they_lack_and_may_fill() -> None:
    space = space_of(("count",))
    trees = read_trees(MODELS["forest", "two"], space)
    values = space.values(QUERIES)
    limits = with_gaps_kept(space, space.limits(), values)
    found = list(gaps(trees, limits, values))
    assert sorted(np.concatenate([gap.index for gap in found]).tolist()) == list(range(len(values)))
    for gap in found:
        assert (QUERIES.isna().to_numpy()[gap.index] == gap.missing).all()
        assert (gap.fillable == gap.missing & (np.array(space.names) == "count")).all()
    assert len(found) == len(np.unique(QUERIES.isna().to_numpy(), axis=0))
    nothing = list(gaps(trees, space.limits(), space.values(WHOLE[:5])))
    assert len(nothing) == 1
    assert trees_for(trees, nothing[0]) is trees


def test_a_model_that_takes_no_missing_numbers_has_no_trees_for_a_gap() -> None:
    trees = replace(read_trees(MODELS["forest", "two"], space_of(())), missing_left=None)
    with pytest.raises(UnsupportedError, match="skipped because a number is missing"):
        trees_for(trees, Gap(np.arange(1), np.ones(4, dtype=bool), np.zeros(4, dtype=bool)))


def test_a_category_beyond_the_known_ones_is_unknown() -> None:
    space = FeatureSpace.infer(WHOLE.astype({"level": int}), categorical=["level"])
    rows = WHOLE.to_numpy()[:3].copy()
    rows[1, 3] = 4.0
    model = RandomForestClassifier(3, random_state=0).fit(WHOLE.astype({"level": int}), WHOLE["level"] > 1)
    assert read_trees(model, space).unknown(rows).tolist() == [False, True, False]


# The proved optimum.


@pytest.mark.slow
@pytest.mark.parametrize("fillable", [(), ("count",), ("smooth", "tenths", "count", "level")], ids=len)
@pytest.mark.parametrize("tight", [{}, TIGHT], ids=["free", "tight"])
@every_model
def test_the_floor_of_rows_with_gaps_is_what_brute_force_finds(
    which: tuple[str, str], tight: Any, fillable: Any
) -> None:
    space, model = space_of(fillable, **tight), MODELS[which]
    blackbox, cuts = BlackBox(model, space), read_trees(model).cuts
    blackbox.learn(space.values(WHOLE))
    start = space.values(QUERIES)
    limits = with_gaps_kept(space, space.limits(), start)
    before = blackbox.confirm(QUERIES)
    goals = (Goal.shift(1.2), Goal.between(0.4, 0.9)) if which[1] == "number" else (Goal.flip(), Goal.to(1))
    rows = np.arange(len(start))
    finite = [cut[np.isfinite(cut)] for cut in cuts]
    answered = [every_row(blackbox, space, limits.take(rows[[i]]), start[i], finite, 2) for i in rows]
    filled = 0
    for goal in goals:
        best = floor(model, space, QUERIES, goal, most_changes=2)
        bound = goal.bind(blackbox, before)
        already = bound.met(before)
        slow = [
            (0, 0.0) if already[i] else slow_floor(answered[i], space, start[i], bound.take(rows[[i]])) for i in rows
        ]
        assert best.changes.tolist() == [changes for changes, _ in slow]
        assert np.allclose(best.distance, [distance for _, distance in slow], rtol=1e-12, equal_nan=True)
        assert (best.proved == np.where(best.changes < 0, 3, best.changes)).all()
        assert limits.kept(best.values, start).all()
        filled += int(((start == space.missing_codes) & (best.values != start)).sum())
    assert filled == 0 if not fillable else filled > 0 or len(fillable) == 1


def test_filling_in_costs_one_wherever_it_leads() -> None:
    space = space_of(("smooth", "tenths", "count", "level"))
    best = floor(MODELS["forest", "two"], space, QUERIES, most_changes=1)
    start = space.values(QUERIES)
    filled = ((start == space.missing_codes) & (best.values != start)).any(axis=1)
    assert filled.any()
    assert (best.distance[filled] == 1.0).all()


def test_rows_without_gaps_have_the_floor_they_have_among_others() -> None:
    space = space_of(("count",))
    mixed = pd.concat([WHOLE[:8], QUERIES[:6]])
    together, alone = (floor(MODELS["forest", "two"], space, rows, most_changes=2) for rows in (mixed, WHOLE[:8]))
    assert (together.values[:8] == alone.values).all()
    assert (together.changes[:8] == alone.changes).all()
    assert (together.distance[:8] == alone.distance).all()


def test_what_is_not_looked_at_is_not_proved(monkeypatch: pytest.MonkeyPatch) -> None:
    space, model = space_of(("smooth", "tenths", "count", "level")), MODELS["forest", "two"]
    monkeypatch.setattr(missing, "MOST_NODES", 10)
    best = floor(model, space, pd.concat([WHOLE[:4], QUERIES]), most_changes=2)
    lacking = np.arange(len(best)) >= 4
    open_ = best.changes != 0
    assert (best.changes[lacking & open_] == -1).all()
    assert (best.proved[lacking] == 0).all()
    assert (best.proved[~lacking & open_] > 0).all()
    told = "nothing is proved, since too many of its missing numbers may be filled in"
    assert {text for text, row in zip(best.sentences(), lacking & open_, strict=True) if row} == {told}


def test_nothing_is_proved_where_a_number_may_become_missing() -> None:
    loose = space_with(WHOLE, vanishable=["count"])
    with pytest.raises(UnsupportedError, match="where a number may become missing, as 'count' may"):
        floor(MODELS["forest", "two"], loose, WHOLE[:3])
    kept = floor(MODELS["forest", "two"], loose, WHOLE[:3], limits=loose.limits(vary=["smooth", "tenths"]))
    assert (kept.proved >= 0).all()
