"""From a folder of results to the report, and to the verdict as a table."""

from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from benchmarks.reproduction.claims.claims import all_claims
from benchmarks.reproduction.claims.targets import all_targets
from benchmarks.reproduction.covid.section import covid_claims
from benchmarks.reproduction.report.page import render
from benchmarks.reproduction.run import TABLES, VERDICTS, Folder
from relax_plugin.errors import InputError
from relax_plugin.files import write_text

COLUMNS = ["where", "verdict", "claim", "figures"]


def write_report(folder: Folder, path: Path, *, quick: bool) -> dict[str, pd.DataFrame]:
    """Write the report of what the folder holds, whole or not at all, keep its verdicts, and give its tables."""
    tables = {name: folder.read(name) for name in TABLES if folder.has(name)}
    if not tables:
        raise InputError(f"{folder.path} holds no results; `relax-plugin reproduce` makes them.")
    about, covid, before = folder.about(), folder.covid(), folder.verdicts_before()
    decided = verdict(tables, covid, before)
    changes = changed(decided, before)
    write_text(path, render(tables, about, quick=quick, covid=covid, changes=changes))
    folder.write(VERDICTS, decided[COLUMNS])
    return tables


def verdict(
    tables: Mapping[str, pd.DataFrame], covid: Mapping[str, pd.DataFrame], before: pd.DataFrame | None
) -> pd.DataFrame:
    """The claims of the paper and our own targets, one line each, with the figures that decide it.

    `before` is what was decided in the run before of the same claim in the same words, else "new"; "" without a run
    before.
    """
    claims = all_claims(tables) + (covid_claims(covid) if covid else [])
    lines = [{"where": c.source, "verdict": c.status, "claim": c.text, "figures": c.evidence} for c in claims]
    lines += [
        {"where": "target", "verdict": "reached" if t.met else "missed", "claim": t.text, "figures": t.evidence}
        for t in all_targets(tables)
    ]
    decided = pd.DataFrame(lines, columns=COLUMNS)
    if before is None:
        return decided.assign(before="")
    return decided.assign(before=decided["claim"].map(before.set_index("claim")["verdict"]).fillna("new"))


def changed(decided: pd.DataFrame, before: pd.DataFrame | None) -> list[str]:
    """In a sentence each, what is decided otherwise than before, what is new, and what is no longer asked."""
    if before is None:
        return []
    other = decided[decided["before"] != decided["verdict"]]
    told = [f"{line.where}, {line.before} → {line.verdict}: {line.claim}" for line in other.itertuples()]
    dropped = before[~before["claim"].isin(decided["claim"])]
    return told + [f"{line.where}, {line.verdict} → no longer asked: {line.claim}" for line in dropped.itertuples()]
