"""The catalogue of mutants: small faults put into the code on purpose, each with the test that must notice it.

They lie in TOML files beside this one: `survivors.toml` holds those that an attack found unnoticed by every test.
"""

import ast
import tomllib
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parents[1]


@dataclass(frozen=True)
class Mutant:
    """One change of one file.

    Attributes
    ----------
    file : str
        Path of the source file in the checkout.
    code : str
        What stands there, exactly once.
    becomes : str
        What takes its place.
    test : str
        Node id of the test that must fail then, and pass otherwise.
    """

    file: str
    code: str
    becomes: str
    test: str

    @property
    def module(self) -> str:
        """The address under which the file is imported."""
        dotted = self.file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        return dotted if dotted.startswith(("relax_plugin", "benchmarks")) else f"relax_plugin.{dotted}"

    @property
    def test_file(self) -> str:
        return self.test.partition("::")[0]

    def where(self, root: Path = ROOT) -> str:
        """File and line, for people."""
        before, found, _ = self._source(root).partition(self.code)
        return f"{self.file}:{before.count(chr(10)) + 1 if found else '?'}"

    def staleness(self, root: Path = ROOT) -> str:
        """Why the mutant cannot be applied to the sources of today; empty if it can."""
        times = self._source(root).count(self.code)
        if times != 1:
            return f"its code occurs {times} times in {self.file}, but must occur once: {self.code!r}"
        return "" if self.becomes != self.code else f"it changes nothing in {self.file}: {self.code!r}"

    def missing_test(self, root: Path = ROOT) -> str:
        """Why there is no such test; empty if there is one."""
        path, name = root / self.test_file, self.test.partition("::")[2].partition("[")[0]
        if not path.is_file():
            return f"there is no file {self.test_file}"
        tree = ast.parse(path.read_text(encoding="utf-8"))
        known = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
        return "" if name in known and name.startswith("test_") else f"{self.test_file} has no test {name!r}"

    def apply(self, root: Path) -> None:
        """Change the file below `root`."""
        path = root / self.file
        path.write_text(self._source(root).replace(self.code, self.becomes), encoding="utf-8")

    def _source(self, root: Path) -> str:
        path = root / self.file
        return path.read_text(encoding="utf-8") if path.is_file() else ""


def catalogue(folder: Path = FOLDER) -> list[Mutant]:
    """All mutants, in the order of the files' names."""
    return [
        Mutant(**entry) for path in sorted(folder.glob("*.toml")) for entry in tomllib.loads(path.read_text())["mutant"]
    ]
