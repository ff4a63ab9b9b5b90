"""The catalogue fits the sources of today, and the runner tells a mutant that is noticed from one that is not."""

from pathlib import Path

import pytest

from benchmarks.mutants import run
from benchmarks.mutants.catalogue import Mutant, catalogue
from benchmarks.mutants.in_tree import ANOTHER_COPY, run_tests
from benchmarks.mutants.run import main

LEAST = 60  # mutants
ALL = catalogue()
NAMES = [f"{mutant.file}-{position}" for position, mutant in enumerate(ALL)]

SUM = "def add(a: int, b: int) -> int:\n    return a + b\n\n\nUNUSED = 1\n"
TESTS = """from relax_plugin.sums import add


def test_two_and_three_are_five() -> None:
    assert add(2, 3) == 5


def test_two_and_two_are_five() -> None:
    assert add(2, 2) == 5
"""
TRUE, FALSE = (f"tests/test_sums.py::test_two_and_{number}_are_five" for number in ("three", "two"))


@pytest.mark.parametrize("mutant", ALL, ids=NAMES)
def test_every_mutant_can_be_applied_and_names_a_test_that_exists(mutant: Mutant) -> None:
    assert mutant.staleness() == ""
    assert mutant.missing_test() == ""


def test_no_mutant_is_listed_twice_and_there_are_enough() -> None:
    assert len({(mutant.file, mutant.code, mutant.becomes) for mutant in ALL}) == len(ALL) >= LEAST


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """One module, and two tests of which one fails."""
    files = {
        "pyproject.toml": "[tool.pytest.ini_options]\n",
        "relax_plugin/__init__.py": "",
        "relax_plugin/sums.py": SUM,
        "tests/test_sums.py": TESTS,
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def of_sums(code: str, becomes: str, test: str = TRUE) -> Mutant:
    return Mutant("relax_plugin/sums.py", code, becomes, test)


@pytest.mark.slow
def test_only_a_mutant_whose_test_fails_is_killed(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mutants = [
        of_sums("a + b", "a - b"),
        of_sums("UNUSED = 1", "UNUSED = 2"),
        of_sums("a * b", "a / b"),
        of_sums("return a + b", "return a +"),  # no test can run where the module cannot be imported
    ]
    assert main([], checkout, mutants) == 1
    lines = capsys.readouterr().out.splitlines()
    states = [line.split(" ")[0] for line in lines if "relax_plugin/sums.py:" in line and TRUE in line]
    assert states == ["killed", "SURVIVED", "STALE", "NOT"]
    assert lines[-1] == "1 of 4 killed"
    assert (checkout / "relax_plugin/sums.py").read_text(encoding="utf-8") == SUM


@pytest.mark.slow
def test_a_test_that_fails_without_a_mutant_proves_nothing(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([], checkout, [of_sums("a + b", "a - b", FALSE)]) == 1
    told = capsys.readouterr().out
    assert "does not pass on the code as it is" in told
    assert "killed" not in told


@pytest.mark.slow
def test_a_test_is_missed_where_there_is_none(checkout: Path) -> None:
    assert of_sums("a + b", "a - b").missing_test(checkout) == ""
    assert "has no test" in of_sums("a + b", "a - b", "tests/test_sums.py::test_of_nothing").missing_test(checkout)
    assert "no file" in of_sums("a + b", "a - b", "tests/test_none.py::test_of_nothing").missing_test(checkout)


@pytest.mark.slow
def test_tests_that_saw_another_copy_are_told(checkout: Path) -> None:
    assert run_tests(checkout, "relax_plugin.sums", [TRUE], 60)[0] == 0
    code, told = run_tests(checkout, "pytest", [TRUE], 60)
    assert code == ANOTHER_COPY
    assert "not from the copy" in told


@pytest.mark.slow
def test_a_mutant_of_the_catalogue_is_killed_in_a_copy_of_this_checkout(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "SIDE_BY_SIDE", 1)
    (mutant, *_) = [one for one in ALL if one.test_file == "tests/contract/test_limits.py"]
    assert main([], mutants=[mutant]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "1 of 1 killed"
