"""Where parts are worked on: in processes of this machine, or by the workers of a Dask cluster; and what they write.

A part's table is written under another name and renamed, and only then noted. Whatever ends a run loses the parts under
way; the same run, begun again, does what is not noted. Names that begin with `_` are no tables: readers of folders of
Parquet files leave them out.
"""

import hashlib
import json
import logging
import os
import tempfile
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cloudpickle
from joblib.externals.loky import ProcessPoolExecutor, as_completed
from joblib.externals.loky.process_executor import BrokenProcessPool

from relax_plugin.base import CounterfactualExplainer, fitted
from relax_plugin.distributed.parts import Part
from relax_plugin.errors import InputError, MissingExtraError, SavedFileError
from relax_plugin.files import check_folder, write_bytes, write_text
from relax_plugin.locks import fork_safe_lock

RUN = "_run.json"
NOTES = "_notes"
EXPLAINER = "_explainer.safetensors"

Note = dict[str, Any]


class Folder:
    """What a run in parts writes."""

    def __init__(self, path: Path, ending: str) -> None:
        self.path = path
        self.ending = ending

    @property
    def explainer(self) -> Path:
        """Where the fitted explainer is kept, for a run that goes on."""
        return self.path / EXPLAINER

    def table(self, number: int) -> Path:
        return self.path / f"part-{number:05d}{self.ending}"

    def holds(self, asked: Mapping[str, Any]) -> bool:
        """Whether the folder holds this run; there is none in it yet otherwise.

        Raises
        ------
        InputError
            If it holds a run of other arguments or inputs, or anything else.
        """
        check_folder(self.path, "--output")
        run = self.path / RUN
        if run.exists():
            self._refuse_another(run, json.loads(_text(asked)))
            return True
        if self.path.is_dir() and any(self.path.iterdir()):
            raise InputError(f"--output is {self.path}, which holds other files and no run in parts; name another.")
        return False

    def begin(self, asked: Mapping[str, Any]) -> None:
        """Make the folder, and note what was asked."""
        write_text(self.path / RUN, _text(asked))

    def _refuse_another(self, run: Path, asked: dict[str, Any]) -> None:
        try:
            before = json.loads(run.read_bytes())
        except (ValueError, RecursionError) as error:
            raise SavedFileError(f"{run} is damaged: {error}; remove the folder, or name another.") from error
        if not isinstance(before, dict):
            raise SavedFileError(f"{run} holds no run; remove the folder, or name another.")
        for name in sorted(before.keys() | asked.keys()):
            if before.get(name) != asked.get(name):
                raise InputError(
                    f"--output is {self.path}, which holds a run with another {name}: {_short(before.get(name))}, not "
                    f"{_short(asked.get(name))}. Name another folder, or remove this one to begin anew."
                )

    def note(self, number: int) -> Note | None:
        """What was noted of a part that is done; None if it is not."""
        path = self.path / NOTES / f"part-{number:05d}.json"
        if not self.table(number).is_file():
            return None
        try:
            noted: Note = json.loads(path.read_bytes())
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise SavedFileError(f"{path} is damaged: {error}; remove it, and the part is done again.") from error
        return noted

    def done(self, number: int, content: bytes, note: Note) -> None:
        """Write the table of a part, then that it is done."""
        write_bytes(self.table(number), content)
        write_text(self.path / NOTES / f"part-{number:05d}.json", json.dumps(note))


def files_seen(paths: list[Path]) -> list[list[Any]]:
    """The files as they are now: name, length and when they were written last. They are not read: they may be large."""
    return [[str(path.resolve()), path.stat().st_size, path.stat().st_mtime_ns] for path in paths]


def checksum(path: Path) -> str:
    """Of the content of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _text(asked: Mapping[str, Any]) -> str:
    return json.dumps(asked, indent=1, default=str)


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 120 else f"{text[:117]}..."


KEPT_WARM = 4  # explainers in a process; a cluster serves several callers

_warm: OrderedDict[str, CounterfactualExplainer] = OrderedDict()
_unpacking = fork_safe_lock()


@dataclass(frozen=True)
class Shipped:
    """An explainer with its model, packed: in `content`, or in a file of this content.

    It is a pickle, since the model is code anyway. A file is unpacked only if it is the one that was packed.
    """

    digest: str
    content: bytes | None = None
    path: Path | None = None

    @classmethod
    def of(cls, explainer: CounterfactualExplainer) -> "Shipped":
        """The explainer, packed for other processes."""
        try:
            content: bytes = cloudpickle.dumps(fitted(explainer))
        except Exception as error:  # whatever a foreign model raises
            raise InputError(
                f"the explainer cannot be sent to other processes, since its model, a {type(explainer.model).__name__}"
                f", cannot be pickled: {type(error).__name__} {error}."
            ) from error
        return cls(hashlib.sha256(content).hexdigest(), content)

    def in_file(self, path: Path) -> "Shipped":
        """The same in a file, for processes that see the same disk: the content is then not sent with each part."""
        assert self.content is not None
        path.write_bytes(self.content)
        return Shipped(self.digest, path=path)

    def explainer(self) -> CounterfactualExplainer:
        """The explainer, unpacked where this process has not done so before."""
        with _unpacking:
            if self.digest in _warm:
                _warm.move_to_end(self.digest)
                return _warm[self.digest]
            content = self.content
            if content is None:
                assert self.path is not None
                content = self.path.read_bytes()
                if hashlib.sha256(content).hexdigest() != self.digest:
                    raise SavedFileError(f"{self.path} is not the explainer that was sent; nothing of it is used.")
            made: CounterfactualExplainer = cloudpickle.loads(content)
            _warm[self.digest] = made
            while len(_warm) > KEPT_WARM:
                _warm.popitem(last=False)
            return made


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
