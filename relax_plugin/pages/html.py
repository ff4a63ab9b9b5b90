"""Self-contained HTML pages: the templates, and safe data in scripts."""

import json
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup


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
