"""Walk the path of docs/first_five_minutes.md as a stranger does: `python -m benchmarks.tables.walk`.

It takes some minutes and a network.

Every command of the page is run in a folder of its own, in their order, with a fresh clone and a fresh environment; the
clone is of this repository as it is committed, in the place of the address. Seconds go to docs/results/walk.csv, from
which `make tables` makes the table of the page. The page served is opened and asked once, and then closed by Ctrl-C.
"""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import pandas as pd

from relax_plugin.files import write_text

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = DOCS / "first_five_minutes.md"
WALK = DOCS / "results" / "walk.csv"
NOTES = DOCS / "results" / "walk.json"
BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PATIENCE = 600  # seconds


def commands() -> list[str]:
    """The command lines of the page, in their order."""
    text = "".join(BLOCK.findall(PAGE.read_text(encoding="utf-8"))).replace("\\\n", " ")
    return [" ".join(line.split()) for line in text.splitlines() if line.strip()]


def walk(folder: Path) -> pd.DataFrame:
    """Run them; a line for each, with the seconds that it took."""
    place, surroundings = folder, dict(os.environ)
    elsewhere = [path for path in surroundings["PATH"].split(os.pathsep) if path != str(Path(sys.executable).parent)]
    surroundings["PATH"] = os.pathsep.join(elsewhere)  # a stranger has no environment yet
    lines = []
    for line in commands():
        words, started = shlex.split(line), time.perf_counter()
        if words[0] == "cd":
            place = place / words[1]
        elif words[0] == ".":  # to activate an environment is to look there first
            bin_folder = (place / words[1]).parent
            assert bin_folder.is_dir(), line
            surroundings["PATH"] = f"{bin_folder}{os.pathsep}{surroundings['PATH']}"
        elif words[:2] == ["relax-plugin", "serve"]:
            ask_the_page([*words, "--no-browser", "--port", "0"], place, surroundings)
        else:
            if words[:2] == ["git", "clone"]:
                words = ["git", "clone", str(DOCS.parent), words[2].rpartition("/")[2]]
            done = subprocess.run(words, cwd=place, env=surroundings, capture_output=True, text=True, timeout=PATIENCE)
            if done.returncode != 0:
                sys.exit(f"{line} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        lines.append({"command": line, "seconds": round(time.perf_counter() - started, 1)})
        print(f"{lines[-1]['seconds']:6.1f} s  {line}", file=sys.stderr, flush=True)
    return pd.DataFrame(lines)


def ask_the_page(words: list[str], place: Path, surroundings: dict[str, str]) -> None:
    """Start the what-if page, ask it what would have to be different in the first row, and close it."""
    with subprocess.Popen(words, cwd=place, env=surroundings, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        address = server.stdout.readline().partition("The page: ")[2].strip()
        assert address, "the page was not served"
        assert b"What if?" in urllib.request.urlopen(address).read()
        asked = json.dumps({"row": 0, "n": 3}).encode()
        request = urllib.request.Request(f"{address}explain", asked, {"Content-Type": "application/json"})
        assert json.load(urllib.request.urlopen(request))["alternatives"][0]["found"]
        server.send_signal(signal.SIGINT)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        walked = walk(Path(folder))
    about = {"date": time.strftime("%Y-%m-%d"), "python": sys.version.split()[0], "cores": os.cpu_count()}
    about["others"] = round(
        os.getloadavg()[2], 1
    )  # how many programs ran or waited, on average of a quarter of an hour
    write_text(WALK, walked.to_csv(index=False))
    write_text(NOTES, json.dumps(about, indent=1) + "\n")
