"""The HTML pages as they are today, digits aside: cards, a report, the what-if page and the play page.

    python tests/frozen_pages.py    # rewrites tests/data/html after a wanted change; look at `git diff` then

Models are plain arithmetic, or trees on a table that is parted cleanly; of the play page, whose agent is trained,
structure and words are kept alone. What depends on the processor or the run is replaced: numbers by <n>, lists of them
by one, pictures by their texts, packed columns by <data>, styles and scripts by nothing.
"""

import json
import re
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import joblib
from reference.sample_rows import sample_rows
from reference.stored_cases import CASES, Points, people, people_points
from reference.what_if import session
from starlette.testclient import TestClient

from relax_plugin import FeatureSpace, ReLAXConfig, make_explainer
from relax_plugin.cli import main as relax_plugin
from relax_plugin.pages.report import render
from relax_plugin.teaching import play
from relax_plugin.trees.floor import certify
from relax_plugin.whatif.app import what_if_app

FOLDER = Path(__file__).resolve().parent / "data" / "html"
NUMBER = re.compile(r"(?<!\w)(?<!\w-)[-\u2212]?\d+(?:[.,]\d+)*(?:[eE][-+]?\d+)?")  # h2, task-0 and L1 are names
MOST_ITEMS = {"fields": 20}  # of a list in JSON, by its key; of others
FEW_ITEMS = 2


def normalised(page: str) -> str:
    """The page without what depends on the processor, the run or the version; an element begins a line."""
    page = re.sub(r"<style[^>]*>.*?</style>", "<style></style>", page, flags=re.DOTALL)
    page = re.sub(r"<svg.*?</svg>", lambda svg: _texts(svg[0]), page, flags=re.DOTALL)
    page = re.sub(r"(<script[^>]*>)(.*?)(</script>)", _script, page, flags=re.DOTALL)
    page = numberless(page)
    page = re.sub(r' style="[^"]*"', "", page)
    lines = (" ".join(line.split()) for line in re.sub(r"(?=<(?!n>)[a-zA-Z!])", "\n", page).splitlines())
    return "\n".join(line for line in lines if line) + "\n"


def numberless(text: str) -> str:
    """Numbers as <n>, and several of them in a row as one."""
    return re.sub(r"<n>(?:[\s,;–]+<n>)+", "<n>", NUMBER.sub("<n>", text))  # noqa: RUF001


def _texts(svg: str) -> str:
    """A picture as what can be read in it."""
    label = re.search(r'^<svg[^>]*aria-label="([^"]*)"', svg)
    parts = re.findall(r">([^<>]+)<", svg)
    texts = dict.fromkeys(numberless(" ".join(part.split())) for part in parts if part.strip())
    return f"<svg>{label[1] if label else ''}: {' | '.join(texts)}</svg>"


def _script(found: "re.Match[str]") -> str:
    """JSON with its keys and texts; of a program nothing."""
    begin, body, end = found.groups()
    if "application/json" not in begin:
        return f"{begin}{end}"
    return f"{begin}\n{json.dumps(_sketched(json.loads(body)), indent=1, ensure_ascii=False)}\n{end}"


def _sketched(data: Any, key: str = "") -> Any:
    """Data with few items of each list, and no packed columns."""
    if isinstance(data, dict):
        packed = data.keys() >= {"unit", "bytes", "data"}
        return "packed" if packed else {name: _sketched(value, name) for name, value in data.items()}
    if isinstance(data, list):
        return [_sketched(item) for item in data[: MOST_ITEMS.get(key, FEW_ITEMS)]]
    return 0 if isinstance(data, int | float) and not isinstance(data, bool) else data


def card() -> str:
    """Two alternatives, with ranges, constraints and words for people."""
    rows = people()
    space = FeatureSpace.infer(rows, immutable=["age"], labels={"income": "income (€)"})
    explainer = make_explainer("greedy", Points(people_points, 30), space).fit(rows)
    result = explainer.explain(rows[:4], n=2, bounds={"income": (None, 25.0)})
    result.regions()
    return result.card(1).html


def proved_card() -> str:
    """A counterfactual that is proved the closest."""
    case = CASES["tree"]
    explainer = make_explainer("greedy", case.model).fit(case.rows)
    return certify(explainer.explain(case.asked), explainer).card(0).html


def unsolved_card() -> str:
    """No counterfactual exists."""
    case = CASES["no_way"]
    explainer = make_explainer("greedy", case.model, goal=case.options["goal"]).fit(case.rows)
    return certify(explainer.explain(case.asked, **case.call), explainer).card(0).html


def cards() -> str:
    """What `relax-plugin explain --html` writes."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        joblib.dump(Points(people_points, 30), folder / "model.joblib")
        people().reset_index().astype({"size": str}).to_csv(folder / "people.csv", index=False)
        files = [str(folder / "people.csv"), "--model", str(folder / "model.joblib"), "--html", str(folder / "c.html")]
        said = ["--method", "greedy", "--id", "person", "--immutable", "age", "--rows", "0", "10", "2", "-n", "2"]
        said += ["--plausible", "no", "--output", str(folder / "c.csv")]
        code = relax_plugin(["explain", *files, *said])
        if code not in (0, 1):
            raise RuntimeError(f"relax-plugin explain ended with {code}")
        return (folder / "c.html").read_text(encoding="utf-8").replace(name, "FOLDER")


def report() -> str:
    """What `relax-plugin report` writes, of rows that are made up."""
    return render(sample_rows(), title="Loans & prices", command="relax-plugin bench", versions={"numpy": "2"})


def what_if() -> str:
    """The what-if page, and behind it what it is answered to two questions."""
    with TestClient(
        what_if_app(session(setup="# how it was made"), "a-token", 1), base_url="http://127.0.0.1:1"
    ) as client:
        page = client.get("/a-token/").text
        for path, sent in (("predict", {"row": 3, "cells": {"age": 40}}), ("explain", {"row": 3})):
            told = client.post(f"/a-token/{path}", json=sent).json()
            card = told.pop("card", "")
            data = json.dumps(told).replace("<", "\\u003c")
            page += f'\n<script type="application/json" id="{path}">{data}</script>\n{card}'
    return page


def playground() -> str:
    """The play page of a short training; the tree of its agent, whose shape depends on the training, is left out."""
    config = ReLAXConfig(training="model", steps=2, validate_every=2, episodes=16, hidden=8, start_pool=64)
    made = play.play("trees", spacing=15.0, config=config)
    page, tree = play.render(made), made.tree._repr_html_()
    assert tree in page
    return page.replace(tree, "<div>the tree</div>")


PAGES: dict[str, Callable[[], str]] = {
    "card": card,
    "card_proved": proved_card,
    "card_unsolved": unsolved_card,
    "cards": cards,
    "report": report,
    "what_if": what_if,
    "play": playground,
}


def main() -> int:
    """Write every page."""
    warnings.simplefilter("ignore")
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, make in PAGES.items():
        (FOLDER / f"{name}.html").write_text(normalised(make()), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
