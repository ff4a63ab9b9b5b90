"""The solutions of the exercises run and hold. A file of its own, so that another worker runs them than the lessons."""

import pytest
from lesson_files import SOLUTIONS, check_script, name


@pytest.mark.slow
@pytest.mark.parametrize("path", SOLUTIONS, ids=name)
def test_solutions_run_as_a_script_and_their_assertions_hold(path, tmp_path):
    check_script(path, tmp_path)
