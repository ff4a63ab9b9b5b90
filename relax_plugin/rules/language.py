r"""The language of rules: a text becomes a tree of what it says; nothing of it is ever executed.

    age >= work_years + 16
    education <= was(education) or age >= was(age) + 2
    `marital-status` in ["Married", "Widowed"] and 0 <= share <= min(total, 100)

Names, numbers, texts in single or double quotes, ``+ - * /``, ``abs``, ``min``, ``max``, comparisons (chained too),
``in`` and ``not in`` a list, ``and``, ``or``, ``not``, ``place(name)``: the place of an ordered category in its order,
from 1 on, and ``was(name)``: the query's own value. Names that are no identifiers stand in backticks, in which a
backtick is doubled; in a text, ``\'``, ``\"`` and ``\\`` are escapes.
"""

import re
from collections.abc import Callable
from typing import Literal, NoReturn

from relax_plugin.errors import ConstraintError
from relax_plugin.rules.syntax import (
    TRUTHS,
    Call,
    Cell,
    Comparison,
    Expression,
    Junction,
    Membership,
    Not,
    Number,
    Parsed,
    Product,
    Source,
    Sum,
    Text,
    Token,
    cells_of,
    tokens,
)

MOST_CHARACTERS = 2000  # of one rule
MOST_NESTING = 32  # of parentheses, functions and signs in each other; Python's own stack bears ten times as many

FUNCTIONS = {"abs": 1, "min": 2, "max": 2, "place": 1}  # and how many arguments each takes
COMPARISONS = ("==", "!=", "<", "<=", ">", ">=")
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
    "if": "say it by and, or and not",
}


def parse_rule(text: object) -> Parsed:
    """The tree of a rule: a text that is true or false of a row."""
    parsed = _Parser(_source(text, "rule")).parse()
    if not isinstance(parsed.tree, TRUTHS):
        raise parsed.source.error(
            parsed.tree.at, "this is a value, but a rule must be true or false; compare it with something, by <= say."
        )
    _refuse_without_names(parsed)
    return parsed


def parse_formula(text: object) -> Parsed:
    """The tree of the formula of a derived column: a text that is a number in every row."""
    parsed = _Parser(_source(text, "formula")).parse()
    if isinstance(parsed.tree, TRUTHS):
        raise parsed.source.error(parsed.tree.at, "this is true or false, but a formula must be a number.")
    for cell in cells_of(parsed.tree):
        if cell.was:
            raise parsed.source.error(cell.at, "a formula is computed from one row alone; was() is for rules.")
    if isinstance(parsed.tree, Text):
        raise parsed.source.error(parsed.tree.at, "this is a text, but a formula must be a number.")
    _refuse_without_names(parsed)
    return parsed


def _source(text: object, what: Literal["rule", "formula"]) -> Source:
    if not isinstance(text, str):
        raise ConstraintError(f"a {what} is a text such as {'a <= b' if what == 'rule' else 'a + b'!r}, not {text!r}.")
    source = Source(str(text), what)
    if len(text) > MOST_CHARACTERS:
        raise source.error(
            MOST_CHARACTERS, f"it has {len(text):,} characters, but {MOST_CHARACTERS:,} are the most; make it several."
        )
    return source


def _refuse_without_names(parsed: Parsed) -> None:
    if next(cells_of(parsed.tree), None) is None:
        raise parsed.source.error(parsed.tree.at, "it names no column.")


