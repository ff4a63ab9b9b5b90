"""`treecf`: the package's own searches, on the trees as this package reads them."""

import sys
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
import treecf
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from treecf.ir.evaluate import raw_score_batch
from xgboost import XGBClassifier

from relax_plugin import FeatureSpace, Goal, make_explainer
from relax_plugin.baselines.treecf import TreeCF, handed_over
from relax_plugin.errors import MissingExtraError, UnsupportedError

RNG = np.random.default_rng(5)
ROWS = pd.DataFrame(RNG.normal(size=(200, 4)), columns=list("abcd"))
LABELS = (ROWS["a"] + ROWS["b"] ** 2 - ROWS["c"] > 0.5).astype(int)
XGB = XGBClassifier(n_estimators=12, max_depth=3, random_state=0).fit(ROWS, LABELS)
FOREST = make_pipeline(StandardScaler(), RandomForestClassifier(15, max_depth=4, random_state=0)).fit(ROWS, LABELS)


@pytest.mark.parametrize("model", [XGB, FOREST], ids=["xgboost", "forest behind a scaler"])
def test_the_trees_handed_over_answer_as_the_model_does(model: Any) -> None:
    explainer = TreeCF(model).fit(ROWS)
    scores = raw_score_batch(handed_over(explainer.trees_, explainer.space_), ROWS.to_numpy())
    assert ((scores > 0) == (model.predict(ROWS) == 1)).all()


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["genetic", "exact"])
def test_its_distances_are_those_of_the_package_asked_directly(backend: str) -> None:
    space = FeatureSpace.infer(ROWS)
    queries = ROWS[:8]
    found = TreeCF(XGB, space, backend=backend).fit(ROWS).explain(queries)
    assert found.found.all()
    bounds = [treecf.Range(name, float(ROWS[name].min()), float(ROWS[name].max())) for name in ROWS]
    direct = treecf.Explainer(XGB, constraints=bounds, normalizers=space.scale)
    before = XGB.predict(queries)
    for place, row in enumerate(queries.to_numpy()):
        wanted = {"op": "<=", "value": 0.0} if before[place] else {"op": ">=", "value": 1e-7}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            answer = direct.explain(row, treecf.Target.raw(**wanted), backend=backend, seed=0)
        away = found.space.distance(found.values[place], found.start[[place]])[0]
        assert away == pytest.approx(answer.distance, rel=1e-5, abs=1e-6 if backend == "exact" else 0.02)


@pytest.mark.slow
def test_what_the_exact_search_proves_is_as_near_as_the_optimum_of_mace() -> None:
    queries = ROWS[:6]
    exact = TreeCF(FOREST, backend="exact").fit(ROWS).explain(queries)
    mace = make_explainer("mace", FOREST).fit(ROWS).explain(queries)
    assert exact.found.all() and mace.found.all()
    away = [result.space.distance(result.values[:, 0], result.start) for result in (exact, mace)]
    proved = exact.stages[:, 0] == "treecf, optimal"
    assert proved.any()
    np.testing.assert_allclose(away[0][proved], away[1][proved], atol=1e-3)


@pytest.mark.slow
def test_no_more_than_max_changes_are_made_and_limits_hold() -> None:
    space = FeatureSpace.infer(ROWS, immutable=["d"], increase_only=["a"], bounds={"c": (-1.0, 1.0)}, steps={"b": 0.25})
    found = TreeCF(XGB, space, max_changes=1).fit(ROWS).explain(ROWS[:30])
    frame = found.frame
    assert len(frame) >= 15
    assert np.nanmax(found.sparsity) == 1
    original = ROWS.iloc[frame["query_id"]]
    assert (frame["a"].to_numpy() >= original["a"].to_numpy()).all()
    assert frame["c"][frame["c"].to_numpy() != original["c"].to_numpy()].between(-1, 1).all()
    assert (XGB.predict(frame[list(ROWS)]) != XGB.predict(original)).all()


@pytest.mark.slow
@pytest.mark.parametrize("model", [XGB, FOREST], ids=["xgboost", "forest"])
def test_a_probability_is_reached(model: Any) -> None:
    found = TreeCF(model).fit(ROWS).explain(ROWS[:20], goal=Goal.to(1, min_probability=0.7))
    assert found.found.mean() >= 0.8
    assert (model.predict_proba(found.frame[list(ROWS)])[:, 1] >= 0.7).all()


def test_more_classes_and_other_models_are_skipped() -> None:
    three = RandomForestClassifier(3, random_state=0).fit(ROWS, RNG.integers(0, 3, 200))
    with pytest.raises(UnsupportedError, match="it explains models of two classes, and this one has 3"):
        TreeCF(three).fit(ROWS)
    with pytest.raises(UnsupportedError, match="needs a tree ensemble"):
        TreeCF(LogisticRegression().fit(ROWS, LABELS)).fit(ROWS)


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "treecf", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'relax-plugin\[treecf\]'"):
        TreeCF(XGB).fit(ROWS)
