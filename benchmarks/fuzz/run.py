"""`make fuzz`: random cases until the time is over, with counts; a violation is shrunk and printed as code.

A round is a seed of hypothesis: `make fuzz SEED=...` runs the same round again.
"""

import argparse
import logging
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings

from benchmarks.fuzz.cases import Counts, Violation, check
from benchmarks.fuzz.faces import check_face
from benchmarks.fuzz.real_cases import check_real
from benchmarks.fuzz.strategies import GROUPS, face_cases, group_cases, real_cases

EXAMPLES = 40  # cases of a round
SHRINK_SECONDS = 40.0  # for making a violation's case smaller
NAMES = ("tables", "models", "goals", "cases", "faces", "real_tables", "real_rules", "real_cases")
IMPORTS = "\n".join(f"from benchmarks.fuzz.{name} import *" for name in NAMES)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hours", type=float, default=0.5)
    parser.add_argument("--seed", type=int, help="of the one round to run")
    parser.add_argument("--first", type=int, help="seed of the first round; the clock's otherwise")
    parser.add_argument("--groups", nargs="+", default=[*GROUPS, "faces", "real"], choices=[*GROUPS, "faces", "real"])
    parser.add_argument("--output", type=Path, help="file to which violations are appended")
    request = parser.parse_args()
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    counts, found = Counts(), Counter[str]()
    end = time.monotonic() + request.hours * 3600
    number = request.seed if request.seed is not None else request.first or int(time.time())
    told = time.monotonic()
    while time.monotonic() < end:
        for group in request.groups:
            run_round(group, number, counts, found, request.output)
        if request.seed is not None:
            break
        number += 1
        if time.monotonic() > told + 60:
            told = time.monotonic()
            print(f"seed {number}: {counts.report()}", flush=True)
    print(counts.report())
    for reason, times in counts.refused.most_common(20):
        print(f"  refused {times} times: {reason}")
    for kind, times in found.items():
        print(f"  VIOLATION {kind}, in {times + counts.known[kind]} cases")
    print("no violation" if not found else f"{len(found)} kinds of violations")
    return 1 if found else 0


def run_round(group: str, number: int, counts: Counts, found: Counter[str], output: Path | None) -> None:
    """One round of a group; each kind of violation is shrunk and shown once, later ones are only counted."""
    others: dict[str, tuple[Any, Callable[..., None]]] = {
        "faces": (face_cases(), check_face),
        "real": (real_cases(), check_real),
    }
    strategy, run = others[group] if group in others else (group_cases(group), check)
    counted: set[str] = set()
    for _ in range(20):  # kinds of one round
        try:
            smallest(strategy, run, number, counts, found, counted)
        except Violation as violation:
            found[violation.kind] += 1
            text = (
                f"\nVIOLATION {violation} (group {group}, make fuzz SEED={number})\n{IMPORTS}\n"
                f"{run.__name__}({violation.case!r})\n"
            )
            print(text, flush=True)
            if output is not None:
                with output.open("a") as file:
                    file.write(text)
        except Exception:  # the fuzzer's own fault: said, and the other rounds go on
            found[f"no verdict: the fuzzer failed in group {group}, SEED={number}"] += 1
            traceback.print_exc()
            return
        else:
            return


def smallest(strategy: Any, run: Any, number: int, counts: Counts, found: Counter[str], counted: set[str]) -> None:
    """Run a round; raises the violation of the smallest case that hypothesis finds in the time it has for that.

    A case counts once: not again in the next pass of its round, and not while a violation is made smaller.
    """
    failed: dict[str, Violation] = {}
    until = float("inf")

    @seed(number)
    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        report_multiple_bugs=False,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def one(case: Any) -> None:
        nonlocal until
        if repr(case) in failed:
            raise failed[repr(case)]
        if time.monotonic() > until:
            return  # hypothesis sees no smaller one, and stops
        fresh = not failed and repr(case) not in counted
        counted.add(repr(case))
        try:
            run(case, counts if fresh else Counts(), set(found))
        except Violation as violation:
            violation.case = case
            failed[repr(case)] = violation
            until = min(until, time.monotonic() + SHRINK_SECONDS)
            raise

    one()


if __name__ == "__main__":
    raise SystemExit(main())
