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
from relax_plugin.registry import BUILT_IN, explainer_class, make_explainer

OF_EVERY_METHOD = ("model", "space", "goal", "seed")  # parameters that are no options
KINDS = {"trees": "random forest", "network": "network", "function": "plain function"}  # of models that are tried
NO_TIER = "none: there is no other's method that it would have to equal"
SECTION = re.compile(r"^\s*(\w[\w ]*)\n\s*-{3,}\s*$", re.MULTILINE)  # of numpydoc: a word, underlined
ENTRY = re.compile(r"^(\w+(?:, \w+)*)(?: : .*)?$")  # "name : type", or several names


@dataclass(frozen=True)
class Option:
    """An option, its default as it is written in Python, and what its class says about it."""

    name: str
    default: str
    meaning: str = ""


@dataclass(frozen=True)
class Description:
    """All that can be told about a method without running it.

    Parameters
    ----------
    name : str
        In the registry.
    what : list of str
        The first paragraphs of its class's docstring.
    more : list of str
        The docstring of its module, if that says more than a line: where it departs from the paper.
    paper : str
        Authors, title, venue and address, or whose own the method is.
    supports : Supports
    facts : list of (term, sentence)
    options, fixed : list of Option
        Those that may be given, and those that the name stands for.
    models : mapping of kind of model to str or None
        Why the method does not apply to such a model (the end of a sentence); None if it does.
    """

    name: str
    what: list[str]
    more: list[str]
    paper: str
    supports: Supports
    facts: list[tuple[str, str]]
    options: list[Option]
    fixed: list[Option]
    models: dict[str, str | None]

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
        options=[Option(key, _default(p), meaning(explainer, key)) for key, p in options.items()],
        fixed=[Option(key, repr(value), meaning(explainer, key)) for key, value in preset.items()],
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


def meaning(explainer: Any, option: str) -> str:
    """What the classes of an explainer say about an option, its own class first.

    An entry for several parameters counts where it names the option, and is added to what a base says.
    """
    added = ""
    for base in inspect.getmro(explainer) if inspect.isclass(explainer) else ():
        for names, text in _entries(inspect.cleandoc(base.__doc__ or "")):
            text = " ".join(re.sub(r"As for every \w+[.;]", "", text).split())
            if names == [option] and text:
                return f"{text} {added}".strip()
            if option in names and f"`{option}`" in text:
                added = added or text
    return added


@cache
def _tried() -> dict[str, tuple[Task, BlackBox]]:
    """A model of each kind over the toy, as an explainer sees it when it is fitted."""
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
    """The paragraphs before the first section of a docstring, each as one line."""
    section = SECTION.search(text)
    return [
        " ".join(part.split()) for part in text[: section.start() if section else None].split("\n\n") if part.strip()
    ]


def _entries(text: str) -> list[tuple[list[str], str]]:
    """The parameters of a docstring: names, and what is said about them."""
    sections = list(SECTION.finditer(text))
    for i, section in enumerate(sections):
        if section[1] == "Parameters":
            end = sections[i + 1].start() if i + 1 < len(sections) else None
            return _split(text[section.end() : end].splitlines())
    return []


def _split(lines: list[str]) -> list[tuple[list[str], str]]:
    entries: list[tuple[list[str], str]] = []
    for line in lines:
        if match := ENTRY.match(line):  # not indented
            entries.append((match[1].split(", "), ""))
        elif entries:
            names, text = entries[-1]
            entries[-1] = names, f"{text} {line.strip()}"
    return entries
