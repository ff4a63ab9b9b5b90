"""Oracle: what answers a search, the model itself or a surrogate model, by what one evaluation costs and may cost."""

import time

from relax_plugin.arrays import Values
from relax_plugin.blackbox import BlackBox, Cost

FEW_QUERIES = 100  # model evaluations for a query below which a direct search finds little
COSTLY = 1e-3  # seconds of one model evaluation from which on a surrogate model saves time
MEASURED = 64  # rows that are evaluated again before a model is called costly: other work may have delayed the first
QUERIES = 12  # model evaluations for a query of a costly model, where no number is given


def needs_surrogate(blackbox: BlackBox, max_queries: int | None, rows: Values, costly: float = COSTLY) -> bool:
    """Whether the model is costly, or may be asked too rarely, for a direct search; `rows` are asked to be sure.

    A model that answers labels alone has no surrogate: its answers do not tell how near a row is.
    """
    if not blackbox.has_scores or (max_queries is not None and int(max_queries) < FEW_QUERIES):
        return blackbox.has_scores
    return blackbox.cost.row > costly and _seconds_of_a_row(blackbox, rows[:MEASURED]) > costly


def describe_oracle(blackbox: BlackBox, is_surrogate: bool, max_queries: int | None) -> str:
    """What answers a search, and why; what the model costs is told only by the explainer that measured it."""
    cost = f", which takes {blackbox.cost}" if blackbox.cost != Cost() else ""
    if is_surrogate:
        few = max_queries is not None and int(max_queries) < FEW_QUERIES
        return f"a surrogate model{f', since max_queries is {max_queries}' if few else f' of a costly model{cost}'}"
    if blackbox.trees is None:
        return f"the model itself{cost}"
    return (
        f"the model's trees as arrays for up to {blackbox.trees.most_rows:,} rows at once, else the model itself{cost}"
    )


def _seconds_of_a_row(blackbox: BlackBox, rows: Values) -> float:
    started = time.perf_counter()
    blackbox.ask(rows, mark_refused=True)
    return (time.perf_counter() - started) / len(rows)
