"""The command line `relax-plugin`: one command a file in `relax_plugin/commands`.

Nothing heavy is imported here or at the top of a command's file: what is refused is refused at once.
"""

import argparse
import logging
import os
import shlex
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from relax_plugin.commands import (
    bench,
    checkout,
    demo,
    explain,
    fetch,
    list_,
    methods,
    play,
    report,
    serve,
    verify,
)
from relax_plugin.commands.output import INTERRUPTED, PIPE_CLOSED, REFUSED
from relax_plugin.errors import ReLAXError, naming_the_extra
from relax_plugin.formatting import printable_lines

EXIT_CODES = """exit codes:
  0    done
  1    done, but something is missing: a method crashed or timed out, a row has no counterfactual
  2    refused: the message says what would be accepted
  130  interrupted; `bench` and `reproduce` continue where they stopped when they are started again
  141  whoever read the output has stopped reading it
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; the exit code says how it went."""
    try:
        with _interrupts() as interrupts:
            try:
                return _answered(arguments)
            except Exception:
                if interrupts:  # Ctrl-C in the middle of an import comes out of some libraries as another exception
                    return _interrupted()
                raise
            finally:
                if sys.stdout is not None:
                    sys.stdout.flush()  # at the interpreter's end it would be too late to answer for a closed pipe
    except KeyboardInterrupt:  # while the last lines were written
        return _interrupted()
    except BrokenPipeError:  # of stdout or stderr: those of workers are answered where they are written to
        _let_go_of_broken_streams()
        return PIPE_CLOSED
    except OSError as error:  # a full disk
        _let_go_of_broken_streams()
        print(printable_lines(f"relax-plugin: {type(error).__name__}: {error}."), file=sys.stderr)
        return REFUSED


def _answered(arguments: Sequence[str] | None) -> int:
    try:
        chosen = _parsed(arguments)
        with naming_the_extra():
            code: int = chosen.run(chosen)
    except ReLAXError as error:
        print(printable_lines(f"relax-plugin: {error}"), file=sys.stderr)
        return REFUSED
    except BrokenPipeError:
        raise
    except OSError as error:  # a folder that cannot be written, a scheduler that does not answer
        print(printable_lines(f"relax-plugin: {type(error).__name__}: {error}."), file=sys.stderr)
        return REFUSED
    except MemoryError as error:
        print(f"relax-plugin: there is not enough memory for this: {error}.", file=sys.stderr)
        return REFUSED
    except KeyboardInterrupt:
        return _interrupted()
    return code


def _parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="relax-plugin",
        description="Counterfactual explanations of any tabular model, and a judge of those who make them.",
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for command in (demo, explain, verify, serve, list_, methods, play, bench, report, fetch):
        command.add(commands)
    given = sys.argv[1:] if arguments is None else list(arguments)
    checkout.add(commands, given)
    chosen = parser.parse_args(given)
    chosen.said = shlex.join(["relax-plugin", *given])
    logging.basicConfig(format="%(message)s", level=logging.WARNING)
    return chosen


def _interrupted() -> int:
    print("relax-plugin: interrupted.", file=sys.stderr)
    # A Ctrl-C that came while a text was run, as imports of torch do, is remembered, and would end the process by the
    # signal instead of 130. Running another text forgets it.
    exec("")
    return INTERRUPTED


@contextmanager
def _interrupts() -> Iterator[list[int]]:
    """The signals of Ctrl-C that came, which raise KeyboardInterrupt as ever."""
    came: list[int] = []

    def note(number: int, frame: Any) -> None:
        came.append(number)
        raise KeyboardInterrupt

    ours = threading.current_thread() is threading.main_thread()
    ours = ours and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if ours:
        signal.signal(signal.SIGINT, note)
    try:
        yield came
    finally:
        if ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)


def _let_go_of_broken_streams() -> None:
    """Send to nowhere what cannot be written, since the interpreter's end tries it again."""
    for stream in (sys.stdout, sys.stderr):
        if stream is None:
            continue
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


if __name__ == "__main__":
    sys.exit(main())
