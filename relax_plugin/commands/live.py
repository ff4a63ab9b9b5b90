"""The live line of a command that takes long: what is done, what runs, how long it took and how long it may still take.

It is there for somebody who looks at a terminal. Elsewhere, in a log or a pipe, there are whole lines only, as ever.
"""

import logging
import sys
import threading
import time
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Self

from relax_plugin.commands.text_table import displayed, terminal_width
from relax_plugin.formatting import printable

ROOM = 4  # columns behind the line, for the echo of Ctrl-C
EVERY = 1.0  # seconds between two looks of the line: the clock goes on while one run takes minutes


class Live:
    """Lines on stderr, and on a terminal one below them that says how far it is; for a `with`.

    Called with the number done, the number to do, a unit and its rows, as `runner.run` does it, it says how that one
    went; told by `started` what runs now, it shows that. `about` is what all of it belongs to, if more is to come.
    """

    def __init__(self, about: str = "") -> None:
        self.about = about
        self.visible = sys.stderr is not None and sys.stderr.isatty()
        self.began = time.monotonic()
        self.done, self.total, self.left = 0, 0, None
        self.running: dict[str, float] = {}  # what runs now, and since when
        self.lock, self.ended, self.stack = threading.RLock(), threading.Event(), ExitStack()
        self.bar: Any = None

    left: float | None  # seconds, where someone knows better than the mean of what is done

    def __enter__(self) -> Self:
        if self.visible:
            from tqdm.contrib.logging import logging_redirect_tqdm
            from tqdm.std import tqdm

            self.bar = tqdm(bar_format="{desc}", leave=False, dynamic_ncols=True, file=sys.stderr)
            self.stack.enter_context(logging_redirect_tqdm([logging.getLogger()], tqdm_class=tqdm))
            self.ticking = threading.Thread(target=self._tick, daemon=True)
            self.ticking.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.ended.set()
        if self.bar is not None:
            self.ticking.join()
            self.stack.close()
            self.bar.close()
            print("\r" + " " * (terminal_width() - 1), end="\r", file=sys.stderr, flush=True)  # the echo of Ctrl-C too

    def __call__(self, done: int, of: int, unit: Any, rows: list[dict[str, Any]]) -> None:
        self.ends(done, of, name_of(unit))
        self.say(f"[{done}/{of}] {name_of(unit)}: {outcome(rows)}")

    def started(self, of: int, unit: Any) -> None:
        """Take note that a unit runs now, one of so many; other threads than the main one may say so."""
        self.begins(of, name_of(unit))

    def begins(self, of: int, name: str) -> None:
        """Take note of what runs now, by its name."""
        with self.lock:
            if of != self.total or self.done == of:  # the first of other ones
                self.done, self.total, self.began = 0, of, time.monotonic()
            self.running[name] = time.monotonic()
        self._show()

    def ends(self, done: int, of: int, name: str) -> None:
        """Take note of what is done, by its name."""
        with self.lock:
            self.done, self.total = done, of
            self.running.pop(name, None)
        self._show()

    def say(self, line: str) -> None:
        """A whole line, above the live one."""
        if self.bar is None:
            print(line, file=sys.stderr, flush=True)
        else:
            self.bar.write(line, file=sys.stderr)

    def line(self) -> str:
        """What the line says now; nothing before anything runs."""
        with self.lock:
            now = time.monotonic()
            if self.total == 0:
                return ""
            spent = now - self.began
            parts = [self.about] * bool(self.about) + [f"{self.done} of {self.total} done", f"{clock(spent)} so far"]
            left = self.left
            if left is None and self.done:
                left = spent / self.done * (self.total - self.done)
            parts += [] if left is None else [f"about {clock(left)} left"]
            oldest = sorted(self.running, key=self.running.__getitem__)
            parts += [f"running: {'; '.join(oldest)}"] if oldest else []
        return ", ".join(parts)

    def _show(self) -> None:
        if self.bar is not None and not self.ended.is_set():
            self.bar.set_description_str(fitted(self.line(), terminal_width() - ROOM))

    def _tick(self) -> None:
        while not self.ended.wait(EVERY):
            self._show()


def name_of(unit: Any) -> str:
    return f"{unit.task_name}, {unit.method.label}, seed {unit.seed}"


def outcome(rows: list[dict[str, Any]]) -> str:
    """How a unit went, in words."""
    first = rows[0]
    if first["state"] != "ok":
        return f"{first['state']}: {first['reason']}"
    valid = sum(row["valid"] for row in rows) / len(rows)
    return f"validity {valid:.3f}, fit {first['fit_seconds']:.1f} s, explain {first['explain_seconds']:.1f} s"


def clock(seconds: float) -> str:
    """Minutes and seconds, with hours where there are some."""
    minutes, rest = divmod(round(max(seconds, 0.0)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def fitted(text: str, width: int) -> str:
    """A text in one line of at most so many columns, cut at its end if it is longer."""
    text = printable(text)
    if displayed(text) <= width:
        return text
    end = len(text)
    while displayed(text[:end]) > width - 1:
        end -= 1
    return f"{text[:end].rstrip()}…"
