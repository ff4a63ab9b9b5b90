"""FeatureSpace: what the features are, and the translation between the user's rows and plain numbers.

Inside the package a row is a vector of float64 *values*: numbers stay in the user's unit, a category is its position in
the feature's list. Networks see the *encoded* row (standardised). Keeping the user's unit is what makes an unchanged
cell bit-identical: nothing is ever scaled forth and back.
"""

import copy
import warnings
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd

from relax_plugin.arrays import Booleans, Floats, Values
from relax_plugin.cached import cached_property
from relax_plugin.errors import ColumnError, ConstraintError, InputError
from relax_plugin.limits import Limits
from relax_plugin.rules.rule import BoundFunction, BoundRule, Rule
from relax_plugin.table.columns import Feature, with_cost
from relax_plugin.table.constraints import Bounds as Bounds
from relax_plugin.table.constraints import Constraints, limits_of, mapped, no_features, refuse_unknown
from relax_plugin.table.derived import bind_formulas, contradicted, read_formulas, refuse_wrong_formula
from relax_plugin.table.feature_files import (
    dtype_from_text,
    dtype_text,
    feature_from_dict,
    feature_to_dict,
    plain,
    refuse_unwritable,
)
from relax_plugin.table.inference import infer_features
from relax_plugin.table.labels import Labels, labels_from_dict, labels_to_dict, read_labels
from relax_plugin.table.tables import Rows as Rows
from relax_plugin.table.tables import array_dtype, as_frame, pandas_or_array
from relax_plugin.table.translation import Translation
from relax_plugin.table.vocabulary import Foreign

NOTHING_FIXED = "No feature is fixed: each may change in either direction."


