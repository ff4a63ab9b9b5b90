"""The inventory: everything that users are promised, with one quick check each, so that nothing disappears unnoticed.

    python -m pytest tests/inventory.py    # half a minute of CPU; `make test` and `make quick` run it too
    python tests/inventory.py              # rewrites tests/data/inventory.json after a wanted change

tests/data/inventory.json names commands with their options, methods with theirs, exports, faces, extras, entry points,
tasks, data sets and constructor parameters. There may be more than it says, never less. The rows of README's tables are
the keys of ROWS below: a row without a check is a failure, and so is a check without a row.
"""

import argparse
import inspect
import json
import os
import re
import subprocess
import sys
import tomllib
import urllib.request
from collections.abc import Callable, Mapping
from importlib import import_module, metadata
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import golden
import joblib
import numpy as np
import pandas as pd
import pytest
from reference.every_explainer import ON_NETWORKS, ON_TREES
from reference.small_explainers import OPTIONS, SMALL
from reference.stored_cases import (
    Amount,
    Labels,
    Medals,
    Points,
    budgets,
    budgets_points,
    gaps,
    gaps_points,
    jobs,
    jobs_points,
    numbers,
    numbers_points,
    people,
    people_points,
    tree,
)
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import relax_plugin
from relax_plugin import Counterfactuals, FeatureSpace, Goal, ReLAX, list_explainers, make_explainer
from relax_plugin.cli import main
from relax_plugin.datasets import available, load
from relax_plugin.evaluation.tasks import available_tasks
from relax_plugin.registry import option_names

ROOT = Path(__file__).resolve().parent.parent
FILE = ROOT / "tests" / "data" / "inventory.json"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
README = (ROOT / "README.md").read_text(encoding="utf-8")
FROZEN = json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {"commands": {}, "methods": {}}

# Each toolkit's face: its module, and the names in it that users import.
FACES = {
    "alibi": ("ReLAXTabular", "load_explainer"),
    "carla": ("ReLAXRecourse",),
    "ceval": ("judged",),
    "dice": ("Dice", "ReLAXDice", "install", "installed", "uninstall"),
    "explainerdashboard": ("CounterfactualComponent",),
    "interpret": ("CounterfactualExplanation", "ReLAX"),
    "mlflow": ("load_model", "log_model", "save_model"),
    "mlflow_evaluator": ("CounterfactualEvaluator",),
    "shap": ("CounterfactualShap", "compare_with_shap"),
    "shap_explanation": ("CounterfactualExplanation", "install", "uninstall"),
}
# Other import paths of the documentation.
PATHS = {
    "base": ("CounterfactualExplainer", "list_explainers", "make_explainer"),
    "certificates.checking": ("check",),
    "datasets": ("available", "credit", "fetch_compas", "fetch_covid", "load", "simplex", "waveform"),
    "distributed": ("explain",),
    "errors": ("InputError", "ReLAXError", "UnsupportedError"),
    "evaluation.metrics": ("validity",),
    "evaluation.tasks": ("available_tasks", "load_task"),
    "evaluation.toy": ("toy_task",),
    "features": ("FeatureSpace",),
    "goal": ("Goal",),
    "networks.certified": ("certify",),
    "results": ("Counterfactuals",),
    "teaching.play": ("play", "render"),
    "trees.floor": ("certify",),
}
SIGNATURES = {
    "Counterfactuals": Counterfactuals,
    "FeatureSpace.infer": FeatureSpace.infer,
    "Goal.between": Goal.between,
    "Goal.flip": Goal.flip,
    "Goal.shift": Goal.shift,
    "Goal.to": Goal.to,
    "ReLAX": ReLAX,
    "ReLAX.explain": ReLAX.explain,
    "ReLAXConfig": relax_plugin.ReLAXConfig,
}


class Caught(Exception):
    """Holds the parser of the command line."""


def parser(command: str) -> argparse.ArgumentParser:
    """The parser that `relax-plugin` uses for a command."""
    own = argparse.ArgumentParser.parse_args

    def catch(self: argparse.ArgumentParser, *_: Any, **__: Any) -> Any:
        raise Caught(self)

    argparse.ArgumentParser.parse_args = catch  # type: ignore[method-assign, assignment]
    try:
        main([command])
    except Caught as caught:
        return caught.args[0]
    finally:
        argparse.ArgumentParser.parse_args = own  # type: ignore[method-assign]
    raise RuntimeError("the command line does not parse by argparse")


