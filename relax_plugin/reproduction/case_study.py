"""The COVID-19 case study as a part of the reproduction: run for each seed, and shown beside the paper's numbers."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import joblib
import pandas as pd
from markupsafe import Markup

from relax_plugin import datasets
from relax_plugin.errors import MissingDataError
from relax_plugin.evaluation.files import write_text
from relax_plugin.evaluation.svg import inline
from relax_plugin.reproduction import paper
from relax_plugin.reproduction.claims import Claim, Status
from relax_plugin.reproduction.covid import EXPLAINED, combine, study
from relax_plugin.reproduction.covid_discussion import METHOD, directions, discussion, summary
from relax_plugin.reproduction.covid_pictures import picture
from relax_plugin.reproduction.intervals import Interval
from relax_plugin.reproduction.tables import NOTHING, Table, frame_table

FRAMES = ("models", "counterfactuals", "changes", "importance", "transfer", "association")
CAPTION = (
    "Left: the importance of the features in the explained model (gain), mean and range over splits. Right: how many "
    "counterfactuals raise or lower each actionable feature, over all splits. The paper's figure 5 shows one split."
)

Frames = Mapping[str, pd.DataFrame]


def run_studies(folder: Path, seeds: Sequence[int], jobs: int, say: Callable[[str], None]) -> dict[str, pd.DataFrame]:
    """The frames of all seeds, each seed stored as soon as it is done; none if the table is not there."""
    try:
        datasets.load("covid")
    except MissingDataError as error:
        say(f"The case study is left out: {error}")
        return {}

    def path(name: str, seed: int) -> Path:
        return folder / f"{name}-{seed}.csv"

    missing = [seed for seed in seeds if not path(FRAMES[-1], seed).exists()]
    calls = (joblib.delayed(_numbered)(seed) for seed in missing)
    done = joblib.Parallel(n_jobs=jobs, return_as="generator_unordered", inner_max_num_threads=1, backend="loky")(calls)
    for seed, frames in done:
        for name in FRAMES:  # the last one says that all are there
            write_text(path(name, seed), frames[name].to_csv(index=False))
        say(f"[covid] split {seed}: {len(frames['changes'])} changes suggested")
    return combine([{name: pd.read_csv(path(name, seed)) for name in FRAMES} for seed in seeds])


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
    """What §6 claims, against ours."""
    table = directions(frames)
    mine = table[table["method"] == METHOD]
    splits = int(frames["models"]["seed"].nunique())
    words, everywhere = [], 0
    for feature, sign in paper.COVID_DIRECTIONS.items():
        seen = int(mine[(mine["feature"] == feature) & (mine["direction"] == sign)]["splits"].sum())
        everywhere += seen == splits
        words.append(f"{feature} {'up' if sign > 0 else 'down'} in {seen} of {splits} splits")
    status: Status = "held in part" if everywhere else "not held"
    if everywhere == len(paper.COVID_DIRECTIONS):
        status = "held"
    text = "Five changes are suggested: death rate, unemployment, urban population and obesity down, nurses up."
    claims = [Claim("§6", text, status, ", ".join(words))]
    part = summary(frames)
    part = part[part["method"] == METHOD]
    changed, distance = Interval.of(part["sparsity"]), Interval.of(part["proximity"])
    accuracy = Interval.of(frames["models"].query("model == @EXPLAINED")["test"])
    within = [
        interval.low <= printed <= interval.high
        for interval, printed in (
            (accuracy, paper.COVID_ACCURACY),
            (changed, paper.COVID_CHANGES),
            (distance, paper.COVID_DISTANCE),
        )
    ]
    evidence = f"accuracy {accuracy.text()}, features changed {changed.text()}, L1 {distance.text()}"
    text = (
        f"The model has accuracy {paper.COVID_ACCURACY}, the agent changes {paper.COVID_CHANGES} features at L1 "
        f"{paper.COVID_DISTANCE} (held: the paper's numbers lie in our intervals)."
    )
    held: Status = "held" if all(within) else "held in part" if any(within) else "not held"
    return [*claims, Claim("§6", text, held, evidence)]
