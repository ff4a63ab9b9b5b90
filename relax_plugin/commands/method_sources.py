"""What the methods of this package support, read off their source: a list of them imports none of their libraries."""

import ast
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from relax_plugin.registry import BUILT_IN

ROOT = "CounterfactualExplainer"
SUPPORTS = ("relax_plugin.supports", "Supports")


class Class(NamedTuple):
    """A class in the source of a module."""

    module: str
    node: ast.ClassDef


def supports_of(name: str) -> dict[str, Any]:
    """What a built-in method says of itself in `supports`; what it does not say is as `Supports` has it.

    Only what is written out in the source: settings that are names, such as `objectives`, are left out.
    """
    usual: dict[str, Any] = {}
    for field in _class(*SUPPORTS).node.body:
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and field.value is not None:
            usual |= _literal(field.target.id, field.value)
    told = usual
    for found in reversed([*_with_bases(BUILT_IN[name][0])]):
        for node in found.node.body:
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "supports":
                assert isinstance(node.value, ast.Call)
                anew = ast.unparse(node.value.func) == SUPPORTS[1]  # else it is `replace`, of what the base supports
                told = dict(usual if anew else told)
                for keyword in node.value.keywords:
                    told |= _literal(str(keyword.arg), keyword.value)
    return told


def defaults_of(name: str) -> dict[str, Any]:
    """The parameters of a built-in method but for its model, with their defaults as texts and numbers."""
    for found in _with_bases(BUILT_IN[name][0]):
        for node in found.node.body:
            if isinstance(node, ast.FunctionDef) and node.name == "__init__":
                return dict(_defaults(found.module, node.args))
    raise AssertionError(f"{name} has no parameters")


def _defaults(module: str, arguments: ast.arguments) -> Iterator[tuple[str, Any]]:
    positional = arguments.args[1:]
    given = [*[None] * (len(positional) - len(arguments.defaults)), *arguments.defaults]
    pairs = [*zip(positional, given, strict=True), *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)]
    for argument, default in pairs:
        if default is not None:
            yield argument.arg, _value(module, default)


def _literal(name: str, node: ast.expr) -> dict[str, Any]:
    try:
        return {name: ast.literal_eval(node)}
    except ValueError:
        return {}


def _value(module: str, node: ast.AST) -> Any:
    """A value that is written out, or that a constant of a module of this package has."""
    while isinstance(node, ast.Name):
        module, node = _definition(module, node.id)
    assert isinstance(node, ast.expr)
    return ast.literal_eval(node)


def _with_bases(where: str) -> Iterator[Class]:
    """A class and those that it is made of, the first base first."""
    found = _class(*where.split(":"))
    while True:
        yield found
        if found.node.name == ROOT:  # whose own bases are of other packages
            return
        (base,) = found.node.bases
        assert isinstance(base, ast.Name)
        found = _class(found.module, base.id)


def _class(module: str, name: str) -> Class:
    module, node = _definition(module, name)
    assert isinstance(node, ast.ClassDef)
    return Class(module, node)


@cache
def _definition(module: str, name: str) -> tuple[str, ast.AST]:
    """Where a class or a constant is written, followed through imports."""
    for node in _body(module):
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                if (alias.asname or alias.name) == name:
                    return _definition(str(node.module), alias.name)
        elif isinstance(node, ast.ClassDef) and node.name == name:
            return module, node
        elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(isinstance(target, ast.Name) and target.id == name for target in targets):
                return module, node.value
    raise AssertionError(f"{module} has no {name}")


@cache
def _body(module: str) -> list[ast.stmt]:
    spec = find_spec(module)
    assert spec is not None and spec.origin is not None
    return ast.parse(Path(spec.origin).read_text(encoding="utf-8")).body
