"""The suites: fixed, runnable, and narrowed only where someone says so."""

import pytest

from relax_plugin.errors import UnknownNameError
from relax_plugin.evaluation.plan import suite_of

FIELD = suite_of("field")


def test_the_field_is_a_plan_that_could_run_with_every_metric_and_the_same_queries_for_all() -> None:
    plan = FIELD.plan()
    units = plan.units()
    assert len(units) == len(FIELD.tasks) * len(FIELD.methods) * FIELD.seeds
    assert {unit.metrics for unit in units} == {"all"}
    assert {unit.rows for unit in units} == {FIELD.rows}
    assert {unit.max_changes for unit in units} == {FIELD.max_changes}


def test_a_narrowed_suite_keeps_the_rest() -> None:
    small = FIELD.narrowed(tasks=["sonar/mlp"], rows=3)
    assert (small.tasks, small.rows) == (("sonar/mlp",), 3)
    assert (small.methods, small.seeds, small.limit) == (
        FIELD.methods,
        FIELD.seeds,
        FIELD.limit,
    )
    assert FIELD.narrowed() == FIELD


def test_an_unknown_suite_is_refused_with_a_hint() -> None:
    assert FIELD is FIELD
    with pytest.raises(UnknownNameError, match="field"):
        suite_of("feild")
