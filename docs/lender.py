"""The lender of the pictures and of the live cards: a random forest on the embedded German credit table."""

import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from relax_plugin import FeatureSpace, Goal, ReLAX
from relax_plugin.datasets import load

COLUMNS = ["status", "duration", "amount", "savings", "employment", "housing", "age"]
KNOWN = 700  # rows that the lender learned from


def lender() -> tuple[ReLAX, pd.DataFrame]:
    """An explainer of a forest that grants loans, and people whom it refuses."""
    german = load("german")
    X, y = german.X[COLUMNS], german.y.map({0: "granted", 1: "refused"})
    texts = [name for name in COLUMNS if not pd.api.types.is_numeric_dtype(X[name])]
    codes = make_column_transformer((OneHotEncoder(sparse_output=False), texts), remainder="passthrough")
    forest = RandomForestClassifier(100, min_samples_leaf=3, random_state=0)
    model = make_pipeline(codes, forest).fit(X[:KNOWN], y[:KNOWN])
    labels = {name: words for name, words in german.constraints["labels"].items() if name in COLUMNS}
    space = FeatureSpace.infer(X[:KNOWN], immutable=["age"], labels=labels)
    explainer = ReLAX(model, space, goal=Goal.to("granted"), seed=0).fit(X[:KNOWN])
    people = X[KNOWN:].rename_axis("applicant")
    return explainer, people[model.predict(people) == "refused"]
