"""Files that version 0.2.0 wrote: results and certificates are still read, and still say the same; agents are refused.

`tests/stored_files.py` made them; `reference.stored_cases` holds the tables and the models, which are plain arithmetic.
What a saved agent answers depends on the processor that trained it and on this one, so that laws are tested, no digits.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
import pytest
from reference.stored_cases import CASES, Case, Labels, Points, frame, numbers_points
from stored_files import DATA, content

from relax_plugin import Counterfactuals, Goal, ReLAX
from relax_plugin.certificates.checking import check
from relax_plugin.certificates.words import CLAIMS, checksum
from relax_plugin.cli import main
from relax_plugin.errors import CertificateError, SavedFileError

STORED = DATA / "version_0.2.0"
KINDS = {"agents": "safetensors", "results": "json", "contents": "json", "certificates": "json"}
every_case = pytest.mark.parametrize("name", list(CASES))


def stored(kind: str, name: str) -> Path:
    return STORED / kind / f"{name}.{KINDS[kind]}"


def certificate(name: str) -> dict[str, Any]:
    return json.loads(stored("certificates", name).read_text(encoding="utf-8"))


def result(name: str) -> Counterfactuals:
    return Counterfactuals.from_json(stored("results", name).read_text(encoding="utf-8"))


def goal_met(goal: Goal | None, model: Any, before: Any, after: Any, queries: np.ndarray) -> np.ndarray:
    """Whether each delivered row meets the goal, by the model's own answers."""
    old, new = model.predict(before), model.predict(after)
    if goal is None:
        return new != old
    if goal.kind == "shift":
        return new - old >= goal.delta
    if goal.kind == "between":
        low, high = (np.broadcast_to(end, len(CASES["between"].asked))[queries] for end in (goal.low, goal.high))
        return (low <= new) & (new <= high)
    if goal.min_probability is None and goal.raise_by is None:
        return new == goal.label
    place = model.classes_.tolist().index(goal.label)
    chance, chance_before = model.predict_proba(after)[:, place], model.predict_proba(before)[:, place]
    if goal.raise_by is not None:
        return chance >= chance_before + goal.raise_by
    return (new == goal.label) & (chance >= goal.min_probability)


def faults(case: Case, found: Counterfactuals) -> list[str]:
    """What is wrong with the counterfactuals of a call."""
    goal = case.call.get("goal", case.options.get("goal"))
    queries, slots = np.nonzero(found.found)
    if len(queries) == 0:
        return []
    columns = list(found.space.columns)
    after = found.frame[columns]
    before = frame(case.asked, found.space).iloc[queries].set_axis(after.index)
    told = []
    as_asked = (lambda rows: rows) if isinstance(case.rows, pd.DataFrame) else (lambda rows: rows.to_numpy())
    if not goal_met(goal, case.model, as_asked(before), as_asked(after), queries).all():
        told.append("a counterfactual does not meet the goal")
    if case.rule is not None and not np.asarray(case.rule(before, after)).all():
        told.append("a counterfactual breaks a constraint")
    changed = (before.astype(object) != after.astype(object)) & ~(before.isna() & after.isna())
    others = set(columns) - {*case.call.get("vary", columns), *(one.name for one in found.space.derived)}
    if changed[sorted(others)].any(axis=None):
        told.append("a feature changes that may not")
    if slots.max() >= case.call.get("n", 1):
        told.append("there are more counterfactuals than were asked for")
    if found.sparsity[found.found].max() > case.call.get("max_changes", 5):
        told.append("too many features change")
    return told


def test_there_are_twenty_files_of_each_kind_and_they_are_small() -> None:
    for kind, ending in KINDS.items():
        assert {path.name for path in (STORED / kind).iterdir()} == {f"{name}.{ending}" for name in CASES}, kind
    assert len(CASES) == 20
    assert sum(path.stat().st_size for path in STORED.rglob("*") if path.is_file()) <= 1_500_000
    assert json.loads((STORED / "made.json").read_text())["relax_plugin"] == "0.2.0"


