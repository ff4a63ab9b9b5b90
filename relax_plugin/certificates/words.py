"""What a certificate claims and what it is about, in words, and its checksum: the same for whoever makes or checks."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from relax_plugin.asked import Asked
from relax_plugin.certificates.allowed import Allowed, allowed_of
from relax_plugin.features import FeatureSpace
from relax_plugin.goal import Goal

FORMAT = "relax_plugin.certificate"
VERSION = 1
SEAL = "sha256"
CLAIMS = ("found", "fewest", "closest", "impossible", "already", "not found")
PROVED = ("fewest", "closest", "impossible")  # that may need a proof


def described(told: Mapping[str, Any], space: FeatureSpace, goal: Goal, asked: Asked | None) -> list[str]:
    """The lines of a certificate that was read; names and texts are quoted, so that no line break can hide in them."""
    query = dict(zip(space.columns, told["query"], strict=True))
    lines = ["Query", *(f"  {name!r} = {cell!r}" for name, cell in query.items())]
    lines += [f"  prediction: {told['before']!r}", "Counterfactual"]
    if told["answer"] is None:
        lines.append("  none")
    else:
        changed = [f"  {name!r} = {cell!r} instead of {query[name]!r}" for name, cell in told["answer"]]
        lines += [*(changed or ["  the query itself"]), f"  prediction: {told['after']!r}"]
    lines += ["Goal", f"  {_goal(goal)}", "Constraints"]
    free = sum(not allowed.frozen for allowed in allowed_of(space, asked))
    most = min(free, len(space) if asked is None else asked.max_changes)
    lines.append(f"  at most {most} of {len(space)} features change")
    lines += [f"  {_constraint(allowed)}" for allowed in allowed_of(space, asked)]
    lines += [f"  column {one.name!r} is computed: {one.formula.text}" for one in space.derived]
    lines += [f"  rule: {rule.text!r}" for rule in space.rules]
    return [*lines, "Claim", f"  {told['word']}"]


def _goal(goal: Goal) -> str:
    if goal.kind == "between":
        return f"a prediction from {goal.low!r} to {goal.high!r}"
    if goal.kind == "shift":
        side = {"up": "higher", "down": "lower"}.get(str(goal.direction), "higher or lower")
        return f"a prediction that is {side} by at least {goal.delta!r}"
    wanted = "another class" if goal.kind == "flip" else f"the class {goal.label!r}"
    if goal.raise_by is not None:
        return f"a probability of {wanted} that is higher by at least {goal.raise_by!r}"
    least = "" if goal.min_probability is None else f" with a probability of at least {goal.min_probability!r}"
    return f"{wanted}{least}"


def _constraint(allowed: Allowed) -> str:
    feature = allowed.feature
    if allowed.frozen:
        return f"{feature.name!r} is fixed"
    if feature.kind == "categorical":
        told = f"one of {', '.join(repr(feature.categories[code]) for code in allowed.codes)}"
    else:
        told = f"from {allowed.low!r} to {allowed.high!r}"
        told += f" in steps of {feature.step!r}" * (feature.step is not None)
    way = {1: ", never lower", -1: ", never higher"}.get(allowed.direction, "")
    filled = ", a missing value may be filled in" * feature.fillable
    return f"{feature.name!r}: {told}{way}{filled}{', may become missing' * feature.vanishable}"


def sentence_of(claim: str, changes: int | None, rows: int, *, priced: bool) -> str:
    """The claim in words; `rows` are those that the model was asked.

    Where features have prices (`priced`), answers are cheap rather than close.
    """
    count = "1 feature" if changes == 1 else f"{changes} features"
    fewest = f"no counterfactual changes fewer than {count}"
    return {
        "found": f"best found within {rows} model rows",
        "fewest": f"proved fewest: {fewest}",
        "closest": f"proved closest: {fewest}, and none that changes {count} {'costs less' if priced else 'is closer'}",
        "impossible": "proved impossible: no counterfactual exists within the limits",
        "already": "the query meets the goal already",
        "not found": f"none found within {rows} model rows; that none exists is not proved",
    }[claim]


def checksum(certificate: Mapping[str, Any]) -> str:
    """Of all that a certificate says but the checksum itself, in whatever order its keys stand."""
    told = {name: value for name, value in certificate.items() if name != SEAL}
    text = json.dumps(told, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
