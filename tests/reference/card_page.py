"""A card as it is read: the elements of a page as a tree, found by tag and class, with their texts and tables."""

from html.parser import HTMLParser
from typing import Any

VOID = {"meta", "link", "input", "br", "img", "wbr"}


class Element:
    """An element: its tag, attributes, children and text."""

    def __init__(self, tag: str, attributes: dict[str, Any]) -> None:
        self.tag, self.attributes, self.children = tag, attributes, []

    @property
    def text(self) -> str:
        """What is read, spaces joined; styles and scripts are not."""
        parts = [child if isinstance(child, str) else child.text for child in self.children]
        return "" if self.tag in ("style", "script") else " ".join(" ".join(parts).split())

    def walk(self):
        """All elements below, in order."""
        for child in self.children:
            if isinstance(child, Element):
                yield child
                yield from child.walk()

    def all(self, what: str) -> list["Element"]:
        """Elements of a tag, or with a class that begins with a dot."""
        if what.startswith("."):
            return [one for one in self.walk() if what[1:] in (one.attributes.get("class") or "").split()]
        return [one for one in self.walk() if one.tag == what]

    def one(self, what: str) -> "Element":
        (found,) = self.all(what)
        return found

    @property
    def lines(self) -> list[list[str]]:
        """The rows of the tables inside, without their headings."""
        rows = [[cell.text for cell in row.children if isinstance(cell, Element)] for row in self.all("tr")]
        heads = [row for row in self.all("thead") for row in row.all("tr")]
        return rows[1:] if heads else rows


class Parsed(HTMLParser):
    """A page as a tree; `root` holds it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.root = Element("page", {})
        self.open = [self.root]
        self.feed(text)
        assert self.open == [self.root], "every element is closed"

    def handle_starttag(self, tag, attributes):
        made = Element(tag, dict(attributes))
        self.open[-1].children.append(made)
        if tag not in VOID:
            self.open.append(made)

    def handle_endtag(self, tag):
        assert self.open[-1].tag == tag
        self.open.pop()

    def handle_data(self, data):
        self.open[-1].children.append(data)


def parsed(text: str) -> Element:
    return Parsed(text).root
