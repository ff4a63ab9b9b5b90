"""Facts about what is written and read back: nothing is lost, and nothing that was changed is believed."""

import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from reference.tiny import QUICK, gaussian_rows, two_class_probabilities

from relax_plugin import BlackBox, Counterfactuals, Goal, ReLAX, make_explainer
from relax_plugin.errors import GoalError, InputError, SavedFileError

ROWS = gaussian_rows(120)
TINY = replace(QUICK, steps=2, episodes=8, start_pool=32)


class Cautious:
    """Its `predict` says 1 only from a probability of 0.7 on: labels and scores disagree."""

    classes_ = np.array(["no", "yes"])

    def predict_proba(self, rows: Any) -> Any:
        return two_class_probabilities(rows)

    def predict(self, rows: Any) -> Any:
        return self.classes_[(self.predict_proba(rows)[:, 1] >= 0.7).astype(int)]


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> tuple[ReLAX, Path]:
    explainer = ReLAX(Cautious(), config=TINY, progress=False, max_changes=2, max_queries=20).fit(ROWS)
    path = tmp_path_factory.mktemp("saved") / "agent"
    explainer.save(path)
    return explainer, path


@pytest.mark.slow
def test_what_was_learned_of_the_model_comes_back(saved: tuple[ReLAX, Path]) -> None:
    explainer, path = saved
    box, again = explainer.blackbox_, ReLAX.load(path, model=Cautious()).blackbox_
    assert box.strict
    assert (again.strict, again.least_probability, again.task) == (box.strict, box.least_probability, box.task)
    assert again.classes.tolist() == box.classes.tolist() == ["no", "yes"]


def test_a_model_that_took_arrays_takes_them_again(tmp_path: Path) -> None:
    """Frames can take ten times as long, and one row would not show whether an array says the same."""
    rows = pd.DataFrame(ROWS, columns=[f"x{j}" for j in range(ROWS.shape[1])])
    explainer = ReLAX(two_class_probabilities, config=TINY, progress=False, max_changes=2).fit(rows)
    explainer.save(tmp_path / "agent")
    assert explainer.blackbox_.by_arrays
    assert ReLAX.load(tmp_path / "agent", model=two_class_probabilities).blackbox_.by_arrays


@pytest.mark.slow
def test_further_models_are_not_in_the_file_and_that_is_said(saved: tuple[ReLAX, Path], tmp_path: Path) -> None:
    explainer, further = copy.copy(saved[0]), Cautious()
    explainer.also = [further]
    explainer.save(tmp_path / "agent")
    with pytest.warns(UserWarning, match=r"had to hold for 1 further models.*load\(path, model=..., also=\[...\]\)"):
        assert ReLAX.load(tmp_path / "agent", model=Cautious()).also == ()
    again = ReLAX.load(tmp_path / "agent", model=Cautious(), also=[further])
    assert again.explain(ROWS[:2]).rows_also is not None


def test_how_well_the_surrogate_knows_the_model_comes_back(saved: tuple[ReLAX, Path]) -> None:
    explainer, path = saved
    agreement = ReLAX.load(path, model=Cautious()).surrogate_.agreement
    assert agreement == explainer.surrogate_.agreement
    assert agreement.rows > 0


@pytest.mark.slow
def test_the_whole_surrogate_comes_back(saved: tuple[ReLAX, Path]) -> None:
    explainer, path = saved
    one, again = explainer.surrogate_, ReLAX.load(path, model=Cautious()).surrogate_
    for name, numbers in one.weights_by_name().items():
        np.testing.assert_array_equal(numbers, again.weights_by_name()[name], name)
    assert one.predict(ROWS).tolist() == again.predict(ROWS).tolist()
    first, second = (each.explain(ROWS[:30], n=2) for each in (explainer, ReLAX.load(path, model=Cautious())))
    assert (
        first.values.tolist() == second.values.tolist() and first.rows_queried.tolist() == second.rows_queried.tolist()
    )


