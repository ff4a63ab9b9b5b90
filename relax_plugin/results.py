"""Counterfactuals: what was found for each query, with statuses, changes, sentences, JSON and HTML."""

import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from relax_plugin.arrays import Array, Booleans, Floats, Integers, Values
from relax_plugin.cached import cached_property
from relax_plugin.errors import InputError, RefusedRowError
from relax_plugin.features import FeatureSpace, Rows
from relax_plugin.table.changed_cells import Answers, ChangedCell, changed_cells
from relax_plugin.table.columns import EXACT
from relax_plugin.table.tables import row_name

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from relax_plugin.asked import Asked
    from relax_plugin.base import CounterfactualExplainer
    from relax_plugin.blackbox import BlackBox
    from relax_plugin.pages.card import Card
    from relax_plugin.plausibility import Detectors
    from relax_plugin.regions.regions import Regions
    from relax_plugin.search.steps import Steps


# What there is one of for each query.
BY_QUERY = (
    *("values", "found", "status", "stage", "before", "after", "scores_before", "scores_after"),
    *("rows_queried", "proofs", "proved", "rows_also"),
)

REPR_ROWS = 5  # of the table that `repr` shows


@dataclass(eq=False)
class Counterfactuals:
    """The counterfactuals of a call: one slot for each of `n` wanted a query.

    Attributes
    ----------
    queries : DataFrame or array
        As they were handed in.
    values : array (queries, slots, features)
        Numbers in the user's unit, categories as positions; where nothing was found, the closest attempt.
    found : bool array (queries, slots)
        Whether the model's answer to the delivered row meets the goal and the row keeps every constraint.
    status, stage : str arrays (queries,), or (queries, slots) if more than one counterfactual a query was asked for
        Why nothing was found, or "found"; which part of the method found it. `statuses` and `stages` are the same,
        always with two dimensions.
    before, after : arrays (queries,) and (queries, slots)
        The model's answers, as it writes them; None, or NaN of a regressor, for a query that it refuses (`refused`).
        `scores_before`, `scores_after` where it gives scores.
    rows_queried : int array (queries,)
        Rows the model was asked for each query, the query itself and the final confirmation included.
    seconds : float
    proofs : str array (queries,), optional
        What is proved about the optimum of each query (`relax_plugin.trees.floor.certify`), "" if nothing is.
    proved : array (queries, 2), optional
        The same in numbers: no counterfactual changes fewer features than this (more than there are: none exists), and
        of those that change so few none is at less than this distance, NaN if that is not known.
    blackbox : BlackBox, optional
        The model that gave the answers, for `steps`. Files, pickles and copies are without it.
    rows_also : int array (queries,), optional
        Rows that the further models of `also` were asked for each query; `rows_queried` does not hold them.
    carried : DataFrame, optional
        Columns of the queries that the model does not know.
    detectors : Detectors, optional
        What tells how plausible they are, for `plausibility`; files, pickles and copies are without it too.
    asked : Asked, optional
        The question: the goal, and what the call said about features.
    known_regions : Regions, optional
        What the last call of `regions` found, for sentences and cards; files are without it.
    """

    space: FeatureSpace
    queries: Rows
    values: Floats
    found: Booleans
    status: Array
    stage: Array
    before: Array
    after: Array
    scores_before: Floats | None
    scores_after: Floats | None
    rows_queried: Integers
    seconds: float
    proofs: Array | None = None
    proved: Floats | None = None
    blackbox: "BlackBox | None" = field(default=None, repr=False)
    carried: pd.DataFrame | None = None
    rows_also: Integers | None = None
    detectors: "Detectors | None" = field(default=None, repr=False)
    asked: "Asked | None" = field(default=None, repr=False)
    known_regions: "Regions | None" = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.found.shape[1] == 1:
            self.status, self.stage = self.status.reshape(len(self)), self.stage.reshape(len(self))

    @property
    def statuses(self) -> Array:
        return self.status.reshape(self.found.shape)

    @property
    def stages(self) -> Array:
        return self.stage.reshape(self.found.shape)

    @property
    def refused(self) -> Booleans:
        """Which queries the model refuses: it raised on them, or answered NaN."""
        return np.asarray(pd.isna(self.before))

    def refusal(self, query: int) -> RefusedRowError:
        """The error for a call that cannot do without the model's answer to a query that it refuses."""
        return RefusedRowError(query, self.statuses[query, 0].partition(": ")[2], row_name(self.queries, query))

    def __getstate__(self) -> dict[str, Any]:
        """All but the model and the training rows, which may be large, or not to be pickled at all."""
        return vars(self) | {"blackbox": None, "detectors": None}

    def __len__(self) -> int:
        return len(self.found)

    def __getitem__(self, query: Any) -> "Counterfactuals":
        """The result of one query, by its position, or of several: a slice, positions, or a mask."""
        if isinstance(query, int | np.integer):
            if not -len(self) <= query < len(self):
                raise IndexError(f"there is no query {query}; there are {len(self)}, from 0 on.")
            return self.take([query % len(self)])
        return self.take(np.arange(len(self))[query])

    def __iter__(self) -> Iterator["Counterfactuals"]:
        return (self[query] for query in range(len(self)))

    def take(self, queries: Any) -> "Counterfactuals":
        """The result of some queries, by their positions; its `seconds` are those of the whole call."""
        arrays: dict[str, Any] = {
            name: None if (own := getattr(self, name)) is None else own[queries] for name in BY_QUERY
        }
        part = replace(
            self,
            queries=taken(self.queries, queries),
            **arrays,
            carried=None if self.carried is None else self.carried.iloc[queries],
            asked=None if self.asked is None else self.asked.take(queries),
            known_regions=None if self.known_regions is None else self.known_regions.take(queries),
        )
        if "plausibility" in vars(self):
            lines = np.arange(self.found.size).reshape(self.found.shape)[queries].ravel()
            part.__dict__["plausibility"] = self.plausibility.iloc[lines].set_axis(
                self.plausibility.index[: len(lines)]
            )
        return part

    def __repr__(self) -> str:
        slots, cost = self.found.shape[1], self.rows_queried.mean() if len(self) else 0
        text = (
            f"Counterfactuals: {int(self.found.any(axis=1).sum())} of {len(self)} found, "
            f"{'up to ' if slots > 1 else ''}{slots} per query, "
            f"{f'{cost:,.1f}'.removesuffix('.0')} evaluations per query"
        )
        return f"{text}\n{self.frame.head(REPR_ROWS)}" if self.found.any() else text

    @cached_property
    def start(self) -> Values:
        return self.space.values(self.queries)

    @cached_property
    def frame(self) -> pd.DataFrame:
        """The found counterfactuals, one row each: query_id (position), cf_id, then the columns in their dtypes.

        The index is that of the queries, if they have one of their own; columns that were carried come last.
        """
        query, slot = np.nonzero(self.found)
        parts = [pd.DataFrame({"query_id": query, "cf_id": slot}), self.delivered]
        if self.carried is not None:
            parts.append(self.carried.iloc[query].reset_index(drop=True))
        frame, index = pd.concat(parts, axis=1), self.space.frame(self.queries).index
        return frame if index.equals(pd.RangeIndex(len(index))) else frame.set_axis(index[query])

    @cached_property
    def delivered(self) -> pd.DataFrame:
        """The columns of `frame` that the model knows: a row for each that was found, under no index of its own."""
        query, slot = np.nonzero(self.found)
        rows = self.space.restore(self.values[query, slot], taken(self.queries, query), self.start[query])
        if isinstance(rows, np.ndarray):
            return pd.DataFrame(rows, columns=pd.Index(self.space.columns))
        return rows.reset_index(drop=True)

    @property
    def sparsity(self) -> Floats:
        """Number of changed features (queries, slots); NaN where nothing was found."""
        changed = (self.values != self.start[:, None, :]).sum(axis=2)
        return np.where(self.found, changed, np.nan)

    @property
    def proximity(self) -> Floats:
        """Standardised L1 (queries, slots), a changed category counting 1, each change times its price; NaN if none."""
        return np.where(self.found, self.space.distance(self.values, self.start[:, None, :]), np.nan)

    @cached_property
    def plausibility(self) -> pd.DataFrame:
        """How much the counterfactuals look like training rows: a line for each query and slot.

        `score`, `threshold` and `plausible` by the detector that the call asked for (LocalOutlierFactor, if it asked
        for none): a higher score is more plausible, and the threshold is the query's own score where that is lower.
        `independent_…` is what another kind of detector says, an IsolationForest: a search learns to cheat the one it
        sees. Detectors are fitted when this is first asked for. A file has the numbers if they were known before.
        """
        if self.detectors is None:
            raise InputError(
                "this result is from a file or a copy, made before its plausibility was known: look at `plausibility` "
                "of the result itself before it is written or copied."
            )
        return self.detectors.table(self.start, self.values, self.found)

    def changes(self) -> pd.DataFrame:
        """One row for each changed cell: query_id, cf_id, feature, from, to."""
        columns = zip(*self.changed_cells, strict=True) if self.changed_cells else [()] * 5
        names = ("query_id", "cf_id", "feature", "from", "to")
        tidy = {name: pd.Series(column, dtype=object) for name, column in zip(names, columns, strict=True)}
        return pd.DataFrame(tidy).astype({"query_id": int, "cf_id": int})

    @cached_property
    def changed_cells(self) -> list[ChangedCell]:
        """What `changes` tells, as tuples: whoever shows one row at a time has no time for tables."""
        query, slot = np.nonzero(self.found)
        answers = Answers(query, slot, self.start[query], self.values[query, slot], self.delivered)
        return changed_cells(self.space, self.space.frame(self.queries), answers)

    def sentences(self, names: Mapping[Any, str] | None = None) -> list[str]:
        """A text for each query: what would have to be different, in each of its counterfactuals, or why none is.

        Probabilities stand beside the answers, where the model gives them. Features and categories are called by the
        space's labels, queries by the index of the table they are from. After `regions` was asked, numbers are told as
        "at least", "at most" or "between" how much they must be. `names` are other words for features, by the names
        they have in the space.
        """
        from relax_plugin.reading.sentences import sentences

        return sentences(self, names)

    def to_dict(self) -> dict[str, Any]:
        """What a web client needs, as plain data that `json.dumps` takes.

        `queries` has a record each: `id`, `query` (its cells), `answer`, `probability`, and `counterfactuals` with
        `found`, `status`, `changes` (feature, from, to, and their labels), `row`, `answer`, `probability` (of the class
        reached, before and after) and `sentence`.
        """
        from relax_plugin.reading.records import record_of_result

        return record_of_result(self)

    def summary(self) -> "pd.Series[Any]":
        """How many queries are solved, with how many changes and how far away, and what that cost."""
        from relax_plugin.reading.records import summary_of_result

        return summary_of_result(self)

    def steps(self, query: int = 0, explainer: "CounterfactualExplainer | None" = None, *, cf_id: int = 0) -> "Steps":
        """In which order to make the changes of one counterfactual, with the model's score and answer after each.

        Each step is the one that does most towards the answer, given those before it. The model is asked for this:
        k (k + 1) / 2 - 1 rows for k changes, twice as many where scores and `predict` are two questions. No other
        count holds these rows. `print` shows the steps; where nothing is to be done, or nothing was found, there are
        none, and the text says why.

        Parameters
        ----------
        query : int
            Position of the query.
        explainer : CounterfactualExplainer, optional
            Fitted to the model, for a result that was read from a file or is a copy: those hold no model.
        cf_id : int
            Which of the query's counterfactuals.
        """
        from relax_plugin.blackbox import model_to_ask
        from relax_plugin.search.steps import ordered_steps

        self._refuse_unknown_slot(query, cf_id)
        model = model_to_ask(self, explainer, "steps(query, explainer)", "steps")
        return ordered_steps(self, model, int(query), int(cf_id))

    def regions(
        self,
        explainer: "CounterfactualExplainer | None" = None,
        rows: Iterable[int] | None = None,
        points: int = 100,
        *,
        seed: int = 0,
    ) -> "Regions":
        """How far each changed cell may go while the goal still holds, all others as delivered; and all jointly.

        Within what the call allowed: bounds, steps, directions, rules. Of a tree ensemble that can be read every value
        of a region is proved. Of other models the ends of regions are found by bisection, and random rows in between
        are tested; where some are wrong, the region ends before them. What is found is kept as `known_regions`.

        Parameters
        ----------
        explainer : CounterfactualExplainer, optional, as for `steps`
        rows : positions of queries, optional
        points : int
            Random rows, by `seed`, that test a region which is not proved; cells of no more values are asked for all.
        """
        from relax_plugin.regions.finding import find_regions

        self.known_regions = find_regions(self, explainer, rows, points, seed)
        return self.known_regions

    def certificate(
        self, query: int = 0, explainer: "CounterfactualExplainer | None" = None, *, cf_id: int = 0
    ) -> dict[str, Any]:
        """One answer with what is claimed of it and why, as plain data that `json.dumps` takes; parameters as `steps`.

        `relax-plugin verify certificate.json --model model.joblib` checks it again. The first call asks the model some
        rows by which it is known again; no count holds them.
        """
        from relax_plugin.certificates.making import certificate_of

        self._refuse_unknown_slot(query, cf_id)
        return certificate_of(self, explainer, int(query), int(cf_id))

    def to_array(self) -> Array:
        """The counterfactuals as an array (queries, slots, columns), NaN where nothing was found, or a cell is missing.

        Of float64, or of objects where that does not hold every cell: categories, whole numbers from 2^53 on.
        """
        categories = [f for f in self.space.features if f.kind == "categorical" and not f.columns]
        exact = not categories and (np.abs(self.start) < EXACT).all()
        dtype: Any = np.float64 if exact else object
        array = np.full((*self.found.shape, len(self.space.columns)), np.nan, dtype=dtype)
        query, slot = np.nonzero(self.found)
        cells = self.frame[self.space.columns]
        array[query, slot] = cells.to_numpy(dtype=dtype, na_value=np.nan) if exact else cells.to_numpy(dtype=dtype)
        return array

    def to_json(self) -> str:
        """Everything as JSON text; `from_json` reads it back."""
        from relax_plugin.result_files import to_text

        return to_text(self)

    @classmethod
    def from_json(cls, text: str) -> "Counterfactuals":
        """Read what `to_json` wrote."""
        from relax_plugin.result_files import from_text

        return from_text(text)

    def _repr_html_(self) -> str:
        from relax_plugin.reading.notebook import result_html

        return result_html(self)

    def card(self, query: int = 0) -> "Card":
        """One query on one sheet, for people: values, the model's answer, the alternatives, what was held and proved.

        A notebook shows it; `card(3).save("card.html")` writes a page. Where nothing was found the model is asked about
        the closest attempt, a row that no count holds.
        """
        from relax_plugin.pages.card import card_of

        self._refuse_unknown_query(query)
        return card_of(self, int(query))

    def plot(self, query: int = 0) -> "Figure":
        """The changes of one query's counterfactuals: numbers as arrows, categories as pairs of their names."""
        from relax_plugin.pages.drawing import changes_as_arrows
        from relax_plugin.reading.picture import drawn_changes, title_of

        self._refuse_unknown_query(query)
        return changes_as_arrows(drawn_changes(self, query), *title_of(self, query))

    def _refuse_unknown_query(self, query: int) -> None:
        if not isinstance(query, int | np.integer) or not 0 <= query < len(self):
            raise InputError(f"there is no query {query!r}; there are {len(self)}, from 0 on.")

    def _refuse_unknown_slot(self, query: int, cf_id: int) -> None:
        self._refuse_unknown_query(query)
        if not isinstance(cf_id, int | np.integer) or not 0 <= cf_id < self.found.shape[1]:
            raise InputError(f"there is no counterfactual {cf_id!r}; a query has {self.found.shape[1]}, from 0 on.")


