"""What the explainer found, for the page: the model's answer with its probabilities, the alternatives, the card."""

from typing import Any

from relax_plugin.blackbox import Answer, BlackBox
from relax_plugin.formatting import format_cell, format_labelled
from relax_plugin.results import Counterfactuals
from relax_plugin.whatif.form import Form


def plain_answer(box: BlackBox, answer: Answer) -> dict[str, Any]:
    """The model's answer to one row: in words, as a number of a regressor, and with what probability."""
    label = box.labels(answer.output)[0]
    told: dict[str, Any] = {"answer": format_cell(label), "probability": None, "number": None, "probabilities": None}
    if box.task == "regression":
        return told | {"number": float(label)}
    if not box.has_probabilities or answer.scores is None or box.classes is None:
        return told
    chances = [float(chance) for chance in answer.scores[0]]
    position = int(answer.output[0])
    each = [
        {"answer": format_cell(one), "probability": p} for one, p in zip(box.classes.tolist(), chances, strict=True)
    ]
    return told | {"probability": chances[position] if position >= 0 else None, "probabilities": each}


def alternatives(found: Counterfactuals, form: Form) -> list[dict[str, Any]]:
    """The counterfactuals of the only query as plain data; each change with the cell that the form has for it."""
    (record,) = found.to_dict()["queries"]
    told: list[dict[str, Any]] = record["counterfactuals"]
    row, labels = found.space.frame(found.queries), found.space.labels
    for slot, one in enumerate(told):
        cells = form.cells(found.space, found.values[0, [slot]], row)
        for change in one["changes"]:
            change["cell"] = cells[str(change["feature"])]["cell"]
            for end in ("from", "to"):  # as the card has them: 950, not 950.0
                change[f"{end}_label"] = format_labelled(labels, change["feature"], change[end])
        if not one["found"]:
            one["answer"] = None  # of the closest attempt, which is none
    return told


def card_html(found: Counterfactuals) -> str:
    """The card of the only query, with its styles."""
    return found.card(0)._repr_html_()
