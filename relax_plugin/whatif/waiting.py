"""Waiting for a model, which may be slow or never answer: a thread a question, and patience that ends."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from relax_plugin.errors import ReLAXError

T = TypeVar("T")

SIDE_BY_SIDE = 8  # questions that are answered at the same time


class TooSlowError(ReLAXError):
    """The model has not answered in time, or too many questions before this one are still open."""


class Waiting:
    """Answers questions in threads of their own, some at the same time, and waits for each `patience` seconds at most.

    A thread cannot be stopped, so that a question that takes too long goes on in the background and keeps its place
    until it is done. The threads do not keep the program from ending.
    """

    def __init__(self, patience: float, side_by_side: int = SIDE_BY_SIDE) -> None:
        self.patience = patience
        self.side_by_side = side_by_side
        self._places = threading.BoundedSemaphore(side_by_side)

    async def answer(self, function: Callable[..., T], *arguments: Any) -> T:
        """What the function returns or raises, unless that takes too long."""
        if not self._places.acquire(blocking=False):
            raise TooSlowError(
                f"{self.side_by_side} questions are still waiting for the model; ask again when some are answered."
            )
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()

        def settle(result: Any, error: BaseException | None) -> None:
            if done.cancelled():
                return
            if error is None:
                done.set_result(result)
            else:
                done.set_exception(error)

        def work() -> None:
            result, error = None, None
            try:
                result = function(*arguments)
            except BaseException as raised:  # it is raised again where the answer is waited for
                error = raised if isinstance(raised, Exception) else RuntimeError(f"{type(raised).__name__} {raised}")
            finally:
                self._places.release()
            with suppress(RuntimeError):  # the server was stopped in the meantime: nobody waits any more
                loop.call_soon_threadsafe(settle, result, error)

        threading.Thread(target=work, name="what-if question", daemon=True).start()
        try:
            return await asyncio.wait_for(done, self.patience)
        except TimeoutError as error:
            if not done.cancelled():
                raise
            raise TooSlowError(
                f"the model has not answered within {self.patience:g} seconds; this question is no longer waited for."
            ) from error
