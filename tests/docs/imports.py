"""Who imports whom: module graphs, read from the text of the crates and of the Python package."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

# Each module with the modules it names. The root of a crate or package is the empty name.
Graph = dict[str, set[str]]


def rust_graph(source: Path) -> Graph:
    """The modules of the crate whose files are in `source`, as `flow::graph`, and of folders that it includes."""
    files = {module_name(path, source, "::"): rust_code(path) for path in rust_files(source)}
    for name, folder in included_folders(source):
        for path in rust_files(folder):
            files[f"{name}::{module_name(path, folder, '::')}".removesuffix("::")] = rust_code(path)
    return {
        name: {longest(resolved(path, name), files, "::") for path in rust_paths(code)} for name, code in files.items()
    }


def included_folders(source: Path) -> list[tuple[str, Path]]:
    """Modules that a crate has from another one's folder (`#[path = "…/mod.rs"]`)."""
    found = re.findall(r'#\[path = "([^"]+)/mod\.rs"\]\s*(?:pub )?mod (\w+);', (source / "lib.rs").read_text())
    return [(name, (source / folder).resolve()) for folder, name in found]


def rust_files(source: Path) -> list[Path]:
    """The files of a crate, without those that only hold tests: these may name everything."""
    return [path for path in source.rglob("*.rs") if "tests" not in path.relative_to(source).with_suffix("").parts]


def rust_code(path: Path) -> str:
    """A file without its comments and without the tests at its end."""
    code = re.sub(r"//[^\n]*|/\*.*?\*/", "", path.read_text(), flags=re.DOTALL)
    code = re.split(r"#\[cfg\(test\)\]\s*mod \w+ \{", code)[0]
    # In a module that is written inside of the file, `super` is the file itself.
    inside = re.compile(r"^(?:pub )?mod \w+ \{.*?^\}", re.DOTALL | re.MULTILINE)
    return inside.sub(lambda module: module[0].replace("super::", "self::"), code)


def rust_paths(code: str) -> Iterator[str]:
    """`crate::a::b` and `super::c` wherever they stand in the code."""
    for path, names in re.findall(r"\b((?:crate|super)::[\w:]*)(\{[^;]*\})?", code):
        yield from expanded(path + names)


def expanded(path: str) -> list[str]:
    """`a::{b, c::{d, e}}` → `a::b`, `a::c::d`, `a::c::e`."""
    start, brace, rest = path.partition("{")
    if not brace:
        return [path.strip()]
    names = re.findall(r"(?:[^,{}]|\{[^{}]*\})+", rest.rstrip()[:-1])
    return [start.strip() + inner for name in names for inner in expanded(name)]


def resolved(path: str, module: str) -> list[str]:
    """The parts of a Rust path as seen from the crate's root."""
    parts = module.split("::") if path.startswith("super") else []
    for part in re.findall(r"\w+", path):
        if part == "super":
            parts = parts[:-1]
        elif part not in ("crate", "self"):
            parts = [*parts, part]
    return parts


def python_graph(source: Path, package: str = "phalanx") -> Graph:
    """The modules of the package in `source`, as `cli.demo`. Imports in functions and for types count too."""
    files = {module_name(path, source, "."): path for path in source.rglob("*.py")}
    names = {*files, "_native"}
    return {
        name: {longest(parts, names, ".") for parts in python_imports(path, source, package)}
        for name, path in files.items()
    }


def python_imports(path: Path, source: Path, package: str) -> Iterator[list[str]]:
    """The parts of each name that a file imports from its own package, as seen from the package's root."""
    folder = [package, *path.relative_to(source).parent.parts]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found = [name.name.split(".") for name in node.names]
        elif isinstance(node, ast.ImportFrom):
            start = folder[: len(folder) + 1 - node.level] if node.level else []
            start = [*start, *(node.module.split(".") if node.module else [])]
            found = [[*start, name.name] for name in node.names]
        else:
            continue
        yield from (parts[1:] for parts in found if parts[0] == package)


def module_name(path: Path, source: Path, separator: str) -> str:
    """`flow/mod.rs` → `flow`, `cli/demo.py` → `cli.demo`."""
    parts = path.relative_to(source).with_suffix("").parts
    return separator.join(part for part in parts if part not in ("mod", "lib", "__init__"))


def longest(parts: list[str], modules: Iterable[str], separator: str) -> str:
    """The module that a path leads into: what is left when the names of its items are cut off."""
    while parts and separator.join(parts) not in modules:
        parts = parts[:-1]
    return separator.join(parts)
