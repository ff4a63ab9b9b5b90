"""Alibi's face: any explainer with the manners of `CounterfactualRLTabular`, without importing alibi.

Code written for alibi's explainer runs on once the name of the class is changed. No autoencoder is needed: what is said
about it is set aside, with a warning.
"""

import json
import logging
import sys
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd
from sklearn.base import clone

from relax_plugin.arrays import Array
from relax_plugin.base import BlackBox, CounterfactualExplainer, make_explainer
from relax_plugin.errors import (
    ConstraintError,
    GoalError,
    InputError,
    NotFittedError,
    UnknownNameError,
    UnsupportedError,
    did_you_mean,
)
from relax_plugin.features import FeatureSpace, Rows
from relax_plugin.goal import Goal
from relax_plugin.results import Counterfactuals, concatenate, taken

Condition = Mapping[str, Sequence[Any]]
SETTINGS, AGENT = "explainer.json", "agent.safetensors"
# Arguments of `CounterfactualRLTabular` about its autoencoder, its networks and their training.
SET_ASIDE = (
    *("encoder", "decoder", "encoder_preprocessor", "decoder_inv_preprocessor", "coeff_sparsity", "coeff_consistency"),
    *("weight_num", "weight_cat", "latent_dim", "backend"),
    *("act_noise", "act_low", "act_high", "replay_buffer_size", "batch_size", "num_workers", "shuffle"),
    *("exploration_steps", "update_every", "update_after", "train_steps", "reward_func", "postprocessing_funcs"),
    *("conditional_func", "conditional_vector", "callbacks", "actor", "critic", "optimizer_actor", "optimizer_critic"),
    *("lr_actor", "lr_critic", "actor_hidden_dim", "critic_hidden_dim", "sparsity_loss", "consistency_loss"),
)

logger = logging.getLogger(__name__)


@dataclass
class Explanation:
    """What `explain` gives: `meta` and `data`, whose keys are attributes too (`explanation.cf["X"]`)."""

    meta: dict[str, Any]
    data: dict[str, Any]
    counterfactuals: Counterfactuals | None = field(default=None, repr=False, compare=False)  # not in the JSON

    def __post_init__(self) -> None:
        self.__dict__.update({**self.data, **self.meta})

    def __getitem__(self, key: str) -> Any:
        return getattr(self, key)

    def to_json(self) -> str:
        """`meta` and `data` as JSON text, arrays as lists and what JSON does not know as text."""
        plain = {"meta": self.meta, "data": self.data}
        return json.dumps(plain, default=lambda value: value.tolist() if hasattr(value, "tolist") else repr(value))

    @classmethod
    def from_json(cls, jsonrepr: str) -> "Explanation":
        """Read what `to_json` wrote; arrays stay lists, as with alibi."""
        read = json.loads(jsonrepr)
        if not isinstance(read, dict) or not {"meta", "data"} <= set(read):
            raise InputError("this JSON is no explanation: an object with 'meta' and 'data' is needed.")
        return cls(read["meta"], read["data"])


