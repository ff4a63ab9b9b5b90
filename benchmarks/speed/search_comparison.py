"""Does a search hold its targets beside `greedy` and `nearest-ct`? `python -m benchmarks.speed.search_comparison`.

All methods answer the same queries of each unit (`search_units.py`) in one process: how many are solved, with how many
changes, how far away, in how many CPU seconds, with how many calls of the model; single rows too. Ratios are to greedy
on the rows that both solve; greedy is measured twice, and its CPU seconds are the mean. At the end the targets.

    OMP_NUM_THREADS=1 python -m benchmarks.speed.search_comparison --methods search
    OMP_NUM_THREADS=1 python -m benchmarks.speed.search_comparison --tasks 'wine/*' --goal to --methods search
    OMP_NUM_THREADS=1 python -m benchmarks.speed.search_comparison --tasks wave2/xgb --rows 8192 --methods search

What was measured is kept in the cache for as long as the unit's model answers as it did, whatever the code has become:
`--again` names the methods that are measured anew, by default those called `search`. All of `UNITS` take some minutes.
"""

import argparse
import gc
import inspect
import signal
import subprocess
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from fnmatch import fnmatch
from functools import cache, wraps
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

from benchmarks.speed.search_targets import told_targets
from benchmarks.speed.search_units import UNITS, load_unit, with_rows
from relax_plugin import make_explainer
from relax_plugin.blackbox import BlackBox
from relax_plugin.errors import InputError, MissingExtraError, UnsupportedError
from relax_plugin.evaluation.metrics import violations
from relax_plugin.evaluation.tasks import Task
from relax_plugin.evaluation.whole_rows import WholeRows
from relax_plugin.files import write_text
from relax_plugin.goal import Goal
from relax_plugin.registry import check_name, check_options, read_method

GREEDY, AGAIN, NEAREST, UNION = "greedy", "greedy (again)", "nearest-ct:reverted=True", "greedy or nearest-ct"
METHODS = ("relax-global", "search", "search:max_queries=12")
RIVALS = ("dice-random", "treecf")  # with --all
MOST_CHANGES = 5
SINGLE_ROWS = 10
TIMES, ENOUGH = 3, 2.0  # fits and explanations of which the cheapest counts, until so many CPU seconds are spent
SMALL = ("progress/rf", "wine/logistic")
KEY = ["unit", "goal", "rows", "method"]
PLACE = Path(".bench/search")


class TimeUpError(BaseException):
    """A method has used its CPU seconds; no Exception, which models and methods may catch."""


class Meter:
    """Calls, rows and CPU seconds of a model's own answers, counted in the methods of its class while it is open."""

    def __init__(self, model: Any) -> None:
        self.model, self.depth = model, 0
        self.calls, self.rows, self.seconds = 0, 0, 0.0

    @contextmanager
    def open(self) -> Iterator["Meter"]:
        kind = type(self.model)
        names = [name for name in ("predict", "predict_proba", "decision_function") if hasattr(kind, name)]
        own = {name: vars(kind).get(name) for name in names}
        try:
            for name in names:
                setattr(kind, name, _Metered(inspect.getattr_static(kind, name), self))
            yield self
        finally:
            for name, before in own.items():
                delattr(kind, name) if before is None else setattr(kind, name, before)

    def spent(self, work: Callable[[], Any]) -> tuple[Any, dict[str, float]]:
        """What the work gives, its CPU seconds, and those, the calls and the rows of the model among them."""
        before, started = (self.calls, self.rows, self.seconds), time.process_time()
        done = work()
        cpu = time.process_time() - started
        calls, rows, seconds = np.subtract((self.calls, self.rows, self.seconds), before)
        return done, {"cpu": cpu, "model_cpu": float(seconds), "calls": float(calls), "rows": float(rows)}


class _Metered:
    """A method of a class that counts what one instance is asked, but not what that asks itself."""

    def __init__(self, own: Any, meter: Meter) -> None:
        self.own, self.meter = own, meter

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        method, meter = self.own.__get__(instance, owner), self.meter
        if instance is not meter.model:
            return method

        @wraps(method)
        def answer(*arguments: Any, **options: Any) -> Any:  # rows first, in LightGBM by name
            if meter.depth:
                return method(*arguments, **options)
            meter.depth, started = 1, time.process_time()
            try:
                return method(*arguments, **options)
            finally:
                meter.seconds += time.process_time() - started
                rows = next(iter((*arguments, *options.values())))
                meter.depth, meter.calls, meter.rows = 0, meter.calls + 1, meter.rows + len(rows)

        return answer


