"""The folder of a run in parts: a file for each part, a note of each that is done, and what was asked.

A part's table is written under another name and renamed, and only then noted. Whatever ends a run loses the parts under
way; the same run, begun again, does what is not noted. Names that begin with `_` are no tables: readers of folders of
Parquet files leave them out.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from relax_plugin.errors import InputError, SavedFileError
from relax_plugin.files import check_folder, write_bytes, write_text

RUN = "_run.json"
NOTES = "_notes"
EXPLAINER = "_explainer.safetensors"

Note = dict[str, Any]


class Folder:
    """What a run in parts writes."""

    def __init__(self, path: Path, ending: str) -> None:
        self.path = path
        self.ending = ending

    @property
    def explainer(self) -> Path:
        """Where the fitted explainer is kept, for a run that goes on."""
        return self.path / EXPLAINER

    def table(self, number: int) -> Path:
        return self.path / f"part-{number:05d}{self.ending}"

    def holds(self, asked: Mapping[str, Any]) -> bool:
        """Whether the folder holds this run; there is none in it yet otherwise.

        Raises
        ------
        InputError
            If it holds a run of other arguments or inputs, or anything else.
        """
        check_folder(self.path, "--output")
        run = self.path / RUN
        if run.exists():
            self._refuse_another(run, json.loads(_text(asked)))
            return True
        if self.path.is_dir() and any(self.path.iterdir()):
            raise InputError(f"--output is {self.path}, which holds other files and no run in parts; name another.")
        return False

    def begin(self, asked: Mapping[str, Any]) -> None:
        """Make the folder, and note what was asked."""
        write_text(self.path / RUN, _text(asked))

    def _refuse_another(self, run: Path, asked: dict[str, Any]) -> None:
        try:
            before = json.loads(run.read_bytes())
        except (ValueError, RecursionError) as error:
            raise SavedFileError(f"{run} is damaged: {error}; remove the folder, or name another.") from error
        if not isinstance(before, dict):
            raise SavedFileError(f"{run} holds no run; remove the folder, or name another.")
        for name in sorted(before.keys() | asked.keys()):
            if before.get(name) != asked.get(name):
                raise InputError(
                    f"--output is {self.path}, which holds a run with another {name}: {_short(before.get(name))}, not "
                    f"{_short(asked.get(name))}. Name another folder, or remove this one to begin anew."
                )

    def note(self, number: int) -> Note | None:
        """What was noted of a part that is done; None if it is not."""
        path = self.path / NOTES / f"part-{number:05d}.json"
        if not self.table(number).is_file():
            return None
        try:
            noted: Note = json.loads(path.read_bytes())
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise SavedFileError(f"{path} is damaged: {error}; remove it, and the part is done again.") from error
        return noted

    def done(self, number: int, content: bytes, note: Note) -> None:
        """Write the table of a part, then that it is done."""
        write_bytes(self.table(number), content)
        write_text(self.path / NOTES / f"part-{number:05d}.json", json.dumps(note))


def files_seen(paths: list[Path]) -> list[list[Any]]:
    """The files as they are now: name, length and when they were written last. They are not read: they may be large."""
    return [[str(path.resolve()), path.stat().st_size, path.stat().st_mtime_ns] for path in paths]


def checksum(path: Path) -> str:
    """Of the content of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _text(asked: Mapping[str, Any]) -> str:
    return json.dumps(asked, indent=1, default=str)


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 120 else f"{text[:117]}..."
