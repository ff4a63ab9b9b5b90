"""InterpretML's face: any explainer as a blackbox explainer of interpret, drawn by its `show` and `preserve`.

interpret loads the entry points of all packages at once, so what takes long to import is imported when it is used.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from html import escape
from importlib import import_module
from itertools import count
from operator import index
from textwrap import wrap
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from relax_plugin.errors import InputError, MissingExtraError, did_you_mean

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
        A function of one number a row is a regressor if it is given a goal for regressors.
    data : DataFrame or array of training rows
    feature_names, feature_types : list, optional
        As everywhere in interpret; "nominal", "ordinal" and lists are categorical, "ignore" keeps a column as it is.
    explainer : str or CounterfactualExplainer
        A name of the registry, or an explainer of this model, which is not trained again if it is fitted. With a name
        go its `options`, a `goal` (a regressor needs one), a `space` (in place of `feature_types`) and a `seed`.
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
        seed: int = 0,
    ) -> None:
        from relax_plugin.base import make_explainer

        self.model, self.data, self.feature_names, self.feature_types = model, data, feature_names, feature_types
        if space is not None and feature_types is not None:
            raise InputError("the space says what feature_types say, and more; give one of them.")
        if isinstance(explainer, str):
            options = {"seed": seed, "goal": goal, **(options or {})}
            space = _space(data, feature_names, feature_types) if space is None else space
            explainer = make_explainer(explainer, _estimator(model, options["goal"]), space, **options)
        elif any(value is not None for value in (options, goal, space, feature_types)):
            raise InputError(f"options go with the name of an explainer; this {type(explainer).__name__} has its own.")
        elif explainer.model != model and explainer.model is not _estimator(model, None):
            raise InputError(f"this {type(explainer).__name__} explains another model; pass its own, explainer.model.")
        self.explainer = explainer

    def fit(self) -> Self:
        """Train now, rather than at the first `explain_local`."""
        given, names = self.explainer, self.feature_names
        self.explainer_ = given if hasattr(given, "blackbox_") else given.__sklearn_clone__().fit(self.data)
        space = self.explainer_.space_
        self.feature_types_in_ = ["nominal" if category else "continuous" for category in space.is_categorical]
        self.feature_names_in_ = [str(name) for name in (space.names if names is None else names)]
        if len(set(self.feature_names_in_)) != len(space):
            raise InputError(f"feature_names must be {len(space)} different names, not {self.feature_names_in_}.")
        return self

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
    ) -> "CounterfactualExplanation":
        """Counterfactuals, `n` for each row; `goal`, `vary` and `bounds` hold for this call, and `y` is only shown."""
        if not hasattr(self, "explainer_"):
            self.fit()
        rows, labels = _rows(self.explainer_.space_, X)
        actual = [None] * len(rows) if y is None else np.asarray(y).reshape(-1).tolist()
        if len(actual) != len(rows):
            raise InputError(f"y has {len(actual)} answers for {len(rows)} rows.")
        made = self.explainer_.explain(rows, n=n, goal=goal, vary=vary, bounds=bounds)
        name = f"{type(self).__name__}_{next(self._made)}" if name is None else name
        return CounterfactualExplanation(made, self, name, labels, actual)


class CounterfactualExplanation(ExplanationMixin):  # type: ignore[misc]
    """What would have to change in each row, as data and figures; `counterfactuals` is the explainer's own answer."""

    explanation_type = "local"

    def __init__(self, counterfactuals: "Counterfactuals", owner: ReLAX, name: str, labels: Any, actual: Any) -> None:
        self.counterfactuals, self.name, self.labels, self.actual = counterfactuals, name, labels, actual
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
        scores = signs * space.distances(made.values, made.start[:, None])
        place = {name: j for j, name in enumerate(space.names)}
        changes: dict[tuple[int, int], list[dict[str, Any]]] = {}
        for row, slot, name, old, new in made.changes().itertuples(index=False):
            j = place[name]
            score = float(scores[row, slot, j])
            way = "other" if space.is_categorical[j] else "lower" if score < 0 else "higher"
            change = {"name": self.feature_names[j], "from": old, "to": new, "way": way, "score": score}
            changes.setdefault((row, slot), []).append({**change, "text": f"{_text(old, 16)} → {_text(new, 16)}"})
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

    def visualize(self, key: Any = None) -> "Figure":
        """A plotly figure: a row's changes as table and bars; for None how often which feature is changed."""
        data = self.data(None if key == -1 else key)
        return _row_figure(data) if "row" in data else _summary(data)

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
            "rows": len(made),
            "found": len(made) - len(failed),
            "changes": len(every) / total,
            "not_found": {reason: failed.count(reason) for reason in dict.fromkeys(failed)},
        }

    def _specific(self, row: int) -> dict[str, Any]:
        made, found = self.counterfactuals, []
        for slot, (met, after) in enumerate(zip(made.found[row].tolist(), made.after[row].tolist(), strict=True)):
            own = {"status": made.status[row, slot], "changes": self._changes.get((row, slot), [])}
            found.append({"found": met, **own, **self._answer(after if met else None, made.scores_after, (row, slot))})
        before = self._answer(made.before.tolist()[row], made.scores_before, row)
        scores = {change["name"]: change["score"] for change in found[0]["changes"]}
        return {
            "type": "counterfactual",
            "row": self.labels[row],
            "names": list(self.feature_names),
            "values": made.space.frame(made.queries).iloc[[row]].astype(object).to_numpy()[0].tolist(),
            "scores": [scores.get(name, 0.0) for name in self.feature_names],
            "perf": {"is_classification": self.classes is not None, "actual": self.actual[row], **before},
            "counterfactuals": found,
        }

    def _answer(self, answer: Any, scores: Any, where: Any) -> dict[str, Any]:
        """In interpret's words: the score of a class is its probability, that of a number the number itself."""
        known = self.has_probabilities and answer in (self.classes or ())
        score: Any = float(scores[where][self.classes.index(answer)]) if known else None
        text = _text("no counterfactual" if answer is None else answer) + (f" ({100 * score:.0f} %)" if known else "")
        return {"predicted": answer, "predicted_score": answer if self.classes is None else score, "text": text}