def commands() -> dict[str, argparse.ArgumentParser]:
    """The parser of each command; those of benchmarks/ have their options only where the command is given."""
    return {name: choices(name)[name] for name in choices("list")}


def choices(command: str) -> dict[str, argparse.ArgumentParser]:
    """The parsers of all commands where one is given."""
    (found,) = [action for action in parser(command)._actions if isinstance(action, argparse._SubParsersAction)]
    return dict(found.choices)


def described(command: argparse.ArgumentParser) -> dict[str, Any]:
    """Options by their first name, with how many values each takes and which; what stands without a name."""
    told = {}
    for action in command._actions:
        if not isinstance(action, argparse._HelpAction):
            name = action.option_strings[-1] if action.option_strings else action.dest
            choices = None if action.choices is None else sorted(action.choices)
            told[name] = {"nargs": action.nargs, "choices": choices, "required": action.required}
    return told


def public(owner: Any) -> list[str]:
    return sorted(name for name in vars(owner) if not name.startswith("_"))


def today() -> dict[str, Any]:
    """What there is now, as it is frozen."""
    return {
        "commands": {name: described(command) for name, command in commands().items()},
        "methods": {name: sorted(option_names(name)) for name in list_explainers()},
        "exports": sorted(relax_plugin.__all__),
        "faces": {name: sorted(names) for name, names in FACES.items()},
        "paths": {name: sorted(names) for name, names in PATHS.items()},
        "extras": sorted(PROJECT["project"]["optional-dependencies"]),
        "scripts": PROJECT["project"]["scripts"],
        "entry_points": PROJECT["project"]["entry-points"],
        "tasks": sorted(available_tasks()),
        "datasets": sorted(available()),
        "parameters": {name: sorted(inspect.signature(made).parameters) for name, made in SIGNATURES.items()},
        "members": {owner.__name__: public(owner) for owner in (Counterfactuals, FeatureSpace, Goal)},
        "targets": sorted(re.findall(r"(?m)^([a-z]+):", (ROOT / "Makefile").read_text())),
    }


def missing(frozen: Any, now: Any, where: str = "") -> list[str]:
    """What is in the frozen data and not in today's."""
    if isinstance(frozen, dict):
        told = [f"{where}{name}" for name in frozen if name not in now]
        return told + [
            one for name in frozen if name in now for one in missing(frozen[name], now[name], f"{where}{name}: ")
        ]
    if isinstance(frozen, list) and isinstance(now, list):
        return [f"{where}{one}" for one in frozen if one not in now]
    return [] if frozen == now else [f"{where}{frozen} (now {now})"]


@pytest.mark.parametrize("what", sorted(FROZEN))
def test_nothing_has_disappeared(what: str) -> None:
    assert missing(FROZEN[what], today()[what]) == []


def test_what_has_disappeared_is_told() -> None:
    frozen = {"a": ["x", "y"], "b": {"c": 1}, "d": 2}
    assert missing(frozen, {"a": ["y", "z"], "b": {"c": 3}}) == ["d", "a: x", "b: c: 1 (now 3)"]


@pytest.mark.parametrize("module", [*FACES, *PATHS])
def test_documented_names_are_imported(module: str) -> None:
    if module in ("explainerdashboard",) and find_spec(module) is None:
        pytest.skip(f"{module} is not installed")
    names = FACES.get(module) or PATHS[module]
    found = import_module(f"relax_plugin.{'adapters.' if module in FACES else ''}{module}")
    assert [name for name in names if not hasattr(found, name)] == []


def test_entry_points_are_installed_and_loaded() -> None:
    for group, names in FROZEN["entry_points"].items():
        points = {point.name: point for point in metadata.entry_points(group=group)}
        for name, where in names.items():
            assert points[name].value == where
            assert points[name].load().__module__.startswith("relax_plugin.adapters")


# The command line: every option is parsed, and most of them are really used below.

OPTIONS_OF_COMMANDS = [(name, option) for name, options in FROZEN["commands"].items() for option in options]


@pytest.fixture(scope="module")
def parsers() -> dict[str, argparse.ArgumentParser]:
    return commands()


