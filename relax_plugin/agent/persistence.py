"""Saving and loading a fitted ReLAX: safetensors with a JSON header. The file is data; the model is not in it.

A file is read as if a stranger had written it: a checksum tells damage, sizes are compared before anything of that
size is made, and every number is looked at. Whatever is wrong is a `SavedFileError`.
"""

import hashlib
import json
import warnings
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from relax_plugin.agent.config import ReLAXConfig
from relax_plugin.agent.history import ROW_OF_HISTORY, History
from relax_plugin.agent.policy import Policy, weight_shapes
from relax_plugin.answers import Answer
from relax_plugin.arrays import Array, Values, take_array
from relax_plugin.base import real_number, whole_number
from relax_plugin.blackbox import BlackBox
from relax_plugin.errors import InputError, ReLAXError, SavedFileError
from relax_plugin.features import FeatureSpace
from relax_plugin.files import replacing
from relax_plugin.goal import Goal
from relax_plugin.other_models import check_models
from relax_plugin.plausibility import Plausibility, TrainingRows
from relax_plugin.readers import make_reader
from relax_plugin.search.actions import ActionTable
from relax_plugin.search.moves import Moves
from relax_plugin.search.neighbours import AnsweredRows, Neighbours
from relax_plugin.search.state import Observer
from relax_plugin.table.plain_cells import from_plain, to_plain
from relax_plugin.table.vocabulary import Foreign

if TYPE_CHECKING:
    from relax_plugin.agent.explainer import ReLAX
    from relax_plugin.surrogate.model import SurrogateModel

FORMAT = "relax_plugin.ReLAX"
VERSION = 12  # agents that predict where a number goes
ASKED_ROWS = 32  # training rows of a file that the given model is asked about when it is read
SURROGATE = "surrogate."  # begins the names of the surrogate model's arrays
KINDS_OF_NUMBERS = frozenset({"float32", "float64", "int64", "uint8"})
PLAIN_PARAMETERS = ("variant", "effort", "max_changes", "max_queries", "seconds", "seed", "progress", "objective")

Explainer = TypeVar("Explainer", bound="ReLAX")
Arrays = dict[str, Array]


def save_explainer(explainer: "ReLAX", path: Path, training_rows: bool) -> None:
    """Write the file whole or not at all."""
    blackbox, surrogate, observer = explainer.blackbox_, explainer.surrogate_, explainer.observer_
    plausible, cells = explainer.plausible, _carried_cells(explainer.space_)
    header: dict[str, Any] = {
        "version": VERSION,
        "parameters": {name: getattr(explainer, name) for name in PLAIN_PARAMETERS},
        "plausible": plausible.to_dict() if isinstance(plausible, Plausibility) else plausible,
        "further_models": len(tuple(explainer.also)),
        "config": asdict(explainer.config_),
        "goal": None if explainer.goal_ is None else explainer.goal_.to_dict(),
        "space": explainer.space_.to_dict(),
        "cells": {str(j): cell for j, cell in cells.items()},
        "gap_scale": observer.gap_scale,
        "changes": observer.max_changes,
        "model": {
            "task": blackbox.task,
            "has_scores": blackbox.has_scores,
            "classes": None if blackbox.classes is None else blackbox.classes.tolist(),
            "least_probability": blackbox.least_probability,
            "strict": blackbox.strict,
            "score_kind": blackbox.reader.score_kind,
            "gives_probabilities": getattr(blackbox.reader, "gives_probabilities", None),
        },
        "fit_rows": explainer.fit_rows_,
        "fit_seconds": explainer.fit_seconds_,
        "history": explainer.history_.rows,
        "stopped": explainer.history_.stopped,
        "training": explainer.training_,
        "agreement": None if surrogate is None else asdict(surrogate.agreement),
    }
    arrays = {f"agent.{name}": weight for name, weight in explainer.agent_.weights.items()}
    if surrogate is not None:
        arrays |= {f"{SURROGATE}{name}": weight for name, weight in surrogate.weights_by_name().items()}
    arrays |= {"moves.feature": explainer.moves_.feature, "moves.value": explainer.moves_.value}
    arrays |= {"moved": observer.actions.moved, "natural": explainer.natural_}
    arrays |= _written_rows(explainer.space_, explainer.answered_, list(cells), training_rows)
    arrays = {name: np.array(array, order="C") for name, array in arrays.items()}
    text = json.dumps(header, default=_plain)
    metadata = {"format": FORMAT, "header": text, "sha256": _checksum(text, arrays)}
    try:
        if not path.parent.is_dir():
            raise SavedFileError(f"there is no folder {path.parent} to save {path.name!r} in.")
        with replacing(path) as temporary:
            save_file(arrays, temporary, metadata=metadata)
    except (OSError, SafetensorError, ValueError) as error:
        if isinstance(error, SavedFileError):
            raise
        raise SavedFileError(f"{str(path)!r} cannot be written: {error}.") from error


