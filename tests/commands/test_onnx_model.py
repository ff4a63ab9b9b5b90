"""`relax-plugin explain` with ONNX files, as converters really write them."""

import json
import sys

import numpy as np
import onnxruntime
import pandas as pd
import pytest
from onnx import TensorProto, helper, save
from skl2onnx import to_onnx
from skl2onnx.common.data_types import BooleanTensorType, FloatTensorType, Int64TensorType, StringTensorType
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression, RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVC, LinearSVC

from relax_plugin.cli import main

WITHOUT_ZIPMAP = {"zipmap": False}


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Write training rows and a model, and explain the first rows: exit code, lines of JSON, stderr."""
    monkeypatch.chdir(tmp_path)

    def call(rows, model, *arguments, method="greedy"):
        rows.to_csv("train.csv", index=False)
        if model is not None:
            save(model, "model.onnx")
        named = ["explain", "train.csv", "--model", "model.onnx", "--method", method, "--json"]
        code = main([*named, "--output", "out.csv", *arguments])
        out, err = capsys.readouterr()
        return code, json.loads(out or "[]"), err

    return call


@pytest.fixture(scope="module")
def numbers():
    return pd.DataFrame(np.random.default_rng(0).normal(size=(200, 3)).round(3), columns=["a", "b", "c"])


def asked(rows, output=0):
    """The session's own answers, in single precision, to rows of a single tensor."""
    session = onnxruntime.InferenceSession("model.onnx", providers=["CPUExecutionProvider"])
    return session.run(None, {session.get_inputs()[0].name: rows.to_numpy(dtype=np.float32)})[output]


@pytest.mark.slow
@pytest.mark.parametrize("options", [None, WITHOUT_ZIPMAP], ids=["maps", "tensor"])
@pytest.mark.parametrize("labels", [["no", "perhaps", "yes"], [0, 1, 2], [4, 5, 9]], ids=str)
def test_delivered_rows_get_the_answer_of_the_onnx_model(run, numbers, labels, options):
    target = np.array(labels)[(numbers["a"] + numbers["b"] > 0).astype(int) + (numbers["a"] - numbers["c"] > 1)]
    forest = RandomForestClassifier(15, random_state=0).fit(numbers.to_numpy(), target)
    onnx = to_onnx(forest, numbers.to_numpy(dtype=np.float32)[:1], options=options)
    code, lines, _ = run(numbers, onnx, "--to", str(labels[2]))
    found = pd.read_csv("out.csv")
    assert code == 0 and len(found) == 10
    assert asked(found[["a", "b", "c"]]).tolist() == found["after"].tolist() == [labels[2]] * 10
    assert {line["before"] for line in lines} <= set(labels)


@pytest.mark.slow
def test_mixed_columns_are_fed_one_by_one(run):
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"age (years)": rng.integers(18, 80, 150), "income": rng.integers(0, 900, 150) / 10})
    rows["town"], rows["member"] = rng.choice(["Rome", "Bonn"], 150), rng.random(150) > 0.5
    scaled = (StandardScaler(), ["income"])
    columns = make_column_transformer((OneHotEncoder(), ["town"]), scaled, ("passthrough", ["age (years)", "member"]))
    target = np.where(rows["income"] + rows["age (years)"] + 20 * (rows["town"] == "Rome") > 105, "yes", "no")
    model = make_pipeline(columns, LogisticRegression(max_iter=1000)).fit(rows, target)
    kinds = [Int64TensorType, FloatTensorType, StringTensorType, BooleanTensorType]
    types = [(name, kind([None, 1])) for name, kind in zip(rows.columns, kinds, strict=True)]
    shuffled = rows.assign(id=range(150))[["town", "id", "member", "income", "age (years)"]]
    code, _, err = run(shuffled, to_onnx(model, initial_types=types), "--min-probability", "0.7")
    found = pd.read_csv("out.csv")
    assert code == 0 and "Left out of train.csv, since they are no features: id." in err
    assert (model.predict_proba(found[rows.columns]).max(axis=1) > 0.69).all()
    assert model.predict(found[rows.columns]).tolist() == found["after"].tolist()
    assert (found["after"] != found["before"]).all()
    run(shuffled, None, "--vary", "town")
    found = pd.read_csv("out.csv")
    assert len(found) and model.predict(found[rows.columns]).tolist() == found["after"].tolist()

    halves = rows.head(2).assign(**{"age (years)": [20.5, 30.0]})
    halves.to_csv("queries.csv", index=False)
    code, _, err = run(shuffled, None, "--queries", "queries.csv")
    assert code == 2 and "the ONNX input 'age (years)' is a tensor(int64), which cannot hold 20.5" in err

    code, _, err = run(rows.drop(columns="income"), None)
    assert code == 2 and "train.csv has no column 'income'" in err
    code, _, err = run(rows.assign(income="much"), None)
    assert code == 2 and "the ONNX input 'income' takes numbers, but its column holds text" in err


