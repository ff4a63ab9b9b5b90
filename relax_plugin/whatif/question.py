"""The question: what the browser sends, read into a row and the arguments of `explain`, or refused in a sentence."""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from relax_plugin.errors import GoalError, InputError, UnknownNameError
from relax_plugin.goal import Goal
from relax_plugin.whatif.form import Form, brief, distinct_texts, finite, hint, plain_text

MOST_ALTERNATIVES = 10  # on one page; more are no reading
PLAUSIBLE = {"no": False, "prefer": "prefer", "require": "require"}
SHIFTS: dict[str, Literal["up", "down", "either"]] = {"up": "up", "down": "down", "either": "either"}
DIRECTIONS = {"up": "increase_only", "down": "decrease_only"}

KEYS = ("row", "cells", "features", "goal", "n", "max_changes", "plausible", "tab", "keep")
GOAL_KEYS = {
    "flip": ("min_probability",),
    "to": ("label", "min_probability"),
    "shift": ("delta", "direction"),
    "between": ("low", "high"),
}
LIMIT_KEYS = ("locked", "low", "high", "categories", "direction")


@dataclass(frozen=True)
class Question:
    """A row by its position, values in the place of its own, and arguments of `explain`."""

    row: int
    values: Mapping[int, float] = field(default_factory=dict)  # edited by hand, by feature
    arguments: Mapping[str, Any] = field(default_factory=dict)  # of `explain`, those that say something
    tab: str = ""  # which page asks; its history is its own
    keep: bool = True  # whether it belongs into the history


def read_question(sent: Any, form: Form, rows: int, classes: Iterable[Any] | None, features: int) -> Question:
    """What a browser sent as a question about one of `rows` rows, of which at most `features` features may change."""
    sent = _mapping(sent, "the question")
    _refuse_unknown("the question", sent, KEYS)
    cells = _mapping(sent.get("cells", {}), "cells")
    values = dict(form.value(name, cell) for name, cell in cells.items())
    arguments: dict[str, Any] = {}
    if sent.get("goal") is not None:
        arguments["goal"] = read_goal(sent["goal"], classes)
    arguments["n"] = _whole(sent.get("n", 1), "n", 1, MOST_ALTERNATIVES)
    arguments |= _limits(_mapping(sent.get("features", {}), "features"), form)
    if sent.get("max_changes") is not None:
        arguments["max_changes"] = _whole(sent["max_changes"], "max_changes", 1, features)
    plausible = sent.get("plausible", "no")
    if not isinstance(plausible, str) or plausible not in PLAUSIBLE:
        raise UnknownNameError(f"plausible is {brief(plausible)}; {hint(plausible, PLAUSIBLE)}")
    arguments["plausible"] = PLAUSIBLE[plausible]
    keep = _truth(sent.get("keep", True), "keep")
    return Question(read_row(sent.get("row"), rows), values, arguments, read_tab(sent.get("tab", "")), keep)


def read_row(sent: Any, rows: int) -> int:
    """The position of a row."""
    if isinstance(sent, bool) or not isinstance(sent, int) or not 0 <= sent < rows:
        raise InputError(f"there is no row {brief(sent)}; there are 0 to {rows - 1}.")
    return sent


def read_tab(sent: Any) -> str:
    """The name that a page gave itself."""
    if not isinstance(sent, str) or len(sent) > 40 or not (sent == "" or sent.isalnum()):
        raise InputError(f"tab is {brief(sent)}; at most 40 letters and digits are needed.")
    return sent


