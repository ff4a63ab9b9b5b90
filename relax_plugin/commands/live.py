"""The live line of a command that takes long: what is done, what runs, how long it took and how long it may still take.

It is there for somebody who looks at a terminal. Elsewhere, in a log or a pipe, there are whole lines only, as ever.
"""

import sys
import threading
import time
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Self

from relax_plugin.formatting import printable

TIMES_A_SECOND = 2.0  # that the line is drawn: the clock goes on while one run takes minutes


class Live:
    """Lines on stderr, and on a terminal one below them that says how far it is; for a `with`.

    Called with the number done, the number to do, a unit and its rows, as `runner.run` does it, it says how that one
    went; told by `started` what runs now, it shows that. `about` is what all of it belongs to, if more is to come.
    """

    def __init__(self, about: str = "") -> None:
        self.about = about
        self.began = time.monotonic()
        self.done, self.total = 0, 0
        self.left: float | None = None  # seconds, where someone knows better than the mean of what is done
        self.running: dict[str, float] = {}  # what runs now, and since when
        self.lock, self.stack = threading.RLock(), ExitStack()
        self.console: Any = None

    def __enter__(self) -> Self:
        if sys.stderr is not None and sys.stderr.isatty():
            from rich.console import Console
            from rich.live import Live as Region
            from rich.text import Text

            self.console = Console(stderr=True, color_system=None)
            region = Region(
                console=self.console,
                get_renderable=lambda: Text(printable(self.line()), no_wrap=True, overflow="ellipsis"),
                refresh_per_second=TIMES_A_SECOND,
                transient=True,
                redirect_stdout=False,
            )
            self.stack.enter_context(region)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stack.close()

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

    def ends(self, done: int, of: int, name: str) -> None:
        """Take note of what is done, by its name."""
        with self.lock:
            self.done, self.total = done, of
            self.running.pop(name, None)

    def say(self, line: str) -> None:
        """A whole line, above the live one."""
        if self.console is None:
            print(line, file=sys.stderr, flush=True)
        else:
            self.console.print(line, markup=False, highlight=False, soft_wrap=True)

    def line(self) -> str:
        """What the line says now; nothing before anything runs."""
        with self.lock:
            if self.total == 0:
                return ""
            spent = time.monotonic() - self.began
            parts = [self.about] * bool(self.about) + [f"{self.done} of {self.total} done", f"{clock(spent)} so far"]
            left = self.left
            if left is None and self.done:
                left = spent / self.done * (self.total - self.done)
            parts += [] if left is None else [f"about {clock(left)} left"]
            oldest = sorted(self.running, key=self.running.__getitem__)
            parts += [f"running: {'; '.join(oldest)}"] if oldest else []
        return ", ".join(parts)


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
