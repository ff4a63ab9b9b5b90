"""Self-contained HTML pages: the templates, safe data in scripts, and figures in the colours and font of the page."""

import io
import json
import re
from functools import cache
from html import escape
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup

from relax_plugin.pages.drawing import FAINT, INK
from relax_plugin.pages.palette import OKABE_ITO

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@cache
def template(name: str) -> Template:
    """A template of this package, by its file name; whatever is put into it is escaped."""
    loader = PackageLoader("relax_plugin.pages", "templates")
    return Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    ).get_template(name)


def script_data(data: Any) -> Markup:
    """JSON for a script element, which no text in the data can end."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False, ensure_ascii=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)


def capitalised(sentence: str) -> str:
    """A sentence of `Counterfactuals.sentences` without its "Query 3: " in front."""
    head, colon, rest = sentence.partition(": ")
    text = rest if colon and head.startswith("Query ") else sentence
    return text[:1].upper() + text[1:]


# Variables of the style sheet, which has other values in dark mode.
PAGE_COLOURS = {INK: "currentColor", FAINT: "var(--line)"} | {
    colour: f"var(--method-{i})" for i, colour in enumerate(OKABE_ITO)
}


def inline(figure: "Figure", name: str, label: str) -> str:
    """The figure as an `<svg>` element that is as wide as it is let; `--natural` is the width it was drawn for.

    The `name` is unlike that of every other figure of the page: it becomes part of all ids, so that none occurs twice.
    The `label` says what it shows, for those who listen to the page.
    """
    import matplotlib

    figure.patch.set_visible(False)
    for axes in figure.axes:
        axes.patch.set_visible(False)
    stream = io.StringIO()
    with matplotlib.rc_context({"svg.hashsalt": name, "svg.fonttype": "none"}):
        figure.savefig(stream, format="svg", metadata={"Date": None})
    _, _, svg = stream.getvalue().partition("<defs>")
    width, height = (float(inches) * 72 for inches in figure.get_size_inches())
    tag = f'<svg role="img" aria-label="{escape(label)}" viewBox="0 0 {width:g} {height:g}"'
    return f'{tag} style="--natural: {width * 4 / 3:.0f}px"><defs>{_in_page_style(_with_own_ids(svg, name))}'


def _with_own_ids(svg: str, name: str) -> str:
    used = set(re.findall(r'(?:url\(|href=")#([^)"]+)', svg))
    svg = re.sub(r' id="([^"]+)"', lambda match: f' id="{name}-{match[1]}"' if match[1] in used else "", svg)
    svg = re.sub(r"url\(#([^)]+)\)", rf"url(#{name}-\1)", svg)
    return re.sub(r'xlink:href="#([^"]+)"', rf'href="#{name}-\1"', svg)


def _in_page_style(svg: str) -> str:
    """The page's colours and font, numbers in hundredths of a point; what is written in the figure stays."""
    svg = re.sub(r"<style.*?</style>", "", svg, count=1, flags=re.DOTALL)  # matplotlib's, which would rule the page
    svg = re.sub(r' (?:d|x|y|width|height|transform)="[^"]*"', lambda attribute: _rounded(attribute[0]), svg)
    svg = re.sub(r' style="[^"]*"', lambda attribute: _restyled(attribute[0]), svg)
    return re.sub(r">\s+<", "><", svg)


def _rounded(attribute: str) -> str:
    attribute = re.sub(r"\d+\.\d{3,}", lambda number: f"{float(number[0]):.2f}", attribute)
    return re.sub(r"\s+", " ", attribute)


def _restyled(attribute: str) -> str:
    attribute = re.sub(r" font-family: [^;]*;", "", attribute)
    return re.sub(r"#[0-9a-f]{6}", lambda colour: PAGE_COLOURS.get(colour[0].upper(), colour[0]), attribute)
