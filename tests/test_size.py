"""The size gate: what it counts, and that it fails above a ceiling, without one, and above the total."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parent.parent
CEILINGS = """[tool.relax_plugin.size]
total = {total}
[tool.relax_plugin.size.folders]
relax_plugin = 2
"relax_plugin/rules" = 4
adapters = 5
baselines = 5
"""


@pytest.fixture(scope="module")
def size() -> ModuleType:
    specification = importlib.util.spec_from_file_location("size", ROOT / ".ci" / "size.py")
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A package with two lines of its own, three and one in a folder and below it, and nothing beside it."""
    for name, count in {"__init__.py": 2, "rules/rule.py": 3, "rules/deeper/rule.py": 1, "pages/page.html": 9}.items():
        path = tmp_path / "relax_plugin" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("# a line\n" * count)
    (tmp_path / "pyproject.toml").write_text(CEILINGS.format(total=6))
    return tmp_path


def test_a_tree_at_its_ceilings_passes_and_is_printed(
    size: ModuleType, tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert size.installed(tree) == {"relax_plugin": 2, "relax_plugin/rules": 4, "adapters": 0, "baselines": 0}
    assert size.main(tree) == 0
    told = capsys.readouterr()
    assert told.out.splitlines()[4].split() == ["installed", "6", "6"] and told.err == ""


@pytest.mark.parametrize(
    ("file", "total", "sentence"),
    [
        ("rules/more.py", 9, "relax_plugin/rules has 5 lines, above its ceiling of 4."),
        ("more.py", 9, "relax_plugin has 3 lines, above its ceiling of 2."),
        ("pages/page.py", 9, "relax_plugin/pages has no ceiling."),
        ("pages/page.html", 5, "6 lines are installed, above the ceiling of 5."),
    ],
)
def test_what_exceeds_a_ceiling_fails(
    file: str, total: int, sentence: str, size: ModuleType, tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tree / "relax_plugin" / file).write_text("# a line\n")
    (tree / "pyproject.toml").write_text(CEILINGS.format(total=total))
    assert size.main(tree) == 1
    assert capsys.readouterr().err.splitlines()[0] == sentence


def test_a_ceiling_of_a_folder_that_is_gone_fails(size: ModuleType) -> None:
    assert size.complaints({"adapters": 1}, {"adapters": 1, "gone": 1}, 1) == ["gone has a ceiling but does not exist."]