class ReLAXTabular:
    """Counterfactuals of any registered explainer in place of alibi's `CounterfactualRLTabular`.

    The arguments are alibi's, in alibi's order. Those about its autoencoder, its networks and their training have no
    place here: they are kept in `params`, and one warning names them.

    Parameters
    ----------
    predictor : callable
        Takes arrays and answers (n, classes), as alibi has it, or numbers (n, 1); or is whatever `BlackBox` reads.
    feature_names, category_map, immutable_features, ranges
        As alibi has them: the names of the columns, the names of a column's codes, what may not change, and how far a
        number may fall and rise, in shares of its range.
    seed : int
        Of the explainer.
    explainer : str or CounterfactualExplainer
        A name of the registry, with `options`, or in place of all of these an explainer with model and space; a fitted
        one needs no `fit`.
    options : mapping, optional
        Of the explainer of that name. A regressor's default "goal" is a shift of half a standard deviation of its
        answers to the training rows.
    tolerance : float, optional
        How far from `Y_t` the answer of a regressor may be; by default a tenth of that standard deviation.
    """

    def __init__(
        self,
        predictor: Any = None,
        encoder: Any = None,
        decoder: Any = None,
        encoder_preprocessor: Any = None,
        decoder_inv_preprocessor: Any = None,
        coeff_sparsity: float | None = None,
        coeff_consistency: float | None = None,
        feature_names: Sequence[str] = (),
        category_map: Mapping[int, Sequence[str]] | None = None,
        immutable_features: Iterable[str] | None = None,
        ranges: Mapping[str, Sequence[float]] | None = None,
        weight_num: float | None = None,
        weight_cat: float | None = None,
        latent_dim: int | None = None,
        backend: str | None = None,
        seed: int = 0,
        *,
        explainer: str | CounterfactualExplainer = "relax-global",
        options: Mapping[str, Any] | None = None,
        tolerance: float | None = None,
        **others: Any,
    ) -> None:
        autoencoder: list[Any] = [encoder, decoder, encoder_preprocessor, decoder_inv_preprocessor, coeff_sparsity]
        autoencoder += [coeff_consistency, weight_num, weight_cat, latent_dim, backend]
        aside = _set_aside(autoencoder, others)
        self.predictor, self.explainer, self.seed, self.options = predictor, explainer, seed, dict(options or {})
        self._describe_features(feature_names, immutable_features, category_map, ranges)
        self.tolerance, self.spread = tolerance, 0.0
        names = ("feature_names", "category_map", "immutable_features", "ranges", "options", "seed")
        said: dict[str, Any] = {name: getattr(self, name) for name in names}
        own = isinstance(explainer, CounterfactualExplainer)
        if predictor is not None or any(said[name] for name in names[:-1]) if own else predictor is None:
            raise InputError("give a predictor and the name of an explainer, or an explainer, which has its own model.")
        if not self.feature_names and (self.category_map or self.immutable_features or self.ranges):
            raise InputError("category_map, immutable_features and ranges need feature_names.")
        if isinstance(explainer, CounterfactualExplainer) and hasattr(explainer, "blackbox_"):
            self.explainer_ = explainer
        name = type(explainer).__name__ if own else explainer
        self.params = {"explainer": name, **said, "tolerance": tolerance, "predictor": predictor, **aside}
        self.meta: dict[str, Any] = {"name": type(self).__name__, "type": ["blackbox"], "explanations": ["local"]}
        self.meta["params"] = _plain(self.params)
        self.meta["version"] = sys.modules["relax_plugin"].__version__

    def _describe_features(
        self,
        feature_names: Sequence[str],
        immutable_features: Iterable[str] | None,
        category_map: Mapping[Any, Sequence[str]] | None,
        ranges: Mapping[str, Sequence[float]] | None,
    ) -> None:
        self.feature_names, self.immutable_features = list(feature_names), list(immutable_features or [])
        self.category_map = {int(column): list(names) for column, names in (category_map or {}).items()}
        self.ranges = {name: (float(low), float(high)) for name, (low, high) in (ranges or {}).items()}
        self.parts = {name: ends for name, ends in self.ranges.items() if -1 < ends[0] < 0 or 0 < ends[1] < 1}

    def fit(self, X: Rows) -> Self:
        """Train on the rows the predictor was trained on."""
        if isinstance(self.explainer, str):
            model, options = self._model(X), {"seed": self.seed, **self.options}
            if model is not self.predictor and "goal" not in options:
                options["goal"] = Goal.shift(float(np.std(self.predictor(np.asarray(X)))) / 2)
            made = make_explainer(self.explainer, model, self._space(X), **options)
        else:
            made = clone(self.explainer)
            if self.predictor is not None:  # by `reset_predictor`
                made.set_params(model=self.predictor)
        self.explainer_ = made.fit(X)
        if made.blackbox_.task == "regression":
            self.spread = float(np.std(made.known_[1].output))
        return self

    def _model(self, X: Rows) -> Any:
        """The predictor; as alibi has it, one that answers (n, 1) is a regressor."""
        wrapped = _regressor(self.predictor)
        if wrapped is self.predictor or np.shape(self.predictor(np.asarray(X)[:2]))[1:] != (1,):
            return self.predictor
        return wrapped

    def save(self, path: str | Path) -> None:
        """Write the fitted explainer without its predictor into a folder, as data that runs nothing when loaded.

        What was set aside is not written. Only ReLAX learns something that a file could hold.
        """
        if not hasattr(self, "explainer_"):
            raise NotFittedError("this explainer is not fitted; call fit(X) before save.")
        explainer, folder = self.explainer_, Path(path)
        if not hasattr(explainer, "save"):
            name = type(explainer).__name__
            raise UnsupportedError(f"{name} learns nothing that a file could hold; fit it again instead.")
        names = ("feature_names", "category_map", "immutable_features", "ranges", "seed", "tolerance", "spread", "meta")
        settings = {name: getattr(self, name) for name in names}
        settings["regression"] = explainer.blackbox_.task == "regression"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / SETTINGS).write_text(json.dumps(settings), encoding="utf-8")
        explainer.save(folder / AGENT)

    @classmethod
    def load(cls, path: str | Path, predictor: Any) -> Self:
        """Read what `save` wrote, for the predictor it was fitted to; nothing in the files is executed."""
        file = Path(path) / SETTINGS
        if not file.is_file():
            raise InputError(f"{path} has no {SETTINGS}; give the folder that `save` wrote.")
        settings = json.loads(file.read_text(encoding="utf-8"))
        if not isinstance(settings, dict) or not {"meta", "category_map", "ranges", "regression"} <= set(settings):
            raise InputError(f"{file} is not what `save` writes.")
        model = _regressor(predictor) if settings["regression"] else predictor
        agent: Any = type(make_explainer("relax-global", model))  # the one method with files; they know the variant
        made = cls(explainer=agent.load(Path(path) / AGENT, model=model), tolerance=settings["tolerance"])
        names = ("feature_names", "immutable_features", "category_map", "ranges")
        made._describe_features(*(settings[name] for name in names))
        made.seed, made.spread, made.meta = settings["seed"], settings["spread"], settings["meta"]
        made.params = {**settings["meta"]["params"], "predictor": predictor}
        if made.meta["version"] != sys.modules["relax_plugin"].__version__:
            logger.warning("this explainer was saved by version %s", made.meta["version"])
        return made

    def explain(
        self,
        X: Rows,
        Y_t: Any = None,
        C: Condition | Sequence[Condition] | None = None,
        batch_size: int = 100,
        diversity: bool = False,
        num_samples: int = 1,
        patience: int = 1000,
        tolerance: float = 1e-3,
    ) -> Explanation:
        """Counterfactuals of the rows.

        `Y_t` are positions of the classes to reach, one or one a row, or (n, classes) with the largest meant; of a
        regressor the numbers to come near to, as near as the constructor's `tolerance`. None: any other class, or the
        explainer's own goal. `C` are conditions, one or one a row: a number's least and greatest change, a category's
        accepted names. With `diversity`, up to `num_samples` of a single row. `batch_size`, `patience` and the
        `tolerance` given here have no effect. As with alibi, a row without counterfactual shows by its class: `cf`
        holds the row itself and its own class; `explanation.counterfactuals.status` says why. The class of a row that
        the predictor refuses is NaN.
        """
        if not hasattr(self, "explainer_"):
            raise NotFittedError("this explainer is not fitted; call fit(X) with the training rows first.")
        C = [C] if isinstance(C, Mapping) else C
        if diversity and len(X) != 1:
            raise InputError(f"diverse counterfactuals are for a single row, and there are {len(X)}.")
        target, space = self._positions(Y_t, len(X)), self.explainer_.space_
        if space.container == "frame" and isinstance(X, np.ndarray):
            known, values = space.taking_in(X)
            X = known.model_input(values)  # the dtypes of the rows it was fitted to
        made = self._counterfactuals(X, target, C or [{}], num_samples if diversity else 1)
        query, slot = np.nonzero(made.found if diversity else np.ones_like(made.found))
        met = made.found[query, slot]
        if not met.all():
            logger.warning("no counterfactual for %d of %d rows, which are given unchanged", sum(~met), len(X))
        values = np.where(met[:, None], made.values[query, slot], made.start[query])
        after = np.where(met, made.after[query, slot], made.before[query])
        data = {
            "orig": {"X": np.asarray(X), "class": self._codes(made.before)},
            "cf": {"X": _delivered(made.space, values, taken(X, query)), "class": self._codes(after)},
            "target": None if target is None else target[:, None],
            "condition": C,
        }
        return Explanation(self.meta, data, made)

    def reset_predictor(self, predictor: Any) -> None:
        """Explain another model from now on, with what was learned of the one before; the classes must be the same."""
        if hasattr(self, "explainer_"):
            model = _regressor(predictor) if self.explainer_.blackbox_.task == "regression" else predictor
            self.explainer_ = self.explainer_.for_model(model)  # one that was handed in stays as it is
        self.predictor = self.params["predictor"] = predictor
        self.meta = {**self.meta, "params": _plain(self.params)}

    def _space(self, X: Rows) -> FeatureSpace | None:
        if not self.feature_names:
            return None
        for name, (low, high) in self.ranges.items():
            if name not in self.feature_names:
                raise UnknownNameError(f"ranges names feature {name!r}; {did_you_mean(name, self.feature_names)}")
            if not low <= 0 <= high:
                raise ConstraintError(f"the range of feature {name!r} is [{low}, {high}], but must contain 0.")
        space = FeatureSpace.infer(
            pd.DataFrame(X, columns=self.feature_names).infer_objects(),
            categorical=[self.feature_names[column] for column in self.category_map],
            immutable=[*self.immutable_features, *(name for name, ends in self.ranges.items() if not any(ends))],
            increase_only=[name for name, (low, high) in self.ranges.items() if low == 0 < high],
            decrease_only=[name for name, (low, high) in self.ranges.items() if low < 0 == high],
        )
        return FeatureSpace(space.features, "array", str(np.asarray(X).dtype))  # the predictor is given arrays

    def _positions(self, Y_t: Any, n: int) -> Array | None:
        if Y_t is None:
            return None
        known, targets = self.explainer_.blackbox_.classes, np.asarray(Y_t)
        if known is None:
            if targets.size not in (1, n) or not np.isfinite(targets.astype(float)).all():
                raise GoalError(f"Y_t is {Y_t}; one number to reach, or one for each of {n} rows, is needed.")
            return np.broadcast_to(targets.astype(float).reshape(-1), n)
        targets = targets.argmax(axis=1) if targets.ndim == 2 and targets.shape[1] > 1 else targets.reshape(-1)
        if len(targets) not in (1, n) or not np.isin(targets, np.arange(len(known))).all():
            raise GoalError(f"Y_t is {Y_t}; one position in {known}, or one for each of {n} rows, is needed.")
        return np.broadcast_to(targets.astype(int), n)

    def _counterfactuals(self, X: Rows, target: Array | None, C: Sequence[Condition], n: int) -> Counterfactuals:
        """Rows with the same limits are explained together; without conditions that is all of them."""
        if len(C) not in (1, len(X)):
            raise InputError(f"there are {len(C)} conditions for {len(X)} rows; give one, or one a row.")
        explainer = self.explainer_
        if not any(C) and not self.parts:
            return explainer.explain(X, goal=self._goal(target), n=n)
        groups: dict[Any, list[int]] = {}
        known_space, start = explainer.space_.taking_in(X)
        explainer = explainer.for_space(known_space)  # so that a cell is the same place in every part
        for row, values in enumerate(start):
            groups.setdefault(self._limits(C[row if len(C) > 1 else 0], values), []).append(row)
        parts = []
        for limits, rows in groups.items():
            free = [f.name for f in explainer.space_.features if not f.immutable and (f.name, ()) not in limits]
            bounds, goal = {name: b for name, b in limits if b}, self._goal(None if target is None else target[rows])
            parts.append(explainer.explain(taken(X, rows), goal=goal, n=n, vary=free, bounds=bounds))
        return concatenate(parts, X, order=np.argsort(np.concatenate([*groups.values()])))

    def _goal(self, target: Array | None) -> Goal | None:
        if target is None:
            return None
        known = self.explainer_.blackbox_.classes
        if known is not None:
            return Goal.to(np.asarray(known)[target])
        tolerance = self.spread / 10 if self.tolerance is None else self.tolerance
        if not tolerance > 0:
            raise GoalError(f"tolerance is {tolerance}; say how far from Y_t an answer may be, above 0.")
        return Goal.between(target - tolerance, target + tolerance)

    def _limits(self, condition: Mapping[Any, Sequence[Any]], row: Array) -> tuple[tuple[Any, tuple[Any, ...]], ...]:
        """What one row may change to, by feature; () where it may not change at all."""
        space, limits = self.explainer_.space_, dict[Any, tuple[Any, ...]]()
        for name in set(condition) - set(space.names):
            raise UnknownNameError(f"C names feature {name!r}; {did_you_mean(name, space.names)}")
        for j, f in enumerate(space.features):
            told = condition.get(f.name, (-np.inf, np.inf))
            if np.ndim(told) != 1 or (f.kind != "categorical" and len(told) != 2):
                raise InputError(f"C says {told!r} of {f.name!r}; its least and greatest change, or names, are needed.")
            if f.kind != "categorical" and not (told[0] <= 0 <= told[1]):  # which alibi refuses too
                raise ConstraintError(
                    f"C lets {f.name!r} change by {list(told)}, but to stay as it is, 0, must be in it."
                )
            if f.kind != "categorical" and (f.name in condition or f.name in self.parts):
                shares = self.parts.get(str(f.name), (-1.0, 1.0))
                fall, rise = told
                low = max(f.low, row[j] + fall, row[j] + shares[0] * (f.high - f.low))
                high = min(f.high, row[j] + rise, row[j] + shares[1] * (f.high - f.low))
                limits[f.name] = (low, high) if low <= high else ()
            elif f.name in condition:
                names = self.category_map.get(j)
                codes = dict(zip(names, range(len(names)), strict=True)) if names else {c: c for c in f.categories}
                for category in set(condition[f.name]) - set(codes):
                    raise UnknownNameError(f"C says {category!r} of {f.name!r}; {did_you_mean(category, codes)}")
                limits[f.name] = tuple({codes[category] for category in condition[f.name]} & set(f.categories))
        return tuple(limits.items())

    def _codes(self, answers: Array) -> Array:
        blackbox, refused = self.explainer_.blackbox_, pd.isna(answers)
        if blackbox.classes is None:
            return np.asarray(answers).reshape(-1, 1)
        codes = np.full(len(answers), np.nan)
        codes[~refused] = blackbox.codes(answers[~refused])
        return (codes if refused.any() else codes.astype(int)).reshape(-1, 1)


