"""Saving and loading a fitted ReLAX: safetensors with a JSON header. The file is data; the model is not in it.

A file is read as if a stranger had written it: a checksum tells damage, sizes are compared before anything of that
size is made, and every number is looked at. Whatever is wrong is a `SavedFileError`.
"""

import hashlib
import json
import os
import threading
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from relax_plugin.agent.config import ReLAXConfig
from relax_plugin.agent.history import ROW_OF_HISTORY, History
from relax_plugin.agent.kept_rows import middle_row, read_rows, written_rows
from relax_plugin.agent.pdqn import Agent
from relax_plugin.arrays import Values
from relax_plugin.base import real_number, whole_number
from relax_plugin.blackbox import BlackBox
from relax_plugin.errors import InputError, ReLAXError, SavedFileError
from relax_plugin.features import FeatureSpace
from relax_plugin.goal import Goal
from relax_plugin.readers import make_reader
from relax_plugin.search.actions import ActionTable
from relax_plugin.search.greedy import Moves
from relax_plugin.search.state import Observer
from relax_plugin.wishes.further_models import check_models
from relax_plugin.wishes.plausibility import Plausibility, Plausible, TrainingRows
from relax_plugin.world_model.model import Agreement, WorldModel

if TYPE_CHECKING:
    from relax_plugin.agent.explainer import ReLAX

FORMAT = "relax_plugin.ReLAX"
# 2 added the world model, 3 a checksum; 4, 7, 8 have other settings; 5 added training rows, 6 trees, 9 cells, 10 how
# many further models there were.
VERSION = 10
ASKED_ROWS = 32  # training rows of a file that the given model is asked about when it is read
WORLD = "world."  # begins the names of the world model's tensors
KINDS_OF_NUMBERS = frozenset({"torch.float32", "torch.float64", "torch.int64", "torch.uint8"})
PLAIN_PARAMETERS = (
    *("variant", "effort", "max_changes", "rows_per_instance", "fallback", "rescue_rows", "seed", "progress"),
    "objective",
)

Explainer = TypeVar("Explainer", bound="ReLAX")
Tensors = dict[str, torch.Tensor]


def save_explainer(explainer: "ReLAX", path: Path) -> None:
    """Write to a temporary name and rename, so that a file is whole or not there."""
    blackbox = explainer.blackbox_
    kept = len(explainer.neighbours_) if explainer.fallback else 0  # training rows serve the rescue alone
    rows, cells = written_rows(explainer.space_, explainer.neighbours_.rows[:kept])
    header = {
        "version": VERSION,
        "parameters": {name: getattr(explainer, name) for name in PLAIN_PARAMETERS},
        "plausible": _written(explainer.plausible),
        "further_models": len(tuple(explainer.also)),
        "config": asdict(explainer.config_),
        "goal": explainer.goal_.to_dict(),
        "space": explainer.space_.to_dict(),
        "cells": cells,
        "inputs": explainer.agent_.inputs,
        "gap_scale": explainer.observer_.gap_scale,
        "changes": explainer.observer_.max_changes,
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
        "agreement": None if explainer.world_model_ is None else asdict(explainer.world_model_.agreement),
    }
    tensors = explainer.agent_.weights_by_name()
    if explainer.world_model_ is not None:
        world = explainer.world_model_.weights_by_name()
        tensors |= {f"{WORLD}{name}": weight for name, weight in world.items()}
    tensors["moves.feature"] = torch.from_numpy(explainer.moves_.feature)
    tensors["moves.value"] = torch.from_numpy(explainer.moves_.value)
    tensors["neighbours"] = torch.from_numpy(rows)
    text = json.dumps(header, default=_plain)
    metadata = {"format": FORMAT, "header": text, "sha256": _checksum(text, tensors)}
    _write(path, lambda temporary: save_file(tensors, temporary, metadata=metadata))


def load_explainer(cls: type[Explainer], path: Path, model: Any, also: Sequence[Any]) -> Explainer:
    """A fitted explainer from a file, checked against the model it is given."""
    header, tensors = _read(path)
    check_models(also)
    if not isinstance(model, BlackBox):
        make_reader(model, "auto")  # refuses what is no model, whatever the file says
    try:
        explainer = _restored(cls, header, tensors, model)
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