def _carried_cells(space: FeatureSpace) -> dict[int, Any]:
    """The first cell of each carried column that a file can hold: the model is asked with it.

    The other cells are left out, since no counterfactual changes such a column.
    """
    cells: dict[int, Any] = {}
    for j, feature in enumerate(space.features):
        refusal = None
        for cell in space.foreign_cells(j) if feature.carried else ():
            try:
                cells[j] = to_plain(cell, feature.name)
                break
            except InputError as error:
                refusal = error
        if refusal is not None and j not in cells:
            raise refusal
    return cells


def _written_rows(space: FeatureSpace, answered: AnsweredRows, carried: list[int], training_rows: bool) -> Arrays:
    """The training rows that counterfactuals are made of, and their answers; none with a cell that is no category."""
    rows, answers = answered.neighbours.rows.copy(), answered.answers
    categories = np.diff(space.category_offsets)
    rows[:, carried] = categories[carried]
    foreign = space.is_categorical & (rows >= categories)
    foreign[:, carried] = False
    kept = np.flatnonzero(~foreign.any(axis=1) & answered.known & answers.answered)[: None if training_rows else 0]
    own = {"rows": rows[kept], "answers.output": answers.output[kept]}
    return own if answers.scores is None else own | {"answers.scores": answers.scores[kept]}


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    raise SavedFileError(f"{value!r} of type {type(value).__name__} cannot be saved.")


def _checksum(header: str, arrays: Arrays) -> str:
    total = hashlib.sha256(header.encode())
    for name in sorted(arrays):
        total.update(f"{name} {arrays[name].dtype} {arrays[name].shape}".encode())
        total.update(np.ascontiguousarray(arrays[name]).tobytes())
    return total.hexdigest()


def load_explainer(cls: type[Explainer], path: Path, model: Any, also: Sequence[Any]) -> Explainer:
    """A fitted explainer from a file, checked against the model it is given."""
    header, arrays = _read(path)
    check_models(also)
    if not isinstance(model, BlackBox):
        make_reader(model, "auto")  # refuses what is no model, whatever the file says
    try:
        explainer = _restored(cls, header, arrays, model)
        explainer.also = also
        missing = whole_number("further_models", header["further_models"], 0) if not also else 0
    except InputError as error:
        raise SavedFileError(f"{path} holds what cannot be used: {error}") from error
    except ReLAXError:
        raise
    except Exception as error:  # whatever was written under a right checksum
        raise SavedFileError(f"{path} is damaged or incomplete: {type(error).__name__} {error}.") from error
    if missing:
        warnings.warn(
            f"{path} was saved by an explainer whose answers had to hold for {missing} further models, which no file "
            "holds: they do not count, unless you say load(path, model=..., also=[...]).",
            stacklevel=3,
        )
    return explainer


def _read(path: Path) -> tuple[dict[str, Any], Arrays]:
    try:
        if not path.is_file():
            raise SavedFileError(f"there is no file {path}.")
        with safe_open(path, framework="np") as file:
            metadata = file.metadata() or {}
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
    except (SafetensorError, OSError, ValueError, TypeError, AttributeError) as error:
        if isinstance(error, SavedFileError):
            raise
        raise SavedFileError(f"{str(path)!r} is no safetensors file, or it is cut off: {error}.") from error
    if metadata.get("format") != FORMAT:
        raise SavedFileError(f"{path} was not written by ReLAX.save.")
    try:
        header = json.loads(metadata["header"])
        version = header["version"]
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise SavedFileError(f"the header of {path} is damaged: {type(error).__name__} {error}.") from error
    if version != VERSION:
        raise SavedFileError(
            f"{path} has version {version!r}; this package reads {VERSION}, since agents are trained otherwise now: "
            "fit and save it again."
        )
    foreign = {str(array.dtype) for array in arrays.values()} - KINDS_OF_NUMBERS
    if foreign:
        raise SavedFileError(f"{path} holds {min(foreign)}; only {', '.join(sorted(KINDS_OF_NUMBERS))} belong there.")
    if metadata.get("sha256") != _checksum(metadata["header"], arrays):
        raise SavedFileError(f"{path} is damaged: its checksum is not that of its content.")
    return header, arrays


