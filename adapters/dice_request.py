"""DiCE's question read: what `generate_counterfactuals` is asked for, in its words, and which of them are set aside."""

import inspect
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from numbers import Real
from typing import Any, Literal

from relax_plugin.errors import InputError, UnknownNameError, did_you_mean

BY_DEVIATION = "inverse_mad"  # DiCE's default feature_weights
ONLY_THE_CLASS = 0.5  # DiCE's default stopping_threshold
EVEN_WEIGHT = 0.2  # DiCE's default of both proximity_weight and sparsity_weight, where it has both


@dataclass(frozen=True)
class Request:
    """What DiCE is asked for, in its own words and with its own defaults; None is a weight that is not given."""

    total_CFs: int
    desired_class: Any = "opposite"
    desired_range: Sequence[float] | None = None
    permitted_range: Mapping[str, Sequence[Any]] | None = None
    features_to_vary: Any = "all"
    stopping_threshold: float = ONLY_THE_CLASS
    posthoc_sparsity_param: float | None = 0.1
    posthoc_sparsity_algorithm: str = "linear"
    verbose: bool = False
    random_seed: int | None = None
    feature_weights: Any = BY_DEVIATION
    proximity_weight: float | None = None
    sparsity_weight: float | None = None

    @property
    def costs(self) -> Mapping[str, float]:
        """The prices of the features that have one of their own."""
        if isinstance(self.feature_weights, Mapping):
            return self.feature_weights
        if self.feature_weights not in (None, BY_DEVIATION):
            raise InputError(f"feature_weights is {self.feature_weights!r}; give {BY_DEVIATION!r}, or name to weight.")
        return {}

    @property
    def vary(self) -> Any:
        """The features that may change; None for all of them."""
        if not isinstance(self.features_to_vary, str):
            return self.features_to_vary
        if self.features_to_vary != "all":
            name = self.features_to_vary
            raise InputError(f"features_to_vary is {name!r}; give 'all' or a list: [{name!r}].")
        return None

    @property
    def min_probability(self) -> float | None:
        """The least probability of the desired class; None if the class is enough."""
        return None if self.stopping_threshold == ONLY_THE_CLASS else self.stopping_threshold

    @property
    def objective(self) -> Literal["sparse", "closest"] | None:
        """What the heavier of the two weights asks for; None if they weigh the same, which is left to the explainer."""
        given = {"proximity_weight": self.proximity_weight, "sparsity_weight": self.sparsity_weight}
        for name, weight in given.items():
            number = isinstance(weight, Real) and not isinstance(weight, bool)
            if weight is not None and not (number and 0 <= weight < float("inf")):
                raise InputError(f"{name} is {weight!r}, but must be a finite number, 0 or more.")
        close, few = (EVEN_WEIGHT if weight is None else float(weight) for weight in given.values())
        return None if close == few else "closest" if close > few else "sparse"


def known_objective(request: Request, known: Sequence[str], method: str) -> Literal["sparse", "closest"] | None:
    """The objective of the request if the explainer knows it; else a warning that its weight is set aside."""
    if request.objective is None or request.objective in known:
        return request.objective
    weighed = "proximity_weight" if request.proximity_weight is not None else "sparsity_weight"
    warnings.warn(
        f"{weighed} is set aside: it asks for the closest answers, and {method} knows only the sparsest.", stacklevel=4
    )
    return None


def check_tuning(given: Mapping[str, Any], own: Mapping[str, Any]) -> None:
    """Warn of options that only DiCE's own methods have; refuse what neither they nor our `own` parameters name."""
    if not given:
        return
    network = import_module("dice_ml.explainer_interfaces.dice_pytorch").DicePyTorch
    decide = import_module("dice_ml.dice").decide
    classes = [network, *(decide(None, method) for method in ("random", "genetic", "kdtree"))]
    methods = [network.generate_counterfactuals, *(one._generate_counterfactuals for one in classes)]
    known = {option for method in methods for option in inspect.signature(method).parameters}
    known -= {"self", "query_instance", "kwargs", *own}
    for name in given:
        if name not in known:
            hint = did_you_mean(name, sorted(known))
            raise UnknownNameError(f"generate_counterfactuals has no option {name!r}; {hint}")
        warnings.warn(f"{name} tunes DiCE's own methods; this explainer does without it.", stacklevel=3)
