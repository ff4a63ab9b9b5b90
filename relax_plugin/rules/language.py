r"""The language of rules: Python's parser reads a text, and only a whitelist of it is let through; nothing is executed.

    age >= work_years + 16
    education <= was(education) or age >= was(age) + 2
    `marital-status` in ["Married", "Widowed"] and 0 <= share <= min(total, 100)

Names, numbers, texts in single or double quotes, ``+ - * /``, ``abs``, ``min``, ``max``, comparisons (chained too),
``in`` and ``not in`` a list, ``and``, ``or``, ``not``, ``place(name)``: the place of an ordered category in its order,
from 1 on, and ``was(name)``: the query's own value. ``implies(a, b)`` is true unless a holds and b does not;
``iff(a, b)`` is true if both hold or neither does. Names that are no identifiers stand in backticks, in which a
backtick is doubled; in a text, ``\'``, ``\"`` and ``\\`` are escapes.
"""

import ast
import re
import unicodedata
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import numpy as np

from relax_plugin.errors import ConstraintError, did_you_mean
from relax_plugin.rules.expression import (
    ROUNDING,
    Absolute,
    Among,
    Calculation,
    Column,
    Comparison,
    Condition,
    Constant,
    Junction,
    LabelComparison,
    Place,
    Term,
)

MOST_CHARACTERS = 2000  # of one rule
MOST_NESTING = 32  # of brackets, functions and signs in each other; Python's own parser bears several times as many
SHOWN = 100  # characters of a rule that an error shows
WIDTH = 7  # characters of each token in what Python parses, so that a place there tells the token

FUNCTIONS = {"abs": 1, "min": 2, "max": 2, "place": 1, "implies": 2, "iff": 2}  # and how many arguments each takes
LOGICAL = ("implies", "iff")
WORDS = ("and", "or", "not", "in", "True", "False")  # which are names only in backticks
OPERATORS = ("==", "!=", "<", "<=", ">", ">=", "+", "-", "*", "/", "and", "or", "in", "not in")
CLOSED_BY = {"(": ")", "[": "]", "": ""}
NAMES = ("name", "quoted_name")
LISTED = ("in", "not in")
OPPOSITE = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
MIRRORED = {"==": "==", "!=": "!=", "<": ">", ">": "<", "<=": ">=", ">=": "<="}
SIGNS: dict[type[ast.operator], str] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}
INSTEAD = {
    "=": "write ==",
    "<>": "write !=",
    "=>": "write >=",
    "=<": "write <=",
    "≥": "write >=",
    "≤": "write <=",
    "≠": "write !=",
    "&": "write and",
    "|": "write or",
    "!": "write not",
    "~": "write not",
    "**": "write a product",
    ".": "a name with a dot in it stands in backticks",
    "[": "a list stands only after in",
    "lambda": "a rule with more to it can be a Rule(function, columns=[...])",
    "is": "write ==",
    "if": "write implies(condition, consequence)",
    "not": "write not in, or !=",
}

# Atomic groups, (?>...), so that 1.5e is one wrong number and not the numbers 1. and 5.
TOKENS = re.compile(
    r"""(?P<space>\s+)
    |(?P<number>(?>(?:[0-9]+(?:_[0-9]+)*(?:\.(?:[0-9]+(?:_[0-9]+)*)?)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)(?!\w))
    |(?P<wrong_number>\.?[0-9][\w.]*)
    |(?P<text>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")
    |(?P<open_text>['"].*)
    |(?P<quoted_name>`(?:[^`]|``)+`)
    |(?P<word>not\s+in\b|(?:and|or|not|in|True|False)\b)
    |(?P<function>[^\W\d]\w*\s*\()
    |(?P<name>[^\W\d]\w*)
    |(?P<symbol>==|!=|<=|>=|=>|=<|<>|\*\*|//|&&|\|\||.)""",
    re.VERBOSE | re.DOTALL,
)


class Token(NamedTuple):
    kind: str  # number, text, name, quoted_name, function (with its parenthesis), word, symbol or end
    text: str
    at: int
    value: Any = None  # what a number or a text is, or the name of a column or function


NOTHING = Token("", "", 0)


