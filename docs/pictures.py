"""Draw docs/picture.svg, the picture of README.md, and those of the field: `python docs/pictures.py`.

It is part of `make tables`. The picture of README.md shows what the lines under "Ten lines" there find: one patient,
two ways to another answer of the model. All are written as text, so that they are the same to the byte wherever the
results are the same.
"""

import sys
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader
from sklearn.ensemble import RandomForestClassifier

from relax_plugin import FeatureSpace, Goal, ReLAX
from relax_plugin.datasets import load
from relax_plugin.evaluation.kept_rows import FILE, read_kept_rows
from relax_plugin.evaluation.ranks import SCORES, by_task, ranked
from relax_plugin.files import write_text
from relax_plugin.pages.rank_picture import rank_picture

DOCS = Path(__file__).resolve().parent
FIELD = DOCS / "results" / "field"
DRAWN = ("changes", "plausible", "lasting")
PATIENT = 612
WORDS = {"glucose": "glucose", "pressure": "blood pressure", "triceps": "skin fold", "insulin": "insulin"}
WORDS |= {"mass": "body mass index", "pregnant": "pregnancies", "pedigree": "pedigree", "age": "age"}
FIXED = ["age", "pregnant", "pedigree"]


def picture() -> str:
    """The picture as SVG."""
    data = load("diabetes")
    known, patient = data.X[:600], data.X.loc[[PATIENT]]
    model = RandomForestClassifier(random_state=0).fit(known, data.y.map({0: "healthy", 1: "diabetes"})[:600])
    space = FeatureSpace.infer(known, immutable=FIXED, decrease_only=["mass"])
    explainer = ReLAX(model, space, seed=0).fit(known)
    found = explainer.explain(patient, goal=Goal.to("healthy"), n=2)
    assert found.found.all()
    rows = [patient.iloc[0], *(row for _, row in found.frame[list(patient)].iterrows())]
    healthy = list(model.classes_).index("healthy")
    answers = [str(found.before[0]), *map(str, found.after[0])]
    chances = [float(model.predict_proba(row.to_frame().T.astype(float))[0, healthy]) for row in rows]
    columns = [
        {"answer": answer, "chance": round(100 * chance), "cells": cells(row, rows[0])}
        for answer, chance, row in zip(answers, chances, rows, strict=True)
    ]
    names = [{"word": word, "fixed": name in FIXED} for name, word in WORDS.items()]
    template = Environment(loader=FileSystemLoader(DOCS), trim_blocks=True, lstrip_blocks=True, autoescape=True)
    asked = {"fit_rows": explainer.fit_rows_, "rows": int(found.rows_queried[0])}
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
    write_text(DOCS / "picture.svg", picture())
    print("docs/picture.svg is written.", file=sys.stderr)
    for name, drawn in field_pictures().items():
        write_text(FIELD / name, drawn)
        print(f"docs/results/field/{name} is written.", file=sys.stderr)
