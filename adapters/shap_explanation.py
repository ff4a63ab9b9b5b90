"""What `CounterfactualShap` gives: a `shap.Explanation` that knows its counterfactuals, through every slice.

Imported only where shap is installed. shap's waterfall writes "E[f(X)]" at the base of any explanation; here the base
is the score of a counterfactual, and the waterfall of such an explanation says so. shap's force plot of several rows
has one base value, and here each row has its own: it is given one.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any

import numpy as np
import shap
from shap import plots
from slicer import Obj

from relax_plugin.arrays import Array, Booleans, Floats
from relax_plugin.errors import InputError
from relax_plugin.results import Counterfactuals

EXPECTED = "\n$E[f(X)]$"  # as shap's waterfall writes it


@dataclass(frozen=True)
class Record:
    """What is known of all queries, of which an explanation and its slices are parts.

    Attributes
    ----------
    counterfactuals : Counterfactuals
        Those that were attributed.
    found, sampled : Booleans (queries,)
        Whether a query has a counterfactual, and whether shap's sampler was needed.
    values : Floats (queries, features, classes), bases : Floats (queries, classes)
        For each class of the model; of a regressor there is one.
    weights : Floats (queries, features)
        The share that a changed feature has among those that are changed; 0 for the others.
    classes : list of str, or None
        Names of the classes; None for a regressor.
    """

    counterfactuals: Counterfactuals
    found: Booleans
    sampled: Booleans
    values: Floats
    bases: Floats
    weights: Floats
    classes: list[str] | None


class CounterfactualExplanation(shap.Explanation):  # type: ignore[misc]
    """Counterfactual Shapley values; `found`, `sampled` and `counterfactuals` stay with its slices.

    `E[:, :, k]` are the values for the score of class k, wherever a class can be named, and `E.classes` those of all.
    """

    record: Record
    base_label: str  # what a waterfall calls the base

    @classmethod
    def of(cls, made: Any, record: Record, label: str, rows: Any, columns: Any) -> "CounterfactualExplanation":
        """An explanation of shap's that shows these rows and columns of the record."""
        own = cls.__new__(cls)
        own.__dict__.update(made.__dict__)
        own.record, own.base_label = record, label
        # shap's slicer slices whatever it is given: so the positions follow every index that shap understands.
        own._s.row = Obj(rows, [0] if np.ndim(rows) else [])
        own._s.column = Obj(columns, [] if not np.ndim(columns) else [1] if np.ndim(rows) else [0])
        return own

    def __copy__(self) -> "CounterfactualExplanation":
        return self.of(super().__copy__(), self.record, self.base_label, self._s.row, self._s.column)

    def __getitem__(self, item: Any) -> Any:
        index = item if isinstance(item, tuple) else (item,)
        if len(index) == len(self.shape) + 1 and not any(part is Ellipsis for part in index):
            return self.classes[item]
        return super().__getitem__(item)

    @property
    def row(self) -> Any:
        """Positions of the rows among the queries; None where rows were summed up."""
        summed = [vars(step) if hasattr(step, "__dict__") else step for step in self.op_history]
        return None if any(step.get("collapsed_instances") for step in summed) else self._s.row

    @property
    def found(self) -> Any:
        """Whether a row has a counterfactual: a bool array, one bool for one row, None where rows were summed up."""
        return None if self.row is None else self.record.found[self.row]

    @property
    def sampled(self) -> Any:
        """Whether shap's sampler estimated the values of a row, as `found`."""
        return None if self.row is None else self.record.sampled[self.row]

    @property
    def counterfactuals(self) -> Counterfactuals:
        """The counterfactuals of all queries; `row` says which of them a slice shows."""
        return self.record.counterfactuals

    @property
    def classes(self) -> "CounterfactualExplanation":
        """The same rows with a last dimension of classes, as shap has it of a classifier: (rows, features, classes)."""
        known = self.record
        if known.classes is None:
            raise InputError("a regressor has one output and no classes; leave the last index out.")
        if self.row is None or len(self.shape) != np.ndim(self._s.row) + np.ndim(self._s.column):
            raise InputError("this explanation has its classes already, or was summed up; ask the one before.")
        row, column = self._s.row, self._s.column
        made = shap.Explanation(
            known.values[np.ix_(row, column)] if np.ndim(row) and np.ndim(column) else known.values[row, column],
            base_values=known.bases[row],
            data=self.data,
            display_data=self.display_data,
            feature_names=self.feature_names,
            output_names=known.classes,
        )
        return self.of(made, known, self.base_label, row, column)

    def one_base(self, base: Any = None) -> "CounterfactualExplanation":
        """The same rows with one base value, which shap's `force` and `decision` of several rows need.

        `base` is by default the mean of the rows' own. What a counterfactual scores above or below it is shared equally
        among the features that it changes: these are the Shapley values of the same game, in which to know nothing is
        worth `base`. A row in which nothing changes keeps its zeros.
        """
        row, column, bases = self.row, self._s.column, np.asarray(self.base_values, dtype=np.float64)
        if row is None or np.ndim(column) != 1:
            raise InputError("one base value needs whole rows; ask before rows are summed up or features picked out.")
        found = self.found if np.any(self.found) else np.ones_like(self.found)
        base = (bases[found].mean(axis=0) if np.ndim(row) else bases) if base is None else np.asarray(base, dtype=float)
        weights = self.record.weights[np.ix_(row, column)] if np.ndim(row) else self.record.weights[row][column]
        left = bases - base
        some = bool(weights.ndim == np.ndim(self.values))
        more = weights * left[..., None] if some else weights[..., None] * left[..., None, :]
        made = self.__copy__()
        made.base_label = "common base"
        made._s.values = np.asarray(self.values) + more
        made._s.base_values = np.broadcast_to(base, bases.shape).copy() if bases.ndim else float(base)
        return made


