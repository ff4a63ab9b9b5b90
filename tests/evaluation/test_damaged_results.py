"""Damaged results: what cannot be read is never taken for done; it is said, made again, or refused in a sentence."""

import gzip
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from relax_plugin.cli import main
from relax_plugin.errors import SavedFileError
from relax_plugin.evaluation.runner import Store, load_rows
from relax_plugin.evaluation.store import read_unit
from relax_plugin.files import replacing, write_text

BENCH = ["bench", "--tasks", "diabetes/ada", "--methods", "nearest-ct", "greedy:quantiles=3", "--seeds", "1"]
BENCH += ["--rows", "4", "--jobs", "1"]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("finished")
    assert main([*BENCH, "--output", str(folder)]) == 0
    return folder


@pytest.fixture
def folder(finished: Path, tmp_path: Path) -> Path:
    """A folder of results to be spoilt."""
    return shutil.copytree(finished, tmp_path / "results")


def unit_of(folder: Path, method: str) -> Path:
    (path,) = (folder / "units").glob(f"*{method}*.csv.gz")
    return path


def edited(change: Callable[[str], str]) -> Callable[[bytes], bytes]:
    """The text inside a unit's file changed, and packed again as it should be."""
    return lambda data: gzip.compress(change(gzip.decompress(data).decode()).encode())


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda data: b"",
    "truncated": lambda data: data[: len(data) // 2],
    "without its end": lambda data: data[:-1],
    "no gzip": lambda data: b"\x00" * len(data),
    "a flipped bit": lambda data: data[:200] + bytes([data[200] ^ 4]) + data[201:],
    "an empty text": edited(lambda text: ""),
    "a header alone": edited(lambda text: text.splitlines()[0] + "\n"),
    "a row too few": edited(lambda text: "\n".join(text.splitlines()[:-1]) + "\n"),
    "another column": edited(lambda text: text.replace('"sparsity"', '"sparsely"', 1)),
    "a state that there is not": edited(lambda text: text.replace('"ok"', '"fine"')),
    "the rows of another method": edited(lambda text: text.replace("nearest-ct", "farthest-ct")),
    "text for a number": edited(
        lambda text: text.replace('"diabetes/ada","nearest-ct",0', '"diabetes/ada","nearest-ct",x')
    ),
    "no UTF-8": lambda data: gzip.compress(b"\xff" + gzip.decompress(data)),
}


