"""Facts about what is given away: the sdist, the wheel, the versions they ask for, and that these are all they need."""

import ast
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from importlib import metadata
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
CODE = ("relax_plugin", "adapters", "baselines")
BESIDE_THE_CODE = (".ci", ".github", "benchmarks", "docs", "examples", "tests")
FILES = ("pyproject.toml", "MANIFEST.in", "README.md", "LICENSE", "CHANGELOG.md", "CITATION.cff", "CONTRIBUTING.md")
FILES += ("Makefile", "constraints.txt", "mkdocs.yml")
GENERATED = shutil.ignore_patterns("__pycache__", "*.pyc", "units", "quick")
MODULES_OF_OTHER_NAMES = {
    "PIL": "pillow",
    "dice_ml": "dice-ml",
    "interpret": "interpret-core",
    "mlflow": "mlflow-skinny",
    "sklearn": "scikit-learn",
}
MODULES_OF_OTHER_NAMES |= {"z3": "z3-solver", "plotly": "interpret-core"}  # an extra of it, asked for in ours


def run(arguments: list[str], folder: Path, **environment: str) -> str:
    """Run the interpreter in another folder and give what it printed, or fail with it."""
    done = subprocess.run(
        [sys.executable, *arguments], cwd=folder, capture_output=True, text=True, env={**os.environ, **environment}
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def normal(name: str) -> str:
    """The name of a distribution as the index spells it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def declared_requirements() -> list[str]:
    extras = PROJECT["project"]["optional-dependencies"]
    return [*PROJECT["project"]["dependencies"], *(one for extra in extras.values() for one in extra)]


def declared_names() -> set[str]:
    return {normal(re.split(r"[<>=!~\[ ]", requirement)[0]) for requirement in declared_requirements()}


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the checkout, because a build leaves files behind."""
    copy = tmp_path_factory.mktemp("copy") / "tree"
    copy.mkdir()
    for folder in (*CODE, *BESIDE_THE_CODE):
        shutil.copytree(ROOT / folder, copy / folder, ignore=GENERATED)
    for file in FILES:
        shutil.copy(ROOT / file, copy / file)
    return copy


@pytest.fixture(scope="module")
def built(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, str]:
    """The sdist, the wheel that is built from it, and what the build said."""
    folder = tmp_path_factory.mktemp("built")
    said = run(["-m", "build", "--no-isolation", "--outdir", str(folder), str(tree)], folder)
    (sdist,), (wheel,) = folder.glob("*.tar.gz"), folder.glob("*.whl")
    return sdist, wheel, said


@pytest.mark.install
def test_the_build_misses_no_file_and_uses_nothing_deprecated(built: tuple[Path, Path, str]) -> None:
    assert not re.findall(r"(?im)^.*(?:absent from|no files found|deprecat).*$", built[2])


@pytest.mark.install
def test_the_index_would_take_both_and_show_the_readme(built: tuple[Path, Path, str], tmp_path: Path) -> None:
    run(["-m", "twine", "check", "--strict", str(built[0]), str(built[1])], tmp_path)


@pytest.mark.install
def test_sdist_holds_all_that_its_tests_and_its_makefile_need(tree: Path, built: tuple[Path, Path, str]) -> None:
    with tarfile.open(built[0]) as packed:
        held = {member.name.partition("/")[2] for member in packed.getmembers() if member.isfile()}
    top = [path for file in FILES for path in [tree / file]]
    inside = [path for folder in (*CODE, *BESIDE_THE_CODE) for path in (tree / folder).rglob("*") if path.is_file()]
    assert {path.relative_to(tree).as_posix() for path in [*top, *inside]} <= held


@pytest.mark.install
def test_tests_of_an_unpacked_sdist_pass_against_the_installed_wheel(
    built: tuple[Path, Path, str], tmp_path: Path
) -> None:
    sdist, wheel, _ = built
    with tarfile.open(sdist) as packed:
        packed.extractall(tmp_path, filter="data")
    (unpacked,) = tmp_path.iterdir()
    installed = tmp_path / "installed"
    run(
        ["-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--target", str(installed), str(wheel)], tmp_path
    )
    # -P: the folder of the sources is not on the path. Their reference implementations lie in tests/reference.
    where = run(["-P", "-c", "import relax_plugin; print(relax_plugin.__file__)"], unpacked, PYTHONPATH=str(installed))
    assert Path(where.strip()).parent == installed / "relax_plugin"
    chosen = ["tests/contract/test_goal.py", "tests/agent/test_replay.py", "tests/datasets/test_datasets.py"]
    said = run(["-P", "-m", "pytest", "-q", "-p", "no:cacheprovider", *chosen], unpacked, PYTHONPATH=str(installed))
    assert re.search(r"\d+ passed", said)


@pytest.mark.install
def test_wheel_holds_every_module_and_data_set_under_one_name(tree: Path, built: tuple[Path, Path, str]) -> None:
    packed = {name for name in zipfile.ZipFile(built[1]).namelist() if ".dist-info/" not in name}
    expected = {f"relax_plugin/{p.relative_to(tree / 'relax_plugin')}" for p in (tree / "relax_plugin").rglob("*.*")}
    expected |= {
        f"relax_plugin/{p.relative_to(tree)}"
        for folder in ("adapters", "baselines")
        for p in (tree / folder).rglob("*.py")
    }
    assert packed == expected
    assert {"relax_plugin/py.typed", "relax_plugin/datasets/german.csv.gz"} <= packed


@pytest.mark.install
def test_wheel_says_where_the_project_and_the_paper_are(built: tuple[Path, Path, str]) -> None:
    with zipfile.ZipFile(built[1]) as packed:
        (name,) = [name for name in packed.namelist() if name.endswith(".dist-info/METADATA")]
        said = dict(re.findall(r"(?m)^Project-URL: (\w+), (\S+)$", packed.read(name).decode()))
    assert {"Homepage", "Source", "Issues", "Paper"} <= said.keys()
    assert said["Paper"] == "https://arxiv.org/abs/2110.11960"


@pytest.mark.slow
def test_every_imported_library_is_declared() -> None:
    imported = set()
    for folder in CODE:
        for path in (ROOT / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Import):
                    imported |= {alias.name.partition(".")[0] for alias in node.names}
                elif isinstance(node, ast.ImportFrom):
                    imported.add((node.module or "").partition(".")[0])
    libraries = imported - set(sys.stdlib_module_names) - {"relax_plugin"}
    assert {normal(MODULES_OF_OTHER_NAMES.get(name, name)) for name in libraries} <= declared_names()


def test_every_requirement_is_pinned_and_no_registry_is_named() -> None:
    constraints = (ROOT / "constraints.txt").read_text()
    pinned = {normal(line.split("==")[0]) for line in constraints.splitlines() if "==" in line}
    assert declared_names() - {"relax-plugin"} <= pinned
    assert "torch==2.13.0\n" in constraints
    assert not re.search(r"://|--|^/|@", re.sub(r"(?m)^#.*$", "", constraints))


@pytest.mark.slow
def test_installed_versions_agree_with_each_other(tmp_path: Path) -> None:
    if importlib.util.find_spec("torch") is None:
        pytest.skip("this environment was made without torch, which pip would miss")
    assert "No broken requirements found." in run(["-m", "pip", "check"], tmp_path)


@pytest.fixture
def minima() -> ModuleType:
    """The script that reads the oldest versions from pyproject.toml."""
    specification = importlib.util.spec_from_file_location("minimum_versions", ROOT / ".ci" / "minimum_versions.py")
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def test_every_requirement_has_one_oldest_version(minima: ModuleType) -> None:
    oldest = minima.minimum_versions(PROJECT)
    assert {normal(name) for name in oldest} == declared_names() - {"relax-plugin"}
    assert oldest["dice-ml"] == "0.12"
    assert oldest["interpret-core"] == next(
        one.partition(">=")[2] for one in declared_requirements() if one.startswith("interpret-core[")
    )


@pytest.mark.parametrize("requirement", ["numpy", "numpy==2.1", "numpy~=2.1", "numpy>2", "numpy<3,>=2"])
def test_a_requirement_without_an_oldest_version_is_refused(minima: ModuleType, requirement: str) -> None:
    project = {"name": "relax-plugin", "dependencies": [requirement], "optional-dependencies": {}}
    with pytest.raises(ValueError, match="has no oldest version: write it as name>=version"):
        minima.minimum_versions({"project": project, "build-system": {"requires": []}})


def test_two_oldest_versions_of_one_library_are_refused(minima: ModuleType) -> None:
    project = {"name": "relax-plugin", "dependencies": ["numpy>=2.0"], "optional-dependencies": {"a": ["numpy>=2.1"]}}
    with pytest.raises(ValueError, match=r"oldest numpy is 2\.0 in one place .*, 2\.1 in another"):
        minima.minimum_versions({"project": project, "build-system": {"requires": []}})


def test_the_pinned_versions_are_none_older_than_the_oldest(minima: ModuleType) -> None:
    lines = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if "==" in line]
    pinned = {normal(name): version for name, _, version in (line.partition("==") for line in lines)}

    def numbers(version: str) -> list[int]:
        return [int(part) for part in version.split(".")]

    for name, version in minima.minimum_versions(PROJECT).items():
        assert numbers(pinned[normal(name)]) >= numbers(version), name


def test_the_oldest_python_is_among_the_supported_ones(minima: ModuleType) -> None:
    named = [line.rpartition(" ")[2] for line in PROJECT["project"]["classifiers"] if ":: Python :: 3." in line]
    assert minima.oldest_python(PROJECT) == min(tuple(map(int, version.split("."))) for version in named)
    assert metadata.metadata("relax-plugin")["Requires-Python"] == PROJECT["project"]["requires-python"]


@pytest.mark.slow
def test_an_absent_python_is_said_and_this_one_is_found() -> None:
    script = ROOT / ".ci" / "python_of"
    absent = subprocess.run([script, "3.0"], capture_output=True, text=True)
    assert (absent.returncode, absent.stderr) == (1, "Python 3.0 is not here.\n")
    version = "{}.{}".format(*sys.version_info)
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    found = subprocess.run([script, version], capture_output=True, text=True, env={**os.environ, "PATH": path})
    assert run(["-c", "import sys; print('%d.%d' % sys.version_info[:2])"], ROOT).strip() == version
    assert found.returncode == 0 and Path(found.stdout.strip()).exists()
