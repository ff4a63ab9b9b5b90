"""Which room may import which: flat files are the contract, folders are rooms."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

# What a module of each room may import; "flat" are the files of relax_plugin/ itself.
MAY_IMPORT = {
    "flat": {"flat"},
    "search": {"flat", "search"},
    "trees": {"flat", "trees"},
    "world_model": {"flat", "search", "world_model"},
    "agent": {"flat", "search", "world_model", "agent"},
    "baselines": {"flat", "search", "world_model", "trees", "baselines"},
    "adapters": {"base", "features", "goal", "results", "errors", "adapters"},
    "datasets": {"flat", "datasets"},
    "evaluation": {"flat", "datasets", "evaluation"},
    "pages": {"flat", "evaluation", "pages"},
    "reproduction": {"flat", "evaluation", "pages", "datasets", "agent.config", "reproduction"},
    "teaching": {"flat", "search", "world_model", "agent", "evaluation", "pages", "teaching"},
    "commands": {"flat", "datasets", "evaluation", "pages", "reproduction", "teaching", "commands"},
}

# Doors that are opened only when someone asks for what is behind them, from which module to which room or module.
LAZY_DOORS = {
    ("results", "pages"),  # Counterfactuals.plot
    ("agent.history", "pages"),  # History.plot
    ("blackbox", "trees"),  # accelerate="auto"
    ("evaluation.floor_table", "trees"),  # bench --floor
    ("", "agent"),  # the exports of relax_plugin
    ("cli", "commands"),
}

MOST_FLAT_MODULES = 20


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
        ("search.beam", "from relax_plugin.world_model.lookahead import LookaheadRanker", {"world_model.lookahead"}),
        ("trees.cells", "import relax_plugin.agent.pdqn", {"agent.pdqn"}),
        ("goal", "def f():\n    from relax_plugin.agent.explainer import ReLAX", {"agent.explainer"}),
        ("adapters.dice", "from relax_plugin import problem", {"problem"}),
        ("baselines.greedy", "from relax_plugin.agent import pdqn", {"agent.pdqn"}),
        ("world_model.model", "from relax_plugin.search.greedy import Moves", set()),
    ],
)
def test_a_forbidden_import_is_found_however_it_is_written(module: str, line: str, found: set[str]) -> None:
    assert forbidden(module, f"import numpy\n{line}\n") == found


def test_every_lazy_door_is_used() -> None:
    for here, there in LAZY_DOORS:
        assert there in {room(other) for other in imported(MODULES[here].read_text())}, (here, there)


def test_there_is_no_cycle_of_imports() -> None:
    """Lazy or not: whoever reads a module can read what it needs before it."""
    graph = {name: set(imported(path.read_text())) & set(MODULES) - {name} for name, path in MODULES.items()}
    behind_doors = {(here, other) for here in graph for other in graph[here] if (here, room(other)) in LAZY_DOORS}
    typing_only = {(name, other) for name in graph for other in graph[name] if other in only_for_types(MODULES[name])}
    left = {name: {o for o in others if (name, o) not in behind_doors | typing_only} for name, others in graph.items()}
    while True:
        free = {name for name, others in left.items() if not others & set(left)}
        if not free:
            break
        left = {name: others for name, others in left.items() if name not in free}
    assert not left, left


def only_for_types(path: Path) -> set[str]:
    """Modules that are imported under `if TYPE_CHECKING` and nowhere else."""
    tree = ast.parse(path.read_text())
    checks = [node for node in ast.walk(tree) if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)]
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


def test_the_map_of_rooms_in_contributing_is_that_of_the_tree() -> None:
    lines = (ROOT / "CONTRIBUTING.md").read_text().splitlines()
    named = {line.split("`")[1].rstrip("/") for line in lines if line.startswith("| `")}
    assert named == {"relax_plugin/*.py", *MAY_IMPORT} - {"flat"}
    folders = {path.parent.name for path in (ROOT / "relax_plugin").glob("*/__init__.py")} | {"adapters", "baselines"}
    assert folders == set(MAY_IMPORT) - {"flat"}
