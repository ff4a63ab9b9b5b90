"""Every explainer of the registry, as the cases of a test."""

import pytest

from relax_plugin import list_explainers

# Those that answer in hundredths of a second: on them `make quick` tries what holds for every explainer.
QUICK = ("deepfool", "feat-tweak", "greedy", "move-table", "nearest-ct")

every_explainer = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in list_explainers()]
)
