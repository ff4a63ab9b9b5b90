"""Which room may import which: flat files are the contract, folders are rooms.

Run as a script, this prints the layers of the import graph: `python tests/test_architecture.py`.
"""

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

# The contract: the files of relax_plugin/ itself, which are "flat", and the rooms that they are made of.
CONTRACT = {"flat", "table", "rules", "reading"}

# What a module of each room may import.
MAY_IMPORT = {
    "flat": CONTRACT,
    "table": {"flat", "rules", "table"},
    "rules": {"flat", "table", "rules"},
    "reading": {"flat", "table", "rules", "reading"},
    "search": {*CONTRACT, "search", "trees"},
    "proofs": {*CONTRACT, "proofs"},
    "trees": {*CONTRACT, "proofs", "trees"},
    "menu": {*CONTRACT, "trees", "networks", "menu"},
    "networks": {*CONTRACT, "proofs", "networks"},
    "regions": {*CONTRACT, "trees", "regions"},
    # Which share nothing with provers and methods but what a proof needs of a model.
    "certificates": {*CONTRACT, "proofs", "evaluation", "certificates"},
    "surrogate": {*CONTRACT, "search", "surrogate"},
    "agent": {*CONTRACT, "search", "surrogate", "agent"},
    "baselines": {*CONTRACT, "search", "surrogate", "agent.layers", "trees", "networks", "baselines"},
    "adapters": {"arrays", "base", "cached", "features", "goal", "results", "errors", "adapters"},
    "datasets": {*CONTRACT, "datasets"},
    "distributed": {*CONTRACT, "distributed"},
    "evaluation": {*CONTRACT, "datasets", "evaluation"},
    "pages": {*CONTRACT, "evaluation", "pages"},
    "teaching": {*CONTRACT, "search", "surrogate", "agent", "evaluation", "pages", "teaching"},
    "whatif": {*CONTRACT, "evaluation", "pages", "whatif"},
    "commands": {
        *CONTRACT,
        *("certificates", "commands", "datasets", "distributed", "evaluation", "pages", "regions"),
        *("teaching", "whatif"),
    },
}

# Doors that are opened only when someone asks for what is behind them, from which module to which room or module.
LAZY_DOORS = {
    ("base", "menu"),  # CounterfactualExplainer.menu
    ("base", "search"),  # CounterfactualExplainer.fills
    ("menu.menu", "pages"),  # Menu.plot
    ("results", "pages"),  # Counterfactuals.plot, card
    ("results", "search"),  # Counterfactuals.steps
    ("results", "certificates"),  # Counterfactuals.certificate
    ("results", "regions"),  # Counterfactuals.regions
    ("results", "reading"),  # Counterfactuals.sentences, to_dict, summary, _repr_html_
    ("features", "reading"),  # FeatureSpace._repr_html_
    ("results", "result_files"),  # Counterfactuals.to_json, from_json
    ("agent.history", "pages"),  # History.plot
    ("adapters.explainerdashboard", "pages"),  # the type of Counterfactuals.card
    ("adapters.mlflow_evaluator", "evaluation"),  # the judge's numbers for mlflow.models.evaluate
    ("adapters.mlflow", ""),  # the version that is logged
    ("agent.policy_tree", "pages"),  # PolicyTree.plot
    ("blackbox", "trees"),  # accelerate="auto"
    ("batch", "search"),  # changes that are not needed are taken back
    ("evaluation.floor_table", "trees"),  # bench --floor
    ("", "agent"),  # the exports of relax_plugin
    ("", "search"),
    ("search.explainer", "surrogate"),  # where few model evaluations are allowed, or one takes long
    ("cli", "commands"),
}

MOST_FLAT_MODULES = 28


def modules() -> dict[str, Path]:
    """Every module by its name below relax_plugin, "" being the package itself."""
    found = {}
    for folder, prefix in (("relax_plugin", ""), ("adapters", "adapters."), ("baselines", "baselines.")):
        for path in sorted((ROOT / folder).rglob("*.py")):
            parts = path.relative_to(ROOT / folder).with_suffix("").parts
            found[(prefix + ".".join(part for part in parts if part != "__init__")).rstrip(".")] = path
    return found


MODULES = modules()


def room(module: str) -> str:
    """The room of a module: its folder, or "flat"."""
    first = module.partition(".")[0]
    return first if first in MAY_IMPORT else "flat"