def measure(method: str, task: Task) -> dict[str, Any]:
    """Fit and explain, then single rows: answers by query, and what they cost.

    What takes little is done up to three times, and the least CPU seconds count: neighbours on a machine disturb it.
    """
    name, options = read_method(method)
    queries, goal = task.X_test, task.goal or Goal.flip()
    costs: list[tuple[float, dict[str, float], dict[str, float]]] = []
    gc.collect()
    with Meter(task.model).open() as meter:
        while len(costs) < TIMES and sum(cost[0] for cost in costs) < ENOUGH:
            explainer = make_explainer(name, task.model, space=task.space, **({"max_changes": MOST_CHANGES} | options))
            _, fit = meter.spent(lambda own=explainer: own.fit(task.X_train))
            result, explain = meter.spent(lambda own=explainer: own.explain(queries, goal=goal))
            costs.append((fit["cpu"] + explain["cpu"], fit, explain))
        _, fit, explain = min(costs, key=lambda cost: cost[0])
        singles = []
        for row in range(min(SINGLE_ROWS, len(queries))):
            part, own = queries.iloc[[row]], goal.chunk(slice(row, row + 1))
            singles.append(meter.spent(lambda part=part, own=own: explainer.explain(part, goal=own))[1])
    found = result.found[:, 0]
    return {
        "found": found,
        "wrong": int((found & ~holds(task, goal, result)).sum()),
        "l0": result.sparsity[:, 0],
        "l1": result.proximity[:, 0],
        "asked": result.rows_queried,
        "fit": fit,
        "explain": explain,
        "row_ms": float(np.median([1000 * (one["cpu"] - one["model_cpu"]) for one in singles])),
        "row_calls": float(np.median([one["calls"] for one in singles])),
    }


def holds(task: Task, goal: Goal, result: Any) -> np.ndarray:
    """Whether each answer meets the goal by the model's own `predict`, and keeps every constraint and rule."""
    good, query = np.zeros(len(result.found), dtype=bool), np.flatnonzero(result.found[:, 0])
    if len(query) == 0:
        return good
    delivered = result.delivered[task.X_test.columns].astype(task.X_test.dtypes)
    space, known = task.space.taking_in(task.X_train)
    box = BlackBox(task.model, space)
    box.learn(known)
    space, start = space.taking_in(task.X_test)
    space, values = space.taking_in(delivered)
    box = box.over(space)
    bound = goal.bind(box, box.confirm(task.X_test)).take(query)
    limits = space.limits(values=start).take(query)
    broken = violations(space, limits, start[query], values, MOST_CHANGES)
    broken += sum(WholeRows(space, task.X_test.iloc[query], delivered).counts().values())
    good[query] = bound.met(box.confirm(delivered)) & (broken == 0)
    return good


def kept(method: str, task: Task, goal: str, again: bool, place: Path, limit: int, run: int = 0) -> dict[str, Any]:
    """What is in the cache, if the model answers as it did then; else it is measured, and put there."""
    queries, settings = task.X_test, (MOST_CHANGES, SINGLE_ROWS)
    asked = [pd.util.hash_pandas_object(queries).to_numpy(), task.model.predict(queries), repr(task.goal)]
    path = place / "measured" / f"{joblib.hash([task.name, goal, method, run, asked, settings])}.joblib"
    if path.exists() and not again:
        seen = joblib.load(path)
        if seen.get("limit", limit) >= limit:  # else it has more time now
            return seen
    when = {"commit": commit(), "date": datetime.now(UTC).isoformat(timespec="minutes")}
    try:
        with limited(limit):
            warm_up(method, place)
            seen = measure(method, task)
    except (UnsupportedError, MissingExtraError) as error:
        seen = {"skipped": str(error).removeprefix("skipped because ")}
    except TimeUpError:
        seen = {"skipped": f"more than {limit} CPU s", "limit": limit}
    except Exception as error:  # of a method that is being written: the other units are worth having
        traceback.print_exc()
        return {"skipped": f"FAILED, {type(error).__name__}: {error}"} | when
    path.parent.mkdir(parents=True, exist_ok=True)
    joblib.dump(seen | when, path)
    return seen | when


