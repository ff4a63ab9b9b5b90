"""Workers: child processes that run units one after another, and that can be ended for real.

A method that runs too long or brings the interpreter down takes only its own process with it. A worker outlives its
units, so that importing and training the task's model are paid once, not for every unit.

Messages are pickles behind their length. The child says when it is ready, when the task is loaded, when the judge is
prepared, when the method is done and when the unit is, so that a time limit is the method's alone.
"""

import logging
import os
import pickle
import queue
import signal
import struct
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import IO, Any

import cloudpickle

from relax_plugin.errors import MissingExtraError
from relax_plugin.evaluation.plan import Unit
from relax_plugin.evaluation.schema import Row

logger = logging.getLogger(__name__)

# One thread each: methods are compared on equal terms, and workers side by side do not fight for the cores.
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS"), "1")
NO_WORKING_FOLDER = {"PYTHONSAFEPATH": "1"}  # a file there, such as secrets.py, must not stand in for a module
PHASES = {"loading the task": 1.0, "preparing the judge": 10.0, "the method": 1.0, "judging": 10.0}
"""What a unit goes through, and how many times the limit each may take: what is not the method's must not end it."""
LENGTH = struct.Struct("<Q")
STARTS = 3  # workers that may end while they start, one after another, before their unit is given up


def _path() -> list[str]:
    """What the parent finds, so that a child finds it too; last the working folder, which `python -m` puts first."""
    here = os.getcwd()
    known = sorted((folder or here for folder in sys.path), key=lambda folder: folder == here)
    return [*filter(None, [os.environ.get("PYTHONPATH")]), *known]


class Worker:
    """The parent's side of a child process."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "relax_plugin.evaluation.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=os.environ | ONE_THREAD | NO_WORKING_FOLDER | {"PYTHONPATH": os.pathsep.join(_path())},
            start_new_session=True,  # so that its own children end with it
        )
        self.ready = False
        self.lost = False
        self.waited = 0.0  # seconds that its first unit waited for it to start

    @property
    def usable(self) -> bool:
        return not self.lost and self.process.poll() is None

    def starts(self) -> bool:
        """Whether the child gets as far as to take units; waits until that is known."""
        assert self.process.stdout is not None
        started = time.perf_counter()
        try:
            while not self.ready:
                self.ready = "ready" in pickle.loads(_receive(self.process.stdout))
                self.waited = time.perf_counter() - started
        except EOFError:
            self.lost = True  # whether or not the system has noticed yet that it ended
        return self.ready

    def run(self, unit: Unit, limit: float | None) -> list[Row]:
        """The rows of a unit; a crash or a time-out is a row too, and leaves the worker unusable."""
        assert self.process.stdin is not None and self.process.stdout is not None
        late = threading.Event()
        if not self.starts():
            return [self._lost(unit, "starting", False, limit)]
        for phase, patience in PHASES.items():
            allowed = None if limit is None else patience * limit
            timer = threading.Timer(threading.TIMEOUT_MAX if allowed is None else allowed, self._end, args=(late,))
            timer.daemon = True
            timer.start()
            try:
                if phase == "loading the task":
                    _send(self.process.stdin, cloudpickle.dumps(unit))
                answer = pickle.loads(_receive(self.process.stdout))
            except (EOFError, BrokenPipeError):
                return [self._lost(unit, phase, late.is_set(), allowed)]
            finally:
                timer.cancel()
                timer.join()  # one that fires just now has ended the process
                self.lost = self.lost or late.is_set()
            if "reached" not in answer:
                break
        for line in answer.get("traceback", "").splitlines():
            logger.warning("%s on %s, seed %s: %s", unit.method.label, unit.task_name, unit.seed, line)
        if "state" in answer:
            return [unit.failure(answer["state"], answer["reason"])]
        rows: list[Row] = answer["rows"]
        waited, self.waited = self.waited, 0.0
        for row in rows:
            row["start_seconds"] += waited
        return rows

    def end(self) -> None:
        """End the process, whatever it is doing; who waits for its answer comes to the end of the pipe."""
        self._end(threading.Event())

    def close(self) -> None:
        """End the process and close its pipes, which nobody may be reading."""
        self.end()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with suppress(OSError):  # a request that could not be sent is not sent now either
                    pipe.close()

    def _end(self, late: threading.Event) -> None:
        late.set()
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            logger.debug("the worker had ended by itself")
        self.process.wait()

    def _lost(self, unit: Unit, phase: str, late: bool, limit: float | None) -> Row:
        """The row of a unit whose process has ended; what that process started is ended too."""
        self.lost = True
        code = self.process.wait()
        self._end(threading.Event())
        if late:
            return unit.failure("timed out", f"{phase} took longer than {limit:g} s and was ended")
        how = f"by signal {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
        return unit.failure("crashed", f"the process ended {how} in {phase}")


class Pool:
    """Workers that are idle, to be used again."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.idle: list[Worker] = []
        self.busy: set[Worker] = set()
        self.closings = 0

    def run(self, unit: Unit, limit: float | None) -> list[Row]:
        """Run a unit in an idle worker, or in a new one; one that ends while it starts says nothing about the unit."""
        closings = self.closings
        for _ in range(STARTS):
            worker = self._taken()
            try:
                # One that was ended because the pool is closed is not replaced: nobody would end that one.
                if worker.starts() or self.closings != closings:
                    return worker.run(unit, limit)
                logger.warning("a worker ended while it started; another one is started")
            finally:
                self._give_back(worker)
        return worker.run(unit, limit)  # which tells how the last one ended

    def close(self) -> None:
        """End all workers, the busy ones too."""
        with self.lock:
            self.closings += 1
            idle, self.idle, busy = self.idle, [], [*self.busy]
        for worker in busy:
            worker.end()
        for worker in idle:
            worker.close()

    def _taken(self) -> Worker:
        with self.lock:
            self.idle = [worker for worker in self.idle if worker.usable]
            worker = self.idle.pop() if self.idle else Worker()
            self.busy.add(worker)
        return worker

    def _give_back(self, worker: Worker) -> None:
        with self.lock:
            self.busy.discard(worker)
            if worker.usable:
                self.idle.append(worker)


