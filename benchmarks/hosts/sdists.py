"""The tests and the documentation of other toolkits, from their source archives, run with this package's classes.

`own_tests_of_*.py` say what is in an archive and put our class in the host's place (`pytest_configure`); here is what
they share: the archive is fetched by pip, its tests run as they are and again with our class, and the code of its
texts and notebooks block by block, as further tests. What became of each is stored in docs/results/hosts, from which
`make tables` prints. A test counts as touched if it used an instance of a class that was given to `watch`.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "docs" / "results" / "hosts"
SUBJECT, REPORT = "RELAX_PLUGIN_SUBJECT", "RELAX_PLUGIN_REPORT"  # variables of the environment of the runs
OWN = "the host's own"
COLUMNS = ["host", "version", "test", "outcome", "touched", "own", "reason"]
TIMEOUT = ["--timeout=200"]  # seconds of a test, by pytest-timeout
TEXTS = (".md", ".rst", ".ipynb")
BLOCKS = {  # of Python in a text
    ".md": re.compile(r"^```python\n(?P<code>.*?)^```", re.MULTILINE | re.DOTALL),
    ".rst": re.compile(r"^\.\. code(-block)?:: python\n\s*\n(?P<code>(?:[ \t]+.*\n|\s*\n)+)", re.MULTILINE),
}


@dataclass(frozen=True)
class Host:
    """What is run of a toolkit.

    Attributes
    ----------
    name : str
        Of the stored table.
    package : str
        The distribution, whose installed version is fetched.
    parts : sequence of str
        Files and folders of the archive that the tests need. They are copied out of it, so that the installed package
        is imported and not the archive's.
    tests : sequence of str
        Files or folders with tests, and texts or notebooks with code, all within `parts`.
    plugin : str
        A module in this folder; its `pytest_configure` puts the class that `subject()` names in the host's place.
    needed : sequence of str
        Distributions that the tests need beyond this environment; they are installed beside the tests.
    deselected : sequence of str
        Beginnings of the tests that are not run.
    version : str
        Of a package that is not installed; by default the installed one.
    """

    name: str
    package: str
    parts: Sequence[str]
    tests: Sequence[str]
    plugin: str
    needed: Sequence[str] = ()
    deselected: Sequence[str] = ()
    version: str = ""

    @property
    def fetched(self) -> str:
        """The version whose archive is fetched."""
        return self.version or version(self.package)


def compare(host: Host, explainers: Sequence[str]) -> None:
    """The command of a host: run everything with its own class and with each explainer, store and print the outcome."""
    parser = argparse.ArgumentParser(description=f"The tests of {host.package}, with our class in place of its own.")
    parser.add_argument("--explainers", nargs="+", default=list(explainers), help="the first is stored")
    parser.add_argument("--folder", type=Path, default=ROOT / ".bench" / host.name)
    parser.add_argument("--tests", nargs="+", default=list(host.tests), help="only these files; then nothing is stored")
    given = parser.parse_args()
    fetch(host, given.folder)
    own = run(host, given.folder, OWN, given.tests)
    for place, explainer in enumerate(given.explainers):
        table = beside(host, own, run(host, given.folder, explainer, given.tests))
        if place == 0 and given.tests == list(host.tests):
            RESULTS.mkdir(parents=True, exist_ok=True)
            table.to_csv(RESULTS / f"{host.name}.csv", index=False, lineterminator="\n")
        print(f"\n{explainer} in {host.package} {table['version'].iloc[0]}: {told(table)}")
        for line in table[(table["own"] == "passed") & (table["outcome"] != "passed")].itertuples():
            print(f"  {line.test}\n      {line.outcome}: {line.reason}")


def told(table: pd.DataFrame) -> str:
    """A table of outcomes in a sentence."""
    passed, own = table["outcome"] == "passed", table["own"] == "passed"
    return (
        f"{passed.sum()} of {len(table)} pass, with {OWN} class {own.sum()}; {(~table['touched']).sum()} never touch "
        f"our class; {(passed & ~own).sum()} pass here only, {(own & ~passed).sum()} there only"
    )


def beside(host: Host, own: dict[str, Any], ours: dict[str, Any]) -> pd.DataFrame:
    """What became of each test: with our class, and with the host's own."""
    nothing = {"outcome": "not run", "touched": False, "reason": ""}
    lines = []
    for test in dict.fromkeys([*own, *ours]):
        line = {"host": host.name, "version": host.fetched, "test": test, **ours.get(test, nothing)}
        lines.append({**line, "own": own.get(test, nothing)["outcome"]})
    return pd.DataFrame(lines, columns=COLUMNS)


def fetch(host: Host, folder: Path) -> None:
    """Put the archive's parts into `folder`/work, and what they need into `folder`/needed."""
    folder.mkdir(parents=True, exist_ok=True)
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    wanted = f"{host.package}=={host.fetched}"
    stem = f"{host.package.replace('-', '_')}-{host.fetched}"
    if not list(folder.glob(f"{stem}*.tar.gz")):
        where = ["--no-deps", "--no-binary", host.package, "-d", str(folder)]
        subprocess.run([*pip, "download", *where, wanted], check=True)
    if not (folder / "needed").exists():
        beside = ["--no-deps", "--target", str(folder / "needed"), "pytest-timeout", *host.needed]
        subprocess.run([*pip, "install", *beside], check=True)
    (archive,) = folder.glob(f"{stem}*.tar.gz")
    with tarfile.open(archive) as files:
        files.extractall(folder, filter="data")
    unpacked, work = folder / archive.name.removesuffix(".tar.gz"), folder / "work"
    shutil.rmtree(work, ignore_errors=True)
    for part in host.parts:
        (work / part).parent.mkdir(parents=True, exist_ok=True)
        copy: Callable[..., Any] = shutil.copytree if (unpacked / part).is_dir() else shutil.copy
        copy(unpacked / part, work / part)
    (work / "pytest.ini").write_text("[pytest]\n")  # of the ancestors' settings none holds here


