"""Draw docs/picture.svg, the picture of README.md, and those of the field: `make tables`.

The picture of README.md shows one patient and two counterfactuals of the run that
`make outputs` stored. Pictures are written as text, so stored results give the same file on every machine.
"""

import json
import sys
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader
from sklearn.ensemble import RandomForestClassifier

from benchmarks.stored import read_kept_rows
from benchmarks.tables.rank_picture import rank_picture
from benchmarks.tables.ranks import by_task, ranked
from benchmarks.tables.script_tables import trees_picture
from relax_plugin import FeatureSpace, Goal, ReLAX
from relax_plugin.datasets import load
from relax_plugin.evaluation.ranks import SCORES
from relax_plugin.evaluation.store import FILE
from relax_plugin.files import write_text

DOCS = Path(__file__).resolve().parent
FIELD = DOCS / "results" / "field"
DRAWN = ("changes", "plausible", "lasting")
PATIENT = 612
WORDS = {"glucose": "glucose", "pressure": "blood pressure", "triceps": "skin fold", "insulin": "insulin"}
WORDS |= {"mass": "body mass index", "pregnant": "pregnancies", "pedigree": "pedigree", "age": "age"}
FIXED = ["age", "pregnant", "pedigree"]


def run_for_picture() -> dict[str, Any]:
    """Explain one patient twice; the rows, predictions and costs that the picture shows."""
    data = load("diabetes")
    known, patient = data.X[:600], data.X.loc[[PATIENT]]
    model = RandomForestClassifier(random_state=0).fit(known, data.y.map({0: "healthy", 1: "diabetes"})[:600])
    space = FeatureSpace.infer(known, immutable=FIXED, decrease_only=["mass"])
    explainer = ReLAX(model, space, seed=0).fit(known)
    found = explainer.explain(patient, goal=Goal.to("healthy"), n=2)
    assert found.found.all()
    rows = [patient.iloc[0], *(row for _, row in found.frame[list(patient)].iterrows())]
    healthy = list(model.classes_).index("healthy")
    return {
        "fit_rows": int(explainer.fit_rows_),
        "rows_queried": int(found.rows_queried[0]),
        "rows": [{name: float(value) for name, value in row.items()} for row in rows],
        "predictions": [str(found.before[0]), *map(str, found.after[0])],
        "healthy": [float(model.predict_proba(row.to_frame().T.astype(float))[0, healthy]) for row in rows],
    }


def picture(run: dict[str, Any]) -> str:
    """The picture of a stored run as SVG."""
    rows = run["rows"]
    columns = [
        {"answer": answer, "chance": round(100 * chance), "cells": cells(row, rows[0])}
        for answer, chance, row in zip(run["predictions"], run["healthy"], rows, strict=True)
    ]
    names = [{"word": word, "fixed": name in FIXED} for name, word in WORDS.items()]
    template = Environment(loader=FileSystemLoader(DOCS), trim_blocks=True, lstrip_blocks=True, autoescape=True)
    asked = {"fit_rows": run["fit_rows"], "rows": run["rows_queried"]}
    return template.get_template("picture.svg.jinja").render(names=names, columns=columns, **asked)


def cells(row: Any, query: Any) -> list[dict[str, Any]]:
    """The values of a row as text, and which of them the counterfactual changes."""
    return [{"text": f"{row[name]:g}", "changed": bool(row[name] != query[name])} for name in WORDS]


def field_pictures() -> dict[str, str]:
    """The critical-difference diagrams of docs/results/field.md by their file names; none until it was measured."""
    if not (FIELD / FILE).exists():
        return {}
    rows = read_kept_rows(FIELD)
    tables = {score: ranked(by_task(rows, score), high=score.high) for score in SCORES if score.name in DRAWN}
    return {f"{score.name}.svg": rank_picture(table, score.meaning) for score, table in tables.items()}


if __name__ == "__main__":
    run = json.loads((DOCS / "results" / "outputs.json").read_text(encoding="utf-8"))["picture"]
    write_text(DOCS / "picture.svg", picture(run))
    print("docs/picture.svg is written.", file=sys.stderr)
    trees_picture(DOCS / "results" / "trees.svg")
    for name, drawn in field_pictures().items():
        write_text(FIELD / name, drawn)
        print(f"docs/results/field/{name} is written.", file=sys.stderr)
