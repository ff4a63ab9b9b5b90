"""The name that explanations of `relax_plugin.adapters.shap` had before version 0.3."""

from relax_plugin.adapters.shap import CounterfactualExplanation, install, uninstall

__all__ = ["CounterfactualExplanation", "install", "uninstall"]
