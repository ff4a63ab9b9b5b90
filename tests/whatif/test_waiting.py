"""Waiting for answers that may never come: patience ends, places are given back, faults arrive where they belong."""

import asyncio
import threading

import pytest

from relax_plugin.whatif.app import TooSlowError, Waiting


def test_answers_and_faults_arrive_where_they_are_waited_for():
    waiting = Waiting(patience=60.0)

    def fault() -> None:
        raise KeyError("what was looked for")

    assert asyncio.run(waiting.answer(lambda a, b: a + b, 2, 3)) == 5
    with pytest.raises(KeyError, match="what was looked for"):
        asyncio.run(waiting.answer(fault))


def test_a_function_that_ends_its_thread_is_a_fault_too():
    def leave() -> None:
        raise SystemExit(3)

    with pytest.raises(RuntimeError, match="SystemExit 3"):
        asyncio.run(Waiting(patience=60.0).answer(leave))


def test_patience_ends_and_a_place_is_taken_until_the_work_is_done():
    held, done = threading.Event(), threading.Event()

    def slow() -> str:
        held.wait(60)
        done.set()
        return "at last"

    async def scene() -> None:
        waiting = Waiting(patience=0.05, side_by_side=1)
        with pytest.raises(TooSlowError, match=r"not answered within 0\.05 seconds"):
            await waiting.answer(slow)
        with pytest.raises(TooSlowError, match="1 questions are still waiting"):
            await waiting.answer(lambda: "at once")
        held.set()
        assert done.wait(60)
        for _ in range(3000):  # the place is given back a moment after the work is done
            await asyncio.sleep(0.01)
            if waiting._places._value:
                break
        assert await waiting.answer(lambda: "at once") == "at once"

    asyncio.run(scene())


def test_an_answer_after_the_server_has_stopped_goes_nowhere_quietly():
    held, errors = threading.Event(), []
    threading.excepthook, before = errors.append, threading.excepthook
    try:
        with pytest.raises(TooSlowError):
            asyncio.run(Waiting(patience=0.01).answer(held.wait, 10))
        held.set()
        for thread in threading.enumerate():
            if thread.name == "what-if question":
                thread.join(5)
    finally:
        threading.excepthook = before
    assert errors == []
