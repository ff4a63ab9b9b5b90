"""`relax-plugin play`: an HTML page on which a point is dragged over a toy, and an agent explains it."""

import argparse
import sys
from pathlib import Path
from typing import Any

from relax_plugin.commands.output import DONE, LAST_SEED
from relax_plugin.errors import InputError, UnknownNameError, did_you_mean

MODELS = ("trees", "network")  # evaluation.toy.MODELS


def add(commands: Any) -> None:
    parser: argparse.ArgumentParser = commands.add_parser(
        "play",
        help="an HTML page to play with: drag a point, hold a feature, see the answer, the agent's steps and Q-values",
        description="Trains an agent on a toy of two features and writes one self-contained page; twenty seconds.",
        epilog="examples:\n  relax-plugin play\n  relax-plugin play --model network --seed 3 --output lecture.html",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--output", type=Path, metavar="FILE", default=Path("play.html"), help="default: play.html")
    parser.add_argument("--model", default="trees", help="what the agent explains: trees (default) or network")
    parser.add_argument("--seed", type=int, default=0, help="of the toy, its model and the agent (default 0)")
    parser.set_defaults(run=run)


def run(chosen: argparse.Namespace) -> int:
    """Train the agent, compute the page in advance, and write it."""
    from relax_plugin.files import check_page, write_text

    check_page(chosen.output, "--output")  # better known before than after
    if chosen.model not in MODELS:
        raise UnknownNameError(f"there is no toy model {chosen.model!r}; {did_you_mean(chosen.model, MODELS)}")
    if not 0 <= chosen.seed <= LAST_SEED:
        raise InputError(f"seed is {chosen.seed}, but must be at least 0 and at most {LAST_SEED}.")

    from relax_plugin.teaching.play import play, render

    print("training an agent on the toy ...", file=sys.stderr, flush=True)
    write_text(chosen.output, render(play(chosen.model, chosen.seed)))
    print(f"The page: {chosen.output}")
    return DONE
