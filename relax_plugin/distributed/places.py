"""Where parts are worked on: in processes of this machine, or by the workers of a Dask cluster."""

import logging
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from joblib.externals.loky import ProcessPoolExecutor, as_completed
from joblib.externals.loky.process_executor import BrokenProcessPool

from relax_plugin.distributed.folder import Note
from relax_plugin.distributed.parts import Part
from relax_plugin.distributed.shipped import Shipped
from relax_plugin.errors import InputError, MissingExtraError

logger = logging.getLogger(__name__)

Work = Callable[[Part, Shipped], Note]

NO_WORKING_FOLDER = "PYTHONSAFEPATH"  # set to 1: files there, such as secrets.py, must not stand in for modules
# Processes side by side have a core each; more threads would only be in each other's way.
ENVIRONMENT = {
    **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"), "1"),
    NO_WORKING_FOLDER: "1",
}
MOST_BREAKS = 3  # of a pool of processes, one after the other without a part that was done


def pool(workers: int) -> ProcessPoolExecutor:
    """A pool of processes that import nothing from the working folder.

    The pool also starts a process that removes its semaphores, which takes the environment of this process.
    """
    before = os.environ.get(NO_WORKING_FOLDER)
    os.environ[NO_WORKING_FOLDER] = "1"
    try:
        return ProcessPoolExecutor(workers, env=ENVIRONMENT)
    finally:
        if before is None:
            del os.environ[NO_WORKING_FOLDER]
        else:
            os.environ[NO_WORKING_FOLDER] = before


def in_processes(work: Work, parts: Sequence[Part], shipped: Shipped, jobs: int) -> Iterator[Note]:
    """The notes of the parts as they are done, by so many processes of one thread each.

    A process that the machine ends (for its memory, mostly) costs the parts under way, which are done again.
    """
    with tempfile.TemporaryDirectory(prefix="relax_plugin-") as folder:
        packed = shipped.in_file(Path(folder) / "explainer")
        left, breaks = {part.number: part for part in parts}, 0
        while left:
            executor = pool(min(jobs, len(left)))
            try:
                for task in as_completed([executor.submit(work, part, packed) for part in left.values()]):
                    note = task.result()
                    del left[note["part"]]
                    breaks = 0
                    yield note
            except BrokenProcessPool as error:
                breaks += 1
                if breaks == MOST_BREAKS:
                    raise InputError(
                        f"a process was ended {breaks} times in turn, as machines do that are short of memory; with "
                        "fewer --jobs the run goes on where it stopped, with a smaller --part-rows it begins anew in "
                        "another folder."
                    ) from error
                logger.warning("A process was ended from outside; %d parts are left, and are done anew.", len(left))
            finally:
                executor.shutdown(kill_workers=True)


def on_cluster(work: Work, parts: Sequence[Part], shipped: Shipped, scheduler: str) -> Iterator[Note]:
    """The notes of the parts as they are done, by the workers of a Dask cluster, which see the same files.

    What a worker that dies had under way, another one does.
    """
    try:
        from distributed import Client, KilledWorker
        from distributed import as_completed as completed_tasks
    except ImportError as error:
        raise MissingExtraError("backend 'dask' needs distributed: pip install 'relax-plugin[dask]'.") from error
    connect: Any = Client  # which have no types
    try:
        client = connect(scheduler, set_as_default=False)
    except (OSError, ValueError) as error:
        raise InputError(f"there is no Dask scheduler at {scheduler}: {str(error).strip()}.") from error
    with client:
        # A task of its own and no scattered data: the scheduler can have it made again if its holders die.
        packed = client.submit(_same, shipped, key=f"relax_plugin-explainer-{shipped.digest}")
        tasks = client.map(work, parts, shipped=packed, pure=False, key="relax_plugin-part")
        try:
            completed: Any = completed_tasks
            for _, note in completed(tasks, with_results=True, loop=client.loop):
                yield note
        except KilledWorker as error:
            raise InputError(
                f"workers of {scheduler} died on the same part again and again, as they do when they are short of "
                f"memory; give them more, or name a smaller --part-rows and another folder ({error})."
            ) from error


def _same(shipped: Shipped) -> Shipped:
    return shipped
