"""Steps: in which order to make the changes of one counterfactual, and what the model says after each."""

import html
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from relax_plugin.arrays import Floats, Integers, Values
from relax_plugin.blackbox import BlackBox
from relax_plugin.errors import InputError
from relax_plugin.features import FeatureSpace
from relax_plugin.formatting import printable, row_name, six_digits
from relax_plugin.results import Counterfactuals

MOST_CHANGES = 50  # that are put in order: the model is asked half the square of it
SAME = 1e-9  # scores that differ by no more are the same


@dataclass(frozen=True, eq=False)
class Steps:
    """The changes of one counterfactual, each step the one that does most towards its answer.

    Attributes
    ----------
    frame : DataFrame
        One row a step: `step` in words, feature, from, to; and after it `score`, which is what `measure` says, and the
        model's `answer`.
    measure : str
        "P(granted)", "score of granted" or "prediction"; "" where the model answers labels only: scores are NaN then.
    before : float
        The score of the query itself.
    heading, note : str
        From which answer to which; whether single steps help.
    rows : int
        Model rows that were asked for the order. No other count holds them.
    """

    frame: pd.DataFrame
    measure: str
    before: float
    heading: str
    note: str
    rows: int

    def __len__(self) -> int:
        return len(self.frame)

    def lines(self) -> list[str]:
        """A line for each step, such as "raise income from 3000 to 4000: P(granted) 0.31 → 0.48, answer refused"."""
        told, last = [], self.before
        for step, score, answer in self.frame[["step", "score", "answer"]].itertuples(index=False):
            scores = f"{self.measure} {_brief(last)} → {_brief(score)}"
            answers = f"answer {six_digits(answer)}"
            parts = {"": answers, "prediction": scores}.get(self.measure, f"{scores}, {answers}")
            told.append(printable(f"{step}: {parts}"))
            last = score
        return told

    def __str__(self) -> str:
        numbered = [f"{number}. {line}" for number, line in enumerate(self.lines(), start=1)]
        return "\n".join([self.heading, *numbered, *self._remarks()])

    def _repr_html_(self) -> str:
        items = "".join(f"<li>{html.escape(line)}</li>" for line in self.lines())
        remarks = html.escape(" ".join(self._remarks()))
        return f"<p>{html.escape(self.heading)}</p><ol>{items}</ol><p>{remarks}</p>"

    def _remarks(self) -> list[str]:
        return [self.note] * bool(self.note) + [f"(Model rows asked for the order: {self.rows}.)"] * bool(self.rows)


def ordered_steps(result: Counterfactuals, blackbox: BlackBox, query: int, cf_id: int) -> Steps:
    """The steps of one counterfactual, put in order by asking the model."""
    features = np.flatnonzero(result.values[query, cf_id] != result.start[query])
    heading = f"{row_name(result, query)}: "
    if not result.found[query, cf_id]:
        heading += f"no counterfactual{f' {cf_id}' * (cf_id > 0)}; {result.statuses[query, cf_id]}."
        return Steps(_frame(result, query, cf_id, features[:0], [], []), "", np.nan, heading, "", 0)
    if len(features) == 0:
        heading += f"the answer {six_digits(result.before[query])} meets the goal already."
        return Steps(_frame(result, query, cf_id, features, [], []), "", np.nan, heading, "", 0)
    if len(features) > MOST_CHANGES:
        changed = f"counterfactual {cf_id} of query {query} changes {len(features)} features"
        raise InputError(f"{changed}; up to {MOST_CHANGES} can be put in order.")
    gauge = Gauge(result, blackbox.for_call(), query, cf_id)
    order, scores, answers, alone = _greedy_order(gauge, result.start[query], result.values[query, cf_id], features)
    heading += f"from {six_digits(result.before[query])} to {six_digits(result.after[query, cf_id])} in {len(order)} "
    heading += "step." if len(order) == 1 else "steps."
    known = scores if gauge.measure else np.full(len(order), np.nan)
    frame = _frame(result, query, cf_id, order, known, answers)
    note = _note(gauge.nearness(np.array([gauge.before, *scores])), gauge.nearness(alone))
    return Steps(frame, gauge.measure, gauge.before, heading, note, gauge.blackbox.rows_asked)


