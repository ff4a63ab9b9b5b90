"""Labels: words for people, of features and of their categories, in the place of names and codes."""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import pandas as pd

from relax_plugin.errors import ConstraintError, UnknownNameError, did_you_mean
from relax_plugin.table.columns import Feature

Labels = Mapping[Any, Any]
Words = dict[Hashable, tuple[str | None, dict[Any, str]]]  # of a feature: words for itself, and for its categories


def read_labels(said: Any, features: Sequence[Feature], derived: Sequence[Hashable]) -> Words:
    """The labels that the user gives, each as words for the feature and words for its categories."""
    if not isinstance(said, Mapping):
        raise ConstraintError(
            f"labels is {said!r}; give a mapping of a feature to words for it, or for its categories."
        )
    known: dict[Hashable, Feature | None] = {f.name: f for f in features} | dict.fromkeys(derived)
    words: Words = {}
    for name, given in said.items():
        if name not in known:
            raise UnknownNameError(f"labels names feature {name!r}; {did_you_mean(name, known)}")
        pair = given if isinstance(given, tuple | list) and len(given) == 2 else None
        own, categories = pair if pair is not None else (None, given) if isinstance(given, Mapping) else (given, {})
        if not (own is None or isinstance(own, str)) or not isinstance(categories, Mapping):
            raise ConstraintError(
                f"the label of feature {name!r} is {given!r}; give a text, a mapping of categories to texts, or both."
            )
        feature = known[name]
        # A list of codes may know more than these rows; but where one of these has no words, the other may be misspelt.
        complete = feature is not None and set(categories) >= {one for one in feature.categories if not pd.isna(one)}
        for category, text in categories.items():
            if feature is None or not ((complete and feature.categories) or category in feature.categories):
                hint = did_you_mean(category, () if feature is None else feature.categories)
                raise UnknownNameError(f"labels names category {category!r} of feature {name!r}; {hint}")
            if not isinstance(text, str):
                raise ConstraintError(f"the label of category {category!r} of {name!r} is {text!r}; give a text.")
        words[name] = own, dict(categories)
    return words


def labels_to_dict(words: Words) -> list[Any]:
    """The labels as JSON-ready data; categories may be numbers, which keys of JSON may not."""
    return [[name, own, list(map(list, categories.items()))] for name, (own, categories) in words.items()]


def labels_from_dict(data: Any) -> dict[Any, Any]:
    """What `labels_to_dict` wrote."""
    return {name: (own, dict(pairs)) for name, own, pairs in data}
