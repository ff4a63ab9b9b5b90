"""treecf and relax_plugin on the same rows of the same tree ensembles: `python -m benchmarks.hosts.against_treecf`.

treecf 0.3 (extra `[treecf]`, or `pip install treecf`) is the strongest rival on trees. Both explain the same queries
in one process, one after the other, in one thread; a row counts as valid if the model's own `predict` says so and the
row keeps the bounds and the grid of the space, whoever proposed it. Distances are ours: standard deviations, a changed
category counting 1. What was seen is in docs/results/treecf.csv, or where `--output` says.
"""

import argparse
import dataclasses
import json
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
import treecf
from sklearn.ensemble import RandomForestClassifier

from relax_plugin import FeatureSpace, Goal, ReLAX
from relax_plugin.certificates.checking import check
from relax_plugin.certificates.words import SEAL, checksum
from relax_plugin.datasets import load
from relax_plugin.errors import CertificateError
from relax_plugin.evaluation.tasks import load_task
from relax_plugin.files import write_text
from relax_plugin.trees.floor import floor

STORED = Path(__file__).resolve().parents[2] / "docs" / "results" / "treecf.csv"
SINGLE = 12  # queries that are asked one by one
POINTS = 10_000  # drawn from regions
SECONDS = 2.0  # that treecf's exact search may take for a query
OBJECTIVES = ("sparse", "closest")
MOST = 3  # changes up to which the floor is sought


class Setting:
    """One model, its queries, and what both are told."""

    def __init__(self, name: str, model: Any, train: pd.DataFrame, test: pd.DataFrame, space: FeatureSpace) -> None:
        self.name, self.model, self.train, self.test, self.space = name, model, train, test, space
        self.before = np.asarray(model.predict(test))
        self.columns = list(train)

    def rival(self) -> treecf.Explainer:
        """treecf's explainer, told the bounds, the grids and the groups of the space."""
        constraints: list[Any] = []
        policy: dict[str, Any] = {}
        for feature in self.space.features:
            group = [column for column in self.columns if column.startswith(f"{feature.name}=")]
            if group:
                constraints.append(treecf.OneHot(group))
                continue
            constraints.append(treecf.Range(feature.name, feature.low, feature.high))
            if feature.step:
                policy[feature.name] = treecf.Grid(step=feature.step, anchor=feature.low)
        sigma = self.train.astype(float).std().replace(0.0, 1.0).to_dict()
        for feature in self.space.features:  # a changed category counts 1, of which each of its two columns is a half
            sigma |= {column: 2.0 for column in self.columns if column.startswith(f"{feature.name}=")}
        return treecf.Explainer(self.model, constraints=constraints, normalizers=sigma, value_policy=policy)

    def judged(self, rows: list[Any]) -> dict[str, float]:
        """Validity, changes and distance of proposals, None or a row for each query, by the model and the space."""
        given = [row if row is not None else self.test.iloc[i].to_numpy(float) for i, row in enumerate(rows)]
        frame = pd.DataFrame(np.array(given), columns=self.columns).astype(self.train.dtypes.to_dict())
        mine, theirs = (self.space.values(table) for table in (self.test, frame))
        snapped = self.space.limits().round_to_grid(theirs)  # a rounding of the last digits is nobody's fault
        theirs = np.where((theirs != mine) & (np.abs(snapped - theirs) < 1e-9), snapped, theirs)
        flipped = np.asarray(self.model.predict(self.space.model_input(theirs))) != self.before
        kept = self.space.limits().kept(theirs, mine)
        there = np.array([row is not None for row in rows])
        valid = there & flipped & kept
        few = (theirs != mine).sum(axis=1)[valid].mean() if valid.any() else np.nan
        distance = self.space.distance(theirs, mine)
        return {
            "valid": valid.mean(),
            "off the grid or bounds": (there & flipped & ~kept).mean(),
            "changes": few,
            "distance": distance[valid].mean() if valid.any() else np.nan,
        }


def settings(count: int) -> Iterator[Setting]:
    """Forests and boosted trees of numbers, and a forest over one-hot columns."""
    for name in ("breast_cancer/rf", "diabetes/ada", "wave2/xgb"):
        task = load_task(name)
        yield Setting(name, task.model, task.X_train, task.X_test.iloc[:count], task.space)
    data = load("german")
    table = pd.get_dummies(data.X, prefix_sep="=", dtype=int)
    train, test = table.iloc[:700], table.iloc[700 : 700 + count]
    model = RandomForestClassifier(100, max_depth=8, random_state=0).fit(train, data.y.iloc[:700])
    texts = [name for name in data.X if not pd.api.types.is_numeric_dtype(data.X[name])]
    groups = {name: [column for column in table if column.startswith(f"{name}=")] for name in texts}
    yield Setting("german, dummies/rf", model, train, test, FeatureSpace.infer(train, one_hot=groups))


def timed(call: Callable[[], Any]) -> tuple[Any, float]:
    """What a call gives, and its CPU seconds."""
    begin = time.process_time()
    return call(), time.process_time() - begin