def load_explainer(path: str | Path, predictor: Any) -> ReLAXTabular:
    """Read what `ReLAXTabular.save` wrote, as `alibi.saving.load_explainer` does."""
    return ReLAXTabular.load(path, predictor)


def _regressor(predictor: Any) -> Any:
    known = isinstance(predictor, BlackBox) or hasattr(predictor, "predict")
    return predictor if known else BlackBox(predictor, task="regression")


def _delivered(space: FeatureSpace, values: Array, queries: Rows) -> Array:
    """The values as an array of the user's cells; `restore` does this for any dtype, but numbers need no frame."""
    array = np.asarray(queries)
    if array.dtype.kind not in "iuf" or not space.is_plain:
        return np.asarray(space.restore(values, queries))
    cells = space.numbers(values)
    cast = cells.astype(array.dtype)
    return cast if np.array_equal(cast, cells, equal_nan=True) else cells


def _set_aside(autoencoder: Sequence[Any], others: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments without a place here, None where not given; one warning names those that were."""
    for name in others:
        if name not in SET_ASIDE:
            raise TypeError(f"ReLAXTabular has no argument {name!r}; {did_you_mean(name, SET_ASIDE)}")
    aside = dict.fromkeys(SET_ASIDE) | dict(zip(SET_ASIDE, autoencoder, strict=False)) | dict(others)
    said = [name for name, value in aside.items() if value is not None]
    if said:
        text = f"no autoencoder is needed, and nothing is trained by it: {', '.join(said)} are set aside."
        warnings.warn(text, stacklevel=3)
    return aside


def _plain(value: Any) -> Any:
    """A parameter as `meta` shows it: what JSON does not know by its name, as alibi does."""
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return getattr(value, "__name__", None) or str(type(value))
