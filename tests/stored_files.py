"""Make the stored files of this version: twenty saved agents, their results, and a certificate of each.

    python tests/stored_files.py    # into tests/data/version_X, which must not exist yet; half a minute

The folder says which version made them. Files of a version are made once and never rewritten: a later version reads
them, or refuses them in a sentence. What is stored was trained on one machine, so another one makes other files.
"""

import json
import platform
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import sklearn
import torch
from reference.stored_cases import CASES, Case, frame

import relax_plugin
from relax_plugin import Counterfactuals
from relax_plugin.trees.floor import certify

DATA = Path(__file__).resolve().parent / "data"
TEXT = {"str": "text", "object": "text"}  # of pandas 3, and of older ones


def content(result: Counterfactuals) -> dict[str, Any]:
    """What a reader of a result sees, as plain data: cells as texts, in words of Python's own."""
    delivered = frame(result.frame, result.space)
    return {
        "frame": {str(name): list(map(str, delivered[name].tolist())) for name in delivered},
        "dtypes": {str(name): TEXT.get(str(dtype), str(dtype)) for name, dtype in delivered.dtypes.items()},
        "index": list(map(str, delivered.index)),
        "changes": [[str(cell) for cell in line] for line in result.changes().itertuples(index=False)],
        "found": result.found.tolist(),
        "before": list(map(str, result.before.tolist())),
        "after": list(map(str, np.asarray(result.after)[result.found].tolist())),
        "sparsity": list(map(str, result.sparsity[result.found].tolist())),
        "rows_queried": result.rows_queried.tolist(),
    }


def make(name: str, case: Case, folder: Path) -> None:
    """The three files of a case, and what its result holds."""
    explainer = case.explainer().fit(case.rows)
    result = explainer.explain(case.asked, **case.call)
    result = certify(result, explainer) if case.proved else result
    files = {"results": result.to_json(), "certificates": json.dumps(result.certificate(case.query))}
    files["contents"] = json.dumps(content(result), ensure_ascii=False)
    for kind, text in files.items():
        (folder / kind).mkdir(parents=True, exist_ok=True)
        (folder / kind / f"{name}.json").write_text(text + "\n", encoding="utf-8")
    (folder / "agents").mkdir(parents=True, exist_ok=True)
    explainer.save(folder / "agents" / f"{name}.safetensors")


def main() -> int:
    """Every case into the folder of this version."""
    folder = DATA / f"version_{relax_plugin.__version__}"
    if folder.exists():
        print(f"{folder} exists: files of a version are made once.", file=sys.stderr)
        return 1
    warnings.simplefilter("ignore")
    for name, case in CASES.items():
        make(name, case, folder)
        print(name, flush=True)
    versions = {module.__name__: module.__version__ for module in (relax_plugin, np, sklearn, torch)}
    command = ["git", "log", "-1", "--format=%h", "--", "relax_plugin", "adapters", "baselines"]
    commit = subprocess.run(command, cwd=DATA.parent.parent, check=True, capture_output=True, text=True).stdout.strip()
    made = {
        "made_by": "tests/stored_files.py",
        "code_of_commit": commit,
        "python": platform.python_version(),
        **versions,
    }
    (folder / "made.json").write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
