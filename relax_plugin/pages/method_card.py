"""A method of the registry in words, read off its class: what it is, its paper, what it supports, and its options."""

import inspect
import re
import sys
from dataclasses import dataclass
from functools import cache
from typing import Any

from relax_plugin.base import Supports
from relax_plugin.blackbox import BlackBox
from relax_plugin.evaluation.tasks import Task
from relax_plugin.evaluation.toy import FAMILIES, toy_task
from relax_plugin.parameters import about
from relax_plugin.registry import BUILT_IN, explainer_class, make_explainer

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
