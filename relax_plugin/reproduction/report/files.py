"""From a folder of results to the report, and to the verdict as a table."""

from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from relax_plugin.errors import InputError
from relax_plugin.files import write_text
from relax_plugin.reproduction.claims.claims import all_claims
from relax_plugin.reproduction.claims.targets import all_targets
from relax_plugin.reproduction.covid.section import covid_claims
from relax_plugin.reproduction.report.page import render
from relax_plugin.reproduction.run import TABLES, Folder


def write_report(folder: Folder, path: Path, *, quick: bool) -> dict[str, pd.DataFrame]:
    """Write the report of what the folder holds, whole or not at all, and give its tables."""
    tables = {name: folder.read(name) for name in TABLES if folder.has(name)}
    if not tables:
        raise InputError(f"{folder.path} holds no results; `relax-plugin reproduce` makes them.")
    write_text(path, render(tables, folder.about(), quick=quick, covid=folder.covid()))
    return tables


def verdict(tables: Mapping[str, pd.DataFrame], covid: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """The claims of the paper and our own targets, one line each, with the figures that decide it."""
    claims = all_claims(tables) + (covid_claims(covid) if covid else [])
    lines = [{"where": c.source, "verdict": c.status, "claim": c.text, "figures": c.evidence} for c in claims]
    lines += [
        {"where": "target", "verdict": "reached" if t.met else "missed", "claim": t.text, "figures": t.evidence}
        for t in all_targets(tables)
    ]
    return pd.DataFrame(lines, columns=["where", "verdict", "claim", "figures"])
