"""explainerdashboard's face: the counterfactual card of a row as a component that stands beside its own."""

from html import escape
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pandas as pd

from relax_plugin.base import CounterfactualExplainer, default_goal, make_explainer, whole_number
from relax_plugin.errors import InputError, MissingExtraError, ReLAXError

if TYPE_CHECKING:
    from relax_plugin.pages.card import Card

try:
    import dash_bootstrap_components as bootstrap
    from dash import Input, Output, dcc, html
    from explainerdashboard import to_html
    from explainerdashboard.dashboard_methods import ExplainerComponent, IndexSelector, make_hideable
except ImportError as missing:
    told = "explainerdashboard's face needs explainerdashboard: pip install 'relax-plugin[dashboard]'."
    raise MissingExtraError(told) from missing

INDEX, VARY, CARD = "counterfactual-index-", "counterfactual-vary-", "counterfactual-card-"  # then the component's name


class CounterfactualComponent(ExplainerComponent):  # type: ignore[misc]
    """What would have to change in a row for another answer: its card, for the row and the features that are chosen.

    Use it as any component of explainerdashboard, in ``ExplainerDashboard(explainer, CounterfactualComponent)``, in a
    list of tabs, or in a layout of your own; an `IndexConnector` couples its row to that of others.

    Parameters
    ----------
    explainer : ClassifierExplainer or RegressionExplainer
        Of explainerdashboard; its rows are the queries.
    title, name : str, optional
        As everywhere in explainerdashboard.
    n : int
        Counterfactuals on a card, at most.
    index : str or int, optional
        The row that is shown first, by its label, or by its position as everywhere in explainerdashboard.
    hide_index, hide_vary : bool
        Whether to leave out the menu of rows, or that of features.
    height : int
        Of the card, in pixels; a longer one scrolls.
    counterfactuals : CounterfactualExplainer or str
        Of the same model; one that is not fitted, or is only named, is fitted to the dashboard's rows. A regressor
        without a goal is to answer higher or lower by at least half a standard deviation of its answers.
    rows : DataFrame, optional
        The dashboard's rows in the columns that `counterfactuals` was fitted to, in the same order. explainerdashboard
        takes a Pipeline apart and keeps what its last step sees; with these the card is about the columns of the table.
    """

    _state_props: ClassVar[dict[str, tuple[str, str]]] = {"index": (INDEX, "value"), "vary": (VARY, "value")}

    def __init__(
        self,
        explainer: Any,
        title: str = "Counterfactuals",
        name: str | None = None,
        n: int = 3,
        index: Any = None,
        hide_index: bool = False,
        hide_vary: bool = False,
        height: int = 900,
        *,
        counterfactuals: CounterfactualExplainer | str = "relax-global",
        rows: pd.DataFrame | None = None,
    ) -> None:
        super().__init__(explainer, title, name)  # which stores the arguments before the star, here and for YAML files
        self.n, self.height = whole_number("n", n, 1), whole_number("height", height, 1)
        self.vary: list[str] | None = None
        self.rows = explainer.X if rows is None else rows
        if len(self.rows) != len(explainer.X):
            raise InputError(f"there are {len(self.rows)} rows, but the dashboard has {len(explainer.X)}.")
        self.counterfactuals, self.goal_told = _trained(counterfactuals, explainer.model, self.rows)
        self.features = {str(one.name): one.name for one in self.counterfactuals.space_.features if not one.immutable}
        self.index_name = INDEX + self.name  # by which an IndexConnector finds it
        self.index = _label(explainer, index)
        self.index_selector = IndexSelector(explainer, self.index_name, index=self.index)

    def card(self, index: Any, vary: list[str] | None = None) -> "Card":
        """The card of a row, by its label or position; only the features of `vary` may change, if there are any."""
        position = self.explainer.get_idx(index)
        row = self.rows.iloc[[position]]
        row = row.set_axis(pd.Index([self.explainer.get_index(position)], name=self.explainer.index_name))
        names = [self.features[text] for text in vary] if vary else None
        return self.counterfactuals.explain(row, n=self.n, vary=names).card(0)

    def layout(self) -> Any:
        """The menus, and the card below them."""
        rows = bootstrap.Col([bootstrap.Label(f"{self.explainer.index_name}:"), self.index_selector.layout()], md=4)
        every = "whatever the explainer may change"
        menu = dcc.Dropdown(list(self.features), self.vary, id=VARY + self.name, multi=True, placeholder=every)
        features = bootstrap.Col([bootstrap.Label("Only these may change:"), menu], md=8)
        return bootstrap.Card(
            [
                bootstrap.CardHeader([html.H3(self.title, className="card-title"), html.H6(self.goal_told)]),
                bootstrap.CardBody(
                    [
                        bootstrap.Row([make_hideable(rows, self.hide_index), make_hideable(features, self.hide_vary)]),
                        dcc.Loading(html.Div(id=CARD + self.name)),
                    ]
                ),
            ],
            className="h-100",
        )

    def component_callbacks(self, app: Any) -> None:
        """A new card whenever another row or other features are chosen."""

        @app.callback(  # type: ignore[untyped-decorator]
            Output(CARD + self.name, "children"), Input(INDEX + self.name, "value"), Input(VARY + self.name, "value")
        )
        def show(index: Any, vary: list[str] | None) -> Any:
            if index is None or not self.explainer.index_exists(index):
                return bootstrap.Alert("Choose a row.", color="light")
            try:
                page = self.card(index, vary).html
            except ReLAXError as refused:  # a sentence for whoever chose what cannot be
                return bootstrap.Alert(str(refused), color="warning")
            # A frame of its own: neither the card's styles nor those of the dashboard reach the other.
            frame = {"width": "100%", "height": f"{self.height}px", "border": "0"}
            return html.Iframe(srcDoc=page, title="Counterfactual card", style=frame)

    def to_html(self, state_dict: Any = None, add_header: bool = True) -> str:
        """The card of the chosen row in explainerdashboard's static page."""
        chosen = self.get_state_args(state_dict)
        if chosen.get("index") is None:
            inside = "Choose a row."
        else:
            page = escape(self.card(chosen["index"], chosen.get("vary")).html)
            style = f"width:100%;height:{self.height}px;border:0"
            inside = f'<iframe title="Counterfactual card" style="{style}" srcdoc="{page}"></iframe>'
        card: str = to_html.card(inside, title=self.title, subtitle=self.goal_told)
        return str(to_html.add_header(card)) if add_header else card


def _label(explainer: Any, index: Any) -> str | None:
    """A row as the menu of rows has it, which are texts: what is none of them would be left out without a word."""
    if index is None:
        return None
    index = index.item() if isinstance(index, np.generic) else index
    position = isinstance(index, int) and 0 <= index < len(explainer)
    label = str(explainer.get_index(index) if position else index)
    if not explainer.index_exists(label):
        raise InputError(f"index is {index!r}, but the dashboard has no such row; it has {len(explainer)}.")
    return label


def _trained(
    given: CounterfactualExplainer | str, model: Any, rows: pd.DataFrame
) -> tuple[CounterfactualExplainer, str]:
    """The explainer, fitted, and a sentence about a goal that nobody gave."""
    explainer = make_explainer(given, model) if isinstance(given, str) else given
    if hasattr(explainer, "blackbox_"):
        explainer.space_.values(rows)  # refuses columns and cells that the explainer does not know
        return explainer, ""
    explainer = explainer.__sklearn_clone__().fit(rows)
    if explainer.goal_ is not None:
        return explainer, ""
    explainer.goal, sentence = default_goal(explainer, rows)
    return explainer, sentence[:1].upper() + sentence[1:] + "."
