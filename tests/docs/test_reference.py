"""Every public name is on a page of the reference, and its docstring says what the page needs."""

from __future__ import annotations

import ast
import dataclasses
import doctest
import importlib
import inspect
import re
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import phalanx as px
import pytest

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs" / "reference" / "python"
SHOWN = [name for page in PAGES.glob("*.md") for name in re.findall(r"^::: (\S+)$", page.read_text(), re.MULTILINE)]
#: Modules of which every public name is on a page.
MODULES = ["errors", "space", "summary", "bsp", "transfer", "profile", "words"]
#: Methods for phalanx itself, which mkdocs.yml leaves out too.
INTERNAL = {"from_native", "known", "number_in", "of", "send", "throw", "unmet"}
#: Functions for phalanx itself.
FOR_PHALANX = {"phalanx.errors.help_for", "phalanx.errors.in_one_line", "phalanx.words.check_word"}
#: Can be imported only where phalanx mpirun gives it the library.
NEEDS_MPI = "phalanx.adapters.mpi4py"
#: Classes whose instances phalanx makes, and users do not.
MADE_BY_PHALANX = ("AwaitableFuture", "Events", "Lease", "Query", "Record", "Results")
#: Of these libraries' interfaces, which document the methods.
OF_OTHERS = ("phalanx.adapters.",)


def public(module: str) -> list[str]:
    """The public names of a module: what it exports, or what it defines without an underscore."""
    found: Any = importlib.import_module(f"phalanx.{module}")
    if hasattr(found, "__all__"):
        return list(found.__all__)
    defined = (name for name, one in vars(found).items() if getattr(one, "__module__", None) == found.__name__)
    return [name for name in defined if not name.startswith("_")]


def test_every_public_name_is_on_a_page() -> None:
    shown = {id(found(path)) for path in SHOWN if not path.startswith(NEEDS_MPI)}
    exported = [f"phalanx.{name}" for name in px.__all__ if not inspect.ismodule(getattr(px, name))]
    public_names = [*exported, *(f"phalanx.{module}.{name}" for module in MODULES for name in public(module))]
    assert [path for path in public_names if id(found(path)) not in shown and path not in FOR_PHALANX] == []


def test_every_name_is_shown_once() -> None:
    assert len(SHOWN) == len(set(SHOWN))


def found(path: str) -> Any:
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)


def documented() -> Iterator[tuple[str, Any]]:
    """The classes and functions on the pages, and the methods of the classes."""
    for path in SHOWN:
        if path.startswith(NEEDS_MPI):
            continue
        one = found(path)
        if not (inspect.isclass(one) or inspect.isfunction(one)):
            continue
        yield path, one
        if inspect.isclass(one) and not path.startswith(OF_OTHERS):
            for name, method in vars(one).items():
                if not name.startswith("_") and name not in INTERNAL and inspect.isfunction(method):
                    yield f"{path}.{name}", method


DOCUMENTED = dict(documented())


def sections(one: Any) -> set[str]:
    return set(re.findall(r"^(\w+)\n-{3,}$", inspect.getdoc(one) or "", re.MULTILINE))


def raises_by_itself(function: Callable[..., Any]) -> bool:
    """Whether its own statements raise an error of phalanx."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    raised = (node.exc for node in ast.walk(tree) if isinstance(node, ast.Raise))
    calls = (one.func for one in raised if isinstance(one, ast.Call))
    return any(isinstance(call, ast.Name) and hasattr(px.errors, call.id) for call in calls)


def wanted(path: str, one: Any) -> set[str]:
    """The sections that a docstring needs. Errors have their examples on the page of errors."""
    if not inspect.isclass(one):
        is_method = path.rpartition(".")[0] in DOCUMENTED
        return wanted_of_function(one) | (set() if is_method else {"Examples"})
    if issubclass(one, BaseException):
        return set()
    is_made_here = dataclasses.is_dataclass(one) or path.endswith(MADE_BY_PHALANX)
    has_parameters = set(inspect.signature(vars(one).get("__init__", object)).parameters) - {"self"}
    return {"Examples"} | ({"Parameters"} if has_parameters and not is_made_here else set())


def wanted_of_function(function: Callable[..., Any]) -> set[str]:
    signature = inspect.signature(function)
    found = {"Parameters"} if set(signature.parameters) - {"self", "cls"} else set()
    if str(signature.return_annotation) not in ("None", "NoReturn"):
        found.add("Returns")
    return found | ({"Raises"} if raises_by_itself(function) else set())


@pytest.mark.parametrize("path", DOCUMENTED)
def test_a_docstring_has_the_sections_that_the_page_needs(path: str) -> None:
    one = DOCUMENTED[path]
    has = sections(one) | ({"Returns"} if "Yields" in sections(one) else set())
    assert wanted(path, one) - has == set()


EXAMPLES = {path: inspect.getdoc(one) or "" for path, one in DOCUMENTED.items() if ">>>" in (inspect.getdoc(one) or "")}
#: A process is one process of one BSP program, and adapters keep interpreters until their process ends.
IN_A_PROCESS = ("phalanx.bsp.", *OF_OTHERS)
ALONE = "import sys; from docs.test_reference import fails; sys.exit(fails(sys.argv[1]) or 0)"


def fails(path: str) -> str:
    """What an example prints in place of what it shows; empty if it is true."""
    told: list[str] = []
    example = doctest.DocTestParser().get_doctest(EXAMPLES[path], {}, path, None, 0)
    doctest.DocTestRunner(verbose=False).run(example, out=told.append)
    return "".join(told)


@pytest.mark.parametrize("path", EXAMPLES)
def test_an_example_of_a_docstring_is_true(path: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    if path.startswith(IN_A_PROCESS):
        monkeypatch.setenv("PYTHONPATH", f"{ROOT / 'tests'}:{ROOT}")
        done = subprocess.run([sys.executable, "-c", ALONE, path], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
    else:
        assert fails(path) == ""
