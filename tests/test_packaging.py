"""Facts about the package: what an import and an install bring."""

import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

import relax_plugin

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
        "print(u.find_spec('adapters'), u.find_spec('baselines'))"
    )
    assert run_python(["-c", code], tmp_path).split() == ["None", "None"]


def test_mapped_folders_are_found_in_a_checkout_without_an_install() -> None:
    code = "import relax_plugin.adapters, relax_plugin.baselines; print(relax_plugin.baselines.__file__)"
    found = run_python(["-S", "-c", code], ROOT).strip()  # -S: no site-packages
    assert Path(found) == ROOT / "baselines" / "__init__.py"
