"""The registry: explainers by name, imported when asked for.

A method is written as its name, or as its name with options: `relax-global:effort=policy,max_queries=120`. What
an option itself is made of is written behind a dot: `relax-global:config.training=model`.
"""

import ast
import inspect
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, get_args

from relax_plugin.errors import InputError, UnknownNameError, did_you_mean, naming_the_extra

if TYPE_CHECKING:
    from relax_plugin.base import CounterfactualExplainer
    from relax_plugin.features import FeatureSpace

ENTRY_POINT_GROUP = "relax_plugin.explainers"

# name -> (where the class is, options that make it this method)
BUILT_IN: Mapping[str, tuple[str, Mapping[str, Any]]] = MappingProxyType(
    {
        "relax-global": ("relax_plugin.agent.explainer:ReLAX", {"variant": "global"}),
        "relax-local": ("relax_plugin.agent.explainer:ReLAX", {"variant": "local"}),
        "search": ("relax_plugin.search.explainer:CounterfactualSearch", {}),
        "nearest-ct": ("relax_plugin.baselines.nearest_ct:NearestCT", {}),
        "greedy": ("relax_plugin.baselines.greedy:Greedy", {}),
        "move-table": ("relax_plugin.baselines.move_table:MoveTable", {}),
        "random-order": ("relax_plugin.baselines.random_order:RandomOrder", {}),
        "lore": ("relax_plugin.baselines.lore:Lore", {}),
        "feat-tweak": ("relax_plugin.baselines.feat_tweak:FeatTweak", {}),
        "focus": ("relax_plugin.baselines.focus:Focus", {}),
        "surrogate-search": ("relax_plugin.baselines.surrogate_search:SurrogateSearch", {}),
        "dice-random": ("relax_plugin.baselines.dice:DiceRandom", {}),
        "dice-genetic": ("relax_plugin.baselines.dice:DiceGenetic", {}),
        "dice-kdtree": ("relax_plugin.baselines.dice:DiceKDTree", {}),
        "deepfool": ("relax_plugin.baselines.deepfool:DeepFool", {}),
        "grace": ("relax_plugin.baselines.grace:Grace", {}),
        "mace": ("relax_plugin.baselines.mace:Mace", {}),
        "nice": ("relax_plugin.baselines.nice:Nice", {}),
        "cfrl": ("relax_plugin.baselines.cfrl:CFRL", {}),
        "fastar": ("relax_plugin.baselines.fastar:FastAR", {}),
        "treecf": ("relax_plugin.baselines.treecf:TreeCF", {}),
        "face": ("relax_plugin.baselines.face:Face", {}),
        "wachter": ("relax_plugin.baselines.wachter:Wachter", {}),
        "growing-spheres": ("relax_plugin.baselines.growing_spheres:GrowingSpheres", {}),
    }
)
OF_RELAX = ("relax-global", "relax-local")
OUTDATED = ("rows_per_instance", "fallback", "rescue_rows")  # options of ReLAX that still work, with a warning
ALIASES: Mapping[str, str] = MappingProxyType({"relax": "relax-global"})  # other names, which `list` does not show


def full_name(method: str) -> str:
    """A method, with or without options, by the name that `list_explainers` has for it: `relax` is `relax-global`."""
    name, colon, options = method.partition(":")
    return f"{ALIASES.get(name, name)}{colon}{options}"


def list_explainers() -> list[str]:
    """Names of all explainers: the built-in ones, then those other packages add by entry points."""
    return [*BUILT_IN, *sorted(set(_entry_points()) - set(BUILT_IN))]


def explainer_class(name: str) -> tuple[type["CounterfactualExplainer"], dict[str, Any]]:
    """The class behind a name, and the options that come with it."""
    name = full_name(name)
    if name in BUILT_IN:
        where, options = BUILT_IN[name]
        module, attribute = where.split(":")
        with naming_the_extra():
            return getattr(import_module(module), attribute), dict(options)
    others = _entry_points()
    if name in others:
        where = f"the explainer {name!r} of another package ({others[name].value})"
        try:
            explainer: Any = others[name].load()
        except Exception as error:  # whatever a stranger's module does when it is imported
            raise UnknownNameError(f"{where} cannot be loaded: {type(error).__name__} {error}.") from error
        if not callable(explainer) or not hasattr(explainer, "supports"):
            raise UnknownNameError(f"{where} is no subclass of CounterfactualExplainer.")
        return explainer, {}
    raise _unknown(name)


