"""What a certificate claims, in one word and in a sentence, and its checksum: the same for whoever makes or checks."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

FORMAT = "relax_plugin.certificate"
VERSION = 1
SEAL = "sha256"
CLAIMS = ("found", "fewest", "closest", "impossible", "already", "not found")
PROVED = ("fewest", "closest", "impossible")  # that may need a proof


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