def test_a_single_number_is_a_regressor(run, numbers):
    model = LinearRegression().fit(numbers.to_numpy(), numbers["a"] - numbers["c"])
    onnx = to_onnx(model, numbers.to_numpy(dtype=np.float32)[:1])
    code, _, err = run(numbers, onnx)
    assert code == 2 and "a regressor needs a goal" in err
    code, _, _ = run(numbers, onnx, "--shift", "1")
    found = pd.read_csv("out.csv")
    assert code == 0
    assert np.array_equal(asked(found[["a", "b", "c"]])[:, 0], found["after"].astype(np.float32))
    assert ((found["after"] - found["before"]).abs() >= 1).all()
    code, _, err = run(numbers, onnx, "--task", "classification")
    assert code == 2 and "a classifier gives labels, one score a class, or the probability of class 1" in err


@pytest.mark.slow
@pytest.mark.parametrize(("model", "right"), [(LinearSVC(), True), (RidgeClassifier(), True), (SVC(), False)])
def test_margins_help_unless_they_contradict_the_labels(run, numbers, model, right):
    # skl2onnx writes a single column of margins for the first two, and the margins of an SVC with the sign reversed:
    # as maps, which name the wrong labels, or (scikit-learn before 1.9) as bare columns, whose labels can be told.
    model.fit(numbers.to_numpy(), np.where(numbers["a"] + numbers["b"] > 0, "yes", "no"))
    onnx = to_onnx(model, numbers.to_numpy(dtype=np.float32)[:1])
    code, _, err = run(numbers, onnx)
    scored = right or not isinstance(asked(numbers, output=1), list)
    assert (code == 0) == scored
    assert scored or "it needs scores, and the model answers labels only" in err
    code, _, _ = run(numbers, onnx, method="nearest-ct")
    found = pd.read_csv("out.csv")
    assert code == 0 and asked(found[["a", "b", "c"]]).tolist() == found["after"].tolist()
    code, _, err = run(numbers, onnx, "--min-probability", "0.9", method="nearest-ct")
    assert code == 2 and "min_probability needs a model that gives probabilities" in err


@pytest.mark.slow
def test_a_large_table_is_explained_by_processes_that_open_the_file_themselves(run, numbers, tmp_path):
    cells = numbers.to_numpy(dtype=np.float32)
    onnx = to_onnx(LogisticRegression().fit(cells, numbers["a"] > 0), cells[:1])
    code, lines, _ = run(numbers, onnx)
    assert code == 0 and lines
    assert main(["explain", "train.csv", "--model", "model.onnx", "--method", "greedy", "--output", "out/"]) == 0
    parts = pd.read_csv(tmp_path / "out" / "part-00000.csv")
    one = pd.read_csv(tmp_path / "out.csv")
    pd.testing.assert_frame_equal(parts[: len(one)], one)


def network(*nodes, shape=("rows", 3), width=1):
    """An ONNX file of a few nodes from x to y, as other libraries write them: no label, no names."""
    weights = helper.make_tensor("w", TensorProto.FLOAT, [3, width], np.eye(3, width).ravel() * 4)
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, list(shape))
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [shape[0], width])
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["h"]), *nodes], "net", [x], [y], [weights])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_a_probability_alone_is_that_of_class_1(run, numbers):
    onnx = network(helper.make_node("Sigmoid", ["h"], ["y"]))
    code, lines, _ = run(numbers, onnx, "--task", "classification", "--to", "1", "--min-probability", "0.9")
    found = pd.read_csv("out.csv")
    assert code == 0 and (found["after"] == 1).all()
    assert (asked(found[["a", "b", "c"]]) >= 0.9).all() and {line["before"] for line in lines} == {0, 1}


@pytest.mark.slow
@pytest.mark.parametrize("last", ["Softmax", "Identity"])
def test_scores_without_labels_are_numbered(run, numbers, last):
    onnx = network(helper.make_node(last, ["h"], ["y"]), width=3)
    code, _, err = run(numbers, onnx, "--to", "2")
    found = pd.read_csv("out.csv")
    assert code == 0 and (asked(found[["a", "b", "c"]]).argmax(axis=1) == 2).all()
    code, _, err = run(numbers, onnx, "--min-probability", "0.6")
    assert (code == 0) == (last == "Softmax"), err


def test_files_that_cannot_be_asked_are_refused(run, numbers, tmp_path, monkeypatch):
    code, _, err = run(numbers, network(helper.make_node("Sigmoid", ["h"], ["y"]), shape=(1, 3)))
    assert code == 2 and "the ONNX input 'x' takes 1 row(s) at a time" in err
    code, _, err = run(numbers.assign(d=0), network(helper.make_node("Sigmoid", ["h"], ["y"])))
    assert code == 2 and "trained on 3 features, but train.csv has 4: a, b, c, d" in err
    (tmp_path / "model.onnx").write_bytes(b"nothing")
    code, _, err = run(numbers, None)
    assert code == 2 and "model.onnx is no ONNX model that can be loaded" in err
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    code, _, err = run(numbers, None)
    assert code == 2 and "pip install 'relax-plugin[onnx]'" in err
    assert not (tmp_path / "out.csv").exists()
