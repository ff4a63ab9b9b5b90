"""Models from files, for the commands: joblib files, which are code, and ONNX files, which are data."""

import re
import sys
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd

from relax_plugin.arrays import Array, Floats
from relax_plugin.commands.rows import chosen_columns
from relax_plugin.errors import ColumnError, InputError, MissingExtraError, ModelError
from relax_plugin.readers import with_categories_of

AGREEMENT = 0.9  # share of the training rows whose largest score is the label's, for scores that say anything of it


def open_session(source: Path | bytes) -> Any:
    """The session of a file, or of its content; onnxruntime is imported here and nowhere else."""
    try:
        import onnxruntime
    except ImportError as error:
        raise MissingExtraError("an .onnx model needs onnxruntime: pip install 'relax-plugin[onnx]'.") from error
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # wrong shapes written in the file would be told at each call
    try:
        given = source if isinstance(source, bytes) else str(source)
        return onnxruntime.InferenceSession(given, options, providers=["CPUExecutionProvider"])
    except Exception as error:
        told = "what was sent" if isinstance(source, bytes) else source
        raise InputError(f"{told} is no ONNX model that can be loaded: {error}.") from error


class OnnxModel:
    """An ONNX session in scikit-learn's manners: `predict`, and `predict_proba` or `decision_function` if it scores.

    The session takes either one tensor (rows, features) or one input for each column. What its outputs are is read
    off its answers to the training rows (`learn`), because the shapes written in such files are not always true.
    """

    predict_proba: Any
    decision_function: Any

    def __init__(self, session: Any, columns: list[str], path: Path) -> None:
        self.session = session
        self.path = path
        self.inputs = {put.name: put for put in session.get_inputs()}
        self.outputs = [put.name for put in session.get_outputs()]
        for name, put in self.inputs.items():
            if put.shape and isinstance(put.shape[0], int):
                raise InputError(f"the ONNX input {name!r} takes {put.shape[0]} row(s) at a time; export it for any.")
        self.feature_names_in_: list[str] | None = None
        self.width: Any = None
        if len(self.inputs) == 1:
            shape = next(iter(self.inputs.values())).shape
            self.width = shape[1] if len(shape) == 2 else None
            return
        wide = [name for name, put in self.inputs.items() if len(put.shape) > 1 and put.shape[1:] != [1]]
        if wide:
            raise InputError(f"the ONNX input {wide[0]!r} holds several columns; one for each or for all is needed.")
        # Converters write names such as `age (years)` as `age__years_`.
        spelled = {re.sub(r"\W", "_", column): column for column in columns} | {column: column for column in columns}
        self.feature_names_in_ = [spelled.get(name, name) for name in self.inputs]

    def __getstate__(self) -> dict[str, Any]:
        """What was learned, and the file itself: a session cannot be sent to other processes."""
        learned = {name: value for name, value in vars(self).items() if name not in ("session", "inputs")}
        return learned | {"content": self.path.read_bytes()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.session = open_session(state.pop("content"))
        self.inputs = {put.name: put for put in self.session.get_inputs()}
        vars(self).update(state)

    def learn(self, rows: pd.DataFrame, task: str) -> None:
        """See what the outputs are: labels, scores, or a number."""
        answers = dict(zip(self.outputs, self._run(rows, self.outputs), strict=True))
        labels = [name for name, answer in answers.items() if _kind(answer) == "label"]
        scores = [name for name, answer in answers.items() if _kind(answer) == "score"]
        self.label = labels[0] if labels else None
        self.score = max(scores, key=lambda name: _matrix(answers[name])[0].shape[1]) if scores else None
        if self.label is None and self.score is None:
            raise ModelError(f"the ONNX model answers neither labels nor numbers in {self.outputs}.")
        numbers, keys = _matrix(answers[self.score]) if self.score else (np.empty((len(rows), 0)), None)
        if task == "regression" or (task == "auto" and self.label is None and numbers.shape[1] == 1):
            if numbers.shape[1] != 1:
                raise ModelError(f"the ONNX model gives no single number a row in {self.outputs}; it is no regressor.")
            self._estimator_type = "regressor"
            return
        self._estimator_type = "classifier"
        probabilities = _are_probabilities(numbers)
        if self.label is None and numbers.shape[1] == 1 and not probabilities:
            raise ModelError(
                f"the ONNX model answers {numbers.min():g} to {numbers.max():g} in {self.score!r}; a classifier gives "
                "labels, one score a class, or the probability of class 1."
            )
        self.one_minus = probabilities
        known = self._classes(answers, keys)
        if known is not None:
            self.classes_ = known
            setattr(self, "predict_proba" if probabilities else "decision_function", self._scores)

    def predict(self, rows: Any) -> Any:
        if self.label is not None and self._estimator_type == "classifier":
            return np.asarray(self._run(rows, [self.label])[0]).reshape(len(rows))
        if self._estimator_type == "regressor":
            return _matrix(self._run(rows, [self.score])[0])[0][:, 0]
        return self.classes_[np.argmax(self._scores(rows), axis=1)]

    def _scores(self, rows: Any) -> Floats:
        return self._two_sided(_matrix(self._run(rows, [self.score])[0])[0])

    def _two_sided(self, scores: Floats) -> Floats:
        """One column for each class, where a single one speaks for the second of two."""
        if scores.shape[1] != 1:
            return scores
        return np.hstack([1.0 - scores if self.one_minus else -scores, scores])

    def _classes(self, answers: dict[str, Any], keys: list[Any] | None) -> Any:
        """The label of each score's column; None if that cannot be told, and labels alone have to do.

        A map names its labels. A bare tensor does not: its columns are those of the labels answered where they are
        largest. Scores whose largest is not the label's (votes of pairs of classes, say) help nobody.
        """
        if self.score is None:
            return None
        scores = self._two_sided(_matrix(answers[self.score])[0])
        if self.label is None:
            return np.asarray(keys if keys is not None else range(scores.shape[1]))
        labels = pd.Series(np.asarray(answers[self.label]).reshape(len(scores)), dtype=object)
        largest = scores.argmax(axis=1)
        told = labels.groupby(largest).agg(lambda group: group.mode()[0])
        classes = keys
        if classes is None and (told.to_numpy() == told.index).all():
            classes = list(range(scores.shape[1]))
        if classes is None and len(told) == scores.shape[1] == told.nunique():
            classes = told.tolist()
        if classes is None:
            return None
        agree = [classes[column] == label for column, label in zip(largest, labels, strict=True)]
        return np.asarray(classes) if np.mean(agree) >= AGREEMENT else None

    def _run(self, rows: Any, outputs: list[Any]) -> list[Any]:
        if len(self.inputs) == 1:
            (name, put), cells = next(iter(self.inputs.items())), np.asarray(rows)
            feed = {name: _cast(cells[:, 0] if len(put.shape) == 1 else cells, put.type, name)}
        else:
            columns = zip(self.feature_names_in_ or (), self.inputs.values(), strict=True)
            feed = {
                put.name: _cast(rows[column].to_numpy(), put.type, column).reshape([-1] + [1] * (len(put.shape) - 1))
                for column, put in columns
            }
        try:
            answers: list[Any] = self.session.run(outputs, feed)
        except Exception as error:
            raise ModelError(f"the ONNX model refused a batch of {len(rows)} rows: {error}") from error
        return answers


def _cast(cells: Array, kind: str, name: str) -> Array:
    """The cells in the type an ONNX input takes; never a number that is not theirs up to its precision."""
    if kind == "tensor(string)":
        if pd.isna(cells).any():  # or "nan" would be a text like any other
            raise ModelError(f"the ONNX input {name!r} takes texts, of which none can be missing; fill the gaps in.")
        return cells.astype(str).astype(object)
    dtypes: dict[str, Any] = {"float": np.float32, "double": np.float64, "int64": np.int64, "int32": np.int32}
    dtypes["bool"] = np.bool_
    dtype = dtypes.get(kind.removeprefix("tensor(").removesuffix(")"))
    if dtype is None:
        raise ModelError(f"the ONNX input {name!r} is a {kind}, which rows of a CSV file cannot fill.")
    try:
        numbers = cells.astype(np.float64)
    except ValueError as error:
        raise ModelError(f"the ONNX input {name!r} takes numbers, but its column holds text: {error}.") from error
    cast = numbers.astype(dtype)
    if np.dtype(dtype).kind != "f" and (cast != numbers).any():
        value = numbers[cast != numbers][0]
        raise ModelError(f"the ONNX input {name!r} is a {kind}, which cannot hold {value:g}.")
    return cast


def _kind(answer: Any) -> str:
    """Label or score: a list holds one map from label to score for each row."""
    if isinstance(answer, list):
        return "score"
    return "score" if answer.dtype.kind == "f" else "label"


def _matrix(answer: Any) -> tuple[Floats, list[Any] | None]:
    """Scores (rows, columns), and the columns' labels where maps name them."""
    if isinstance(answer, list):
        keys = list(answer[0]) if answer else []
        return np.array([[row[key] for key in keys] for row in answer], dtype=np.float64), keys
    return np.asarray(answer, dtype=np.float64).reshape(len(answer), -1), None


def _are_probabilities(scores: Floats) -> bool:
    if not ((scores >= 0) & (scores <= 1)).all():
        return False
    return scores.shape[1] == 1 or bool(np.allclose(scores.sum(axis=1), 1.0, atol=1e-3))


def load_model(path: Path, rows: pd.DataFrame, source: Path, task: str) -> tuple[Any, pd.DataFrame]:
    """The model of a file, and those columns of the training rows that it was trained on, in its order.

    That loading a joblib file runs code is said on stderr before it is loaded. `source` is where the rows are from, for
    messages.
    """
    if path.suffix.lower() != ".onnx":
        model = _unpickled(path)
        return model, with_categories_of(model, _model_columns(model, rows, source))
    onnx = OnnxModel(open_session(path), list(rows.columns), path)
    if onnx.feature_names_in_ is not None:
        rows = chosen_columns(rows, onnx.feature_names_in_, source)
    _check_width(onnx.width, rows, source)
    onnx.learn(rows, task)
    return onnx, rows


def _model_columns(model: Any, rows: pd.DataFrame, source: Path) -> pd.DataFrame:
    names = [str(name) for name in getattr(model, "feature_names_in_", ())]
    if any(name in rows.columns for name in names):  # otherwise they may be made up: LightGBM's Column_0, Column_1
        return chosen_columns(rows, names, source)
    _check_width(getattr(model, "n_features_in_", None), rows, source)
    return rows


def _check_width(width: Any, rows: pd.DataFrame, source: Path) -> None:
    if isinstance(width, int) and width != len(rows.columns):
        raise ColumnError(
            f"the model was trained on {width} features, but {source} has {len(rows.columns)}: "
            f"{', '.join(map(str, rows.columns[:12]))}; --target COLUMN leaves out the target."
        )


def _unpickled(path: Path) -> Any:
    print(
        f"{path} is a joblib file: loading it runs whatever code it contains. Load only files you trust.",
        file=sys.stderr,
        flush=True,
    )
    try:
        return joblib.load(path)
    except (ImportError, AttributeError) as error:
        raise InputError(
            f"{path} cannot be loaded: {error}; the modules its model is made of must be importable here."
        ) from error
    except SystemExit as error:
        raise InputError(f"{path} cannot be loaded: it ends the program, with exit code {error.code!r}.") from error
    except Exception as error:
        raise InputError(f"{path} is no joblib file that can be loaded: {type(error).__name__} {error}.") from error