def label_of(explanation: CounterfactualExplanation) -> str:
    """What the base of one row is."""
    found = explanation.found
    return "no counterfactual, $f(x)$" if found is not None and not found else explanation.base_label


def _labelled(draw: Callable[..., Any]) -> Callable[..., Any]:
    """shap's waterfall, which says of a counterfactual explanation what its base is, and is as it was of any other."""

    @wraps(draw)
    def waterfall(shap_values: Any, max_display: int = 10, show: bool = True) -> Any:
        if not isinstance(shap_values, CounterfactualExplanation):
            return draw(shap_values, max_display, show)
        from matplotlib import pyplot

        interactive = pyplot.isinteractive()
        axes = draw(shap_values, max_display, False)
        for other in axes.figure.axes:
            texts = [text.get_text() for text in other.get_xticklabels()]
            if EXPECTED in texts:
                other.set_xticklabels([f"\n{label_of(shap_values)}", *texts[1:]], fontsize=12)
                name = other.get_xticklabels()[0]
                name.set_horizontalalignment("right")  # it is longer, and the number stands at its right
                name.set_transform(name.get_transform() + _points(axes.figure, 41.0))
        if not show:
            return axes
        if interactive:
            pyplot.ion()  # which shap turns off when it is not to show
        return pyplot.show()

    return waterfall


def _points(figure: Any, right: float) -> Any:
    from matplotlib.transforms import ScaledTranslation

    return ScaledTranslation(right / 72.0, 0.0, figure.dpi_scale_trans)


def _with_one_base(draw: Callable[..., Any]) -> Callable[..., Any]:
    """shap's force plot, which gives several rows of a counterfactual explanation one base value first."""

    @wraps(draw)
    def force(base_value: Any, *given: Any, **named: Any) -> Any:
        several = isinstance(base_value, CounterfactualExplanation) and np.ndim(base_value.base_values) == 1
        return draw(base_value.one_base() if several else base_value, *given, **named)

    return force


def install() -> None:
    """Let shap's `waterfall` and `force` understand counterfactual explanations; done when the first one is made.

    Explanations of shap's own are drawn as before. `uninstall` takes it back.
    """
    if not hasattr(plots.waterfall, "__wrapped__"):
        plots.waterfall = shap.waterfall_plot = _labelled(plots.waterfall)
        plots.force = shap.force_plot = _with_one_base(plots.force)


def uninstall() -> None:
    """Put back shap's own functions, until the next explanation is made."""
    if hasattr(plots.waterfall, "__wrapped__"):
        plots.waterfall = shap.waterfall_plot = plots.waterfall.__wrapped__
        plots.force = shap.force_plot = plots.force.__wrapped__


def selected(values: Floats, classes: Array) -> Floats:
    """Of (queries, ..., classes) the class of each query."""
    return np.asarray(np.moveaxis(values, -1, 1)[np.arange(len(values)), classes.astype(int)])
