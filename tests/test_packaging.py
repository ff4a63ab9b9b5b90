"""Facts about the package: which module may import which, and what an install brings."""

import ast
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest

import relax_plugin

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())

# From the lowest to the highest: a module imports its own layer and lower ones. A new module has to be placed here.
LAYERS = (
    {"errors", "columns", "tables", "limits", "features", "goal", "results", "problem", "drawing"}
    | {"trees", "tree_readers", "fast_trees", "readers", "blackbox"},
    {"base", "registry", "refine", "slots", "stepwise", "verdict"},
    {"config", "actions", "environment", "search", "guided"},
    {"networks", "replay", "curiosity", "starts"},
    {"world_model", "imagination", "lookahead"},
    {"agent"},
    {"training"},
    {"local"},
    {"explainer", "persistence"},
)
ABOVE_ALL_LAYERS = {"cli"}
BASELINES_SHARE = {f"baselines.{name}" for name in ("deepfool", "neural", "tree_cells", "tree_explainer", "tree_goals")}
# A copy of the model and torch on one thread, but no agent; of other methods only what looks inside a model, and the
# step GRACE restricts.
BASELINES_SEE = LAYERS[0] | LAYERS[1] | LAYERS[2] | {"imagination", "lookahead", "networks"} | BASELINES_SHARE
ADAPTERS_SEE = {"base", "features", "goal", "results", "errors", "adapters.dice_interfaces"}


def imported_modules(source: str) -> Iterator[str]:
    """The modules of relax_plugin that a source imports, anywhere in it, without the prefix; "" is the package."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module == "relax_plugin":
            names = [f"relax_plugin.{alias.name}" if is_module(alias.name) else "relax_plugin" for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        else:
            continue
        for name in names:
            package, _, module = name.partition(".")
            if package == "relax_plugin":
                yield module


def is_module(name: str) -> bool:
    """Whether `from relax_plugin import name` gives a module."""
    folders = (ROOT / "relax_plugin", ROOT)
    return any((folder / f"{name}.py").exists() or (folder / name / "__init__.py").exists() for folder in folders)


def forbidden_imports(source: str, allowed: set[str]) -> set[str]:
    """The imported modules of relax_plugin that are not among the allowed ones."""
    return set(imported_modules(source)) - allowed


def modules_of(folder: str) -> list[Path]:
    return [path for path in sorted((ROOT / folder).glob("*.py")) if path.stem != "__init__"]


def run_python(arguments: list[str], folder: Path) -> str:
    """Run the interpreter in another folder, so that the checkout is not on its path by accident."""
    return subprocess.run([sys.executable, *arguments], cwd=folder, check=True, capture_output=True, text=True).stdout


def test_every_module_of_the_core_has_a_layer() -> None:
    placed = set().union(*LAYERS) | ABOVE_ALL_LAYERS
    assert {path.stem for path in modules_of("relax_plugin")} <= placed


def test_lower_layers_never_import_higher_ones() -> None:
    for path in modules_of("relax_plugin"):
        if path.stem in ABOVE_ALL_LAYERS:
            continue
        height = next((i for i, layer in enumerate(LAYERS) if path.stem in layer), 0)
        assert not forbidden_imports(path.read_text(), set().union(*LAYERS[: height + 1])), path


def test_baselines_never_import_the_agent() -> None:
    for path in modules_of("baselines"):
        assert not forbidden_imports(path.read_text(), BASELINES_SEE), path


def test_adapters_import_only_what_every_explainer_has() -> None:
    for path in modules_of("adapters"):
        assert not forbidden_imports(path.read_text(), ADAPTERS_SEE), path


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("from relax_plugin.search.beam import beam", "search"),
        ("import relax_plugin.agent.pdqn", "agent"),
        ("def f():\n    from relax_plugin.agent.explainer import ReLAX", "explainer"),
        ("from relax_plugin import datasets", "datasets"),
        ("from relax_plugin import ReLAX", ""),
        ("from relax_plugin.baselines.nearest import Nearest", "baselines.nearest"),
    ],
)
def test_forbidden_import_is_found_however_it_is_written(line: str, found: str) -> None:
    assert forbidden_imports(f"import numpy\nfrom relax_plugin.errors import InputError\n{line}\n", {"errors"}) == {
        found
    }


def test_importing_the_package_does_not_import_torch(tmp_path: Path) -> None:
    code = "import sys, relax_plugin; print('torch' in sys.modules, 'pandas' in sys.modules)"
    assert run_python(["-c", code], tmp_path).split() == ["False", "False"]


def test_data_sets_load_without_torch(tmp_path: Path) -> None:
    code = "import sys; from relax_plugin.datasets import load; load('german').space; print('torch' in sys.modules)"
    assert run_python(["-c", code], tmp_path).split() == ["False"]


def test_exported_names_are_found() -> None:
    for name in relax_plugin.__all__:
        assert getattr(relax_plugin, name) is not None
        assert name in dir(relax_plugin)


def test_unknown_attribute_of_the_package_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="'RELAX'"):
        relax_plugin.RELAX  # noqa: B018


def test_version_is_that_of_the_project() -> None:
    assert relax_plugin.__version__ == PROJECT["project"]["version"] == metadata.version("relax-plugin")


def test_installed_package_has_its_mapped_folders_and_no_other_top_level_module(tmp_path: Path) -> None:
    code = (
        "import importlib.util as u, relax_plugin.adapters, relax_plugin.baselines; "
        "print(u.find_spec('adapters'), u.find_spec('baselines'))"
    )
    assert run_python(["-c", code], tmp_path).split() == ["None", "None"]


def test_mapped_folders_are_found_in_a_checkout_without_an_install() -> None:
    code = "import relax_plugin.adapters, relax_plugin.baselines; print(relax_plugin.baselines.__file__)"
    found = run_python(["-S", "-c", code], ROOT).strip()  # -S: no site-packages
    assert Path(found) == ROOT / "baselines" / "__init__.py"