def run(host: Host, folder: Path, subject: str, tests: Sequence[str]) -> dict[str, dict[str, Any]]:
    """By the name of the test: "outcome" (passed, failed, skipped), "touched", and the "reason" in one line."""
    report = folder.resolve() / f"{re.sub(r'[^a-z-]+', '-', subject)}.json"
    report.unlink(missing_ok=True)
    paths = [str(ROOT), str(Path(__file__).resolve().parent), str(folder.resolve() / "needed")]
    own = {SUBJECT: "" if subject == OWN else subject, REPORT: str(report), "PYTHONPATH": os.pathsep.join(paths)}
    plugins = [f"-p{name}" for name in ("sdists", host.plugin, "no:cacheprovider", "no:randomly", "no:xdist")]
    left_out = [f"--deselect={name}" for name in host.deselected]
    options = ["-q", "-W", "ignore", "--tb=no", "--continue-on-collection-errors", *TIMEOUT, *left_out]
    command = [sys.executable, "-m", "pytest", *plugins, *options, *tests]
    done = subprocess.run(
        command, cwd=folder / "work", env={"MPLBACKEND": "agg", **os.environ, **own}, capture_output=True, text=True
    )
    if not report.exists():
        raise RuntimeError(f"pytest did not come to an end:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    outcomes: dict[str, dict[str, Any]] = json.loads(report.read_text())
    return outcomes


# From here on: the plugin of pytest, inside the runs.

OUTCOMES: dict[str, dict[str, Any]] = {}
USES = [0]  # of instances of watched classes


def subject() -> str | None:
    """The explainer to put in the host's place; None if everything stays as it is."""
    return os.environ.get(SUBJECT) or None


def watch(*classes: type) -> None:
    """Count every use of an instance of these classes, of what they inherit too."""
    for one in classes:
        one.__getattribute__ = _counted(one.__getattribute__)  # type: ignore[method-assign, assignment]


def _counted(plain: Callable[[Any, str], Any]) -> Callable[[Any, str], Any]:
    def counted(self: Any, name: str) -> Any:
        USES[0] += 1
        return plain(self, name)

    return counted


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    before = USES[0]
    result = yield
    OUTCOMES[item.nodeid]["touched"] = USES[0] > before
    return result


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    line = OUTCOMES.setdefault(report.nodeid, {"outcome": "passed", "touched": False, "reason": ""})
    if not report.passed and line["outcome"] != "failed":
        line.update(outcome=report.outcome, reason=_reason(report))


def pytest_collectreport(report: pytest.CollectReport) -> None:
    if not report.passed:
        OUTCOMES[report.nodeid] = {"outcome": report.outcome, "touched": False, "reason": _reason(report)}


def pytest_sessionfinish() -> None:
    Path(os.environ[REPORT]).write_text(json.dumps(OUTCOMES))


def _reason(report: Any) -> str:
    """The last word of a failure, or why a test was skipped."""
    if isinstance(report.longrepr, tuple):
        return str(report.longrepr[2])
    crash = getattr(report.longrepr, "reprcrash", None)
    lines = str(report.longrepr if crash is None else crash.message).strip().splitlines() or [""]
    told = lines[0] if crash is not None else lines[-1]
    return re.sub(r"(?<![\w.])/(?:[^\s/'\"]+/)+", "", told)[:300]  # files without where they lie on this machine


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    return Text.from_parent(parent, path=file_path) if file_path.suffix in TEXTS else None


class Text(pytest.File):
    """A text or a notebook, each block of its code a test; they share their names, as a reader's session would."""

    def collect(self) -> Iterator[pytest.Item]:
        names: dict[str, Any] = {"__name__": "__main__", "get_ipython": lambda: None, "display": print}
        for number, code in enumerate(blocks(self.path), 1):
            yield Block.from_parent(self, name=f"block {number}", code=code, names=names)


class Block(pytest.Item):
    def __init__(self, *, code: str, names: dict[str, Any], **more: Any) -> None:
        super().__init__(**more)
        self.code, self.names = code, names

    def runtest(self) -> None:
        exec(compile(self.code, f"{self.path.name}, {self.name}", "exec"), self.names)


def blocks(path: Path) -> list[str]:
    """The Python code of a text, block by block, without what only a notebook understands."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".ipynb":
        cells = [cell for cell in json.loads(text)["cells"] if cell["cell_type"] == "code"]
        codes = ["".join(cell["source"]) for cell in cells]
    else:
        codes = [_unindented(found["code"]) for found in BLOCKS[path.suffix].finditer(text)]
    plain = ["\n".join(line for line in code.splitlines() if not re.match(r"\s*[%!]", line)) for code in codes]
    return [code for code in plain if code.strip()]


def _unindented(code: str) -> str:
    lines = [line for line in code.splitlines() if line.strip()]
    margin = min((len(line) - len(line.lstrip()) for line in lines), default=0)
    return "\n".join(line[margin:] for line in code.splitlines())
