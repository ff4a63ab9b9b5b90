"""The folder in RELAX_DATA_HOME, with the tables that are not embedded: read, fetched, and always verified."""

import hashlib
import os
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path

from relax_plugin.errors import InputError, MissingDataError
from relax_plugin.files import write_bytes

VARIABLE = "RELAX_DATA_HOME"
TIMEOUT = 60.0  # seconds without a byte
LARGEST = 50_000_000  # bytes that are read of a download or of a packed table


def stored(name: str, file: str, url: str) -> Path:
    """The file of a data set in the folder; nothing is downloaded."""
    home = os.environ.get(VARIABLE)
    absent = f"the data set {name!r} is not part of the package, and"
    if not home:
        raise MissingDataError(f"{absent} {VARIABLE} is not set; {how(name, url)}")
    path = Path(home) / file
    if not path.is_file():
        raise MissingDataError(f"{absent} there is no {path}; {how(name, url)}")
    return path


def fetched(
    names: Sequence[str], folder: str | Path | None, url: str, timeout: float, packed: Callable[[bytes, str], bytes]
) -> Path:
    """Put a file into the folder, from another folder that has one of these names, or else from the address.

    `packed` gives the bytes to keep under the first name. It refuses what is not the published table.
    """
    home = os.environ.get(VARIABLE)
    if not home:
        raise MissingDataError(f"{VARIABLE} is not set: set it to the folder that the table is to be kept in.")
    target = Path(home) / names[0]
    if target.is_file() and _is_good(target, packed):
        return target
    if folder is None:
        data, source = download(url, timeout), url
    else:
        found = next((Path(folder) / name for name in names if (Path(folder) / name).is_file()), None)
        if found is None:
            raise MissingDataError(f"{folder} has no{'ne of' * (len(names) > 1)} {', '.join(names)}.")
        data, source = found.read_bytes(), str(found)
    write_bytes(target, packed(data, source))
    return target


def check_digest(content: bytes, expected: str, source: str, name: str, url: str) -> None:
    """Refuse content that is not that of the published table."""
    found = hashlib.sha256(content).hexdigest()
    if found != expected:
        raise MissingDataError(
            f"{source} is not the published table: its sha256 is {found}, but that of the published one is "
            f"{expected}; {how(name, url)}"
        )


def download(url: str, timeout: float) -> bytes:
    """What is at an address, at most `LARGEST` bytes of it."""
    if not url.startswith("https://"):
        raise InputError(f"url is {url!r}, but the table is downloaded by https only.")
    try:
        with urllib.request.urlopen(url, timeout=timeout) as answer:
            data: bytes = answer.read(LARGEST)
    except (urllib.error.URLError, OSError) as error:
        raise MissingDataError(f"{url} cannot be downloaded: {type(error).__name__} {error}.") from error
    return data


def how(name: str, url: str) -> str:
    """What to do about a table that is not there."""
    return (
        f"set {VARIABLE} to a folder and run `relax-plugin fetch {name}`, which downloads it from {url}, "
        f"or `relax-plugin fetch {name} --folder FOLDER` if you have a copy."
    )


def _is_good(path: Path, packed: Callable[[bytes, str], bytes]) -> bool:
    try:
        packed(path.read_bytes(), str(path))
    except MissingDataError:
        return False
    return True
