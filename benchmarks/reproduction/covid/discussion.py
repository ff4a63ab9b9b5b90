"""What the COVID-19 study shows: a table of its methods, which changes they suggest, and what these cannot advise.

Everything is computed from the frames of `benchmarks.reproduction.covid.study.study`, combined over seeds.
"""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from benchmarks.reproduction.covid.study import EXPLAINED, FREE

METHOD = "relax-global"

DISCUSSION = (
    "A counterfactual tells which inputs make this model answer otherwise; it does not tell that a country with these "
    "inputs would have had fewer deaths, for the {rows} countries of the table were only observed, no input was ever "
    "set on purpose, and nothing in model or search knows causes from effects.",
    "The model itself is uncertain: over {splits} splits its accuracy on {test_rows} test countries is {accuracy:.2f} "
    "({lowest:.2f} to {highest:.2f}), where always answering 'normal' has {majority:.2f}; one country more or less is "
    "{one_country:.2f}, and {explained} was the best of the four by cross-validation in {best} of {splits} splits.",
    "The advice depends on which countries the model happened to see: put to models of the same kind trained on other "
    "splits, that had not seen the country and call it high-risk too, {confirmed:.0%} of the counterfactuals make the "
    "answer 'normal' ({asked} questions), and the share of counterfactuals that change {commonest} goes from "
    "{commonest_low:.0%} to {commonest_high:.0%} between splits.",
    "The sensible directions are put in by hand: in the table high-risk countries have more doctors (correlation of "
    "Doc_per with the class {doctors:+.2f}), and so have older populations (with age taken out it is "
    "{doctors_given_age:+.2f}); asked without the directions the same method lowers Doc_per in {fewer_doctors} "
    "and raises it in {more_doctors} of {free_found} counterfactuals, and {against:.0%} of all its changes of one-way "
    "features go against the way that was called plausible.",
    "Some suggestions are no actions: Death_rate, lowered in {death_rate} of {found} counterfactuals by a median of "
    "{death_rate_size:.1f} standard deviations, is close to the outcome itself and follows age (correlation with "
    "median_age {death_rate_age:+.2f}); GDP is a total, not per head (correlation with population "
    "{gdp_population:+.2f}); Density is population by area, which are both held fixed, so that the {contradictions} "
    "counterfactuals that change it describe no possible country.",
    "As descriptions of the model they have been checked: for {queries} high-risk answers {claimed} counterfactuals "
    "were delivered, of which the model confirms {found}, with {violations} violated constraints; {plausible:.0%} of "
    "the answers have one that lies where normal training countries lie (of the countries as they are, "
    "{query_plausible:.0%} do); greedy search finds {greedy_found}.",
    "So they can show what the model attends to, where a small change of one number turns its answer, and which of its "
    "habits should be doubted before it is used; which policy lowers mortality has to come from elsewhere.",
)
"""Sentences with fields that `discussion` computes."""


