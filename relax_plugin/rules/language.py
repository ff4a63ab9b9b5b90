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
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise
from typing import Any, Literal, NamedTuple

from relax_plugin.errors import ConstraintError

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

    What stands where it cannot is refused, and so is what does not fit together. `says` is "truth", "number" or "text".
    """

    def __init__(self, text: str, what: Literal["rule", "formula"]) -> None:
        self.text, self.what = str(text), what
        if len(text) > MOST_CHARACTERS:
            much = f"it has {len(text):,} characters, but {MOST_CHARACTERS:,} are the most; make it several."
            raise self.error(MOST_CHARACTERS, much)
        self.tokens = list(self._tokens())
        self._check_order()
        self.tree = ast.parse("".join(map(_for_python, self.tokens)), mode="eval").body
        self.says = self._check(self.tree)

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
        if isinstance(node, ast.Call) and token.value == "was":
            return Cell(self.token(node.args[0]).value, True, token.at)
        return Cell(token.value, False, token.at) if isinstance(node, ast.Name) and token.kind in NAMES else None

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

    def _check(self, node: ast.expr) -> str:
        """What a part says; parts that do not fit together are refused."""
        match node:
            case ast.Name():
                return "text" if self.token(node).kind == "text" else "number"
            case ast.BoolOp(values=parts):
                return self._truths(parts, "what and, or, not join must be true or false.")
            case ast.UnaryOp(op=ast.Not(), operand=part):
                return self._truths([part], "what and, or, not join must be true or false.")
            case ast.Compare():
                return self._comparison(node)
            case ast.Call():
                return self._call(node)
            case ast.UnaryOp(operand=part):
                return self._numbers([part])
            case ast.BinOp():
                first, steps = steps_of(node)
                return self._numbers([first, *(part for _, part in steps)])
        raise self.error(node, "this is none of what the language has.")

    def _truths(self, parts: list[ast.expr], otherwise: str) -> str:
        for part in parts:
            if self._check(part) != "truth":
                raise self.error(part, f"this is a value, but {otherwise}")
        return "truth"

    def _numbers(self, parts: list[ast.expr]) -> str:
        for part in parts:
            says = self._check(part)
            if says == "text":
                raise self.error(part, f"{self.literal(part)!r} is a text, with which one cannot calculate.")
            if says == "truth":
                raise self.error(part, "this is true or false, but arithmetic needs a value.")
        return "number"

    def _comparison(self, node: ast.Compare) -> str:
        sides = [node.left, *node.comparators]
        signs = [self.sign_behind(side) for side in sides[:-1]]
        for side, sign in zip(sides, [signs[0], *signs], strict=True):
            if isinstance(side, ast.List):
                for item in side.elts:
                    if self.literal(item) is None:
                        raise self.error(item, "an item of a list is a number or a text in quotes.")
            elif self._check(side) == "truth":
                raise self.error(side, f"this is true or false, but {sign.text} needs a value.")
        if len(signs) > 1 and any(isinstance(side, ast.List) for side in sides):
            raise self.error(signs[1].at, f"{signs[1].text!r} stands in a chain with a list; join the two by and.")
        return "truth"

    def _call(self, node: ast.Call) -> str:
        function = self.token(node).value
        if function == "was":
            if (
                len(node.args) != 1
                or self.token(node.args[0]).kind not in NAMES
                or not isinstance(node.args[0], ast.Name)
            ):
                raise self.error(node.args[0], "was() is of the name of a column, whose value in the query it is.")
            return "number"
        count = FUNCTIONS[function]
        if len(node.args) != count:
            raise self.error(node, f"{function}() takes {count} argument{'s'[: count - 1]}, not {len(node.args)}.")
        if function in LOGICAL:
            return self._truths(node.args, f"{function}() takes conditions.")
        return self._numbers(node.args)


def _openers(before: Token) -> tuple[str, ...]:
    """What may stand before a value, behind this token."""
    if before.text in LISTED:
        return ("[",)
    condition = before.text in ("", "(", ",", "and", "or", "not")
    return ("(", "+", "-", "not") if condition else ("(", "+", "-")


def steps_of(node: ast.expr) -> tuple[ast.expr, list[tuple[str, ast.expr]]]:
    """The first part of a sum or product, and what is done to it, step by step: however long, it is not nested."""
    steps = []
    while isinstance(node, ast.BinOp):
        steps.append((SIGNS[type(node.op)], node.right))
        node = node.left
    return node, steps[::-1]


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


@lru_cache(maxsize=1000)  # a rule is bound anew for every call
def _parsed(text: str, what: Literal["rule", "formula"]) -> Parsed:
    parsed = Parsed(text, what)
    if what == "rule" and parsed.says != "truth":
        much = "this is a value, but a rule must be true or false; compare it with something, by <= say."
        raise parsed.error(parsed.tree, much)
    if what == "formula" and parsed.says == "truth":
        raise parsed.error(parsed.tree, "this is true or false, but a formula must be a number.")
    cells = list(parsed.cells())
    for cell in cells:
        if cell.was and what == "formula":
            raise parsed.error(cell.at, "a formula is computed from one row alone; was() is for rules.")
    if what == "formula" and parsed.says == "text":
        raise parsed.error(parsed.tree, "this is a text, but a formula must be a number.")
    if not cells:
        raise parsed.error(parsed.tree, "it names no column.")
    return parsed


def quoted_name(name: object) -> str:
    """The name as it stands in a rule: in backticks if it is no identifier."""
    text = str(name)
    plain = re.fullmatch(r"[^\W\d]\w*", text) and text not in WORDS
    return text if plain else "`" + text.replace("`", "``") + "`"