def imported(source: str) -> Iterator[str]:
    """The modules of relax_plugin that a source imports, anywhere in it, without the prefix; "" is the package."""
    for node in ast.walk(ast.parse(source)):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            whole = [f"{node.module}.{alias.name}" for alias in node.names]
            names = [name if name.removeprefix("relax_plugin.") in MODULES else str(node.module) for name in whole]
        for name in names:
            package, _, module = name.partition(".")
            if package == "relax_plugin":
                yield module


IMPORTS = {name: set(imported(path.read_text())) & set(MODULES) - {name} for name, path in MODULES.items()}


def forbidden(module: str, source: str) -> set[str]:
    """What the module imports beyond what its room may."""
    allowed = MAY_IMPORT[room(module)]
    doors = {there for here, there in LAZY_DOORS if here == module}
    return {
        other for other in imported(source) if not {other, room(other)} & allowed and not {other, room(other)} & doors
    }


@pytest.mark.parametrize("module", MODULES)
def test_a_room_imports_only_what_it_may(module: str) -> None:
    assert not forbidden(module, MODULES[module].read_text())


@pytest.mark.parametrize(
    ("module", "line", "found"),
    [
        ("trees.cells", "import relax_plugin.agent.pdqn", {"agent.pdqn"}),
        ("goal", "def f():\n    from relax_plugin.agent.explainer import ReLAX", {"agent.explainer"}),
        ("adapters.dice", "from relax_plugin import problem", {"problem"}),
        ("baselines.greedy", "from relax_plugin.agent import pdqn", {"agent.pdqn"}),
        ("surrogate.model", "from relax_plugin.search.moves import Moves", set()),
    ],
)
def test_a_forbidden_import_is_found_however_it_is_written(module: str, line: str, found: set[str]) -> None:
    assert forbidden(module, f"import numpy\n{line}\n") == found


def test_what_is_installed_imports_nothing_that_is_not() -> None:
    for module, path in MODULES.items():
        assert not re.search(r"(?m)^\s*(from|import) (benchmarks|tests)\b", path.read_text()), module


def rewired(source: str) -> list[str]:
    """Where a learned attribute, one that ends in `_`, of another object than `self` is assigned, or part of one is."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
            owner = ast.unparse(node.value)
            if (node.attr.endswith("_") and owner != "self") or "_." in f"{owner}.":
                found.append(f"{owner}.{node.attr}")
        elif isinstance(node, ast.Name) and node.id in ("setattr", "delattr"):
            found.append(node.id)  # which could assign anything
    return found


@pytest.mark.parametrize("module", [name for name in MODULES if room(name) == "adapters"])
def test_an_adapter_translates_and_never_rewires(module: str) -> None:
    """An explainer's learned attributes are its own; `for_model` and `for_space` give another view of it."""
    assert not rewired(MODULES[module].read_text())


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("view.space_ = space", ["view.space_"]),
        ("view.seed, view.space_, view.blackbox_.reader = 0, 1, 2", ["view.space_", "view.blackbox_.reader"]),
        ("self.explainer.blackbox_ = box", ["self.explainer.blackbox_"]),
        ("explainer.known_ += rows", ["explainer.known_"]),
        ("for view.space_ in spaces: pass", ["view.space_"]),
        ("setattr(view, 'space_', space)", ["setattr"]),
        ("self.explainer_.goal = goal", ["self.explainer_.goal"]),
        ("self.explainer_ = explainer", []),
        ("names = explainer.space_.names", []),
    ],
)
def test_rewiring_is_found_however_it_is_written(line: str, found: list[str]) -> None:
    assert rewired(line) == found


def test_every_lazy_door_is_used() -> None:
    for here, there in LAZY_DOORS:
        assert there in {name for other in imported(MODULES[here].read_text()) for name in (other, room(other))}, here


def layers() -> tuple[list[list[str]], list[str]]:
    """The modules, lowest first: each needs only lower ones, doors and types aside. And those left over in a cycle."""
    pairs = {(here, other) for here in IMPORTS for other in IMPORTS[here]}
    behind_doors = {(here, other) for here, other in pairs if {(here, other), (here, room(other))} & LAZY_DOORS}
    passed = behind_doors | {(here, other) for here, path in MODULES.items() for other in only_for_types(path)}
    left = {here: {other for other in IMPORTS[here] if (here, other) not in passed} for here in IMPORTS}
    found = []
    while free := sorted(name for name, others in left.items() if not others & set(left)):
        found.append(free)
        left = {name: others for name, others in left.items() if name not in free}
    return found, sorted(left)


