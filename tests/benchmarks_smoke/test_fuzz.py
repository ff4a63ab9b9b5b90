"""A few rounds of the fuzzer, the same cases every time; `make fuzz` goes on with others."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from benchmarks.fuzz.cases import Case, Counts, check
from benchmarks.fuzz.faces import FaceCase, check_face
from benchmarks.fuzz.real_cases import check_real
from benchmarks.fuzz.strategies import face_cases, group_cases, real_cases

FIXED: dict[str, Any] = {
    "derandomize": True,
    "deadline": None,
    "database": None,
    "phases": [Phase.generate, Phase.shrink],
    "suppress_health_check": list(HealthCheck),
}
pytestmark = pytest.mark.filterwarnings("ignore")


def run(strategy: Any, examples: int, judge: Callable[..., None]) -> Counts:
    """So many cases, and what was counted."""
    counts = Counts()

    @settings(max_examples=examples, **FIXED)
    @given(strategy)
    def every(case: Case | FaceCase) -> None:
        judge(case, counts)

    every()
    return counts


@pytest.mark.slow
@pytest.mark.parametrize(
    ("group", "examples", "least"), [("cheap", 30, 500), ("slow", 15, 30), ("trees", 20, 100), ("relax", 5, 30)]
)
def test_whatever_is_delivered_keeps_every_promise(group: str, examples: int, least: int) -> None:
    counts = run(group_cases(group, fewer=10), examples, check)
    assert sum(counts.delivered.values()) >= least, "a fuzzer that is refused everything proves nothing"
    assert sum(counts.refused.values()) < counts.cases / 2


@pytest.mark.slow
def test_whatever_a_face_hands_out_keeps_every_promise() -> None:
    counts = run(face_cases(), 15, check_face)
    assert counts.delivered["faces"] >= 50


@pytest.mark.slow
def test_tables_as_people_have_them_come_back_whole() -> None:
    counts = run(real_cases(20), 15, check_real)
    assert counts.delivered["real"] >= 50
    assert sum(counts.refused.values()) < counts.cases / 2