def summary(frames: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Each method on each split: how many are called high-risk, validity, features changed, L1, plausibility.

    Parameters
    ----------
    frames : mapping
        Of `study` or `combine`.

    Returns
    -------
    DataFrame
        Columns `method`, `seed`, `called_high`, `truly_high` (of these), `validity`, `sparsity`, `proximity`,
        `median_proximity`, `inside_box`, `plausible`, `contradiction` (shares of all queries).
    """
    cells = frames["counterfactuals"].groupby(["method", "seed"], sort=False)
    table = cells.agg(
        called_high=("query", "size"),
        truly_high=("truly_high", "sum"),
        validity=("valid", "mean"),
        sparsity=("sparsity", "mean"),
        proximity=("proximity", "mean"),
        median_proximity=("proximity", "median"),
        inside_box=("inside_box", "mean"),
        plausible=("plausible", "mean"),
        contradiction=("contradiction", "mean"),
    )
    return table.reset_index()


def directions(frames: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """How often each method raises and lowers each feature.

    Returns
    -------
    DataFrame
        Columns `method`, `feature`, `direction` (+1, -1), `count` (counterfactuals), `splits` (in how many of them it
        is suggested at all), `share` (of the method's counterfactuals), `least` and `most` (that share in the split
        that has the fewest and the most), `median_size` (standard deviations).
    """
    changes, queries = frames["changes"], frames["counterfactuals"]
    found = queries[queries["valid"].astype(bool)].groupby(["method", "seed"]).size()
    rows = []
    for key, part in changes.groupby(["method", "feature", "direction"], sort=True):
        method, feature, direction = key
        here = found.xs(method, level="method")
        counts = part.groupby("seed").size().reindex(here.index, fill_value=0)
        rows.append(
            {
                "method": method,
                "feature": feature,
                "direction": direction,
                "count": len(part),
                "splits": int((counts > 0).sum()),
                "share": len(part) / here.sum(),
                "least": (counts / here).min(),
                "most": (counts / here).max(),
                "median_size": part["size"].median(),
            }
        )
    names = ["method", "feature", "direction", "count", "splits", "share", "least", "most", "median_size"]
    return pd.DataFrame(rows, columns=names)


def transfer(frames: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """How many counterfactuals convince models of other splits that call the country high-risk too.

    Returns
    -------
    DataFrame
        Columns `method`, `held_out` (whether the other model had not seen the country), `asked` (pairs of a
        counterfactual and another model), `confirmed` (the share that this model calls normal).
    """
    rows = frames["transfer"]
    asked = rows[rows["high_before"].astype(bool)].assign(normal_after=lambda part: part["normal_after"].astype(float))
    cells = asked.groupby(["method", "held_out"], sort=False)["normal_after"]
    return cells.agg(asked="size", confirmed="mean").reset_index()


def discussion(frames: Mapping[str, pd.DataFrame]) -> list[str]:
    """The sentences of `DISCUSSION`, with the numbers of these frames."""
    numbers = _of_models(frames) | _of_counterfactuals(frames) | _of_directions(frames)
    return [sentence.format(**numbers) for sentence in DISCUSSION]


def _of_models(frames: Mapping[str, pd.DataFrame]) -> dict[str, Any]:
    models = frames["models"]
    explained = models[models["model"] == EXPLAINED]
    best = models.groupby("seed")["cv"].transform("max")
    return {
        "rows": int(explained["training_rows"].iloc[0] + explained["test_rows"].iloc[0]),
        "test_rows": int(explained["test_rows"].iloc[0]),
        "splits": len(explained),
        "accuracy": explained["test"].mean(),
        "lowest": explained["test"].min(),
        "highest": explained["test"].max(),
        "majority": explained["majority"].mean(),
        "one_country": 1 / explained["test_rows"].iloc[0],
        "explained": EXPLAINED,
        "best": int((explained["cv"] >= best[explained.index]).sum()),
    }


def _of_counterfactuals(frames: Mapping[str, pd.DataFrame]) -> dict[str, Any]:
    queries = frames["counterfactuals"]
    mine = queries[queries["method"] == METHOD]
    others = transfer(frames)
    others = others[(others["method"] == METHOD) & others["held_out"].astype(bool)]
    return {
        "found": int(mine["valid"].sum()),
        "claimed": int(mine["claimed"].sum()),
        "queries": len(mine),
        "violations": int(mine["violations"].sum()),
        "plausible": mine["plausible"].mean(),
        "query_plausible": mine["query_plausible"].mean(),
        "contradictions": int(mine["contradiction"].sum()),
        "greedy_found": int(queries.loc[queries["method"] == "greedy", "valid"].sum()),
        "free_found": int(queries.loc[queries["method"] == FREE, "valid"].sum()),
        "confirmed": others["confirmed"].iloc[0] if len(others) else float("nan"),
        "asked": int(others["asked"].sum()),
    }


def _of_directions(frames: Mapping[str, pd.DataFrame]) -> dict[str, Any]:
    table = directions(frames)
    mine, free = table[table["method"] == METHOD], table[table["method"] == FREE]
    association = frames["association"].drop_duplicates("feature").set_index("feature")
    commonest = mine.sort_values("count", kind="stable").tail(1)
    deaths = mine[mine["feature"] == "Death_rate"]
    doctors = free[free["feature"] == "Doc_per"].groupby("direction")["count"].sum()
    allowed = association["allowed"].reindex(free["feature"]).to_numpy()
    one_way = free[allowed != 0]
    wrong = one_way["direction"].to_numpy() != allowed[allowed != 0]
    return {
        "commonest": commonest["feature"].iloc[0] if len(commonest) else "a feature",
        "commonest_low": commonest["least"].sum(),
        "commonest_high": commonest["most"].sum(),
        "doctors": association.loc["Doc_per", "correlation"],
        "doctors_given_age": association.loc["Doc_per", "given_age"],
        "fewer_doctors": int(doctors.get(-1, 0)),
        "more_doctors": int(doctors.get(1, 0)),
        "against": one_way["count"][wrong].sum() / one_way["count"].sum() if len(one_way) else float("nan"),
        "death_rate": int(deaths["count"].sum()),
        "death_rate_size": deaths["median_size"].iloc[0] if len(deaths) else float("nan"),
        "death_rate_age": association.loc["Death_rate", "with_age"],
        "gdp_population": association.loc["GDP", "with_population"],
    }
