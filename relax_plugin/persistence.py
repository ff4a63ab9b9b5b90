"""Saving and loading a fitted ReLAX: safetensors with a JSON header. The file is data; the model is not in it."""

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from relax_plugin.actions import ActionTable
from relax_plugin.agent import Agent
from relax_plugin.blackbox import BlackBox
from relax_plugin.config import ReLAXConfig
from relax_plugin.environment import Observer
from relax_plugin.errors import ReLAXError, SavedFileError
from relax_plugin.features import FeatureSpace, Values
from relax_plugin.goal import Goal
from relax_plugin.stepwise import Moves
from relax_plugin.training import History
from relax_plugin.world_model import Agreement, WorldModel

if TYPE_CHECKING:
    from relax_plugin.explainer import ReLAX

FORMAT = "relax_plugin.ReLAX"
VERSION = 2  # 2 added the world model
WORLD = "world."  # begins the names of the world model's tensors
PLAIN_PARAMETERS = ("variant", "effort", "max_changes", "rows_per_instance", "fallback", "seed", "progress")

Explainer = TypeVar("Explainer", bound="ReLAX")


def save_explainer(explainer: "ReLAX", path: Path) -> None:
    """Write to a temporary name and rename, so that a file is whole or not there."""
    blackbox = explainer.blackbox_
    header = {
        "version": VERSION,
        "parameters": {name: getattr(explainer, name) for name in PLAIN_PARAMETERS},
        "config": asdict(explainer.config_),
        "goal": explainer.goal_.to_dict(),
        "space": explainer.space_.to_dict(),
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
    if not path.parent.is_dir():
        raise SavedFileError(f"there is no folder {path.parent} to save {path.name!r} in.")
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        save_file(tensors, temporary, metadata={"format": FORMAT, "header": json.dumps(header, default=_plain)})
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def load_explainer(cls: type[Explainer], path: Path, model: Any) -> Explainer:
    """A fitted explainer from a file, checked against the model it is given."""
    header, tensors = _read(path)
    try:
        return _restored(cls, header, tensors, model)
    except ReLAXError:
        raise
    except RuntimeError as error:
        raise SavedFileError(f"the file does not hold the weights its header describes: {error}") from error
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise SavedFileError(f"{path} is damaged or incomplete: {type(error).__name__} {error}.") from error


def _restored(cls: type[Explainer], header: dict[str, Any], tensors: dict[str, torch.Tensor], model: Any) -> Explainer:
    space, goal = FeatureSpace.from_dict(header["space"]), Goal.from_dict(header["goal"])
    config = ReLAXConfig(**{name: value for name, value in header["config"].items() if value is not None})
    explainer = cls(model, space, goal=goal, config=config, **header["parameters"])
    explainer.space_, explainer.goal_, explainer.config_ = space, goal, config
    explainer.blackbox_ = _blackbox(model, space, header["model"])
    explainer.actions_ = ActionTable(space, config.actions)
    explainer.observer_ = Observer(space, explainer.actions_, header["changes"], header["gap_scale"])
    explainer.moves_ = Moves(tensors.pop("moves.feature").numpy(), tensors.pop("moves.value").numpy())
    explainer.history_ = History(header["history"], header["stopped"])
    explainer.fit_rows_, explainer.fit_seconds_ = header["fit_rows"], header["fit_seconds"]
    explainer.training_ = header.get("training", "on the model")
    explainer.world_model_ = _world_model(explainer.blackbox_, header.get("agreement"), tensors)
    explainer.agent_ = Agent(header["inputs"], len(explainer.actions_), config, explainer.seed)
    explainer.agent_.load_weights(tensors)
    return explainer


def _world_model(blackbox: BlackBox, agreement: dict[str, Any] | None, tensors: dict[str, Any]) -> WorldModel | None:
    """The world model of a file, whose tensors are taken out; None if the agent was trained on the model."""
    if agreement is None:
        return None
    own = {name.removeprefix(WORLD): tensors.pop(name) for name in list(tensors) if name.startswith(WORLD)}
    world = WorldModel(blackbox, own.pop("edges").numpy())
    world.load_weights(own)
    world.agreement = Agreement(**agreement)
    return world


def _read(path: Path) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
    if not path.is_file():
        raise SavedFileError(f"there is no file {path}.")
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
    except (SafetensorError, OSError) as error:
        raise SavedFileError(f"{path} is no safetensors file, or it is cut off: {error}.") from error
    if metadata.get("format") != FORMAT:
        raise SavedFileError(f"{path} was not written by ReLAX.save.")
    try:
        header = json.loads(metadata["header"])
        version = int(header["version"])
    except (KeyError, TypeError, ValueError) as error:
        raise SavedFileError(f"the header of {path} is damaged: {type(error).__name__} {error}.") from error
    if version > VERSION:
        raise SavedFileError(f"{path} has version {version}; this package reads up to {VERSION}.")
    return header, tensors


def _blackbox(model: Any, space: FeatureSpace, saved: dict[str, Any]) -> BlackBox:
    """The model as a BlackBox that answers as the one the explainer was fitted to, or a refusal."""
    blackbox = model.bound_to(space) if isinstance(model, BlackBox) else BlackBox(model, space, task=saved["task"])
    # One row shows what this model answers, but not how to read it: a logit may look like a probability.
    if saved["gives_probabilities"] is not None and hasattr(blackbox.reader, "gives_probabilities"):
        blackbox.reader.gives_probabilities = saved["gives_probabilities"]
    blackbox.learn(_middle_row(space))
    own = None if blackbox.classes is None else blackbox.classes.tolist()
    if blackbox.task != saved["task"] or blackbox.has_scores != saved["has_scores"]:
        raise SavedFileError("the model answers otherwise than the one this explainer was fitted to; fit a new one.")
    if saved["has_scores"] and own != saved["classes"]:
        raise SavedFileError(f"the model's classes are {own}, but the explainer was fitted to {saved['classes']}.")
    blackbox.classes = None if saved["classes"] is None else np.asarray(saved["classes"])
    blackbox.reader.score_kind = saved["score_kind"]
    blackbox.least_probability, blackbox.strict = saved["least_probability"], saved["strict"]
    return blackbox


def _plain(value: Any) -> Any:
    """A numpy scalar as JSON knows it; what else JSON does not know is an error."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{value!r} of type {type(value).__name__} cannot be saved.")


def _middle_row(space: FeatureSpace) -> Values:
    middle = [
        float(np.argmax(f.choices)) if f.kind == "categorical" else 0.5 * (f.low + f.high) for f in space.features
    ]
    row = np.array([middle], dtype=np.float64)
    return np.where(space.is_categorical, row, space.limits().round_to_grid(row))