@every_case
def test_a_saved_agent_is_refused_by_a_sentence(name: str) -> None:
    """Its networks say something else than those of today."""
    with pytest.raises(SavedFileError, match=r"has version 10; this package reads \d+, .*: fit and save it again\.$"):
        ReLAX.load(stored("agents", name), model=CASES[name].model)


@every_case
def test_a_result_reads_as_it_did(name: str) -> None:
    frozen = json.loads(stored("contents", name).read_text(encoding="utf-8"))
    assert content(result(name)) == frozen
    assert faults(CASES[name], result(name)) == []
    assert content(Counterfactuals.from_json(result(name).to_json())) == frozen


@every_case
def test_a_certificate_is_verified(name: str) -> None:
    told = certificate(name)
    checked = check(told, CASES[name].model)
    assert checked.proved and checked.claim == told["claim"]


def test_every_claim_is_among_the_certificates() -> None:
    assert {certificate(name)["claim"] for name in CASES} == set(CLAIMS)


@pytest.mark.parametrize("name", ["tree", "no_way", "categories", "array"])
def test_the_command_verifies_a_certificate(name: str, tmp_path: Path, capsys) -> None:
    joblib.dump(CASES[name].model, tmp_path / "model.joblib")
    model = ["--model", str(tmp_path / "model.joblib"), "--json"]
    assert main(["verify", str(stored("certificates", name)), *model]) == 0
    assert json.loads(capsys.readouterr().out)["claim"] == certificate(name)["claim"]
    edited = certificate(name) | {"before": "another"}
    (tmp_path / "edited.json").write_text(json.dumps(edited))
    assert main(["verify", str(tmp_path / "edited.json"), *model]) == 2


def with_part(name: str, **parts: Any) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda told: told | {name: told[name] | parts}


# What is written into a copy, under a checksum that is right again; where there is an answer, or none.
OF_ALL = {
    "another model": with_part("model", type="Other"),
    "another task": lambda told: with_part(
        "model", task="classification" if told["model"]["task"] == "regression" else "regression"
    )(told),
    "another prediction": lambda told: (
        told | {"before": "x" if isinstance(told["before"], str) else told["before"] + 1}
    ),
    "a claim there is not": lambda told: told | {"claim": "best"},
    "another claim": lambda told: told | {"claim": "found" if told["claim"] == "already" else "already"},
    "another word": lambda told: told | {"word": f"{told['word']}, always"},
    "another version": lambda told: told | {"version": told["version"] + 99},
    "a query cut off": lambda told: told | {"query": told["query"][:-1]},
}
OF_ANSWERS = {
    "no answer": lambda told: told | {"answer": None},
    "another column": lambda told: told | {"answer": [["nowhere", 1]]},
    "more changes": lambda told: told | {"changes": told["changes"] + 1},
    "less distance": lambda told: told | {"distance": told["distance"] / 2 if told["distance"] else 1.0},
    "impossible": lambda told: told | {"claim": "impossible"},
}
WITHOUT_ANSWERS = {"found": lambda told: told | {"claim": "found"}}


@pytest.mark.slow
@every_case
def test_an_edited_certificate_is_refused(name: str) -> None:
    told, model = certificate(name), CASES[name].model
    for edit in (OF_ALL | (WITHOUT_ANSWERS if told["answer"] is None else OF_ANSWERS)).values():
        edited = edit(json.loads(json.dumps(told)))
        assert edited != told
        with pytest.raises(CertificateError, match=r"checksum|version"):
            check(edited, model)
        with pytest.raises(CertificateError):
            check(edited | {"sha256": checksum(edited)}, model)


@pytest.mark.parametrize("name", ["two_classes", "min_probability", "labels_only"])
def test_a_certificate_is_refused_for_another_model(name: str) -> None:
    kind = Labels if name == "labels_only" else Points
    with pytest.raises(CertificateError, match="another one"):
        check(certificate(name), kind(numbers_points, 8))


def test_a_damaged_result_is_refused() -> None:
    text = stored("results", "two_classes").read_text().replace("yes", "Yes")
    with pytest.raises(SavedFileError, match="checksum"):
        Counterfactuals.from_json(text)