def three_high(rows: Any) -> Any:
    return (np.asarray(rows)[:, :3] > 0).all(axis=1).astype(int)


def test_training_rows_come_back_and_rescue_the_same_queries(tmp_path: Path) -> None:
    options = {"config": TINY, "max_queries": 400}
    explainer = ReLAX(three_high, **options, progress=False, max_changes=3).fit(ROWS)
    explainer.save(tmp_path / "agent")
    again = ReLAX.load(tmp_path / "agent", model=three_high)
    assert again.answered_.neighbours.rows.tolist() == np.unique(ROWS, axis=0).tolist()
    assert again.max_queries == 400
    first, second = explainer.explain(ROWS), again.explain(ROWS)
    assert "near row" in first.stage
    assert first.values.tolist() == second.values.tolist() and first.stage.tolist() == second.stage.tolist()


def test_a_file_may_be_written_without_training_rows(saved: tuple[ReLAX, Path], tmp_path: Path) -> None:
    saved[0].save(tmp_path / "agent", training_rows=False)
    again = ReLAX.load(tmp_path / "agent", model=Cautious())
    assert len(again.answered_.neighbours) == 0
    assert again.explain(ROWS[:9]).found.all()


def test_a_file_in_which_a_bit_was_flipped_is_refused(saved: tuple[ReLAX, Path], tmp_path: Path) -> None:
    content = saved[1].read_bytes()
    for place in np.linspace(8, len(content) - 1, 25).astype(int):
        damaged = bytearray(content)
        damaged[place] ^= 1
        (tmp_path / "agent").write_bytes(bytes(damaged))
        with pytest.raises(SavedFileError):
            ReLAX.load(tmp_path / "agent", model=Cautious())


def test_json_in_which_a_digit_was_changed_is_refused() -> None:
    result = make_explainer("greedy", two_class_probabilities).fit(ROWS).explain(ROWS[:4])
    text = result.to_json()
    assert Counterfactuals.from_json(text).values.tolist() == result.values.tolist()
    start = text.index('"values"')
    place = next(position for position in range(start, len(text)) if text[position] in "123456789")
    other = "1" if text[place] != "1" else "2"
    with pytest.raises(SavedFileError, match="checksum"):
        Counterfactuals.from_json(f"{text[:place]}{other}{text[place + 1 :]}")


def almost_sure(rows: Any) -> Any:
    """One probability a row, which is exactly 1 in the middle of the training rows."""
    return np.where(np.abs(np.asarray(rows)).max(axis=1) < 0.5, 1.0, two_class_probabilities(rows)[:, 1])


def test_what_one_number_a_row_means_comes_back(tmp_path: Path) -> None:
    explainer = ReLAX(almost_sure, config=TINY, progress=False, max_changes=2).fit(ROWS)
    assert explainer.blackbox_.has_probabilities
    explainer.save(tmp_path / "agent")
    again = ReLAX.load(tmp_path / "agent", model=almost_sure)
    assert again.blackbox_.has_probabilities
    assert again.explain(ROWS[:9]).found.all()


@pytest.mark.parametrize("goal", [Goal.to("yes", raise_by=0.2), Goal.to(["no", "yes"], raise_by=0.2)])
def test_an_agent_for_a_class_made_likelier_is_trained_and_comes_back(goal: Goal, tmp_path: Path) -> None:
    options = TINY
    explainer = ReLAX(Cautious(), config=options, goal=goal, effort="policy", progress=False, max_changes=2).fit(ROWS)
    explainer.save(tmp_path / "agent")
    again = ReLAX.load(tmp_path / "agent", model=Cautious())
    assert again.goal_ == goal
    first, second = (each.explain(ROWS[:2]) for each in (explainer, again))
    assert first.values.tolist() == second.values.tolist()
    assert explainer.history_.rows


