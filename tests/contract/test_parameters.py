"""Parameters are declared once: the signature, the docstring, the checks and the page of methods read them there."""

import inspect
from pathlib import Path

import griffe
import numpy as np
import pytest
from sklearn.base import clone

from relax_plugin import CounterfactualSearch
from relax_plugin.arrays import Values
from relax_plugin.base import CounterfactualExplainer, most_changes
from relax_plugin.errors import InputError
from relax_plugin.parameters import about, one_of, param, real, whole, with_parameters
from relax_plugin.problem import Problem, Proposals
from relax_plugin.registry import BUILT_IN, explainer_class

ROOT = Path(__file__).resolve().parents[2]


@with_parameters
class Declared(CounterfactualExplainer):
    """Proposes nothing.

    Attributes
    ----------
    rows_ : int
    """

    max_changes: int | None = most_changes(3, "No more are looked for.")
    tries: int = param(10, "How often it tries.", whole(1, 100))
    share: float = param(0.5, "Of the rows.", real(0, 1))
    side: str | None = param(None, "Where it looks.", one_of(("left", "right")))

    def _fit(self, values: Values, rng: np.random.Generator) -> None:
        self.rows_ = len(values)

    def _generate(self, problem: Problem, n: int, rng: np.random.Generator) -> Proposals:
        return Proposals.empty(problem, n)


def test_declared_parameters_are_those_of_scikit_learn() -> None:
    made = Declared(len, tries=3)
    of_every_method = {"model": len, "space": None, "goal": None, "max_changes": 3, "plausible": None, "seed": 0}
    assert made.get_params(deep=False) == of_every_method | {"tries": 3, "share": 0.5, "side": None}
    assert repr(made) == "Declared(model=<built-in function len>, tries=3)"
    assert clone(made).tries == 3 and made.set_params(share=1).share == 1


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("tries", 0, "tries is 0, but must be a whole number of at least 1."),
        ("tries", 101, "tries is 101, but must be a number from 1 to 100."),
        ("tries", None, "tries is None, but must be a whole number of at least 1."),
        ("share", 1.5, "share is 1.5, but must be a number from 0 to 1."),
        ("side", "lift", "side is 'lift'; did you mean 'left'?"),
        ("max_changes", 0, "max_changes is 0, but must be a whole number of at least 1."),
        ("seed", 2**63, "seed is 9223372036854775808, but must be less than 2^63."),
    ],
)
def test_a_wrong_value_is_refused_by_fit(name: str, value: object, sentence: str) -> None:
    with pytest.raises(InputError) as caught:
        Declared(lambda rows: np.zeros(len(rows)), **{name: value}).fit(np.arange(6.0).reshape(3, 2))  # type: ignore[arg-type]
    assert str(caught.value) == sentence


def test_every_method_may_change_all_features() -> None:
    rows = np.arange(6.0).reshape(3, 2)
    assert Declared(lambda rows: np.zeros(len(rows)), max_changes=None).fit(rows)._most_changes() == 2


def test_the_docstring_lists_all_parameters_before_the_attributes() -> None:
    text = str(Declared.__doc__)
    assert "max_changes : int | None, default 3\n    Largest number of features" in text
    assert "side : str | None, default None\n    Where it looks.\n\nAttributes\n----------\nrows_ : int" in text


@pytest.mark.parametrize("name", BUILT_IN)
def test_every_parameter_of_a_method_says_what_it_is(name: str) -> None:
    explainer = explainer_class(name)[0]
    for parameter in inspect.signature(explainer).parameters:
        assert about(explainer, parameter).endswith("."), parameter


def test_what_is_not_declared_has_no_meaning() -> None:
    assert about(Declared, "model") and not about(Declared, "trees") and not about(len, "obj")


@pytest.mark.slow
def test_the_site_shows_declared_parameters() -> None:
    extensions = griffe.load_extensions(str(ROOT / "docs" / "parameters.py"))
    read = griffe.load("relax_plugin", extensions=extensions, docstring_parser="numpy")["search.explainer"]
    shown = [part for part in read["CounterfactualSearch"].docstring.parsed if part.kind.value == "parameters"]
    assert [one.name for one in shown[0].value] == [*inspect.signature(CounterfactualSearch).parameters]