class FeatureSpace(Translation):
    """The features in order, with their kinds, bounds and constraints.

    Parameters
    ----------
    features : sequence of Feature
    container : "frame" or "array"
        What the rows came in, and so what the model is asked with.
    array_dtype : str
        Of an array.
    columns : sequence of names, optional
        All columns of the rows, in their order; by default those of the features.
    foreign : mapping of the position of a feature to Foreign, optional
        Cells that are none of its categories.
    derived : sequence of Derived
        Columns that are computed from others, each from those before it.
    rules : sequence of Rule
        What every answer must keep.
    labels : mapping
        Words for people: of a feature, or of its categories.
    """

    def __repr__(self) -> str:
        lines = []
        for f in self.features:
            values = list(f.categories) if f.kind == "categorical" else f"[{f.low:g}, {f.high:g}] step {f.step}"
            rule = "immutable" if f.immutable else (f"{f.direction} only" if f.direction else "free")
            barred = [category for category, chosen in zip(f.categories, f.choices, strict=False) if not chosen]
            rule += f", never {barred}" if barred else ""
            rule += f", cost {f.cost:g}" if f.cost != 1 else ""
            lines.append(f"  {f.name}: {f.kind}, {values}, {rule}")
        note = f"\n{NOTHING_FIXED}" if self.nothing_is_fixed else ""
        return "FeatureSpace(\n" + "\n".join(lines) + f"\n){note}"

    @property
    def nothing_is_fixed(self) -> bool:
        """Whether every feature may change in either direction, and no rule says more."""
        own = [f for f in self.features if not f.carried]
        return not (self.rules or any(f.immutable or f.direction or not all(f.choices) for f in own))

    def _repr_html_(self) -> str:
        from relax_plugin.reading.notebook import space_html

        return space_html(self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FeatureSpace) and self.rules == other.rules and self._data() == other._data()

    __hash__ = None  # type: ignore[assignment]

    @classmethod
    def infer(
        cls,
        X: Rows,
        *,
        categorical: Iterable[Hashable] = (),
        continuous: Iterable[Hashable] = (),
        immutable: Iterable[Hashable] = (),
        increase_only: Iterable[Hashable] = (),
        decrease_only: Iterable[Hashable] = (),
        bounds: Bounds | None = None,
        steps: Mapping[Any, float] | None = None,
        one_hot: Mapping[Any, Sequence[Hashable]] | Literal["auto"] | None = None,
        ordered: Mapping[Any, Sequence[Any]] | None = None,
        derived: Mapping[Any, str | tuple[str, float]] | None = None,
        rules: Iterable[str | Rule] = (),
        costs: Mapping[Any, float] | None = None,
        fill_missing: Iterable[Hashable] = (),
        may_vanish: Iterable[Hashable] = (),
        labels: Labels | None = None,
    ) -> "FeatureSpace":
        """Read the space off training rows; what is not said comes from the data.

        Text, bool and pandas Categorical columns are categorical; whole numbers are integers unless named in
        `continuous`; other numbers keep the data's decimals. Whatever else there is (dates, lists, remarks) is carried
        to the model as it is. Missing cells stay missing.

        Parameters
        ----------
        X : DataFrame or array
            Training rows.
        categorical, continuous : names
        immutable, increase_only, decrease_only : names
        bounds : mapping of name to (low, high), or to the categories that may be chosen
        steps : mapping of name to the grid that its values lie on, counted from its low end
        one_hot : mapping of a name to its columns, or "auto"
            Columns that are one feature, since just one of them is 1; "auto" finds them and says so.
        ordered : mapping of name to its categories in order
        derived : mapping of a column to its formula, or to (formula, tolerance)
            The column is computed from the others; it is never chosen, and no change of its own. Cells that differ
            from the formula by at most the tolerance, relative to its value, fulfil it: {"total": ("tenure *
            monthly", 0.01)}. They stay until an input changes. In rules the column stands for its formula.
        rules : texts such as "age >= work_years + 16", or Rules
            What every answer must keep; `was(name)` is the query's own value.
        costs : mapping of name to the price of one standard deviation of a number, or of another category
            That of others is 1.
        fill_missing : names whose missing cells may get a value, which is a change
        may_vanish : names whose values may become missing
        labels : mapping of name to words for it, or to words for its categories, or to both
            For people: {"amount": "amount (DM)", "status": {"A11": "overdrawn"}}, or
            {"status": ("account", {"A11": "overdrawn"})}.
        """
        X = pandas_or_array(X)
        lists = {
            "categorical": categorical,
            "continuous": continuous,
            "immutable": immutable,
            "increase_only": increase_only,
            "decrease_only": decrease_only,
            "fill_missing": fill_missing,
            "may_vanish": may_vanish,
        }
        frame = as_frame(X)
        if frame.shape[1] == 0:
            raise ColumnError(f"the rows have 0 feature(s) (shape={frame.shape}) while a minimum of 1 is required.")
        formulas = read_formulas(derived or {}, list(frame.columns))
        own = frame.drop(columns=list(formulas)) if formulas else frame
        features = infer_features(
            own, lists, bounds or {}, steps or {}, {} if costs is None else costs, one_hot, ordered or {}, formulas
        )
        container: Literal["frame", "array"] = "frame" if isinstance(X, pd.DataFrame) else "array"
        dtype = "object" if isinstance(X, pd.DataFrame) else str(X.dtype)
        space = cls(features, container, str(array_dtype(dtype)), list(frame.columns))
        space = space._with(derived=tuple(bind_formulas(formulas, space.kinds, frame.dtypes)))
        if formulas:
            known, values = space.taking_in(frame)
            for one in space.derived:
                refuse_wrong_formula(one, frame[one.name], known.cells(values))
        space = space._with(labels=read_labels(labels or {}, space.features, list(formulas)))
        return space.with_rules(rules) if rules else space

    def taking_in(self, X: Rows) -> tuple["FeatureSpace", Values]:
        """The rows as values, and a space that knows all of their cells too: unseen categories, what is carried."""
        frame = self.frame(X)
        values, foreign = self._read(frame)
        if not foreign:
            return self, values
        for j in foreign:
            self._warn_of_unseen(frame, j, values[:, j], foreign[j])
        return self._with(foreign=self.foreign | foreign), values

    def warn_of_wrong_formulas(self, X: Rows, values: Values) -> None:
        """Say where a derived cell of a query is not what its formula gives: answers would hang on that alone."""
        frame = self.frame(X)
        for one in self.derived:
            wrong = contradicted(one, frame[one.name], self.cells(values))
            if wrong.any():
                row = int(np.argmax(wrong))
                warnings.warn(
                    f"derived column {one.name!r} is {frame[one.name].iloc[row]} in row {row} of the queries, which "
                    f"its formula {one.formula.text!r} does not give; it is computed anew as soon as an input changes.",
                    stacklevel=4,
                )

    def knowing(self, foreign: Mapping[int, Foreign]) -> "FeatureSpace":
        """The space with these foreign cells in the place of its own."""
        return self._with(foreign=dict(foreign)) if foreign else self

    def _with(self, **changed: Any) -> "FeatureSpace":
        """A copy with some attributes changed; what was computed from them is computed anew."""
        other = copy.copy(self)
        kept = ("features", "container", "array_dtype", "columns", "foreign", "derived", "rules", "labels")
        other.__dict__ = {name: value for name, value in vars(self).items() if name in kept} | changed
        return other

    def by_feature(self, X: Rows) -> pd.DataFrame:
        """The rows with a column a feature: of a one-hot group its category; derived columns are left out."""
        frame = self.frame(X)
        if self.is_plain:
            return frame
        known, values = self.taking_in(frame)
        columns = {}
        for j, feature in enumerate(self.features):
            if feature.columns:
                columns[feature.name] = known.categories_of_group(j, values[:, j]).set_axis(frame.index)
            else:
                columns[feature.name] = frame[feature.name]
        return pd.DataFrame(columns, index=frame.index)

    def with_features(self, features: Iterable[Feature]) -> "FeatureSpace":
        """The space with its features in other dtypes, bounds or directions; their names and kinds are the same."""
        other = self._with(features=tuple(features))
        self.refuse_other_features(other)
        return other

    def with_rules(self, rules: Iterable[str | Rule]) -> "FeatureSpace":
        """The space with further rules, refused if they do not fit its columns."""
        if isinstance(rules, str) or not isinstance(rules, Iterable):
            raise ConstraintError(f"rules is {rules!r}; give a list of rules.")
        more = [Rule.of(rule) for rule in rules]
        other = self._with(rules=tuple(dict.fromkeys((*self.rules, *more))))
        assert other.bound_rules is not None
        return other

    @cached_property
    def bound_rules(self) -> tuple[BoundRule | BoundFunction, ...]:
        formulas = {one.name: one.formula for one in self.derived}
        return tuple(rule.bind(self.kinds, formulas) for rule in self.rules)

    # Constraints.

    def limits(
        self,
        vary: Iterable[Hashable] | None = None,
        bounds: Bounds | None = None,
        values: Values | None = None,
        *,
        immutable: Iterable[Hashable] | None = None,
        increase_only: Iterable[Hashable] | None = None,
        decrease_only: Iterable[Hashable] | None = None,
    ) -> Limits:
        """What a row may become: this space's constraints, narrowed by those of one call.

        With `values` they are the limits of these rows: their missing cells stay missing, unless they may be filled.
        """
        constraints = Constraints(vary, bounds, immutable, increase_only, decrease_only)
        rows = None if values is None else len(values)
        limits = self._limits
        if constraints.any():
            limits = limits_of(self.features, self.grid, constraints, rows, self._no_features)
        if values is None:
            return limits
        missing = self.is_missing(values)
        unseen = (limits.direction != 0) & (values >= self._counts) & ~missing  # of which nobody knows where it stands
        return limits.keeping((missing & ~self._fillable) | unseen)

    @cached_property
    def _limits(self) -> Limits:
        return limits_of(self.features, self.grid, Constraints(), None)

    @property
    def _no_features(self) -> dict[Hashable, str]:
        return no_features({f.name: f.columns for f in self.features}, [one.name for one in self.derived])

    @cached_property
    def _counts(self) -> Floats:
        """How many categories each feature has; infinitely many are the values of numbers."""
        return np.array([len(f.categories) if f.kind == "categorical" else np.inf for f in self.features])

    @cached_property
    def _fillable(self) -> Booleans:
        return np.array([f.fillable for f in self.features], dtype=bool)

    def refuse_other_features(self, other: "FeatureSpace") -> None:
        """Refuse a space whose values do not mean the same: other names, kinds, or categories than these."""
        if other.names != self.names:
            raise ColumnError(f"the space has the features {other.names}; accepted are {self.names}, in this order.")
        for own, given in zip(self.features, other.features, strict=True):
            if list(map(str, given.categories)) != list(map(str, own.categories)):
                wanted = f"the categories {list(own.categories)}, in this order" if own.categories else "a number"
                told = f"has the categories {list(given.categories)}" if given.categories else "is a number"
                raise ConstraintError(f"feature {given.name!r} {told}; accepted is {wanted}.")
            if given.columns != own.columns or (given.missing_code != own.missing_code and not own.categories):
                raise ConstraintError(
                    f"feature {given.name!r} has other columns, mean or scale; accepted is a space inferred from the "
                    "same rows."
                )

    def with_costs(self, costs: Mapping[Any, float]) -> "FeatureSpace":
        """The same space with other prices of the features named in `costs`; those of the others stay."""
        refuse_unknown("costs", mapped(costs, "costs"), self.names, self._no_features)
        other = copy.copy(self)
        other.features = tuple(with_cost(f, costs[f.name]) if f.name in costs else f for f in self.features)
        return other

    # Plain data, for `save`.

    def to_dict(self) -> dict[str, Any]:
        """The space as JSON-ready data."""
        for feature in self.features:
            refuse_unwritable(feature)
        return self._data() | {"rules": [self._rule_text(rule) for rule in self.rules]}

    def _data(self) -> dict[str, Any]:
        """All of it but the rules, which may be functions."""
        features = [feature_to_dict(feature) for feature in self.features]
        return {
            "container": self.container,
            "array_dtype": self.array_dtype,
            "columns": [plain("columns", name) for name in self.columns],
            "features": features,
            "derived": [
                {"name": plain("derived", one.name), "formula": one.formula.text, "dtype": dtype_text(one.dtype)}
                | ({"tolerance": one.formula.tolerance} if one.formula.tolerance else {})
                for one in self.derived
            ],
            "labels": labels_to_dict(self.labels),
        }

    def _rule_text(self, rule: Rule) -> list[str | None]:
        if rule.text is None:
            raise InputError(f"the rule {str(rule)!r} is a function, which a file cannot hold; write it as a text.")
        return [rule.text, rule.name]

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "FeatureSpace":
        """What `to_dict` wrote, refused if it could not have been inferred from any rows."""
        features = [feature_from_dict(row) for row in data["features"]]
        if not features or len({feature.name for feature in features}) < len(features):
            raise InputError("the features of a space must have names of their own, and there must be one at least.")
        if data["container"] not in ("frame", "array"):
            raise InputError(f"rows come as a frame or an array, not as {data['container']!r}.")
        space = cls(features, data["container"], str(array_dtype(data["array_dtype"])))
        dtypes = {row["name"]: dtype_from_text(row["dtype"], (), False) for row in data["derived"]}
        formulas = {row["name"]: (row["formula"], row.get("tolerance", 0.0)) for row in data["derived"]}
        names = list(data["columns"])
        if (
            len(set(names)) < len(names)
            or set(names) != {*space.columns, *formulas}
            or set(space.columns) & {*formulas}
        ):
            raise InputError("the columns of a space are not those of its features.")
        space = space._with(columns=names)
        bound = bind_formulas(read_formulas(formulas, names), space.kinds, dtypes)
        labels = read_labels(labels_from_dict(data["labels"]), features, list(formulas))
        space = space._with(derived=tuple(bound), labels=labels)
        return space.with_rules([Rule(text, name=name) for text, name in data["rules"]])