@pytest.mark.parametrize(("command", "option"), OPTIONS_OF_COMMANDS)
def test_an_option_is_parsed(parsers: dict[str, argparse.ArgumentParser], command: str, option: str) -> None:
    frozen = FROZEN["commands"][command]

    def values(name: str) -> list[str]:
        value = "3" if frozen[name]["choices"] is None else frozen[name]["choices"][0]
        return [value] * {0: 0, 2: 2}.get(frozen[name]["nargs"], 1)

    def written(name: str) -> list[str]:
        return [name, *values(name)] if name.startswith("-") else values(name)

    needed = [name for name in frozen if frozen[name]["required"] and name != option]
    chosen = parsers[command].parse_args([word for name in [*needed, option] for word in written(name)])
    (action,) = [one for one in parsers[command]._actions if option in (*one.option_strings, one.dest)]
    told = getattr(chosen, action.dest)
    assert told is True or str(values(option)[0] if values(option) else told) in str(told)


def told(capsys: Any, *arguments: Any, code: int = 0) -> str:
    """What a command prints."""
    assert main([str(one) for one in arguments]) == code
    return str(capsys.readouterr().out)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tables and models as files."""
    folder = tmp_path_factory.mktemp("files")
    people().reset_index().assign(remark="seen").astype({"size": str}).to_csv(folder / "people.csv", index=False)
    joblib.dump(Points(people_points, 30), folder / "people.joblib")
    gaps().assign(granted="no").to_csv(folder / "gaps.csv", index=False, na_rep="?")
    joblib.dump(Points(gaps_points, 12), folder / "gaps.joblib")
    numbers().to_csv(folder / "numbers.csv", index=False)
    joblib.dump(Amount(numbers_points), folder / "amount.joblib")
    joblib.dump(tree(numbers()), folder / "tree.joblib")
    budgets().to_csv(folder / "budgets.csv", index=False)
    joblib.dump(Points(budgets_points, 12), folder / "budgets.joblib")
    jobs().to_csv(folder / "jobs.csv", index=False)
    joblib.dump(Points(jobs_points, 10), folder / "jobs.joblib")
    (folder / "labels.json").write_text('{"income": "income (€)"}')
    return folder


def explain(capsys: Any, folder: Path, table: str, model: str, *said: Any, code: int = 0) -> Any:
    """What `relax-plugin explain --json` prints."""
    files = [folder / f"{table}.csv", "--model", folder / f"{model}.joblib", "--method", "greedy"]
    return json.loads(told(capsys, "explain", *files, *said, "--json", code=code))


def test_explain_with_constraints(capsys: Any, folder: Path) -> None:
    said = ["--id", "person", "--carry", "remark", "--to", "yes", "--min-probability", "0.55", "-n", 2]
    said += ["--max-changes", 3, "--immutable", "age", "--increase-only", "income", "--categorical", "owner"]
    said += ["--ordered", "size=small<middle<large", "--bounds", "income=:30", "--cost", "income=2", "--seed", 1]
    said += ["--rows", 0, 1, 2, "--labels", folder / "labels.json", "--option", "quantiles=10", "--plausible", "prefer"]
    said += ["--output", folder / "out.csv", "--html", folder / "out.html", "--regions"]
    assert len(explain(capsys, folder, "people", "people", *said)) > 0
    out = pd.read_csv(folder / "out.csv")
    assert (out["remark"] == "seen").all() and set(out["query_id"]) == {"P0", "P1", "P2"}
    assert "income (€)" in (folder / "out.html").read_text(encoding="utf-8")


def test_explain_with_gaps_rules_groups_and_formulas(capsys: Any, folder: Path) -> None:
    said = [
        "--target",
        "granted",
        "--missing",
        "?",
        "--fill-missing",
        "b",
        "--may-vanish",
        "c",
        "--vary",
        "a",
        "b",
        "c",
    ]
    assert len(explain(capsys, folder, "gaps", "gaps", *said, "--decrease-only", "c", "--plausible", "no")) > 0
    said = ["--derived", "left=salary - rent", "--rule", "age >= years + 18", "--plausible", "require"]
    explain(capsys, folder, "budgets", "budgets", *said, "--rows", 0, 1, code=0)
    said = ["--one-hot", "job=job_x,job_y,job_z", "--queries", folder / "jobs.csv", "--plausible", "no"]
    assert len(explain(capsys, folder, "jobs", "jobs", *said)) > 0


def test_explain_a_regressor_and_in_parts(capsys: Any, folder: Path) -> None:
    said = ["--task", "regression", "--shift", 3, "--direction", "up", "--plausible", "no"]
    assert len(explain(capsys, folder, "numbers", "amount", *said)) > 0
    said = ["--task", "regression", "--between", 12, "-", "--plausible", "no"]
    assert len(explain(capsys, folder, "numbers", "amount", *said)) > 0
    files = [folder / "numbers.csv", "--model", folder / "tree.joblib", "--queries", folder / "numbers.csv"]
    parts = ["--part-rows", 20, "--jobs", 1, "--training-rows", 40, "--backend", "processes", "--format", "csv"]
    told(capsys, "explain", *files, *parts, "--method", "greedy", "--plausible", "no", "--output", folder / "parts")
    assert list((folder / "parts").rglob("*.csv"))


def test_list(capsys: Any) -> None:
    printed = told(capsys, "list")
    assert [name for name in [*FROZEN["methods"], "sonar/mlp"] if name not in printed] == []
    assert {line["method"] for line in json.loads(told(capsys, "list", "--json"))["methods"]} >= set(FROZEN["methods"])


def test_verify(capsys: Any, folder: Path) -> None:
    certificate = ROOT / "tests" / "data" / "version_0.2.0" / "certificates" / "tree.json"
    printed = told(capsys, "verify", certificate, "--model", folder / "tree.joblib", "--rows", 100_000)
    assert "roved closest" in printed


def test_bench_and_report(capsys: Any, folder: Path) -> None:
    said = ["--tasks", "breast_cancer/leaves8", "--methods", "greedy", "nearest-ct", "--seeds", 1, "--rows", 4]
    said += ["--method-rows", "greedy=3", "--n", 1, "--max-changes", 3, "--metrics", "cheap", "--limit", 100]
    printed = told(capsys, "bench", *said, "--jobs", 1, "--backend", "threading", "--output", folder / "results")
    assert "nearest-ct" in printed
    table = told(
        capsys, "report", folder / "results", "--output", folder / "report.html", "--table", "summary", "--json"
    )
    assert {line["method"] for line in json.loads(table)} == {"greedy", "nearest-ct"}
    assert "nearest-ct" in (folder / "report.html").read_text(encoding="utf-8")


def test_serve(folder: Path) -> None:
    said = ["serve", "people.csv", "--model", "people.joblib", "--id", "person", "--method", "greedy", "--port", "0"]
    command = [sys.executable, "-c", "import sys; from relax_plugin.cli import main; sys.exit(main(sys.argv[1:]))"]
    environment = os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}", "PYTHONUNBUFFERED": "1"}
    server = subprocess.Popen(
        [*command, *said, "--no-browser", "--carry", "remark"],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        assert server.stdout is not None
        seen = []
        for line in server.stdout:
            seen.append(line)
            if address := re.search(r"http://\S+/", line):
                break
        else:
            raise AssertionError("".join(seen))
        with urllib.request.urlopen(address[0], timeout=60) as page:
            assert "what-if" in page.read().decode()
    finally:
        server.terminate()
        server.wait(60)
        server.stdout.close()


# The methods: what is found is asked of the model again, and keeps the constraints.

CLEAR = Points(numbers_points, 12)


def as_network() -> LogisticRegression:
    """The points as a linear model, whose coefficients are written down."""
    model = LogisticRegression()
    model.classes_, model.n_features_in_ = np.array(["no", "yes"]), 4
    model.coef_, model.intercept_ = np.array([[0.25, 0.25, -0.25, 0.0]]), np.array([-2.875])
    model.feature_names_in_ = np.array(["a", "b", "c", "d"], dtype=object)
    return model


@pytest.mark.parametrize("name", sorted(FROZEN["methods"]))
def test_a_method_finds_counterfactuals_that_the_model_confirms(name: str) -> None:
    rows = numbers()
    model: Any = tree(rows) if name in ON_TREES else as_network() if name in ON_NETWORKS else CLEAR
    space = FeatureSpace.infer(rows, immutable=["d"], increase_only=["a"])
    explainer = make_explainer(name, model, space, **OPTIONS.get(name, {})).fit(rows)
    result = explainer.explain(rows[:6])
    query = np.nonzero(result.found)[0]
    assert len(query) > 0
    before, after = rows.iloc[query].reset_index(drop=True), result.frame[list(rows)].reset_index(drop=True)
    assert (model.predict(after) != model.predict(before)).all()
    assert (after["d"] == before["d"]).all() and (after["a"] >= before["a"]).all()
    assert after.dtypes.equals(before.dtypes)
    assert (after != before).any(axis=1).all() and (after != before).sum(axis=1).max() <= 5


def test_golden_measures_every_method_and_tells_what_differs(tmp_path: Path, capsys: Any) -> None:
    assert {setting.partition(":")[0] for setting in golden.settings()} >= set(FROZEN["methods"])
    assert golden.main(["breast_cancer/rf", "--methods", "nearest-ct", "deepfool"]) == 0
    printed = capsys.readouterr().out
    assert len(printed.splitlines()) == 4 and "skipped because" in printed
    before, after = tmp_path / "before.txt", tmp_path / "after.txt"
    before.write_text(printed)
    after.write_text(printed)
    assert golden.main(["--compare", str(before), str(after)]) == 0
    after.write_text(printed.replace("n=3", "n=4"))
    capsys.readouterr()
    assert golden.main(["--compare", str(before), str(after)]) == 1
    assert "n=4" in capsys.readouterr().out


# README: one check for each row of its tables, by the first cell.


def found(rows: Any, model: Any, said: Mapping[str, Any] | None = None, queries: int = 6, **call: Any) -> Any:
    """Queries and counterfactuals, as tables side by side."""
    goal = call.pop("fit_goal", None)
    explainer = make_explainer("greedy", model, FeatureSpace.infer(rows, **said or {}), goal=goal).fit(rows)
    result = explainer.explain(rows[:queries], **call)
    frame = result.frame
    assert len(frame) > 0
    before = rows.iloc[frame["query_id"].to_numpy()]
    return before.reset_index(drop=True), frame[list(rows)].reset_index(drop=True), result


def features_that_stay() -> None:
    before, after, _ = found(people(), Points(people_points, 30), {"immutable": ["income", "town"]})
    assert before[["income", "town"]].equals(after[["income", "town"]])


def one_direction() -> None:
    before, after, _ = found(numbers(), CLEAR, {"increase_only": ["b"], "decrease_only": ["a", "c"]})
    assert (after["b"] >= before["b"]).all() and (after[["a", "c"]] <= before[["a", "c"]]).all(axis=None)


def bounds_and_grids() -> None:
    said = {"bounds": {"income": (0, 30), "town": ["Rome", "Bonn"]}, "steps": {"income": 5}}
    before, after, _ = found(people(), Points(people_points, 30), said)
    moved = after["income"] != before["income"]
    assert (after["income"][moved] % 5 == 0).all() and (after["income"][moved] <= 30).all()
    assert after["town"][after["town"] != before["town"]].isin(["Rome", "Bonn"]).all()


def a_class() -> None:
    for goal in (Goal.to("yes"), Goal.to("yes", min_probability=0.8)):
        _, after, _ = found(numbers(), CLEAR, goal=goal)
        assert (CLEAR.predict_proba(after)[:, 1] >= (goal.min_probability or 0.5)).all()
    before, after, _ = found(numbers(), CLEAR, goal=Goal.to("yes", raise_by=0.0625))
    assert (CLEAR.predict_proba(after)[:, 1] >= CLEAR.predict_proba(before)[:, 1] + 0.0625).all()


def a_regressor() -> None:
    model = Amount(numbers_points)
    before, after, _ = found(numbers(), model, fit_goal=Goal.shift(5.0, direction="up"))
    assert (model.predict(after) >= model.predict(before) + 5).all()
    _, after, _ = found(numbers(), model, fit_goal=Goal.between(10, 12))
    assert ((model.predict(after) >= 10) & (model.predict(after) <= 12)).all()
    low = np.arange(6.0)
    _, after, result = found(numbers(), model, fit_goal=Goal.shift(1.0), goal=Goal.between(low, low + 2))
    assert (model.predict(after) >= low[result.frame["query_id"]]).all()


def for_this_call() -> None:
    before, after, _ = found(people(), Points(people_points, 30), vary=["income"], bounds={"income": (0, 28)})
    assert before.drop(columns="income").equals(after.drop(columns="income")) and (after["income"] <= 28).all()


def rules_and_groups() -> None:
    said = {"derived": {"left": "salary - rent"}, "rules": ["age >= years + 18"]}
    _, after, _ = found(budgets(), Points(budgets_points, 12), said)
    assert (after["left"] == after["salary"] - after["rent"]).all() and (after["age"] >= after["years"] + 18).all()
    _, after, _ = found(jobs(), Points(jobs_points, 10), {"one_hot": "auto"})
    assert (after[["job_x", "job_y", "job_z"]].sum(axis=1) == 1).all()


def missing_cells() -> None:
    model = Points(gaps_points, 16)
    before, after, _ = found(gaps(), model, {"immutable": ["a"], "fill_missing": ["b"]}, queries=20)
    assert before["c"].isna().equals(after["c"].isna())
    assert (before["b"].isna() & after["b"].notna()).any()


def costs() -> None:
    free, dear = (found(numbers(), CLEAR, {"costs": {"a": price}}, queries=12)[:2] for price in (0.01, 100.0))
    assert (free[0]["a"] != free[1]["a"]).sum() > (dear[0]["a"] != dear[1]["a"]).sum()


def plausible() -> None:
    for asked in ("prefer", "require"):
        _, _, result = found(numbers(), CLEAR, plausible=asked)
        scores = result.plausibility
        assert {"score", "threshold", "plausible"} <= set(scores)
    assert scores["plausible"][result.found.ravel()].astype(bool).all()


def lasting() -> None:
    stricter = Points(numbers_points, 14)
    _, after, _ = found(numbers(), CLEAR, also=[stricter], queries=12)
    assert (CLEAR.predict(after) == stricter.predict(after)).all()
    _, after, _ = found(numbers(), CLEAR, goal=Goal.flip(min_probability=0.75))
    assert (CLEAR.predict_proba(after).max(axis=1) >= 0.75).all()


def several() -> None:
    result = found(numbers(), CLEAR, n=3)[2]
    assert result.found.shape == (6, 3) and result.frame["cf_id"].max() > 0
    assert not result.frame.drop(columns="cf_id").duplicated().any()


def few_model_evaluations() -> None:
    spent = []
    for effort in ("refined", "policy"):
        made = ReLAX(CLEAR, effort=effort, config=SMALL, progress=False).fit(numbers())
        spent.append(made.explain(numbers()[:6]).rows_queried.mean())
    assert max(spent) < make_explainer("greedy", CLEAR).fit(numbers()).explain(numbers()[:6]).rows_queried.mean()


def dice() -> None:
    import dice_ml

    from relax_plugin.adapters.dice import Dice, ReLAXDice, installed

    rows = numbers().astype(float)
    model = tree(rows)
    data = dice_ml.Data(dataframe=rows.assign(y=model.predict(rows)), continuous_features=list(rows), outcome_name="y")
    face = Dice(data, dice_ml.Model(model=model, backend="sklearn"), method="greedy")
    (example,) = face.generate_counterfactuals(rows[:1], total_CFs=2, desired_class="opposite").cf_examples_list
    assert (model.predict(example.final_cfs_df[list(rows)].astype(float)) != model.predict(rows[:1])).all()
    with installed():
        assert isinstance(dice_ml.Dice(data, dice_ml.Model(model=model, backend="sklearn"), method="relax"), ReLAXDice)


def interpret() -> None:
    from relax_plugin.adapters.interpret import ReLAX as Face

    told = Face(CLEAR.predict_proba, numbers(), explainer="greedy").explain_local(numbers()[:3])
    assert told.explanation_type == "local" and told.data(0) is not None


def shap() -> None:
    from relax_plugin.adapters.shap import CounterfactualShap

    rows = numbers().astype(float)
    model = as_network()
    told = CounterfactualShap(make_explainer("greedy", model).fit(rows))(rows[:4])
    assert told.values.shape == (4, 4)
    chance = model.predict_proba(rows[:4]).max(axis=1)
    np.testing.assert_allclose(told.values.sum(axis=1) + told.base_values, chance, atol=1e-9)


def alibi() -> None:
    from relax_plugin.adapters.alibi import ReLAXTabular

    def predictor(rows: np.ndarray) -> Any:
        return CLEAR.predict_proba(pd.DataFrame(rows, columns=list("abcd")))

    rows = numbers().to_numpy()
    face = ReLAXTabular(predictor, feature_names=list("abcd"), immutable_features=["d"], explainer="greedy").fit(rows)
    told = face.explain(rows[:4], np.array([1]), [])
    assert (predictor(told.cf["X"]).argmax(axis=1) == 1).all() and (told.cf["X"][:, 3] == rows[:4, 3]).all()


def carla() -> None:
    from relax_plugin.adapters.carla import ReLAXRecourse

    rows = numbers() / 16.0
    frame = rows.assign(target=(rows["a"] + rows["b"] - rows["c"] > 0.75).astype(int))
    inner = as_network()
    model = SimpleNamespace(
        data=SimpleNamespace(
            continuous=list(rows), categorical=[], immutables=["d"], target="target", df=frame, df_train=frame
        ),
        feature_input_order=list(rows),
        get_ordered_features=lambda x: x[list(rows)],
        predict_proba=lambda x: inner.predict_proba(x[list(rows)] * 16.0),
        predict=lambda x: inner.predict_proba(x[list(rows)] * 16.0)[:, [1]],
        raw_model=inner,
        backend="sklearn",
    )
    factuals = frame[model.predict_proba(frame)[:, 1] < 0.5][:4]
    told = ReLAXRecourse(model, {"explainer": "greedy"}).get_counterfactuals(factuals)
    assert (model.predict_proba(told).argmax(axis=1) == 1).all() and (told["d"] == factuals["d"]).all()


def kinds_of_models() -> None:
    rows = numbers()
    y = CLEAR.predict(rows) == "yes"
    import torch
    from catboost import CatBoostClassifier
    from lightgbm import LGBMClassifier
    from xgboost import XGBClassifier

    network = torch.nn.Sequential(torch.nn.Linear(4, 2), torch.nn.Softmax(dim=1))
    with torch.no_grad():
        network[0].weight[:] = torch.tensor([[-0.25, -0.25, 0.25, 0.0], [0.25, 0.25, -0.25, 0.0]])
        network[0].bias[:] = torch.tensor([2.875, -2.875])
    models = [
        tree(rows),
        make_pipeline(FunctionTransformer(), tree(rows)),
        XGBClassifier(n_estimators=20).fit(rows, y),
        LGBMClassifier(n_estimators=20, verbose=-1).fit(rows, y),
        CatBoostClassifier(iterations=20, verbose=False, allow_writing_files=False).fit(rows, y),
        network,
        CLEAR.predict_proba,
    ]
    for model in models:
        explainer = make_explainer("greedy", model).fit(rows.astype(np.float32) if model is network else rows)
        assert explainer.explain(rows[:4].astype(np.float32) if model is network else rows[:4]).found.any(), model


def kinds_of_answers() -> None:
    for model, goal in (
        (CLEAR, None),
        (Medals(), Goal.to("gold")),
        (Amount(numbers_points), Goal.shift(4.0)),
        (Labels(numbers_points, 12), None),
    ):
        made = ReLAX(model, goal=goal, config=SMALL, progress=False).fit(numbers())
        assert made.explain(numbers()[:4]).found.any(), model


def kinds_of_tables() -> None:
    import polars

    rows = numbers()
    explainer = make_explainer("greedy", CLEAR).fit(rows)
    ways = [rows[:3], polars.from_pandas(rows[:3]), rows[:3].to_dict("records"), dict(rows.iloc[0]), rows.iloc[0]]
    for asked in ways:
        assert explainer.explain(asked).found.all(), type(asked)
    by_array = make_explainer("greedy", lambda x: CLEAR.predict_proba(pd.DataFrame(x, columns=list(rows))))
    assert by_array.fit(rows.to_numpy(float)).explain(rows.to_numpy(float)[:3]).found.all()


def constraints_for_space_or_call() -> None:
    said = {"immutable": ["d"], "bounds": {"a": (0, 10)}, "steps": {"b": 2}, "rules": ["a <= b + 8"]}
    explainer = make_explainer("greedy", CLEAR, FeatureSpace.infer(numbers(), **said)).fit(numbers())
    call = {"immutable": ["c"], "increase_only": ["a"], "rules": ["b <= 9"], "costs": {"a": 2.0}, "max_changes": 2}
    frame = explainer.explain(numbers()[:6], **call).frame
    assert (frame["a"] <= 10).all() and (frame["a"] <= frame["b"] + 8).all() and (frame["b"] <= 9).all()


def batches_and_files() -> None:
    import tempfile

    rows = numbers()
    made = ReLAX(CLEAR, config=SMALL, progress=False).fit(rows)
    assert len(made.explain(rows)) == len(rows) and len(made.explain(rows[:0])) == 0
    with tempfile.TemporaryDirectory() as folder:
        made.save(Path(folder) / "agent.safetensors")
        again = ReLAX.load(Path(folder) / "agent.safetensors", model=CLEAR)
    np.testing.assert_array_equal(again.explain(rows[:5]).values, made.explain(rows[:5]).values)


ROWS: dict[str, Callable[[], None]] = {
    "features that must not change": features_that_stay,
    "one direction only": one_direction,
    "bounds, grids": bounds_and_grids,
    "a class to reach": a_class,
    "a regressor's answer to move": a_regressor,
    "constraints for this call only": for_this_call,
    "rules, derived columns, one-hot groups": rules_and_groups,
    "missing cells that may be filled in": missing_cells,
    "dear and cheap features": costs,
    "answers that look like the data": plausible,
    "answers that last": lasting,
    "several answers": several,
    "few model evaluations": few_model_evaluations,
    "DiCE": dice,
    "InterpretML": interpret,
    "SHAP": shap,
    "Alibi": alibi,
    "CARLA": carla,
    "scikit-learn estimators and Pipelines over raw mixed columns, XGBoost": kinds_of_models,
    "two or more classes, regression": kinds_of_answers,
    "pandas, polars, numpy, dicts and records": kinds_of_tables,
    "bounds, grids, directions, features that stay": constraints_for_space_or_call,
    "batches of any size": batches_and_files,
}


def readme_rows() -> list[str]:
    """The first cells of README's tables, those of results aside."""
    text = re.sub(r"<!-- table: .*?<!-- end of table -->", "", README, flags=re.DOTALL)
    rows = re.findall(r"(?m)^\|([^|]*)\|", text)
    heads = [rows[place - 1] for place, row in enumerate(rows) if set(row) <= set("-: ")]
    return [row.strip() for row in rows if row not in heads and not set(row) <= set("-: ")]


