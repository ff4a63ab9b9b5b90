"""Locks that are free in a forked child process, even if another thread of the parent held them."""

import os
import threading
from collections.abc import Callable


def fork_safe_lock(in_child: Callable[[], None] | None = None) -> "threading.RLock":
    """A reentrant lock for a module; it lives as long as the process.

    A fork copies a lock that another thread holds, but not the thread, so that the child would wait for ever. What the
    lock protects can be repaired by `in_child`, which is called in a forked child afterwards.
    """
    lock = threading.RLock()

    def free() -> None:
        if not lock._is_owned():  # type: ignore[attr-defined]
            lock._at_fork_reinit()  # type: ignore[attr-defined]
        if in_child is not None:
            in_child()

    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=free)
    return lock
