"""The registry: explainers by name, imported when asked for."""

import inspect
from collections.abc import Iterable, Mapping
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from relax_plugin.errors import UnknownNameError, did_you_mean
from relax_plugin.features import FeatureSpace

if TYPE_CHECKING:
    from relax_plugin.base import CounterfactualExplainer

ENTRY_POINT_GROUP = "relax_plugin.explainers"

# name -> (where the class is, options that make it this method)
BUILT_IN: Mapping[str, tuple[str, Mapping[str, Any]]] = MappingProxyType(
    {
        "relax-global": ("relax_plugin.explainer:ReLAX", {"variant": "global"}),
        "relax-local": ("relax_plugin.explainer:ReLAX", {"variant": "local"}),
        "nearest-ct": ("relax_plugin.baselines.nearest_ct:NearestCT", {}),
        "greedy": ("relax_plugin.baselines.greedy:Greedy", {}),
        "move-table": ("relax_plugin.baselines.move_table:MoveTable", {}),
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
    }
)


def list_explainers() -> list[str]:
    """Names of all explainers: the built-in ones, then those other packages add by entry points."""
    return [*BUILT_IN, *sorted(set(_entry_points()) - set(BUILT_IN))]


def explainer_class(name: str) -> tuple[type["CounterfactualExplainer"], dict[str, Any]]:
    """The class behind a name, and the options that come with it."""
    if name in BUILT_IN:
        where, options = BUILT_IN[name]
        module, attribute = where.split(":")
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
    raise UnknownNameError(f"there is no explainer {name!r}; {did_you_mean(name, list_explainers())}")


def make_explainer(
    name: str, model: Any, space: FeatureSpace | None = None, **options: Any
) -> "CounterfactualExplainer":
    """An explainer by name, with its options; an unknown option is an error."""
    check_options(name, options)
    explainer, preset = explainer_class(name)
    return explainer(model, space, **preset, **options)


def check_options(name: str, options: Iterable[str]) -> None:
    """Refuse options that the explainer of that name does not have."""
    explainer, preset = explainer_class(name)
    known = [p for p in inspect.signature(explainer).parameters if p not in ("model", "space", *preset)]
    for option in options:
        if option not in known:
            raise UnknownNameError(f"{name!r} has no option {option!r}; {did_you_mean(option, known)}")


def _entry_points() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=ENTRY_POINT_GROUP)}
