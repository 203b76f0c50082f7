"""Docstrings as mkdocstrings needs them: roles of Sphinx become links, and comments ``#:`` describe attributes."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from griffe import Attribute, Docstring, Extension, Object, ObjectNode

from website.pages import DOCS
from website.parameters import with_parameters_apart

#: A role of Sphinx, like ``:class:`phalanx.Space` ``.
ROLE = re.compile(r":(?:class|func|meth|mod|data|exc|attr):`~?([\w.]+)`")
SHOWN = re.compile(r"^::: (\S+)$", re.MULTILINE)


class ForSite(Extension):  # type: ignore[misc]
    """An extension of Griffe, which reads the sources for mkdocstrings."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        """Roles in its docstring become links. An error links to what it means."""
        if obj.docstring:
            if obj.is_class and obj.module.path == "phalanx.errors":
                first, gap, rest = obj.docstring.value.partition("\n\n")
                remedy = f"[Its message, and what to do][{obj.name.lower()}]"
                obj.docstring.value = f"{first}\n\n{remedy}{gap}{rest}"
            text = with_parameters_apart(obj.docstring.value)
            obj.docstring.value = ROLE.sub(lambda role: _link(role[1], obj), text)

    def on_attribute_instance(self, *, node: ast.AST | ObjectNode, attr: Attribute, **_: Any) -> None:
        """A comment ``#:`` above it is its docstring."""
        if attr.docstring is None and isinstance(attr.filepath, Path) and attr.lineno:
            text = " ".join(_comment(attr.filepath, attr.lineno))
            if text:
                attr.docstring = Docstring(text, parent=attr)


def _link(name: str, obj: Object) -> str:
    """A link to what a docstring names, if the site shows it; otherwise its name."""
    scopes = [f"{obj.path}.", f"{obj.path.rpartition('.')[0]}.", "phalanx.", "phalanx.errors.", ""]
    for found in (f"{scope}{name}" for scope in scopes):
        if found in shown():
            return f"[`{name.removeprefix('phalanx.')}`][{found}]"
    return f"`{name}`"


@cache
def shown() -> frozenset[str]:
    """The objects for which the pages ask."""
    return frozenset(name for page in DOCS.rglob("*.md") for name in SHOWN.findall(page.read_text()))


@cache
def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines()


def _comment(path: Path, number: int) -> Iterator[str]:
    """The lines of the comment ``#:`` that ends above a line."""
    lines = _lines(path)
    first = number - 1
    while first > 0 and lines[first - 1].strip().startswith("#:"):
        first -= 1
    return (line.strip().removeprefix("#:").strip().replace("``", "`") for line in lines[first : number - 1])
