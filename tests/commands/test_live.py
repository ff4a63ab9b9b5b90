"""The live line: for somebody at a terminal; whole lines elsewhere; nothing of it is left when it is over."""

import io
import re
import sys
import time
from pathlib import Path

import pexpect
import pytest
from rich.cells import cell_len

from relax_plugin.commands import live as module
from relax_plugin.commands.live import Live, clock
from relax_plugin.evaluation.plan import Method, Unit

UNITS = [Unit("sonar/mlp", Method("greedy", "greedy"), seed) for seed in range(4)]
ROWS = [{"state": "ok", "valid": True, "fit_seconds": 1.0, "explain_seconds": 2.0}]
COMMAND = ["-m", "relax_plugin.cli", "bench", "--tasks", "breast_cancer/mlp", "--seeds", "1", "--rows", "5"]


ESCAPE = r"\x1b\[[0-9;?]*[A-Za-z]"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, as the test sets it."""
    moment = [100.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: moment[0])
    return moment


def test_it_tells_what_runs_what_is_done_and_how_long_is_left(now: list[float]) -> None:
    live = Live()
    assert live.line() == ""
    live.started(4, UNITS[0])
    live.started(4, UNITS[1])
    now[0] += 30
    assert live.line() == ("0 of 4 done, 0:30 so far, running: sonar/mlp, greedy, seed 0; sonar/mlp, greedy, seed 1")
    live.ends(1, 4, "sonar/mlp, greedy, seed 0")
    assert live.line() == "1 of 4 done, 0:30 so far, about 1:30 left, running: sonar/mlp, greedy, seed 1"
    live.left = 3700.0  # who knows better says so
    assert "about 1:01:40 left" in live.line()


def test_other_units_begin_anew(now: list[float]) -> None:
    live = Live("core (1 of 2)")
    live.started(1, UNITS[0])
    now[0] += 10
    live.ends(1, 1, "sonar/mlp, greedy, seed 0")
    now[0] += 10
    live.started(1, UNITS[1])
    assert live.line() == "core (1 of 2), 0 of 1 done, 0:00 so far, running: sonar/mlp, greedy, seed 1"


def test_a_log_gets_whole_lines_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    with Live() as live:
        live.started(2, UNITS[0])
        live(1, 2, UNITS[0], ROWS)
    assert stream.getvalue() == "[1/2] sonar/mlp, greedy, seed 0: validity 1.000, fit 1.0 s, explain 2.0 s\n"


@pytest.mark.slow
@pytest.mark.parametrize("error", [None, KeyboardInterrupt, RuntimeError])
def test_a_terminal_keeps_the_lines_and_nothing_of_the_live_one(
    error: type[BaseException] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(module, "TIMES_A_SECOND", 50.0)
    try:
        with Live() as live:
            live.started(2, UNITS[0])
            live(1, 2, UNITS[0], ROWS)
            live.started(2, UNITS[1])
            print("a worker ended", file=sys.stderr)
            time.sleep(0.1)
            if error is not None:
                raise error
    except (KeyboardInterrupt, RuntimeError):
        pass
    seen = stream.getvalue()
    assert "1 of 2 done" in seen and "running: sonar" in seen
    assert [line for line in screen(seen) if line] == [
        "[1/2] sonar/mlp, greedy, seed 0: validity 1.000, fit 1.0 s, explain 2.0 s",
        "a worker ended",
    ]
    drawn = [re.sub(ESCAPE, "", part) for part in re.split(r"[\r\n]", seen) if "done" in part]
    assert drawn and all(cell_len(part.rstrip()) <= 60 for part in drawn)


def test_a_clock_reads_as_one() -> None:
    assert [clock(seconds) for seconds in (0.2, 61, 3600 * 26 + 5)] == ["0:00", "1:01", "26:00:05"]


def screen(text: str) -> list[str]:
    """What a terminal shows after all of it: a return goes to the beginning of the line, and text overwrites."""
    lines: list[list[str]] = [[]]
    row, column = 0, 0
    for part in re.findall(rf"{ESCAPE}|[^\x1b]", text):
        if part == "\r":
            column = 0
        elif part == "\n":
            row += 1
            lines += [[] for _ in range(row + 1 - len(lines))]
        elif part == "\x1b[1A":
            row -= 1
        elif part == "\x1b[2K":
            lines[row] = []
        elif len(part) == 1:
            lines[row] += [" "] * (column + 1 - len(lines[row]))
            lines[row][column] = part
            column += 1
    return ["".join(line).rstrip() for line in lines]


@pytest.mark.slow
@pytest.mark.parametrize("interrupted", [False, True])
def test_bench_on_a_terminal_shows_it_and_leaves_whole_lines(interrupted: bool, tmp_path: Path) -> None:
    methods = ["greedy", "relax-local"] if interrupted else ["greedy", "nearest-ct"]
    arguments = [*COMMAND, "--methods", *methods, "--output", str(tmp_path)]
    child = pexpect.spawn(sys.executable, arguments, dimensions=(30, 80), encoding="utf-8", timeout=120)
    child.logfile_read = io.StringIO()
    child.expect("running: breast_cancer/mlp")
    if interrupted:
        child.sendintr()
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == (130 if interrupted else 0)
    shown = screen(child.logfile_read.getvalue())
    assert not any(" done, " in line for line in shown)
    if interrupted:
        assert shown[-2].removeprefix("^C") == "relax-plugin: interrupted."
    else:
        assert sum(line.startswith("[") for line in shown) == 2
        assert all(len(line) <= 80 for line in shown if not line.startswith(("[", "Rows:", "The harness")))
