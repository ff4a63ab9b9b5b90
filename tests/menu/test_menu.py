"""Facts about menus: what is proved is what brute force finds, and every answer keeps to its set and its rules."""

from itertools import combinations, product
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from relax_plugin import FeatureSpace, Goal, make_explainer
from relax_plugin.base import CounterfactualExplainer
from relax_plugin.errors import InputError, NotFittedError
from relax_plugin.menu.menu import IMPOSSIBLE, Menu

RNG = np.random.default_rng(4)
COUNT = 300
ROWS = pd.DataFrame(
    {
        "income": RNG.integers(10, 60, COUNT) * 100.0,
        "years": RNG.integers(0, 12, COUNT),
        "debts": RNG.integers(0, 6, COUNT),
        "member": RNG.random(COUNT) < 0.5,
    }
)
SIGNAL = (ROWS["income"] / 1000 + 0.3 * ROWS["years"] - 0.9 * ROWS["debts"] + ROWS["member"]).to_numpy()
LABELS = np.where(SIGNAL + RNG.normal(size=COUNT) > 3.5, "granted", "refused")
SPACE = FeatureSpace.infer(ROWS, increase_only=["years"], steps={"income": 100}, bounds={"income": (1000, 5000)})


def explainer(model: Any, space: FeatureSpace = SPACE, **options: Any) -> CounterfactualExplainer:
    return make_explainer("greedy", model, space, **options).fit(ROWS)


def every_answer(model: Any, space: FeatureSpace, start: np.ndarray, chosen: tuple[int, ...], goal: Any) -> float:
    """The least distance of all rows that change only these features, all asked of the model; infinite: none."""
    limits, lines = space.limits(), []
    for j in chosen:
        feature = space.features[j]
        if feature.kind == "categorical":
            line = np.arange(len(feature.categories), dtype=float)
        else:
            line = np.arange(feature.low, feature.high + feature.step / 2, feature.step)
        lines.append(np.append(line, start[j]))
    cells = np.array(list(product(*lines)))
    rows = np.repeat(start[None], len(cells), axis=0)
    rows[:, list(chosen)] = cells
    rows = rows[limits.kept(rows, np.repeat(start[None], len(rows), axis=0)) & (rows != start).any(axis=1)]
    if len(rows) == 0:
        return np.inf
    met = goal(model.predict(space.model_input(rows)))
    return space.distance(rows[met], start).min() if met.any() else np.inf


@pytest.mark.slow
@pytest.mark.parametrize(
    "model",
    [
        RandomForestClassifier(12, max_depth=5, random_state=0),
        GradientBoostingClassifier(n_estimators=10, random_state=0),
        RandomForestClassifier(4, max_depth=3, random_state=1),  # ties
    ],
    ids=["forest", "boosting", "ties"],
)
@pytest.mark.parametrize("row", [0, 1, 5])
def test_a_menu_of_trees_is_what_brute_force_finds(model: Any, row: int) -> None:
    model.fit(ROWS, LABELS)
    query = ROWS.iloc[[row]]
    menu = explainer(model).menu(query, max_changes=2)
    start, own = SPACE.values(query)[0], model.predict(query)[0]
    free = [0, 2, 3] if query["years"].item() == ROWS["years"].max() else [0, 1, 2, 3]  # which may only rise
    assert [*menu.sets] == [part for k in (1, 2) for part in combinations(free, k)]
    for place, part in enumerate(menu.sets):
        least = every_answer(model, SPACE, start, part, lambda said: said != own)
        assert menu.found[place] == menu.possible[place] == np.isfinite(least)
        if menu.found[place]:
            assert menu.result.proximity[place, 0] == pytest.approx(least, rel=1e-9)
            assert menu.closest[place]
    assert menu.result.after[menu.found, 0].tolist() == [{"granted": "refused", "refused": "granted"}[own]] * int(
        menu.found.sum()
    )


@pytest.mark.slow
def test_a_menu_of_a_regressor_is_proved_too() -> None:
    model = RandomForestRegressor(8, max_depth=4, random_state=0).fit(ROWS, SIGNAL)
    query = ROWS.iloc[[2]]
    menu = explainer(model, goal=Goal.shift(1.0)).menu(query, max_changes=1)
    before, start = model.predict(query)[0], SPACE.values(query)[0]
    for place, part in enumerate(menu.sets):
        least = every_answer(model, SPACE, start, part, lambda said: np.abs(said - before) >= 1.0)
        assert menu.found[place] == np.isfinite(least)
        assert menu.status[place] == ("found" if menu.found[place] else IMPOSSIBLE)


def linear_menu(space: FeatureSpace = SPACE, row: int = 0, **said: Any) -> tuple[Menu, Any]:
    """Of a model that nobody can look into."""
    model = LogisticRegression(max_iter=500).fit(ROWS, LABELS)
    return explainer(lambda rows: model.predict_proba(rows), space).menu(ROWS.iloc[[row]], **said), model


@pytest.mark.slow
@pytest.mark.parametrize("row", [0, 1, 5])
@pytest.mark.parametrize("hidden", [(), (12, 8)], ids=["linear", "network"])
def test_a_menu_of_a_network_calls_impossible_what_brute_force_does_not_find(hidden: Any, row: int) -> None:
    last = MLPClassifier(hidden, max_iter=800, random_state=0) if hidden else LogisticRegression()
    model = make_pipeline(StandardScaler(), last).fit(ROWS, LABELS)
    query = ROWS.iloc[[row]]
    menu = explainer(model).menu(query, max_changes=2)
    start, own = SPACE.values(query)[0], model.predict(query)[0]
    least = [every_answer(model, SPACE, start, part, lambda said: said != own) for part in menu.sets]
    assert menu.possible.tolist() == menu.found.tolist() == np.isfinite(least).tolist()
    assert 0 < menu.found.sum() < len(menu)
    assert not menu.closest[menu.found].any(), "how near an answer can be is not proved"


