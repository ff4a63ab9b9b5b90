"""InterpretML's face: any explainer as a blackbox explainer of interpret, drawn by its `show` and `preserve`.

interpret loads the entry points of all packages at once, so what takes long to import is imported when it is used.
"""

import warnings
from collections.abc import Hashable, Iterable, Mapping, Sequence
from html import escape
from importlib import import_module
from itertools import count
from operator import index
from textwrap import wrap
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np

from relax_plugin.cached import cached_property
from relax_plugin.errors import InputError, MissingExtraError, TableNote, did_you_mean

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

CATEGORICAL = ("nominal", "nominal_prevalence", "nominal_alphabetical", "ordinal")  # interpret's feature types
TYPES = (*CATEGORICAL, "auto", "continuous", "quantile", "rounded_quantile", "uniform", "winsorized", "ignore")
FUNCTION_ROWS = 100  # training rows that a prediction function is asked, to see what it answers
LETTERS, TICK, LINE = 100, 24, 17  # letters across a notebook, and of a name beside its bar; pixels of a line of text
PAPER = {"xref": "paper", "yref": "paper"}
NOTE = {"xanchor": "left", "yanchor": "top", "yshift": -3, "align": "left", "showarrow": False, **PAPER}
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00")  # Okabe and Ito's, for the colour-blind
WAYS = {"higher": ("▲", COLOURS[0]), "lower": ("▼", COLOURS[1]), "other": ("◆", COLOURS[2])}


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

        data = _with_names(data, model) if space is None and isinstance(explainer, str) else data
        self.model, self.data, self.feature_names, self.feature_types = model, data, feature_names, feature_types
        if space is not None and feature_types is not None:
            raise InputError("the space says what feature_types say, and more; give one of them.")
        if isinstance(explainer, str):
            options = {"seed": _seed_of(seed, random_state), "goal": goal, **(options or {})}
            space = _space_of(data, feature_names, feature_types, one_hot) if space is None else space
            explainer = make_explainer(explainer, _estimator(model, options["goal"], data), space, **options)
        elif any(value is not None for value in (options, goal, space, feature_types, random_state)):
            raise InputError(f"options go with the name of an explainer; this {type(explainer).__name__} has its own.")
        elif explainer.model != model and explainer.model is not _estimator(model, None):
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
            _refuse_one_row(self.data)
        explainer.fit(self.data)
        if explainer.goal_ is None:
            explainer.goal, self.default_goal_ = import_module("relax_plugin.base").default_goal(explainer, self.data)
        return explainer

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
        rows, labels = _rows_of(self.explainer_.space_, X)
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
            "Status": made.statuses[:, 0].tolist(),
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
            changes.setdefault((row, slot), []).append({**change, "text": f"{_text_of(old, 16)} → {_text_of(new, 16)}"})
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
        return _row_figure(data) if "row" in data else _summary(data)

    def _overall(self) -> dict[str, Any]:
        made, every = self.counterfactuals, [change for own in self._changes.values() for change in own]
        failed = made.statuses[~made.found[:, 0], 0].tolist()
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
            own = {"status": made.statuses[row, slot], "changes": self._changes.get((row, slot), [])}
            found.append({"found": met, **own, **self._answer(after if met else None, made.scores_after, (row, slot))})
        before = self._answer(made.before.tolist()[row], made.scores_before, row)
        before |= {"text": "no answer"} if made.refused[row] else {}
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
        text = _text_of("no counterfactual" if answer is None else answer) + (
            f" ({100 * score:.0f} %)" if known else ""
        )
        return {"predicted": answer, "predicted_score": answer if self.classes is None else score, "text": text}


def _seed_of(seed: int, random_state: Any) -> int:
    """The seed, which interpret's own explainers call `random_state`: a whole number, or a generator to draw one of."""
    if random_state is None:
        return seed
    if seed:
        raise InputError(f"seed is {seed} and random_state is {random_state!r}, which say the same; give one of them.")
    draw = getattr(random_state, "integers", getattr(random_state, "randint", None))
    if draw is not None:
        return int(draw(2**31 - 1))
    if isinstance(random_state, bool) or not isinstance(random_state, int | np.integer):
        raise InputError(f"random_state is {random_state!r}; give a whole number, a RandomState or a Generator.")
    return int(random_state)


