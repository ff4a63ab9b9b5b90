"""A stranger's explainer: a package that is built and installed here, listed, run in a benchmark, held to the contract.

It has two methods, an honest one and one that overrides `explain` to claim what it has not found.
"""

import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from relax_plugin import list_explainers
from relax_plugin.evaluation.runner import load_rows
from relax_plugin.registry import explainer_class

pytestmark = pytest.mark.install

ROOT = Path(__file__).resolve().parents[2]
TASK = "diabetes/ada"

PROJECT = """
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"

[project]
name = "strange-explainers"
version = "0.3"

[project.entry-points."relax_plugin.explainers"]
stranger-honest = "strange_explainers:Honest"
stranger-lying = "strange_explainers:Lying"
greedy = "strange_explainers:Lying"

[tool.setuptools]
py-modules = ["strange_explainers"]
"""

MODULE = '''
"""Rows of the training data, moved within the limits and stripped of what is not needed; and the same with lies."""

import numpy as np

from relax_plugin.base import CounterfactualExplainer
from relax_plugin.problem import Proposals
from relax_plugin.search.polish import undo


class Honest(CounterfactualExplainer):
    def __init__(self, model, space=None, *, goal=None, max_changes=None, seed=0, tried=60):
        super().__init__(model, space, goal=goal, max_changes=max_changes, seed=seed)
        self.tried = tried

    def _fit(self, values, rng):
        self.rows_ = values[rng.permutation(len(values))[: self.tried]]

    def _generate(self, problem, n, rng):
        made = Proposals.empty(problem, n)
        for query in range(len(problem)):
            owner = np.full(len(self.rows_), query)
            rows = problem.limits.take(owner).project(self.rows_, problem.start[owner])
            met, _ = problem.judge(rows, owner)
            rows = undo(problem, rows[met], owner[met], down_to=1)
            changes = (rows != problem.start[query]).sum(axis=1)
            rows = np.unique(rows[changes <= problem.max_changes], axis=0)
            rows = rows[np.argsort(problem.distance(rows, np.full(len(rows), query)), kind="stable")][:n]
            made.values[query, : len(rows)] = rows
            made.offered[query, : len(rows)], made.stage[query, : len(rows)] = True, "training row"
        made.note[:] = "none was found among the training rows"
        return made


class Lying(Honest):
    def explain(self, X, **asked):
        result = super().explain(X, **asked)
        result.values[:], result.found[:], result.status[:] = result.start[:, None], True, "found"
        return result
'''


BENCH = ["stranger-honest:tried=40", "stranger-lying", "greedy"]
LYING_TRIES = ("what_is_found_flips", "constant_model", "explain_before_fit")  # the rest would only take time
CONTRACT = f"stranger-honest or (stranger-lying and ({' or '.join(LYING_TRIES)}))"


class Installed:
    """The package, built and installed in a folder, and commands that run with that folder on the path."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.report = folder, folder / "contract.xml"
        source = folder / "source"
        source.mkdir()
        (source / "pyproject.toml").write_text(PROJECT)
        (source / "strange_explainers.py").write_text(MODULE)
        options = ["--quiet", "--no-index", "--no-deps", "--no-build-isolation", "--target", str(folder / "site")]
        self.said(self.start("-m", "pip", "install", *options, str(source)))
        # Side by side, since each of them spends most of its time on imports.
        test = str(ROOT / "tests" / "contract" / "test_every_explainer.py")
        options = ["-q", "-p", "no:cacheprovider", f"--junitxml={self.report}", f"--rootdir={ROOT}", "-k", CONTRACT]
        self.contract = self.start("-m", "pytest", *options, test)
        self.list = self.start("-m", "relax_plugin.cli", "list", "--json")
        options = ["--methods", *BENCH, "--seeds", "1", "--rows", "10", "--output", "results", "--json"]
        self.bench = self.start("-m", "relax_plugin.cli", "bench", "--tasks", TASK, *options)

    def start(self, *arguments: str) -> "subprocess.Popen[str]":
        environment = os.environ | {"PYTHONPATH": str(self.folder / "site"), "OMP_NUM_THREADS": "1"}
        pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        return subprocess.Popen([sys.executable, *arguments], cwd=self.folder, env=environment, **pipes)

    def said(self, process: "subprocess.Popen[str]") -> str:
        output, errors = process.communicate(timeout=300)
        assert process.returncode == 0, f"{output}\n{errors}"
        return output


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    installed = Installed(tmp_path_factory.mktemp("stranger"))
    yield installed
    for process in (installed.contract, installed.list, installed.bench):
        process.kill()
        process.communicate()


@pytest.fixture(scope="module")
def contract(installed: Installed) -> dict[str, str]:
    """What became of the common contract: test and method -> passed, skipped, failure or error."""
    installed.contract.communicate(timeout=300)
    outcomes = {}
    for case in ElementTree.parse(installed.report).iter("testcase"):
        kinds = {element.tag for element in case} & {"failure", "error", "skipped"}
        outcomes[case.attrib["name"]] = kinds.pop() if kinds else "passed"
    return outcomes


def test_it_appears_in_the_list(installed: Installed) -> None:
    listed = json.loads(installed.said(installed.list))["methods"]
    methods = {method["method"]: method for method in listed}
    assert {"stranger-honest", "stranger-lying", "relax-global"} <= set(methods)
    assert methods["stranger-honest"]["options"]["tried"] == 60
    assert "quantiles" in methods["greedy"]["options"], "a stranger's name does not replace a built-in method"


def test_it_is_unknown_where_it_is_not_installed() -> None:
    assert not [name for name in list_explainers() if name.startswith("stranger")]
    assert explainer_class("greedy")[0].__module__ == "relax_plugin.baselines.greedy"


def test_it_runs_in_a_benchmark_and_its_lies_are_found_out(installed: Installed) -> None:
    table = json.loads(installed.said(installed.bench))
    validity = {row["method"]: row["validity"] for row in table}
    assert set(validity) == set(BENCH)
    assert validity["stranger-honest:tried=40"] > 0.8
    assert validity["greedy"] > 0.8
    assert validity["stranger-lying"] == 0
    rows = load_rows(installed.folder / "results")
    lies = rows[rows["method"] == "stranger-lying"]
    assert lies["claimed"].all() and not lies["valid"].any()
    assert set(lies["reason"]) == {"said to be found, but the model's answer does not meet the goal"}


def test_an_honest_one_keeps_the_contract(contract: dict[str, str]) -> None:
    outcomes = {test: outcome for test, outcome in contract.items() if "stranger-honest" in test}
    assert len(outcomes) > 30
    assert not {test: outcome for test, outcome in outcomes.items() if outcome != "passed"}


def test_a_dishonest_one_does_not(contract: dict[str, str]) -> None:
    assert {test: outcome for test, outcome in contract.items() if "stranger-lying" in test} == {
        "test_what_is_found_flips_the_model_and_keeps_every_constraint[stranger-lying]": "failure",
        "test_a_constant_model_has_no_counterfactuals_and_that_is_said[stranger-lying]": "failure",
        "test_explain_before_fit_is_refused[stranger-lying]": "passed",
    }
