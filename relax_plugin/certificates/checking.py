"""Checking certificates again: the checksum, the model, the answer, every constraint, the count, and the proof.

Nothing of the methods or provers is used. The model is asked by its own `predict`; cells are held against bounds,
grids, directions, groups, formulas and rules by the checker's code and by the judge's.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from relax_plugin.arrays import Values
from relax_plugin.asked import Asked
from relax_plugin.certificates.allowed import faults
from relax_plugin.certificates.native import PROBES, Native, Said, fingerprint, meets, near, same_model
from relax_plugin.certificates.proving import CLOSE, Question, shown_again
from relax_plugin.certificates.spaces import ALL, column_dtypes, space_from_plain
from relax_plugin.certificates.words import CLAIMS, FORMAT, PROVED, SEAL, VERSION, checksum, described, sentence_of
from relax_plugin.errors import CertificateError, ReLAXError
from relax_plugin.evaluation import metrics
from relax_plugin.features import FeatureSpace, Rows
from relax_plugin.formatting import BY_BOUNDS, BY_SOLVER
from relax_plugin.goal import Goal
from relax_plugin.limits import Limits
from relax_plugin.parameters import whole_number
from relax_plugin.proofs.probing import random_values
from relax_plugin.result_files import table_frame
from relax_plugin.table.plain_cells import from_plain, to_plain
from relax_plugin.table.tables import array_dtype, as_array

MOST_ROWS = 100_000  # of the model, for a proof
NOT_RECHECKED = {BY_BOUNDS: "the prover's bounds of the network", BY_SOLVER: "solver's word"}
MOST_LETTERS = 10_000_000  # of a file that is read as a certificate


@dataclass(frozen=True)
class Checked:
    """A certificate that holds."""

    claim: str  # in one word
    word: str  # the claim in a sentence
    proved: bool  # all that it claims was shown again; False where a proof is only recorded
    checks: list[str] = field(default_factory=list)  # what was looked at
    rows: int = 0  # that the model was asked
    # The query, the counterfactual, the goal, the constraints and the claim, in lines.
    about: list[str] = field(default_factory=list)


def read_certificate(path: Path) -> dict[str, Any]:
    """The certificate of a file, refused if it is none."""
    if path.stat().st_size > MOST_LETTERS:
        raise CertificateError(f"{path} is larger than any certificate.")
    try:
        data = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise CertificateError(f"{path} is not JSON, or it is cut off: {error}.") from error
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise CertificateError(f"{path} is no certificate of Counterfactuals.certificate.")
    return data


def check(certificate: Mapping[str, Any], model: Any, *, most_rows: int = MOST_ROWS) -> Checked:
    """Check a certificate again, and refuse it by a CertificateError that says what does not hold.

    Parameters
    ----------
    certificate : mapping
        What `Counterfactuals.certificate` gave, or `json.loads` of its text.
    model : the model that it is about, as it was explained
    most_rows : int
        That the model may be asked for a proof; where more are needed, the proof is only recorded.
    """
    most = whole_number("most_rows", most_rows, 0)
    with _told_in_a_sentence():
        _refuse_unsealed(certificate)
        return _Check(certificate, model).run(most)


def probed_rows(certificate: Mapping[str, Any]) -> tuple[pd.DataFrame, str]:
    """Rows by which a model from a file may be looked at, and its task; refused if the checksum is not right."""
    with _told_in_a_sentence():
        _refuse_unsealed(certificate)
        known = space_from_plain(certificate["space"], certificate["rules"])
        space, start = known.taking_in(_frame(known, certificate["query"], certificate.get("query_dtypes")))
        return space.frame(space.model_input(random_values(space, start[0], PROBES))), str(certificate["model"]["task"])


def _refuse_unsealed(certificate: Mapping[str, Any]) -> None:
    if not isinstance(certificate, Mapping) or certificate.get("format") != FORMAT:
        raise CertificateError("this is no certificate of Counterfactuals.certificate.")
    if certificate.get("version") != VERSION:
        raise CertificateError(f"it has version {certificate.get('version')!r}; this package checks {VERSION}.")
    if certificate.get(SEAL) != checksum(certificate):
        raise CertificateError("it was changed or is damaged: its checksum is not that of its content.")


@contextmanager
def _told_in_a_sentence() -> Iterator[None]:
    """Whatever a certificate under a right checksum may hold, what is wrong with it is a CertificateError."""
    try:
        yield
    except ReLAXError as error:
        if isinstance(error, CertificateError):
            raise
        raise CertificateError(f"it cannot be checked: {error}") from error
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError, ArithmeticError) as error:
        raise CertificateError(f"it is damaged or incomplete: {type(error).__name__} {error}.") from error


class _Check:
    """One certificate and its model."""

    def __init__(self, told: Mapping[str, Any], model: Any) -> None:
        self.told, self.model = told, model
        known = space_from_plain(told["space"], told["rules"])
        goal = {"label": None, "low": None, "high": None, **told["goal"]}
        self.goal = Goal.from_dict({**goal, "label": from_plain(goal["label"])})
        self.asked = _asked(told["asked"], goal)
        query = _frame(known, told["query"], told.get("query_dtypes"))
        self.space, start = known.taking_in(query)
        self.query, self.start = query, start[0]
        self.limits = self._limits()
        self.native = Native(model, told["model"]["task"])

    def _limits(self) -> Limits:
        """What the query may become; refused if the constraints are none that a call of `explain` could have had."""
        asked = self.asked
        limits = self.space.limits(values=self.start[None, :], **({} if asked is None else vars(asked.constraints)))
        numbers = ~self.space.is_categorical
        if (reversed_ := numbers & (limits.low > limits.high)[0]).any():
            raise CertificateError(f"the bounds of {self.space.names[int(np.argmax(reversed_))]!r} are reversed.")
        if asked is None:
            return limits
        whole_number("max_changes", asked.max_changes, 1)
        whole_number("further_models", asked.further_models, 0)
        for name, known in (("objective", ("sparse", "closest")), ("plausible", (None, "prefer", "require"))):
            if getattr(asked, name) not in known:
                raise CertificateError(
                    f"{name} is {getattr(asked, name)!r}; accepted are {', '.join(map(repr, known))}."
                )
        return limits

    def run(self, most_rows: int) -> Checked:
        claim = self.told["claim"]
        if claim not in CLAIMS:
            raise CertificateError(f"it claims {claim!r}; known are {', '.join(CLAIMS)}.")
        checks = ["the checksum is that of the content"]
        self._check_model()
        checks.append("the model answers the probe rows as it did")
        before = self._answer("query", self.query, "before", "scores_before")
        met = bool(meets(self.goal, before, before)[0])
        if met != (claim == "already"):
            raise CertificateError(
                f"it claims {claim!r}, but the query {'meets' if met else 'does not meet'} the goal."
            )
        changes, distance = (0, 0.0) if self.told["answer"] is None else self._check_answer(claim, before)
        if self.told["answer"] is None and claim not in ("impossible", "not found"):
            raise CertificateError(f"it claims {claim!r} without an answer.")
        if self.told["answer"] is not None:
            checks.append("the model's own predict meets the goal at the answer")
            checks.append("the answer keeps bounds, grids, directions, groups, derived columns and rules")
        told_changes = self.told.get("changes")
        word = sentence_of(claim, told_changes, self.told["rows"], priced=self.space.has_prices)
        if word != self.told["word"]:
            raise CertificateError(f"its word is {self.told['word']!r}, but that of its claim is {word!r}.")
        proved = True
        if claim in PROVED:
            question = self._question(before)
            proved, how = shown_again(question, claim, changes, distance, most_rows)
            checks.append(f"the proof: {how}")
            word_of = next((said for way, said in NOT_RECHECKED.items() if way in str(self.told["shown"])), "")
            checks += [f"not re-checked: {word_of}"] * bool(word_of and not proved)
        checks += self._left_open()
        about = described(self.told, self.space, self.goal, self.asked)
        return Checked(claim, word, proved, checks, self.native.rows, about)

    def _check_model(self) -> None:
        said = self.native.ask(self.space.model_input(random_values(self.space, self.start, PROBES)))
        now = fingerprint(self.native.name, self.native.task, said.labels, said.scores)
        if not same_model(self.told["model"], now):
            raise CertificateError("the model is another one: it does not answer the probe rows of the space as told.")

    def _answer(self, what: str, row: pd.DataFrame, name: str, scores: str) -> Said:
        said = self.native.ask(self._rows(row))
        told = from_plain(self.told[name])
        numbers = self.native.task == "regression"
        same = near(self.told["model"], [told], said.labels) if numbers else said.labels[0] == told
        if not same:
            raise CertificateError(f"the model answers {said.labels[0]!r} to the {what}, but {told!r} is told.")
        given = None if said.scores is None else said.scores[0]
        if scores in self.told and (given is None or not near(self.told["model"], self.told[scores], given)):
            raise CertificateError(f"the model's scores of the {what} are not those told.")
        return said

    def _check_answer(self, claim: str, before: Said) -> tuple[int, float]:
        changed = dict(self.told["answer"])
        if unknown := [name for name in changed if name not in self.space.columns]:
            raise CertificateError(f"its answer has the column {unknown[0]!r}, which the space has not.")
        pairs = zip(self.space.columns, self.told["query"], strict=True)
        cells = [changed.get(name, cell) for name, cell in pairs]
        row = _frame(self.space, cells, self.told.get("answer_dtypes"))
        space, values = self.space.taking_in(row)
        end = values[0]
        if claim in ("impossible", "not found"):
            raise CertificateError(f"it claims {claim!r}, and has an answer.")
        said = self._answer("answer", row, "after", "scores_after")
        for fault in faults(space, self.asked, (self.query, row), (self.start, end)):
            raise CertificateError(f"the answer is not allowed: {fault}")
        if metrics.violations(space, self.limits, self.start[None, :], end[None, :])[0]:
            raise CertificateError("the answer is not allowed: the judge counts a constraint that it breaks.")
        if not meets(self.goal, before, said)[0]:
            raise CertificateError(f"the model answers {said.labels[0]!r} to the answer, which does not meet the goal.")
        return self._counted(claim, end)

    def _counted(self, claim: str, end: Values) -> tuple[int, float]:
        changes, distance = int(np.count_nonzero(end != self.start)), float(self.told["distance"])
        told = self.told["changes"]
        if type(told) is not int or changes != told or (changes == 0) != (claim == "already"):
            raise CertificateError(f"the answer changes {changes} features, but {told} are told.")
        cost = self._question(None).cost(end[None, :])[0]
        if not abs(cost - distance) <= CLOSE * abs(cost):
            raise CertificateError(f"the distance of the answer is {cost!r}, but {distance!r} is told.")
        return changes, distance

    def _question(self, before: Said | None) -> Question:
        said = before or Said(np.empty(0), None, None)
        rows = self._rows(self.query)
        return Question(self.space, self.asked, self.goal, self.native, self.model, rows, self.start, said)

    def _rows(self, row: pd.DataFrame) -> Rows:
        if self.space.container == "frame" or "array" not in self.told:
            return row
        return as_array(row, array_dtype(self.told["array"]))

    def _left_open(self) -> list[str]:
        """What the answer had to keep beside what can be checked here."""
        if self.asked is None:
            return []
        told = ["not checked: that the answer is plausible"] if self.asked.plausible == "require" else []
        more = f"not checked: that it holds for {self.asked.further_models} further models"
        return told + [more] * bool(self.asked.further_models)


def _asked(data: Mapping[str, Any], goal: dict[str, Any]) -> Asked | None:
    if not isinstance(data, Mapping):
        raise CertificateError(f"what was asked is {data!r}; a mapping is needed.")
    if not data:
        return None
    lists: dict[str, Any] = {name: [] for name in ("immutable", "increase_only", "decrease_only", "bounds")}
    return Asked.from_dict({**lists, "vary": None, "classes": None, "probabilities": False, "goal": goal, **data})


def _frame(space: FeatureSpace, cells: list[Any], dtypes: Any) -> pd.DataFrame:
    if len(cells) != len(space.columns):
        raise CertificateError(f"a row has {len(cells)} cells, but the space has {len(space.columns)} columns.")
    if isinstance(dtypes, dict):
        dtypes = [dtypes[ALL]] * len(cells)
    if dtypes is None:
        dtypes = column_dtypes(space)
    data = {"columns": [[cell] for cell in cells], "dtypes": dtypes}
    frame = table_frame(data, space.columns, pd.RangeIndex(1), space)
    for place, (name, cell) in enumerate(zip(space.columns, cells, strict=True)):
        held = to_plain(frame.iloc[:, place].tolist()[0], name)
        if held != cell:  # whole numbers cut off what is behind the point, short floats round
            raise CertificateError(f"column {name!r} is {cell!r}, which its dtype {dtypes[place]} does not hold.")
    return frame
