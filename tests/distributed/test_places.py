"""Facts about where parts are worked on: processes of this machine, some of which are ended from outside."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from reference.large_files import large_rows
from sklearn.linear_model import LogisticRegression

from relax_plugin import make_explainer
from relax_plugin.distributed.parts import Part
from relax_plugin.distributed.places import MOST_BREAKS, Note, Shipped, in_processes, on_cluster
from relax_plugin.errors import InputError

PARTS = [Part(number, Path("table.csv"), number, 1) for number in range(6)]


@pytest.fixture(scope="module")
def shipped() -> Shipped:
    training = large_rows(50, 0)
    return Shipped.of(make_explainer("greedy", LogisticRegression().fit(training, training["a"] > 0)).fit(training))


class Dying:
    """Work in which the process is killed, so many times, at part 3."""

    def __init__(self, folder: Path, times: int) -> None:
        self.folder, self.times = folder, times

    def __call__(self, part: Part, shipped: Shipped) -> Note:
        solved = int(shipped.explainer().explain(large_rows(1, part.number)).found.sum())
        died = len(list(self.folder.iterdir()))
        if part.number == 3 and died < self.times:
            (self.folder / str(died)).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return {"part": part.number, "solved": solved, "process": os.getpid()}


@pytest.mark.slow
def test_parts_of_a_process_that_is_killed_are_done_again(tmp_path: Path, shipped: Shipped) -> None:
    notes = list(in_processes(Dying(tmp_path, 2), PARTS, shipped, jobs=2))
    assert sorted(note["part"] for note in notes) == list(range(6))
    assert all(note["solved"] == 1 for note in notes)
    assert len(list(tmp_path.iterdir())) == 2
    assert os.getpid() not in {note["process"] for note in notes}


@pytest.mark.slow
def test_a_part_that_kills_again_and_again_ends_the_run(tmp_path: Path, shipped: Shipped) -> None:
    with pytest.raises(InputError, match=f"a process was ended {MOST_BREAKS} times in turn"):
        list(in_processes(Dying(tmp_path, 100), PARTS[3:4], shipped, jobs=2))
    assert len(list(tmp_path.iterdir())) == MOST_BREAKS


def test_a_scheduler_that_is_not_there_is_named(shipped: Shipped) -> None:
    with pytest.raises(InputError, match=r"there is no Dask scheduler at nonsense://127.0.0.1:1"):
        list(on_cluster(Dying(Path(), 0), PARTS, shipped, "nonsense://127.0.0.1:1"))


IN_A_POOL = """
import os
from relax_plugin.distributed.places import pool
executor = pool(1)
assert executor.submit(os.getpid).result() != os.getpid()
executor.shutdown()
assert "PYTHONSAFEPATH" not in os.environ
"""


@pytest.mark.slow
def test_a_file_in_the_working_folder_does_not_stand_in_for_a_module(tmp_path: Path) -> None:
    """In a new interpreter, since the process that loky starts beside the first pool serves the others too."""
    for name in ("secrets", "token", "queue"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'EXECUTED')!r}, 'a').write('{name} ')")
    script = tmp_path / "bin" / "script.py"  # as relax-plugin is one: its folder comes first, not the working folder
    script.parent.mkdir()
    script.write_text(IN_A_POOL)
    done = subprocess.run([sys.executable, str(script)], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "EXECUTED").exists()
