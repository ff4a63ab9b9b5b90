"""Photograph what people see, for README.md and the gallery: `make screens`, a minute with Chromium.

The what-if page and the card show people of the embedded German credit table and a random forest; the other pictures
are the first screens of the live pages (`docs/live.py`). Nothing on them is drawn by hand.
"""

import shutil
import sys
import tempfile
import threading
from io import BytesIO
from pathlib import Path
from typing import Any

from lender import lender
from live import DOCS, MAKERS, stale
from PIL import Image
from playwright.sync_api import Page, sync_playwright

from relax_plugin.files import write_bytes
from relax_plugin.whatif.app import address_of, listening, new_token, run, what_if_app
from relax_plugin.whatif.session import WhatIf

WIDE = {"width": 1280, "height": 860}
FIRST_SCREEN = {"width": 1120, "height": 760}
THUMBNAIL = 720  # pixels across, of a picture of the gallery
COLOURS = 128  # of a picture with text on plain ground
QUIET = ["--no-sandbox", "--disable-gpu"]


def main(live: Path) -> None:
    """Write docs/card.png, docs/whatif.png and docs/gallery/*.png."""
    if stale(live):
        sys.exit(f"{live} is not current: `python docs/live.py {live}` makes it.")
    explainer, people = lender()
    found = explainer.explain(people.iloc[[0]], n=3)
    found.regions(explainer)
    with sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=shutil.which("chromium"), args=QUIET)
        page = chromium.new_page(viewport=WIDE)
        with tempfile.TemporaryDirectory() as folder:
            page.goto(found.card(0).save(Path(folder) / "card.html").as_uri())
            keep(page.locator(".relax-card").screenshot(), "card.png")
        photograph_what_if(page, served(WhatIf(explainer, people, title="What if?")))
        page.set_viewport_size(FIRST_SCREEN)
        for name in [name for name in MAKERS if name != "cards.html"]:  # a card is photographed above
            page.goto((live / name).resolve().as_uri())
            page.wait_for_load_state("networkidle")
            keep(page.screenshot(), f"gallery/{name.partition('/')[0].removesuffix('.html')}.png", THUMBNAIL)
        chromium.close()


def photograph_what_if(page: Page, address: str) -> None:
    """The page with an answer, scrolled to nowhere."""
    page.goto(address)
    page.wait_for_selector(".one")
    page.locator(".ask").click()
    page.wait_for_selector(".relax-card")
    page.wait_for_selector(".ask:not([disabled])")
    keep(page.screenshot(), "whatif.png")


def served(session: WhatIf) -> str:
    """The address of the what-if page, which a thread serves until this script ends."""
    bound, token, ready = listening(0), new_token(), threading.Event()
    thread = threading.Thread(
        target=run, args=(what_if_app(session, token, bound.getsockname()[1]), bound, ready.set), daemon=True
    )
    thread.start()
    ready.wait(60)
    return address_of(bound, token)


def keep(photograph: Any, name: str, across: int | None = None) -> None:
    """Write a photograph with few colours, a third of its size; smaller, if it shall be so many pixels across."""
    picture = Image.open(BytesIO(photograph)).convert("RGB")
    if across is not None:
        picture = picture.resize((across, round(picture.height * across / picture.width)), Image.Resampling.LANCZOS)
    packed = BytesIO()
    picture.quantize(COLOURS).save(packed, "PNG", optimize=True)
    write_bytes(DOCS / name, packed.getvalue())
    print(f"docs/{name} is written: {len(packed.getvalue()) // 1024} KB.", file=sys.stderr)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
