"""Files that are written whole or not at all, and what is done about those that are damaged nevertheless."""

import gzip
import json
import logging
import os
import threading
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from relax_plugin.errors import InputError, SavedFileError

logger = logging.getLogger(__name__)

DAMAGED = ".damaged"  # ends the name of a file that was set aside


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary name beside the path, which takes its place if nothing goes wrong.

    Its content is on the disk before it does: otherwise a machine that loses power may be left with the name alone.
    Of a symbolic link the file that it leads to is written.
    """
    path = Path(os.path.realpath(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{os.getpid()}-{threading.get_ident()}-{time.monotonic_ns()}.tmp")
    try:
        yield temporary
        with temporary.open("rb") as written:
            os.fsync(written.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write a text file whole or not at all."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file whole or not at all."""
    with replacing(path) as temporary:
        temporary.write_bytes(content)


def write_packed(path: Path, text: str) -> None:
    """Write a text whole or not at all, with its length and checksum, as gzip keeps them."""
    with replacing(path) as temporary:
        temporary.write_bytes(gzip.compress(text.encode("utf-8"), compresslevel=1, mtime=0))


def read_packed(path: Path) -> bytes:
    """The bytes of a gzip file, if length and checksum are those in the file.

    Raises
    ------
    SavedFileError
        If they are not, or it is no gzip file.
    """
    try:
        return gzip.decompress(path.read_bytes())
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise SavedFileError(f"{path} is damaged: {error}.") from error


def check_folder(path: Path, argument: str) -> None:
    """Refuse a folder of results that is a file, or lies in one."""
    for place in (path, *path.parents):
        if place.exists():
            if not place.is_dir():
                raise InputError(f"{argument} is {path}, but {place} is a file; give a folder.")
            return


def check_page(path: Path, argument: str) -> None:
    """Refuse the name of a file that cannot be written, before there is anything to write."""
    if path.is_dir() or not path.parent.is_dir():
        raise InputError(f"{argument} is {path}, which cannot be written; give a file in a folder that exists.")


def read_entries(path: Path, texts: tuple[str, ...]) -> list[dict[str, Any]]:
    """The entries of a JSON list of objects, each with a text under each key in `texts`; none if there is no such file.

    A file that holds anything else is a SavedFileError.
    """
    try:
        entries = json.loads(path.read_bytes())
    except FileNotFoundError:
        return []
    except (ValueError, RecursionError) as error:  # no JSON, no UTF-8, or brackets without end
        raise SavedFileError(f"{path} is damaged: {error}.") from error
    good = isinstance(entries, list) and all(
        isinstance(entry, dict)
        and all(isinstance(entry.get(key), str) for key in texts)
        and isinstance(entry.get("versions"), dict)
        and all(isinstance(version, str) for version in entry["versions"].values())
        for entry in entries
    )
    if not good:
        raise SavedFileError(
            f"{path} is damaged: a list of objects with the texts {', '.join(texts)} and the versions is needed."
        )
    result: list[dict[str, Any]] = entries
    return result


def set_aside(path: Path, why: object) -> None:
    """Give a damaged file another name, so that it is made again, and say so."""
    kept = path.with_name(path.name + DAMAGED)
    os.replace(path, kept)
    logger.warning("%s It is made again; what was there is kept as %s.", why, kept.name)