class Gauge:
    """How the model's answers come nearer to that of one counterfactual: by its probability, or its number."""

    def __init__(self, result: Counterfactuals, blackbox: BlackBox, query: int, cf_id: int) -> None:
        self.space, self.blackbox = result.space, blackbox
        self.wanted, position = result.after[query, cf_id], 0
        self.number = blackbox.task == "regression"
        if self.number:
            self.measure, self.before, self.after = "prediction", float(result.before[query]), float(self.wanted)
        elif result.scores_before is None or result.scores_after is None:
            self.measure, self.before, self.after = "", float(result.before[query] == self.wanted), 1.0
        else:
            position = int(blackbox.positions([self.wanted])[0])
            if position < 0:
                raise InputError(
                    f"the explainer's model has no class {six_digits(self.wanted)}, which is this answer's."
                )
            kind = "P({})" if blackbox.has_probabilities else "score of {}"
            self.measure = kind.format(six_digits(self.wanted))
            self.before = float(result.scores_before[query, position])
            self.after = float(result.scores_after[query, cf_id, position])
        self.position = position

    def ask(self, values: Values) -> tuple[Floats, Any]:
        """The scores of rows, and the model's own answers to them."""
        answer = self.blackbox.confirm(self.space.model_input(values))
        labels = self.blackbox.labels(answer.output)
        if answer.scores is not None:
            return answer.scores[:, self.position], labels
        return answer.output if self.number else np.asarray(labels == self.wanted, dtype=np.float64), labels

    def nearness(self, scores: Floats) -> Floats:
        return -np.abs(scores - self.after) if self.number else scores


def _greedy_order(
    gauge: Gauge, start: Values, end: Values, features: Integers
) -> tuple[list[int], list[float], list[Any], Floats]:
    """Features in order, score and answer after each, and the scores of each as a single step.

    What the model says after the last is known. Where nothing tells two steps apart, the first column goes first.
    """
    row, left = start.copy(), [int(j) for j in features]
    order: list[int] = []
    scores: list[float] = []
    answers: list[Any] = []
    alone = np.array([gauge.after])
    while len(left) > 1:
        tried = np.repeat(row[None], len(left), axis=0)
        tried[np.arange(len(left)), left] = end[left]
        score, answer = gauge.ask(tried)
        alone = score if len(order) == 0 else alone
        best = int(gauge.nearness(score).argmax())
        scores.append(float(score[best]))
        answers.append(answer[best])
        order.append(left.pop(best))
        row[order[-1]] = end[order[-1]]
    return [*order, *left], [*scores, gauge.after], [*answers, gauge.wanted], alone


def _note(nearness: Floats, alone: Floats) -> str:
    if (alone <= nearness[0] + SAME).all():
        return "No single step helps; together they do."
    farther = np.flatnonzero(np.diff(nearness) < -SAME)
    return f"Step {farther[0] + 1} leads away from it; what follows makes up for that." if len(farther) else ""


def _frame(result: Counterfactuals, query: int, cf_id: int, order: Any, scores: Any, answers: Any) -> pd.DataFrame:
    changes = result.changes().query("query_id == @query and cf_id == @cf_id")
    cells = {feature: ends for feature, *ends in changes[["feature", "from", "to"]].itertuples(index=False)}
    columns: dict[str, list[Any]] = {"step": [], "feature": [], "from": [], "to": [], "answer": list(answers)}
    row, end, space = result.start[query].copy(), result.values[query, cf_id], result.space
    for j in order:
        name, (old, new) = space.names[j], cells[space.names[j]]
        verb = "set" if space.jumps(j, row[j], end[j]) else "raise" if new > old else "lower"
        row[j] = end[j]
        words = f"{verb} {name} from {six_digits(old)} to {six_digits(new)}{_following(space, j, row)}"
        for column, cell in zip(("step", "feature", "from", "to"), (words, name, old, new), strict=True):
            columns[column].append(cell)
    frame = pd.DataFrame({column: pd.Series(cells, dtype=object) for column, cells in columns.items()})
    frame.insert(4, "score", np.array(scores, dtype=np.float64))
    return frame


def _following(space: FeatureSpace, feature: int, row: Values) -> str:
    """What derived columns become by a step: they follow, and are no steps of their own."""
    cells = space.cells(row[None])
    names = [name for name, inputs in space.inputs_of_derived.items() if feature in inputs]
    told = " and ".join(f"{name} becomes {six_digits(float(cells[name][0]))}" for name in names)
    return f" ({told})" if told else ""


def _brief(score: float) -> str:
    return six_digits(score) if abs(score) >= 1 else f"{score:.3g}"
