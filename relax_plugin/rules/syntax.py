"""The words and the tree of a rule: what a text of the language consists of, and errors that point into it."""

import re
import unicodedata
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, TypeAlias

from relax_plugin.errors import ConstraintError

SHOWN = 100  # characters of a rule that an error shows

WORDS = ("and", "or", "not", "in", "True", "False")  # which are names only in backticks


@dataclass(frozen=True)
class Node:
    """A part of a text; `at` is the place that an error about it points at."""

    at: int


@dataclass(frozen=True)
class Number(Node):
    """A number, whole ones as int; True and False too, which are 1 and 0."""

    value: float | int


@dataclass(frozen=True)
class Text(Node):
    value: str


@dataclass(frozen=True)
class Cell(Node):
    """The value of a column, or the one that the query itself has in it."""

    name: str
    was: bool


@dataclass(frozen=True)
class Sum(Node):
    terms: tuple["Expression", ...]
    signs: tuple[int, ...]


@dataclass(frozen=True)
class Product(Node):
    factors: tuple["Expression", ...]
    divides: tuple[bool, ...]


@dataclass(frozen=True)
class Call(Node):
    function: str
    arguments: tuple["Expression", ...]


@dataclass(frozen=True)
class Comparison(Node):
    """A chain of comparisons: each operator between its two neighbours among the sides."""

    sides: tuple["Expression", ...]
    operators: tuple[str, ...]
    places: tuple[int, ...]


@dataclass(frozen=True)
class Membership(Node):
    item: "Expression"
    values: tuple[Number | Text, ...]
    negated: bool


@dataclass(frozen=True)
class Junction(Node):
    word: Literal["and", "or"]
    parts: tuple["Expression", ...]


@dataclass(frozen=True)
class Not(Node):
    part: "Expression"


Expression: TypeAlias = Number | Text | Cell | Sum | Product | Call | Comparison | Membership | Junction | Not
TRUTHS = (Comparison, Membership, Junction, Not)


@dataclass(frozen=True)
class Source:
    """A text as the user wrote it, and what it is: a rule, or the formula of a column."""

    text: str
    what: Literal["rule", "formula"]

    def error(self, at: int, sentence: str) -> ConstraintError:
        """The sentence, with the rule beneath it and a caret under the place."""
        first = max(0, min(at - SHOWN // 2, len(self.text) - SHOWN))
        ends = ("... " if first else ""), (" ..." if first + SHOWN < len(self.text) else "")
        clean = "".join(letter if letter.isprintable() else " " for letter in self.text)
        shown = ends[0] + clean[first : first + SHOWN] + ends[1]
        before = ends[0] + clean[first:at]
        wide = sum(2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in before)
        wide -= sum(unicodedata.combining(letter) != 0 for letter in before)
        return ConstraintError(f"{self.what} {shown!r}: {sentence}\n    {shown}\n    {' ' * wide}^")


class Parsed(NamedTuple):
    """A text and the tree of what it says."""

    source: Source
    tree: Expression


class Token(NamedTuple):
    kind: str  # number, text, open text, name, quoted name, word, symbol or end
    text: str
    at: int


# Atomic groups, (?>...), so that 1.5e is one wrong number and not the numbers 1. and 5.
TOKENS = re.compile(
    r"""(?P<space>\s+)
    |(?P<number>(?>(?:[0-9]+(?:_[0-9]+)*(?:\.(?:[0-9]+(?:_[0-9]+)*)?)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)(?!\w))
    |(?P<wrong_number>\.?[0-9][\w.]*)
    |(?P<text>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")
    |(?P<open_text>['"].*)
    |(?P<quoted_name>`(?:[^`]|``)+`)
    |(?P<name>[^\W\d]\w*)
    |(?P<symbol>==|!=|<=|>=|=>|=<|<>|\*\*|//|&&|\|\||.)""",
    re.VERBOSE | re.DOTALL,
)


def tokens(source: Source) -> Iterator[Token]:
    """The words and signs of a text, and an end."""
    for match in TOKENS.finditer(source.text):
        kind, text, at = str(match.lastgroup), match.group(), match.start()
        if kind == "wrong_number":
            raise source.error(at, f"{text!r} is no number.")
        if kind == "open_text":
            raise source.error(at, f"the text that begins here has no closing {text[0]}.")
        if kind == "name" and text in WORDS:
            kind = "word"
        if kind != "space":
            yield Token(kind, text, at)
    yield Token("end", "", len(source.text))


def cells_of(node: Expression) -> Iterator[Cell]:
    """The cells that a tree mentions, in the order of the text."""
    match node:
        case Cell():
            yield node
        case Sum(terms=parts) | Product(factors=parts) | Call(arguments=parts) | Junction(parts=parts):
            for part in parts:
                yield from cells_of(part)
        case Comparison(sides=parts):
            for part in parts:
                yield from cells_of(part)
        case Membership(item=part) | Not(part=part):
            yield from cells_of(part)


def expanded(node: Expression, formulas: Mapping[Hashable, Expression]) -> Any:
    """The tree with the formulas of derived columns in their place; errors about them point at the column."""

    def of(part: Expression) -> Any:
        return expanded(part, formulas)

    match node:
        case Cell(name=name) if name in formulas:
            return _placed(expanded(formulas[name], formulas), node)
        case Sum(terms=parts):
            return replace(node, terms=tuple(map(of, parts)))
        case Product(factors=parts):
            return replace(node, factors=tuple(map(of, parts)))
        case Call(arguments=parts):
            return replace(node, arguments=tuple(map(of, parts)))
        case Junction(parts=parts):
            return replace(node, parts=tuple(map(of, parts)))
        case Comparison(sides=parts):
            return replace(node, sides=tuple(map(of, parts)))
        case Membership(item=part):
            return replace(node, item=of(part))
        case Not(part=part):
            return replace(node, part=of(part))
    return node


def _placed(formula: Expression, cell: Cell) -> Any:
    """A formula that stands where a cell of its column stood: of the query's own cells, if it was the query's."""

    def of(part: Expression) -> Any:
        return _placed(part, cell)

    match formula:
        case Cell():
            return replace(formula, at=cell.at, was=cell.was)
        case Sum(terms=parts):
            return replace(formula, at=cell.at, terms=tuple(map(of, parts)))
        case Product(factors=parts):
            return replace(formula, at=cell.at, factors=tuple(map(of, parts)))
        case Call(arguments=parts):
            return replace(formula, at=cell.at, arguments=tuple(map(of, parts)))
    return replace(formula, at=cell.at)


def quoted_name(name: object) -> str:
    """The name as it stands in a rule: in backticks if it is no identifier."""
    text = str(name)
    plain = re.fullmatch(r"[^\W\d]\w*", text) and text not in WORDS
    return text if plain else "`" + text.replace("`", "``") + "`"