def test_what_is_not_proved_in_time_is_not_called_impossible(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("relax_plugin.menu.menu.SECONDS", 0.0)
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(ROWS, LABELS)
    menu = explainer(model).menu(ROWS.iloc[[0]])
    assert menu.possible.all() and not menu.found.all()


def test_of_other_models_nothing_is_called_impossible_and_answers_hold() -> None:
    menu, model = linear_menu()
    assert menu.possible.all()
    assert 0 < menu.found.sum() < len(menu)
    assert all(text == "found" or text.startswith("not found in ") for text in menu.status)
    frame = menu.result.frame
    assert (model.predict(frame[SPACE.columns]) != model.predict(ROWS.iloc[[0]])[0]).all()
    changed = menu.result.values[:, 0] != menu.result.start
    for place, part in enumerate(menu.sets):
        if menu.found[place]:
            assert len(np.flatnonzero(changed[place])) > 0 and set(np.flatnonzero(changed[place])) <= set(part)
            assert menu.enough[place] or changed[place].sum() == len(part)


@pytest.mark.slow
@pytest.mark.parametrize("model", ["trees", "any"])
def test_rules_bounds_and_what_may_vary_are_kept(model: str) -> None:
    made = RandomForestClassifier(12, max_depth=5, random_state=0) if model == "trees" else LogisticRegression()
    ruled = SPACE.with_rules(["income <= 4000", "debts >= 1"])
    one = explainer(made.fit(ROWS, LABELS), ruled)
    for row in (0, 4, 5):
        menu = one.menu(ROWS.iloc[[row]], vary=["income", "years", "debts"], bounds={"years": (0, 8)})
        assert {j for part in menu.sets for j in part} <= {0, 1, 2}
        frame = menu.result.frame
        frame = frame[menu.found[frame["query_id"]]]
        assert ((frame["income"] <= 4000) & (frame["debts"] >= 1)).all()
        assert ((frame["years"] <= 8) | (frame["years"] == ROWS["years"].iloc[row])).all()


def test_missing_cells_stay_missing() -> None:
    lightgbm = pytest.importorskip("lightgbm")
    rows = ROWS.assign(income=ROWS["income"].where(RNG.random(COUNT) < 0.8)).astype({"member": int})
    model = lightgbm.LGBMClassifier(n_estimators=8, num_leaves=6, verbose=-1, n_jobs=1).fit(rows, LABELS)
    query = rows[rows["income"].isna()].iloc[[0]]
    menu = make_explainer("greedy", model, FeatureSpace.infer(rows)).fit(rows).menu(query)
    assert 0 not in {j for part in menu.sets for j in part}
    assert menu.result.frame["income"].isna().all()


@pytest.mark.slow
def test_table_sentences_and_picture_say_the_same() -> None:
    model = RandomForestClassifier(12, max_depth=5, random_state=0).fit(ROWS, LABELS)
    menu = explainer(model).menu(ROWS.iloc[[1]])
    table = menu.table
    assert len(menu) == 10 > len(table)
    assert (table["status"] == "found").sum() == (menu.found & ~menu.enough).sum()
    assert table["status"].tolist() == sorted(table["status"], key=lambda text: text != "found")
    text = str(menu)
    for names, status in zip(table["features"], table["status"], strict=True):
        if len(names) == 1:
            assert (f"No change of {names[0]} alone would do." in text) == (status == IMPOSSIBLE)
            assert (f"A change of {names[0]} alone would do: " in text) == (status == "found")
    assert "<table" in menu._repr_html_() and repr(menu) in menu._repr_html_()
    figure = menu.plot()
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == list(ROWS.columns)


@pytest.mark.slow
@pytest.mark.parametrize("row", [0, 1, 4])
def test_no_set_is_listed_of_which_another_listed_one_is_a_part_that_does(row: int) -> None:
    menu = explainer(RandomForestClassifier(12, max_depth=5, random_state=0).fit(ROWS, LABELS)).menu(ROWS.iloc[[row]])
    listed = menu.table
    do = [set(names) for names in listed.loc[listed["status"] == "found", "features"]]
    assert do and not any(one < set(names) for one in do for names in listed["features"])
    for part, found in zip(menu.sets, menu.found, strict=True):
        assert not found or any(one <= {SPACE.names[j] for j in part} for one in do)


@pytest.mark.slow
def test_what_is_no_menu_is_refused_or_told() -> None:
    model = RandomForestClassifier(5, random_state=0).fit(ROWS, LABELS)
    with pytest.raises(InputError, match="of one row, and there are 2"):
        explainer(model).menu(ROWS[:2])
    with pytest.raises(NotFittedError):
        make_explainer("greedy", model, SPACE).menu(ROWS[:1])
    wide = pd.DataFrame(RNG.normal(size=(50, 120)), columns=[f"c{j}" for j in range(120)])
    flat = LogisticRegression().fit(wide, wide["c0"] > 0)
    with pytest.raises(InputError, match="at most 5000; lower max_changes"):
        make_explainer("greedy", flat).fit(wide).menu(wide[:1])
    granted = explainer(model).menu(ROWS[LABELS == "granted"].iloc[[0]], goal=Goal.to("granted"))
    assert granted.sentences() == ["The row meets the goal already."]
