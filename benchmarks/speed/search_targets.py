"""Which targets a search holds, read off the lines of `search_comparison.py`."""

import pandas as pd

WIDE = 1000  # features from which a single row has more time
LARGE = 8192  # queries of a batch in which the search's own time is compared with the model's
DOTS = 6  # units named where a target is missed


def told_targets(lines: pd.DataFrame, methods: list[str]) -> str:
    """A text: for each method each target, what was measured, and the units that miss it."""
    if lines.empty:
        return "No unit has such a goal."
    at = ["unit", "goal"]
    by = {name: part.set_index(at) for name, part in lines.groupby("method")}
    blocks = []
    for method in methods:
        every = by[method]
        reasons = every["skipped"].fillna("") if "skipped" in every else pd.Series("", every.index)
        failed, own = reasons.str.startswith("FAILED"), every[reasons == ""]
        if own.empty:
            blocks.append(f"{method}: measured on no unit; {reasons.iloc[0]}")
            continue
        greedy = by["greedy"].loc[own.index]
        rivals = by["nearest-ct:reverted=True"].reindex(own.index)["validity"]
        union = by["greedy or nearest-ct"].loc[own.index, "validity"]
        dear = "max_queries" in method
        told = Told(method, own, greedy)
        better = greedy["validity"] if dear else pd.concat([greedy["validity"], rivals], axis=1).max(axis=1)
        whose = "greedy's" if dear else "the better of greedy and nearest-ct"
        told.none("it fails on no unit", failed, f"on {failed.sum()}")
        told.validity(f"validity >= {whose}", better)
        told.validity("validity >= the union of both (no target)", union, judged=False)
        told.none("no answer is wrong", own["wrong"] > 0, f"{own['wrong'].sum():.0f} are")
        told.mean("L0 ratio", own["l0_ratio"], 1.03 if dear else 1.00, None if dear else 1.01)
        told.mean("L1 ratio", own["l1_ratio"], 1.12 if dear else 0.95, None if dear else 1.00)
        if dear:
            mean = own["rows_per_solved"].mean()
            told.say("model rows a solved query <= 12", mean <= 12, f"mean {mean:.1f}", own["rows_per_solved"] > 12)
            told.worst("model rows of fit <= 1,000", own["fit_rows"], 1000)
            told.worst("own CPU s of fit <= 2", own["fit_own_cpu"], 2)
            told.worst("own ms a query of the batch <= 5", own["own_ms_per_query"], 5)
        else:
            cpu = own["cpu_ratio"]
            middle = f"median {cpu.median():.2f}"
            told.say("CPU ratio of fit + queries: median <= 1.0", cpu.median() <= 1.0, middle)
            told.worst("CPU ratio of fit + queries: worst <= 1.5", cpu, 1.5)
            wide = own["features"] >= WIDE
            told.worst("one row beyond the model <= 10 ms", own["row_ms"][~wide], 10)
            told.worst("calls for one row <= 20", own["row_calls"], 20)
            told.worst("1,000 features: one row beyond the model <= 100 ms", own["row_ms"][wide], 100)
            told.worst("1,000 features: CPU s of fit <= 2", own["fit_cpu"][wide], 2)
            large = own[own["rows"] >= LARGE]
            share = large["own_ms_per_query"] / large["model_ms_per_query"]
            told.worst(f"batches of {LARGE:,}: own time / model's <= 0.5", share, 0.5)
        blocks.append("\n".join(told.text))
    return "\n\n".join(["", *blocks])


class Told:
    """The lines of one method."""

    def __init__(self, method: str, own: pd.DataFrame, greedy: pd.DataFrame) -> None:
        self.own, count = own, len(own)
        means = f"valid {own['validity'].mean():.4f} (greedy {greedy['validity'].mean():.4f})"
        self.text = [f"{method}: {count} unit{'s' if count > 1 else ''}, {means}"]

    def say(self, target: str, held: bool, seen: str, missed: "pd.Series[bool] | None" = None) -> None:
        where = [] if missed is None else ["/".join(map(str, at)) for at in missed.index[missed.to_numpy()]]
        more = f" and {len(where) - DOTS} more" if len(where) > DOTS else ""
        named = f"; {', '.join(where[:DOTS])}{more}" if where else ""
        self.text.append(f"  {'held  ' if held else 'MISSED'} {target}: {seen}{named}")

    def none(self, target: str, missed: "pd.Series[bool]", seen: str) -> None:
        self.say(target, not missed.any(), seen, missed)

    def validity(self, target: str, least: "pd.Series[float]", judged: bool = True) -> None:
        below = self.own["validity"] < least - 1e-9
        self.say(target, not (below.any() and judged), f"{least.mean():.4f}, below it in {below.sum()} units", below)

    def worst(self, target: str, values: "pd.Series[float]", most: float) -> None:
        values = values.dropna()
        if len(values):
            at = "/".join(map(str, values.idxmax()))
            seen = f"median {values.median():.2f}, worst {values.max():.2f} ({at})"
            self.say(target, values.max() <= most, seen, values > most)

    def mean(self, name: str, values: "pd.Series[float]", most: float, anywhere: float | None) -> None:
        values = values.dropna()
        self.say(f"{name}: mean <= {most:.2f}", values.mean() <= most, f"mean {values.mean():.4f}")
        if anywhere is not None:
            self.worst(f"{name}: worst <= {anywhere:.2f}", values.round(4), anywhere)
