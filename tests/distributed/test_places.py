"""Facts about where parts are worked on: processes of this machine, some of which are ended from outside."""

import os
import signal
from pathlib import Path

import pytest
from reference.large_files import large_rows
from sklearn.linear_model import LogisticRegression

from relax_plugin import make_explainer
from relax_plugin.distributed.folder import Note
from relax_plugin.distributed.parts import Part
from relax_plugin.distributed.places import MOST_BREAKS, in_processes, on_cluster
from relax_plugin.distributed.shipped import Shipped
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