@contextmanager
def limited(seconds: int) -> Iterator[None]:
    """Raise TimeUpError after so many CPU seconds.

    They are looked at once a second: with a timer of its own Linux would count CPU time in steps of 4 ms.
    """
    started = time.process_time()

    def look(*_: Any) -> None:
        if time.process_time() - started > seconds:
            raise TimeUpError

    before = signal.signal(signal.SIGALRM, look)
    signal.setitimer(signal.ITIMER_REAL, 1.0, 1.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@cache
def warm_up(method: str, place: Path) -> None:
    """Let the method import what it needs, on small units, so that this is not among its seconds."""
    for name in SMALL:
        small = with_rows(load_unit(name, place), 3, "flip")
        try:
            measure(method, small)
        except (UnsupportedError, MissingExtraError):
            continue


@cache
def commit() -> str:
    """The commit of this tree, with a + if files differ from it."""
    words = ["git", "describe", "--always", "--dirty=+", "--exclude=*"]
    return subprocess.run(words, cwd=Path(__file__).parent, capture_output=True, text=True).stdout.strip() or "unknown"


def line_of(seen: dict[str, Any], first: dict[str, Any], greedy_cpu: float) -> dict[str, Any]:
    """A line of the table; `first` is greedy's measurement."""
    if "skipped" in seen:
        return {name: seen[name] for name in ("skipped", "commit", "date")}
    both, count = seen["found"] & first["found"], max(len(seen["found"]), 1)
    fit, explain, solved = seen["fit"], seen["explain"], seen["found"].any()
    cpu = fit["cpu"] + explain["cpu"]
    return {
        "validity": seen["found"].mean(),
        "wrong": seen["wrong"],
        "l0": np.nanmean(seen["l0"]) if solved else np.nan,
        "l1": np.nanmean(seen["l1"]) if solved else np.nan,
        "l0_ratio": ratio(seen["l0"][both].sum(), first["l0"][both].sum()),
        "l1_ratio": ratio(seen["l1"][both].sum(), first["l1"][both].sum()),
        "both": int(both.sum()),
        "fit_cpu": fit["cpu"],
        "fit_own_cpu": fit["cpu"] - fit["model_cpu"],
        "explain_cpu": explain["cpu"],
        "cpu_ratio": ratio(cpu, greedy_cpu),
        "model_share": ratio(fit["model_cpu"] + explain["model_cpu"], cpu),
        "own_ms_per_query": 1000 * (explain["cpu"] - explain["model_cpu"]) / count,
        "model_ms_per_query": 1000 * explain["model_cpu"] / count,
        "calls": explain["calls"],
        "rows_per_query": explain["rows"] / count,
        "rows_per_solved": seen["asked"][seen["found"]].mean() if solved else np.nan,
        "fit_rows": fit["rows"],
        "row_ms": seen["row_ms"],
        "row_calls": seen["row_calls"],
        "commit": seen["commit"],
        "date": seen["date"],
    }


def ratio(part: float, whole: float) -> float:
    return part / whole if whole else 1.0 if part == whole else np.nan


HEAD = (
    f"{'unit':21} {'goal':4} {'method':25} {'valid':>5} {'L0':>5} {'x':>5} {'L1':>6} {'x':>5} {'fit s':>6} "
    f"{'expl s':>6} {'cpu x':>5} {'model':>5} {'calls':>5} {'rows/q':>7} {'row ms':>6} {'calls':>5}"
)


def shown(line: dict[str, Any]) -> str:
    begin = f"{line['unit']:21} {line['goal']:4} {line['method']:25}"
    if "skipped" in line:
        return f"{begin} skipped: {line['skipped']}"
    if "l0" not in line:
        return f"{begin} {line['validity']:5.3f}"
    return (
        f"{begin} {line['validity']:5.3f} {line['l0']:5.2f} {line['l0_ratio']:5.3f} {line['l1']:6.2f} "
        f"{line['l1_ratio']:5.3f} {line['fit_cpu']:6.2f} {line['explain_cpu']:6.2f} {line['cpu_ratio']:5.2f} "
        f"{line['model_share']:5.2f} {line['calls']:5.0f} {line['rows_per_query']:7.1f} {line['row_ms']:6.1f} "
        f"{line['row_calls']:5.0f}" + (f"  {line['wrong']} WRONG" if line["wrong"] else "")
    )


def compare(unit: str, goal: str, methods: list[str], chosen: argparse.Namespace) -> list[dict[str, Any]]:
    """The lines of one unit, in the order in which they are measured; none if the goal is not for it."""
    task = with_rows(load_unit(unit, chosen.cache), chosen.rows, goal)
    if task is None:
        return []
    again = {read_method(method)[0] for method in chosen.again}

    def seen_of(method: str, run: int = 0) -> dict[str, Any]:
        anew = read_method(method)[0] in again
        return kept(method, task, goal, anew, chosen.cache, chosen.limit, run)

    seen = {method: seen_of(method) for method in (GREEDY, NEAREST, *methods)}
    seen[AGAIN] = seen_of(GREEDY, 1)
    first = seen[GREEDY]
    if "skipped" in first:
        print(f"{unit:21} {goal:4} left out, since greedy is skipped: {first['skipped']}", flush=True)
        return []
    runs = [one for one in (first, seen[AGAIN]) if "skipped" not in one]
    cpu = float(np.mean([one["fit"]["cpu"] + one["explain"]["cpu"] for one in runs]))
    about = {"unit": unit, "goal": goal, "rows": chosen.rows, "features": len(task.space)}
    lines = [about | {"method": method} | line_of(seen[method], first, cpu) for method in (GREEDY, AGAIN, NEAREST)]
    either = first["found"] | seen[NEAREST].get("found", False)
    when = {name: first[name] for name in ("commit", "date")}
    lines.append(about | {"method": UNION, "validity": either.mean()} | when)
    return lines + [about | {"method": method} | line_of(seen[method], first, cpu) for method in methods]


def known(methods: list[str]) -> list[str]:
    """The methods that there are, without those that every comparison has; a word on the others."""
    there = []
    for method in dict.fromkeys(methods):
        name, options = read_method(method)
        try:
            check_name(name)
            check_options(name, options)
        except InputError as error:
            print(f"skipped: {error}", flush=True)
            continue
        if method not in (GREEDY, NEAREST):
            there.append(method)
    return there


def store(path: Path, lines: list[dict[str, Any]]) -> None:
    """Put the lines in the place of older ones of the same unit, goal, rows and method."""
    table = pd.DataFrame(lines)
    if path.exists():
        table = pd.concat([pd.read_csv(path), table]).drop_duplicates(KEY, keep="last")
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, table.sort_values(KEY).round(4).to_csv(index=False))