POOL = Pool()


def run_unit(unit: Unit, limit: float | None) -> tuple[Unit, list[Row], float]:
    """A unit, its rows, and the seconds it took from here, in a worker of this process."""
    started = time.perf_counter()
    rows = POOL.run(unit, limit)
    return unit, rows, time.perf_counter() - started


def main() -> None:
    """The child's side: run what comes in until the parent is gone."""
    from relax_plugin.evaluation.judge import judge  # which imports what takes long: only children need it

    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)  # whatever a method prints must not mix with the answers
    # A process that a method forks must not hold the pipes: the parent would wait for an end that never comes.
    os.register_at_fork(after_in_child=partial(_let_go, requests, answers))
    inbox: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    _send(answers, pickle.dumps({"ready": True}))
    threading.Thread(target=_listen, args=(requests, inbox), daemon=True).start()
    while True:
        _attempt(inbox.get(), answers, judge)


def _attempt(request: bytes, answers: IO[bytes], judge: Callable[..., list[Row]]) -> None:
    try:
        unit: Unit = pickle.loads(request)
        started = time.perf_counter()
        task = unit.load()
        seconds = time.perf_counter() - started
        _tell(answers, "loaded")
        rows = judge(unit, task, partial(_tell, answers))
        for row in rows:
            row["task_seconds"] = seconds
        answer: dict[str, Any] = {"rows": rows}
    except MissingExtraError as error:
        answer = {"state": "skipped", "reason": f"skipped because {error}"}
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        answer = {"state": "crashed", "reason": reason, "traceback": traceback.format_exc()}
    _send(answers, pickle.dumps(answer))


def _tell(answers: IO[bytes], reached: str) -> None:
    """Say how far the unit is: each phase has a limit of its own."""
    _send(answers, pickle.dumps({"reached": reached}))


def _listen(requests: IO[bytes], inbox: "queue.SimpleQueue[bytes]") -> None:
    """Take in requests; when the parent is gone, end at once, in the middle of a unit too."""
    try:
        while True:
            inbox.put(_receive(requests))
    except EOFError:
        if os.getpgrp() == os.getpid():
            os.killpg(0, signal.SIGKILL)  # with whatever the method has started
        os._exit(0)


def _let_go(*pipes: IO[bytes]) -> None:
    for pipe in pipes:
        os.close(pipe.fileno())


def _send(pipe: IO[bytes], message: bytes) -> None:
    pipe.write(LENGTH.pack(len(message)) + message)
    pipe.flush()


def _receive(pipe: IO[Any]) -> bytes:
    header = pipe.read(LENGTH.size)
    if len(header) < LENGTH.size:
        raise EOFError("the other side has ended")
    (length,) = LENGTH.unpack(header)
    message: bytes = pipe.read(length)
    if len(message) < length:
        raise EOFError("the other side has ended")
    return message


if __name__ == "__main__":
    main()