def test_every_row_of_readme_has_a_check_and_every_check_a_row() -> None:
    rows = readme_rows()
    assert [row for row in rows if not any(row.startswith(key) for key in ROWS)] == []
    assert [key for key in ROWS if not any(row.startswith(key) for row in rows)] == []


@pytest.mark.parametrize("row", ROWS)
def test_a_row_of_readme_holds(row: str) -> None:
    ROWS[row]()


def test_ceval_judges_results() -> None:
    from relax_plugin.adapters.ceval import judged

    rows = numbers()
    result = make_explainer("greedy", CLEAR).fit(rows).explain(rows[:12])
    assert list(judged({"greedy": result}, rows, k_nn=2).comparison_table.index) == ["greedy"]


def test_mlflow_saves_and_loads_an_explainer(tmp_path: Path) -> None:
    from relax_plugin.adapters.mlflow import load_model, save_model

    rows = numbers()
    made = ReLAX(as_network(), config=SMALL, progress=False).fit(rows)
    save_model(made, tmp_path / "model")
    np.testing.assert_array_equal(
        load_model(str(tmp_path / "model")).explain(rows[:4]).values, made.explain(rows[:4]).values
    )


def test_methods_in_the_results_of_readme_are_in_the_registry() -> None:
    tables = "".join(re.findall(r"<!-- table: methods-in-short -->.*?<!-- end of table -->", README, re.DOTALL))
    named = {name.partition(",")[0] for name in re.findall(r"(?m)^\| `([^`]+)`", tables)}
    assert named and named <= set(list_explainers())


@pytest.mark.parametrize("name", FROZEN.get("datasets", []))
def test_a_data_set_is_loaded(name: str) -> None:
    table = load(name)
    assert len(table.X) == len(table.y) > 0 and table.origin


if __name__ == "__main__":
    FILE.write_text(json.dumps(today(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
