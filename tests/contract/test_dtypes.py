"""Rows and labels of every dtype through every explainer: an answer that holds, or a sentence; never a raw error."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from reference.every_explainer import ON_NETWORKS, ON_TREES, every_explainer
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression

from relax_plugin import Counterfactuals, FeatureSpace, ReLAXConfig, make_explainer
from relax_plugin.errors import InputError, UnsupportedError

SMALL = ReLAXConfig(steps=2, episodes=8, updates_per_step=1, hidden=8, start_pool=64, local_steps=2, local_episodes=2)
QUICK: dict[str, dict[str, Any]] = {
    "relax-global": {"config": SMALL, "progress": False},
    "relax-local": {"config": SMALL, "progress": False},
    "dice-random": {"sample_size": 50},
    "lore": {"population": 40, "generations": 2},
    "focus": {"iterations": 30, "learning_rate": 0.2},
    "cfrl": {"steps": 60},
    "fastar": {"steps": 4_000, "tries": 3},
}

RNG = np.random.default_rng(4)
NUMBERS = np.column_stack([RNG.normal(size=100), RNG.integers(0, 9, 100), RNG.normal(size=100).round(1)])
POSITIVE = NUMBERS[:, 0] + 0.3 * (NUMBERS[:, 1] - 4) > 0
NAMES = ["x", "count", "tenths"]
FRAME = pd.DataFrame(NUMBERS, columns=NAMES)

CONTAINERS: dict[str, Callable[[], Any]] = {
    "float16 array": lambda: NUMBERS.astype(np.float16),
    "object array": lambda: NUMBERS.astype(object),
    "whole numbers": lambda: np.round(NUMBERS * 4).astype(np.int8),
    "read-only array": lambda: np.frombuffer(NUMBERS.tobytes()).reshape(NUMBERS.shape),
    "float16 frame": lambda: FRAME.astype(np.float16),
    "object frame": lambda: FRAME.astype(object),
    "nullable frame": lambda: FRAME.astype({"x": "Float32", "count": "Int16", "tenths": "Float64"}),
    "unsigned frame": lambda: FRAME.astype({"count": np.uint8}),
}
LABELS: dict[str, Callable[[], Any]] = {
    "bool": lambda: POSITIVE,
    "object of str": lambda: np.where(POSITIVE, "yes", "no").astype(object),
    "int8": lambda: POSITIVE.astype(np.int8) * 2 - 1,
}


def plain(rows: Any) -> Any:
    """The cells as float64, whatever holds them."""
    return np.asarray(rows, dtype=np.float64)


class AnyRows:
    """A stranger's model that reads rows of every dtype, without an inside to look into."""

    def __init__(self, model: Any) -> None:
        self.model, self.classes_ = model, model.classes_

    def predict_proba(self, rows: Any) -> Any:
        return self.model.predict_proba(plain(rows))

    def predict(self, rows: Any) -> Any:
        return self.model.predict(plain(rows))


def model_for(name: str, labels: Any) -> Any:
    if name in ON_TREES:
        return RandomForestClassifier(8, max_depth=3, random_state=0).fit(NUMBERS, labels)
    model = LogisticRegression().fit(NUMBERS, labels)
    return model if name in ON_NETWORKS else AnyRows(model)


def why_skipped(name: str, container: str) -> str | None:
    """How the sentence ends by which a method that looks inside the model says what it cannot read."""
    if name in ON_TREES and "float16" in container:
        return "is float16"
    if name in ("treecf", *ON_NETWORKS) and container == "object frame":
        return "is categorical"
    return None


def assert_holds(result: Counterfactuals, model: Any, queries: Any) -> None:
    """What is found turns the raw model on the delivered rows, in the queries' own dtypes."""
    frame = result.frame
    delivered = frame[list(result.space.names)]
    before = model.predict(plain(queries))[frame["query_id"]]
    assert (model.predict(plain(delivered)) != before).all()
    assert result.before.tolist() == model.predict(plain(queries)).tolist()
    if isinstance(queries, pd.DataFrame):
        assert (delivered.dtypes == queries.dtypes).all()
    else:
        restored = result.space.restore(result.values[:, 0], queries)
        assert restored.dtype == queries.dtype


@pytest.mark.slow
@every_explainer
@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.filterwarnings("ignore:X has feature names", "ignore:X does not have valid feature names")
def test_rows_of_every_dtype_are_explained(name: str, container: str) -> None:
    rows = CONTAINERS[container]()
    model = model_for(name, POSITIVE)
    explainer = make_explainer(name, model, **QUICK.get(name, {}))
    reason = why_skipped(name, container)
    if reason is not None:
        with pytest.raises(UnsupportedError, match=rf"^skipped because .* {reason}\.$"):
            explainer.fit(rows)
        return
    result = explainer.fit(rows).explain(rows[:3], n=2)
    assert_holds(result, model, rows[:3])
    assert result.found[:, 0].any()


@pytest.mark.slow
@every_explainer
@pytest.mark.parametrize("kind", LABELS)
def test_labels_of_every_dtype_are_told_and_turned(name: str, kind: str) -> None:
    model = model_for(name, LABELS[kind]())
    result = make_explainer(name, model, **QUICK.get(name, {})).fit(NUMBERS).explain(NUMBERS[:3], n=2)
    assert_holds(result, model, NUMBERS[:3])
    assert result.found[:, 0].any()
    assert result.after[result.found].tolist() == model.predict(plain(result.frame[list(result.space.names)])).tolist()


def test_a_dtype_that_no_file_holds_is_refused_when_it_is_written() -> None:
    pa = pytest.importorskip("pyarrow")
    town = pd.Series([["Rome"], ["Bonn"], ["Rome"]], dtype=pd.ArrowDtype(pa.list_(pa.string())))
    space = FeatureSpace.infer(pd.DataFrame({"x": [0.5, 1.5, 2.5], "town": town}))
    with pytest.raises(InputError, match=r"feature 'town' has dtype list.*, which a file cannot hold"):
        space.to_dict()


class ByTown:
    """A classifier for which the town decides."""

    classes_ = np.array([0, 1])

    def predict_proba(self, rows: pd.DataFrame) -> Any:
        chance = np.array([0.9 if str(town) == "Rome" else 0.2 for town in rows["town"]])
        return np.column_stack([1.0 - chance, chance])

    def predict(self, rows: pd.DataFrame) -> Any:
        return self.predict_proba(rows).argmax(axis=1)


def test_dictionaries_of_arrow_are_categories_and_come_back_as_they_were(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    towns = pd.Categorical(["Rome", "Bonn", None, "Oslo"] * 20)
    pd.DataFrame({"x": np.arange(80) / 4, "town": towns}).to_parquet(tmp_path / "rows.parquet")
    rows = pd.read_parquet(tmp_path / "rows.parquet", dtype_backend="pyarrow")
    space = FeatureSpace.infer(rows, fill_missing=["town"])
    assert space.features[1].categories == ("Bonn", "Oslo", "Rome")
    result = make_explainer("greedy", ByTown(), space=space).fit(rows).explain(rows[:8])
    assert result.found.all() and {"Rome"} < set(result.frame["town"])
    assert result.frame["town"].dtype == rows["town"].dtype
    again = Counterfactuals.from_json(result.to_json())
    assert again.frame.equals(result.frame) and again.frame["town"].dtype == rows["town"].dtype
    assert FeatureSpace.from_dict(space.to_dict()).features == space.features
