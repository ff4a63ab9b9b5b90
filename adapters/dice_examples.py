"""DiCE's answer written: the examples of each query, cut from one table of all when they are first looked at."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from dice_ml.diverse_counterfactuals import CounterfactualExamples

from relax_plugin.arrays import Array


@dataclass(frozen=True)
class Tables:
    """All queries and all that was found, in DiCE's columns, from which the tables of each query are cut."""

    queries: pd.DataFrame
    found: pd.DataFrame
    ends: Array  # query q has the rows from ends[q] to ends[q + 1] of those found

    @classmethod
    def of(cls, queries: pd.DataFrame, found: pd.DataFrame, interface: Any) -> "Tables":
        columns = [*interface.feature_names, interface.outcome_name]
        ends = np.searchsorted(found["query_id"], np.arange(len(queries) + 1))
        # Every table has an index of its own, from 0 on, so that cutting it out is all there is to do.
        numbered = found[columns].set_axis(pd.Index(found.groupby("query_id").cumcount()))
        return cls(queries[columns].set_axis(np.zeros(len(queries), dtype=int)), numbered, ends)

    def cut(self, query: int) -> tuple[pd.DataFrame, pd.DataFrame | None]:
        """A query, and what was found for it."""
        first, end = self.ends[query : query + 2]
        return self.queries.iloc[query : query + 1], self.found.iloc[first:end] if end > first else None


class LaterExamples(CounterfactualExamples):  # type: ignore[misc]
    """DiCE's examples of one query, made when first looked at: a thousand small tables cost more than the search."""

    def __init__(self, *parts: Any) -> None:
        self._parts = parts

    def __getattr__(self, name: str) -> Any:
        if "_parts" not in self.__dict__:
            raise AttributeError(name)
        interface, tables, query, told = self.__dict__.pop("_parts")
        changed = self.__dict__.copy()
        asked, found = tables.cut(query)
        super().__init__(interface, found, asked, None if found is None else found.copy(), **told)
        self.__dict__.update(changed)
        return getattr(self, name)
