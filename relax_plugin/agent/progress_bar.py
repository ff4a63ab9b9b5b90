"""The bar that `fit` shows to people while it takes long: on a terminal and in a notebook, never in a log."""

import shutil
import sys
from importlib.util import find_spec
from typing import Any

from tqdm.std import tqdm

PATIENCE = 2.0  # seconds that pass before a bar is shown: what is over sooner needs none
ROOM = 4  # columns behind a bar on a terminal, for the echo of Ctrl-C


class TerminalBar(tqdm):  # type: ignore[type-arg]
    """A bar of text that clears its whole line, with the echo of a Ctrl-C behind it."""

    def close(self) -> None:
        shown = not self.disable and self.last_print_t >= self.start_t + (self.delay or 0.0)
        super().close()
        if shown:
            self.fp.write("\r" + " " * (_columns() - 1) + "\r")
            self.fp.flush()


def progress_bar(total: int, what: str, unit: str, *, shown: bool = True) -> Any:
    """A bar of so many units, which leaves nothing behind when it is closed.

    Parameters
    ----------
    total : int
    what, unit : str
        What goes on, and what is counted.
    shown : bool
        False for no bar at all. A bar is shown where somebody looks at it, which a terminal and a notebook tell.
    """
    kind, visible = bar_class()
    width = _columns() - ROOM if kind is TerminalBar else None
    hidden = not (shown and visible)
    return kind(total=total, desc=what, unit=unit, leave=False, delay=PATIENCE, disable=hidden, ncols=width)


def bar_class() -> tuple[type[Any], bool]:
    """The kind of bar for where this runs, and whether anybody would see it.

    A notebook without ipywidgets gets the bar of a terminal, which is text: the other one could only warn.
    """
    if in_notebook():
        if find_spec("ipywidgets") is None:
            return TerminalBar, True
        from tqdm.notebook import tqdm as widget

        return widget, True
    return TerminalBar, sys.stderr is not None and sys.stderr.isatty()


def _columns() -> int:
    return max(40, shutil.get_terminal_size((80, 24)).columns)


def in_notebook() -> bool:
    """Whether a kernel of Jupyter runs this; nothing is imported to find out."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return shell is not None and "IPKernelApp" in shell.config
