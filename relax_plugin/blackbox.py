"""BlackBox: any model as one batched question, with books on rows, calls and seconds.

The explainers never look inside a model. What they may use is its answer: a label or a number, and scores where the
model gives them. A delivered counterfactual is confirmed by the model's own `predict`, never by a threshold on scores.
"""

import copy
import re
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd

from relax_plugin.answers import Answer as Answer
from relax_plugin.answers import (
    as_numbers,
    distinct_labels,
    positions_of,
    refuse_fractions,
    refuse_missing_answers,
    refuse_what_is_no_label,
)
from relax_plugin.arrays import Array, Floats, Integers, Values
from relax_plugin.books import Books as Books
from relax_plugin.errors import InputError, ModelError, NotFittedError, RefusedRowError
from relax_plugin.features import FeatureSpace, Rows
from relax_plugin.locks import fork_safe_lock
from relax_plugin.readers import Fingerprint, Reader, make_reader, task_of
from relax_plugin.table.tables import row_name

if TYPE_CHECKING:
    from relax_plugin.results import Counterfactuals
    from relax_plugin.trees.proving import FastTrees

Task = Literal["auto", "classification", "regression"]
Source = Callable[[Any], Rows]  # fresh rows of a batch at some places: the model may write into them

ONE_AT_A_TIME = fork_safe_lock()  # warnings are caught in one thread at a time, or their filters would be mixed up
ASKED_AGAIN = 8  # training rows on which `learn` sees whether the model repeats itself
SAMPLED = 32  # rows of a batch that raised which are asked one by one before it is halved, if it is four times as long
MOST_REFUSED = 0.9  # share of the sampled rows up to which it is worth looking for the rows that the model refuses
MOST_WORDS = 400  # letters of what a model says when it raises
LEAST_PROBABILITY = 1e-6  # logits are taken of probabilities clipped to this, or to what the model's grain suggests