def test_there_is_no_cycle_of_imports() -> None:
    """Lazy or not: whoever reads a module can read what it needs before it."""
    assert layers()[1] == []


def only_for_types(path: Path) -> set[str]:
    """Modules that are imported under `if TYPE_CHECKING` and nowhere else."""
    tree = ast.parse(path.read_text())
    checks = [node for node in ast.walk(tree) if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)]
    if not checks:
        return set()
    inside = {other for node in checks for part in node.body for other in imported(ast.unparse(part))}
    for node in checks:
        node.body = [ast.Pass()]
    return inside - set(imported(ast.unparse(tree)))


def test_there_are_few_flat_modules_and_each_says_what_it_is_for() -> None:
    flat = [name for name in MODULES if name and room(name) == "flat" and "." not in name]
    assert len(flat) <= MOST_FLAT_MODULES
    for name, path in MODULES.items():
        told = ast.get_docstring(ast.parse(path.read_text()))
        assert told and told.splitlines()[0].endswith((".", "?")), name


def test_the_walk_of_contributing_names_what_there_is() -> None:
    walk = (ROOT / "CONTRIBUTING.md").read_text().partition("## The walk")[2].partition("\n## ")[0]
    steps = [line for line in walk.splitlines() if re.match(r"\d\. ", line)]
    assert 10 <= len(steps) <= 16, "short enough to remember"
    for step in steps:
        path, names = ([*re.findall(r"`([^`]+)`", step), ""])[:2]
        source = (ROOT / "relax_plugin" / path).read_text()
        for name in re.findall(r"\w+", names.partition(":")[0]):
            assert name in source, (path, name)
    assert all((ROOT / "relax_plugin" / path).is_file() for path in re.findall(r"[\w/]+\.py", walk))


def test_the_map_of_rooms_in_contributing_is_that_of_the_tree() -> None:
    lines = (ROOT / "CONTRIBUTING.md").read_text().splitlines()
    named = {line.split("`")[1].rstrip("/") for line in lines if line.startswith("| `")}
    assert named == {"relax_plugin/*.py", *MAY_IMPORT} - {"flat"}
    folders = {path.parent.name for path in (ROOT / "relax_plugin").glob("*/__init__.py")} | {"adapters", "baselines"}
    assert folders == set(MAY_IMPORT) - {"flat"}


# The tests lie like the rooms; those of flat files in tests/contract.

# What `make quick` leaves out, as the Makefile writes it.
LEFT_OUT = {
    f"pytest.mark.{marker}"
    for marker in re.findall(r"not (\w+)", re.search(r"(?m)^QUICK := (.*)$", (ROOT / "Makefile").read_text())[1])
}

# Modules without a test of like name, behind the test that is about them.
TESTED_BY = {
    "adapters/test_mlflow": ["adapters.mlflow_evaluator"],
    "agent/test_environment": ["search.actions", "search.state"],
    "agent/test_explainer": ["agent.policy"],
    "agent/test_policy_tree": ["pages.diagrams"],
    "agent/test_training": ["agent.networks"],
    "baselines/test_networks": ["baselines.common"],
    "certificates/test_checking": ["certificates.allowed", "certificates.native", "certificates.proving"],
    "certificates/test_making": ["certificates.spaces", "certificates.words"],
    "commands/test_commands": [
        *("cli", "commands.bench", "commands.list_"),
        *("commands.methods", "commands.output", "commands.play", "commands.report"),
    ],
    "commands/test_explain": [
        *("commands.found", "commands.models", "commands.request", "commands.request_of_model", "commands.rows"),
        "commands.arguments",
    ],
    "commands/test_serve": ["commands.serve_setup"],
    "contract/test_every_explainer": ["base", "batch", "supports"],
    "contract/test_blackbox": ["answers", "books"],
    "contract/test_exact_numbers": ["table.columns"],
    "contract/test_features": [
        *("table.feature_files", "table.inference", "table.kinds", "table.translation"),
    ],
    "contract/test_goal": ["bound_goal"],
    "contract/test_reported_faults": ["errors"],
    "contract/test_pickles": ["cached", "locks"],
    "contract/test_results": ["reading.picture", "result_files", "table.tables"],
    "datasets/test_covid": ["commands.fetch"],
    "datasets/test_datasets": ["datasets.generators", "datasets.home"],
    "evaluation/test_damaged_results": ["evaluation.store", "files"],
    "evaluation/test_judge": ["evaluation.yardsticks"],
    "evaluation/test_tables": ["evaluation.schema"],
    "evaluation/test_runner": ["evaluation.plan"],
    "evaluation/test_tasks": ["evaluation.task_models"],
    "menu/test_menu": ["pages.diagrams"],
    "networks/test_floor": [
        *("networks.program", "networks.question", "networks.subsets"),
    ],
    "networks/test_relu": ["networks.layers"],
    "pages/test_plane": ["evaluation.toy"],
    "pages/test_plots": ["pages.drawing"],
    "pages/test_report": ["pages.headline", "pages.html"],
    "regions/test_finding": ["regions.growing", "regions.probed", "regions.question", "regions.spans"],
    "rules/test_rule": ["rules.expression"],
    "teaching/test_learning": ["teaching.slider"],
    "test_packaging": [""],
    "trees/test_ensemble": ["trees.readers"],
    "trees/test_fast": ["trees.proving"],
    "trees/test_floor": ["trees.aims", "trees.subset_grid"],
    "trees/test_pipelines": ["trees.over_values", "trees.reading"],
    "trees/test_profiles": ["search.trees", "trees.costs", "trees.kernel", "trees.look", "trees.masks", "trees.search"],
    "whatif/test_session": ["whatif.form"],
    "agent/test_pdqn": ["agent.layers"],
    "surrogate/test_learning": ["baselines.surrogate_search", "search.goals", "surrogate"],
    "surrogate/test_model": ["arrays"],
}


