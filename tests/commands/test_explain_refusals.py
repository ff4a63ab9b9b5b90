"""What `relax-plugin explain` refuses: in a sentence that says what is wrong, and with nothing written."""

from pathlib import Path

import joblib
import numpy as np
import pandas as pd
import pytest
from reference.saved_models import write_files
from sklearn.linear_model import LogisticRegression

from relax_plugin.cli import main


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder: Path = tmp_path_factory.mktemp("refusals")
    write_files(folder)
    write_bad_files(folder)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "files", "sentence"),
    [
        ([], {"training": "nowhere.csv"}, "there is no file nowhere.csv"),
        ([], {"model": "nowhere.joblib"}, "there is no model file nowhere.joblib"),
        ([], {"model": "train.csv"}, "the ending '.csv'; a .joblib, .pkl or .onnx file is needed"),
        ([], {"model": "broken.joblib"}, "broken.joblib is no joblib file that can be loaded"),
        ([], {"model": "foreign.joblib"}, "No module named 'foreign_module'; the modules its model is made of must be"),
        ([], {"model": "trap.joblib"}, "the model is a int; an estimator with predict"),
        ([], {"training": "empty.csv"}, "empty.csv cannot be read as CSV: No columns"),
        ([], {"training": "header.csv"}, "header.csv has a header, but no rows"),
        ([], {"training": "twice.csv"}, "column 'income' occurs twice in twice.csv"),
        ([], {"training": "ragged.csv"}, "the rows of ragged.csv have more cells than its header has names"),
        ([], {"training": "latin.csv"}, "latin.csv cannot be read as CSV"),
        ([], {"training": "few.csv"}, "few.csv has no column 'town'"),
        ([], {"model": "arrays.joblib"}, "trained on 3 features, but train.csv has 5: age (years), income"),
        (["--target", "aproved"], {}, "no target column 'aproved'; did you mean 'approved'?"),
        (["--queries", "few.csv"], {}, "few.csv has no column 'town'"),
        (["--queries", "word.csv"], {}, "feature 'income' is 'much' in row 1 of word.csv, but a number is needed"),
        (["--queries", "train.csv", "--rows", "1"], {}, "not allowed with argument"),
        (["--rows", "150"], {}, "there is no row 150 in train.csv; there are 0 to 149"),
        (["--to", "maybe"], {}, "the model has no class 'maybe'; it has 'no', 'yes'"),
        (["--shift", "1"], {}, "--shift is for regressors; a classifier takes --to LABEL"),
        (["--min-probability", "2"], {}, "--min-probability is 2.0, but must lie between 0 and 1"),
        ([], {"model": "points.joblib"}, "a regressor needs a goal: --shift DELTA or --between LOW HIGH"),
        (["--to", "1"], {"model": "points.joblib"}, "--to is for classifiers"),
        (["--shift", "-3"], {"model": "points.joblib"}, "for a lower answer say --shift 3 --direction down"),
        (["--between", "-", "-"], {"model": "points.joblib"}, "--between has no end"),
        (["--direction", "up", "--between", "1", "2"], {"model": "points.joblib"}, "give --shift DELTA with it"),
        (["--shift", "0"], {"model": "points.joblib"}, "--shift is 0.0, but must be a finite number other than 0"),
        (["--between", "5", "3"], {"model": "points.joblib"}, "--between is [5.0, 3.0], which is empty"),
        (["--between", "few", "3"], {"model": "points.joblib"}, "--between has the end 'few'; a number is needed"),
        (["-n", "0"], {}, "'0' is no whole number of at least 1"),
        (["--max-changes", "x"], {}, "'x' is no whole number of at least 1"),
        (["--immutable", "sex"], {}, "--immutable names feature 'sex'; known are 'age (years)', 'income'"),
        (["--increase-only", "town"], {}, "its categories ['Bonn', 'Oslo', 'Rome'] have no order"),
        (["--vary", "incom"], {}, "--vary names feature 'incom'; did you mean 'income'?"),
        (["--bounds", "incom=1:2"], {}, "--bounds names feature 'incom'; did you mean 'income'?"),
        (["--bounds", "income"], {}, "--bounds names feature 'income'; write FEATURE=LOW:HIGH"),
        (["--bounds", "income=low:9"], {}, "the bounds of feature 'income' are 'low:9'; give LOW:HIGH, such as "),
        (["--bounds", "income=9:1"], {}, "the bounds of feature 'income' are [9.0, 1.0]; give finite low <= high"),
        (
            ["--bounds", "income=999999:"],
            {},
            "the bounds of feature 'income' are [999999.0, None]; its values reach from",
        ),
        (["--bounds", "town=Paris"], {}, "feature 'town' has no category 'Paris'; it has 'Bonn', 'Oslo', 'Rome'"),
        (["--option", "quantile=3"], {}, "'greedy' has no option 'quantile'; did you mean 'quantiles'?"),
        (["--option", "quantiles"], {}, "option=value"),
        (["--option", "seed=3"], {}, "the option 'seed' is said by an argument of its own: --seed"),
        ([], {"method": "greed"}, "there is no explainer 'greed'; did you mean 'greedy'?"),
        (["--output", "out.txt"], {}, "--output is out.txt; a name that ends in .csv or .json or .parquet or .arrow"),
        (["--output", "nowhere/out.csv"], {}, "there is no folder nowhere to write 'out.csv' in"),
        (["--output", "train.csv"], {}, "--output would overwrite train.csv, which is read"),
        (["--output", "out.csv"], {"training": "after.csv", "model": "after.joblib"}, "a feature is called 'after'"),
        (["--html", "page.csv"], {}, "--html is page.csv; a name that ends in .html"),
    ],
)
def test_bad_input_is_refused_in_a_sentence(folder, monkeypatch, capsys, arguments, files, sentence):
    monkeypatch.chdir(folder)
    there = set(folder.iterdir())
    named = {"training": "train.csv", "model": "model.joblib", "method": "greedy"} | files
    try:
        code = main(["explain", named["training"], "--model", named["model"], "--method", named["method"], *arguments])
    except SystemExit as stopped:  # argparse's own refusals
        code = stopped.code
    out, err = capsys.readouterr()
    assert code == 2
    assert sentence in err
    assert "Fitting" not in err
    assert out == "" and set(folder.iterdir()) == there


def write_bad_files(folder: Path) -> None:
    rows = pd.read_csv(folder / "train.csv").head(5)
    (folder / "empty.csv").write_text("")
    (folder / "header.csv").write_text("a,b\n")
    (folder / "twice.csv").write_text("income,income\n1,2\n")
    (folder / "ragged.csv").write_text("a,b\n1,2,3\n")
    (folder / "latin.csv").write_bytes("a,b\nö,1\n".encode("latin-1"))
    rows.drop(columns="town").to_csv(folder / "few.csv", index=False)
    rows.assign(income=["1", "much", "2", "3", "4"]).to_csv(folder / "word.csv", index=False)
    (folder / "broken.joblib").write_bytes(b"no pickle")
    (folder / "foreign.joblib").write_bytes(b"cforeign_module\nModel\n.")
    numbers = np.random.default_rng(0).random((9, 3))
    joblib.dump(LogisticRegression().fit(numbers, np.arange(9) % 2), folder / "arrays.joblib")
    after = pd.DataFrame(numbers, columns=["after", "b", "c"])
    after.to_csv(folder / "after.csv", index=False)
    joblib.dump(LogisticRegression().fit(after, np.arange(9) % 2), folder / "after.joblib")
