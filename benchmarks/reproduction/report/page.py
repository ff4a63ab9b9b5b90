"""The report of a reproduction: one HTML file with the verdict first, and each table and figure beside the paper's."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, get_args

import pandas as pd
from markupsafe import Markup

from benchmarks.reproduction.claims.claims import all_claims
from benchmarks.reproduction.claims.comparisons import Status
from benchmarks.reproduction.claims.targets import all_targets
from benchmarks.reproduction.covid.section import covid_claims, section
from benchmarks.reproduction.report import pictures
from benchmarks.reproduction.report.tables import all_tables
from relax_plugin.pages.html import inline, template

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Tables = Mapping[str, pd.DataFrame]
MOST_LINES = 14  # of a table that is shown at once; a longer one is folded

SECTIONS = {  # name: title, what the paper says
    "models": ("1. Data sets and models", "Tables 1 and 2."),
    "sparsity": (
        "2. Sparsity against validity",
        "Figure 3, a picture without numbers. The text says: ReLAX outperforms all baselines in validity, even when "
        "few features may change; with a softer cap others like LORE may match it; DeepFool and Nearest-CT fall "
        "outside the range shown.",
    ),
    "regression": ("3. Regression", "Table 3."),
    "proximity": ("4. Proximity and generation time", "Table 4. The text says: up to 42 % less time than the others."),
    "lambda": (
        "5. The weight λ of the distance",
        "Figure 4, a picture without numbers. The text says: a larger λ gives sparser counterfactuals at the expense "
        "of validity, a smaller one the opposite.",
    ),
    "architecture": ("6. The size of the network", "Table 5."),
    "pretraining": ("7. Pretraining", "Table 6."),
    "ablation": ("8. Ablation", "The paper prints none."),
}

FIGURES: dict[str, list[tuple[str, "Callable[[pd.DataFrame], Figure]", str]]] = {
    "sparsity": [
        (
            "trade-off",
            pictures.trade_off,
            "Figure 3 repeated: each point is a method run with a cap of 1 to 5 changed features (slow ones with 1, 3 "
            "and 5, the slowest with 5 only), at the mean number of changes of its valid counterfactuals and its "
            "validity over all queries (a missing one is invalid), means over seeds. Further up and to the left is "
            "better. A line of panels is a model, a column a group of methods, in colour; all others are the grey "
            "lines, and ReLAX-Global, blue, is in every panel.",
        ),
        (
            "caps",
            pictures.validity_at_cap,
            "Validity when at most k features may change. Where a method was not run with that very cap, it is the "
            "better of the share it solved with at most k changes under the next larger cap and of what it solved "
            "under the next smaller one. Slow methods have fewer rows. Panels and colours as above.",
        ),
    ],
    "regression": [
        (
            "units",
            pictures.unit_effect,
            "ReLAX-Global under the same δ in three units; bands are one standard deviation over seeds.",
        )
    ],
    "lambda": [
        (
            "lambda",
            pictures.lambda_effect,
            "Figure 4 repeated: at most five features may change; the agent alone, without the search that is the "
            "default of this package. Left only where every seed solves some query: elsewhere there is no sparsity.",
        )
    ],
    "pretraining": [
        (
            "pretraining",
            pictures.pretraining_effect,
            "What a step of fine-tuning buys; bands are one standard deviation.",
        )
    ],
    "ablation": [
        (
            "ablation",
            pictures.ablation_effect,
            "Points are means over seeds, lines their 95 % intervals; the grey bands are those of what a variant is "
            "held against: the default, or the letter of the paper without curiosity.",
        )
    ],
}


def render(
    tables: Tables,
    about: Sequence[Mapping[str, Any]],
    *,
    quick: bool,
    covid: Tables | None = None,
    changes: Sequence[str] = (),
) -> str:
    """The report as text; the same tables give the same text.

    Parameters
    ----------
    tables : mapping of part to its tidy frame
    about : list
        What was run with which versions, on which machine.
    quick : bool
        Whether these are the results of the quick run, which the page then says.
    covid : mapping, optional
        The frames of the case study, if it was run.
    changes : texts
        What is decided otherwise than in the run before.
    """
    made = all_tables(tables)
    claims, targets = all_claims(tables), all_targets(tables)
    claims += covid_claims(covid) if covid else []
    return template("reproduction.html.jinja").render(
        title="The ReLAX paper, reproduced",
        quick=quick,
        claims=claims,
        counts=_counts([claim.status for claim in claims]),
        targets=targets,
        changes=changes,
        most_lines=MOST_LINES,
        sections=[
            {
                "name": name,
                "title": title,
                "paper": paper,
                "tables": made.get(name, []),
                "figures": _figures(name, tables),
                "skipped": _skipped(tables.get(name)),
            }
            for name, (title, paper) in SECTIONS.items()
            if name in tables or name in made
        ],
        covid=section(covid) if covid else None,
        seeds=sorted(set(tables["models"]["seed"].tolist())) if "models" in tables else [],
        about=about,
        failures=[line for name, frame in tables.items() if "state" in frame for line in _failures(name, frame)],
    )


def _figures(section: str, tables: Tables) -> list[dict[str, Any]]:
    return [
        {"svg": Markup(inline(draw(tables[section]), name, caption)), "caption": caption}
        for name, draw, caption in FIGURES.get(section, [])
        if section in tables
    ]


def _counts(statuses: Sequence[str]) -> dict[str, int]:
    order = get_args(Status)
    return {status: statuses.count(status) for status in order if status in statuses}


def _skipped(frame: pd.DataFrame | None) -> list[str]:
    """Methods that do not apply, with the reason, each once."""
    if frame is None or "state" not in frame:
        return []
    skipped = frame[frame["state"] == "skipped"].drop_duplicates(["task", "method"])
    return [f"{line['method']} on {line['task']}: {line['reason']}" for line in skipped.to_dict("records")]


def _failures(part: str, frame: pd.DataFrame) -> list[str]:
    failed = frame[frame["state"].isin(["crashed", "timed out"])]
    return [
        f"{part}: {line['method']} on {line['task']}, seed {line['seed']}: {line['state']}, {line['reason']}"
        for line in failed.to_dict("records")
    ]
