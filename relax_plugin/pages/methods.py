"""The page of methods: for each of the registry what it is, its paper, what it supports, a picture, its results.

The pictures show the judge's own rows: every method is run in a worker process on the first queries of the toy.
"""

import inspect
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import pandas as pd
from markupsafe import Markup, escape

from relax_plugin.base import Supports
from relax_plugin.blackbox import BlackBox
from relax_plugin.errors import MissingExtraError, UnknownNameError
from relax_plugin.evaluation import tables
from relax_plugin.evaluation.judge import Method, Unit
from relax_plugin.evaluation.runner import Progress, judged_units
from relax_plugin.evaluation.schema import Number
from relax_plugin.evaluation.tasks import Task
from relax_plugin.evaluation.toy import FAMILIES, MODELS, toy_task
from relax_plugin.formatting import count, hundredths, percents, tenths
from relax_plugin.pages import report
from relax_plugin.pages.drawing import figure_class
from relax_plugin.pages.headline import of_task
from relax_plugin.pages.html import PAGE_COLOURS, inline, template
from relax_plugin.pages.palette import style_of
from relax_plugin.pages.plane import SIZE, Moves, plane
from relax_plugin.pages.report import COST, NOTHING, QUALITY, Cell
from relax_plugin.parameters import about
from relax_plugin.registry import (
    BUILT_IN,
    check_options,
    explainer_class,
    list_explainers,
    make_explainer,
    split_method,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

OF_EVERY_METHOD = ("model", "space", "goal", "seed")  # parameters that are no options
KINDS = {"trees": "random forest", "network": "network", "function": "plain function"}  # of models that are tried
NO_TIER = "none: there is no other's method that it would have to equal"
SECTION = re.compile(r"^\s*(\w[\w ]*)\n\s*-{3,}\s*$", re.MULTILINE)  # of numpydoc: a word, underlined


@dataclass(frozen=True)
class Option:
    """An option, its default as it is written in Python, and what its class says about it."""

    name: str
    default: str
    meaning: str = ""


@dataclass(frozen=True)
class Description:
    """All that can be told about a method without running it."""

    name: str
    what: list[str]  # the first paragraphs of its class's docstring
    more: list[str]  # the docstring of its module, if that says more than a line: where it departs from the paper
    paper: str  # authors, title, venue and address, or whose own the method is
    supports: Supports
    facts: list[tuple[str, str]]  # terms and sentences
    options: list[Option]
    fixed: list[Option]  # those that the name stands for
    models: dict[str, str | None]  # why it does not apply to such a model (the end of a sentence), or None

    @property
    def family(self) -> str | None:
        """Which toy it is shown on: the first whose model it applies to."""
        return next((family for family in FAMILIES if self.models[family] is None), None)

    @property
    def any_model(self) -> bool:
        return not any(self.models.values())


def describe(name: str) -> Description:
    """A method by its name; raises what the registry raises if it cannot be loaded."""
    explainer, preset = explainer_class(name)
    said = _paragraphs(inspect.getdoc(sys.modules[explainer.__module__]) or "")
    parameters = inspect.signature(explainer).parameters
    options = {key: p for key, p in parameters.items() if key not in (*OF_EVERY_METHOD, *preset)}
    paper, home = explainer.supports.paper, explainer.__module__.partition(".")[0]
    return Description(
        name=name,
        what=_paragraphs(inspect.cleandoc(explainer.__doc__ or "")) or ["Its class does not say what it is."],
        more=said if len(said) > 1 else [],
        supports=explainer.supports,
        paper=paper or ("of this package" if name in BUILT_IN else f"none is named; of the package {home}"),
        facts=_facts(explainer),
        options=[Option(key, _default(p), about(explainer, key)) for key, p in options.items()],
        fixed=[Option(key, repr(value), about(explainer, key)) for key, value in preset.items()],
        models=models_of(name),
    )


def models_of(name: str) -> dict[str, str | None]:
    """For each kind of model, why the method does not apply to it, in the words of its own `skip_reason`."""
    reasons: dict[str, str | None] = {}
    for kind, (task, blackbox) in _tried().items():
        try:
            reasons[kind] = make_explainer(name, blackbox.model, task.space).skip_reason(blackbox, task.space)
        except Exception:  # a stranger's; what is wrong will be told when it is run
            reasons[kind] = None
    return reasons


@cache
def _tried() -> dict[str, tuple[Task, BlackBox]]:
    tasks: dict[str, Task] = {family: toy_task(family) for family in FAMILIES}
    made = {}
    for kind in KINDS:
        task = tasks.get(kind, tasks["trees"])
        blackbox = BlackBox(task.model if kind in tasks else _toy_function, task.space)
        blackbox.learn(task.space.values(task.X_train))
        made[kind] = task, blackbox
    return made


def _toy_function(rows: Any) -> Any:
    """A model of which nothing is known but what it answers."""
    return toy_task("trees").model.predict_proba(rows)


def _facts(explainer: Any) -> list[tuple[str, str]]:
    supports = explainer.supports
    answers = {"classification": "classes", "regression": "numbers"}
    return [
        (
            "answers",
            " and ".join(answers.get(task, task) for task in supports.tasks) + f" ({', '.join(supports.tasks)})",
        ),
        ("features", "numbers and categories" if supports.categorical else "numbers only"),
        ("needs", "labels are enough" if supports.labels_only else "scores are needed, labels are not enough"),
        ("extra", f"pip install 'relax-plugin[{supports.extra}]'" if supports.extra else "none"),
        ("tier", f"{supports.tier}: {supports.evidence}" if supports.tier else NO_TIER),
        ("class", f"{explainer.__module__}.{explainer.__qualname__}"),
    ]


def _default(parameter: inspect.Parameter) -> str:
    return "must be given" if parameter.default is inspect.Parameter.empty else repr(parameter.default)


def _paragraphs(text: str) -> list[str]:
    section = SECTION.search(text)
    return [
        " ".join(part.split()) for part in text[: section.start() if section else None].split("\n\n") if part.strip()
    ]


QUERIES = 10  # of the toy, in each picture
LIMIT = 300.0  # seconds a method may take for its picture, on a machine that has other work too
SHOWN = (
    *("validity", "worst class", "L0", "L1", "L0 common", "L1 common"),
    *("training rows", "rows", "fit s", "ms each", "instances", "seeds"),
)
IF_ANY = ("failed", "skipped")
BRIEFLY = {"trees": "trees", "network": "networks", "function": "functions"}
TOY = (
    Number("found", "found", percents, "share of the queries in the picture for which one was found"),
    Number("changes", "features changed", tenths, "of the two, mean over those found"),
    Number("distance", "distance", hundredths, "L1 in standard deviations, mean over those found"),
    Number("rows", "model rows a query", count, "asked for one query, mean; those of fit not included"),
)
NO_MEANING = "Its class does not say."
WEB = re.compile(r"https?://[^\s<>\"')]+")


class Pictures:
    """What the judge found of each method on the toy whose model it applies to, `jobs` methods side by side."""

    def __init__(self, descriptions: Sequence[Description], jobs: int = 2, progress: Progress | None = None) -> None:
        tasks = [(description.name, toy_task(description.family)) for description in descriptions if description.family]
        units = [Unit(task, Method(name, name), seed=0, rows=QUERIES) for name, task in tasks]
        done: dict[str, pd.DataFrame] = {}
        for unit, rows, _ in judged_units(units, limit=LIMIT, jobs=jobs):
            done[unit.method.label] = pd.DataFrame(rows)
            if progress is not None:
                progress(len(done), len(units), unit, rows)
        self.rows = {unit.method.label: done[unit.method.label] for unit in units}  # in the order of the registry

    def moves(self, name: str) -> Moves | None:
        """What is to be drawn; None if the method gave nothing."""
        rows = self.rows.get(name)
        return None if rows is None or rows["state"].iloc[0] != "ok" else Moves.judged(rows)

    def failed(self) -> list[str]:
        """Methods that crashed or took too long."""
        return [name for name, rows in self.rows.items() if rows["state"].iloc[0] in ("crashed", "timed out")]

    def table(self) -> pd.DataFrame:
        """One line for each method that was run: the model, the state, and the numbers of its picture."""
        lines = {}
        for name, rows in self.rows.items():
            moves = self.moves(name)
            numbers = dict.fromkeys((column.key for column in TOY), float("nan")) if moves is None else moves.told()
            lines[name] = {"task": rows["task"].iloc[0], "state": rows["state"].iloc[0], **numbers}
        return pd.DataFrame.from_dict(lines, orient="index").rename_axis("method")

    def why_none(self, description: Description) -> str:
        """A sentence in place of a picture."""
        rows = self.rows.get(description.name)
        if rows is None:
            reasons = dict.fromkeys(description.models[family] or "it was not run" for family in FAMILIES)
            return f"There is no picture, because {'; '.join(reasons)}."
        first = rows.iloc[0]
        what = {"crashed": "The method failed on the toy: ", "timed out": "The method was too slow for a picture: "}
        told = f"{what.get(first['state'], 'The method was ')}{first['reason']}".strip().rstrip(".")
        return f"{told}."


def described(names: Sequence[str]) -> tuple[list[Description], dict[str, str]]:
    """The methods in words; and of those that another package announces but that cannot be loaded, why."""
    made, broken = [], {}
    for name in dict.fromkeys(names):
        if name not in list_explainers():
            check_options(name, [])  # says what is known
        try:
            made.append(describe(name))
        except Exception as error:  # a stranger's, who must not hide all others
            broken[name] = str(error) if isinstance(error, UnknownNameError) else f"{type(error).__name__}: {error}."
    return made, broken


def render(
    descriptions: Sequence[Description],
    pictures: Pictures,
    *,
    results: pd.DataFrame | None = None,
    broken: dict[str, str] | None = None,
) -> str:
    """The page as text; the same methods and rows give the same text."""
    table = pd.DataFrame() if results is None else tables.summary(results)
    wanted = {*SHOWN, *(key for key in IF_ANY if key in table and table[key].any())}
    columns = [column for column in (*QUALITY, *COST) if column.key in wanted]
    sections = [
        {
            "description": description,
            "anchor": f"method-{i}",
            "what": [_with_code(part) for part in description.what],
            "more": [_with_code(part) for part in description.more],
            "paper": _with_links(description.paper),
            "brief": "any" if description.any_model else ", ".join(_explained(description, BRIEFLY)),
            "models": _models(description),
            "options": [
                (option, _with_code(option.meaning or NO_MEANING), option in description.fixed)
                for option in (*description.fixed, *description.options)
            ],
            "toy": _toy_cells(pictures.moves(description.name)),
            "picture": _picture(description, pictures, i),
            "style": _style(description.name),
            "results": [] if results is None else _results(table, columns, description.name),
            "failures": [] if results is None else _failures(results, description.name),
        }
        for i, description in enumerate(descriptions)
    ]
    return template("methods.html.jinja").render(
        title="Counterfactual explainers, method by method",
        sections=sections,
        broken=dict(broken or {}),
        no_pictures=_why_no_pictures(),
        queries=QUERIES,
        picture_size=[72 * inches for inches in SIZE],
        toys=MODELS,
        toy=TOY,
        columns=columns,
        with_results=results is not None,
    )


def _picture(description: Description, pictures: Pictures, number: int) -> dict[str, Any]:
    moves = pictures.moves(description.name)
    if moves is None:
        return {"svg": None, "why": pictures.why_none(description)}
    if _why_no_pictures():
        return {"svg": None, "why": f"There is no picture: {_why_no_pictures()}"}
    assert description.family is not None
    label = f"{description.name} on {MODELS[description.family]}"
    figure = plane(toy_task(description.family), moves, description.name)
    name = f"plane-{number}"
    svg = inline(figure, name, label).replace("<svg ", f'<svg id="{name}" ', 1)
    return {"svg": Markup(svg), "id": name, "part": _inner(figure), "model": MODELS[description.family]}


def _inner(figure: "Figure") -> str:
    """Where the panel lies in the drawing, without title, axes and legend: x, y, width, height in points."""
    (axes,) = figure.axes
    box = axes.get_window_extent().transformed(figure.transFigure.inverted())
    width, height = (72 * inches for inches in figure.get_size_inches())
    return f"{width * box.x0:.1f} {height * (1 - box.y1):.1f} {width * box.width:.1f} {height * box.height:.1f}"


def _style(name: str) -> dict[str, Any]:
    style = style_of(name)
    return {"colour": PAGE_COLOURS[style.colour], "marker": style.marker, "dashes": style.dashes, "filled": True}


def _why_no_pictures() -> str:
    try:
        figure_class()
    except MissingExtraError as error:
        return str(error)
    return ""


def _explained(description: Description, words: dict[str, str]) -> list[str]:
    return [words[kind] for kind, reason in description.models.items() if reason is None]


def _models(description: Description) -> list[str]:
    if description.any_model:
        return ["any"]
    refused: dict[str, list[str]] = {}
    for kind, reason in description.models.items():
        if reason is not None:  # the reason names the model, up to which all are alike
            refused.setdefault(reason.partition(", and the model is")[0], []).append(KINDS[kind])
    explained = _explained(description, KINDS)
    told = [f"{' and '.join(explained)}: yes"] if explained else []
    return [*told, *(f"{', '.join(kinds)}: no, {reason}" for reason, kinds in refused.items())]


def _toy_cells(moves: Moves | None) -> list[Cell]:
    if moves is None:
        return [Cell(NOTHING)] * len(TOY)
    numbers = moves.told()
    return [
        Cell(NOTHING) if pd.isna(numbers[column.key]) else Cell(column.text(numbers[column.key]), numbers[column.key])
        for column in TOY
    ]


def _results(table: pd.DataFrame, columns: Sequence[Number], name: str) -> list[dict[str, Any]]:
    made = []
    for task in dict.fromkeys(table.index.get_level_values("task")):
        for line in report.lines(of_task(table, task), columns):
            method, options = split_method(str(line["method"]))
            if method == name:
                made.append({"task": task, "options": options, **line})
    return made


def _failures(results: pd.DataFrame, name: str) -> list[str]:
    failures = tables.failures(results)
    mine = failures[[split_method(method)[0] == name for method in failures["method"]]]
    groups = mine.groupby(["task", "method", "state", "reason"], sort=False)["seed"]
    return [
        f"{task}, {method}, seed {', '.join(map(str, sorted(seeds)))}: "
        f"{reason if state == 'skipped' else f'{state}: {reason}'}"
        for (task, method, state, reason), seeds in groups
    ]


def _with_code(text: str) -> Markup:
    return Markup(re.sub(r"`+([^`]+)`+", r"<code>\1</code>", str(escape(text))))


def _with_links(text: str) -> Markup:
    parts, last = [], 0
    for match in WEB.finditer(text):
        parts += [escape(text[last : match.start()]), Markup('<a href="{0}" rel="noreferrer">{0}</a>').format(match[0])]
        last = match.end()
    return Markup("").join([*parts, escape(text[last:])])