def concatenate(parts: list[Counterfactuals], queries: Rows, order: Any = slice(None)) -> Counterfactuals:
    """The results of batches as one; `order` says where each query is, if the batches are not consecutive."""
    first = parts[0]
    if len(parts) == 1 and isinstance(order, slice):
        return replace(first, queries=queries)

    def joined(name: str) -> Any:
        arrays = [getattr(part, name) for part in parts]
        return None if arrays[0] is None else np.concatenate(arrays)[order]

    seconds = sum(part.seconds for part in parts)
    arrays, space = {name: joined(name) for name in BY_QUERY}, first.space
    if any(part.space is not space for part in parts):  # of several calls: each knows the foreign cells of its own rows
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # they have been told of
            space, start = space.taking_in(queries)
        counts = np.array([len(f.categories) if f.kind == "categorical" else np.inf for f in space.features])
        arrays["values"] = np.where(arrays["values"] >= counts, start[:, None], arrays["values"])
    return Counterfactuals(
        space, queries, **arrays, seconds=seconds, blackbox=first.blackbox, detectors=first.detectors
    )


def taken(queries: Rows, index: Any) -> Rows:
    """Some of the rows, in whatever container they are."""
    return queries.iloc[index] if isinstance(queries, pd.DataFrame) else np.asarray(queries[index])
