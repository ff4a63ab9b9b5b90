"""Facts about the folder of a run in parts: a part is done or it is not, and no run takes another's for its own."""

import os
from pathlib import Path

import pytest

from relax_plugin.distributed.places import Folder, checksum, files_seen
from relax_plugin.errors import InputError, SavedFileError

ASKED = {"seed": 0, "tables": [["big.csv", 10, 1]]}


def test_a_run_that_is_begun_again_goes_on(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "out", ".csv")
    assert not folder.holds(ASKED)
    folder.begin(ASKED)
    folder.done(0, b"a\n1\n", {"part": 0})
    again = Folder(tmp_path / "out", ".csv")
    assert again.holds(ASKED)
    assert again.note(0) == {"part": 0}
    assert again.note(1) is None
    assert (tmp_path / "out" / "part-00000.csv").read_bytes() == b"a\n1\n"


def test_a_part_without_its_table_or_its_note_is_not_done(tmp_path: Path) -> None:
    folder = Folder(tmp_path, ".csv")
    folder.begin(ASKED)
    for number in (0, 1):
        folder.done(number, b"", {"part": number})
    folder.table(0).unlink()
    (tmp_path / "_notes" / "part-00001.json").unlink()
    assert folder.note(0) is None and folder.note(1) is None


def test_a_table_is_there_before_its_note_and_never_half(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Folder(tmp_path, ".csv")
    folder.begin(ASKED)
    renamed: list[str] = []

    def stops(old: Path, new: Path, replace: object = os.replace) -> None:
        renamed.append(Path(new).name)
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", stops)
    with pytest.raises(KeyboardInterrupt):
        folder.done(0, b"whole", {"part": 0})
    assert renamed == ["part-00000.csv"]
    assert folder.note(0) is None
    assert [path.name for path in tmp_path.iterdir()] == ["_run.json"]


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (ASKED | {"seed": 1}, "another seed: 0, not 1"),
        (ASKED | {"tables": [["big.csv", 11, 1]]}, r'another tables: \[\["big.csv", 10, 1\]\], not'),
        (ASKED | {"n": 3}, "another n: null, not 3"),
    ],
)
def test_a_run_with_other_arguments_or_inputs_is_refused(tmp_path: Path, asked: dict[str, object], told: str) -> None:
    Folder(tmp_path / "out", ".csv").begin(ASKED)
    with pytest.raises(InputError, match=told + r".*Name another folder, or remove this one"):
        Folder(tmp_path / "out", ".csv").holds(asked)


def test_a_folder_of_other_things_is_not_written_into(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("dear")
    with pytest.raises(InputError, match="holds other files and no run in parts"):
        Folder(tmp_path, ".csv").holds(ASKED)
    with pytest.raises(InputError, match=r"letter.txt is a file; give a folder"):
        Folder(tmp_path / "letter.txt" / "out", ".csv").holds(ASKED)


def test_damaged_notes_are_named(tmp_path: Path) -> None:
    folder = Folder(tmp_path, ".csv")
    folder.begin(ASKED)
    folder.done(0, b"", {"part": 0})
    (tmp_path / "_notes" / "part-00000.json").write_text("{")
    with pytest.raises(SavedFileError, match=r"part-00000.json is damaged"):
        folder.note(0)
    for text in ("{", "[]"):
        (tmp_path / "_run.json").write_text(text)
        with pytest.raises(SavedFileError, match=r"_run.json (is damaged|holds no run)"):
            folder.holds(ASKED)


def test_a_file_that_was_written_again_is_another(tmp_path: Path) -> None:
    path = tmp_path / "big.csv"
    path.write_text("a")
    before, content = files_seen([path]), checksum(path)
    os.utime(path, ns=(1, 1))
    assert files_seen([path]) != before
    assert checksum(path) == content
    path.write_text("b")
    assert checksum(path) != content
