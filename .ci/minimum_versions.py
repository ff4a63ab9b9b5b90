"""Print the oldest versions that pyproject.toml allows, as constraints for pip: every `>=` becomes `==`.

`make minimum` installs them and runs the quick tests. There is no second list of versions that could differ.
"""

import re
import sys
import tomllib
from pathlib import Path

PYPROJECT = Path(__file__).resolve().parent.parent / "pyproject.toml"
REQUIREMENT = re.compile(r"(?P<name>[A-Za-z0-9._-]+)(\[[\w,-]+\])?>=(?P<version>[\w.]+)(,<[\w.]+)?")


def oldest_python(pyproject: dict) -> tuple[int, ...]:
    """The oldest supported Python, (3, 11) for `requires-python = ">=3.11"`."""
    return tuple(int(part) for part in pyproject["project"]["requires-python"].removeprefix(">=").split("."))


def minimum_versions(pyproject: dict) -> dict[str, str]:
    """The oldest version of every requirement: of the package, of its extras and of its build.

    Parameters
    ----------
    pyproject
        What `tomllib` reads from pyproject.toml.

    Returns
    -------
    dict
        Versions by the names of distributions.

    Raises
    ------
    ValueError
        A requirement has no oldest version, or two places declare different ones.
    """
    project = pyproject["project"]
    declared = [*project["dependencies"], *pyproject["build-system"]["requires"]]
    declared += [requirement for extra in project["optional-dependencies"].values() for requirement in extra]
    minima: dict[str, str] = {}
    for requirement in declared:
        if requirement.startswith(f"{project['name']}["):
            continue
        parts = REQUIREMENT.fullmatch(requirement)
        if parts is None:
            raise ValueError(f"Requirement '{requirement}' has no oldest version: write it as name>=version.")
        name, version = parts["name"], parts["version"]
        if minima.setdefault(name, version) != version:
            raise ValueError(
                f"The oldest {name} is {minima[name]} in one place of pyproject.toml, {version} in another."
            )
    return minima


if __name__ == "__main__":
    declaration = tomllib.loads(PYPROJECT.read_text())
    if sys.version_info[:2] != oldest_python(declaration):
        oldest = ".".join(map(str, oldest_python(declaration)))
        sys.exit(
            f"This is Python {sys.version_info[0]}.{sys.version_info[1]}, but the oldest supported one is {oldest}."
        )
    for name, version in sorted(minimum_versions(declaration).items()):
        print(f"{name}=={version}")