def _estimator(model: Any, goal: "Goal | None", data: Any = None) -> Any:
    """The model behind a prediction function, which is what interpret is often given."""
    owner = getattr(model, "__self__", None)
    if hasattr(owner, "__sklearn_tags__") and model.__name__ in ("predict", "predict_proba", "decision_function"):
        return owner
    plain = callable(model) and not hasattr(model, "predict") and not hasattr(model, "parameters")  # as networks have
    number = goal.kind in ("shift", "between") if goal is not None else plain and _answers_numbers(model, data)
    return SimpleNamespace(predict=model, _estimator_type="regressor") if plain and number else model


def _with_names(data: Any, model: Any) -> Any:
    """An array of training rows as a frame, if the model was fitted to named columns: else scikit-learn warns."""
    names = getattr(getattr(model, "__self__", model), "feature_names_in_", ())
    if hasattr(data, "columns") or len(names) == 0 or np.shape(data)[1:] != (len(names),):
        return data
    return import_module("pandas").DataFrame(np.asarray(data), columns=list(names)).infer_objects()


def _answers_numbers(function: Any, data: Any) -> bool:
    """Whether a function answers one number a row that is no label and no probability: fractions beyond 0 to 1."""
    if not len(np.shape(data)):
        return False
    answers = np.asarray(function(data[:FUNCTION_ROWS]))
    if answers.dtype.kind != "f" or (answers.ndim > 1 and answers.shape[1] != 1):
        return False
    return bool((answers % 1 != 0).any() and ((answers < 0) | (answers > 1)).any())


def _refuse_one_row(data: Any) -> None:
    """Refuse training rows that are one row, such as the background that SHAP's explainers are content with."""
    if (*np.shape(data), 0)[0] == 1:
        raise InputError(
            "data has 1 row, and the ranges and categories that a counterfactual may use are read off the training "
            "rows: pass those, where SHAP is content with one background row, or say them by space=FeatureSpace(...)."
        )


def _space_of(
    data: Any,
    names: Sequence[str] | None,
    types: Sequence[Any] | None,
    one_hot: Mapping[Any, Sequence[Any]] | str | None = None,
) -> "FeatureSpace":
    """The space of the training rows, described as interpret does."""
    from relax_plugin.features import FeatureSpace

    columns = list(getattr(data, "columns", [f"x{j}" for j in range((*np.shape(data), 0, 0)[1])]))
    for what, given in (("names", names), ("types", types)):
        if given is not None and len(given) != len(columns):
            raise InputError(f"there are {len(given)} feature_{what}, but {len(columns)} columns.")
    own = names is None or hasattr(data, "columns")  # whether the model knows the columns by their own names
    texts = [] if names is None else [str(name) for name in names]
    called = dict(zip(columns, columns if own else texts, strict=True))
    said = dict(zip(called.values(), [None] * len(columns) if types is None else types, strict=True))
    for name, kind in said.items():
        if isinstance(kind, str) and kind not in TYPES:
            raise InputError(f"the feature type of {name!r} is {kind!r}; {did_you_mean(kind, TYPES)}")
    _refuse_one_row(data)
    table = import_module("pandas").DataFrame(data, copy=False).set_axis(list(called.values()), axis=1)
    groups: Any = (_dummies(table, said) or None) if one_hot == "auto" else one_hot
    if not own and isinstance(one_hot, Mapping):
        groups = {name: [called.get(column, column) for column in of_group] for name, of_group in one_hot.items()}
    of_columns = groups.items() if isinstance(groups, Mapping) else ()
    grouped = {column: name for name, of_group in of_columns for column in of_group}
    categorical = [n for n, kind in said.items() if not isinstance(kind, str | int | None) or kind in CATEGORICAL]
    categorical = [name for name in categorical if name not in grouped]
    still = dict.fromkeys(grouped.get(name, name) for name, kind in said.items() if kind == "ignore")
    rows = data if own else table.infer_objects()
    space = FeatureSpace.infer(rows, categorical=categorical, immutable=list(still), one_hot=groups)
    return space if own else FeatureSpace(space.features, "array", str(np.asarray(data).dtype), space.columns)


