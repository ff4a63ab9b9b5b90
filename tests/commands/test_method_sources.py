"""What the list of methods reads off their source is what their classes say."""

import inspect

import pytest

from relax_plugin.commands.method_sources import defaults_of, supports_of
from relax_plugin.registry import BUILT_IN, explainer_class


@pytest.mark.parametrize("name", BUILT_IN)
def test_the_source_tells_what_the_class_supports(name: str) -> None:
    told = vars(explainer_class(name)[0].supports)
    read = supports_of(name)
    assert {"tasks", "categorical", "labels_only", "several_columns", "extra", "paper"} <= set(read)
    assert read == {key: told[key] for key in read}


@pytest.mark.parametrize("name", BUILT_IN)
def test_the_source_tells_the_defaults_of_the_class(name: str) -> None:
    parameters = inspect.signature(explainer_class(name)[0]).parameters.items()
    assert defaults_of(name) == {key: parameter.default for key, parameter in parameters if key != "model"}