def theirs(setting: Setting) -> Iterator[dict[str, Any]]:
    """Lines of treecf: its genetic search, and its exact one."""
    try:
        explainer = setting.rival()
    except treecf.TreecfError as error:
        yield {"method": "treecf", "note": f"refused: {error}"}
        return
    rows = setting.test.to_numpy(dtype=float)
    # Forests give their probability as it is, boosted trees its log odds.
    scale = treecf.Target.probability if "SIGMOID" in str(explainer.ir.link).upper() else treecf.Target.raw
    # `predict` sends a tie to the first class; treecf's ranges have their ends, so that it is told the next number.
    high, low = scale(range=(float(np.nextafter(0.5, 1.0)), 1.0)), scale(range=(0.0, 0.5))
    positive = setting.model.classes_[1]
    targets = [low if answer == positive else high for answer in setting.before]
    for backend, said in (("genetic", {}), ("exact", {"time_budget_s": SECONDS})):
        results, seconds = timed(
            lambda backend=backend, said=said: [
                explainer.explain(row, target, backend=backend, seed=0, **said)
                for row, target in zip(rows, targets, strict=True)
            ]
        )
        found = [getattr(result, "x_cf", None) for result in results]
        proved = np.mean([result.proof in ("optimal", "certified") for result in results])
        line = {"method": f"treecf, {backend}", **setting.judged(found), "ms a query": 1000 * seconds / len(rows)}
        if backend == "exact":
            line |= {"proved closest": proved, **their_regions(setting, explainer, rows, results, targets)}
            line |= their_certificates(setting, explainer, results, targets)
        yield line


