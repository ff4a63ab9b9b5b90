"""Print the lines of Python by folder, and fail where a folder is above its ceiling: `make size`.

The ceilings are in pyproject.toml: `[tool.relax_plugin.size]` has the total of what is installed,
`[tool.relax_plugin.size.folders]` one ceiling for each folder of it. A folder of the package without a ceiling, and a
ceiling without a folder, fail too. Tests and benchmarks are only counted.
"""

import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "relax_plugin"
BESIDE = ("adapters", "baselines")  # installed inside the package
COUNTED = ("benchmarks", "tests", "examples", "docs", ".ci")  # not installed


def lines(paths: list[Path]) -> int:
    """The lines of these files, all of them: code, comments and blank ones."""
    return sum(len(path.read_bytes().splitlines()) for path in paths)


def installed(root: Path = ROOT) -> dict[str, int]:
    """The lines of each folder of what is installed; the files of the package itself count as one."""
    package = root / PACKAGE
    folders = sorted(path for path in package.iterdir() if any(path.rglob("*.py")))
    counted = {PACKAGE: lines(list(package.glob("*.py")))}
    counted |= {f"{PACKAGE}/{folder.name}": lines(list(folder.rglob("*.py"))) for folder in folders}
    return counted | {name: lines(list((root / name).rglob("*.py"))) for name in BESIDE}


def complaints(counted: dict[str, int], folders: dict[str, int], total: int) -> list[str]:
    """What exceeds its ceiling, a sentence each."""
    told = [
        f"{name} has {counted[name]:,} lines, above its ceiling of {folders[name]:,}."
        for name in counted
        if counted[name] > folders.get(name, counted[name])
    ]
    told += [f"{name} has no ceiling." for name in counted if name not in folders]
    told += [f"{name} has a ceiling but does not exist." for name in folders if name not in counted]
    whole = sum(counted.values())
    return [*told, f"{whole:,} lines are installed, above the ceiling of {total:,}."] if whole > total else told


def main(root: Path = ROOT) -> int:
    """Print the table; the exit code is 1 if a ceiling is exceeded."""
    ceilings = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["relax_plugin"]["size"]
    counted = installed(root)
    for name, number in counted.items():
        print(f"{name:<28}{number:>8,}{ceilings['folders'].get(name, 0):>8,}")
    print(f"{'installed':<28}{sum(counted.values()):>8,}{ceilings['total']:>8,}")
    for name in COUNTED:
        print(f"{name:<28}{lines(list((root / name).rglob('*.py'))):>8,}")
    told = complaints(counted, ceilings["folders"], ceilings["total"])
    if told:
        print(*told, "Make it smaller, or raise the ceiling in pyproject.toml and say why.", sep="\n", file=sys.stderr)
    return 1 if told else 0


if __name__ == "__main__":
    sys.exit(main())