def _dummies(table: Any, said: Mapping[Any, Any]) -> dict[Any, list[Any]]:
    """The one-hot groups among the columns, as `pandas.get_dummies` makes them.

    No group is a set of columns of which some are to be ignored and others not.
    """
    from relax_plugin.features import FeatureSpace

    flags = [name for name in table if isinstance(name, str) and table[name].isin([0, 1]).all()]
    if len(flags) < 2 or not table.columns.is_unique:
        return {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TableNote)  # it would say the same as below
        found = [feature for feature in FeatureSpace.infer(table[flags], one_hot="auto").features if feature.columns]
    groups = {
        one.name: list(one.columns)
        for one in found
        if one.name not in said and len({said[column] == "ignore" for column in one.columns}) == 1
    }
    if groups:
        told = "; ".join(f"{name!r} of {group}" for name, group in groups.items())
        told = f"one-hot groups were found, each of which is one feature: {told}; one_hot={{}} keeps them apart."
        warnings.warn(told, TableNote, stacklevel=4)
    return groups


def _rows_of(space: "FeatureSpace", X: Any) -> tuple[Any, list[Any]]:
    """The rows in the container of the training rows, also a single one, and what to call each."""
    if hasattr(X, "to_frame"):  # a Series is one row
        X = X.to_frame().T.infer_objects()
    if not hasattr(X, "columns"):
        X = np.atleast_2d(np.asarray(X))
        if space.container == "frame":
            known, values = space.taking_in(X)
            return known.model_input(values), list(range(len(X)))
        return X, list(range(len(X)))
    labels = X.index.tolist() if hasattr(X, "index") else range(len(X))
    X = X if space.container == "frame" else space.frame(X).to_numpy()
    return X, [label if isinstance(label, int) else str(label) for label in labels]


