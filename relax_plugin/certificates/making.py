"""Making certificates: an answer, its question, the model's fingerprint and the claim as one small mapping."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from relax_plugin.base import CounterfactualExplainer
from relax_plugin.blackbox import model_to_ask
from relax_plugin.certificates.native import PROBES, fingerprint, short
from relax_plugin.certificates.spaces import ALL, column_dtypes, space_to_plain
from relax_plugin.certificates.words import FORMAT, SEAL, VERSION, checksum, sentence_of
from relax_plugin.errors import GoalError, ModelError, RefusedRowError
from relax_plugin.formatting import BY_BOUNDS, BY_SOLVER
from relax_plugin.goal import Goal
from relax_plugin.proofs.probing import random_values
from relax_plugin.results import Counterfactuals
from relax_plugin.table.feature_files import dtype_text
from relax_plugin.table.plain_cells import to_plain

CLOSE = 1e-9  # relative difference of distances that is rounding
ASKER = ("certificate(i, explainer)", "a certificate")  # as the refusals of `model_to_ask` name it
CACHE = "_for_certificates"  # where a result keeps what all of its certificates have in common


@dataclass
class Shared:
    """What the certificates of one result have in common; plain data, so that a pickle holds no model by it."""

    space: dict[str, Any]
    rules: list[Any]
    queries: list[Any]  # the columns of the queries,
    answers: list[Any]  # and of the counterfactuals found, as the model was asked
    rows: dict[str, Any]  # what is the same for every row: dtypes that are not the space's
    models: dict[bytes, dict[str, Any]] = field(default_factory=dict)  # by the cells that the probes share


def certificate_of(
    result: Counterfactuals, explainer: CounterfactualExplainer | None, query: int, cf_id: int
) -> dict[str, Any]:
    """What `Counterfactuals.certificate` gives."""
    if result.refused[query]:
        raise result.refusal(query)
    shared = _shared(result)
    claim, changes = _claim(result, query, cf_id)
    asked = None if result.asked is None else result.asked.take([query])
    rows = int(result.rows_queried[query])
    data: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "claim": claim,
        "word": sentence_of(claim, changes, rows, priced=result.space.has_prices),
        "shown": _shown(result, claim, changes, query),
        "rows": rows,
        "model": _model(result, explainer, shared, query),
        "goal": {name: own for name, own in _goal(result, explainer, query).items() if own is not None},
        "asked": {} if asked is None else _brief(asked.to_dict()),
        "space": shared.space,
        "rules": shared.rules,
        **_rows(result, shared, query, cf_id),
        "before": to_plain(result.before[query], "before"),
    }
    if result.scores_before is not None:
        data["scores_before"] = short(result.scores_before[query])
    if result.found[query, cf_id]:
        data |= {"after": to_plain(result.after[query, cf_id], "after"), "changes": changes}
        data["distance"] = _distance(result, query, cf_id)
        if result.scores_after is not None and np.isfinite(result.scores_after[query, cf_id]).all():
            data["scores_after"] = short(result.scores_after[query, cf_id])
    return data | {SEAL: checksum(data)}


def _claim(result: Counterfactuals, query: int, cf_id: int) -> tuple[str, int | None]:
    fewest, distance = (np.nan, np.nan) if result.proved is None else result.proved[query]
    if not result.found[query, cf_id]:
        return ("impossible" if fewest > len(result.space) else "not found"), None
    changes = int(np.count_nonzero(result.values[query, cf_id] != result.start[query]))
    if changes == 0:
        return "already", 0
    if changes == fewest and _distance(result, query, cf_id) <= distance * (1 + CLOSE):
        return "closest", changes
    return ("fewest" if changes == fewest or changes == 1 else "found"), changes


def _distance(result: Counterfactuals, query: int, cf_id: int) -> float:
    return float(result.space.distance(result.values[query, [cf_id]], result.start[[query]])[0])


def _shown(result: Counterfactuals, claim: str, changes: int | None, query: int) -> str:
    asked = "the model's own predict on the delivered row"
    proof = "" if result.proofs is None else str(result.proofs[query])
    how = next((way for way in (BY_BOUNDS, BY_SOLVER) if way in proof), "over the leaves of the trees")
    if claim == "impossible":
        return f"every set of features that may change, {how}"
    if claim == "closest":
        return f"every set of up to {changes} features, {how}; {asked}"
    if claim == "fewest":
        return f"{'the query itself' if changes == 1 else f'every set of fewer features, {how}'}; {asked}"
    return asked if claim in ("found", "already") else str(result.statuses[query, 0])


def _shared(result: Counterfactuals) -> Shared:
    if CACHE not in vars(result):
        space = result.space
        dtypes, frame, found = column_dtypes(space), space.frame(result.queries), result.frame
        told: dict[str, Any] = {}
        for name, table in (("query_dtypes", frame), ("answer_dtypes", found)):
            own = [dtype_text(table[column].dtype) for column in space.columns]
            if own != dtypes:
                told[name] = {ALL: own[0]} if len(set(own)) == 1 else own
        if isinstance(result.queries, np.ndarray):
            told["array"] = str(result.queries.dtype)
        queries, answers = ([table[name].array for name in space.columns] for table in (frame, found))
        vars(result)[CACHE] = Shared(space_to_plain(space), space.to_dict()["rules"], queries, answers, told)
    shared: Shared = vars(result)[CACHE]
    return shared


def _rows(result: Counterfactuals, shared: Shared, query: int, cf_id: int) -> dict[str, Any]:
    """The cells of the query, and those in which the answer differs."""
    names = result.space.columns
    start = [to_plain(column[query], name) for column, name in zip(shared.queries, names, strict=True)]
    data: dict[str, Any] = {"query": start, "answer": None, **shared.rows}
    if result.found[query, cf_id]:
        place = int(np.count_nonzero(result.found.ravel()[: query * result.found.shape[1] + cf_id]))
        cells = [to_plain(column[place], name) for column, name in zip(shared.answers, names, strict=True)]
        pairs = zip(names, start, cells, strict=True)
        data["answer"] = [[name, new] for name, old, new in pairs if (type(old), old) != (type(new), new)]
    return data


def _model(
    result: Counterfactuals, explainer: CounterfactualExplainer | None, shared: Shared, query: int
) -> dict[str, Any]:
    """The fingerprint, asked for once; where rows carry cells to the model, once for each kind of them."""
    start = result.start[query]
    carried = [j for j, feature in enumerate(result.space.features) if feature.carried]
    key = start[carried].tobytes()
    if key not in shared.models:
        blackbox = model_to_ask(result, explainer, *ASKER).over(result.space).for_call()
        probes = result.space.model_input(random_values(result.space, start, PROBES))
        try:
            answer = blackbox.confirm(probes)
        except RefusedRowError as error:
            raise ModelError(
                f"a certificate needs the model's predictions for {PROBES} rows drawn from the feature space, and the "
                f"model refuses at least one of them: {error.words}. A space with narrower bounds may avoid these rows."
            ) from error
        labels, name = blackbox.labels(answer.output), type(blackbox.model).__name__
        shared.models[key] = fingerprint(name, blackbox.task, labels, answer.scores)
    return shared.models[key]


def _goal(result: Counterfactuals, explainer: CounterfactualExplainer | None, query: int) -> dict[str, Any]:
    if result.asked is not None:
        goal = result.asked.goal
    elif explainer is not None:
        goal = explainer.wanted_goal()
    elif model_to_ask(result, explainer, *ASKER).task == "regression":
        raise GoalError("this result does not tell its goal; give certificate(i, explainer) the one that made it.")
    else:
        goal = Goal.flip()
    data = goal.chunk([query]).to_dict()
    single = {name: own[0] if isinstance(own, list | tuple) else own for name, own in data.items()}
    return single | {"label": to_plain(single["label"], "goal")}


def _brief(asked: dict[str, Any]) -> dict[str, Any]:
    """The question without its goal, which stands by itself, and without what it leaves open."""
    left_out = ("goal", "classes", "probabilities")
    empty: dict[str, list[Any]] = {
        name: [None] if name == "vary" else [None, [], 0] for name in asked
    }  # no name is not all names
    return {name: own for name, own in asked.items() if name not in left_out and own not in empty[name]}
