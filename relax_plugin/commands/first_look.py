"""A first look at files that are named on the command line, without reading them whole or running what they hold."""

import csv
from pathlib import Path

from relax_plugin.errors import InputError

PICKLES = (".joblib", ".pkl", ".pickle")
PACKED = (".gz", ".bz2", ".zip", ".xz", ".zst", ".tar")


def check_model_path(path: Path) -> None:
    """Refuse, before anything is read, a file that is not there or is of no known kind."""
    if path.suffix.lower() not in (*PICKLES, ".onnx"):
        raise InputError(f"the model {path} has the ending {path.suffix!r}; a .joblib, .pkl or .onnx file is needed.")
    if not path.is_file():
        raise InputError(f"there is no model file {path}.")


def header(path: Path) -> list[str] | None:
    """The column names of a CSV file as pandas will call them; None where only pandas itself can tell."""
    if path.suffix.lower() in PACKED:
        return None
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            names = next((line for line in csv.reader(file) if line), None)
    except (UnicodeDecodeError, csv.Error):
        return None
    if not names or len(set(names)) < len(names):
        return None
    return [name or f"Unnamed: {position}" for position, name in enumerate(names)]