def _restored(cls: type[Explainer], header: dict[str, Any], arrays: Arrays, model: Any) -> Explainer:
    space = FeatureSpace.from_dict(header["space"])
    carried = {j for j, feature in enumerate(space.features) if feature.carried}
    _require({int(j) for j in header["cells"]} <= carried, "its cells are not those of the columns that are carried")
    space = space.knowing({int(j): Foreign.of([from_plain(cell)]) for j, cell in header["cells"].items()})
    goal = None if header["goal"] is None else Goal.from_dict(header["goal"])
    config = ReLAXConfig(**{name: value for name, value in header["config"].items() if value is not None})
    plausible = header["plausible"]
    plausible = Plausibility(**plausible) if isinstance(plausible, dict) else plausible
    explainer = cls(model, space, goal=goal, config=config, plausible=plausible, **header["parameters"])
    explainer._check_parameters()
    explainer.space_, explainer.config_ = space, config
    rows = _training_rows(space, arrays)
    explainer.blackbox_, known = _blackbox(explainer, space, header["model"], rows[:ASKED_ROWS])
    explainer._read_trees(known)
    explainer._bind_goal()
    gap_scale = real_number("gap_scale", header["gap_scale"], np.finfo(np.float64).tiny, np.finfo(np.float64).max)
    changes = int(real_number("changes", whole_number("changes", header["changes"], 1), 1, len(space)))
    explainer.moves_ = _moves(space, arrays)
    explainer.natural_ = take_array(arrays, "natural", np.float64, len(space))
    _require((explainer.natural_ >= 0).all(), "a natural step is below 0")
    explainer.training_rows_ = TrainingRows.of(space, rows)
    explainer.history_ = _history(header["history"], header["stopped"])
    explainer.fit_rows_ = whole_number("fit_rows", header["fit_rows"], 0)
    explainer.fit_seconds_ = real_number("fit_seconds", header["fit_seconds"], 0.0, np.inf)
    explainer.training_ = header["training"]
    _require(isinstance(explainer.training_, str), "what it says of its training is no text")
    explainer.surrogate_ = _surrogate(explainer.blackbox_, header["agreement"], arrays)
    explainer.answered_ = _answers(explainer.blackbox_, Neighbours(rows), arrays)
    moved = take_array(arrays, "moved", np.int64, None)
    inside = len(moved) and moved[0] >= 0 and moved[-1] < len(space) and (np.diff(moved) > 0).all()
    _require(inside, "the features that the agent moves are none of the space")
    explainer.observer_ = Observer(space, ActionTable(space, config.actions, moved), changes, gap_scale)
    width, actions = explainer.observer_.width(explainer.blackbox_), len(explainer.observer_.actions)
    shapes = weight_shapes(width, actions, config.hidden)
    weights = {name: take_array(arrays, f"agent.{name}", np.float32, *shape) for name, shape in shapes.items()}
    _require(not arrays, f"there is no place for {min(arrays, default='')!r}")
    explainer.agent_ = Policy(weights, explainer.observer_)
    return explainer


def _require(holds: Any, told: str) -> None:
    if not holds:
        raise InputError(f"{told}.")


def _training_rows(space: FeatureSpace, arrays: Arrays) -> Values:
    rows: Values = take_array(arrays, "rows", np.float64, None, len(space))
    counts = np.diff(space.category_offsets) + [len(space.foreign_cells(j)) for j in range(len(space))]
    codes, most = rows[:, space.is_categorical], counts[space.is_categorical]
    known = ((codes >= 0) & (codes < most) & (codes == np.round(codes))).all()
    _require(known, "a training row has a category that there cannot be")
    return rows


def _answers(blackbox: BlackBox, neighbours: Neighbours, arrays: Arrays) -> AnsweredRows:
    """The training rows of a file with what the model said to them."""
    answered, scores, classes = AnsweredRows(neighbours), None, blackbox.classes
    output = take_array(arrays, "answers.output", np.float64, len(neighbours))
    if "answers.scores" in arrays:
        width = 0 if classes is None else len(classes)
        scores = take_array(arrays, "answers.scores", np.float64, len(neighbours), width)
    if classes is not None:
        known = (output == np.round(output)) & (output >= -1) & (output < len(classes))
        _require(known.all(), "the answers to the training rows are none of the model's classes")
    answered.answers, answered.known[:] = Answer(output, scores), True
    return answered


