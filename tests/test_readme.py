"""The code of README runs as it is printed."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression

README = Path(__file__).parent.parent / "README.md"
SNIPPETS = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)


def test_the_quick_start_of_the_readme_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        {"age": rng.integers(18, 80, 300), "education": rng.integers(0, 5, 300), "income": rng.random(300)}
    )
    model = LogisticRegression().fit(X, X["education"] + 4 * X["income"] > 4)
    names = {"X_train": X[:200], "X_test": X[200:], "model": model}
    exec(SNIPPETS[0], names)
    result = names["cfs"]
    assert result.found.mean() > 0.5
    assert not (result.changes()["feature"] == "age").any()
    assert (tmp_path / "agent").is_file()


def test_the_benchmark_of_the_readme_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code = SNIPPETS[1]
    for slow, quick in (('"relax-global"', '"greedy"'), ("seeds=range(5)", "seeds=[0], rows=4")):
        assert slow in code
        code = code.replace(slow, quick)
    names = {}
    exec(code, names)
    table = names["tables"].summary(names["rows"])
    assert table["validity"].tolist() == [1.0, 1.0]
    assert table["instances"].tolist() == [4, 4]
    assert (tmp_path / "results" / "run.json").is_file()