def read_goal(sent: Any, classes: Iterable[Any] | None) -> Goal:
    """What is wanted of the answer, refused if it is for the other kind of model."""
    sent = _mapping(sent, "the goal")
    kinds = ("shift", "between") if classes is None else ("flip", "to")
    kind = sent.get("kind")
    if not isinstance(kind, str) or kind not in kinds:
        raise GoalError(f"the goal is of kind {brief(kind)}; {hint(kind, kinds)}")
    _refuse_unknown("the goal", sent, ("kind", *GOAL_KEYS[kind]))
    numbers = {
        name: finite(sent[name], f"{name} of the goal")
        for name in ("min_probability", "delta", "low", "high")
        if sent.get(name) is not None
    }
    if kind == "flip":
        return Goal.flip(min_probability=numbers.get("min_probability"))
    if kind == "to":
        label = _label(sent.get("label"), list(classes or ()))
        return Goal.to(label, min_probability=numbers.get("min_probability"))
    if kind == "between":
        return Goal.between(numbers.get("low"), numbers.get("high"))
    if "delta" not in numbers:
        raise GoalError("a shift needs a delta: how far away the answer has to be.")
    direction = sent.get("direction", "either")
    if not isinstance(direction, str) or direction not in SHIFTS:
        raise GoalError(f"the direction of the goal is {brief(direction)}; {hint(direction, SHIFTS)}")
    return Goal.shift(numbers["delta"], direction=SHIFTS[direction])


def _label(sent: Any, classes: list[Any]) -> Any:
    known = dict(zip(distinct_texts(classes), classes, strict=True))
    text = plain_text(sent)
    if text is None or text not in known:
        raise GoalError(f"the model has no class {brief(sent)}; {hint(text, known)}")
    return known[text]


def _limits(sent: Mapping[str, Any], form: Form) -> dict[str, Any]:
    named: dict[str, list[Hashable]] = {"immutable": [], "increase_only": [], "decrease_only": []}
    bounds: dict[Hashable, Any] = {}
    for text, said in sent.items():
        j = form.place(text, "what may change")
        feature, what = form.space.features[j], f"the limit of feature {text!r}"
        said = _mapping(said, what)
        _refuse_unknown(what, said, LIMIT_KEYS)
        if _truth(said.get("locked", False), f"locked of feature {text!r}") or feature.carried:
            named["immutable"].append(feature.name)
            continue
        direction = said.get("direction")
        if direction is not None:
            if not isinstance(direction, str) or direction not in DIRECTIONS:
                accepted = hint(direction, DIRECTIONS)
                raise InputError(f"the direction of feature {text!r} is {brief(direction)}; {accepted}")
            named[DIRECTIONS[direction]].append(feature.name)
        bound = _bound(text, said, j, form)
        if bound is not None:
            bounds[feature.name] = bound
    told: dict[str, Any] = {argument: names for argument, names in named.items() if names}
    return told | ({"bounds": bounds} if bounds else {})


def _bound(text: str, said: Mapping[str, Any], j: int, form: Form) -> Any:
    feature = form.space.features[j]
    wrong = ("low", "high") if feature.kind == "categorical" else ("categories",)
    for name in wrong:
        if said.get(name) is not None:
            needed = "categories" if feature.kind == "categorical" else "low and high"
            raise InputError(f"feature {text!r} has no {name} to limit; say {needed}.")
    if feature.kind == "categorical":
        chosen = said.get("categories")
        if chosen is None:
            return None
        if chosen == []:
            raise InputError(f"feature {text!r} may become none of its categories; name some, or lock it.")
        if not isinstance(chosen, list):
            raise InputError(f"the categories of feature {text!r} are {brief(chosen)}; give a list of some.")
        return list(dict.fromkeys(feature.categories[int(form.category(j, one))] for one in chosen))
    ends = tuple(None if said.get(end) is None else finite(said[end], f"{end} of {text!r}") for end in ("low", "high"))
    return None if ends == (None, None) else ends


def _mapping(sent: Any, what: str) -> Mapping[str, Any]:
    if not isinstance(sent, Mapping):
        raise InputError(f"{what} is {brief(sent)}; a mapping is needed.")
    return sent


def _refuse_unknown(what: str, sent: Mapping[str, Any], known: Iterable[str]) -> None:
    for key in sent:
        if key not in known:
            raise UnknownNameError(f"{what} has {brief(key)}; {hint(key, known)}")


def _whole(sent: Any, what: str, least: int, most: int) -> int:
    if isinstance(sent, bool) or not isinstance(sent, int) or not least <= sent <= most:
        raise InputError(f"{what} is {brief(sent)}; a whole number from {least} to {most} is needed.")
    return sent


def _truth(sent: Any, what: str) -> bool:
    if not isinstance(sent, bool):
        raise InputError(f"{what} is {brief(sent)}; true or false is needed.")
    return sent
