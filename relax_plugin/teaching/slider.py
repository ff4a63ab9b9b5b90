"""The same picture at several moments: a page with a slider, or a GIF."""

import base64
import hashlib
import io
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from relax_plugin.cached import cached_property
from relax_plugin.errors import InputError
from relax_plugin.files import replacing, write_text
from relax_plugin.pages.html import script_data

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DOTS_PER_INCH = 144  # twice what the page shows of an inch at most, so that it is sharp on good screens
MILLISECONDS = 900  # that a picture stands; the last one stands three times as long


@dataclass(frozen=True)
class Slider:
    """Pictures to be leafed through. A notebook shows it as it is; `save` writes a page or a GIF.

    Parameters
    ----------
    figures : sequence of Figure
        All of one size.
    labels : sequence of str
        What each of them shows, such as "training step 40".
    title : str
    """

    figures: Sequence["Figure"]
    labels: Sequence[str]
    title: str

    def __post_init__(self) -> None:
        if not self.figures or len(self.figures) != len(self.labels):
            raise InputError(f"there are {len(self.figures)} pictures and {len(self.labels)} labels; give one each.")

    def save(self, path: str | Path) -> Path:
        """Write a page that needs no network (.html) or an animation (.gif), whole or not at all."""
        path = Path(path)
        if path.suffix == ".html":
            write_text(path, self.page())
        elif path.suffix == ".gif":
            self._write_gif(path)
        else:
            raise InputError(f"{path.name} is neither a page nor an animation; name it .html or .gif.")
        return path

    def page(self) -> str:
        """The slider as a whole page."""
        return (
            '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            f"<title>{escape(self.title)}</title></head>"
            f'<body style="margin:1rem;background:#fff">{self._repr_html_()}</body></html>\n'
        )

    def _repr_html_(self) -> str:
        width = round(96 * max(figure.get_figwidth() for figure in self.figures))
        pictures = "".join(
            f'<img alt="{escape(label)}" style="width:100%;display:{"none" if i else "block"}" '
            f'src="data:image/png;base64,{base64.b64encode(picture).decode()}">'
            for i, (picture, label) in enumerate(zip(self._pictures, self.labels, strict=True))
        )
        name = hashlib.sha256(pictures.encode()).hexdigest()[:12]  # unlike that of any other slider of the page
        return (
            f'<figure data-slider="{name}" style="max-width:{width}px;margin:0;font:15px/1.4 system-ui,sans-serif;'
            f'background:#fff;color:#333"><figcaption><b>{escape(self.title)}</b></figcaption>{pictures}'
            '<div style="display:flex;gap:.7rem;align-items:center"><button type="button">play</button>'
            f'<input type="range" min="0" max="{len(self.figures) - 1}" value="0" style="flex:1" '
            f'aria-label="{escape(self.title)}" aria-valuetext="{escape(self.labels[0])}">'
            f'<output style="min-width:10em">{escape(self.labels[0])}</output></div>'
            f"<script>{_SCRIPT % (name, script_data(list(self.labels)), MILLISECONDS)}</script></figure>"
        )

    @cached_property
    def _pictures(self) -> list[bytes]:
        from PIL import Image

        pictures = []
        for figure in self.figures:
            drawn, small = io.BytesIO(), io.BytesIO()
            figure.savefig(drawn, format="png", dpi=DOTS_PER_INCH, facecolor="white", metadata={"Software": None})
            # 256 colours are enough for a drawing, and make a third of the file: notebooks hold a dozen of these.
            few = Image.open(drawn).convert("RGB").quantize(256, dither=Image.Dither.NONE)
            few.save(small, format="PNG", optimize=True)
            pictures.append(small.getvalue())
        return pictures

    def _write_gif(self, path: Path) -> None:
        from PIL import Image

        pictures = [Image.open(io.BytesIO(picture)).convert("RGB") for picture in self._pictures]
        pictures = [picture.resize((picture.width // 3 * 2, picture.height // 3 * 2)) for picture in pictures]
        # One palette of colours for all, that of the last picture: with one each, the background would flicker.
        palette = pictures[-1].quantize(256)
        first, *others = (picture.quantize(palette=palette, dither=Image.Dither.NONE) for picture in pictures)
        durations = [MILLISECONDS] * (len(pictures) - 1) + [3 * MILLISECONDS]
        with replacing(path) as temporary:
            first.save(temporary, format="GIF", save_all=True, append_images=others, duration=durations, loop=0)


_SCRIPT = """document.querySelectorAll('[data-slider="%s"]:not([data-ready])').forEach((figure) => {
  const labels = %s, images = figure.querySelectorAll("img"), range = figure.querySelector("input");
  const button = figure.querySelector("button"), output = figure.querySelector("output");
  const last = images.length - 1;
  let timer = 0;
  const show = () => {
    images.forEach((image, i) => { image.style.display = i === +range.value ? "block" : "none"; });
    output.textContent = labels[+range.value];
    range.setAttribute("aria-valuetext", labels[+range.value]);
  };
  const stop = () => { clearInterval(timer); timer = 0; button.textContent = "play"; };
  const next = () => {
    range.value = +range.value + 1;
    show();
    if (+range.value === last) stop();
  };
  range.addEventListener("input", () => { stop(); show(); });
  button.addEventListener("click", () => {
    if (timer) { stop(); return; }
    if (+range.value === last) { range.value = 0; show(); }
    button.textContent = "stop";
    timer = setInterval(next, %d);
  });
  range.value = 0;  // a browser that comes back to the page may remember another one
  show();
  figure.dataset.ready = "";
});"""
