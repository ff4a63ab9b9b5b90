"""Pipelines in front of trees: which column of the model's rows each column that the trees test is made of.

Whatever a step computes, it is enough here that it computes column by column. What a category becomes is seen by
letting all of them through; what a number becomes must rise with it, so that a threshold behind the pipeline is one in
front of it. `over_values.py` finds these.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.feature_selection import SelectorMixin
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    RobustScaler,
    StandardScaler,
)

from relax_plugin.arrays import Floats
from relax_plugin.trees.reading import Reading, Source, Unreadable, refuse_altered

RISING = (StandardScaler, MinMaxScaler, MaxAbsScaler, RobustScaler)  # column by column, never falling
SEEN_THROUGH = "scalers, one-hot and ordinal encoders, simple imputers and selections of columns"


def behind(pipeline: Pipeline, reading: Reading) -> Reading:
    """The reading of a pipeline's last step, as one of the rows that the pipeline is given."""
    steps = [step for _, step in pipeline.steps[:-1] if not _is_idle(step)]
    if not steps:
        return reading
    first = steps[0]
    count = getattr(first, "n_features_in_", None)
    if count is None:
        raise Unreadable(
            f"it needs a fitted pipeline, and its {type(first).__name__} does not say how wide its rows are"
        )
    sources = [Source(column) for column in range(count)]
    for step in steps:
        sources = _through(step, sources)
    if len(sources) < reading.trees.features:
        raise Unreadable(
            f"it cannot tell the columns of the pipeline: {len(sources)} are known, and the trees test "
            f"{reading.trees.features}"
        )
    front = pipeline[:-1]

    def matrix(rows: Any) -> Floats:
        with np.errstate(over="ignore", invalid="ignore"):
            made = front.transform(rows)
        if reading.gaps_of_sparse and hasattr(made, "toarray"):
            return _with_gaps(made)
        return reading.matrix(made)

    joined = [_joined(sources[source.column], source) for source in reading.sources]
    return replace(reading, sources=tuple(joined), matrix=matrix, plain=False)


def _is_idle(step: Any) -> bool:
    return step is None or (isinstance(step, str) and step == "passthrough")


def _joined(before: Source, after: Source) -> Source:
    return replace(before, apart=before.apart or after.apart)


def _with_gaps(sparse: Any) -> Floats:
    """A sparse matrix as XGBoost takes it: what is not stored is missing."""
    held = sparse.tocoo()
    made = np.full(held.shape, np.nan)
    made[held.row, held.col] = held.data
    return made


def _through(step: Any, sources: Sequence[Source]) -> list[Source]:
    if _is_idle(step):
        return list(sources)
    if isinstance(step, str) and step == "drop":
        return []
    kind, name = type(step), type(step).__name__
    refuse_altered(step)
    if kind is Pipeline:
        for _, inner in step.steps:
            sources = _through(inner, sources)
        return list(sources)
    if kind is ColumnTransformer:
        return _through_columns(step, sources)
    if kind is FeatureUnion:
        return [made for _, inner in step.transformer_list for made in _through(inner, sources)]
    if kind in RISING or (kind is FunctionTransformer and step.func is None):
        return list(sources)
    if isinstance(step, SelectorMixin):
        return [sources[int(place)] for place in np.flatnonzero(step.get_support())]
    if kind is SimpleImputer:
        own = [_apart(source, step) for source in sources]
        kept = [source for source, value in zip(own, step.statistics_, strict=True) if not pd.isna(value)]
        kept = own if getattr(step, "keep_empty_features", False) else kept
        return [*kept, *(_through(step.indicator_, own) if step.add_indicator else [])]
    if kind is MissingIndicator:
        return [_apart(sources[place], step) for place in step.features_]
    if kind is OneHotEncoder:
        return [
            replace(source, apart=name)
            for source, count in zip(sources, _widths(step), strict=True)
            for _ in range(count)
        ]
    if kind is OrdinalEncoder:
        return [replace(source, apart=name) for source in sources]
    raise Unreadable(f"it sees through {SEEN_THROUGH}, and the pipeline has a {name}")


def _through_columns(step: ColumnTransformer, sources: Sequence[Source]) -> list[Source]:
    width = max((part.stop for part in step.output_indices_.values()), default=0)
    made: list[Source | None] = [None] * width
    for name, transformer, _ in step.transformers_:
        part = step.output_indices_.get(name, slice(0, 0))
        own = _through(transformer, [sources[place] for place in step._transformer_to_input_indices[name]])
        if len(own) != part.stop - part.start:
            raise Unreadable(f"it cannot tell which columns the part {name!r} of the ColumnTransformer makes")
        made[part] = own
    return [source for source in made if source is not None]


def _apart(source: Source, step: Any) -> Source:
    """An imputer of NaN leaves numbers as they are; one of a number puts another in the place of this one."""
    gap = step.missing_values
    return source if gap is None or pd.isna(gap) else replace(source, apart=type(step).__name__)


def _widths(step: OneHotEncoder) -> list[int]:
    rare = getattr(step, "infrequent_categories_", None) if step._infrequent_enabled else None
    counts = []
    for place, categories in enumerate(step.categories_):
        count = len(categories)
        if rare is not None and rare[place] is not None:
            count -= len(rare[place]) - 1
        dropped = step.drop_idx_ is not None and step.drop_idx_[place] is not None
        counts.append(count - dropped)
    return counts
