"""BlackBox: any model as one batched question, with books on rows, calls and seconds.

The explainers never look inside a model. What they may use is its answer: a label or a number, and scores where the
model gives them. A delivered counterfactual is confirmed by the model's own `predict`, never by a threshold on scores.
"""

import copy
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from relax_plugin.answers import Answer as Answer
from relax_plugin.answers import (
    distinct_labels,
    finite_numbers,
    positions_of,
    refuse_fractions,
    refuse_missing_answers,
    refuse_what_is_no_label,
)
from relax_plugin.arrays import Array, Floats, Integers, Values
from relax_plugin.books import Books as Books
from relax_plugin.errors import InputError, ModelError
from relax_plugin.features import FeatureSpace, Rows
from relax_plugin.readers import Reader, make_reader, task_of

if TYPE_CHECKING:
    from relax_plugin.trees.fast import FastTrees

Task = Literal["auto", "classification", "regression"]

ONE_AT_A_TIME = threading.RLock()  # warnings are caught in one thread at a time, or their filters would be mixed up
ASKED_AGAIN = 8  # training rows on which `learn` sees whether the model repeats itself
LEAST_PROBABILITY = 1e-6  # logits are taken of probabilities clipped to this, or to what the model's grain suggests


class BlackBox:
    """A model to explain.

    Parameters
    ----------
    model : estimator, Pipeline, torch module, booster or callable
        A callable's answer of shape (n, classes) is read as probabilities, (n,) as labels, or of class 1 as
        probabilities if some lie between 0 and 1, or as numbers with ``task="regression"``.
    space : FeatureSpace, optional
        Needed by `ask`, which is given values; `answer` takes the user's rows.
    task : "auto", "classification" or "regression"
    accelerate : "auto" or "polish", optional
        Small batches are answered by the arrays of a tree ensemble (`trees/`) in place of its library, if those agree
        with it on the rows of `learn`. Rows count as before. What is delivered is confirmed by the model's own
        `predict`, in one call with the queries; probabilities beside it are those of the arrays, unless a goal is
        about them. With "polish" answers are moved, too, to the fewest changes and the least distance that the trees
        allow.
    """

    def __init__(
        self,
        model: Any,
        space: FeatureSpace | None = None,
        task: Task = "auto",
        accelerate: Literal["auto", "polish"] | None = None,
    ) -> None:
        if accelerate not in (None, "auto", "polish"):
            raise InputError(f"accelerate is {accelerate!r}; accepted are 'auto', 'polish' and None.")
        if task not in ("auto", "classification", "regression"):
            raise InputError(f"task is {task!r}; accepted are 'auto', 'classification' and 'regression'.")
        self.model = model
        self.space = space
        self.reader: Reader = make_reader(model, task)
        self.task: str = task_of(model, self.reader, task)
        self.classes: Array | None = None
        self.later_classes: list[Any] = []  # labels first seen after `learn`
        self.least_probability = LEAST_PROBABILITY
        self.strict = False  # True: labels come from `predict` at every question, not from the largest score
        self.accelerate = accelerate
        self.trees: FastTrees | None = None  # what answers small batches, once it has proved itself
        self.by_arrays = False  # whether `ask` puts its rows as an array although the user's come in a frame
        self.books = Books()

    def bound_to(self, space: FeatureSpace) -> "BlackBox":
        """The same model over another space, with what is learned kept apart; what it is asked counts here too."""
        bound = self.for_call()
        bound.reader = copy.copy(self.reader)
        bound.space, bound.classes, bound.later_classes = space, None, []
        bound.strict, bound.trees, bound.by_arrays = False, None, False
        return bound

    def over(self, space: FeatureSpace) -> "BlackBox":
        """The same with all that was learned, asked in the dtypes of another space with the same features."""
        other = self.for_call()
        other.space, other.by_arrays = space, self.by_arrays and space.has_arrays
        return other

    def for_call(self) -> "BlackBox":
        """The same for one call: with books, strictness and later classes of its own, whatever other threads do."""
        own = copy.copy(self)
        own.books, own.later_classes = Books(whole=self.books), list(self.later_classes)
        return own

    @property
    def rows_asked(self) -> int:
        return self.books.spent

    @property
    def calls(self) -> int:
        return self.books.calls

    @property
    def seconds(self) -> float:
        return self.books.seconds

    @property
    def has_scores(self) -> bool:
        """Whether the model tells how near an answer is: always for a regressor."""
        return self.task == "regression" or self.reader.has_scores

    @property
    def has_probabilities(self) -> bool:
        scored = self.task == "classification" and self.reader.has_scores
        return scored and self.reader.score_kind == "probability"

    @property
    def labels_apart(self) -> bool:
        """Whether `predict` is a question of its own beside that for scores, with which it may disagree."""
        return self.task == "classification" and self.reader.has_scores and self.reader.labels_apart

    @property
    def rows_per_question(self) -> int:
        """Rows that asking one row costs: two where scores and `predict` are asked apart at every question."""
        return 2 if self.strict and self.task == "classification" and self.reader.has_scores else 1

    def learn(self, values: Values, labels: int | None = None) -> Answer:
        """Ask training rows once to see the classes, the grain of the scores, and whether ties matter.

        Whether `predict` may disagree with the largest score is seen on the first half, or `labels`, of them. A few are
        asked twice, if possible as an array: a model that changes its mind is worth a warning, and one that says the
        very same is asked with arrays from then on, which some libraries read much faster than frames.
        """
        self.trees, self.by_arrays = None, False
        checked = (len(values) + 1) // 2 if labels is None else labels
        answer = self._learn(values, checked)
        few, first = values[:ASKED_AGAIN], answer.take(slice(ASKED_AGAIN))
        if not self._takes_arrays(few, first):
            self._see_whether_it_repeats_itself(few, first)
        if self.accelerate is not None and self.space is not None:
            from relax_plugin.trees.fast import fast_trees  # whose readers import much of scikit-learn

            answered = values, answer.output[: len(values) if self.task == "regression" else checked], answer.scores
            self.trees = fast_trees(self.model, self.space, self.classes, *answered)
        return answer

    def _learn(self, values: Values, checked: int) -> Answer:
        raw_output, scores = self._asked(values, want_labels=not self.reader.has_scores)
        if self.task == "regression":
            return Answer(finite_numbers(raw_output, "value"))
        known = self.reader.classes(scores)
        if scores is not None and self.reader.labels_apart and np.shape(scores)[1:] != np.shape(known):
            # Scores that are not one a class (an SVC's votes of pairs) are no help: labels are enough.
            self.reader.has_scores, self.reader.score_kind = False, "probability"
            raw_output, scores = self._asked(values, want_labels=True)
        if known is None:
            refuse_missing_answers(raw_output)
            refuse_fractions(raw_output)
        self.classes = distinct_labels(raw_output) if known is None else np.asarray(known)
        if len(set(self.classes.tolist())) < len(self.classes):
            raise ModelError(f"the model's classes are {self.classes.tolist()}; each must be listed once.")
        if scores is None:
            return Answer(self.codes(raw_output))
        if self.reader.score_kind == "probability":
            # A forest of 100 trees answers in hundredths: half its smallest step is as far as a logit can be trusted.
            smallest = scores[scores > 0].min(initial=0.5)
            self.least_probability = float(np.clip(0.5 * smallest, LEAST_PROBABILITY, 0.01))
        output = np.argmax(scores, axis=1).astype(np.float64)
        if self.reader.labels_apart:
            labels, _ = self._asked(values[:checked], want_labels=True)
            codes = self.codes(labels)
            if (codes < 0).any():
                stranger = labels[int(np.argmax(codes < 0))]
                raise ModelError(
                    f"the model predicts {stranger!r}, which is not among its classes {self.classes.tolist()}; "
                    "give it the attribute classes_, or pass its predict alone."
                )
            self.strict = bool((codes != output[: len(codes)]).any())
            output[: len(codes)] = codes
        return Answer(output, scores)

    def _takes_arrays(self, values: Values, first: Answer) -> bool:
        """Ask with an array what was asked with a frame; True if that tells that the model repeats itself.

        Arrays are used from then on only if the answers are the same to the last digit, differ from row to row (else
        they might not depend on the cells), and were given without a warning: scikit-learn misses the names.
        """
        if self.space is None or not self.space.has_arrays or not self.has_scores:
            return False
        self.by_arrays = True
        try:
            with ONE_AT_A_TIME, warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                again = self.ask(values)
        except ModelError:
            self.by_arrays = False
            return False
        varied = (first.told != first.told[0]).any()
        self.by_arrays = bool(varied and not caught and np.array_equal(first.told, again.told))
        return bool(first.nearly(again).all())

    def _see_whether_it_repeats_itself(self, values: Values, first: Answer) -> None:
        again = self.ask(values)
        same = first.nearly(again)
        if not same.all():
            row = int(np.argmin(same))
            warnings.warn(
                f"the model answered {first.told[row]} to a training row, and {again.told[row]} when it was asked "
                "again: its answers cannot be repeated, and a counterfactual holds only for the answer it was "
                "confirmed by.",
                stacklevel=5,
            )

    def learn_more_classes(self, values: Values) -> Answer:
        """See further classes: where only labels tell them, a sample of the training rows may miss rare ones.

        The codes of labels may be others from then on.
        """
        labels, _ = self._asked(values, want_labels=True)
        refuse_missing_answers(labels)
        assert self.classes is not None
        self.classes = distinct_labels(np.concatenate([self.classes, np.asarray(labels)]))
        return Answer(self.codes(labels))

    def ask(self, values: Values) -> Answer:
        """Label (or number) and scores of a batch, in one call of the model."""
        if len(values) == 0:
            width = 0 if self.classes is None else len(self.classes)
            return Answer(np.empty(0), np.empty((0, width)) if self.reader.has_scores else None)
        if self.trees is not None and self.trees.knows(values):
            return self._ask_trees(self.trees, values)
        labels, scores = self._asked(values, want_labels=not self.reader.has_scores)
        if self.task == "regression":
            return Answer(finite_numbers(labels, "value"))
        if scores is None:
            return Answer(self.codes(labels))
        if self.strict:
            labels, _ = self._asked(values, want_labels=True)
            return Answer(self.codes(labels), scores)
        return Answer(np.argmax(scores, axis=1).astype(np.float64), scores)

    def _ask_trees(self, trees: "FastTrees", values: Values) -> Answer:
        started = time.perf_counter()
        output, scores = trees.read(values, by_predict=self.strict)
        times = self.rows_per_question
        self.books.enter(rows=len(values) * times, calls=times, seconds=time.perf_counter() - started)
        return Answer(output, scores)

    def expected(self, values: Values) -> Answer | None:
        """What trees that answer in the place of the model say, the class as `predict` would; None if none do.

        It is believed until `confirm` tells what the model itself says to the label.
        """
        if self.trees is None or not self.labels_apart or len(values) == 0 or not self.trees.knows(values):
            return None
        started = time.perf_counter()
        output, scores = self.trees.read(values, by_predict=True)
        self.books.enter(rows=len(values), calls=1, seconds=time.perf_counter() - started)
        return Answer(output, scores)

    def confirm(self, rows: Rows, known: Floats | None = None) -> Answer:
        """The model's own answer to rows in the user's dtypes: `predict` where it has one, and its scores.

        Scores that are `known`, which means not NaN, are not asked for again where `predict` is asked apart.
        """
        if not self.labels_apart:
            labels, scores = self._call(rows.copy(), want_labels=not self.reader.has_scores)
            if self.task == "regression":
                return Answer(finite_numbers(labels, "value"))
            return Answer(self.codes(labels) if scores is None else scores.argmax(axis=1).astype(np.float64), scores)
        unknown = np.ones(len(rows), dtype=bool) if known is None else np.isnan(known).any(axis=1)
        if known is None or unknown.all():
            _, scores = self._call(rows.copy(), want_labels=False)
        else:
            scores = known.copy()
            if unknown.any():
                some: Any = rows[unknown]
                _, scores[unknown] = self._call(some, want_labels=False)
        labels, _ = self._call(rows.copy(), want_labels=True)
        return Answer(self.codes(labels), scores)

    @contextmanager
    def asking_strictly(self) -> Iterator[None]:
        """Take labels from `predict` at every question for a while."""
        before, self.strict = self.strict, True
        try:
            yield
        finally:
            self.strict = before

    def logits(self, scores: Floats) -> Floats:
        """Scores on an unbounded scale, so that steps far from the boundary count too."""
        if self.reader.score_kind != "probability":
            return scores
        return np.asarray(np.log(np.clip(scores, self.least_probability, None)))

    def labels(self, output: Floats) -> Array:
        """Outputs as the model would write them: class labels, or numbers for a regressor."""
        if self.task == "regression":
            return output
        assert self.classes is not None
        named = np.empty(len(output), dtype=object)
        known = output >= 0
        named[known] = self.classes[output[known].astype(int)]
        named[~known] = [self.later_classes[int(-1 - code)] for code in output[~known]]
        return named

    def _asked(self, values: Values, want_labels: bool) -> tuple[Any, Floats | None]:
        assert self.space is not None, "values can be asked about only with a FeatureSpace"
        untried = want_labels and self.reader.has_scores  # arrays have proved themselves with the scores alone
        arrays = self.by_arrays and not untried
        return self._call(self.space.model_array(values) if arrays else self.space.model_input(values), want_labels)

    def _call(self, rows: Rows, want_labels: bool) -> tuple[Any, Floats | None]:
        """Ask the model once. What it writes into the rows is its own affair: they must be a copy."""
        started = time.perf_counter()
        try:
            labels, scores = self.reader.read(rows, want_labels)
        except ModelError:
            raise
        except (Exception, SystemExit) as error:
            raise ModelError(
                f"the model raised {type(error).__name__} on a batch of {len(rows)} rows: {error}"
            ) from error
        finally:
            self.books.enter(seconds=time.perf_counter() - started)
        self.books.enter(rows=len(rows), calls=1)
        if labels is not None and self.task == "classification":
            refuse_what_is_no_label(labels)
        answer = scores if scores is not None else labels
        if np.shape(answer)[:1] != (len(rows),):
            raise ModelError(
                f"the model answered shape {np.shape(answer)} to {len(rows)} rows; one answer a row is needed."
            )
        if scores is not None:
            scores = finite_numbers(scores, "score")
            if self.classes is not None and scores.shape[1:] != (len(self.classes),):
                raise ModelError(
                    f"the model answered scores of shape {scores.shape}, but has {len(self.classes)} classes."
                )
        return labels, scores

    def positions(self, labels: Any) -> Integers:
        """Where labels stand among the classes, -1 for others."""
        return positions_of(labels, np.asarray(self.classes))

    def codes(self, labels: Any) -> Floats:
        """Positions of labels among the classes; below 0 for those that no training row had."""
        refuse_missing_answers(labels)
        codes = self.positions(labels).astype(np.float64)
        for row in np.flatnonzero(codes < 0):  # rare: a label that no training row had is coded -1, -2, ...
            if labels[row] not in self.later_classes:
                self.later_classes.append(labels[row])
            codes[row] = -1 - self.later_classes.index(labels[row])
        return codes