def their_regions(
    setting: Setting, explainer: Any, rows: Any, results: list[Any], targets: list[Any]
) -> dict[str, Any]:
    """Points of treecf's regions on which the model does not give the wanted answer."""
    rng, wrong, asked, seconds = np.random.default_rng(0), 0, 0, 0.0
    for row, result, target, before in zip(rows, results, targets, setting.before, strict=True):
        if not hasattr(result, "x_cf"):
            continue
        region, cost = timed(
            lambda result=result, row=row, target=target: explainer.recourse_region(row, result.x_cf, target)
        )
        seconds += cost
        many = max(1, POINTS // len(rows))
        low, high = (np.array(side, dtype=float) for side in (region.lo, region.hi))
        low, high = np.where(np.isfinite(low), low, result.x_cf), np.where(np.isfinite(high), high, result.x_cf)
        points = rng.uniform(low, high, (many, len(low)))
        answers = setting.model.predict(pd.DataFrame(points, columns=setting.columns))
        wrong, asked = wrong + int((np.asarray(answers) == before).sum()), asked + many
    return {"region points wrong": wrong, "region points": asked, "ms a region": 1000 * seconds / len(rows)}


def wrong_rows(setting: Setting, query: int, answer: Any) -> Iterator[Any]:
    """Rows that are no counterfactuals: the query itself, and the answer with a number off its grid or its bounds."""
    before = setting.test.iloc[query].to_numpy(dtype=float)
    yield before
    for feature in setting.space.features:
        place = setting.columns.index(feature.name) if feature.name in setting.columns else None
        if place is None or answer[place] == before[place]:
            continue
        moved = [feature.high + (feature.high - feature.low)] + [answer[place] + feature.step / 2] * bool(feature.step)
        for value in moved:
            row = np.array(answer, dtype=float)
            row[place] = value
            yield row


def their_certificates(setting: Setting, explainer: Any, results: list[Any], targets: list[Any]) -> dict[str, Any]:
    """How many certificates that treecf writes for wrong rows its own validator refuses."""
    refused = asked = 0
    for query, (result, target) in enumerate(zip(results, targets, strict=True)):
        if not hasattr(result, "x_cf"):
            continue
        row = setting.test.iloc[query].to_numpy(dtype=float)
        for wrong in wrong_rows(setting, query, result.x_cf):
            told = explainer.certificate(row, dataclasses.replace(result, x_cf=wrong), target)
            checked = explainer.check_certificate(json.loads(json.dumps(told)))
            good = checked["model_match"] and checked["constraints_match"] and checked["verification_ok"]
            refused, asked = refused + (not good), asked + 1
    return {"wrong certificates refused": refused, "wrong certificates": asked}


def our_certificates(setting: Setting, result: Any) -> dict[str, Any]:
    """How many certificates are refused whose answers were replaced by wrong rows, with all else set to fit them."""
    refused = asked = 0
    rows = result.frame.set_index("query_id")[setting.columns]
    for query in rows.index:
        told = result.certificate(int(query))
        for wrong in wrong_rows(setting, query, rows.loc[query].to_numpy(dtype=float)):
            refused, asked = refused + _is_refused(_altered(setting, told, query, wrong), setting.model), asked + 1
    return {"wrong certificates refused": refused, "wrong certificates": asked}


def _altered(setting: Setting, told: dict[str, Any], query: int, wrong: Any) -> dict[str, Any]:
    """A certificate that tells a wrong row, its own number of changes, distance and answer, under a right checksum."""
    own = setting.test.iloc[[query]]
    frame = pd.DataFrame([wrong], columns=setting.columns)
    start, end = setting.space.values(own), setting.space.values(frame)
    cells = zip(setting.columns, own.iloc[0].to_numpy(dtype=float), wrong, strict=True)
    answer = [
        [name, int(new) if new % 1 == 0 and own[name].dtype.kind in "iu" else new]
        for name, old, new in cells
        if new != old
    ]
    other = {
        **{name: value for name, value in told.items() if name not in ("scores_after", SEAL)},
        "claim": "found",
        "word": f"best found within {told['rows']} model rows",
        "answer": answer,
        "after": np.asarray(setting.model.predict(frame)).tolist()[0],
        "changes": int((start != end).sum()),
        "distance": float(setting.space.distance(end, start)[0]),
    }
    return {**other, SEAL: checksum(other)}


def _is_refused(told: dict[str, Any], model: Any) -> bool:
    try:
        check(told, model)
    except CertificateError:
        return True
    return False


def our_regions(setting: Setting, explainer: Any, result: Any) -> dict[str, Any]:
    """Points of our regions, drawn on the grid of the space, on which the model does not give the wanted answer."""
    regions, seconds = timed(lambda: result.regions(explainer))
    rng, wrong, asked, space = np.random.default_rng(0), 0, 0, setting.space
    many = max(1, POINTS // len(setting.test))
    names = [feature.name for feature in space.features]
    for query in np.flatnonzero(result.found[:, 0]):
        points = np.repeat(result.values[query, :1], many, axis=0)
        for name, region in regions.box(int(query)).ranges.items():
            j = names.index(name)
            if isinstance(region, list):
                codes = [list(space.features[j].categories).index(category) for category in region]
                points[:, j] = rng.choice(codes, many)
            else:
                points[:, j] = rng.uniform(*region, many)
        points = space.limits().round_to_grid(points)  # between two points of a grid there is no row
        answers = np.asarray(setting.model.predict(space.model_input(points)))
        wrong, asked = wrong + int((answers == setting.before[query]).sum()), asked + many
    return {
        "ms a region": 1000 * seconds / len(setting.test),
        "region points wrong": wrong,
        "region points": asked,
        "regions proved": (regions.table["kind"] == "proved").mean(),
    }


def ours(setting: Setting) -> Iterator[dict[str, Any]]:
    """Lines of ReLAX by both objectives, and of the floor."""
    for objective in OBJECTIVES:
        explainer, fit = timed(
            lambda objective=objective: ReLAX(
                setting.model,
                setting.space,
                goal=Goal.flip(),
                objective=objective,
                seed=0,
            ).fit(setting.train)
        )
        result, seconds = timed(lambda explainer=explainer: explainer.explain(setting.test))
        slots = dict(zip(result.frame["query_id"], result.frame[setting.columns].to_numpy(dtype=float), strict=True))
        found = [slots.get(query) for query in range(len(setting.test))]
        single = [
            timed(lambda i=i, explainer=explainer: explainer.explain(setting.test.iloc[[i]]))[1]
            for i in range(min(SINGLE, len(setting.test)))
        ]
        line = {
            "method": f"relax-global, {objective}",
            **setting.judged(found),
            "ms a query": 1000 * seconds / len(found),
            "ms a single query": 1000 * float(np.median(single)),
            "fit seconds": fit,
        }
        if objective == "sparse":
            line |= our_regions(setting, explainer, result) | our_certificates(setting, result)
        yield line
    best, seconds = timed(lambda: floor(setting.model, setting.space, setting.test, Goal.flip(), most_changes=MOST))
    known = best.changes >= 0
    yield {
        "method": f"the floor, up to {MOST} changes",
        "changes": best.changes[known].mean(),
        "distance": best.distance[known].mean(),
        "proved fewest": float((known | (best.proved > MOST) | ~best.possible).mean()),
        "ms a query": 1000 * seconds / len(setting.test),
    }


def main() -> None:
    """Every setting; the table is printed and stored."""
    parser = argparse.ArgumentParser(description="treecf and relax_plugin on the same queries.")
    parser.add_argument("--rows", type=int, default=100)
    parser.add_argument("--only", nargs="*", default=None, help="settings, by a part of their names")
    parser.add_argument("--output", type=Path, default=STORED)
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    lines: list[dict[str, Any]] = []
    for setting in settings(chosen.rows):
        if chosen.only and not any(part in setting.name for part in chosen.only):
            continue
        for line in (*theirs(setting), *ours(setting)):
            lines.append({"model": setting.name, **line})
            print(pd.DataFrame(lines[-1:]).round(3).to_string(index=False), flush=True)
    write_text(chosen.output, pd.DataFrame(lines).round(6).to_csv(index=False))


if __name__ == "__main__":
    main()
