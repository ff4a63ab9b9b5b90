"""A fitted explainer behind FastAPI: `uvicorn serving:app --app-dir examples`, then POST a row to /explain.

The explainer is fitted once, or read from its file, before the first request; a request is one call of `explain`, and
what goes back is `to_dict()`. With a model of your own, replace `load_task` by `joblib.load` and `ReLAX.load`.
"""

from typing import Annotated, Any

from fastapi import Body, FastAPI, HTTPException

from relax_plugin import ReLAX
from relax_plugin.errors import ReLAXError
from relax_plugin.evaluation.tasks import load_task

task = load_task("diabetes/ada")
explainer = ReLAX(task.model, task.space, max_changes=3).fit(task.X_train)
explainer.explain(task.X_train.iloc[:1])  # the first call imports what it needs: here, and not in the first request
app = FastAPI(title="What would have to be different?")

Row = dict[str, float | int | str | bool | None]


@app.post("/explain")
def explain(
    rows: Annotated[Row | list[Row], Body(description="a row, or several, by the names of their columns")],
    n: int = 1,
    vary: str | None = None,
) -> dict[str, Any]:
    """Counterfactuals for the rows: `n` of each, in which only the features named in `vary` (a,b,...) change."""
    try:
        found = explainer.explain(rows, n=n, vary=None if vary is None else vary.split(","))
    except ReLAXError as error:  # a sentence that names the feature, the row and what would be accepted
        raise HTTPException(status_code=422, detail=str(error)) from error
    return found.to_dict()


@app.get("/features")
def features() -> list[dict[str, Any]]:
    """What a form for a row has to ask for."""
    return [
        {"name": feature.name, "kind": feature.kind, "low": feature.low, "high": feature.high}
        for feature in explainer.space_.features
    ]
