"""Every explainer of the registry, as the cases of a test."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from relax_plugin import list_explainers
from relax_plugin.errors import UnsupportedError

# Those that answer in hundredths of a second: on them `make quick` tries what holds for every explainer.
QUICK = ("deepfool", "feat-tweak", "greedy", "move-table", "nearest-ct")

# Those that look inside the model, and of which kind it must be.
ON_TREES = ("feat-tweak", "focus", "mace", "treecf")
ON_NETWORKS = ("deepfool", "grace", "wachter")

every_explainer = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in list_explainers()]
)


@contextmanager
def skipped_with_a_reason() -> Iterator[None]:
    """Skip the test if the explainer says why it does not apply; whatever else it raises is a failure."""
    try:
        yield
    except UnsupportedError as error:
        if not str(error).startswith("skipped because"):
            raise
        pytest.skip(str(error))
