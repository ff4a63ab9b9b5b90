"""The faces: other libraries' manners over the same explainers, judged by the rows that they hand out."""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import dice_ml
import numpy as np
import pandas as pd
from raiutils.exceptions import UserConfigValidationException

from benchmarks.fuzz.cases import (
    OPTIONS,
    Case,
    Counts,
    Setting,
    escaped,
    identical,
    raise_first_unknown,
    random_state,
    sentence,
)
from benchmarks.fuzz.laws import at_least, at_most
from benchmarks.fuzz.oracle import Oracle, cells_of, same_cells
from relax_plugin import FeatureSpace
from relax_plugin.adapters.alibi import ReLAXTabular
from relax_plugin.adapters.carla import ReLAXRecourse
from relax_plugin.adapters.dice import ReLAXDice
from relax_plugin.adapters.interpret import ReLAX as Interpretable
from relax_plugin.adapters.shap import CounterfactualShap
from relax_plugin.errors import ReLAXError

FACES = ("interpret", "shap", "alibi", "carla", "dice")
Broken = Iterator[tuple[str, str]]


@dataclass(frozen=True)
class FaceCase:
    """A case, and the face through which it is asked."""

    face: str = "interpret"
    case: Case = field(default_factory=Case)


def check_face(asked: FaceCase, counts: Counts | None = None, known: Any = frozenset()) -> None:
    """Run the case through the face; raises `Violation` for the first broken promise that is not `known`."""
    counts = counts if counts is not None else Counts()
    counts.cases += 1
    state, setting = random_state(), Setting(asked.case)
    kept, broken = setting.queries.copy(), list[tuple[str, str]]()
    before = counts.delivered["faces"]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for kind, text in JUDGES[asked.face](setting, counts):
                broken.append((f"{asked.face} {kind}", text))
        counts.queries["faces"] += len(setting.queries) * (counts.delivered["faces"] > before)
    except (ReLAXError, UserConfigValidationException) as refusal:
        counts.refused[f"{asked.face} {sentence(refusal)}"] += 1
        counts.delivered["faces"] = before
    except Exception as error:
        broken.append(escaped(error))
    if not identical(kept, setting.queries):
        broken.append((f"{asked.face} user's rows", "the queries were written to"))
    if random_state() != state:
        broken.append((f"{asked.face} global state", "the random state of numpy, random or torch is another one"))
    raise_first_unknown(broken, known, counts)


def through_interpret(setting: Setting, counts: Counts) -> Broken:
    case, space = setting.case, FeatureSpace.infer(setting.training, **setting.said)
    options = {**OPTIONS.get(case.method, {}), "max_changes": case.max_changes}
    face = Interpretable(
        setting.model.handed,
        setting.training,
        explainer=case.method,
        options=options,
        goal=case.wanted.goal(setting.model.labels, setting.model.numbers, 1) if setting.model.is_regressor else None,
        space=space,
        seed=case.seed,
    )
    told = face.explain_local(setting.queries, n=setting.call.n, goal=setting.goal, **setting.asked)
    result = told.counterfactuals
    counts.delivered["faces"] += int(result.found.sum())
    oracle = Oracle(setting, result)
    yield from oracle.check()
    original = pd.DataFrame(setting.queries)
    changes = {(owner, slot): {} for owner, slot in zip(oracle.owner, oracle.frame["cf_id"], strict=True)}
    for row, j in np.argwhere(oracle.changed):
        place = (oracle.owner[row], oracle.frame["cf_id"].iloc[row])
        changes[place][setting.names[j]] = oracle.delivered[j][row]
    for query in range(len(setting.queries)):
        data = told.data(query)
        if not same_cells(np.array(data["values"], object), original.iloc[query].to_numpy(object)).all():
            yield "values", f"row {query} shows {data['values']}"
        for slot, one in enumerate(data["counterfactuals"]):
            shown = {change["name"]: change["to"] for change in one["changes"]}
            if one["found"] != result.found[query, slot] or shown != changes.get((query, slot), {}):
                yield "changes", f"row {query} slot {slot} shows {shown}, delivered was {changes.get((query, slot))}"
    told.data(-1)
    told.data(None)


