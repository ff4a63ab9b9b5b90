"""How methods are drawn: one colour and one marker for each method, the same in every picture of this package.

Options do not change them: `nearest-ct:reverted=True` looks like `nearest-ct`, and where both are in one picture, only
their dashes differ, and one is hollow. A method of another package gets a colour and a marker by its name, a pair that
no method of this package has.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from types import MappingProxyType
from typing import Any
from zlib import crc32

# Okabe and Ito's eight colours can be told apart by colour-blind readers; the yellow is darkened to be seen on white,
# and the black is not quite black, for an SVG leaves that one out. A page has brighter ones of them where it is dark.
OKABE_ITO = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#1A1A1A", "#E69F00", "#56B4E9", "#A89A00")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "*")  # for print, and where colours are shared
OTHERS = "#8C8C8C"  # methods in the background, where there are more than colours can tell apart
MOST_COLOURED = 8  # methods in one picture: more are highlighted in part, or drawn in several panels

_BLUE, _RED, _GREEN, _PINK, _BLACK, _ORANGE, _SKY, _OLIVE = OKABE_ITO
_SOLID: tuple[float, ...] = ()


@dataclass(frozen=True)
class Style:
    """How a method is drawn: the colour, the marker, the dashes of its line, and whether the marker is filled."""

    colour: str
    marker: str
    dashes: tuple[float, ...] = _SOLID
    filled: bool = True

    @property
    def line(self) -> Any:
        """The dashes as matplotlib wants them."""
        return (0, self.dashes) if self.dashes else "-"

    @property
    def face(self) -> tuple[str, float]:
        """The colour inside the marker and its opacity, which is little in the second of two that look alike."""
        return self.colour, 1.0 if self.filled else 0.2


# The eight that are compared most have a colour each; the others share one with what they resemble.
STYLES: Mapping[str, Style] = MappingProxyType(
    {
        "relax-global": Style(_BLUE, "o"),
        "relax-local": Style(_OLIVE, "*", (6, 2)),
        "search": Style(_OLIVE, "D", (3, 2)),
        "nearest-ct": Style(_RED, "D", (2, 2)),
        "greedy": Style(_GREEN, "s", (8, 2, 2, 2)),
        "move-table": Style(_SKY, "P", (12, 3)),
        "random-order": Style(_SKY, "X", (1, 3)),
        "lore": Style(_BLACK, "X", (4, 2)),
        "feat-tweak": Style(_RED, ">", (6, 2)),
        "focus": Style(_RED, "<", (12, 3)),
        "surrogate-search": Style(_ORANGE, "^", (10, 2, 2, 2)),
        "dice-random": Style(_PINK, "v", (3, 1)),
        "dice-genetic": Style(_PINK, "^", (8, 2)),
        "dice-kdtree": Style(_PINK, "D", (1, 2)),
        "deepfool": Style(_BLACK, "<", (8, 2, 2, 2)),
        "grace": Style(_BLACK, ">", (2, 2)),
        "mace": Style(_OLIVE, "s", (2, 2)),
        "nice": Style(_RED, "o", (4, 2)),
        "cfrl": Style(_BLUE, "P", (3, 1)),
        "fastar": Style(_BLUE, "X", (8, 2)),
        "treecf": Style(_OLIVE, "P", (8, 2)),
        "face": Style(_ORANGE, "D", (6, 2)),
        "wachter": Style(_BLACK, "o", (6, 2)),
        "growing-spheres": Style(_GREEN, "o", (1, 2)),
    }
)
"""The methods of the registry."""
ALIASES = {
    "relax": "relax-global",
    "ReLAX": "relax-global",
    "ReLAX-Global": "relax-global",
    "ReLAX-Local": "relax-local",
}
"""Other names that tables, lessons and the paper have for them."""

_TAKEN = {(style.colour, style.marker) for style in STYLES.values()}
_FREE = [(colour, marker) for marker in MARKERS for colour in OKABE_ITO if (colour, marker) not in _TAKEN]


def style_of(method: str) -> Style:
    """The style of a method by its name, whatever its options (`name:option=value`, or `name, remark`)."""
    name = base_name(method)
    name = ALIASES.get(name, name)
    if name in STYLES:
        return STYLES[name]
    number = crc32(name.encode())  # the same in every process, which `hash` is not
    colour, marker = _FREE[number % len(_FREE)]
    return Style(colour, marker)


def method_styles(methods: Sequence[str]) -> dict[str, Style]:
    """The styles of the methods of one picture: each its own; those that look alike differ in dashes and filling.

    The names may be those of the registry, with or without options, or of other packages.
    """
    made: dict[str, Style] = {}
    seen: set[tuple[str, tuple[float, ...]]] = set()
    drawn: set[tuple[str, str]] = set()
    for method in methods:
        style = style_of(method)
        # In print there are no colours: no two of one marker have the same dashes.
        dashes = next(own for own in _dashes(style.dashes) if (style.marker, own) not in seen)
        made[method] = replace(style, dashes=dashes, filled=(style.colour, style.marker) not in drawn)
        seen.add((style.marker, dashes))
        drawn.add((style.colour, style.marker))
    return made


def series_styles(names: Sequence[str]) -> dict[str, Style]:
    """Styles for what is no method, such as the settings of a training: by position, in the order of the colours."""
    dashes = (_SOLID, (6, 2), (2, 2), (8, 2, 2, 2), (12, 3), (1, 3), (3, 1))
    return {
        name: Style(OKABE_ITO[i % len(OKABE_ITO)], MARKERS[i % len(MARKERS)], dashes[i % len(dashes)])
        for i, name in enumerate(names)
    }


def highlighted(methods: Sequence[str], wanted: Sequence[str] = ()) -> list[str]:
    """Which methods of one picture are drawn in their colours: all of up to eight, else `wanted`, else the first.

    `wanted` are those that the picture is about, the most important first.
    """
    if len(methods) <= MOST_COLOURED:
        return list(methods)
    chosen = [method for method in dict.fromkeys(wanted) if method in methods] or list(methods)
    return chosen[:MOST_COLOURED]


def greyed(styles: Mapping[str, Style], coloured: Sequence[str]) -> dict[str, Style]:
    """The same styles, all but those of `coloured` in grey."""
    return {name: style if name in coloured else replace(style, colour=OTHERS) for name, style in styles.items()}


def base_name(method: str) -> str:
    """The name of a method without its options and without a remark behind a comma."""
    return method.partition(":")[0].partition(",")[0].strip()


def short_names(methods: Sequence[str]) -> dict[str, str]:
    """Names for labels in a picture: without options, where no other method of the picture has the same name."""
    bases = [base_name(method) for method in methods]
    return {
        method: base if bases.count(base) == 1 else method.replace(":", ": ", 1)
        for method, base in zip(methods, bases, strict=True)
    }


def _dashes(first: tuple[float, ...]) -> Iterator[tuple[float, ...]]:
    yield first
    yield from (_SOLID, (6, 2), (2, 2), (8, 2, 2, 2), (12, 3), (3, 1))
    for number in count(1):
        yield (6, 2, *([1, 2] * number), 2, 2)
