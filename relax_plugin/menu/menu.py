"""Menu: what every set of a row's features can do, as a table, sentences and a picture."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from relax_plugin.arrays import Booleans, Integers
from relax_plugin.cached import cached_property
from relax_plugin.formatting import feature_label, format_labelled, printable
from relax_plugin.results import Counterfactuals

if TYPE_CHECKING:
    from matplotlib.figure import Figure

IMPOSSIBLE = "impossible (proved)"
MOST_TOLD = 5  # answers that sentences name


@dataclass(frozen=True)
class Menu:
    """Every set of features of one row, and the best answer that changes some or all of them and nothing else.

    Attributes
    ----------
    result : Counterfactuals
        The answers, a query for each set.
    sets : sequence of tuples of positions of features
    found : bool array (sets,)
    possible : bool array (sets,)
        False where it is proved that no answer changes only features of this set.
    closest : bool array (sets,)
        Whether the answer is proved to be the nearest of its set.
    already : bool
        Whether the row meets the goal as it is.
    rows_queried : int
        Rows the model was asked, for all sets together.
    """

    result: Counterfactuals
    sets: Sequence[tuple[int, ...]]
    found: Booleans
    possible: Booleans
    closest: Booleans
    already: bool
    rows_queried: int

    def __len__(self) -> int:
        return len(self.sets)

    def __repr__(self) -> str:
        return f"Menu({int(self.found.sum())} of {len(self)} sets of features have an answer)"

    def __str__(self) -> str:
        return "\n".join(self.sentences())

    @property
    def status(self) -> list[str]:
        """Of each set: "found", "impossible (proved)", or that none was found, and in how many model rows."""
        told = []
        for row in range(len(self)):
            asked = int(self.result.rows_queried[row])
            missing = f"not found in {asked} model rows" if self.possible[row] else IMPOSSIBLE
            told.append("found" if self.found[row] else missing)
        return told

    @cached_property
    def enough(self) -> Booleans:
        """Whether a smaller set within each set has an answer already (sets,)."""
        solved = [set(part) for part, found in zip(self.sets, self.found, strict=True) if found]
        return np.array([any(other < set(part) for other in solved) for part in self.sets], dtype=bool)

    @cached_property
    def table(self) -> pd.DataFrame:
        """A line for each set: its features, the status, the changes and their price.

        Sets of which a part is enough are left out. Those with an answer come first, the cheapest before the others.
        """
        space, result, every = self.result.space, self.result, range(len(self))
        distance = np.where(self.found, result.proximity[: len(self), 0], np.nan)
        lines = pd.DataFrame(
            {
                "features": [tuple(space.names[j] for j in part) for part in self.sets],
                "changes": [len(part) for part in self.sets],
                "status": self.status,
                "how": [self._told(row) if self.found[row] else "" for row in every],
                "distance": distance,
                "proved closest": self.closest & self.found,
                "answer": pd.Series([result.after[row, 0] if self.found[row] else None for row in every], dtype=object),
            }
        )
        own = lines.assign(missing=~self.found)[~self.enough]
        order = own.sort_values(["missing", "changes", "distance"], kind="stable").index
        return lines.loc[order].reset_index(drop=True)

    def sentences(self) -> list[str]:
        """What would do, what would not, and what nobody knows."""
        if self.already:
            return ["The row meets the goal already."]
        if len(self) == 0:
            return ["No feature of the row may change."]
        told = []
        order = np.lexsort((self.result.proximity[: len(self), 0], self._sizes))
        best = [row for row in order if self.found[row] and not self.enough[row]]  # these need every feature of theirs
        for row in best[:MOST_TOLD]:
            alone = " alone" if len(self.sets[row]) == 1 else ""
            told.append(f"A change of {self._names(self.sets[row])}{alone} would do: {self._told(row)}.")
        if len(best) > MOST_TOLD:
            more = len(best) - MOST_TOLD
            told.append("One further set of features would do." if more == 1 else f"{more} further sets would do.")
        for size in sorted({len(part) for part in self.sets}):
            own = [row for row, part in enumerate(self.sets) if len(part) == size]
            told += self._of_size(size, own)
        return list(map(printable, told))

    def _of_size(self, size: int, own: list[int]) -> list[str]:
        none = [row for row in own if not self.possible[row]]
        unknown = [row for row in own if self.possible[row] and not self.found[row]]
        told = []
        if size == 1:
            told += [f"No change of {self._names(self.sets[row])} alone would do." for row in none]
        elif len(none) == len(own):
            told.append(f"No change of just {size} features would do.")
        elif none:
            told.append(f"{len(none)} of {len(own)} sets of {size} features are proved to be of no use.")
        if unknown:
            sets = self._names(self.sets[unknown[0]]) if len(unknown) == 1 else f"{len(unknown)} sets of {size}"
            rows = int(self.result.rows_queried[unknown].sum())
            told.append(f"With {sets} none was found in {rows} model rows, which proves nothing.")
        return told

    def plot(self) -> "Figure":
        """Features and sets as a picture: a column a set, a dot where it changes a feature, the colour its status."""
        from relax_plugin.pages.diagrams import menu_picture

        space = self.result.space
        distance = self.result.proximity[: len(self), 0]
        # By size, so that the picture shows what does and what does not.
        order = [row for row in np.lexsort((distance, ~self.found, self._sizes)) if not self.enough[row]]
        used = sorted({j for row in order for j in self.sets[row]})
        return menu_picture(
            [feature_label(space.labels, space.names[j]) for j in used],
            [[used.index(j) for j in self.sets[row]] for row in order],
            ["found" if self.found[row] else "open" if self.possible[row] else "impossible" for row in order],
            [float(distance[row]) for row in order],
        )

    def _repr_html_(self) -> str:
        lines = "".join(f"<li>{escape(text)}</li>" for text in self.sentences())
        table = self.table.assign(features=[", ".join(map(str, names)) for names in self.table["features"]])
        shown = table.to_html(index=False, na_rep="", float_format=lambda number: f"{number:.3g}", max_rows=30)
        return f"<p>{escape(repr(self))}</p><ul>{lines}</ul><div style='overflow-x:auto'>{shown}</div>"

    @property
    def _sizes(self) -> Integers:
        return np.array([len(part) for part in self.sets], dtype=np.int64)

    def _names(self, part: Sequence[int]) -> str:
        space = self.result.space
        names = [feature_label(space.labels, space.names[j]) for j in part]
        return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"

    def _told(self, row: int) -> str:
        space, cells = self.result.space, self._cells.get(row, [])
        return ", ".join(
            f"{feature_label(space.labels, name)} from {format_labelled(space.labels, name, old)} "
            f"to {format_labelled(space.labels, name, new)}"
            for name, old, new in cells
        )

    @cached_property
    def _cells(self) -> dict[int, list[tuple[Any, Any, Any]]]:
        cells: dict[int, list[tuple[Any, Any, Any]]] = {}
        for change in self.result.changes().itertuples(index=False):
            row, _, name, old, new = change
            cells.setdefault(int(row), []).append((name, old, new))
        return cells