def through_shap(setting: Setting, counts: Counts) -> Broken:
    """Values share out f(x) - f(x'), f being the probability of the query's class or a regressor's number."""
    explainer = setting.explainer()
    result = setting.explain(explainer)
    told = CounterfactualShap(explainer, every_class=False).attribute(result)
    counts.delivered["faces"] += int(result.found.sum())
    oracle = Oracle(setting, result)
    yield from oracle.check()
    model, before = setting.model, oracle.before
    if told.values.shape != (len(setting.queries), len(setting.names)):
        yield "shape", f"{told.values.shape}"
    for j, name in enumerate(setting.names):
        moved = np.zeros(len(setting.queries), dtype=bool)
        moved[oracle.owner[oracle.changed[:, j]]] = True
        if (told.values[~moved, j] != 0).any():
            yield "unchanged", f"{name!r} has a share without being changed"
    if not np.isfinite(told.values).all() or not np.isfinite(told.base_values).all():
        yield "finite", "values are not finite"
    if model.is_regressor:
        own, after = before, model.predict(oracle.delivered_rows) if len(oracle.frame) else np.empty(0)
    elif model.has_probabilities:
        place = {label: k for k, label in enumerate(np.asarray(model.labels).tolist())}
        codes = np.array([place[label] for label in before.tolist()], dtype=int)
        own = model.probabilities(setting.queries)[np.arange(len(codes)), codes]
        after = np.empty(0)
        if len(oracle.frame):
            chances = model.probabilities(oracle.delivered_rows)
            after = chances[np.arange(len(oracle.owner)), codes[oracle.owner]]
    else:
        return
    total = np.zeros(len(own))
    np.add.at(total, oracle.owner, after)
    count = np.bincount(oracle.owner, minlength=len(own))
    mean = np.where(count > 0, total / np.maximum(count, 1), own)
    unit = 1.0 + np.abs(own) + np.abs(mean)
    if (np.abs(told.values.sum(axis=1) - (own - mean)) > 1e-9 * unit).any():
        yield "sum", "values do not sum to f(x) - f(x')"


def through_alibi(setting: Setting, counts: Counts) -> Broken:
    """One counterfactual a row; a row without shows by its own class."""
    explainer = setting.explainer()
    targets = None
    if not setting.model.is_regressor and setting.wanted.kind in ("to", "to each"):
        known = np.asarray(explainer.blackbox_.classes).tolist()
        labels = setting.wanted.labels(setting.model.labels, len(setting.queries))
        if any(label not in known for label in labels):
            return  # a position cannot name a class that was not seen
        targets = np.array([known.index(label) for label in labels])
    told = ReLAXTabular(explainer=explainer).explain(setting.queries, Y_t=targets)
    rows = told.cf["X"]
    if len(rows) != len(setting.queries) or len(told.orig["X"]) != len(setting.queries):
        yield "shape", f"{len(rows)} rows for {len(setting.queries)} queries"
        return
    result = told.counterfactuals
    found = result.found[:, 0]
    counts.delivered["faces"] += int(found.sum())
    yield from Oracle(setting, result).check()
    frame = result.frame[setting.names]
    handed = rows[found] if isinstance(rows, np.ndarray) else rows[found].to_numpy()
    for j, column in enumerate(cells_of(frame)):
        if not same_cells(column.astype(object), handed[:, j].astype(object)).all():
            yield "cells", f"{setting.names[j]!r} differs from what was found"
    original = np.asarray(pd.DataFrame(setting.queries), dtype=object)
    if not same_cells(rows[~found].astype(object).ravel(), original[~found].ravel()).all():
        yield "not found", "a row without a counterfactual is not the query itself"
    told.to_json()