class _Parser:
    """Reads a text from left to right: one method for each strength by which operators bind."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.tokens = list(tokens(source))
        self.next = 0
        self.nesting = 0

    @property
    def token(self) -> Token:
        return self.tokens[self.next]

    def parse(self) -> Parsed:
        if self.token.kind == "end":
            raise self.source.error(0, f"the {self.source.what} is empty.")
        tree = self.disjunction()
        if self.token.kind != "end":
            self.refuse("and, or, a comparison or an arithmetic sign")
        return Parsed(self.source, tree)

    def refuse(self, expected: str) -> NoReturn:
        """Point at the next token, which is not what may stand there."""
        token = self.token
        if token.kind == "end":
            raise self.source.error(token.at, f"it ends where there should be {expected}.")
        hint = INSTEAD.get(token.text, INSTEAD.get(token.text[:1], "") if token.kind == "symbol" else "")
        if token.kind == "name" and self.next and self.tokens[self.next - 1].kind == "name":
            hint = hint or "a name with a space in it stands in backticks"
        raise self.source.error(
            token.at, f"{token.text!r} stands where there should be {expected}{'; ' if hint else ''}{hint}."
        )

    def took(self, *texts: str) -> Token | None:
        """The next token, if it is one of these words or signs."""
        token = self.token
        if token.kind not in ("word", "symbol") or token.text not in texts:
            return None
        self.next += 1
        return token

    def demand(self, text: str) -> None:
        if not self.took(text):
            self.refuse(text)

    def nested(self, read: Callable[[], Expression]) -> Expression:
        if self.nesting == MOST_NESTING:
            raise self.source.error(self.token.at, f"it is nested more than {MOST_NESTING} deep; make it several.")
        self.nesting += 1
        node = read()
        self.nesting -= 1
        return node

    def truth(self, node: Expression) -> Expression:
        if not isinstance(node, TRUTHS):
            raise self.source.error(node.at, "this is a value, but what and, or, not join must be true or false.")
        return node

    def value(self, node: Expression, where: str) -> Expression:
        if isinstance(node, TRUTHS):
            raise self.source.error(node.at, f"this is true or false, but {where} needs a value.")
        return node

    def number(self, node: Expression) -> Expression:
        if isinstance(node, Text):
            raise self.source.error(node.at, f"{node.value!r} is a text, with which one cannot calculate.")
        return self.value(node, "arithmetic")

    def disjunction(self) -> Expression:
        return self.junction("or", lambda: self.junction("and", self.negation))

    def junction(self, word: Literal["and", "or"], read: Callable[[], Expression]) -> Expression:
        parts, first = [read()], self.token
        while self.took(word):
            parts.append(self.truth(read()))
        return Junction(first.at, word, (self.truth(parts[0]), *parts[1:])) if len(parts) > 1 else parts[0]

    def negation(self) -> Expression:
        if token := self.took("not"):
            return Not(token.at, self.truth(self.nested(self.negation)))
        return self.comparison()

    def comparison(self) -> Expression:
        sides, signs = [self.sum()], []
        if member := self.membership(sides[0]):
            return member
        while sign := self.took(*COMPARISONS):
            self.value(sides[-1], sign.text)
            signs.append(sign)
            sides.append(self.sum())
        if not signs:
            return sides[0]
        if self.token.text in ("in", "not"):
            raise self.source.error(self.token.at, f"{self.token.text!r} stands in a chain; join the two by and.")
        self.value(sides[-1], signs[-1].text)
        return Comparison(signs[0].at, tuple(sides), tuple(s.text for s in signs), tuple(s.at for s in signs))

    def membership(self, item: Expression) -> Expression | None:
        """What follows, if it is `in [...]` or `not in [...]`."""
        first = self.token
        negated = self.took("not") is not None
        if not self.took("in"):
            if negated:
                self.refuse("in")
            return None
        if not self.took("["):
            self.refuse('a list, such as ["a", "b"]')
        values = [self.literal()]
        while self.took(","):
            values.append(self.literal())
        self.demand("]")
        if self.token.text in (*COMPARISONS, "in", "not"):
            raise self.source.error(self.token.at, f"{self.token.text!r} stands after a list; join the two by and.")
        return Membership(first.at, self.value(item, "in"), tuple(values), negated)

    def literal(self) -> Number | Text:
        start = self.next
        node = self.sign() if self.token.kind in ("number", "text", "word") or self.token.text in ("-", "+") else None
        if not isinstance(node, Number | Text):
            self.next = start
            self.refuse("a number or a text in quotes")
        return node

    def sum(self) -> Expression:
        terms, signs, place = [self.product()], [1], self.token.at
        while sign := self.took("+", "-"):
            terms.append(self.number(self.product()))
            signs.append(1 if sign.text == "+" else -1)
        return Sum(place, (self.number(terms[0]), *terms[1:]), tuple(signs)) if len(terms) > 1 else terms[0]

    def product(self) -> Expression:
        factors, divides, place = [self.sign()], [False], self.token.at
        while sign := self.took("*", "/"):
            factors.append(self.number(self.sign()))
            divides.append(sign.text == "/")
        return (
            Product(place, (self.number(factors[0]), *factors[1:]), tuple(divides)) if len(factors) > 1 else factors[0]
        )

    def sign(self) -> Expression:
        token = self.took("+", "-")
        if token is None:
            return self.operand()
        node = self.number(self.nested(self.sign))
        if token.text == "+":
            return node
        return Number(token.at, -node.value) if isinstance(node, Number) else Sum(token.at, (node,), (-1,))

    def operand(self) -> Expression:
        token = self.token
        if self.took("("):
            node = self.nested(self.disjunction)
            self.demand(")")
            return node
        if self.took("True", "False"):
            return Number(token.at, token.text == "True")
        if token.kind not in ("number", "text", "name", "quoted_name"):
            self.refuse("a name, a number or a text in quotes")
        self.next += 1
        if token.kind == "number":
            return self.finite(token)
        if token.kind == "text":
            return Text(token.at, self.unescaped(token))
        called = token.kind == "name" and self.took("(")
        return self.call(token) if called else Cell(token.at, self.plain_name(token), was=False)

    def plain_name(self, token: Token) -> str:
        return token.text[1:-1].replace("``", "`") if token.kind == "quoted_name" else token.text

    def call(self, function: Token) -> Expression:
        """What is called, after its opening parenthesis."""
        if function.text == "was":
            name = self.token
            if name.kind not in ("name", "quoted_name"):
                self.refuse("the name of a column, whose value in the query was() is")
            self.next += 1
            self.demand(")")
            return Cell(function.at, self.plain_name(name), was=True)
        if function.text not in FUNCTIONS:
            raise self.source.error(
                function.at, f"{function.text!r} is no function of the language; it has {', '.join(FUNCTIONS)} and was."
            )
        arguments = [self.number(self.nested(self.disjunction))]
        while self.took(","):
            arguments.append(self.number(self.nested(self.disjunction)))
        self.demand(")")
        count = FUNCTIONS[function.text]
        if len(arguments) != count:
            raise self.source.error(
                function.at, f"{function.text}() takes {count} argument{'s'[: count - 1]}, not {len(arguments)}."
            )
        return Call(function.at, function.text, tuple(arguments))

    def finite(self, token: Token) -> Number:
        value = float(token.text)
        if value - value != 0:
            raise self.source.error(token.at, f"{token.text[:20]} is beyond what a number can be.")
        whole = token.text.replace("_", "").isdigit()
        return Number(token.at, int(token.text) if whole else value)

    def unescaped(self, token: Token) -> str:
        for escape in re.finditer(r"\\(.)", token.text, flags=re.DOTALL):
            if escape[1] not in "'\"\\":
                raise self.source.error(
                    token.at + escape.start(), "a backslash stands only before a quote or another backslash; double it."
                )
        return re.sub(r"\\(.)", r"\1", token.text[1:-1], flags=re.DOTALL)
