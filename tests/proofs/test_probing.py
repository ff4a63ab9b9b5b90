"""A proof is refused if the model answers some probe row otherwise than what was read from it."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LogisticRegression

from relax_plugin import FeatureSpace, Goal, make_explainer
from relax_plugin.errors import UnsupportedError
from relax_plugin.menu.menu import IMPOSSIBLE
from relax_plugin.networks.certified import certify as certify_network
from relax_plugin.networks.floor import floor as floor_of_network
from relax_plugin.proofs.probing import RANDOM, probe_values, random_values
from relax_plugin.trees.floor import certify, floor
from relax_plugin.trees.readers import read_trees

RNG = np.random.default_rng(0)
X = pd.DataFrame(
    {"a": RNG.normal(size=400).round(2), "b": RNG.integers(0, 50, 400), "c": RNG.normal(size=400).round(2)}
)
Y = (2 * X["a"] + (X["b"] - 25) / 10 - X["c"] > 0).astype(int).to_numpy()
SPACE = FeatureSpace.infer(X)
KNOWN = X["b"] != 37


def with_rule(monkeypatch: pytest.MonkeyPatch, kind: Any) -> None:
    """Change a class itself, which no look at an object tells: where b is 37, it says the other class."""
    real = kind.predict_proba

    def predict_proba(self: Any, rows: Any) -> Any:
        chances = real(self, rows)
        return np.where(np.asarray(rows)[:, 1:2] == 37, chances[:, ::-1], chances)

    monkeypatch.setattr(kind, "predict_proba", predict_proba)
    monkeypatch.setattr(kind, "predict", lambda self, rows: self.predict_proba(rows).argmax(axis=1))


@pytest.mark.parametrize("kind", [RandomForestClassifier, LogisticRegression])
def test_a_rule_that_only_random_rows_see_ends_proofs(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    model = kind(random_state=0).fit(X[KNOWN], Y[KNOWN])
    with_rule(monkeypatch, kind)
    explainer = make_explainer("greedy", model, SPACE).fit(X[KNOWN])
    found = explainer.explain(X[KNOWN][:10])
    prove = certify if kind is RandomForestClassifier else certify_network
    with pytest.raises(UnsupportedError, match=rf"read from the {kind.__name__} .* b = 37, .* the model"):
        prove(found, explainer)
    assert IMPOSSIBLE not in explainer.menu(X[KNOWN][:1]).status
    table = found.regions().table
    assert (table.loc[table["feature"] != "b", "kind"] == "tested").all()


def test_a_regressor_that_answers_one_value_otherwise_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    model = RandomForestRegressor(5, random_state=0).fit(X, Y * 2.0)
    real = RandomForestRegressor.predict
    monkeypatch.setattr(
        RandomForestRegressor, "predict", lambda self, rows: real(self, rows) + (np.asarray(rows)[:, 1] == 37)
    )
    with pytest.raises(UnsupportedError, match="b = 37, "):
        floor(model, SPACE, X[KNOWN][:5], Goal.shift(1.0), most_changes=1)


def test_the_model_is_asked_once_for_each_fitted_explainer(monkeypatch: pytest.MonkeyPatch) -> None:
    model = RandomForestClassifier(5, random_state=0).fit(X, Y)
    explainer = make_explainer("greedy", model, SPACE).fit(X)
    found = explainer.explain(X[:5])
    rows: list[int] = []
    real = RandomForestClassifier.predict

    def predict(self: Any, asked: Any) -> Any:
        rows.append(len(asked))
        return real(self, asked)

    monkeypatch.setattr(RandomForestClassifier, "predict", predict)
    certify(found, explainer)
    assert sum(size > RANDOM for size in rows) == 1
    rows.clear()
    certify(found, explainer)
    explainer.menu(X[:1], max_changes=1)
    found.regions()
    assert max(rows, default=0) < RANDOM


def test_rows_that_the_model_refuses_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    model = RandomForestClassifier(5, random_state=0).fit(X, Y)
    best = floor(model, SPACE, X[:5], most_changes=1)
    real = RandomForestClassifier.predict_proba

    def strict(self: Any, rows: Any) -> Any:
        if ((np.asarray(rows)[:, 0] > 1) & (np.asarray(rows)[:, 1] > 45)).any():
            raise ValueError("outside of the domain")
        return real(self, rows)

    monkeypatch.setattr(RandomForestClassifier, "predict_proba", strict)
    assert floor(model, SPACE, X[:5], most_changes=1).proved.tolist() == best.proved.tolist()
    monkeypatch.setattr(RandomForestClassifier, "predict", lambda self, rows: 1 / 0)
    with pytest.raises(UnsupportedError, match="refuses all"):
        floor(model, SPACE, X[:5], most_changes=1)


def test_probe_rows_have_the_ends_the_categories_the_missing_and_the_values_beside_thresholds() -> None:
    rows = X.assign(town=np.array(["Bonn", "Oslo", "Rome"])[X["b"] % 3])
    rows.loc[::9, "c"] = np.nan
    space = FeatureSpace.infer(rows, bounds={"b": (5, 45)}, fill_missing=["c"])
    model = RandomForestClassifier(5, random_state=0).fit(rows[["a", "b"]], Y)
    cuts = [*read_trees(model).cuts, np.empty(0), np.empty(0)]
    start = space.values(rows[1:2])[0]
    probes = probe_values(space, start, cuts)
    assert len(probes) > RANDOM
    assert {5.0, 45.0} <= set(probes[:, 1])
    assert set(probes[:, 3]) == {0.0, 1.0, 2.0}
    assert space.features[2].missing_code in probes[:, 2]
    between = np.sort(np.unique(probes[:, 1]))
    beside = [cut for cut in cuts[1] if {np.floor(cut), np.floor(cut) + 1} <= set(between)]
    assert len(beside) >= 5
    assert (probes[:RANDOM] == random_values(space, start, RANDOM)).all()
    assert (random_values(space, start, 48) == random_values(space, start, RANDOM)[:48]).all()


def test_a_network_is_asked_about_no_missing_cell() -> None:
    rows = X.astype({"b": float})
    model = LogisticRegression().fit(rows, Y)
    rows.loc[::9, "c"] = np.nan
    best = floor_of_network(model, FeatureSpace.infer(rows, fill_missing=["c"]), rows[1:5], most_changes=1)
    assert (best.proved > 0).all()
