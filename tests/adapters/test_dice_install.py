"""`install`: DiCE's own `dice_ml.Dice` knows our names while it is asked to, and is the same as before afterwards."""

import pickle
import threading
from collections.abc import Iterator

import dice_ml
import numpy as np
import pandas as pd
import pytest
from dice_ml import Dice as Imported  # before anything is installed, as notebooks do it
from raiutils.exceptions import UserConfigValidationException
from sklearn.linear_model import LogisticRegression

from relax_plugin import list_explainers
from relax_plugin.adapters import dice as face

RNG = np.random.default_rng(0)
ROWS = pd.DataFrame(RNG.normal(size=(200, 3)), columns=["a", "b", "c"])
OUTCOME = (ROWS["a"] + ROWS["b"] > 0).astype(int)
DATA = dice_ml.Data(dataframe=ROWS.assign(y=OUTCOME), continuous_features=list(ROWS), outcome_name="y")
MODEL = dice_ml.Model(model=LogisticRegression().fit(ROWS, OUTCOME), backend="sklearn")
BEFORE = {module: dict(vars(module)) for module in (dice_ml, dice_ml.dice, dice_ml.Dice)}


def is_installed() -> bool:
    """Whether the class that was imported long ago makes one of ours; if not, that all is as it was."""
    try:
        made = Imported(DATA, MODEL, method="greedy")
    except UserConfigValidationException:
        for module, before in BEFORE.items():
            assert dict(vars(module)) == before
        return False
    assert type(made) is face.ReLAXDice
    return True


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    assert not is_installed()
    yield
    face.uninstall()
    assert not is_installed()


@pytest.mark.slow
def test_code_for_dice_runs_as_written_with_every_name_of_the_registry() -> None:
    with face.installed():
        for made_by in (Imported, dice_ml.Dice, dice_ml.dice.Dice):
            exp = made_by(DATA, MODEL, method="relax")
            assert type(exp) is face.ReLAXDice
            assert type(exp.explainer).__name__ == "ReLAX"
        for name in list_explainers():
            exp = dice_ml.Dice(DATA, MODEL, method=name, seed=7)
            assert type(exp.explainer) is type(face.Dice(DATA, MODEL, method=name).explainer)
            assert exp.explainer.seed == 7
        exp = dice_ml.Dice(DATA, MODEL, "greedy", options={"max_changes": 1})
        explanations = exp.generate_counterfactuals(ROWS[:5], total_CFs=2, desired_class="opposite")
    rows = pd.concat([example.final_cfs_df for example in explanations.cf_examples_list])
    assert (MODEL.model.predict(rows[list(ROWS)]) == rows["y"]).all()
    again = pickle.loads(pickle.dumps(exp))  # also when it is taken back
    answers = again.generate_counterfactuals(ROWS[:5], 2).cf_examples_list
    pd.testing.assert_frame_equal(pd.concat([example.final_cfs_df for example in answers]), rows)


def test_dices_own_methods_default_and_refusals_stay() -> None:
    plain = [type(dice_ml.Dice(DATA, MODEL, method=name)) for name in ("random", "genetic", "kdtree")]
    default = type(dice_ml.Dice(DATA, MODEL))
    face.install()
    assert [type(dice_ml.Dice(DATA, MODEL, method=name)) for name in ("random", "genetic", "kdtree")] == plain
    assert type(dice_ml.Dice(DATA, MODEL)) is default
    with pytest.raises(UserConfigValidationException, match="Unsupported sample strategy relaxx"):
        dice_ml.Dice(DATA, MODEL, method="relaxx")
    with pytest.raises(UserConfigValidationException, match="only supported for differentiable"):
        dice_ml.Dice(DATA, MODEL, method="gradient")


def test_a_name_of_dice_stays_dices_even_if_a_package_registers_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(face, "list_explainers", lambda: ["random", "greedy"])
    with face.installed():
        assert type(dice_ml.Dice(DATA, MODEL, method="random")).__name__ == "DiceRandom"
        assert type(face.Dice(DATA, MODEL, method="random")).__name__ == "DiceRandom"


def test_installed_twice_is_taken_back_at_once() -> None:
    face.install()
    face.install()
    assert is_installed()
    face.uninstall()
    assert not is_installed()
    face.uninstall()
    assert not is_installed()


def test_blocks_nest_and_leave_what_was_there() -> None:
    with face.installed():
        with face.installed():
            assert is_installed()
        assert is_installed()
    assert not is_installed()
    face.install()
    with face.installed():
        pass
    assert is_installed()
    with face.installed():
        face.uninstall()
        assert is_installed()  # the block still wants it
    assert not is_installed()


def test_an_exception_takes_it_back() -> None:
    with pytest.raises(ZeroDivisionError), face.installed(), face.installed():
        1 / 0  # noqa: B018
    assert not is_installed()


def test_blocks_of_threads_that_overlap_do_not_end_each_other() -> None:
    inside, leave = threading.Event(), threading.Event()

    def block() -> None:
        with face.installed():
            inside.set()
            leave.wait(60)

    other = threading.Thread(target=block)
    with face.installed():
        other.start()
        assert inside.wait(60)
    assert is_installed()
    leave.set()
    other.join()
    assert not is_installed()


def test_what_others_put_there_meanwhile_stays_theirs() -> None:
    original = dice_ml.Dice.decide_implementation_type
    face.install()
    ours = dice_ml.Dice.decide_implementation_type
    theirs = lambda self, *given, **named: ours(self, *given, **named)  # noqa: E731
    dice_ml.Dice.decide_implementation_type = theirs
    face.uninstall()
    try:
        assert dice_ml.Dice.decide_implementation_type is theirs
        with pytest.raises(UserConfigValidationException, match="Unsupported sample strategy relax"):
            dice_ml.Dice(DATA, MODEL, method="relax")
    finally:
        dice_ml.Dice.decide_implementation_type = original


def test_a_subclass_of_dices_class_is_taught_too() -> None:
    class Mine(dice_ml.Dice):  # type: ignore[misc]
        pass

    with face.installed():
        assert type(Mine(DATA, MODEL, method="greedy")) is face.ReLAXDice