def _write(path: Path, write: Callable[[Path], None]) -> None:
    temporary = path.parent / f".{os.getpid()}-{threading.get_ident()}.tmp"
    try:
        if not path.parent.is_dir():
            raise SavedFileError(f"there is no folder {path.parent} to save {path.name!r} in.")
        try:
            write(temporary)
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)
    except SavedFileError:
        raise
    except (OSError, SafetensorError, ValueError) as error:
        raise SavedFileError(f"{str(path)!r} cannot be written: {error}.") from error


def _read(path: Path) -> tuple[dict[str, Any], Tensors]:
    try:
        if not path.is_file():
            raise SavedFileError(f"there is no file {path}.")
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
    except (SafetensorError, OSError, ValueError) as error:
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
        raise SavedFileError(f"{path} has version {version!r}; this package reads {VERSION}: fit and save it again.")
    foreign = {str(tensor.dtype) for tensor in tensors.values()} - KINDS_OF_NUMBERS
    if foreign:
        raise SavedFileError(f"{path} holds {min(foreign)}; only {', '.join(sorted(KINDS_OF_NUMBERS))} belong there.")
    if metadata.get("sha256") != _checksum(metadata["header"], tensors):
        raise SavedFileError(f"{path} is damaged: its checksum is not that of its content.")
    return header, tensors


def _checksum(header: str, tensors: Tensors) -> str:
    total = hashlib.sha256(header.encode())
    for name in sorted(tensors):
        tensor = tensors[name].contiguous()
        total.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        total.update(tensor.numpy().tobytes())
    return total.hexdigest()


def _restored(cls: type[Explainer], header: dict[str, Any], tensors: Tensors, model: Any) -> Explainer:
    space, neighbours = read_rows(
        FeatureSpace.from_dict(header["space"]), tensors.pop("neighbours").numpy(), header["cells"]
    )
    goal = Goal.from_dict(header["goal"])
    config = ReLAXConfig(**{name: value for name, value in header["config"].items() if value is not None})
    plausible = header["plausible"]
    plausible = Plausibility(**plausible) if isinstance(plausible, dict) else plausible
    explainer = cls(model, space, goal=goal, config=config, plausible=plausible, **header["parameters"])
    explainer._check_parameters()
    explainer.space_, explainer.goal_, explainer.config_ = space, goal, config
    explainer.blackbox_ = _blackbox(model, space, header["model"], neighbours.rows[:ASKED_ROWS])
    goal.check(explainer.blackbox_)
    gap_scale = real_number("gap_scale", header["gap_scale"], np.finfo(np.float64).tiny, np.finfo(np.float64).max)
    changes = int(real_number("changes", whole_number("changes", header["changes"], 1), 1, len(space)))
    explainer.moves_ = _moves(space, tensors.pop("moves.feature").numpy(), tensors.pop("moves.value").numpy())
    explainer.neighbours_ = neighbours
    explainer.training_rows_ = TrainingRows.of(space, explainer.neighbours_.rows)
    explainer.history_ = _history(header["history"], header["stopped"])
    explainer.fit_rows_ = whole_number("fit_rows", header["fit_rows"], 0)
    explainer.fit_seconds_ = real_number("fit_seconds", header["fit_seconds"], 0.0, np.inf)
    explainer.training_ = _text("training", header["training"])
    explainer.world_model_ = _world_model(explainer.blackbox_, header["agreement"], tensors)
    moved = None if explainer.world_model_ is None else explainer.world_model_.moved()
    explainer.observer_ = Observer(space, ActionTable(space, config.actions, moved), changes, gap_scale)
    if header["inputs"] != explainer.observer_.width(explainer.blackbox_):
        raise InputError(f"its agent sees {header['inputs']} numbers of a row, which are not those of its space.")
    explainer.agent_ = _made_if_it_fits(
        lambda: Agent(header["inputs"], len(explainer.observer_.actions), config, explainer.seed),
        lambda agent: agent.weights_by_name(),
        tensors,
    )
    explainer.agent_.load_weights(tensors)
    return explainer


Network = TypeVar("Network")


def _made_if_it_fits(make: Callable[[], Network], weights: Callable[[Network], Tensors], tensors: Tensors) -> Network:
    """What `make` makes, if its weights are of the sizes and kinds of these tensors: seen without making them."""
    with torch.device("meta"):
        expected = {name: (tuple(weight.shape), weight.dtype) for name, weight in weights(make()).items()}
    for name, (shape, dtype) in expected.items():
        given = tensors.get(name)
        if given is None or tuple(given.shape) != shape or given.dtype != dtype or not given.isfinite().all():
            what = "nothing" if given is None else f"{given.dtype} of shape {tuple(given.shape)}"
            raise InputError(f"finite numbers, {dtype} of shape {shape}, are expected for {name!r}, not {what}.")
    unknown = sorted(set(tensors) - set(expected))
    if unknown:
        raise InputError(f"it holds the weights {unknown[0]!r}, for which there is no place.")
    return make()


