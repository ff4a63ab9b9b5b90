"""What the package of rules exports, which is loaded when it is asked for."""

import pytest

import relax_plugin
from relax_plugin import rules
from relax_plugin.rules import Rule, suggest_rules


def test_rules_and_their_suggestions_are_those_of_the_top_level_package():
    assert Rule is relax_plugin.Rule and suggest_rules is relax_plugin.suggest_rules
    assert str(Rule("a <= b")) == "a <= b"


def test_another_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="has no attribute 'sugest_rules'"):
        rules.sugest_rules  # noqa: B018
