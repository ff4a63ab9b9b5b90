"""InterpretML's face: any explainer as a blackbox explainer of interpret, drawn by its `show` and `preserve`.

interpret loads the entry points of all packages at once, so what takes long to import is imported when it is used.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from functools import cached_property
from importlib import import_module
from itertools import count
from operator import index
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np

from relax_plugin.adapters.interpret_figures import WAYS, row_figure, summary, text_of
from relax_plugin.adapters.interpret_inputs import default_goal, estimator, refuse_one_row, rows_of, seed_of, space_of
from relax_plugin.errors import GoalError, InputError, MissingExtraError

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

    from relax_plugin.base import CounterfactualExplainer
    from relax_plugin.features import Bounds, FeatureSpace
    from relax_plugin.goal import Goal
    from relax_plugin.results import Counterfactuals

try:
    from interpret.api.base import ExplainerMixin, ExplanationMixin
except ImportError as missing:
    raise MissingExtraError("InterpretML's face needs interpret: pip install 'relax-plugin[interpret]'.") from missing


class ReLAX(ExplainerMixin):  # type: ignore[misc]
    """Counterfactuals in place of `LimeTabular` or `ShapKernel`: what would have to change for another answer?

    It is trained, in seconds, at the first `explain_local`, or by `fit`; later calls use what was learned.

    Parameters
    ----------
    model : estimator, or its prediction function
        A function of one number a row is a regressor if it is given a goal for regressors, or if it answers fractions
        beyond 0 to 1, which are neither labels nor probabilities.
    data : DataFrame or array of training rows
        One row, which SHAP takes as a background, is enough only with a `space`.
    feature_names, feature_types : list, optional
        As everywhere in interpret; "nominal", "ordinal" and lists are categorical, "ignore" keeps a column as it is.
    explainer : str or CounterfactualExplainer
        A name of the registry, or an explainer of this model, which is not trained again if it is fitted. With a name
        go its `options`, a `goal`, a `space` (in place of `feature_types` and `one_hot`) and a `seed`.
    goal : Goal, optional
        Without one a classifier is to answer another class, and a regressor another number: higher or lower by at
        least half the standard deviation of its answers to the training rows. The figures say so.
    one_hot : "auto", mapping of a name to its columns, or None
        Columns that are one feature, as `pandas.get_dummies` makes them: "auto" finds them, by the beginnings of their
        names, and says so by a warning; {} keeps all columns apart.
    seed, random_state : int
        Two names of the same; interpret's own explainers call it `random_state`, which may be a generator too.
    """

    explainer_type = "blackbox"
    available_explanations: ClassVar[list[str]] = ["local"]
    _made: ClassVar["count[int]"] = count()

    def __init__(
        self,
        model: Any,
        data: Any,
        feature_names: Sequence[str] | None = None,
        feature_types: Sequence[Any] | None = None,
        *,
        explainer: "str | CounterfactualExplainer" = "relax-global",
        options: Mapping[str, Any] | None = None,
        goal: "Goal | None" = None,
        space: "FeatureSpace | None" = None,
        one_hot: Mapping[Any, Sequence[Any]] | Literal["auto"] | None = "auto",
        seed: int = 0,
        random_state: Any = None,
    ) -> None:
        from relax_plugin.base import make_explainer

        self.model, self.data, self.feature_names, self.feature_types = model, data, feature_names, feature_types
        if space is not None and feature_types is not None:
            raise InputError("the space says what feature_types say, and more; give one of them.")
        if isinstance(explainer, str):
            options = {"seed": seed_of(seed, random_state), "goal": goal, **(options or {})}
            space = space_of(data, feature_names, feature_types, one_hot) if space is None else space
            explainer = make_explainer(explainer, estimator(model, options["goal"], data), space, **options)
        elif any(value is not None for value in (options, goal, space, feature_types, random_state)):
            raise InputError(f"options go with the name of an explainer; this {type(explainer).__name__} has its own.")
        elif explainer.model != model and explainer.model is not estimator(model, None):
            raise InputError(f"this {type(explainer).__name__} explains another model; pass its own, explainer.model.")
        self.explainer = explainer

    def fit(self) -> Self:
        """Train now, rather than at the first `explain_local`."""
        given, names = self.explainer, self.feature_names
        self.default_goal_ = ""  # the sentence about it, if there is one
        self.explainer_ = given if hasattr(given, "blackbox_") else self._trained(given.__sklearn_clone__())
        space = self.explainer_.space_
        self.feature_types_in_ = ["nominal" if category else "continuous" for category in space.is_categorical]
        of_columns = names is not None and not space.is_plain and len(names) == len(space.columns)
        self.feature_names_in_ = [str(name) for name in (space.names if names is None or of_columns else names)]
        if len(set(self.feature_names_in_)) != len(space):
            raise InputError(f"feature_names must be {len(space)} different names, not {self.feature_names_in_}.")
        return self

    def _trained(self, explainer: "CounterfactualExplainer") -> "CounterfactualExplainer":
        """The explainer, fitted to the training rows; for a regressor without a goal, with the default one."""
        if explainer.space is None:
            refuse_one_row(self.data)
        try:
            return explainer.fit(self.data)
        except GoalError:  # before anything is learned: only the core can tell whether a model is a regressor
            if explainer.goal is not None:
                raise
        goal, self.default_goal_ = default_goal(explainer, self.data)
        explainer.set_params(goal=goal)
        return explainer.fit(self.data)

    def explain_local(
        self,
        X: Any,
        y: Any = None,
        name: str | None = None,
        *,
        n: int = 1,
        goal: "Goal | None" = None,
        vary: Iterable[Hashable] | None = None,
        bounds: "Bounds | None" = None,
        rules: Iterable[Any] | None = None,
        costs: Mapping[Any, float] | None = None,
        plausible: Any = None,
    ) -> "CounterfactualExplanation":
        """Counterfactuals, `n` for each row; `goal` and what follows it hold for this call, and `y` is only shown."""
        if not hasattr(self, "explainer_"):
            self.fit()
        rows, labels = rows_of(self.explainer_.space_, X)
        actual = [None] * len(rows) if y is None else np.asarray(y).reshape(-1).tolist()
        if len(actual) != len(rows):
            raise InputError(f"y has {len(actual)} answers for {len(rows)} rows.")
        made = self.explainer_.explain(
            rows, n=n, goal=goal, vary=vary, bounds=bounds, rules=rules, costs=costs, plausible=plausible
        )
        name = f"{type(self).__name__}_{next(self._made)}" if name is None else name
        told = self.default_goal_ if goal is None else ""
        return CounterfactualExplanation(made, self, name, labels, actual, told)


class CounterfactualExplanation(ExplanationMixin):  # type: ignore[misc]
    """What would have to change in each row, as data and figures; `counterfactuals` is the explainer's own answer."""

    explanation_type = "local"

    def __init__(
        self, counterfactuals: "Counterfactuals", owner: ReLAX, name: str, labels: Any, actual: Any, goal: str = ""
    ) -> None:
        self.counterfactuals, self.name, self.labels, self.actual = counterfactuals, name, labels, actual
        self.goal = goal  # a sentence about a goal that nobody gave
        self.feature_names, self.feature_types = owner.feature_names_in_, owner.feature_types_in_
        blackbox = owner.explainer_.blackbox_
        self.classes: Any = None if blackbox.classes is None else blackbox.classes.tolist()
        self.has_probabilities = blackbox.has_probabilities

    @cached_property
    def selector(self) -> Any:
        """A DataFrame of one line a row, for choosing it in interpret's dashboard."""
        made, none = self.counterfactuals, float("nan") if self.classes is None else "none"
        columns = {
            "Row": self.labels,
            "Predicted": made.before.tolist(),
            "Counterfactual": np.where(made.found[:, 0], made.after[:, 0], none).tolist(),
            "Changed": [", ".join(c["name"] for c in self._changes.get((row, 0), ())) for row in range(len(made))],
            "Status": made.status[:, 0].tolist(),
        }
        columns |= {} if None in self.actual else {"Actual": self.actual}
        return import_module("pandas").DataFrame(columns).round(3)

    @cached_property
    def _changes(self) -> dict[tuple[int, int], list[dict[str, Any]]]:
        """By row and slot, the largest first."""
        made, space = self.counterfactuals, self.counterfactuals.space
        signs = np.where(space.is_categorical | (made.values > made.start[:, None]), 1.0, -1.0)
        scores = signs * space.distances(made.values, made.start[:, None]) / space.prices  # in standard deviations
        place = {name: j for j, name in enumerate(space.names)}
        changes: dict[tuple[int, int], list[dict[str, Any]]] = {}
        for row, slot, name, old, new in made.changes().itertuples(index=False):
            j = place[name]
            score = float(scores[row, slot, j])
            way = "other" if space.is_categorical[j] else "lower" if score < 0 else "higher"
            change = {"name": self.feature_names[j], "from": old, "to": new, "way": way, "score": score}
            changes.setdefault((row, slot), []).append({**change, "text": f"{text_of(old, 16)} → {text_of(new, 16)}"})
        return {key: sorted(own, key=lambda change: -abs(change["score"])) for key, own in changes.items()}

    def data(self, key: Any = None) -> Any:
        """What a figure shows, as plain data: `key` is the position of a row, None for the summary, -1 for all.

        `scores` are the changes of the first counterfactual in standard deviations (1 for another category), those of
        the summary the share of the counterfactuals that change the feature.
        """
        key = key[1] if isinstance(key, tuple) and len(key) == 2 else key  # interpret's (provider, key)
        if key is None:
            return self._overall()
        if not -1 <= index(key) < len(self.labels):
            raise InputError(f"there is no row {key}; there are {len(self.labels)}, from 0 on.")
        rows = [self._specific(row) for row in (range(len(self.labels)) if key == -1 else [index(key)])]
        return {"overall": self._overall(), "specific": rows} if key == -1 else rows[0]

    @property
    def _internal_obj(self) -> dict[str, Any]:
        """What interpret's own explanations keep under this name, and its tests look at."""
        whole: dict[str, Any] = self.data(-1)
        return whole

    def visualize(self, key: Any = None) -> "Figure":
        """A plotly figure: a row's changes as table and bars; for None how often which feature is changed."""
        data = self.data(None if key == -1 else key)
        return row_figure(data) if "row" in data else summary(data)

    def _overall(self) -> dict[str, Any]:
        made, every = self.counterfactuals, [change for own in self._changes.values() for change in own]
        failed = made.status[~made.found[:, 0], 0].tolist()
        total, times = max(int(made.found.sum()), 1), {way: dict.fromkeys(self.feature_names, 0) for way in WAYS}
        for change in every:
            times[change["way"]][change["name"]] += 1
        return {
            "type": "counterfactual",
            "names": list(self.feature_names),
            "scores": [sum(own[name] for own in times.values()) / total for name in self.feature_names],
            **{way: [number / total for number in own.values()] for way, own in times.items()},
            "goal": self.goal,
            "rows": len(made),
            "found": len(made) - len(failed),
            "changes": len(every) / total,
            "not_found": {reason: failed.count(reason) for reason in dict.fromkeys(failed)},
        }

    def _specific(self, row: int) -> dict[str, Any]:
        from relax_plugin.results import taken

        made, found = self.counterfactuals, []
        for slot, (met, after) in enumerate(zip(made.found[row].tolist(), made.after[row].tolist(), strict=True)):
            own = {"status": made.status[row, slot], "changes": self._changes.get((row, slot), [])}
            found.append({"found": met, **own, **self._answer(after if met else None, made.scores_after, (row, slot))})
        before = self._answer(made.before.tolist()[row], made.scores_before, row)
        scores = {change["name"]: change["score"] for change in found[0]["changes"]}
        return {
            "type": "counterfactual",
            "goal": self.goal,
            "row": self.labels[row],
            "names": list(self.feature_names),
            "values": made.space.by_feature(taken(made.queries, [row])).astype(object).to_numpy()[0].tolist(),
            "scores": [scores.get(name, 0.0) for name in self.feature_names],
            "perf": {"is_classification": self.classes is not None, "actual": self.actual[row], **before},
            "counterfactuals": found,
        }

    def _answer(self, answer: Any, scores: Any, where: Any) -> dict[str, Any]:
        """In interpret's words: the score of a class is its probability, that of a number the number itself."""
        known = self.has_probabilities and answer in (self.classes or ())
        score: Any = float(scores[where][self.classes.index(answer)]) if known else None
        text = text_of("no counterfactual" if answer is None else answer) + (f" ({100 * score:.0f} %)" if known else "")
        return {"predicted": answer, "predicted_score": answer if self.classes is None else score, "text": text}
