"""Run a command as on two other processors: `python .ci/processors.py make quick`.

NumPy, OpenBLAS and PyTorch choose their code by what the processor can do, so the last digits of a trained model differ
from machine to machine. Their environment variables make them choose as they would on an older processor. What each of
them really runs is printed first.
"""

import json
import os
import subprocess
import sys

LEVEL_OF_HASWELL = ("X86_V3", "AVX2", "FMA3", "AVX", "F16C")  # with AVX2 and without AVX512, in NumPy's two namings
PROBE = """
import json
import scipy.linalg
import sklearn.ensemble
import torch
from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__
from threadpoolctl import threadpool_info

print(json.dumps({
    "NumPy": [name for name in __cpu_dispatch__ if __cpu_features__[name]],
    "OpenBLAS": sorted({one["architecture"] for one in threadpool_info() if one["internal_api"] == "openblas"}),
    "PyTorch": torch.backends.cpu.get_cpu_capability(),
}))
"""


def what_runs(settings: dict[str, str]) -> dict[str, object]:
    """The instruction sets that NumPy, OpenBLAS and PyTorch use under these settings."""
    done = subprocess.run(
        [sys.executable, "-c", PROBE], env={**os.environ, **settings}, capture_output=True, text=True, check=True
    )
    found: dict[str, object] = json.loads(done.stdout)
    return found


def main() -> int:
    here = what_runs({})
    print(f"This processor: {here}", flush=True)
    optional = here["NumPy"]
    assert isinstance(optional, list)
    above_haswell = [name for name in optional if name not in LEVEL_OF_HASWELL]
    processors = {
        "A processor without AVX": {
            "ATEN_CPU_CAPABILITY": "default",
            "OPENBLAS_CORETYPE": "Prescott",
            "NPY_DISABLE_CPU_FEATURES": " ".join(optional),
        },
        "A processor without AVX512": {
            "ATEN_CPU_CAPABILITY": "avx2",
            "OPENBLAS_CORETYPE": "Haswell",
            "NPY_DISABLE_CPU_FEATURES": " ".join(above_haswell),
        },
    }
    for name, settings in processors.items():
        found = what_runs(settings)
        print(f"{name}: {found}, by {settings}", flush=True)
        if found == here:
            print("It is as this processor: the command is not run again.", flush=True)
            continue
        code = subprocess.run(sys.argv[1:], env={**os.environ, **settings}).returncode
        if code != 0:
            print(f"{name}: {' '.join(sys.argv[1:])} ended with {code}.", file=sys.stderr)
            return code
    return 0


if __name__ == "__main__":
    sys.exit(main())