# One of each kind: bytes, a text, and what reading alone does not show. Commands that read meet all of them below.
@pytest.mark.slow
@pytest.mark.parametrize("damage", ["truncated", "a row too few", "text for a number", "the rows of another method"])
def test_a_damaged_unit_is_run_again(
    damage: str, folder: Path, finished: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    path, other = unit_of(folder, "nearest-ct"), unit_of(folder, "greedy")
    spoilt, kept = DAMAGES[damage](path.read_bytes()), other.stat().st_mtime_ns
    path.write_bytes(spoilt)
    assert main([*BENCH, "--output", str(folder)]) == 0
    assert f"{path} is damaged: " in caplog.text and "It is made again" in caplog.text
    assert "[1/1] diabetes/ada, nearest-ct, seed 0" in capsys.readouterr().err, "and nothing else is run again"
    assert other.stat().st_mtime_ns == kept
    assert path.with_name(path.name + ".damaged").read_bytes() == spoilt
    timed = [name for name in load_rows(folder) if name.endswith(("seconds", "cpu"))]
    again, before = (load_rows(place).drop(columns=timed) for place in (folder, finished))
    pd.testing.assert_frame_equal(again, before, check_exact=True)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "damage"),
    [*(("report", name) for name in DAMAGES if name != "the rows of another method"), ("methods", "truncated")],
)
def test_a_damaged_unit_is_refused_by_commands_that_only_read(
    command: str, damage: str, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, page = unit_of(folder, "nearest-ct"), tmp_path / "page.html"
    path.write_bytes(DAMAGES[damage](path.read_bytes()))
    arguments = ["report", str(folder)] if command == "report" else ["methods", "--results", str(folder)]
    assert main([*arguments, "--output", str(page)]) == 2
    out, err = capsys.readouterr()
    assert f"relax-plugin: {path} is damaged: " in err and "runs what it held again" in err
    assert out == "" and not page.exists()


@pytest.mark.slow
def test_no_flipped_bit_of_a_unit_goes_unnoticed(folder: Path) -> None:
    path = unit_of(folder, "nearest-ct")
    data, rows = path.read_bytes(), read_unit(path)
    noticed = 0
    rng = np.random.default_rng(0)
    for position in [*range(20), *rng.choice(len(data), 150), *range(len(data) - 8, len(data))]:
        path.write_bytes(data[:position] + bytes([data[position] ^ (1 << int(rng.integers(8)))]) + data[position + 1 :])
        try:
            # A header's time and name of a file may say anything: the rows are the same.
            pd.testing.assert_frame_equal(read_unit(path), rows, check_exact=True)
        except SavedFileError:
            noticed += 1
    assert noticed > 100


BROKEN_NOTES = {
    "empty": "",
    "truncated": '[\n {\n  "command": "relax-plugin be',
    "another kind": '{"command": "relax-plugin bench"}',
    "no objects": "[1, 2]",
    "no command": '[{"versions": {}, "machine": "m"}]',
    "a command that is no text": '[{"command": 3, "versions": {}, "machine": "m"}]',
    "versions that are no texts": '[{"command": "c", "versions": {"torch": [1]}, "machine": "m"}]',
    "deep": "[" * 100_000,
    "no UTF-8": "\udcff",
}


@pytest.mark.slow
@pytest.mark.parametrize("notes", BROKEN_NOTES)
def test_broken_notes_are_refused_by_report_and_set_aside_by_bench(
    notes: str, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    path, page = folder / "run.json", tmp_path / "page.html"
    path.write_bytes(BROKEN_NOTES[notes].encode("utf-8", "surrogateescape"))
    assert main(["report", str(folder), "--output", str(page)]) == 2
    assert f"relax-plugin: {path} is damaged: " in capsys.readouterr().err
    assert not page.exists()
    assert main([*BENCH, "--output", str(folder)]) == 0
    assert f"{path} is damaged: " in caplog.text
    assert [note["command"].split()[:2] for note in json.loads(path.read_text())] == [["relax-plugin", "bench"]]
    assert main(["report", str(folder), "--output", str(page)]) == 0


@pytest.mark.slow
def test_bench_does_not_mind_a_damaged_unit_that_is_not_in_its_plan(folder: Path) -> None:
    unit_of(folder, "greedy").write_bytes(b"")
    plan = [argument for argument in BENCH if not argument.startswith("greedy")]
    assert main([*plan, "--output", str(folder)]) == 0
    assert unit_of(folder, "greedy").read_bytes() == b""


DAMAGED_FLOORS: dict[str, Callable[[bytes], bytes]] = {
    **{name: DAMAGES[name] for name in ("empty", "truncated", "no gzip", "an empty text", "a row too few")},
    "another column": edited(lambda text: text.replace("changes", "changed", 1)),
    "text for a number": edited(lambda text: re.sub(r"\n-?\d", "\nx", text, count=1)),
    "no floor at all": edited(lambda text: "a,b\n1,2\n"),
}


@pytest.mark.slow
@pytest.mark.parametrize("damage", DAMAGED_FLOORS)
def test_a_damaged_floor_is_computed_again(
    damage: str, folder: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    arguments = [*BENCH, "--output", str(folder), "--floor", "1", "--json"]
    assert main(arguments) == 0
    table = capsys.readouterr().out
    (path,) = (folder / "floors").iterdir()
    stored = path.read_bytes()
    path.write_bytes(DAMAGED_FLOORS[damage](stored))
    assert main(arguments) == 0
    assert capsys.readouterr().out == table
    assert path.read_bytes() == stored and f"{path} is damaged: " in caplog.text


# Writing.


def interrupted_write(path: Path) -> None:
    with replacing(path) as temporary:
        temporary.write_text("ne")
        raise KeyboardInterrupt


def test_what_fails_while_it_is_written_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    write_text(path, "old")
    with pytest.raises(KeyboardInterrupt):
        interrupted_write(path)
    with pytest.raises(UnicodeEncodeError):
        write_text(path, "new \udcff")
    assert path.read_text() == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["page.html"]


def test_a_store_without_notes_has_none(tmp_path: Path) -> None:
    assert Store(tmp_path).notes() == []


def test_a_symbolic_link_stays_one_when_it_is_written(tmp_path):
    target, link, dangling = tmp_path / "target", tmp_path / "link", tmp_path / "dangling"
    target.write_text("old")
    link.symlink_to(target)
    dangling.symlink_to(tmp_path / "new")
    write_text(link, "new")
    write_text(dangling, "made")
    assert link.is_symlink() and target.read_text() == "new"
    assert dangling.is_symlink() and (tmp_path / "new").read_text() == "made"
    assert not list(tmp_path.glob(".*"))


def test_a_file_with_the_longest_name_can_be_written(tmp_path):
    write_text(tmp_path / ("x" * 255), "text")
    assert (tmp_path / ("x" * 255)).read_text() == "text"
