"""The exceptions of relax_plugin: one family, each message a sentence that says what would be accepted."""

import difflib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from relax_plugin.formatting import plain_scalars


class ReLAXError(Exception):
    """Base of every error raised on purpose by relax_plugin."""

    def __init__(self, *args: object) -> None:
        super().__init__(*(plain_scalars(one) if isinstance(one, str) else one for one in args))


class InputError(ReLAXError, ValueError):
    """The rows or arguments handed in cannot be used."""


class TableNote(UserWarning):
    """What was made of the columns of a table, said once: nothing is wrong."""


class ColumnError(InputError):
    """The columns are not those of the feature space."""


class MissingValueError(InputError):
    """A cell is empty, and no counterfactual can be computed for it."""


class UnknownCategoryError(InputError):
    """A categorical cell holds a value that the feature space does not know."""


class ConstraintError(InputError):
    """A constraint contradicts another one or the feature it is put on."""


class GoalError(InputError):
    """The goal does not fit the model, or is not well formed."""


class UnknownNameError(InputError):
    """A name (feature, explainer, data set, option) is not known."""


class ModelError(ReLAXError, RuntimeError):
    """The model to explain raised, or answered something that cannot be read."""


class RefusedRowError(ModelError):
    """The model raised on a row, or answered NaN to it.

    Attributes
    ----------
    position : int
        Of the row in the batch.
    words : str
        What the model did: "it raised ValueError: ...".
    more : str
        Which other rows the model refuses, too.
    """

    def __init__(self, position: int, words: str, row: str, more: str = "") -> None:
        super().__init__(f"the model refuses {row}{more}: {words}")
        self.position, self.words, self.more = position, words, more


class UnsupportedError(ReLAXError):
    """The explainer does not apply here; the message reads *skipped because ...*."""


class SavedFileError(ReLAXError, ValueError):
    """A saved explainer is truncated, foreign, or of a newer version."""


class CertificateError(ReLAXError, ValueError):
    """A certificate was changed, or what it says does not hold for the model."""


class MissingDataError(ReLAXError, LookupError):
    """A data set that is not part of the package is absent, or what lies in its place is not it."""


class NotFittedError(ReLAXError, RuntimeError):
    """`explain` was called before `fit`."""


class MissingExtraError(ReLAXError, ImportError):
    """An optional library is absent; the message names the extra that installs it."""


@contextmanager
def naming_the_extra() -> Iterator[None]:
    """Say which extra installs torch, where an import misses it."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "torch":
            raise
        raise MissingExtraError(
            "this needs torch, which is not installed: pip install 'relax-plugin[train]'."
        ) from error


def import_extra(module: str, who_needs_what: str, extra: str) -> Any:
    """Import an optional library, or say which extra installs it."""
    try:
        return import_module(module)
    except ImportError as error:
        raise MissingExtraError(f"{who_needs_what}: pip install 'relax-plugin[{extra}]'.") from error


def did_you_mean(name: object, known: Iterable[object]) -> str:
    """End of a sentence that suggests the nearest known name, or lists the known ones."""
    names = {str(one): one.item() if hasattr(one, "item") else one for one in known}
    close = difflib.get_close_matches(str(name), names, n=1)
    if close:
        nearest = names[close[0]]
        kind = f", which is {type(nearest).__name__}, not {type(name).__name__}" if close[0] == str(name) else ""
        return f"did you mean {nearest!r}{kind}?"
    shown = ", ".join(repr(candidate) for candidate in list(names.values())[:12])
    return f"known are {shown}{', ...' if len(names) > 12 else ''}."
