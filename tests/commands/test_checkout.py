"""`relax-plugin reproduce` and `figures` run benchmarks/ of a checkout, and say where it is if there is none."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from relax_plugin.cli import main
from relax_plugin.commands.checkout import COMMANDS, checkout

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that holds the package and no benchmarks, as site-packages does."""
    folder = tmp_path_factory.mktemp("installed")
    shutil.copytree(ROOT / "relax_plugin", folder / "relax_plugin", ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def told(words: list[str], folder: Path, installed: Path) -> tuple[int, str, str]:
    """What the installed package says when it is started in a folder."""
    program = f"import sys; sys.path.insert(0, {str(installed)!r}); from relax_plugin.cli import main; sys.exit(main())"
    done = subprocess.run([sys.executable, "-P", "-c", program, *words], cwd=folder, capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


def test_a_checkout_is_found_wherever_its_package_is_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert checkout() == ROOT


@pytest.mark.slow
@pytest.mark.parametrize("words", [["reproduce", "--quick"], ["figures", "core"], ["figures", "--help"]])
def test_without_a_checkout_one_sentence_says_where_it_is(words: list[str], installed: Path, tmp_path: Path) -> None:
    code, out, err = told(words, tmp_path, installed)
    assert (code, out) == (2, "") and list(tmp_path.iterdir()) == []
    assert err.startswith(f"relax-plugin: `relax-plugin {words[0]}` runs benchmarks/")
    assert "start it in a clone of https://" in err and len(err.splitlines()) == 1


@pytest.mark.slow
def test_an_installed_package_that_is_started_in_a_checkout_runs_it(installed: Path) -> None:
    code, out, err = told(["reproduce", "--help"], ROOT, installed)
    assert code == 0 and "--report-only" in out, err


@pytest.mark.parametrize("name", COMMANDS)
def test_both_are_listed_among_the_commands(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    assert f"    {name}" in capsys.readouterr().out
