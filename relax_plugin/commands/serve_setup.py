"""The Python that makes what `relax-plugin serve` serves: the rows, the model, the space and the fitted explainer."""

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from relax_plugin.commands.request import columns_along, is_parquet
from relax_plugin.commands.rows import read_rows
from relax_plugin.goal import Goal
from relax_plugin.whatif.python_text import PLAIN, call_text, literal


def setup_text(
    chosen: argparse.Namespace,
    training: pd.DataFrame,
    arguments: Mapping[str, Any],
    method: str,
    options: Mapping[str, Any],
    goal: Goal,
) -> str:
    """Python that makes `explainer` and `rows` as the command does.

    `training` has the columns that the model knows; `arguments` are of `FeatureSpace.infer`, those that say nothing are
    left out; method and options are of the registry.
    """
    lines = [f"table = {_read(chosen.training, chosen.missing)}"]
    columns = literal(list(training.columns))
    if chosen.model.suffix.lower() == ".onnx":
        source = f"Path({literal(str(chosen.training))})"
        load = f"load_model(Path({literal(str(chosen.model))}), table[{columns}], {source}, {literal(chosen.task)})"
        lines.append(f"model, training = {load}")
    else:
        lines += [f"training = table[{columns}]", f"model = joblib.load({literal(str(chosen.model))})"]
    said = {name: value for name, value in arguments.items() if value}
    lines.append(call_text("space = FeatureSpace.infer", ["training"], said))
    asked = "model" if chosen.task == "auto" else f"BlackBox(model, space, {literal(chosen.task)})"
    given: dict[str, Any] = {"goal": goal, "seed": chosen.seed, **options}
    lines.append(call_text("explainer = make_explainer", [literal(method), asked, "space"], given))
    lines += ["explainer.fit(training)", *_rows(chosen, training)]
    text = "\n".join(lines)
    return f"{_imports(text)}\n\n{text}"


def _read(path: Path, missing: list[str], dtypes: Mapping[str, Any] | None = None) -> str:
    reader = "read_parquet" if is_parquet(path) else "read_csv"
    if not dtypes and not missing and _same(getattr(pd, reader)(path), read_rows(path)):
        return f"pd.{reader}({literal(str(path))})"
    further = f", missing={literal(missing)}" if missing else ""
    if dtypes:
        names = literal(dict.fromkeys(dtypes, "str")).replace('"str"', "str") if dtypes else ""
        further += f", dtypes={names}"
    return f"read_rows(Path({literal(str(path))}){further})"


def _same(one: pd.DataFrame, other: pd.DataFrame) -> bool:
    return one.equals(other) and list(one.columns) == list(other.columns)


def _rows(chosen: argparse.Namespace, training: pd.DataFrame) -> list[str]:
    source, lines = "table", []
    if chosen.queries is not None:
        texts = {name: str for name in training.columns if pd.api.types.is_string_dtype(training[name])}
        source = "queries"
        lines.append(f"queries = {_read(chosen.queries, chosen.missing, texts)}")
    names = [*training.columns, *columns_along(chosen)]
    rows = f"rows = {source}[{literal(names)}]"
    if chosen.id is not None:
        kept = ", drop=False" if chosen.id in chosen.carry else ""
        rows += f".set_index({literal(chosen.id)}{kept})"
    return [*lines, rows]


def _imports(text: str) -> str:
    known = {
        "from pathlib import Path": "Path(",
        "import joblib": "joblib.",
        "import pandas as pd": "pd.",
        "from relax_plugin.base import make_explainer": "make_explainer(",
        "from relax_plugin.blackbox import BlackBox": "BlackBox(",
        "from relax_plugin.commands.models import load_model": "load_model(",
        "from relax_plugin.commands.rows import read_rows": "read_rows(",
        "from relax_plugin.features import FeatureSpace": "FeatureSpace.",
        "from relax_plugin.goal import Goal": "Goal.",
        PLAIN: "from_plain(",
    }
    needed = [line for line, sign in known.items() if sign in text or "Goal" in line]
    ours = [line for line in needed if "relax_plugin" in line]
    others = [line for line in needed if line not in ours and line != "from pathlib import Path"]
    first = ["from pathlib import Path", ""] if "from pathlib import Path" in needed else []
    return "\n".join([*first, *others, *([""] if others else []), *ours])
