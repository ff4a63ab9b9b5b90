"""Figures of InterpretML's face: a row's changes as a table with bars, and how often which feature is changed."""

from html import escape
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

LETTERS, TICK, LINE = 100, 24, 17  # letters across a notebook, and of a name beside its bar; pixels of a line of text
PAPER = {"xref": "paper", "yref": "paper"}
NOTE = {"xanchor": "left", "yanchor": "top", "yshift": -3, "align": "left", "showarrow": False, **PAPER}
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00")  # Okabe and Ito's, for the colour-blind
WAYS = {"higher": ("▲", COLOURS[0]), "lower": ("▼", COLOURS[1]), "other": ("◆", COLOURS[2])}


def row_figure(data: dict[str, Any]) -> "Figure":
    """A table in the user's units, and below it bars in standard deviations."""
    made, perf, many = data["counterfactuals"], data["perf"], len(data["counterfactuals"]) > 1
    every = sorted((change for one in made for change in one["changes"]), key=lambda change: -abs(change["score"]))
    now = {change["name"]: change["from"] for change in every}
    columns = [["", "answer", *now], ["now", perf["text"], *map(text_of, now.values())]]
    for number, one in enumerate(made, 1):
        ends = {change["name"]: f"{WAYS[change['way']][0]} {text_of(change['to'])}" for change in one["changes"]}
        told = one["text"] if ends else f"{one['text']}: {one['status']}" if one["found"] else one["status"]
        columns.append([f"option {number}" if many else "counterfactual", told, *(ends.get(name, "=") for name in now)])
    letters = LETTERS - min(TICK, max(map(len, columns[0])))  # beside the names of the bars
    cells = [[wrap(text, max(letters // len(columns) - 2, 5)) for text in line] for line in zip(*columns, strict=True)]
    feet, bars = np.cumsum([LINE * max(map(len, line)) + 8 for line in cells]), (24 + 16 * len(made)) * len(now)
    below = [f"{len(now)} of {len(data['names'])} features change" if now else made[0]["status"]]
    below[0] += "" if perf["actual"] is None else f"; the actual answer is {text_of(perf['actual'])}"
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


def summary(data: dict[str, Any]) -> "Figure":
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


def text_of(value: Any, most: int = 200) -> str:
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return text if len(text) <= most else f"{text[: most - 1]}…"