@dataclass(frozen=True)
class Cost:
    """What asking the model costs, in seconds, as `learn` measured it: a call, and each row of it."""

    call: float = 0.0
    row: float = 0.0

    @classmethod
    def measured(cls, before: Books, many: Books, few: Books) -> "Cost":
        """From the books before many rows were asked, after these, and after a few more."""
        call = (few.seconds - many.seconds) / max(few.calls - many.calls, 1)
        calls, rows = many.calls - before.calls, max(many.spent - before.spent, 1)
        return cls(call, max(many.seconds - before.seconds - calls * call, 0.0) / rows)

    def __reduce__(self) -> Any:
        """Copies know no cost, so that two fits with the same seed have the same pickle."""
        return Cost, ()

    def __str__(self) -> str:
        return f"{1e3 * self.call:.2g} ms a call and {1e6 * self.row:.2g} µs a row"


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
    accelerate : "auto", optional
        Small batches are answered by the arrays of a tree ensemble (`trees/`) in place of its library, if those agree
        with it on the rows of `learn`. Rows count as before. What is delivered is confirmed by the model's own
        `predict`, in one call with the queries; probabilities beside it are those of the arrays, unless a goal is
        about them.
    """

    def __init__(
        self,
        model: Any,
        space: FeatureSpace | None = None,
        task: Task = "auto",
        accelerate: Literal["auto"] | None = None,
    ) -> None:
        if accelerate not in (None, "auto"):
            raise InputError(f"accelerate is {accelerate!r}; accepted are 'auto' and None.")
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
        self.read_from: Fingerprint | None = None  # the model as it was when the trees were read
        self.witness: Values | None = None  # a row that the model has answered: refused too, it answers no more
        self.cost = Cost()
        self.by_arrays = False  # whether `ask` puts its rows as an array although the user's come in a frame
        self.books = Books()

    def bound_to(self, space: FeatureSpace) -> "BlackBox":
        """The same model over another space, with what is learned kept apart; what it is asked counts here too."""
        bound = self.for_call()
        bound.reader = copy.copy(self.reader)
        bound.space, bound.classes, bound.later_classes = space, None, []
        bound.strict, bound.trees, bound.by_arrays, bound.witness = False, None, False, None
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
        if own.read_from is not None and own.read_from.altered():
            own.trees = own.read_from = None
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
        self.trees, self.read_from, self.by_arrays, self.witness = None, None, False, None
        checked = (len(values) + 1) // 2 if labels is None else labels
        before = replace(self.books)
        answer = self._learn(values, checked)
        many = replace(self.books)
        self.witness = values[:1]
        few, first = values[:ASKED_AGAIN], answer.take(slice(ASKED_AGAIN))
        if not self._takes_arrays(few, first):
            self._see_whether_it_repeats_itself(few, first)
        self.cost = Cost.measured(before, many, self.books)
        if self.accelerate is not None and self.space is not None:
            from relax_plugin.trees.proving import fast_trees  # whose readers import much of scikit-learn

            answered = values, answer.output[: len(values) if self.task == "regression" else checked], answer.scores
            self.trees = fast_trees(self.model, self.space, self.classes, *answered)
            self.read_from = None if self.trees is None else Fingerprint(self.model)
        return answer

    def learn_answered(self, values: Values, labels: int | None = None) -> tuple[Integers, Answer]:
        """Do as `learn`, but leave out rows that the model refuses; returns the positions of the others, too."""
        try:
            return np.arange(len(values)), self.learn(values, labels)
        except RefusedRowError:
            probe = self.for_call()
            probe.books = Books()
            probe.reader = copy.copy(self.reader)  # which learns from the first answer what the model gives
            kept = np.arange(len(values))
            for want_labels in [False, True] if self.labels_apart else [not self.reader.has_scores]:
                refused = probe._asked(values[kept], want_labels, mark=True)[2]
                kept = kept if refused is None else kept[refused == ""]
            return kept, self.learn(values[kept], labels)

    def _learn(self, values: Values, checked: int) -> Answer:
        raw_output, scores, _ = self._asked(values, want_labels=not self.reader.has_scores)
        if self.task == "regression":
            return Answer(raw_output)
        known = self.reader.classes(scores)
        if scores is not None and self.reader.labels_apart and np.shape(scores)[1:] != np.shape(known):
            # Scores that are not one a class (an SVC's votes of pairs) are no help: labels are enough.
            self.reader.has_scores, self.reader.score_kind = False, "probability"
            raw_output, scores, _ = self._asked(values, want_labels=True)
        if known is None:
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
            labels, _, _ = self._asked(values[:checked], want_labels=True)
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
        try:
            with ONE_AT_A_TIME, warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                labels, scores = self._read(self.space.model_array(values), not self.reader.has_scores)
        except ModelError:
            return False
        again = Answer(labels) if scores is None else Answer(first.output, scores)
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
        labels, _, refused = self._asked(values, want_labels=True, mark=True)
        assert self.classes is not None
        self.classes = distinct_labels(np.concatenate([self.classes, np.asarray(labels)]))
        return Answer(self.codes(labels), None, refused)

    def ask(self, values: Values, mark_refused: bool = False) -> Answer:
        """Label (or number) and scores of a batch, in one call of the model.

        A row that the model refuses is an error, or marked as refused in the answer.
        """
        if len(values) == 0:
            return self._answer_to_nothing()
        if self.trees is not None and self.trees.knows(values):
            return self._ask_trees(self.trees, values, self.strict, self.rows_per_question)
        told = labels, scores, refused = self._asked(values, not self.reader.has_scores, mark_refused)
        if self.strict and scores is not None:
            labels, _, more = self._asked(values, True, mark_refused)
            return Answer(self.codes(labels), scores, _either(refused, more))
        return self._answer(*told)

    def _answer(self, labels: Any, scores: Floats | None, refused: Array | None) -> Answer:
        if self.task == "regression":
            return Answer(labels, None, refused)
        output = self.codes(labels) if scores is None else np.argmax(scores, axis=1).astype(np.float64)
        return Answer(output, scores, refused)

    def _answer_to_nothing(self) -> Answer:
        width = 0 if self.classes is None else len(self.classes)
        return Answer(np.empty(0), np.empty((0, width)) if self.reader.has_scores else None)

    def _ask_trees(self, trees: "FastTrees", values: Values, by_predict: bool, times: int) -> Answer:
        started = time.perf_counter()
        output, scores = trees.read(values, by_predict=by_predict)
        self.books.enter(rows=len(values) * times, calls=times, seconds=time.perf_counter() - started)
        return Answer(output, scores)

    def expected(self, values: Values) -> Answer | None:
        """What trees that answer in the place of the model say, the class as `predict` would; None if none do.

        It is believed until `confirm` tells what the model itself says to the label.
        """
        if self.trees is None or not self.labels_apart or len(values) == 0 or not self.trees.knows(values):
            return None
        return self._ask_trees(self.trees, values, True, 1)

    def confirm(self, rows: Rows, known: Floats | None = None, mark_refused: bool = False) -> Answer:
        """The model's own answer to rows in the user's dtypes: `predict` where it has one, and its scores.

        Scores that are `known`, which means not NaN, are not asked for again where `predict` is asked apart. A row that
        the model refuses is an error, or marked as refused in the answer.
        """

        def source(some: Any) -> Rows:
            picked: Any = rows.iloc[some] if isinstance(rows, pd.DataFrame) else rows[some]
            return picked.copy() if self.space is None else self.space.in_model_dtypes(picked.copy())

        if len(rows) == 0:  # to which some models raise
            return self._answer_to_nothing()
        if not self.labels_apart:
            return self._answer(*self._call(source, len(rows), not self.reader.has_scores, mark_refused))
        unknown = np.arange(len(rows)) if known is None else np.flatnonzero(np.isnan(known).any(axis=1))
        refused = None
        if known is None or len(unknown) == len(rows):
            _, scores, refused = self._call(source, len(rows), False, mark_refused)
        else:
            scores = known.copy()
            if len(unknown):
                _, scores[unknown], some = self._call(lambda i: source(unknown[i]), len(unknown), False, mark_refused)
                if some is not None:
                    refused = np.full(len(rows), "", dtype=object)
                    refused[unknown] = some
        labels, _, more = self._call(source, len(rows), True, mark_refused)
        return Answer(self.codes(labels), scores, _either(refused, more))

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

    def _asked(self, values: Values, want_labels: bool, mark: bool = False) -> "Told":
        assert self.space is not None, "values can be asked about only with a FeatureSpace"
        untried = want_labels and self.reader.has_scores  # arrays have proved themselves with the scores alone
        make = self.space.model_array if self.by_arrays and not untried else self.space.model_input
        return self._call(lambda some: make(values[some]), len(values), want_labels, mark)

    def _call(self, source: Source, count: int, want_labels: bool, mark: bool) -> "Told":
        """Ask the model once; again only if it raises or answers NaN, to find the rows that it refuses."""
        asked_again = False
        try:
            labels, scores = self._read(source(slice(None)), want_labels)
            refused = _unanswered(labels, scores)
            if refused is None:
                return labels, scores, None
            if mark and (refused != "").all():
                self._refuse_if_it_refuses_all(source, want_labels, str(refused[0]))
        except _RaisedError as error:
            refused = self._refused_by_halves(source, count, want_labels, error, first_only=not mark)
            labels, scores, asked_again = None, None, True
        if not mark or (self.witness is None and (refused != "").all()):
            first = int(np.argmax(refused != ""))
            more = " and every other row of its batch" if count > 1 and (refused != "").all() else ""
            raise RefusedRowError(first, refused[first], row_name(source(slice(None)), first), more)
        kept = np.flatnonzero(refused == "")
        place = np.full(count, kept[0] if len(kept) else 0)
        place[kept] = kept
        if asked_again or len(kept) == 0:  # any answer at all has the right shape
            labels, scores = self._read(source(kept) if len(kept) else self._witness, want_labels)
            if _unanswered(labels, scores) is not None:
                raise ModelError("the model answered NaN to a row for which it gave an answer when asked before.")
            place = np.zeros(count, dtype=np.int64)
            place[kept] = np.arange(len(kept))
        return None if labels is None else labels[place], None if scores is None else scores[place], refused

    def _refused_by_halves(
        self, source: Source, count: int, want_labels: bool, error: "_RaisedError", first_only: bool
    ) -> Array:
        """Why the model refuses each row of a batch on which it raised, "" for the others: the batch is halved.

        Two calls a refused row and halving, which no book counts; only a few where it refuses nearly everything.
        """
        refused = np.full(count, "", dtype=object)
        self._refuse_if_it_refuses_all(source, want_labels, error.words)
        if count >= 4 * SAMPLED:
            sample = np.linspace(0, count - 1, SAMPLED).astype(int)
            said = [self._words(source([place]), want_labels) for place in sample]
            share = float(np.mean([words != "" for words in said]))
            if share > MOST_REFUSED:
                first = next(number for number, words in enumerate(said) if words)
                row, more = row_name(source(slice(None)), sample[first]), f" and {share:.0%} of its batch"
                raise RefusedRowError(int(sample[first]), said[first], row, more)
        blocks = [(np.arange(count), error.words)]
        while blocks:
            block, words = blocks.pop()
            if len(block) == 1:
                refused[block] = words
                if first_only:
                    break
                continue
            halves = [(half, self._words(source(half), want_labels)) for half in np.array_split(block, 2)]
            blocks += [(half, words) for half, words in reversed(halves) if words]
        if not (refused != "").any():
            raise ModelError(f"{error}; it answers them in smaller batches.") from error
        return refused

    def _refuse_if_it_refuses_all(self, source: Source, want_labels: bool, words: str) -> None:
        if self.witness is not None:
            again = self._words(self._witness, want_labels)
            if again:
                more = " and a training row that it answered in fit"
                raise RefusedRowError(0, words, row_name(source(slice(None)), 0), more)

    @property
    def _witness(self) -> Rows:
        assert self.space is not None and self.witness is not None
        return self.space.model_input(self.witness)

    def _words(self, rows: Rows, want_labels: bool) -> str:
        """Why the model refuses at least one of the rows; "" if it answers them all."""
        asked = copy.copy(self)
        asked.books = Books()  # what these calls cost is nobody's
        asked.reader = copy.copy(self.reader)  # what the model gives is to be learned from whole batches
        try:
            refused = _unanswered(*asked._read(rows, want_labels))
        except _RaisedError as error:
            return error.words
        return "" if refused is None else next(filter(None, refused))

    def _read(self, rows: Rows, want_labels: bool) -> tuple[Any, Floats | None]:
        """Ask the model once. What it writes into the rows is its own affair: they must be fresh."""
        started = time.perf_counter()
        try:
            labels, scores = self.reader.read(rows, want_labels)
        except ModelError:
            raise
        except (Exception, SystemExit) as error:
            raise _RaisedError(error, len(rows)) from error
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
            scores = as_numbers(scores, "score")
            if self.classes is not None and scores.shape[1:] != (len(self.classes),):
                raise ModelError(
                    f"the model answered scores of shape {scores.shape}, but has {len(self.classes)} classes."
                )
        elif self.task == "regression":
            labels = as_numbers(labels, "value")
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


def answered(blackbox: BlackBox, rows: Values) -> tuple[Values, Answer]:
    """The rows that the model does not refuse, and its answers to them."""
    answer = blackbox.ask(rows, mark_refused=True)
    return (rows, answer) if answer.refused is None else (rows[answer.answered], answer.take(answer.answered))


Told = tuple[Any, Floats | None, Array | None]  # labels, scores, and why rows are refused, None if none is


class _RaisedError(ModelError):
    """The model raised on a batch."""

    def __init__(self, error: BaseException, rows: int) -> None:
        super().__init__(f"the model raised {type(error).__name__} on a batch of {rows} rows: {error}")
        text = " ".join(str(error).split("Stack trace:")[0].split())  # XGBoost adds a trace, and where and when
        text = re.sub(r"^\[[\d:]+\] \S+:\d+: ", "", text)
        self.words = (
            f"it raised {type(error).__name__}: {text if len(text) <= MOST_WORDS else text[:MOST_WORDS] + '...'}"
        )


def _unanswered(labels: Any, scores: Floats | None) -> Array | None:
    """Why each row has no answer, "" where there is one: a missing label, or a number that is not finite."""
    answer = labels if scores is None else scores
    numeric = scores is not None or np.asarray(labels).dtype.kind == "f"
    missing: Any = ~np.isfinite(answer) if numeric else pd.isna(np.asarray(labels))
    if not missing.any():
        return None
    missing = missing.any(axis=1) if missing.ndim == 2 else missing
    return np.array([f"it answered {one}" if lost else "" for one, lost in zip(answer, missing, strict=True)], object)


def _either(first: Array | None, second: Array | None) -> Array | None:
    return second if first is None else first if second is None else np.where(first != "", first, second)


def model_to_ask(result: "Counterfactuals", explainer: Any, call: str, caller: str) -> BlackBox:
    """The explainer's model, if one is given, else that of the result; refusals name the call and the caller."""
    if explainer is None:
        if result.blackbox is None:
            raise InputError(f"a result from a file, and a copy, has no model to ask; give {call}.")
        return result.blackbox
    blackbox = getattr(explainer, "blackbox_", None)
    if not isinstance(blackbox, BlackBox) or blackbox.space is None:
        raise NotFittedError(f"{caller} needs a fitted explainer, and {type(explainer).__name__} is none.")
    result.space.refuse_other_features(blackbox.space)
    return blackbox
