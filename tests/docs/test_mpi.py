"""The C interfaces: what is generated is up to date, and both libraries have and declare what the header says."""

from __future__ import annotations

import ctypes
import os
import re
from pathlib import Path

import pytest
from phalanx._commands import LIBRARIES

from docs import mpi

PROTOTYPES = [function for _, functions in mpi.chapters() for function in functions]
NAMES = [mpi.name_of(function) for function in PROTOTYPES]
# What a type of C is called in the declarations in Rust; large counts and others have names of their own there.
TYPES = {
    "int": {"c_int", "Count", "Displacement"},
    "double": {"c_double"},
    "MPI_Aint": {"MPI_Aint", "Address"},
    "MPI_Count": {"MPI_Count"},
    "MPI_Offset": {"MPI_Offset", "MPI_Count"},
}


@pytest.mark.parametrize(("path", "text"), [(mpi.HEADER, mpi.header()), (mpi.PAGE, mpi.page())], ids=["header", "page"])
def test_what_is_generated_is_up_to_date(path: Path, text: str) -> None:
    assert path.read_text() == text, "`make fix` writes it"


@pytest.mark.parametrize("library", ["libmpi_abi.so.1", "libmpi.so.12"])
def test_a_library_has_every_function_and_its_twin(library: str) -> None:
    loaded = ctypes.CDLL(str(LIBRARIES / library), mode=os.RTLD_LOCAL | os.RTLD_NOW)
    assert [name for name in NAMES if not (hasattr(loaded, name) and hasattr(loaded, f"P{name}"))] == []


def test_functions_are_listed_once() -> None:
    assert len(NAMES) == len(set(NAMES))


def declared() -> dict[str, list[str]]:
    """The types of the arguments of every function that is declared in Rust, by its name."""
    found: dict[str, list[str]] = {}
    for path in sorted((mpi.CRATE / "c").glob("*.rs")):
        source = re.sub(r"//.*", "", path.read_text())
        for kind, name, arguments in re.findall(
            r"^    (\w*fn) (MPIX?_\w+)\s*\((.*?)\)\s*(?:on|->|\{)", source, re.M | re.S
        ):
            parts = [part.split(":", 1)[1].strip() for part in split(arguments)]
            found[name] = parts
            if kind == "large_fn":
                found[f"{name}_c"] = [LARGE.get(part, part) for part in parts]
        for kind, *names, arguments in re.findall(
            r"^    (\w*fn) (MPIX?_\w+) (MPIX?_\w+) (MPIX?_\w+)\s*\((.*?)\)\s*on", source, re.M | re.S
        ):
            parts = [part.split(":", 1)[1].strip() for part in split(arguments)]
            ends: list[list[str]] = [[], ["Out<MPI_Request>"], ["MPI_Info", "Out<MPI_Request>"]]
            for name, end in zip(names, ends, strict=True):
                found[name] = parts + end
                if kind == "large_fn":
                    found[f"{name}_c"] = [LARGE.get(part, part) for part in parts + end]
    return found


LARGE = {"Count": "MPI_Count", "Displacement": "MPI_Aint", "Address": "MPI_Count"}


def split(arguments: str) -> list[str]:
    """At the commas that are not inside brackets."""
    parts, depth = [""], 0
    for character in arguments:
        depth += (character in "<([") - (character in ">)]")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part for part in parts if part.strip()]


def of_c(prototype: str) -> list[str]:
    """The types of a prototype's arguments."""
    arguments = prototype[prototype.index("(") + 1 : prototype.rindex(")")]
    parts = [] if arguments == "void" else arguments.split(", ")
    return [re.sub(r"(\w+)((?:\[\d*\])*)$", r"\2", part).strip() for part in parts if part != "..."]


def is_pointer(c_type: str) -> bool:
    return "*" in c_type or "[" in c_type or "function" in c_type


def agree(c_type: str, rust: str) -> bool:
    """Whether both are passed alike: as the same integer or handle, or as an address."""
    if is_pointer(c_type):
        return bool(re.match(r"Out|In\b|Array|Text|\*|Option|Copying|Deleting|User|In<", rust))
    plain = c_type.removeprefix("const ")
    return rust in TYPES.get(plain, {plain})


def test_rust_declares_functions_as_c_does() -> None:
    rust = declared()
    assert len(rust) > 200, "the declarations were not found"
    assert "MPI_Bcast_init_c" in rust, "the collective ones were not found"
    wrong = []
    for prototype in PROTOTYPES:
        name, types = mpi.name_of(prototype), of_c(prototype)
        if name in rust and (
            len(types) != len(rust[name]) or not all(agree(c, r) for c, r in zip(types, rust[name], strict=True))
        ):
            wrong.append(f"{name}: {types} and {rust[name]}")
    assert wrong == [], "\n".join(wrong)
