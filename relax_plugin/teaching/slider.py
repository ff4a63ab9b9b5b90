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
from relax_plugin.pages.html import script_data, template

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DOTS_PER_INCH = 144  # twice what the page shows of an inch at most, so that it is sharp on good screens
MILLISECONDS = 900  # that a picture stands; the last one stands three times as long


@dataclass(frozen=True)
class Slider:
    """Pictures to be leafed through. A notebook shows it as it is; `save` writes a page or a GIF."""

    figures: Sequence["Figure"]  # all of one size
    labels: Sequence[str]  # what each of them shows, such as "training step 40"
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
        pictures, labels = [base64.b64encode(picture).decode() for picture in self._pictures], list(self.labels)
        return template("slider.html.jinja").render(
            name=hashlib.sha256("".join(pictures).encode()).hexdigest()[:12],  # unlike any other slider of the page
            width=round(96 * max(figure.get_figwidth() for figure in self.figures)),
            title=self.title,
            labels=labels,
            shown=list(zip(labels, pictures, strict=True)),
            data=script_data(labels),
            milliseconds=MILLISECONDS,
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
