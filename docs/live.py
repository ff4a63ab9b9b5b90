"""The pages that people can try, for the gallery of the documentation: `python docs/live.py FOLDER`, some minutes.

Each is made as a user makes it, by a command of this package; the lessons are the executed notebooks of examples/.
The hooks of mkdocs put them into the site, under live/. What was made of the same files before is not made again.
"""

import hashlib
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from lender import lender

from relax_plugin.files import write_text
from relax_plugin.pages.card import explanation_page

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
BENCH = ["--tasks", "sonar/mlp", "--methods", "relax-global", "surrogate-search", "greedy", "nearest-ct", "lore"]
BENCH += ["--rows", "30", "--seeds", "1", "--max-changes", "5"]
PEOPLE = 40  # who have a card
SOURCES = ("relax_plugin", "baselines", "adapters", "examples", "benchmarks/reproduction", "docs/results/paper")
READ = {".py", ".jinja", ".js", ".css", ".csv", ".json", ".ipynb", ".gz"}


def command(*words: str) -> None:
    """Run a command of this package; what it prints is shown only if it fails."""
    line = [sys.executable, "-m", "relax_plugin.cli", *words]
    done = subprocess.run(line, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(words)} ended with {done.returncode}: {done.stderr}")


def play(folder: Path) -> None:
    """Drag a point, and watch the agent."""
    command("play", "--output", str(folder / "play.html"))


def methods(folder: Path) -> None:
    """Every method on a toy of two features."""
    command("methods", "--output", str(folder / "methods.html"))


def report(folder: Path) -> None:
    """A small benchmark, told by the report."""
    with tempfile.TemporaryDirectory() as results:
        command("bench", *BENCH, "--output", results)
        command("report", results, "--output", str(folder / "report.html"))


def reproduction(folder: Path) -> None:
    """The paper, reproduced: of the stored tables of the full run."""
    with tempfile.TemporaryDirectory() as place:  # the report keeps its verdicts beside the tables
        shutil.copytree(DOCS / "results" / "paper", Path(place) / "paper")
        command("reproduce", "--report-only", "--output", place)
        shutil.move(Path(place) / "report.html", folder / "reproduction.html")


def cards(folder: Path) -> None:
    """What people whom a forest refuses a loan would be told."""
    explainer, people = lender()
    found = explainer.explain(people.head(PEOPLE), n=3)
    found.regions(explainer)
    write_text(folder / "cards.html", explanation_page(found, title="Refused loans, and what would have been granted"))


def lessons(folder: Path) -> None:
    """The lessons as pages, of their executed notebooks."""
    script = ROOT / "examples" / "render.py"
    line = [sys.executable, str(script), "--stored", "--output", str(folder / "lessons")]
    done = subprocess.run(line, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"the lessons are not current: {done.stderr}; run `make notebooks`.")


MAKERS: dict[str, Callable[[Path], None]] = {  # the page that one opens -> who makes it
    "methods.html": methods,
    "play.html": play,
    "report.html": report,
    "reproduction.html": reproduction,
    "cards.html": cards,
    "lessons/index.html": lessons,
}


def make(folder: Path) -> dict[str, float]:
    """Write the pages that are missing or old into the folder, two at a time; how many seconds each took.

    One that fails does not keep the others from being written, and they are not made again.
    """
    sources, wanted = made_of(), stale(folder)
    (folder / "lessons").mkdir(parents=True, exist_ok=True)

    def timed(page: str) -> float:
        started = time.perf_counter()
        MAKERS[page](folder)
        write_text(stamp(folder, page), sources)
        return time.perf_counter() - started

    with ThreadPoolExecutor(2) as pool:
        running = {page: pool.submit(timed, page) for page in wanted}
    return {page: future.result() for page, future in running.items()}


def stale(folder: Path) -> list[str]:
    """The pages that are missing, or made of other files than there are now."""
    sources = made_of()

    def current(page: str) -> bool:
        told = stamp(folder, page)
        return (folder / page).is_file() and told.is_file() and told.read_text(encoding="utf-8") == sources

    return [page for page in MAKERS if not current(page)]


def stamp(folder: Path, page: str) -> Path:
    """Where it is written of which files a page was made."""
    return folder / f"{page}.made_of.txt"


def made_of() -> str:
    """A short name for the content of all files that the pages are made of."""
    digest = hashlib.sha256()
    files = [path for source in SOURCES for path in (ROOT / source).rglob("*") if path.suffix in READ]
    for path in sorted([*files, DOCS / "live.py", DOCS / "lender.py"]):
        digest.update(path.relative_to(ROOT).as_posix().encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


if __name__ == "__main__":
    place = Path(sys.argv[1])
    old = stale(place)
    if not old:
        print(f"{place}: the live pages are current.", file=sys.stderr)
    else:
        print(f"{place}: making {', '.join(old)}, some minutes ...", file=sys.stderr, flush=True)
        for page, seconds in make(place).items():
            print(f"{page}: {seconds:.0f} s", file=sys.stderr)
