"""The registry reads methods that are written as text: name, options, and what an option itself is made of."""

import numpy as np
import pytest

from relax_plugin import ReLAXConfig, list_explainers, make_explainer
from relax_plugin.cli import main
from relax_plugin.commands.request import method
from relax_plugin.errors import InputError, UnknownNameError
from relax_plugin.evaluation.plan import Method
from relax_plugin.registry import (
    check_name,
    check_options,
    explainer_class,
    name_of,
    option_names,
    read_method,
    split_method,
    with_option,
    without_option,
)

MODEL = lambda rows: (np.asarray(rows)[:, 0] > 0).astype(int)  # noqa: E731


def test_options_are_read_as_numbers_where_they_are_some_and_else_as_text() -> None:
    name, options = read_method("relax-global:effort=policy,max_queries=120,progress=False,goal=None")
    assert name == "relax-global"
    assert options == {"effort": "policy", "max_queries": 120, "progress": False, "goal": None}
    assert read_method("greedy") == ("greedy", {})


@pytest.mark.parametrize("text", ["greedy:quantiles", "greedy:=3", "greedy:quantiles=3,"])
def test_what_is_no_option_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="write name:option=value"):
        read_method(text)


def test_an_option_is_added_and_taken_away() -> None:
    assert with_option("greedy", "quantiles", 3) == "greedy:quantiles=3"
    assert with_option("relax-global:effort=policy", "seed", 1) == "relax-global:effort=policy,seed=1"
    for text in ("move-table", "move-table:max_changes=3"):
        assert without_option(with_option(text, "max_queries", 80), "max_queries") == text
    assert split_method("relax-global:effort=policy,seed=1") == ("relax-global", "effort=policy,seed=1")


def test_what_is_written_behind_a_dot_becomes_a_part_of_the_option() -> None:
    _, options = read_method("relax-global:config.training=model,config.steps=1,effort=policy")
    explainer = make_explainer("relax-global", MODEL, **options)
    assert explainer.config == ReLAXConfig(training="model", steps=1)
    assert explainer.effort == "policy"


@pytest.mark.parametrize(
    ("option", "told"),
    [("config.step", "did you mean 'steps'"), ("confg.steps", "did you mean 'config'"), ("seed.steps", "has no parts")],
)
def test_a_part_that_there_is_not_is_refused(option: str, told: str) -> None:
    with pytest.raises(UnknownNameError, match=told):
        check_options("relax-global", [option])


def test_an_option_is_not_given_whole_and_in_parts() -> None:
    with pytest.raises(InputError, match="give one of them"):
        make_explainer("relax-global", MODEL, **{"config": ReLAXConfig(), "config.steps": 1})


def test_relax_is_accepted_wherever_relax_global_is() -> None:
    explainer = make_explainer("relax", MODEL, effort="search")
    assert (name_of(explainer), explainer.variant, explainer.effort) == ("relax-global", "global", "search")
    check_name("relax")
    assert explainer_class("relax") == explainer_class("relax-global")
    assert option_names("relax") == option_names("relax-global")
    assert read_method("relax:effort=policy") == ("relax-global", {"effort": "policy"})
    assert method("relax", ["config.steps=1"], None) == ("relax-global", {"config.steps": 1})
    assert Method.parse("relax:effort=policy").label == "relax-global:effort=policy"
    assert "relax" not in list_explainers()
    with pytest.raises(UnknownNameError, match="'relax' has no option 'efort'; did you mean 'effort'"):
        make_explainer("relax", MODEL, efort="search")


def test_bench_takes_relax_for_relax_global(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--tasks", "wave2/xgb", "--methods", "relax", "relax-global"]) == 2
    assert "method 'relax-global' is given twice" in capsys.readouterr().err
