"""What `relax-plugin explain` found, as tables and sentences that call each query by its row in the file."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from relax_plugin.arrays import Array
from relax_plugin.commands.output import print_table
from relax_plugin.distributed.parts import arrow_bytes, parquet_bytes
from relax_plugin.evaluation.store import guarded
from relax_plugin.formatting import cell_label, feature_label
from relax_plugin.plausibility import INDEPENDENT
from relax_plugin.regions.regions import Regions
from relax_plugin.results import Counterfactuals

MOST_NAMED = 20  # rows in a line


@dataclass(frozen=True)
class Found:
    """What was found, with each query called by its row in the file it is from."""

    result: Counterfactuals
    ids: Array
    id_column: str | None = None  # whose cells the ids are; None: they are numbers of rows

    def table(self) -> pd.DataFrame:
        """A line for each changed cell, and one with the reason for each counterfactual that has none."""
        result, table = self.result, self.result.changes()
        query, slot = table["query_id"].to_numpy(), table["cf_id"].to_numpy()
        table = table.assign(before=result.before[query], after=result.after[query, slot], reason=None)
        told = set(zip(query, slot, strict=True))
        lines: list[dict[Any, Any]] = table.to_dict("records")
        for query, slot in np.ndindex(result.found.shape):
            already = result.stages[query, 0] == "query"
            if (query, slot) not in told and (slot == 0 or not already):
                after = result.after[query, slot] if already else None
                reason = str(result.statuses[query, slot])
                line = {"query_id": query, "cf_id": slot, "before": result.before[query], "after": after}
                lines.append({**line, "feature": None, "from": None, "to": None, "reason": reason})
        lines.sort(key=lambda line: (line["query_id"], line["cf_id"]))
        table = pd.DataFrame(lines, columns=table.columns, dtype=object)
        return table.assign(query_id=self.ids[table["query_id"].astype(int)])

    def print_changes(self) -> None:
        """The changed cells as a table for people."""
        table, labels = self.table(), self.result.space.labels
        changes = table[table["reason"].isna()].drop(columns="reason").set_index("query_id")
        if len(changes):
            for end in ("from", "to"):
                cells = zip(changes["feature"], changes[end], strict=True)
                changes[end] = [cell_label(labels, name, cell) for name, cell in cells]
            changes["feature"] = [feature_label(labels, name) for name in changes["feature"]]
            print_table(changes.map(lambda cell: f"{cell:.6g}" if isinstance(cell, float) else cell), as_json=False)
            print()

    def sentences(self) -> list[str]:
        """The result's sentences, with the rows' own numbers."""
        return self.result.sentences()

    def csv(self) -> tuple[str, int]:
        """The counterfactuals for a spreadsheet, and how many texts of it are kept from being formulas."""
        table, count = guarded(self.frame())
        return table.to_csv(index=False), count

    def parquet(self) -> bytes:
        """The counterfactuals as a Parquet file, which holds texts as texts and gaps as gaps."""
        return parquet_bytes(self.frame())

    def arrow(self) -> bytes:
        """The counterfactuals as an Arrow file."""
        return arrow_bytes(self.frame())

    def frame(self) -> pd.DataFrame:
        """The counterfactuals with the answers before and after."""
        frame = self.result.frame
        query, slot = frame["query_id"].to_numpy(), frame["cf_id"].to_numpy()
        answers = {"before": self.result.before[query], "after": self.result.after[query, slot]}
        return frame.assign(query_id=self.ids[query], **answers)

    def rows_of(self, name: str) -> str:
        """Which rows of the file were explained, in words."""
        first = ", ".join(map(str, self.ids[:MOST_NAMED]))
        rows = f"rows {first}{f' and {len(self.ids) - MOST_NAMED} more' * (len(self.ids) > MOST_NAMED)} of {name}"
        if self.id_column is not None:
            return f"{rows}, by {self.id_column}"
        if (self.ids == np.arange(len(self.ids))).all():
            return f"rows 0 to {len(self.ids) - 1} of {name}"
        return f"{rows}, in this order"


def plausible_words(result: Counterfactuals) -> str:
    """How many counterfactuals look like training rows, by the detector that the search saw and by another one."""
    table = result.plausibility[result.found.ravel()]
    own, other = (int(table[f"{prefix}plausible"].sum()) for prefix in ("", INDEPENDENT))
    return f"{own} of {len(table)} counterfactuals look like training rows; an independent detector says {other}."


def regions_words(regions: Regions) -> str:
    """What is known of how far the changes may go, and what that cost."""
    kinds, rows = regions.table["kind"].value_counts(), regions.rows_asked
    told = " and ".join(f"{count} {kind}" for kind, count in kinds.items()) or "0"
    return f"Regions of changed cells: {told}, {rows:,} model rows in all."
