"""The columns of the judge's rows, and the numbers of the tables made of them: each is told here, once.

The judge makes rows by it, the store reads them by it, and tables and pages take headings and meanings from it.
Nothing heavy is imported here: a plan is checked, and refused, before pandas, scikit-learn or torch are needed.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from relax_plugin.formatting import count, exact, hundredths, percents, tenths, three_digits

Row = dict[str, Any]
STATES = ("ok", "crashed", "timed out", "skipped")


@dataclass(frozen=True)
class Column:
    """A column of the rows: its type, what stands in it where nothing is known, and what it means."""

    name: str
    type: type
    missing: Any
    meaning: str


def _text(name: str, meaning: str) -> Column:
    return Column(name, str, "", meaning)


def _count(name: str, meaning: str) -> Column:
    return Column(name, int, 0, meaning)


def _number(name: str, meaning: str) -> Column:
    return Column(name, float, math.nan, meaning)


ROW = (
    _text("task", "data set and model"),
    _text("method", "its label: the name of the explainer, and options"),
    _count("seed", "of the split, of the model's training and of the method"),
    _text("state", "ok, crashed, timed out or skipped"),
    _text("reason", "why there is no valid counterfactual"),
    _count("instances", "how many the method was asked to explain"),
    _count("features", "of the task"),
    _text("kind", "classification or regression"),
    _number("max_changes", "the method's limit of changed features; NaN: none"),
    Column("instance", int, -1, "position of the query among the test rows; -1 in the only row of a unit that failed"),
    Column("claimed", bool, False, "whether the method says that it found one"),
    Column("valid", bool, False, "whether the model confirms it and it violates no constraint"),
    _count("violations", "constraints that it violates"),
    _count("broken_rules", "of these, rules between columns"),
    _count("torn_groups", "of these, one-hot groups of which not exactly one column is set"),
    _count("changed_gaps", "of these, missing cells that were filled and values that vanished, without leave"),
    _count("altered_cells", "of these, derived cells that contradict their formula, and cells that are to stay"),
    _number("sparsity", "L0: features changed, if it is valid"),
    _number(
        "proximity",
        "L1: distance in standard deviations, a changed category counting 1, if it is valid; at the unit's prices",
    ),
    _number("redundant", "changes that can be reverted singly"),
    _number("inside_box", "1 if it lies within the ranges of the training rows, else 0"),
    _number("neighbour_distance", "mean distance to the 5 nearest training rows of the answer reached"),
    _number("local_outlier", "1 if a LocalOutlierFactor of the training rows calls it an outlier, else 0"),
    _number("isolated", "1 if an IsolationForest of the training rows calls it an outlier, else 0"),
    _number("ynn", "share of the 5 nearest training rows to which the model gives the answer reached"),
    _number("cost", "distance at the prices of the unit, or else of the space"),
    _number("percentile_shift", "share of the training rows that changed numbers pass, summed; a category counts 1"),
    _number("edge_cells", "share of the changed cells at the ends of what the training rows have, or beyond"),
    _number("unseen_cells", "share of the changed cells with a value that no training row has there"),
    _number("lasting", "share of models fitted again for which it is still valid; with --metrics all"),
    _number("noise_distance", "distance to the answer to the query with a little noise; with --metrics all"),
    _number("real_local_outlier", "share of test rows that the LocalOutlierFactor calls outliers"),
    _number("real_isolated", "share of test rows that the IsolationForest calls outliers"),
    _number("real_ynn", "yNN of test rows, mean"),
    _number("real_lasting", "share of the answers to test rows that models fitted again keep"),
    _count("found_count", "valid counterfactuals of the query, if several are asked for"),
    _number("diversity", "mean distance between these"),
    _text("before", "the model's answer to the query"),
    _text("after", "the model's answer to the counterfactual"),
    _number("probability_before", "of the class reached, at the query"),
    _number("probability_after", "of the class reached, at the counterfactual"),
    _text("stage", "the part of the method that found it"),
    _text("sentence", "what would have to change, in words"),
    _number("rows", "model rows asked for this query"),
    _text("query", "the row that was asked about, as JSON"),
    Column("changes", str, "[]", "the changes as JSON: a list of feature, old value, new value"),
    _number("fit_seconds", "wall seconds of fit"),
    _number("fit_cpu", "CPU seconds of fit"),
    _number("fit_rows", "model rows asked in fit"),
    _number("fit_calls", "calls of the model in fit"),
    _number("explain_seconds", "wall seconds to explain all instances"),
    _number("explain_cpu", "CPU seconds to explain all instances"),
    _number("explain_rows", "model rows asked to explain all instances"),
    _number("explain_calls", "calls of the model to explain all instances"),
    _number("model_seconds", "of fit and explain, wall seconds inside the model"),
    _number("task_seconds", "wall seconds to load the data and to train the model"),
    _number("start_seconds", "wall seconds to start the worker, import the method and prepare the judge, once each"),
    _number("harness_seconds", "wall seconds of the judge and of the worker beside these"),
)
"""One row for each task, method, seed and instance."""
COLUMNS = tuple(column.name for column in ROW)


@dataclass(frozen=True)
class Number:
    """A number of a table: its name there, its heading on a page, how it is written, and what it means."""

    key: str
    heading: str
    text: Callable[[float], str]
    meaning: str
    best: Literal["high", "low", ""] = ""  # which way is better; "" where methods were measured on other queries
    mean_of: str = ""  # the column of the rows that it is the mean of over a unit's instances
    spread: bool = False  # the standard deviation over seeds stands beside it
    # One seed without it makes it unknown, lest a method looks better for a seed that it failed.
    of_all_seeds: bool = False


_OF_ONE_SEED = (
    Number("instances", "queries", count, "test rows the method was asked to explain, for each seed"),
    Number(
        "validity", "validity", percents,
        "share of all queries with a valid counterfactual, which the model confirms and which violates no constraint; "
        "unsolved queries and failed runs count as 0", "high", spread=True,
    ),
    Number("worst class", "worst class", percents, "validity over the queries of the class where it is lowest", "high"),
    Number(
        "L0", "L0", hundredths,
        "features changed, mean over the method's own valid counterfactuals: giving up on hard queries makes it lower",
        spread=True, of_all_seeds=True,
    ),
    Number(
        "L1", "L1", hundredths,
        "distance in standard deviations, a changed category counting 1, over the method's own valid counterfactuals",
        spread=True, of_all_seeds=True,
    ),
    Number(
        "L0 common", "L0 common", hundredths, "features changed, over queries that all methods solved", "low",
        of_all_seeds=True,
    ),
    Number(
        "L1 common", "L1 common", hundredths, "distance, over the same common queries", "low", of_all_seeds=True,
    ),
    Number("common", "common", tenths, "number of these common queries, mean over seeds"),
    Number(
        "violations", "violations", exact,
        "constraints violated by delivered counterfactuals, counted apart from the method; must be 0",
    ),
    Number(
        "redundant", "redundant", hundredths, "changes of a counterfactual that could be reverted one at a time",
        mean_of="redundant",
    ),
    Number(
        "inside box", "inside box", percents, "share of counterfactuals within the ranges of the training rows",
        mean_of="inside_box",
    ),
    Number(
        "neighbours", "neighbours", hundredths,
        "distance to the 5 nearest training rows of the answer reached: lower is more plausible",
        mean_of="neighbour_distance",
    ),
    Number(
        "LOF outliers", "LOF outliers", percents,
        "share of counterfactuals that a LocalOutlierFactor of the training rows calls outliers", "low",
        mean_of="local_outlier", of_all_seeds=True,
    ),
    Number(
        "IF outliers", "IF outliers", percents,
        "share of counterfactuals that an IsolationForest of the training rows calls outliers", "low",
        mean_of="isolated", of_all_seeds=True,
    ),
    Number(
        "yNN", "yNN", percents,
        "share of the 5 nearest training rows to which the model gives the answer reached: higher is more plausible",
        "high", mean_of="ynn", of_all_seeds=True,
    ),
    Number("real LOF outliers", "of real rows", percents, "the same share of test rows", mean_of="real_local_outlier"),
    Number("real IF outliers", "of real rows", percents, "the same share of test rows", mean_of="real_isolated"),
    Number("real yNN", "of real rows", percents, "the same of test rows", mean_of="real_ynn"),
    Number(
        "edge cells", "edge cells", percents,
        "share of changed cells that are numbers at the ends of what the training rows have, or beyond",
        mean_of="edge_cells",
    ),
    Number(
        "unseen cells", "unseen cells", percents,
        "share of changed cells with a value that no training row has in that column", mean_of="unseen_cells",
    ),
    Number("cost", "cost", hundredths, "distance at the prices of the features; L1 where none has one", mean_of="cost"),
    Number(
        "percentile shift", "percentile shift", hundredths,
        "share of the training rows that changed numbers pass, summed over features; a category counts 1",
        mean_of="percentile_shift",
    ),
    Number(
        "probability", "probability", percents, "of the class reached, at the counterfactual",
        mean_of="probability_after",
    ),
    Number(
        "lasting", "still valid", percents,
        "future validity: share of models fitted again, on bootstrap samples, for which counterfactuals are valid",
        "high", mean_of="lasting", of_all_seeds=True,
    ),
    Number(
        "real lasting", "of real rows", percents, "share of the answers to test rows that models fitted again keep",
        mean_of="real_lasting",
    ),
    Number(
        "noise distance", "under noise", hundredths,
        "distance between the counterfactuals of a query and of the same with a little noise: lower is more stable",
        "low", mean_of="noise_distance", of_all_seeds=True,
    ),
    Number("broken rules", "broken rules", exact, "rules between columns that delivered counterfactuals break"),
    Number(
        "rows", "rows a query", tenths, "rows the model was asked to explain one query, mean", "low", mean_of="rows",
    ),
    Number(
        "found", "found", hundredths, "counterfactuals found for a query; above 1 only where several are asked for",
        mean_of="found_count",
    ),
    Number(
        "diversity", "diversity", hundredths, "mean distance between the counterfactuals of a query, if several",
        mean_of="diversity",
    ),
    Number("max changes", "changes at most", count, "the method's limit of changed features; \N{EN DASH}: none"),
    Number("calls", "calls", count, "calls of the model to explain all queries"),
    Number("training rows", "training rows", count, "rows the model was asked in fit, once", "low"),
    Number("fit s", "fit, s", three_digits, "wall seconds to prepare, once", "low"),
    Number("fit CPU s", "fit, CPU s", three_digits, "the same in CPU seconds", "low"),
    Number("explain s", "explain, s", three_digits, "wall seconds to explain all queries"),
    Number("explain CPU s", "explain, CPU s", three_digits, "the same in CPU seconds"),
    Number("ms each", "a query, ms", three_digits, "wall milliseconds to explain one query, fit not included", "low"),
    Number("in model", "in model", percents, "share of the seconds spent inside the model"),
)  # fmt: skip
_OF_ALL_SEEDS = (
    Number("seeds", "seeds", count, "runs, each with its own split, model and random numbers"),
    Number("failed", "failed", count, "runs that crashed or took too long; they count as validity 0"),
    Number("skipped", "skipped", count, "runs for which the method does not apply; they count nowhere"),
)
SUMMARY = {number.key: number for number in (*_OF_ONE_SEED, *_OF_ALL_SEEDS)}
"""The numbers of a method on a task, by their names in `tables.summary`."""
NUMBERS = tuple(number.key for number in _OF_ONE_SEED)
"""Those of them that one seed has."""
