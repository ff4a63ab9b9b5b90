"""Spaces in few letters: what is the same for every feature is written once, and what is as usual not at all."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from relax_plugin.errors import CertificateError
from relax_plugin.features import FeatureSpace
from relax_plugin.table.columns import Feature
from relax_plugin.table.feature_files import dtype_text

USUAL = {field.name: field.default for field in dataclasses.fields(Feature)}
ALL = "all"  # the key of a value that every feature has
DIGITS = 11  # of means and scales: distances are compared in fewer, and a certificate is to be small


def space_to_plain(space: FeatureSpace) -> dict[str, Any]:
    """The space without its rules and words for people, a list for each field of its features."""
    data = space.to_dict()
    rows = data["features"]
    fields: dict[str, Any] = {}
    for name, usual in USUAL.items():
        column = [_short(row, name) for row in rows]
        if all(_same(cell, list(usual) if isinstance(usual, tuple) else usual) for cell in column):
            continue
        fields[name] = {ALL: column[0]} if all(_same(cell, column[0]) for cell in column) else column
    written: dict[str, Any] = {"features": fields}
    if data["columns"] != [row["name"] for row in rows]:
        written["columns"] = data["columns"]
    if data["derived"]:
        written["derived"] = data["derived"]
    return written | {name: data[name] for name in ("container", "array_dtype")}


def space_from_plain(data: Mapping[str, Any], rules: list[Any]) -> FeatureSpace:
    """What `space_to_plain` wrote, with the rules that stood beside it."""
    fields: dict[str, Any] = dict(data["features"])
    if unknown := [name for name in fields if name not in USUAL]:
        raise CertificateError(f"its space has features with {unknown[0]!r}, which features do not have.")
    names = fields["name"][ALL] if isinstance(fields["name"], dict) else fields["name"]
    names = names if isinstance(names, list) else [names]
    rows = []
    for place in range(len(names)):
        row = {}
        for name, usual in USUAL.items():
            column = fields.get(name, {ALL: list(usual) if isinstance(usual, tuple) else usual})
            row[name] = column[ALL] if isinstance(column, dict) else column[place]
        if row["choices"] is True:
            row["choices"] = [True] * len(row["categories"])
        rows.append(row)
    columns = data.get("columns", names)
    usual_data = {"columns": columns, "derived": data.get("derived", []), "labels": [], "rules": rules}
    return FeatureSpace.from_dict({**usual_data, "features": rows, **_kept(data)})


def column_dtypes(space: FeatureSpace) -> list[str]:
    """The dtype of each column as the training rows had it, as text."""
    own = {f.name: f.dtype for f in space.features if not f.columns} | {one.name: one.dtype for one in space.derived}
    for feature in space.features:
        own |= dict(zip(feature.columns, feature.dtypes, strict=True))
    return [dtype_text(own[name]) for name in space.columns]


def _kept(data: Mapping[str, Any]) -> dict[str, Any]:
    return {name: data[name] for name in ("container", "array_dtype")}


def _short(row: Mapping[str, Any], name: str) -> Any:
    """A field of a feature in few letters: of choices True, where every category may be chosen."""
    if name in ("mean", "scale"):
        return float(f"{row[name]:.{DIGITS}g}")
    return True if name == "choices" and row[name] and all(row[name]) else row[name]


def _same(one: Any, other: Any) -> bool:
    """Whether two plain values are written alike: 1 and True are not."""
    return type(one) is type(other) and bool(one == other)
