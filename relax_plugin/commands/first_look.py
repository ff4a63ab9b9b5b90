"""A first look at files that are named on the command line, without reading them whole or running what they hold."""

import csv
from importlib.util import find_spec
from pathlib import Path

from relax_plugin.errors import InputError, MissingExtraError

PICKLES = (".joblib", ".pkl", ".pickle")
PARQUET = ".parquet"
ARROW = (".arrow", ".feather", ".ipc")  # one format: Feather is Arrow's file of record batches
PACKED = (".gz", ".bz2", ".zip", ".xz", ".zst", ".tar")


def check_model_path(path: Path) -> None:
    """Refuse, before anything is read, a file that is not there or is of no known kind."""
    if path.suffix.lower() not in (*PICKLES, ".onnx"):
        raise InputError(f"the model {path} has the ending {path.suffix!r}; a .joblib, .pkl or .onnx file is needed.")
    if not path.is_file():
        raise InputError(f"there is no model file {path}.")


def is_parquet(path: Path) -> bool:
    return path.suffix.lower() == PARQUET


def is_columnar(path: Path) -> bool:
    """Whether pyarrow reads and writes it."""
    return path.suffix.lower() in (PARQUET, *ARROW)


def check_parquet(path: Path | None) -> None:
    """Refuse a Parquet or Arrow file where nothing reads or writes it."""
    if path is not None and is_columnar(path) and find_spec("pyarrow") is None:
        raise MissingExtraError(f"{path} needs pyarrow, which is not installed: pip install 'relax-plugin[parquet]'.")


def header(path: Path) -> list[str] | None:
    """The column names of a CSV file as pandas will call them; None where only pandas itself can tell."""
    if path.suffix.lower() in (*PACKED, PARQUET, *ARROW):
        return None
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            names = next((line for line in csv.reader(file) if line), None)
    except (UnicodeDecodeError, csv.Error):
        return None
    if not names or len(set(names)) < len(names):
        return None
    return [name or f"Unnamed: {position}" for position, name in enumerate(names)]
