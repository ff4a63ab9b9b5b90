"""Counterfactual explanations of any tabular model by deep reinforcement learning (ReLAX)."""

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from relax_plugin.agent.config import ReLAXConfig
    from relax_plugin.agent.explainer import ReLAX
    from relax_plugin.base import CounterfactualExplainer, list_explainers, make_explainer
    from relax_plugin.blackbox import BlackBox
    from relax_plugin.features import FeatureSpace
    from relax_plugin.goal import Goal
    from relax_plugin.plausibility import Plausibility
    from relax_plugin.results import Counterfactuals
    from relax_plugin.rules import Rule, suggest_rules
    from relax_plugin.search.explainer import CounterfactualSearch

__version__ = "0.2.0"

__all__ = [
    "BlackBox",
    "CounterfactualExplainer",
    "CounterfactualSearch",
    "Counterfactuals",
    "FeatureSpace",
    "Goal",
    "Plausibility",
    "ReLAX",
    "ReLAXConfig",
    "Rule",
    "__version__",
    "list_explainers",
    "make_explainer",
    "suggest_rules",
]

# Loaded when first asked for, so that `import relax_plugin` does not import torch.
_MODULE_OF = {
    "BlackBox": "relax_plugin.blackbox",
    "CounterfactualExplainer": "relax_plugin.base",
    "CounterfactualSearch": "relax_plugin.search.explainer",
    "Counterfactuals": "relax_plugin.results",
    "FeatureSpace": "relax_plugin.features",
    "Goal": "relax_plugin.goal",
    "Plausibility": "relax_plugin.plausibility",
    "ReLAX": "relax_plugin.agent.explainer",
    "ReLAXConfig": "relax_plugin.agent.config",
    "Rule": "relax_plugin.rules",
    "list_explainers": "relax_plugin.base",
    "make_explainer": "relax_plugin.base",
    "suggest_rules": "relax_plugin.rules",
}


def __getattr__(name: str) -> object:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from relax_plugin.errors import naming_the_extra

    with naming_the_extra():
        value = getattr(import_module(_MODULE_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


# In a checkout, adapters/ and baselines/ lie beside this folder: let them be found without an install.
_root = Path(__file__).resolve().parent.parent
if (_root / "pyproject.toml").is_file():
    __path__.append(str(_root))
