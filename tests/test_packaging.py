"""Facts about the package: what an import and an install bring."""

import subprocess
import sys
import tomllib
from importlib import import_module, metadata
from pathlib import Path

import pytest

import relax_plugin
from relax_plugin.errors import naming_the_extra

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def run_python(arguments: list[str], folder: Path) -> str:
    """Run the interpreter in another folder, so that the checkout is not on its path by accident."""
    return subprocess.run([sys.executable, *arguments], cwd=folder, check=True, capture_output=True, text=True).stdout


def test_importing_the_package_does_not_import_torch(tmp_path: Path) -> None:
    code = "import sys, relax_plugin; print('torch' in sys.modules, 'pandas' in sys.modules)"
    assert run_python(["-c", code], tmp_path).split() == ["False", "False"]


@pytest.mark.slow
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
        "print(*map(u.find_spec, ('adapters', 'baselines', 'benchmarks')))"
    )
    assert run_python(["-c", code], tmp_path).split() == ["None", "None", "None"]


def test_mapped_folders_are_found_in_a_checkout_without_an_install() -> None:
    code = "import relax_plugin.adapters, relax_plugin.baselines; print(relax_plugin.baselines.__file__)"
    found = run_python(["-S", "-c", code], ROOT).strip()  # -S: no site-packages
    assert Path(found) == ROOT / "baselines" / "__init__.py"


WITHOUT_TORCH = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "torch":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())

import numpy as np
from sklearn.ensemble import RandomForestClassifier

X = np.random.default_rng(0).normal(size=(60, 3)).round(2)
model = RandomForestClassifier(5, random_state=0).fit(X, X[:, 0] > 0)
"""


def without_torch(code: str, folder: Path) -> str:
    return run_python(["-c", WITHOUT_TORCH + code], folder).strip()


@pytest.mark.slow
def test_methods_that_need_no_torch_explain_without_it(tmp_path: Path) -> None:
    code = """
import relax_plugin
from relax_plugin.registry import BUILT_IN

needing = {"relax-global", "relax-local", "focus", "cfrl", "fastar", "deepfool", "grace", "wachter"}
searches = ("search", "surrogate-search", "greedy", "nearest-ct", "move-table", "random-order", "nice")
for name in (*searches, "feat-tweak", "face", "growing-spheres"):
    found = relax_plugin.make_explainer(name, model).fit(X).explain(X[:2])
    assert len(found.sentences()) == 2 and name not in needing
for name in needing:
    try:
        relax_plugin.make_explainer(name, model).fit(X)
    except relax_plugin.errors.MissingExtraError as error:
        assert str(error) == "this needs torch, which is not installed: pip install 'relax-plugin[train]'.", error
    else:
        raise AssertionError(name)
print("torch" in sys.modules)
"""
    assert without_torch(code, tmp_path) == "False"


@pytest.mark.slow
@pytest.mark.parametrize(
    "code",
    [
        "from relax_plugin import ReLAX; ReLAX(model).fit(X)",
        "import relax_plugin; relax_plugin.make_explainer('relax-local', model).fit(X)",
        "import relax_plugin; relax_plugin.make_explainer('cfrl', model)",
    ],
)
def test_without_torch_one_sentence_names_the_extra(code: str, tmp_path: Path) -> None:
    caught = f"""
try:
    {code}
except ImportError as error:
    print(type(error).__name__, error)
"""
    told = without_torch(caught, tmp_path)
    assert told == "MissingExtraError this needs torch, which is not installed: pip install 'relax-plugin[train]'."


@pytest.mark.slow
def test_a_command_without_torch_names_the_extra(tmp_path: Path) -> None:
    code = "from relax_plugin.cli import main\nsys.stderr = sys.stdout\nprint(main(['play']))"
    told = without_torch(code, tmp_path).splitlines()
    assert told[-2] == "relax-plugin: this needs torch, which is not installed: pip install 'relax-plugin[train]'."
    assert told[-1] == "2"


@pytest.mark.slow
def test_the_list_without_torch_says_which_methods_need_it(tmp_path: Path) -> None:
    code = "from relax_plugin.cli import main\nsys.stderr = sys.stdout\nprint(main(['list']))"
    told = without_torch(code, tmp_path).splitlines()
    assert "relax-plugin: cfrl: this needs torch, which is not installed: pip install 'relax-plugin[train]'." in told
    assert any(line.startswith("greedy ") for line in told) and told[-1] == "0"


def test_a_missing_module_that_is_not_torch_is_told_as_it_is() -> None:
    with pytest.raises(ModuleNotFoundError, match="nowhere"), naming_the_extra():
        import_module("nowhere")
