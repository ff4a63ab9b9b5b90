"""Fingerprint: whether a model has been fitted again, or grown, since it was looked at."""

from types import FunctionType, ModuleType
from typing import Any

import numpy as np
import pandas as pd

OPAQUE = (type, ModuleType, FunctionType, pd.DataFrame, pd.Series, pd.Index)
COUNTERS = ("num_boosted_rounds", "num_trees")  # of a bare Booster, which grows in place


class Fingerprint:
    """The objects that a model consists of, such as its trees. Numbers changed in place inside arrays go unnoticed."""

    def __init__(self, model: Any) -> None:
        self.known: list[tuple[Any, dict[Any, Any], list[Any]]] = []
        left, seen = [model], set()
        while left:
            one = left.pop()
            members = _members(one)
            if not members or id(one) in seen:
                continue
            seen.add(id(one))
            self.known.append((one, members, _counts(one)))
            left.extend(members.values())

    def altered(self) -> bool:
        return any(_differs(_members(one), members) or _counts(one) != counts for one, members, counts in self.known)


def _members(one: Any) -> dict[Any, Any]:
    """The parts of a container or an object."""
    if isinstance(one, list | tuple):
        return dict(enumerate(one))
    if isinstance(one, np.ndarray):
        return dict(enumerate(one.ravel())) if one.dtype == object else {}
    if isinstance(one, dict):
        return dict(one)
    return {} if isinstance(one, OPAQUE) else dict(getattr(one, "__dict__", {}))


def _counts(one: Any) -> list[Any]:
    return [getattr(one, name)() for name in COUNTERS if type(one).__name__ == "Booster" and hasattr(one, name)]


def _differs(now: dict[Any, Any], then: dict[Any, Any]) -> bool:
    """Whether a part has gone or is another, or a list has grown; an attribute may have been added as a cache."""
    grown = len(now) > len(then) and all(isinstance(key, int) for key in then)
    return grown or any(key not in now or now[key] is not part for key, part in then.items())