def _world_model(blackbox: BlackBox, agreement: dict[str, Any] | None, tensors: Tensors) -> WorldModel | None:
    """The world model of a file, whose tensors are taken out; None if the agent was trained on the model."""
    own = {name.removeprefix(WORLD): tensors.pop(name) for name in list(tensors) if name.startswith(WORLD)}
    if agreement is None:
        return None
    world = WorldModel.restored(blackbox, own)
    rows = whole_number("rows", agreement["rows"], 0)
    labels, worst, explained = (float(agreement[name]) for name in ("labels", "worst", "explained"))
    world.agreement = Agreement(labels, worst, explained, rows)
    return world


def _moves(space: FeatureSpace, feature: Any, value: Any) -> Moves:
    whole = feature.dtype == np.int64 and feature.ndim == 1 and ((feature >= 0) & (feature < len(space))).all()
    if not whole or value.dtype != np.float64 or value.shape != feature.shape or np.isnan(value).any():
        raise InputError("the moves of the rescue are no pairs of a feature and a value.")
    codes = value[space.is_categorical[feature]]
    if not (np.isfinite(codes) & (codes == np.round(codes))).all():
        raise InputError("a move of the rescue chooses a category that there cannot be.")
    return Moves(feature, value)


def _written(plausible: Plausible) -> Any:
    """What is asked of plausibility, as data."""
    return plausible.to_dict() if isinstance(plausible, Plausibility) else plausible


def _history(rows: Any, stopped: Any) -> History:
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise InputError("the history is no list of rows.")
    for row in rows:
        if set(row) != ROW_OF_HISTORY or not all(isinstance(number, int | float) for number in row.values()):
            raise InputError(f"a row of the history does not hold the numbers {sorted(ROW_OF_HISTORY)}: {row}.")
    return History(rows, _text("stopped", stopped))


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise InputError(f"{name} is {value!r}, but must be text.")
    return value


def _blackbox(model: Any, space: FeatureSpace, saved: dict[str, Any], rows: Values) -> BlackBox:
    """The model as a BlackBox that answers as the one the explainer was fitted to, or a refusal."""
    blackbox = model.bound_to(space) if isinstance(model, BlackBox) else BlackBox(model, space, task=saved["task"])
    # A few rows show what this model answers, but not how to read it: a logit may look like a probability.
    if saved["gives_probabilities"] is not None and hasattr(blackbox.reader, "gives_probabilities"):
        blackbox.reader.gives_probabilities = bool(saved["gives_probabilities"])
    blackbox.learn(rows if len(rows) else middle_row(space))  # one row cannot show whether arrays or trees say the same
    own = None if blackbox.classes is None else blackbox.classes.tolist()
    if blackbox.task != saved["task"] or blackbox.has_scores != saved["has_scores"]:
        raise SavedFileError("the model answers otherwise than the one this explainer was fitted to; fit a new one.")
    if saved["has_scores"] and own != saved["classes"]:
        raise SavedFileError(f"the model's classes are {own}, but the explainer was fitted to {saved['classes']}.")
    if saved["score_kind"] not in ("probability", "decision") or not isinstance(saved["strict"], bool):
        raise InputError(f"scores are of kind {saved['score_kind']!r}, or strict is {saved['strict']!r}.")
    blackbox.classes = _classes(saved["classes"])
    blackbox.reader.score_kind, blackbox.strict = saved["score_kind"], saved["strict"]
    blackbox.least_probability = real_number("least_probability", saved["least_probability"], 1e-12, 0.5)
    return blackbox


def _classes(saved: Any) -> Any:
    if saved is None:
        return None
    if not isinstance(saved, list) or not 0 < len(saved) == len(set(saved)):
        raise InputError(f"the classes are {saved!r}, but must be a list of different labels.")
    classes = np.asarray(saved)
    if classes.tolist() == saved:
        return classes
    classes = np.empty(len(saved), dtype=object)  # labels of several types, of which numpy would make text
    classes[:] = saved
    return classes


def _plain(value: Any) -> Any:
    """A numpy scalar as JSON knows it; what else JSON does not know is an error."""
    if isinstance(value, np.generic):
        return value.item()
    raise SavedFileError(f"{value!r} of type {type(value).__name__} cannot be saved.")
