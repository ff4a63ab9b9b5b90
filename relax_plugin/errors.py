"""The exceptions of relax_plugin: one family, each message a sentence that says what would be accepted."""

import difflib
from collections.abc import Iterable


class ReLAXError(Exception):
    """Base of every error raised on purpose by relax_plugin."""


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
