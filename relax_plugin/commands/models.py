"""Models from files, for the commands: joblib files, which are code, and ONNX files, which are data."""

import sys
from pathlib import Path
from typing import Any

import joblib
import pandas as pd

from relax_plugin.commands.onnx_model import OnnxModel, open_session
from relax_plugin.commands.rows import chosen_columns
from relax_plugin.errors import ColumnError, InputError
from relax_plugin.readers import with_categories_of


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