@pytest.mark.slow
@pytest.mark.parametrize("goal", [Goal.between([0.0, 1.0], [0.5, None]), Goal.shift(0.5, direction="down")])
def test_an_agent_for_ranges_a_row_and_for_a_direction_is_trained_and_comes_back(goal: Goal, tmp_path: Path) -> None:
    model = BlackBox(lambda rows: rows[:, 0] - rows[:, 1], task="regression")
    for few in (None, 20):
        options = {"config": TINY, "goal": goal, "max_queries": few, "progress": False, "max_changes": 2}
        explainer = ReLAX(model, **options, effort="policy").fit(ROWS)
        explainer.save(tmp_path / "agent")
        again = ReLAX.load(tmp_path / "agent", model=model)
        assert again.goal_ == goal and explainer.history_.rows
        assert again.explain(ROWS[:2]).values.tolist() == explainer.explain(ROWS[:2]).values.tolist()


def test_a_regressor_without_a_goal_is_saved_and_asked_with_one(tmp_path: Path) -> None:
    regressor = BlackBox(lambda rows: np.asarray(rows) @ np.linspace(1, 2, ROWS.shape[1]), task="regression")
    config = TINY
    explainer = ReLAX(regressor, config=config, progress=False, effort="policy").fit(ROWS)
    assert explainer.goal_ is None and explainer.history_.rows
    explainer.save(tmp_path / "agent")
    again = ReLAX.load(tmp_path / "agent", model=regressor)
    for one in (explainer, again):
        with pytest.raises(GoalError, match="a regressor needs a goal: pass goal="):
            one.explain(ROWS[:3])
    found, same = (one.explain(ROWS[:20], goal=Goal.shift(0.5)) for one in (explainer, again))
    np.testing.assert_array_equal(found.values, same.values)
    assert again.n_features_in_ == ROWS.shape[1]


def test_saving_to_a_symbolic_link_writes_its_target(saved: tuple[ReLAX, Path], tmp_path: Path) -> None:
    explainer, _ = saved
    (tmp_path / "models").mkdir()
    target, link = tmp_path / "models" / "agent", tmp_path / "latest"
    target.write_bytes(b"an older agent")
    link.symlink_to(target)
    explainer.save(link)
    assert link.is_symlink() and link.resolve() == target
    assert target.read_bytes() == link.read_bytes() != b"an older agent"
    assert not list(tmp_path.rglob(".*"))


MIXED = pd.DataFrame(
    {
        "a": np.random.default_rng(0).normal(size=80).round(2),
        "town": pd.Series(["Rome", "Bonn", "Oslo", None] * 20, dtype=object),
        "when": pd.date_range("2020-01-01", periods=80),
        "tags": pd.Series([["x"], [], ["x", "y"], ["z"]] * 20, dtype=object),
    }
)


def of_mixed(rows: Any) -> Any:
    high = 1 / (1 + np.exp(-2.0 * rows["a"].to_numpy(dtype=float) - (rows["town"] == "Rome").to_numpy()))
    return np.column_stack([1 - high, high])


def test_training_rows_without_missing_cells_come_back_and_one_cell_of_each_carried_column(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="when|tags"):
        explainer = ReLAX(of_mixed, config=TINY, progress=False).fit(MIXED)
    explainer.save(tmp_path / "agent")
    again = ReLAX.load(tmp_path / "agent", model=of_mixed)
    kept = pd.DataFrame(again.space_.model_input(again.answered_.neighbours.rows))
    assert sorted(kept["a"]) == sorted(MIXED.dropna()["a"])
    assert kept["tags"].map(tuple).nunique() == 1
    assert again.explain(MIXED[:6]).found.all()


class Own:
    """A cell that no file can hold."""


def test_a_carried_column_that_no_file_can_hold_is_refused(tmp_path: Path) -> None:
    rows = MIXED.drop(columns="town").assign(tags=pd.Series([Own() for _ in range(80)], dtype=object))
    with pytest.warns(UserWarning, match="when|tags"):
        explainer = ReLAX(lambda x: (x["a"] > 0).astype(int), config=TINY, progress=False).fit(rows)
    with pytest.raises(InputError, match=r"feature 'tags' has .*, which a file cannot hold"):
        explainer.save(tmp_path / "agent")