def name_of(explainer: "CounterfactualExplainer") -> str:
    """The registry's name of an explainer; that of its class, if it has none."""
    own = f"{type(explainer).__module__}:{type(explainer).__qualname__}"
    for name, (where, preset) in BUILT_IN.items():
        if where == own and all(getattr(explainer, option) == value for option, value in preset.items()):
            return name
    return type(explainer).__name__


def make_explainer(
    name: str, model: Any, space: "FeatureSpace | None" = None, **options: Any
) -> "CounterfactualExplainer":
    """An explainer by name, with its options; an unknown option is an error."""
    check_options(name, options)
    explainer, preset = explainer_class(name)
    return explainer(model, space, **preset, **_gathered(explainer, options))


def split_method(text: str) -> tuple[str, str]:
    """The name and the options of a method, both as they are written; there may be no options."""
    name, _, options = full_name(text).partition(":")
    return name, options


def read_method(text: str) -> tuple[str, dict[str, Any]]:
    """The name and the options of a method such as `relax-global:effort=policy,max_queries=120`.

    Raises
    ------
    InputError
        If what follows the name is not written as options; whether there are such options is not looked at.
    """
    name, tail = split_method(text)
    options = {}
    for part in tail.split(",") if tail else ():
        option, equals, value = part.partition("=")
        if not option or not equals:
            raise InputError(f"method {text!r} has the option {part!r}; write name:option=value,option=value.")
        options[option] = _literal(value)
    return name, options


def with_option(text: str, option: str, value: Any) -> str:
    """A method with one option more."""
    return f"{text}{',' if split_method(text)[1] else ':'}{option}={value}"


def without_option(text: str, option: str) -> str:
    """A method without an option, whatever its value."""
    name, tail = split_method(text)
    left = [part for part in tail.split(",") if part and not part.startswith(f"{option}=")]
    return f"{name}:{','.join(left)}" if left else name


def check_name(name: str) -> None:
    """Refuse a name that is not in the registry; nothing is imported."""
    if full_name(name) not in BUILT_IN and name not in _entry_points():
        raise _unknown(name)


def check_options(name: str, options: Iterable[str]) -> None:
    """Refuse options that the explainer of that name does not have."""
    for option in options:
        known = option_names(name)  # which imports the class
        whole, dot, part = option.partition(".")
        if whole not in known and not (whole in OUTDATED and full_name(name) in OF_RELAX):
            raise UnknownNameError(f"{name!r} has no option {whole!r}; {did_you_mean(whole, known)}")
        if dot:
            parts = [field.name for field in fields(_made_of(explainer_class(name)[0], whole))]
            if part not in parts:
                raise UnknownNameError(f"{whole!r} of {name!r} has no {part!r}; {did_you_mean(part, parts)}")


def option_names(name: str) -> list[str]:
    """The options of an explainer: its parameters but for the model, the space, and what its name stands for."""
    explainer, preset = explainer_class(name)
    return [option for option in inspect.signature(explainer).parameters if option not in ("model", "space", *preset)]


def _gathered(explainer: Any, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options with those that are written behind a dot put together: `config.steps` becomes a `config`."""
    whole = {option: value for option, value in options.items() if "." not in option}
    parts: dict[str, dict[str, Any]] = {}
    for option in options.keys() - whole.keys():
        name, _, part = option.partition(".")
        if name in whole:
            raise InputError(f"the options {name!r} and {option!r} are both given; give one of them.")
        parts.setdefault(name, {})[part] = options[option]
    return whole | {name: _made_of(explainer, name)(**given) for name, given in parts.items()}


def _made_of(explainer: Any, option: str) -> Any:
    """The dataclass that an option takes, such as ReLAXConfig for `config`."""
    accepted = get_args(inspect.signature(explainer).parameters[option].annotation)
    for kind in accepted:
        if is_dataclass(kind):
            return kind
    raise UnknownNameError(f"the option {option!r} has no parts; write {option}=value.")


def _literal(text: str) -> Any:
    """A number, True, None and the like as what they are; whatever else as text."""
    try:
        return ast.literal_eval(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # the last two: brackets without end
        return text


def _unknown(name: str) -> UnknownNameError:
    return UnknownNameError(f"there is no explainer {name!r}; {did_you_mean(name, list_explainers())}")


def _entry_points() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=ENTRY_POINT_GROUP)}