def _row_figure(data: dict[str, Any]) -> "Figure":
    """A table in the user's units, and below it bars in standard deviations."""
    made, perf, many = data["counterfactuals"], data["perf"], len(data["counterfactuals"]) > 1
    every = sorted((change for one in made for change in one["changes"]), key=lambda change: -abs(change["score"]))
    now = {change["name"]: change["from"] for change in every}
    columns = [["", "answer", *now], ["now", perf["text"], *map(_text, now.values())]]
    for number, one in enumerate(made, 1):
        ends = {change["name"]: f"{WAYS[change['way']][0]} {_text(change['to'])}" for change in one["changes"]}
        told = one["text"] if ends else f"{one['text']}: {one['status']}" if one["found"] else one["status"]
        columns.append([f"option {number}" if many else "counterfactual", told, *(ends.get(name, "=") for name in now)])
    letters = LETTERS - min(TICK, max(map(len, columns[0])))  # beside the names of the bars
    cells = [[wrap(text, max(letters // len(columns) - 2, 5)) for text in line] for line in zip(*columns, strict=True)]
    feet, bars = np.cumsum([LINE * max(map(len, line)) + 8 for line in cells]), (24 + 16 * len(made)) * len(now)
    below = f"{len(now)} of {len(data['names'])} features change" if now else made[0]["status"]
    below += "" if perf["actual"] is None else f"; the actual answer is {_text(perf['actual'])}"
    title, height = f"Row {data['row']}: predicted {perf['text']} → {made[0]['text']}", int(feet[-1]) + bars + 50
    axis = "change in standard deviations (another category: 1)"
    figure = _figure(title, [below], height, bars, list(now), axis).update_layout(showlegend=many)
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
    below = [f"each changes {data['changes']:.1f} features on average", *below]
    title, bars = f"Counterfactuals for {data['found']} of {data['rows']} rows", 30 * len(order)
    axis = "share of the counterfactuals that change the feature, %"
    figure = _figure(title, below, bars + 30, bars, [data["names"][j] for j in order], axis)
    for way, (sign, colour) in WAYS.items():
        shares, name = [100 * data[way][j] for j in order], f"{sign} {way}" + " category" * (way == "other")
        figure.add_bar(x=shares, y=list(range(len(order))), name=name, marker={"color": colour}, showlegend=any(shares))
    return figure.update_layout(barmode="stack").update_traces(orientation="h", hovertemplate="%{x:.1f} %")


def _figure(title: str, below: list[str], height: int, bars: int, names: list[str], axis: str) -> "Figure":
    """A figure of this height, margins apart, at whose lower end there are bars for these names."""
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


def _text(value: Any, most: int = 200) -> str:
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _estimator(model: Any, goal: "Goal | None") -> Any:
    """The model behind a prediction function, which is what interpret is often given."""
    owner = getattr(model, "__self__", None)
    if hasattr(owner, "__sklearn_tags__") and model.__name__ in ("predict", "predict_proba", "decision_function"):
        return owner
    plain = callable(model) and not hasattr(model, "predict") and not hasattr(model, "parameters")  # as networks have
    number = goal is not None and goal.kind in ("shift", "between")
    return SimpleNamespace(predict=model, _estimator_type="regressor") if plain and number else model


def _space(data: Any, names: Sequence[str] | None, types: Sequence[Any] | None) -> "FeatureSpace":
    """The space of the training rows, described as interpret does."""
    from relax_plugin.features import FeatureSpace

    columns = list(getattr(data, "columns", [f"x{j}" for j in range((*np.shape(data), 0, 0)[1])]))
    for what, given in (("names", names), ("types", types)):
        if given is not None and len(given) != len(columns):
            raise InputError(f"there are {len(given)} feature_{what}, but {len(columns)} columns.")
    said = dict(zip(columns, [None] * len(columns) if types is None else types, strict=True))
    for name, kind in said.items():
        if isinstance(kind, str) and kind not in TYPES:
            raise InputError(f"the feature type of {name!r} is {kind!r}; {did_you_mean(kind, TYPES)}")
    categorical = [n for n, kind in said.items() if not isinstance(kind, str | int | None) or kind in CATEGORICAL]
    space = FeatureSpace.infer(data, categorical=categorical, immutable=[n for n, k in said.items() if k == "ignore"])
    if names is None or space.container == "frame":  # whose columns the model knows by their own names
        return space
    named = [replace(feature, name=str(name)) for feature, name in zip(space.features, names, strict=True)]
    return FeatureSpace(named, "array", space.array_dtype)


def _rows(space: "FeatureSpace", X: Any) -> tuple[Any, list[Any]]:
    """The rows in the container of the training rows, also a single one, and what to call each."""
    if hasattr(X, "to_frame"):  # a Series is one row
        X = X.to_frame().T.infer_objects()
    if not hasattr(X, "columns"):
        X = np.atleast_2d(np.asarray(X))
        return X if space.container == "array" else space.model_input(space.values(X)), list(range(len(X)))
    labels = X.index.tolist() if hasattr(X, "index") else range(len(X))
    X = X if space.container == "frame" else space.frame(X).to_numpy()
    return X, [label if isinstance(label, int) else str(label) for label in labels]
