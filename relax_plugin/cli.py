"""The command line `relax-plugin`: one command a file in `relax_plugin/commands`."""

import argparse
import logging
import shlex
import sys
from collections.abc import Sequence

from relax_plugin.commands import bench, demo, explain, fetch, figures, list_, methods, play, report, reproduce
from relax_plugin.commands.output import INTERRUPTED, REFUSED
from relax_plugin.errors import ReLAXError

EXIT_CODES = """exit codes:
  0    done
  1    done, but something is missing: a method crashed or timed out, a row has no counterfactual
  2    refused: the message says what would be accepted
  130  interrupted; `bench` continues where it stopped when it is started again
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; the exit code says how it went."""
    parser = argparse.ArgumentParser(
        prog="relax-plugin",
        description="Counterfactual explanations of any tabular model, and a judge of those who make them.",
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for command in (demo, explain, list_, methods, play, bench, report, reproduce, figures, fetch):
        command.add(commands)
    chosen = parser.parse_args(arguments)
    chosen.said = shlex.join(["relax-plugin", *(sys.argv[1:] if arguments is None else arguments)])
    logging.basicConfig(format="%(message)s", level=logging.WARNING)
    try:
        code: int = chosen.run(chosen)
    except ReLAXError as error:
        print(f"relax-plugin: {error}", file=sys.stderr)
        return REFUSED
    except OSError as error:  # a folder that cannot be written, a scheduler that does not answer
        print(f"relax-plugin: {type(error).__name__}: {error}.", file=sys.stderr)
        return REFUSED
    except KeyboardInterrupt:
        print("relax-plugin: interrupted.", file=sys.stderr)
        return INTERRUPTED
    return code


if __name__ == "__main__":
    sys.exit(main())