def _row_figure(data: dict[str, Any]) -> "Figure":
    """A table in the user's units, and below it bars in standard deviations."""
    made, perf, many = data["counterfactuals"], data["perf"], len(data["counterfactuals"]) > 1
    every = sorted((change for one in made for change in one["changes"]), key=lambda change: -abs(change["score"]))
    now = {change["name"]: change["from"] for change in every}
    columns = [["", "answer", *now], ["now", perf["text"], *map(_text_of, now.values())]]
    for number, one in enumerate(made, 1):
        ends = {change["name"]: f"{WAYS[change['way']][0]} {_text_of(change['to'])}" for change in one["changes"]}
        told = one["text"] if ends else f"{one['text']}: {one['status']}" if one["found"] else one["status"]
        columns.append([f"option {number}" if many else "counterfactual", told, *(ends.get(name, "=") for name in now)])
    letters = LETTERS - min(TICK, max(map(len, columns[0])))  # beside the names of the bars
    cells = [[wrap(text, max(letters // len(columns) - 2, 5)) for text in line] for line in zip(*columns, strict=True)]
    feet, bars = np.cumsum([LINE * max(map(len, line)) + 8 for line in cells]), (24 + 16 * len(made)) * len(now)
    below = [f"{len(now)} of {len(data['names'])} features change" if now else made[0]["status"]]
    below[0] += "" if perf["actual"] is None else f"; the actual answer is {_text_of(perf['actual'])}"
    below += [data["goal"]] if data["goal"] else []
    title, height = f"Row {data['row']}: predicted {perf['text']} → {made[0]['text']}", int(feet[-1]) + bars + 50
    axis = "change in standard deviations (another category: 1)"
    figure = _figure(title, below, height, bars, list(now), axis).update_layout(showlegend=many)
    for k, changes in enumerate(one["changes"] for one in made):
        figure.add_bar(
            x=[change["score"] for change in changes],
            y=[list(now).index(change["name"]) for change in changes],
            text=[escape(change["text"]) for change in changes],
            name=f"option {k + 1}",
            marker={"color": COLOURS[k % len(COLOURS)] if many else [WAYS[change["way"]][1] for change in changes]},
        )
    figure.update_traces(textposition="outside", cliponaxis=False, hoverinfo="x+text", orientation="h")
    least, most = (pick([0.0, *(change["score"] for change in every)]) for pick in (min, max))
    share = max([len(change["text"]) + 3 for change in every], default=0) / letters
    room = (most - least) * share / max(1 - share * ((least < 0) + (most > 0)), 0.3)  # for the labels of the bars
    figure.update_xaxes(range=[least - room * (least < 0), most + room * (most > 0)])
    return _with_table(figure, cells, [1 - foot / height for foot in [0, *feet.tolist()]])


def _with_table(figure: "Figure", cells: list[list[list[str]]], heights: list[float]) -> "Figure":
    """The figure with lines of text between these heights; plotly's own table is not in interpret's notebook cells."""
    spots = [(j / len(row), y, cell) for row, y in zip(cells, heights[:-1], strict=True) for j, cell in enumerate(row)]
    notes = [{"x": x, "y": y, "text": "<br>".join(map(escape, cell)), **NOTE} for x, y, cell in spots]
    rules = [{"x0": 0, "x1": 1, "y0": foot, "y1": foot, "line": {"color": "#C8D4E3"}, **PAPER} for foot in heights[1:]]
    return figure.update_layout(annotations=notes, shapes=rules)


def _summary(data: dict[str, Any]) -> "Figure":
    """How often each feature is changed, and for how many rows nothing was found."""
    order = sorted(np.flatnonzero(data["scores"]).tolist(), key=lambda j: -data["scores"][j])[:15]  # as interpret
    below = [f"{times} without: {reason}" for reason, times in data["not_found"].items()]
    below = [
        f"each changes {data['changes']:.1f} features on average",
        *below,
        *([data["goal"]] if data["goal"] else []),
    ]
    title, bars = f"Counterfactuals for {data['found']} of {data['rows']} rows", 30 * len(order)
    axis = "share of the counterfactuals that change the feature, %"
    figure = _figure(title, below, bars + 30, bars, [data["names"][j] for j in order], axis)
    for way, (sign, colour) in WAYS.items():
        shares, name = [100 * data[way][j] for j in order], f"{sign} {way}" + " category" * (way == "other")
        figure.add_bar(x=shares, y=list(range(len(order))), name=name, marker={"color": colour}, showlegend=any(shares))
    return figure.update_layout(barmode="stack").update_traces(orientation="h", hovertemplate="%{x:.1f} %")


def _figure(title: str, below: list[str], height: int, bars: int, names: list[str], axis: str) -> "Figure":
    from plotly.graph_objects import Figure

    texts = [f"<sub>{escape(line)}</sub>" for text in below for line in wrap(text, LETTERS)]
    ticks = ["<br>".join(map(escape, wrap(name, TICK)[:2])) for name in names]
    place = {"range": [len(names) - 0.5, -0.5], "domain": [0, bars / height], "automargin": True, "showgrid": False}
    layout = {
        "template": "plotly_white",
        "title": {"text": "<br>".join([f"<b>{escape(title)}</b>", *texts]), "x": 0.02, "y": 1, "pad": {"t": 20}},
        "height": height + 120 + 20 * len(texts),
        "margin": {"t": 50 + 20 * len(texts), "b": 70, "l": 30, "r": 40},
        "legend": {"orientation": "h", "y": bars / height, "yanchor": "bottom", "traceorder": "normal"},
        "xaxis": {"title": {"text": axis}, "visible": bool(names)},
        "yaxis": {"visible": bool(names), "tickvals": list(range(len(names))), "ticktext": ticks, **place},
    }
    return Figure(layout=layout)


def _text_of(value: Any, most: int = 200) -> str:
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return text if len(text) <= most else f"{text[: most - 1]}…"
