"""What a benchmark records beside its time: `ratios.py` makes a table of it."""

import resource
import sys
import time
from contextlib import suppress
from pathlib import Path

import numpy as np


def describe(benchmark, group, label, rows=1, yardstick=False):
    """Say what is compared with what: the label within its group, the rows of one round, whether it counts as 1."""
    benchmark.group = group
    benchmark.extra_info.update(label=str(label), rows=rows, yardstick=yardstick)


def timed(benchmark, function, rounds=3, warmup=0, setup=None, cpu_clock=time.process_time):
    """Run the function so many rounds; note the peak of memory and the CPU time, which busy neighbours disturb less."""
    spent = []
    forget_peak()

    def watched(*arguments):
        started = cpu_clock()
        result = function(*arguments)
        spent.append(cpu_clock() - started)
        return result

    result = benchmark.pedantic(watched, setup=setup, rounds=rounds, warmup_rounds=warmup)
    benchmark.extra_info.update(cpu_seconds=min(spent[warmup:]), peak_mebibytes=peak_mebibytes())
    return result


def timed_explanation(benchmark, explainer, explain, rows, rounds=3, warmup=0):
    """Time `explain()`, which gives a list of results for so many rows, and note how good they are."""
    asked = explainer.blackbox_.rows_asked
    results = timed(benchmark, explain, rounds, warmup)
    asked = explainer.blackbox_.rows_asked - asked
    found = np.concatenate([result.found[:, 0] for result in results])
    sparsity = np.concatenate([result.sparsity[:, 0] for result in results])
    proximity = np.concatenate([result.proximity[:, 0] for result in results])
    benchmark.extra_info.update(
        validity=float(found.mean()),
        sparsity=float(np.nanmean(sparsity)) if found.any() else None,
        proximity=float(np.nanmean(proximity)) if found.any() else None,
        model_rows=asked / rows / (rounds + warmup),
    )
    return results


def children_cpu():
    """CPU seconds of the processes that have ended and were waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def forget_peak():
    """Let the peak of memory begin anew, which Linux can; elsewhere it is that of the process so far."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def peak_mebibytes():
    """The most memory the process has held, its libraries and rows included."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)
