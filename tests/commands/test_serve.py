"""`relax-plugin serve`: a real server on this machine, started and ended as people do it."""

import json
import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
import pytest
from reference.saved_models import NUMBERS, write_files
from sklearn.ensemble import HistGradientBoostingClassifier

from relax_plugin.cli import main
from relax_plugin.commands import serve
from relax_plugin.whatif.app import listening

LABELS = {"town": ["home town", {"Rome": "Roma", "Bonn": "Bonn", "Oslo": "Oslo"}]}


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder: Path = tmp_path_factory.mktemp("serve")
    write_files(folder)
    rows = pd.read_csv(folder / "train.csv")
    rows.insert(0, "number", range(500, 500 + len(rows)))
    gaps = rows[["number", *NUMBERS, "approved"]].astype({"income": object})
    gaps.loc[3, "income"] = "?"
    gaps.to_csv(folder / "people.csv", index=False)
    tree = HistGradientBoostingClassifier(max_iter=5).fit(rows[NUMBERS], rows["approved"])
    joblib.dump(tree, folder / "tree.joblib")
    rows.iloc[100:120].to_csv(folder / "refused.csv", index=False)
    (folder / "labels.json").write_text(json.dumps(LABELS))
    return folder


class Served:
    """A server in a process of its own."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        command = [sys.executable, "-m", "relax_plugin.cli", "serve", *arguments, "--port", "0", "--no-browser"]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        self.process = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        found = re.search(r"http://127\.0\.0\.1:\d+/\S+/", line)
        assert found, (line, self.process.stderr and self.process.stderr.read())
        self.address = found[0]

    def ask(self, path: str, sent: Any = None) -> Any:
        body = None if sent is None else json.dumps(sent).encode()
        request = urllib.request.Request(self.address + path, body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)

    def interrupt(self) -> tuple[int, str]:
        self.process.send_signal(signal.SIGINT)
        _, told = self.process.communicate(timeout=120)
        return self.process.returncode, told


@pytest.fixture(scope="module")
def served(folder) -> Iterator[Served]:
    server = Served(
        folder,
        *("train.csv", "--model", "model.joblib", "--target", "approved", "--method", "greedy", "--to", "yes"),
        *("--immutable", "member", "--increase-only", "age (years)", "--labels", "labels.json"),
    )
    yield server
    if server.process.poll() is None:
        server.process.kill()


@pytest.mark.slow
def test_the_page_is_served_with_what_the_command_says(served):
    page = urllib.request.urlopen(served.address, timeout=60).read().decode()
    told = json.loads(page.partition('id="what-if">')[2].partition("</script>")[0])
    fields = {field["name"]: field for field in told["fields"]}
    assert (
        told["goal"]["label"] == "yes"
        and [one["value"] for one in told["classes"]] == ["no", "yes"]
        and told["rows"] == 150
    )
    assert fields["member"]["fixed"] and fields["age (years)"]["direction"] == "increase"
    assert fields["town"]["words"] == "home town" and "approved" not in fields


@pytest.mark.slow
def test_without_the_token_the_server_answers_403(served):
    with pytest.raises(urllib.error.HTTPError, match="403"):
        urllib.request.urlopen(served.address.rsplit("/", 2)[0] + "/", timeout=60)


@pytest.mark.slow
def test_setup_and_question_as_python_give_the_same_answer(served, folder, monkeypatch):
    page = urllib.request.urlopen(served.address, timeout=60).read().decode()
    setup = json.loads(page.partition('id="what-if">')[2].partition("</script>")[0])["setup"]
    question = {"row": 4, "n": 2, "cells": {"town": "Oslo"}, "features": {"income": {"high": 800}}, "max_changes": 2}
    told = served.ask("explain", question)
    monkeypatch.chdir(folder)
    namespace: dict[str, Any] = {}
    exec(f"{setup}\n{told['python']}", namespace)
    records = namespace["found"].to_dict()["queries"][0]["counterfactuals"]
    assert [one["row"] for one in records] == [one["row"] for one in told["alternatives"]]
    assert any(one["found"] for one in records) and 'pd.read_csv("train.csv")' in setup


@pytest.mark.slow
def test_ctrl_c_ends_it_in_order(served):
    served.ask("row/0")
    assert served.interrupt()[0] == 0


@pytest.mark.slow
def test_ctrl_c_ends_it_while_a_model_sleeps(folder):
    """A question that is never answered does not keep the program from ending."""
    (folder / "sleepy.py").write_text(
        "import time\nimport numpy as np\n\n\nclass Sleepy:\n    classes_ = np.array([0, 1])\n"
        "    _estimator_type = 'classifier'\n\n    def predict_proba(self, rows):\n"
        "        if (rows['income'] == 7).any():\n            time.sleep(60)\n"
        "        yes = (rows['income'] / 900).clip(0, 1).to_numpy()\n        return np.column_stack([1 - yes, yes])\n\n"
        "    def predict(self, rows):\n        return self.predict_proba(rows).argmax(axis=1)\n"
    )
    script = "import sys; sys.path.insert(0, '.'); import joblib, sleepy; joblib.dump(sleepy.Sleepy(), 'sleepy.joblib')"
    subprocess.run([sys.executable, "-c", script], cwd=folder, check=True)
    server = Served(
        folder,
        *("train.csv", "--model", "sleepy.joblib", "--target", "approved", "--method", "greedy", "--patience", "3"),
    )
    with pytest.raises(urllib.error.HTTPError, match="503"):
        server.ask("predict", {"row": 0, "cells": {"income": 7}})
    assert server.ask("row/1")["row"] == 1
    code, told = server.interrupt()
    assert code == 0 and "The page is closed." in told and "Traceback" not in told


def session(folder: Path, *arguments: str) -> Any:
    """What the command would serve."""
    from relax_plugin.cli import _parsed
    from relax_plugin.commands import request

    chosen = _parsed(["serve", *arguments, "--method", "greedy"])
    method, options = request.method(chosen.method, chosen.option, chosen.max_changes)
    return serve._session(chosen, method, options)


@pytest.mark.parametrize(
    "arguments",
    [
        ["people.csv", "--model", "tree.joblib", "--target", "approved", "--id", "number", "--missing", "?"],
        [
            "people.csv",
            "--model",
            "tree.joblib",
            "--target",
            "approved",
            "--carry",
            "number",
            "--missing",
            "?",
            "--vary",
            "income",
        ],
        ["train.csv", "--model", "points.joblib", "--target", "approved", "--task", "regression", "--cost", "income=3"],
        [
            "train.csv",
            "--model",
            "model.joblib",
            "--queries",
            "refused.csv",
            "--id",
            "number",
            "--rule",
            "income <= 890",
        ],
    ],
    ids=["missing cells and names", "carried and varied", "regressor", "queries and a rule"],
)
@pytest.mark.slow
def test_the_setup_makes_the_same_explainer_and_rows(folder, monkeypatch, arguments):
    monkeypatch.chdir(folder)
    own = session(folder, *arguments)
    namespace: dict[str, Any] = {}
    exec(own.setup, namespace)
    pd.testing.assert_frame_equal(namespace["rows"], own.rows)
    assert namespace["explainer"].space_ == own.explainer.space_
    found, again = (
        one.explain(own.rows.iloc[:5], carry=own.carried or None) for one in (own.explainer, namespace["explainer"])
    )
    np.testing.assert_array_equal(found.values, again.values)
    told = own.explain({"row": 0})
    exec(told["python"], namespace)
    assert namespace["found"].card(0)._repr_html_() == told["card"]


@pytest.mark.slow
def test_vary_fixes_all_other_features_and_a_regressor_begins_with_a_goal(folder, monkeypatch):
    monkeypatch.chdir(folder)
    own = session(folder, "train.csv", "--model", "points.joblib", "--target", "approved", "--vary", "income", "town")
    assert {field["name"] for field in own.describe()["fields"] if not field["fixed"]} == {"income", "town"}
    assert own.describe()["goal"]["kind"] == "shift" and own.describe()["goal"]["delta"] > 0


def refused(capsys: Any, *arguments: str) -> str:
    assert main(["serve", *arguments]) == 2
    return str(capsys.readouterr().err)


def test_what_cannot_be_served_is_refused_before_anything_is_loaded(folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    named = ["train.csv", "--model", "model.joblib", "--target", "approved"]
    with listening(0) as taken:
        port = str(taken.getsockname()[1])
        told = refused(capsys, *named, "--port", port)
        assert f"port {port} is in use by another program" in told and "joblib file" not in told
    assert "no file absent.csv" in refused(capsys, "absent.csv", *named[1:])
    assert "did you mean 'income'?" in refused(capsys, *named, "--immutable", "incme")
    assert "--shift is for regressors" in refused(capsys, *named, "--task", "classification", "--shift", "3")
    monkeypatch.setattr(serve, "find_spec", lambda name: None)
    assert "pip install 'relax-plugin[serve]'" in refused(capsys, *named)


@pytest.mark.parametrize(
    ("said", "display", "opened"),
    [([], ":0", True), ([], "", False), (["--no-browser"], ":0", False), (["--open"], "", True)],
)
@pytest.mark.slow
def test_a_browser_is_opened_if_there_is_a_display_or_it_is_asked_for(
    folder, monkeypatch, capsys, said, display, opened
):
    addresses: list[str] = []
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("DISPLAY", display)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    monkeypatch.setattr(serve.webbrowser, "open", addresses.append)
    monkeypatch.setattr("relax_plugin.whatif.app.run", lambda app, bound, ready: ready())
    named = ["train.csv", "--model", "model.joblib", "--target", "approved", "--method", "greedy", "--port", "0"]
    assert main(["serve", *named, *said]) == 0
    printed = re.search(r"http://\S+", capsys.readouterr().out)
    assert printed is not None and addresses == ([printed[0]] if opened else [])