class Cell(NamedTuple):
    """A column that a text mentions, `was` in the query, and where."""

    name: str
    was: bool
    at: int


class Parsed:
    """A rule or the formula of a column: its text, its tokens and the tree that Python makes of them.

    What stands where it cannot is refused, and so is what does not fit together, whatever the columns hold.
    """

    def __init__(self, text: str, what: Literal["rule", "formula"]) -> None:
        self.text, self.what = str(text), what
        if len(text) > MOST_CHARACTERS:
            much = f"it has {len(text):,} characters, but {MOST_CHARACTERS:,} are the most; make it several."
            raise self.error(MOST_CHARACTERS, much)
        self.tokens = list(self._tokens())
        self._check_order()
        self.tree = ast.parse("".join(map(_for_python, self.tokens)), mode="eval").body
        self._check_whole()

    def error(self, place: int | ast.expr, sentence: str) -> ConstraintError:
        """The sentence, with the text beneath it and a caret under the place."""
        at = place if isinstance(place, int) else self._main_token(place).at
        first = max(0, min(at - SHOWN // 2, len(self.text) - SHOWN))
        ends = ("... " if first else ""), (" ..." if first + SHOWN < len(self.text) else "")
        clean = "".join(letter if letter.isprintable() else " " for letter in self.text)
        shown = ends[0] + clean[first : first + SHOWN] + ends[1]
        before = ends[0] + clean[first:at]
        wide = sum(2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in before)
        wide -= sum(unicodedata.combining(letter) != 0 for letter in before)
        return ConstraintError(f"{self.what} {shown!r}: {sentence}\n    {shown}\n    {' ' * wide}^")

    def cells(self) -> Iterator[Cell]:
        """The columns that it mentions, in the order of the text."""
        for before, token in pairwise([NOTHING, *self.tokens]):
            if token.kind in NAMES:
                was = (before.kind, before.value) == ("function", "was")
                yield Cell(token.value, was, before.at if was else token.at)

    def token(self, node: ast.expr) -> Token:
        """The first token of a part."""
        return self.tokens[node.col_offset // WIDTH]

    def cell(self, node: ast.expr) -> Cell | None:
        """The column that a part is, if it is one."""
        token = self.token(node)
        if not isinstance(node, ast.Call) or token.value != "was":
            return Cell(token.value, False, token.at) if isinstance(node, ast.Name) and token.kind in NAMES else None
        name = self.cell(node.args[0])
        if name is None or name.was or len(node.args) != 1:
            raise self.error(node.args[0], "was() is of the name of a column, whose value in the query it is.")
        return Cell(name.name, True, token.at)

    def arguments(self, node: ast.Call) -> list[ast.expr]:
        """The arguments of a function, as many as it takes."""
        function = self.token(node).value
        count = FUNCTIONS[function]
        if len(node.args) != count:
            raise self.error(node, f"{function}() takes {count} argument{'s'[: count - 1]}, not {len(node.args)}.")
        return node.args

    def literal(self, node: ast.expr) -> float | str | None:
        """The number or text that a part is, if it is one; a number may have signs."""
        if isinstance(node, ast.UnaryOp) and isinstance(value := self.literal(node.operand), int | float):
            return -value if isinstance(node.op, ast.USub) else value
        token = self.token(node)
        return token.value if isinstance(node, ast.Name) and token.kind in ("number", "text") else None

    def sign_behind(self, node: ast.expr) -> Token:
        """What stands between a part and the next one."""
        number = ((node.end_col_offset or 0) - 1) // WIDTH + 1
        while self.tokens[number].text == ")":
            number += 1
        return self.tokens[number]

    def _main_token(self, node: ast.expr) -> Token:
        match node:
            case ast.BinOp(left=first) | ast.Compare(left=first) | ast.BoolOp(values=[first, *_]):
                return self.sign_behind(first)
        return self.token(node)

    def _tokens(self) -> Iterator[Token]:
        for match in TOKENS.finditer(self.text):
            kind, text, at = str(match.lastgroup), match.group(), match.start()
            if kind == "wrong_number":
                raise self.error(at, f"{text!r} is no number.")
            if kind == "open_text":
                raise self.error(at, f"the text that begins here has no closing {text[0]}.")
            if text in ("True", "False"):
                yield Token("number", text, at, text == "True")
            elif kind == "word":
                yield Token(kind, " ".join(text.split()), at)
            elif kind == "function":
                yield Token(kind, "(", at, self._function(text[:-1].rstrip(), at))
            elif kind != "space":
                yield Token(kind, text, at, self._value(kind, text, at))
        yield Token("end", "", len(self.text))

    def _function(self, name: str, at: int) -> str:
        if name not in (*FUNCTIONS, "was"):
            known = ", ".join(FUNCTIONS)
            raise self.error(at, f"{name!r} is no function of the language; it has {known} and was.")
        return name

    def _value(self, kind: str, text: str, at: int) -> Any:
        if kind == "number":
            value = float(text)
            if value - value != 0:
                raise self.error(at, f"{text[:20]} is beyond what a number can be.")
            return int(text) if text.replace("_", "").isdigit() else value
        if kind == "text":
            for escape in re.finditer(r"\\(.)", text, flags=re.DOTALL):
                if escape[1] not in "'\"\\":
                    place = at + escape.start()
                    raise self.error(place, "a backslash stands only before a quote or another backslash; double it.")
            return re.sub(r"\\(.)", r"\1", text[1:-1], flags=re.DOTALL)
        return text[1:-1].replace("``", "`") if kind == "quoted_name" else text

    def _check_order(self) -> None:
        """Refuse what stands where it cannot: values and operators take turns, and what is opened is closed."""
        if len(self.tokens) == 1:
            raise self.error(0, f"the {self.what} is empty.")
        open_: list[Token] = []  # brackets, functions, and signs and nots whose operand is not complete
        value = True  # whether one has to come
        for before, token in pairwise([NOTHING, *self.tokens]):
            inside = next((one for one in reversed(open_) if one.text in CLOSED_BY), NOTHING)
            many = inside.kind == "function" or inside.text == "["
            if value and token.text in _openers(before):
                open_.append(token)
            elif value and token.kind in (*NAMES, "number", "text") and before.text not in LISTED:
                value = False
            elif not value and (token.text in OPERATORS or (token.text == "," and many)):
                value = True
            elif value or token.text != CLOSED_BY[inside.text]:
                raise self._misplaced(token, before, value, inside)
            while token.text in ("and", "or", ",", ")", "]") and open_ and open_[-1].text == "not":
                open_.pop()
            if token.text in (")", "]"):
                open_.pop()
            while not value and open_ and open_[-1].text in ("+", "-"):
                open_.pop()
            if len(open_) > MOST_NESTING:
                raise self.error(token.at, f"it is nested more than {MOST_NESTING} deep; make it several.")
            if token.value == "iff" and any(one.value == "iff" for one in open_[:-1]):  # each level doubles the length
                raise self.error(token.at, "iff() stands within iff(); make it several rules.")

    def _misplaced(self, token: Token, before: Token, value: bool, inside: Token) -> ConstraintError:
        if not value:
            expected = CLOSED_BY[inside.text] or "and, or, a comparison or an arithmetic sign"
        elif before.text in LISTED:
            expected = 'a list, such as ["a", "b"]'
        else:
            expected = f"{'' if inside.text == '[' else 'a name, '}a number or a text in quotes"
        if token.kind == "end":
            return self.error(token.at, f"it ends where there should be {expected}.")
        hint = INSTEAD.get(token.text, INSTEAD.get(token.text[:1], "") if token.kind == "symbol" else "")
        if token.kind in ("name", "function") and before.kind == "name":
            hint = hint or "a name with a space in it stands in backticks"
        shown = token.value if token.kind == "function" else token.text
        return self.error(token.at, f"{shown!r} stands where there should be {expected}{'; ' if hint else ''}{hint}.")

    def _check_whole(self) -> None:
        """Refuse what does not fit together, and a formula that asks for the query."""
        if self.what == "rule":
            much = "a rule must be true or false; compare it with something, by <= say."
            Binding(self, None).condition(self.tree, otherwise=much)
        else:
            if isinstance(self.literal(self.tree), str):
                raise self.error(self.tree, "this is a text, but a formula must be a number.")
            Binding(self, None).term(self.tree, otherwise="a formula must be a number.")
        cells = list(self.cells())
        for cell in cells:
            if cell.was and self.what == "formula":
                raise self.error(cell.at, "a formula is computed from one row alone; was() is for rules.")
        if not cells:
            raise self.error(self.tree, "it names no column.")


def _openers(before: Token) -> tuple[str, ...]:
    """What may stand before a value, behind this token."""
    if before.text in LISTED:
        return ("[",)
    condition = before.text in ("", "(", ",", "and", "or", "not")
    return ("(", "+", "-", "not") if condition else ("(", "+", "-")


def _for_python(token: Token) -> str:
    """What stands for a token in the text that Python parses."""
    value = {"function": "_(", "word": token.text, "symbol": token.text, "end": ""}.get(token.kind, "_")
    return value.ljust(WIDTH)


def parse_rule(text: object) -> Parsed:
    """A text that is true or false of a row."""
    if not isinstance(text, str):
        raise ConstraintError(f"a rule is a text such as 'a <= b', not {text!r}.")
    return _parsed(text, "rule")


def parse_formula(text: object) -> Parsed:
    """A text that is a number in every row: how a derived column is computed."""
    if not isinstance(text, str):
        raise ConstraintError(f"a formula is a text such as 'a + b', not {text!r}.")
    return _parsed(text, "formula")


_parsed = lru_cache(maxsize=1000)(Parsed)  # a rule is bound anew for every call


def quoted_name(name: object) -> str:
    """The name as it stands in a rule: in backticks if it is no identifier."""
    text = str(name)
    plain = re.fullmatch(r"[^\W\d]\w*", text) and text not in WORDS
    return text if plain else "`" + text.replace("`", "``") + "`"


@dataclass(frozen=True)
class Kind:
    """What a rule has to know of a column.

    `categories` is None for numbers; those of an `ordered` column stand in their order. `rounding` is the relative
    error that its numbers may have: more than by default for such as were float32.
    """

    categories: tuple[Any, ...] | None = None
    ordered: bool = False
    rounding: float = ROUNDING


@dataclass(frozen=True)
class Binding:
    """Makes expressions over columns of what a text says; `not` is carried inwards, to the opposites of comparisons.

    A derived column is its formula: one that stands `instead` of a cell is about the query if the cell was, and errors
    about it point at the cell. Where no `kinds` of columns are known yet, a column may be of any.
    """

    parsed: Parsed
    kinds: Mapping[Hashable, Kind] | None
    formulas: Mapping[Hashable, Parsed] = field(default_factory=dict)  # of derived columns
    instead: tuple["Binding", Cell] | None = None

    def error(self, place: int | ast.expr, sentence: str) -> ConstraintError:
        if self.instead is not None:
            return self.instead[0].error(self.instead[1].at, sentence)
        return self.parsed.error(place, sentence)

    def condition(
        self,
        node: ast.expr,
        negated: bool = False,
        otherwise: str = "what and, or, not join must be true or false.",
    ) -> Condition:
        match node:
            case ast.UnaryOp(op=ast.Not(), operand=part):
                return self.condition(part, not negated)
            case ast.BoolOp(op=word, values=parts):
                every = isinstance(word, ast.And) != negated
                return Junction(every, tuple(self.condition(part, negated) for part in parts))
            case ast.Compare(left=left, comparators=others):
                return self._compared([left, *others], negated)
            case ast.Call() if (function := self.parsed.token(node).value) in LOGICAL:
                one, other = self.parsed.arguments(node)
                much = f"{function}() takes conditions."
                first, second = self.condition(one, not negated, much), self.condition(other, negated, much)
                if function == "implies":
                    return Junction(negated, (first, second))
                both = Junction(not negated, (self.condition(one, negated), second))
                return Junction(negated, (both, Junction(not negated, (first, self.condition(other, not negated)))))
        raise self.error(node, f"this is a value, but {otherwise}")

    def term(self, node: ast.expr, otherwise: str = "arithmetic needs a value.") -> Term:
        cell, literal = self.parsed.cell(node), self.parsed.literal(node)
        if cell is not None:
            return self._cell(cell)
        if isinstance(literal, str):
            raise self.error(node, f"{literal!r} is a text, with which one cannot calculate.")
        if literal is not None:
            return Constant(float(literal))
        match node:
            case ast.BinOp():  # however long, it is not nested
                steps = []
                while isinstance(node, ast.BinOp):
                    steps.append((SIGNS[type(node.op)], node.right))
                    node = node.left
                parts = self.term(node), *(self.term(part) for _, part in reversed(steps))
                return Calculation(parts, tuple(sign for sign, _ in reversed(steps)))
            case ast.UnaryOp(op=ast.USub(), operand=part):
                return Calculation((Constant(0.0), self.term(part)), ("-",))
            case ast.UnaryOp(op=ast.UAdd(), operand=part):
                return self.term(part)
            case ast.Call() if (function := self.parsed.token(node).value) not in LOGICAL:
                arguments = self.parsed.arguments(node)
                if function == "place":
                    return self._place(node, arguments[0])
                if function == "abs":
                    return Absolute((self.term(arguments[0]),))
                return Calculation((self.term(arguments[0]), self.term(arguments[1])), (function,))
        raise self.error(node, f"this is true or false, but {otherwise}")

    def _compared(self, sides: list[ast.expr], negated: bool) -> Condition:
        signs = [self.parsed.sign_behind(side) for side in sides[:-1]]
        if len(signs) > 1 and any(isinstance(side, ast.List) for side in sides):
            raise self.error(signs[1].at, f"{signs[1].text!r} stands in a chain with a list; join the two by and.")
        if isinstance(sides[1], ast.List):
            return self._membership(sides[0], signs[0], sides[1].elts, (signs[0].text == "not in") != negated)
        links = zip(sides[:-1], signs, sides[1:], strict=True)
        turned = OPPOSITE if negated else {}
        parts = tuple(self._comparison(one, turned.get(at.text, at.text), at, other) for one, at, other in links)
        return parts[0] if len(parts) == 1 else Junction(not negated, parts)

    def _membership(self, item: ast.expr, at: Token, values: list[ast.expr], negated: bool) -> Condition:
        for value in values:
            if self.parsed.literal(value) is None:
                raise self.error(value, "an item of a list is a number or a text in quotes.")
        column = self._category(item)
        if column is not None:
            return Among((column,), tuple(self._position(column.name, value) for value in values), not negated)
        parts = tuple(self._comparison(item, "!=" if negated else "==", at, value) for value in values)
        return parts[0] if len(parts) == 1 else Junction(negated, parts)

    def _comparison(self, left: ast.expr, sign: str, at: Token, right: ast.expr) -> Condition:
        one, other = self._category(left), self._category(right)
        if one is not None and other is not None:
            return self._two_labels(one, sign, at, other)
        if one is not None:
            return self._label(one, sign, at, right)
        if other is not None:
            return self._label(other, MIRRORED[sign], at, left)
        sides: list[Term] = []
        for side, opposite in ((left, right), (right, left)):
            text = self.parsed.literal(side)
            if isinstance(text, str) and self.kinds is not None:
                self._refuse_unknown(opposite)  # the more useful sentence
                cell = self.parsed.cell(opposite)
                about = f"{cell.name!r} holds numbers" if cell is not None else "the other side has none"
                raise self.error(side, f"{text!r} can be compared only with categories; {about}.")
            sides.append(Constant(np.nan) if isinstance(text, str) else self.term(side, f"{at.text} needs a value."))
        return Comparison(sign, (sides[0], sides[1]))

    def _label(self, column: Column, sign: str, at: Token, literal: ast.expr) -> Condition:
        if self.parsed.literal(literal) is None:
            calculated = f"{column.name!r} holds categories, which cannot be compared with a number that is calculated."
            raise self.error(at.at, calculated)
        position = self._position(column.name, literal)
        if sign in ("==", "!="):
            return Among((column,), (position,), sign == "==")
        self._refuse_unordered(column.name, at.text, at.at)
        return LabelComparison(sign, (column, Constant(position)), len(self._categories(column.name)))

    def _two_labels(self, left: Column, sign: str, at: Token, right: Column) -> Condition:
        ours, theirs = self._categories(left.name), self._categories(right.name)
        if sign not in ("==", "!="):
            self._refuse_unordered(left.name, at.text, at.at)
            self._refuse_unordered(right.name, at.text, at.at)
            if ours != theirs:
                both = f"{left.name!r} has {list(ours)} and {right.name!r} has {list(theirs)}"
                raise self.error(at.at, f"{at.text} needs one order of categories, but {both}.")
        translation = None
        if ours != theirs:
            places = {label: float(position) for position, label in enumerate(ours)}
            translation = tuple(places.get(label, np.inf) for label in theirs)
        return LabelComparison(sign, (left, right), len(ours), translation)

    def _place(self, node: ast.expr, argument: ast.expr) -> Term:
        if self.kinds is None:
            return self.term(argument)
        column = self._category(argument)
        if column is None:
            self._refuse_unknown(argument)  # the more useful sentence
            raise self.error(node, "place() is of a column of ordered categories, and this is none.")
        self._refuse_unordered(column.name, "place()", node)
        return Place((column,), len(self._categories(column.name)))

    def _cell(self, cell: Cell) -> Term:
        if self.instead is not None:
            cell = cell._replace(was=self.instead[1].was)
        if cell.name in self.formulas:
            formula = self.formulas[cell.name]
            return replace(self, parsed=formula, instead=(self, cell)).term(formula.tree)
        column = self._column(cell)
        if self.kinds is not None and self.kinds[column.name].categories is not None:
            unfit = f"{column.name!r} holds categories, with which one cannot calculate; compare it alone."
            raise self.error(cell.at, unfit)
        return column

    def _category(self, node: ast.expr) -> Column | None:
        """The column of categories that a part is, if it is one."""
        cell = self.parsed.cell(node)
        if cell is None or cell.name in self.formulas or self.kinds is None:
            return None
        column = self._column(cell if self.instead is None else cell._replace(was=self.instead[1].was))
        return column if self.kinds[column.name].categories is not None else None

    def _categories(self, name: Hashable) -> tuple[Any, ...]:
        return (self.kinds or {})[name].categories or ()

    def _position(self, name: Hashable, literal: ast.expr) -> int:
        categories, wanted = self._categories(name), self.parsed.literal(literal)
        for position, category in enumerate(categories):
            if isinstance(category, str) == isinstance(wanted, str) and bool(category == wanted):
                return position
        raise self.error(literal, f"{name!r} has no category {wanted!r}; {did_you_mean(wanted, categories)}")

    def _refuse_unordered(self, name: Hashable, sign: str, place: int | ast.expr) -> None:
        if not (self.kinds or {})[name].ordered:
            shown = f"{sign} needs an order, but the categories {list(self._categories(name))[:12]} of {name!r} have"
            raise self.error(place, f"{shown} none; say it by ordered= or use ==, != or in.")

    def _refuse_unknown(self, node: ast.expr) -> None:
        for part in ast.walk(node):
            cell = self.parsed.cell(part) if isinstance(part, ast.Name | ast.Call) else None
            if cell is not None and cell.name not in self.formulas:
                self._column(cell)

    def _column(self, cell: Cell) -> Column:
        """The column of this name; one whose name is no text goes by the text of it."""
        kinds = self.kinds
        if kinds is None:
            return Column(cell.name, cell.was)
        names = [cell.name] if cell.name in kinds else [name for name in kinds if str(name) == cell.name]
        if len(names) == 1:
            return Column(names[0], cell.was, kinds[names[0]].rounding)
        if names:
            raise self.error(cell.at, f"{cell.name!r} is the name of {len(names)} columns: {names}.")
        written = [str(name) for name in kinds if self.parsed.text.startswith(str(name), cell.at)]
        if written and len(max(written, key=len)) > len(cell.name):
            meant = quoted_name(max(written, key=len))
            raise self.error(cell.at, f"{cell.name!r} is no column; in backticks, {meant} is one.")
        raise self.error(cell.at, f"{cell.name!r} is no column; {did_you_mean(cell.name, kinds)}")