def _moves(space: FeatureSpace, arrays: Arrays) -> Moves:
    feature = take_array(arrays, "moves.feature", np.int64, None)
    value = take_array(arrays, "moves.value", np.float64, len(feature), finite=False)
    _require(((feature >= 0) & (feature < len(space))).all(), "a move is one of a feature that there is not")
    codes = value[space.is_categorical[feature]]
    _require((np.isfinite(codes) & (codes == np.round(codes))).all(), "a move chooses a category that there cannot be")
    return Moves(feature, value)


def _surrogate(blackbox: BlackBox, agreement: dict[str, Any] | None, arrays: Arrays) -> "SurrogateModel | None":
    """The surrogate model of a file, whose arrays are taken out; None if there is none."""
    if agreement is None:
        return None
    from relax_plugin.surrogate.model import Agreement, SurrogateModel

    surrogate = SurrogateModel.restored(blackbox, arrays, SURROGATE)
    rows = whole_number("rows", agreement["rows"], 0)
    labels, worst, explained = (float(agreement[name]) for name in ("labels", "worst", "explained"))
    surrogate.agreement = Agreement(labels, worst, explained, rows)
    return surrogate


def _history(rows: Any, stopped: Any) -> History:
    _require(isinstance(rows, list) and isinstance(stopped, str), "the history is no list of rows and a text")
    for row in rows:
        numbers = isinstance(row, dict) and all(isinstance(number, int | float) for number in row.values())
        told = f"a row of the history does not hold the numbers {sorted(ROW_OF_HISTORY)}: {row}"
        _require(numbers and set(row) == ROW_OF_HISTORY, told)
    return History(rows, stopped)


def _blackbox(
    explainer: "ReLAX", space: FeatureSpace, saved: dict[str, Any], rows: Values
) -> tuple[BlackBox, tuple[Values, Answer]]:
    """The model, checked to answer like the one of the file, and some rows with its answers."""
    explainer._bind_model()
    blackbox = explainer.blackbox_
    # A few rows show what this model answers, but not how to read it: a logit may look like a probability.
    if saved["gives_probabilities"] is not None and hasattr(blackbox.reader, "gives_probabilities"):
        blackbox.reader.gives_probabilities = bool(saved["gives_probabilities"])
    rows = rows if len(rows) else _middle_row(space)  # one row cannot show whether arrays or trees say the same
    kept, answer = blackbox.learn_answered(rows)
    own = None if blackbox.classes is None else blackbox.classes.tolist()
    if blackbox.task != saved["task"] or blackbox.has_scores != saved["has_scores"]:
        raise SavedFileError("the model answers otherwise than the one this explainer was fitted to; fit a new one.")
    if saved["has_scores"] and own != saved["classes"]:
        raise SavedFileError(f"the model's classes are {own}, but the explainer was fitted to {saved['classes']}.")
    known = saved["score_kind"] in ("probability", "decision") and isinstance(saved["strict"], bool)
    _require(known, f"scores are of kind {saved['score_kind']!r}, or strict is {saved['strict']!r}")
    blackbox.classes = _classes(saved["classes"])
    blackbox.reader.score_kind, blackbox.strict = saved["score_kind"], saved["strict"]
    blackbox.least_probability = real_number("least_probability", saved["least_probability"], 1e-12, 0.5)
    return blackbox, (rows[kept], answer)


def _classes(saved: Any) -> Any:
    if saved is None:
        return None
    different = isinstance(saved, list) and 0 < len(saved) == len(set(saved))
    _require(different, f"the classes are {saved!r}, but must be a list of different labels")
    classes = np.asarray(saved)
    if classes.tolist() == saved:
        return classes
    classes = np.empty(len(saved), dtype=object)  # labels of several types, of which numpy would make text
    classes[:] = saved
    return classes


def _middle_row(space: FeatureSpace) -> Values:
    """A row that the model can be asked about: numbers in the middle of their bounds, first categories and cells."""
    middle = [
        (float(np.argmax(f.choices)) if f.choices else 0.0) if f.kind == "categorical" else 0.5 * f.low + 0.5 * f.high
        for f in space.features
    ]
    row = np.array([middle], dtype=np.float64)
    return np.where(space.is_categorical, row, space.limits().round_to_grid(row))
