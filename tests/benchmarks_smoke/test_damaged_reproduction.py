"""A damaged reproduction: what cannot be read is made again, or refused in a sentence."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest

from benchmarks.reproduction import models as models_module
from benchmarks.reproduction import run as run_module
from benchmarks.reproduction.plan import Case
from benchmarks.reproduction.run import Folder, reproduce
from relax_plugin.cli import main
from relax_plugin.errors import SavedFileError


@pytest.fixture(scope="module")
def reproduced(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Folder]:
    """A small reproduction from beginning to end."""
    with pytest.MonkeyPatch.context() as patch:
        wanted = [Case("sparsity", "diabetes/ada", name, 0, name, 5, rows=3) for name in ("nearest-ct", "greedy")]
        patch.setattr(run_module, "cases", lambda quick: wanted)
        patch.setattr(run_module, "models_needed", lambda quick: [("diabetes/ada", 0)])
        patch.setattr(models_module, "FOLDS", 2)
        patch.delenv("RELAX_DATA_HOME", raising=False)
        folder = Folder(tmp_path_factory.mktemp("reproduced") / "paper")
        go_on(folder)
        yield folder


@pytest.fixture
def copied(reproduced: Folder, tmp_path: Path) -> Folder:
    return Folder(shutil.copytree(reproduced.path, tmp_path / "paper"))


def go_on(folder: Folder) -> list[str]:
    said: list[str] = []
    reproduce(folder, quick=False, jobs=1, command="relax-plugin reproduce", say=said.append)
    return said


@pytest.mark.slow
@pytest.mark.parametrize("pattern", ["units/units/*nearest*.csv.gz"])
def test_what_is_damaged_of_a_reproduction_is_made_again(
    pattern: str, copied: Folder, reproduced: Folder, caplog: pytest.LogCaptureFixture
) -> None:
    (path,) = copied.path.glob(pattern)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    said = go_on(copied)
    assert f"{path} is damaged: " in caplog.text
    assert any("1 of 2 cases" in line for line in said) == ("units/units" in pattern)
    assert any("[model 1/1]" in line for line in said) == ("models" in pattern)
    assert len(copied.about()) == (1 if "about" in pattern else 2)
    same = [name for name in copied.read("sparsity") if not name.endswith(("seconds", "cpu"))]
    pd.testing.assert_frame_equal(copied.read("sparsity")[same], reproduced.read("sparsity")[same])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "content", "sentence"),
    [
        ("sparsity.csv", b"task,method\na,b\n", "it has no column 'cap'"),
        ("about.json", b"[{]", "is damaged"),
    ],
)
def test_a_damaged_table_of_a_reproduction_is_refused(
    file: str, content: bytes, sentence: str, copied: Folder, capsys: pytest.CaptureFixture[str]
) -> None:
    (copied.path / file).write_bytes(content)
    assert main(["reproduce", "--report-only", "--output", str(copied.path.parent)]) == 2
    err = capsys.readouterr().err
    assert f"relax-plugin: {copied.path / file} is damaged: " in err and sentence in err
    assert not (copied.path.parent / "report.html").exists()


@pytest.mark.slow
def test_text_among_the_numbers_of_a_table_is_refused(copied: Folder) -> None:
    path = copied.path / "sparsity.csv"
    frame = pd.read_csv(path, dtype=str)
    frame.loc[0, "validity"] = "O.98"
    frame.to_csv(path, index=False)
    with pytest.raises(SavedFileError, match=r"column 'validity' holds 'O\.98', but numbers belong there"):
        copied.read("sparsity")


def test_the_tables_beside_the_code_are_read(request: pytest.FixtureRequest) -> None:
    folder = Folder(request.config.rootpath / "docs" / "results" / "paper")
    for path in folder.path.glob("*.csv"):
        assert len(folder.read(path.stem))
    assert folder.about()


def test_tables_of_the_reproduction_hold_no_formula_and_are_read_back(tmp_path: Path) -> None:
    hostile = "=cmd|' /C calc'!A0"
    frame = pd.DataFrame({"task": ["t"], "version": [hostile], "rows": [-3], "seconds_a_row": [1.5]})
    folder = Folder(tmp_path)
    folder.write("lore_sa", frame)
    assert f"'{hostile}" in (tmp_path / "lore_sa.csv").read_text()
    pd.testing.assert_frame_equal(folder.read("lore_sa"), frame, check_dtype=False)
