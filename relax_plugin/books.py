"""Books: how many rows and calls a model was asked, and for how long."""

from dataclasses import dataclass
from typing import Any

from relax_plugin.locks import fork_safe_lock

ENTERING = fork_safe_lock()  # books of a whole are written by all of its parts, which may run in threads


@dataclass
class Books:
    """What a model was asked so far; what a part of the work asks is entered in the books of the whole as well."""

    spent: int = 0
    calls: int = 0
    seconds: float = 0.0
    whole: "Books | None" = None

    def enter(self, *, rows: int = 0, calls: int = 0, seconds: float = 0.0) -> None:
        books: Books | None = self
        with ENTERING:
            while books is not None:
                books.spent, books.calls, books.seconds = (
                    books.spent + rows,
                    books.calls + calls,
                    books.seconds + seconds,
                )
                books = books.whole

    def __reduce__(self) -> Any:
        """Copies count from 0, so that using a model does not change its pickle."""
        return Books, ()
