"""The COVID-19 case study as a part of the reproduction: run for each seed, and shown beside the paper's numbers."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import joblib
import pandas as pd
from markupsafe import Markup
from scipy.stats import hypergeom

from benchmarks.reproduction.claims import paper
from benchmarks.reproduction.claims.comparisons import Claim, Status
from benchmarks.reproduction.claims.intervals import Interval
from benchmarks.reproduction.covid.discussion import METHOD, directions, discussion, summary
from benchmarks.reproduction.covid.pictures import picture
from benchmarks.reproduction.covid.study import EXPLAINED, Settings, combine, study
from benchmarks.reproduction.report.tables import NOTHING, Table, frame_table
from relax_plugin import datasets
from relax_plugin.datasets.covid import DECREASE_ONLY, EITHER_WAY, INCREASE_ONLY
from relax_plugin.errors import MissingDataError
from relax_plugin.evaluation.runner import schedule
from relax_plugin.evaluation.store import Cache
from relax_plugin.pages.html import inline

FRAMES = ("models", "counterfactuals", "changes", "importance", "transfer", "association")
CAPTION = (
    "Left: the importance of the features in the explained model (gain), mean and standard deviation over splits. "
    "Right: how many counterfactuals raise or lower each actionable feature, over all splits. The paper's "
    "figure 5 shows one split."
)

PERMITTED = len(INCREASE_ONLY) + len(DECREASE_ONLY) + 2 * len(EITHER_WAY)  # changes: a feature in a direction

Frames = Mapping[str, pd.DataFrame]


def run_studies(folder: Path, seeds: Sequence[int], jobs: int, say: Callable[[str], None]) -> dict[str, pd.DataFrame]:
    """The frames of all seeds, each seed stored as soon as it is done; none if the table is not there."""
    try:
        datasets.load("covid")
    except MissingDataError as error:
        say(f"The case study is left out: {error}")
        return {}

    cache, settings = Cache(folder), joblib.hash(repr(Settings()))[:8]  # other ones would be another result

    def stored_as(seed: int) -> dict[str, str]:
        return {name: f"{name}-{seed}-{settings}" for name in FRAMES}

    missing = [seed for seed in seeds if not all(map(cache.has, stored_as(seed).values()))]
    for seed, frames in schedule(_numbered, missing, jobs=jobs):
        for name, stored in stored_as(seed).items():
            cache.write(stored, frames[name])
        say(f"[covid] split {seed}: {len(frames['changes'])} changes suggested")
    return combine([{name: cache.read(stored) for name, stored in stored_as(seed).items()} for seed in seeds])


def _numbered(seed: int) -> tuple[int, dict[str, pd.DataFrame]]:
    return seed, study(seed)


def section(frames: Frames) -> dict[str, Any]:
    """What the page shows: the figure, the tables, the discussion."""
    svg = Markup(inline(picture(frames), "covid", CAPTION))
    return {
        "figures": [{"svg": svg, "caption": CAPTION}],
        "tables": [models_table(frames), numbers_table(frames), directions_table(frames)],
        "discussion": discussion(frames),
    }


def models_table(frames: Frames) -> Table:
    """The four models the paper tried."""
    lines = []
    for name, part in frames["models"].groupby("model", sort=False):
        printed = f"{paper.COVID_ACCURACY:.2f}" if name == EXPLAINED else NOTHING
        lines.append(
            {
                "model": str(name),
                "paper: test accuracy": printed,
                "test accuracy": Interval.of(part["test"]).text(3),
                "always “normal”": f"{part['majority'].mean():.3f}",
                "cross-validated": Interval.of(part["cv"]).text(3),
                "called high-risk": " / ".join(str(count) for count in part["called_high"]),
            }
        )
    rows = frames["models"].iloc[0]
    note = (
        f"{rows['training_rows'] + rows['test_rows']} countries, {rows['test_rows']} of them for testing in each split."
    )
    return frame_table("Models of mortality risk", lines, [note])


def numbers_table(frames: Frames) -> Table:
    """How many features change, and how far."""
    lines = []
    table = summary(frames)
    for method, part in table.groupby("method", sort=False):
        ours = method == METHOD
        lines.append(
            {
                "method": str(method),
                "paper: countries": str(paper.COVID_COUNTRIES) if ours else NOTHING,
                "countries, each split": " / ".join(str(count) for count in part["called_high"]),
                "validity": Interval.of(part["validity"]).text(3),
                "paper: features changed": f"{paper.COVID_CHANGES:.2f}" if ours else NOTHING,
                "features changed": Interval.of(part["sparsity"]).text(),
                "paper: L1": f"{paper.COVID_DISTANCE:.2f}" if ours else NOTHING,
                "L1": Interval.of(part["proximity"]).text(),
                "plausible": Interval.of(part["plausible"]).text(),
            }
        )
    note = (
        "Counterfactuals for the test countries that the model calls high-risk; at most three changes of the "
        "actionable features, in the plausible directions (“either way”: without them). L1 in standard deviations. "
        "Plausible: inside the range of the training countries and no farther from the normal ones than these are from "
        "each other."
    )
    return frame_table("Counterfactuals", lines, [note])


def directions_table(frames: Frames) -> Table:
    """Which changes are suggested, beside the five of the paper."""
    table = directions(frames)
    mine = table[table["method"] == METHOD]
    lines = []
    names = dict.fromkeys([*paper.COVID_DIRECTIONS, *mine["feature"]])
    for feature in names:
        printed = paper.COVID_DIRECTIONS.get(feature)
        line = {"feature": str(feature), "paper": {1: "up", -1: "down"}.get(printed or 0, NOTHING)}
        for way, sign in (("up", 1), ("down", -1)):
            cells = mine[(mine["feature"] == feature) & (mine["direction"] == sign)]
            share, splits = cells["share"].sum(), cells["splits"].sum()
            line[way] = f"{share:.0%} (in {splits} splits)" if len(cells) else NOTHING
        lines.append(line)
    return frame_table("Suggested changes, share of counterfactuals", lines)


def covid_claims(frames: Frames) -> list[Claim]:
    """What §6 says, against ours."""
    return [_directions_claim(frames), _numbers_claim(frames)]


def _directions_claim(frames: Frames) -> Claim:
    """Held only if the paper's five changes are the five most frequent ones."""
    table = directions(frames)
    mine = table[table["method"] == METHOD].sort_values("count", ascending=False, kind="stable")
    changes = list(zip(mine["feature"], mine["direction"], mine["share"], strict=True))
    most = {(feature, int(sign)) for feature, sign, _ in changes[: len(paper.COVID_DIRECTIONS)]}
    agreed = len(most & set(paper.COVID_DIRECTIONS.items()))
    by_chance = hypergeom(PERMITTED, len(paper.COVID_DIRECTIONS), len(most))
    status: Status = "held" if agreed == len(paper.COVID_DIRECTIONS) else "not held"
    words = ", ".join(f"{feature} {'up' if sign > 0 else 'down'} {share:.0%}" for feature, sign, share in changes)
    evidence = f"{agreed} of the paper's five are among our five most frequent ones ({words}); of the {PERMITTED} "
    evidence += f"changes that are permitted chance would pick {by_chance.mean():.1f} of them, and as many or more "
    evidence += f"with probability {by_chance.sf(agreed - 1):.2f}; all signs but those of "
    evidence += "Density and Urban_pop are imposed by the constraints"
    text = "Five main changes are suggested: death rate, unemployment, urban population and obesity down, nurses up."
    return Claim("§6", text, status, evidence)


def _numbers_claim(frames: Frames) -> Claim:
    """A number of the paper is compatible with ours if it lies within two standard deviations over splits."""
    part = summary(frames)
    part = part[part["method"] == METHOD]
    explained = frames["models"]
    ours = {
        "accuracy": (Interval.of(explained[explained["model"] == EXPLAINED]["test"]), paper.COVID_ACCURACY),
        "features changed": (Interval.of(part["sparsity"]), paper.COVID_CHANGES),
        "L1": (Interval.of(part["proximity"]), paper.COVID_DISTANCE),
    }
    within = [abs(interval.mean - printed) <= 2 * interval.deviation for interval, printed in ours.values()]
    evidence = ", ".join(f"{name} {interval.text()}" for name, (interval, _) in ours.items())
    text = (
        f"The model has accuracy {paper.COVID_ACCURACY}, the agent changes {paper.COVID_CHANGES} features at L1 "
        f"{paper.COVID_DISTANCE}."
    )
    status: Status = "compatible" if all(within) else "different"
    if any(interval.count < 2 for interval, _ in ours.values()):
        status = "not measured"  # without a spread nothing can be said
    return Claim("§6", text, status, evidence)