def through_carla(setting: Setting, counts: Counts) -> Broken:
    """Encoded frames of numbers; class 1 is wanted, and a row without counterfactual is NaN."""
    numbers = [name for name, law in zip(setting.names, setting.laws, strict=True) if law.is_number]
    if (
        not isinstance(setting.training, pd.DataFrame)
        or numbers != setting.names
        or not setting.model.has_probabilities
    ):
        return
    if len(setting.model.labels) < 2:
        return
    training, queries = setting.training.astype(np.float64), setting.queries.astype(np.float64)
    immutable = setting.said["immutable"]
    data = SimpleNamespace(df=training, continuous=numbers, categorical=[], immutables=immutable, target="y")
    model = SimpleNamespace(data=data, feature_input_order=numbers, predict_proba=setting.model.probabilities)
    options = {**OPTIONS.get(setting.case.method, {}), "max_changes": setting.case.max_changes}
    method = ReLAXRecourse(model, {"explainer": setting.case.method, "options": options})
    rows = method.get_counterfactuals(queries)
    if not rows.index.equals(queries.index) or list(rows.columns) != numbers:
        yield "shape", "the index or the columns are others"
        return
    empty = rows.isna().to_numpy()
    if (empty.any(axis=1) != empty.all(axis=1)).any():
        yield "shape", "a row is NaN in part"
    found = ~empty.any(axis=1)
    counts.delivered["faces"] += int(found.sum())
    made, was = rows.to_numpy()[found], queries.to_numpy()[found]
    if found.any() and (setting.model.probabilities(rows[found]).argmax(axis=1) != 1).any():
        yield "goal", "a delivered row does not have class 1"
    changed = made != was
    for j, name in enumerate(numbers):
        low, high = training[name].min(), training[name].max()
        outside = changed[:, j] & ((made[:, j] < low) | (made[:, j] > high))
        if outside.any() or (changed[:, j].any() and name in immutable):
            yield "constraint", f"{name!r} leaves [{low!r}, {high!r}], or is immutable"
    if setting.case.max_changes is not None and (changed.sum(axis=1) > setting.case.max_changes).any():
        yield "max_changes", "too many changes"


def through_dice(setting: Setting, counts: Counts) -> Broken:
    """Frames with an outcome; what comes back has DiCE's columns, within the training data, and the wanted class."""
    model, names = setting.model, setting.names
    if not isinstance(setting.training, pd.DataFrame) or not model.has_probabilities or len(model.labels) < 2:
        return
    outcome = model.predict(setting.training)
    if model.labels.dtype.kind not in "iu" or not np.array_equal(np.unique(outcome), np.arange(len(model.labels))):
        return  # DiCE wants every class in the data, and counts them from 0
    numbers = [law.name for law in setting.laws if law.is_number]
    data = dice_ml.Data(
        dataframe=setting.training.reset_index(drop=True).assign(outcome=outcome),
        continuous_features=numbers,
        outcome_name="outcome",
    )
    own = SimpleNamespace(predict=model.predict, predict_proba=model.probabilities, classes_=model.labels)
    interface = dice_ml.Model(model=own, backend="sklearn")
    options = {**OPTIONS.get(setting.case.method, {}), "max_changes": setting.case.max_changes}
    face = ReLAXDice(data, interface, setting.case.method, options, seed=setting.case.seed).fit(setting.training)
    wanted = setting.case.wanted.choice % len(model.labels)
    free = [name for name in names if name not in setting.said["immutable"]]
    made = face.generate_counterfactuals(
        setting.queries, total_CFs=setting.call.n, desired_class=wanted, features_to_vary=free or "all"
    )
    for query, example in enumerate(made.cf_examples_list):
        found = example.final_cfs_df
        if found is None:
            continue
        counts.delivered["faces"] += len(found)
        rows = found[names].reset_index(drop=True)
        original = setting.queries.iloc[[query] * len(rows)].reset_index(drop=True)
        if list(rows.dtypes) != list(original.dtypes):
            yield "dtype", f"query {query}: {list(map(str, original.dtypes))} became {list(map(str, rows.dtypes))}"
        if (model.predict(rows) != wanted).any():
            yield "goal", f"query {query}: a delivered row does not have class {wanted}"
        changed = np.column_stack([~same_cells(a, b) for a, b in zip(cells_of(original), cells_of(rows), strict=True)])
        for j, law in enumerate(setting.laws):
            moved = changed[:, j]
            if law.is_number and moved.any():
                cells, seen = cells_of(rows)[j][moved], data.data_df[law.name]  # in which DiCE keeps float32
                low, high = (float(str(end)) for end in (seen.min(), seen.max()))
                if not (at_least(cells, low) & at_most(cells, high)).all():
                    yield "bounds", f"query {query}: {law.name!r} is {cells}, the data has {low} to {high}"
        if free and any(changed[:, j].any() for j, name in enumerate(names) if name not in free):
            yield "constraint", f"query {query}: an immutable feature changed"
        if setting.case.max_changes is not None and (changed.sum(axis=1) > setting.case.max_changes).any():
            yield "max_changes", f"query {query}: too many changes"
        if len(rows) > 1 and rows.astype(object).duplicated().any():
            yield "distinct", f"query {query}: two equal counterfactuals"


JUDGES = {
    "interpret": through_interpret,
    "shap": through_shap,
    "alibi": through_alibi,
    "carla": through_carla,
    "dice": through_dice,
}