def own_test(module: str) -> Path:
    """Where the test of like name lies: tests/trees/test_floor.py of `trees.floor`."""
    folder = "contract" if room(module) == "flat" else room(module)
    return ROOT / "tests" / folder / f"test_{module.rpartition('.')[2].rstrip('_')}.py"


def reached(names: Iterable[str]) -> set[str]:
    """The modules, what they import, and so on."""
    found, left = set(), set(names)
    while left:
        found |= left
        left = {other for name in left for other in IMPORTS[name]} - found
    return found


def quick_tests(source: str) -> list[str]:
    """The tests of a file that `make quick` runs."""
    tree = ast.parse(source)
    of_the_file = [node.value for node in tree.body if ast.unparse(node).startswith("pytestmark = ")]
    if any(ast.unparse(node) in LEFT_OUT for value in of_the_file for node in ast.walk(value)):
        return []
    tests = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")]
    return [test.name for test in tests if not LEFT_OUT & set(map(ast.unparse, test.decorator_list))]


def test_every_module_has_a_test_of_like_name_or_a_line_that_says_which_test_is_about_it() -> None:
    listed = {module for modules in TESTED_BY.values() for module in modules}
    for module, path in MODULES.items():
        code = re.search(r"(?m)^(def|class) ", path.read_text())
        assert not code or (module in listed) != own_test(module).exists(), module
    assert listed <= set(MODULES)


@pytest.mark.parametrize("test", TESTED_BY)
def test_a_test_that_is_said_to_be_about_a_module_reaches_it(test: str) -> None:
    assert set(TESTED_BY[test]) <= reached(imported((ROOT / "tests" / f"{test}.py").read_text()))


@pytest.mark.parametrize("folder", sorted({*MAY_IMPORT, "contract"} - {"flat"}))
def test_every_room_has_tests_in_the_quick_tier(folder: str) -> None:
    assert any(quick_tests(path.read_text()) for path in (ROOT / "tests" / folder).glob("test_*.py"))


@pytest.mark.parametrize(
    ("source", "quick"),
    [
        ("def test_a(): ...", ["test_a"]),
        ("@pytest.mark.slow\ndef test_a(): ...\ndef test_b(): ...", ["test_b"]),
        ("@pytest.mark.parametrize('x', [1, pytest.param(2, marks=pytest.mark.slow)])\ndef test_a(x): ...", ["test_a"]),
        ("pytestmark = pytest.mark.browser\ndef test_a(): ...", []),
        ("pytestmark = [pytest.mark.dask, pytest.mark.filterwarnings('error')]\ndef test_a(): ...", []),
    ],
)
def test_what_the_quick_tier_leaves_out_is_seen(source: str, quick: list[str]) -> None:
    assert quick_tests(source) == quick


if __name__ == "__main__":
    for number, names in enumerate(layers()[0]):
        print(f"{number:2}  {', '.join(name or 'relax_plugin' for name in names)}")
