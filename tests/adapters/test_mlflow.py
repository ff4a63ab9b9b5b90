"""MLflow's face with the real MLflow: logged to a store on disk, loaded without pickle, judged by its `evaluate`."""

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from markdown_files import code_under
from reference.tiny import QUICK
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

os.environ |= {"MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_ALLOW_FILE_STORE": "true"}  # before mlflow is imported
mlflow = pytest.importorskip("mlflow", reason="needs relax-plugin[mlflow]")

from relax_plugin import FeatureSpace, ReLAX, make_explainer  # noqa: E402
from relax_plugin.adapters import mlflow as face  # noqa: E402
from relax_plugin.errors import InputError, MissingExtraError, NotFittedError, UnknownNameError, UnsupportedError  # noqa: E402
from relax_plugin.evaluation import metrics  # noqa: E402

TOOLKITS = Path(__file__).resolve().parents[2] / "docs" / "toolkits.md"
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:Hint. Inferred schema contains integer")]


def people(n: int, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    columns = {
        "income": rng.normal(30, 8, n).round(1),
        "years": rng.integers(0, 20, n),
        "town": rng.choice(["Rome", "Bonn", "Oslo"], n),
    }
    return pd.DataFrame(columns)


def granted(rows: pd.DataFrame) -> np.ndarray:
    return np.where(rows["income"] + rows["years"] + 5 * (rows["town"] == "Oslo") > 41, "yes", "no")


@pytest.fixture(scope="module")
def explainer() -> ReLAX:
    X = people(300)
    columns = make_column_transformer((OneHotEncoder(), ["town"]), remainder="passthrough")
    model = make_pipeline(columns, LogisticRegression(max_iter=1000)).fit(X, granted(X))
    return ReLAX(model, FeatureSpace.infer(X, immutable=["years"]), config=QUICK, progress=False).fit(X)


@pytest.fixture(scope="module")
def logged(explainer: ReLAX, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The explainer, logged to a tracking store on disk that the other tests use too."""
    mlflow.set_tracking_uri(str(tmp_path_factory.mktemp("mlflow") / "store"))
    with mlflow.start_run():
        return face.log_model(explainer, "loans", input_example=people(3), metadata={"purpose": "a test"})


def test_a_logged_explainer_is_loaded_as_a_pyfunc_that_answers_the_same(explainer: ReLAX, logged: Any) -> None:
    loaded = mlflow.pyfunc.load_model(logged.model_uri)
    rows = people(12, seed=1)
    records = loaded.predict(rows)
    assert records == explainer.explain(rows).to_dict()["queries"]
    assert all(record["counterfactuals"][0]["found"] for record in records)
    assert json.loads(json.dumps(records)) == records
    assert loaded.metadata.metadata == {"purpose": "a test"}
    assert (loaded.metadata.flavors["relax"]["model_flavor"], explainer.variant) == ("sklearn", "global")


def test_parameters_of_a_call_reach_the_explainer_and_others_do_not_pass(explainer: ReLAX, logged: Any) -> None:
    loaded, rows = mlflow.pyfunc.load_model(logged.model_uri), people(6, seed=2)
    asked = {"n": 2, "vary": ["income"], "max_changes": 1}
    records = loaded.predict(rows, params=asked)
    assert records == explainer.explain(rows, **asked).to_dict()["queries"] != loaded.predict(rows)
    assert {len(record["counterfactuals"]) for record in records} == {2}
    changed = [c["feature"] for record in records for one in record["counterfactuals"] for c in one["changes"]]
    assert set(changed) == {"income"}
    with pytest.raises(UnknownNameError, match=r"'max_change'; did you mean 'max_changes'\?"):
        face.CounterfactualModel(explainer).predict(rows, {"max_change": 2})
    with pytest.raises(mlflow.MlflowException, match="town"):
        loaded.predict(rows.drop(columns="town"))  # the example's columns are held against what is handed in


def test_nothing_of_what_is_logged_is_pickled(logged: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Path(mlflow.artifacts.download_artifacts(logged.model_uri))
    names = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert {"data/relax/explainer.safetensors", "data/relax/model/model.skops"} <= names
    assert not [name for name in names if Path(name).suffix in (".pkl", ".pickle", ".joblib", ".dill")]

    def refused(*_: Any, **__: Any) -> None:
        raise AssertionError("something was unpickled")

    for name in ("load", "loads", "Unpickler"):
        monkeypatch.setattr(pickle, name, refused)
    assert isinstance(face.load_model(logged.model_uri), ReLAX)


def test_metrics_reach_the_store_by_the_entry_point_and_are_those_of_the_judge(explainer: ReLAX, logged: Any) -> None:
    assert "relax" in mlflow.models.list_evaluators()
    rows = people(25, seed=3)
    with mlflow.start_run() as run:
        told = mlflow.models.evaluate(
            logged.model_uri,
            data=rows,
            model_type="counterfactual",
            evaluators="relax",
            evaluator_config={"n": 2, "vary": ["town"], "metric_prefix": "town_"},
        )
    client = mlflow.MlflowClient()
    kept = client.get_run(run.info.run_id).data.metrics
    assert kept == told.metrics
    result = explainer.explain(rows, n=2, vary=["town"])
    first, found = result.values[:, 0], result.found[:, 0]
    assert 0 < found.sum() < len(rows), "some cannot be solved by another town"
    assert kept["town_validity"] == metrics.validity(found)
    assert kept["town_validity_at_1"] == metrics.validity_at(found, result.sparsity[:, 0], 1)
    assert kept["town_sparsity"] == 1.0
    distance = metrics.proximity(result.space, result.start, first)
    assert kept["town_proximity"] == pytest.approx(metrics.mean_over(found, distance))
    assert (kept["town_violations"], kept["town_redundancy"], kept["town_inside_box"]) == (0, 0, 1)
    assert kept["town_count"] == result.found.sum() / len(rows)
    files = {file.path for file in client.list_artifacts(run.info.run_id)}
    assert files >= {"town_counterfactuals.csv", "town_instances.csv"}
    instances = pd.read_csv(client.download_artifacts(run.info.run_id, "town_instances.csv"))
    assert instances["valid"].tolist() == found.tolist()
    assert instances["status"].tolist() == result.statuses[:, 0].tolist()
    pd.testing.assert_frame_equal(told.artifacts["town_counterfactuals"].content, result.frame)


def test_a_false_claim_is_not_believed(explainer: ReLAX) -> None:
    from relax_plugin.adapters.mlflow_evaluator import Examined

    result = explainer.explain(people(10, seed=4))
    honest = Examined(explainer, result).metrics()
    assert honest["validity"] == 1.0
    result = explainer.explain(people(10, seed=4))
    result.values[:2, 0] = result.start[:2]  # no change at all, which the model does not answer otherwise
    years = result.space.names.index("years")
    result.values[2, 0, years] += 1  # which is immutable
    doubted = Examined(explainer, result).metrics()
    assert doubted["validity"] == 0.7
    assert doubted["violations"] >= 1
    assert doubted["redundancy"] == honest["redundancy"] == 0


def test_numbers_about_training_rows_are_left_out_where_a_file_keeps_none(explainer: ReLAX, tmp_path: Path) -> None:
    from relax_plugin.adapters.mlflow_evaluator import Examined

    space = explainer.space_
    made = ReLAX(explainer.model, space, config=QUICK, progress=False).fit(people(300))
    face.save_model(made, tmp_path / "folder", training_rows=False)
    loaded = face.load_model(str(tmp_path / "folder"))
    told = Examined(loaded, loaded.explain(people(5, seed=7))).metrics()
    assert told["validity"] == 1.0
    assert {"inside_box", "neighbour_distance", "diversity"}.isdisjoint(told)
    kept = Examined(explainer, explainer.explain(people(5, seed=7))).metrics()
    assert {"inside_box", "neighbour_distance"} <= kept.keys()


def test_without_mlflow_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name == "mlflow" or name.startswith("mlflow.")]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingExtraError, match=r"relax-plugin\[mlflow\]"):
        face.library()


def test_what_cannot_be_logged_or_evaluated_is_refused_with_a_sentence(explainer: ReLAX, tmp_path: Path) -> None:
    from relax_plugin.adapters.mlflow_evaluator import CounterfactualEvaluator

    X, model = people(50), explainer.model
    with pytest.raises(UnsupportedError, match="learns nothing that a file could hold"):
        face.save_model(make_explainer("greedy", model).fit(X), tmp_path / "greedy")
    with pytest.raises(NotFittedError):
        face.save_model(ReLAX(model), tmp_path / "unfitted")
    with pytest.raises(UnknownNameError, match="'sklear'; did you mean 'sklearn'"):
        face.save_model(explainer, tmp_path / "misspelt", model_flavor="sklear")
    with pytest.raises(UnsupportedError, match=r"builtins\.function that is known here"):
        face.flavor_of(granted)
    with pytest.raises(InputError, match="no logged explainer"):
        face.explainer_of(object())
    with pytest.raises(UnknownNameError, match=r"'max_change'.*did you mean 'max_changes'"):
        CounterfactualEvaluator().evaluate(model=None, dataset=None, run_id="", evaluator_config={"max_change": 1})
    assert not CounterfactualEvaluator.can_evaluate(model_type="classifier", evaluator_config={})
    assert not list(tmp_path.iterdir())


def model_of(library: str, X: np.ndarray) -> Any:
    module = pytest.importorskip(library)
    if library == "torch":
        layers = module.nn.Sequential(module.nn.Linear(3, 2), module.nn.Softmax(dim=1))
        with module.no_grad():
            layers[0].weight.copy_(module.tensor([[-1.0, -1.0, 0.0], [1.0, 1.0, 0.0]]))
        return layers
    quiet = {"verbose": -1} if library == "lightgbm" else {}
    made = getattr(module, {"lightgbm": "LGBMClassifier", "xgboost": "XGBClassifier"}[library])
    return made(n_estimators=10, max_depth=2, n_jobs=1, **quiet).fit(X, (X[:, 0] + X[:, 1] > 0).astype(int))


@pytest.mark.filterwarnings("ignore:.*An input example was not provided")
@pytest.mark.parametrize(
    ("library", "options", "file"),
    [
        ("xgboost", {}, "model.ubj"),
        ("lightgbm", {}, "model.skops"),
        ("torch", {"serialization_format": "pickle"}, "data/model.pth"),
    ],
)
def test_a_model_over_numbers_is_logged_by_the_flavour_of_its_library(
    library: str, options: dict[str, Any], file: str, tmp_path: Path
) -> None:
    X = np.random.default_rng(0).normal(size=(200, 3)).astype(np.float32)
    made = ReLAX(model_of(library, X), config=QUICK, progress=False).fit(X)
    face.save_model(made, tmp_path / "folder", pip_requirements=[library], model_options=options)
    assert (tmp_path / "folder" / "data" / "relax" / "model" / file).is_file()
    assert library in (tmp_path / "folder" / "requirements.txt").read_text().split()
    loaded = mlflow.pyfunc.load_model(str(tmp_path / "folder"))
    assert loaded.predict(X[:5], params={"vary": ["x0"]}) == made.explain(X[:5], vary=["x0"]).to_dict()["queries"]
    assert loaded.get_raw_model().blackbox_.classes.tolist() == [0, 1]


def test_the_lines_of_the_documentation_run(explainer: ReLAX, logged: Any) -> None:
    assert logged.model_uri  # the store is there
    names = {"mlflow": mlflow, "explainer": explainer, "X_test": people(8, seed=6)}
    exec(code_under("MLflow", TOOLKITS), names)
    assert [len(record["counterfactuals"]) for record in names["records"]] == [2] * 8
    assert names["explainer"] is not explainer
    assert names["told"].metrics["validity"] == 1.0


def test_the_lines_of_the_documentation_run_with_a_forest_on_the_default_store(tmp_path: Path) -> None:
    """In a folder and a process of their own, with no setting of MLflow's and no option for trees."""
    pytest.importorskip("sqlalchemy", reason="needs relax-plugin[mlflow]")
    prelude = """
import mlflow
import numpy as np
from sklearn.ensemble import RandomForestClassifier
from reference.tiny import QUICK
from relax_plugin import ReLAX
X_test = np.random.default_rng(0).normal(size=(60, 3))
model = RandomForestClassifier(10, random_state=0).fit(X_test, X_test[:, 0] > 0)
explainer = ReLAX(model, config=QUICK, progress=False).fit(X_test)
"""
    told = "\nprint(len(records), told.metrics['validity'], mlflow.get_tracking_uri())"
    root = TOOLKITS.parents[1]
    own = {name: value for name, value in os.environ.items() if not name.startswith("MLFLOW_")}
    path = os.pathsep.join([str(root), str(root / "tests"), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", prelude + code_under("MLflow", TOOLKITS) + told],
        cwd=tmp_path,
        env={**own, "PYTHONPATH": path, "MLFLOW_DISABLE_TELEMETRY": "true"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    rows, validity, uri = done.stdout.splitlines()[-1].split()
    assert (rows, validity) == ("60", "1.0")
    assert uri.startswith("sqlite:") and (tmp_path / "mlflow.db").is_file()


@pytest.mark.filterwarnings("ignore:.*An input example was not provided")
@pytest.mark.parametrize("made", [RandomForestClassifier(3), HistGradientBoostingClassifier(max_iter=3)])
def test_tree_models_of_scikit_learn_need_no_options(made: Any, tmp_path: Path) -> None:
    X = np.random.default_rng(0).normal(size=(120, 3))
    explainer = ReLAX(made.fit(X, X[:, 0] > 0), config=QUICK, progress=False).fit(X)
    face.save_model(explainer, tmp_path / "folder")
    loaded = mlflow.pyfunc.load_model(str(tmp_path / "folder"))
    assert loaded.predict(X[:5]) == explainer.explain(X[:5]).to_dict()["queries"]


class Doubled(LogisticRegression):
    """A class that is none of scikit-learn's."""


def test_classes_of_other_packages_are_not_trusted_unasked(tmp_path: Path) -> None:
    X = np.random.default_rng(0).normal(size=(120, 3))
    explainer = ReLAX(Doubled().fit(X, X[:, 0] > 0), config=QUICK, progress=False).fit(X)
    with pytest.raises(mlflow.MlflowException, match="untrusted types"):
        face.save_model(explainer, tmp_path / "folder")