def main(typed: list[str] | None = None) -> list[dict[str, Any]]:
    """Measure what is asked for, storing each unit as it is done, and say which targets are held."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", default=["*"], help="units, also as patterns: 'wine/*'")
    parser.add_argument("--methods", nargs="*", default=list(METHODS), help="beside greedy and nearest-ct")
    parser.add_argument("--goal", choices=["flip", "to"], default="flip")
    parser.add_argument("--rows", type=int, default=100)
    parser.add_argument("--all", action="store_true", help=f"both goals, and {' and '.join(RIVALS)}")
    parser.add_argument("--output", type=Path, help="CSV; by default results.csv in the cache")
    parser.add_argument("--cache", type=Path, default=PLACE)
    parser.add_argument("--again", nargs="*", default=["search"], help="methods that are measured anew")
    parser.add_argument("--limit", type=int, default=120, help="CPU seconds of a method on a unit")
    chosen = parser.parse_args(typed)
    units = [unit for unit in UNITS if any(fnmatch(unit, pattern) for pattern in chosen.tasks)]
    if not units:
        parser.error(f"no unit is like {' '.join(chosen.tasks)}; there are {', '.join(UNITS)}")
    methods = known([*chosen.methods, *(RIVALS if chosen.all else ())])
    lines: list[dict[str, Any]] = []
    print(HEAD, flush=True)
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")
        for goal in ("flip", "to") if chosen.all else (chosen.goal,):
            for unit in units:
                new = compare(unit, goal, methods, chosen)
                if new:
                    print("\n".join(map(shown, new)), flush=True)
                    store(chosen.output or chosen.cache / "results.csv", new)
                    lines += new
    print(told_targets(pd.DataFrame(lines), [AGAIN, NEAREST, *methods]), flush=True)
    return lines


if __name__ == "__main__":
    main()
