"""Writes what is generated from the C interfaces' sources: the header `mpi.h` and the page `docs/reference/mpi.md`.

``python tests/docs/mpi.py`` writes both; a test proves that they are up to date.
"""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
CRATE = ROOT / "crates" / "phalanx-mpi"
HEADER = CRATE / "include" / "mpi.h"
PAGE = ROOT / "docs" / "reference" / "mpi.md"

BEGIN = """\
/* MPI 5.0 with the standard's binary interface: programs compiled with this header run with every library that has it.
 *
 * Generated from the sources of phalanx; `make fix` writes it. */

#ifndef MPI_H_INCLUDED
#define MPI_H_INCLUDED

#include <stdint.h>

#ifndef MPI_ABI
#define MPI_ABI 1
#endif

#ifdef __cplusplus
extern "C" {
#endif
"""
END = """\
#ifdef __cplusplus
}
#endif

#endif
"""
INTRODUCTION = """\
# The functions of MPI

<!-- Generated from the sources; `make fix` writes it. -->

What `mpi.h` declares (MPI 5.0): {all} functions, all of which both libraries have. Functions whose name ends in `_c`
take large counts. Each function has a twin `PMPI_…` for profiling tools. What a function cannot do is an error that
says so, `MPI_ERR_UNSUPPORTED_OPERATION` where no other one fits.

Files: each process reads and writes by itself, so the file must be in reach of all; collective operations are
independent ones with the synchronization that they need. Non-blocking operations and the first halves of split ones
are done when they return, but for those at the shared file pointer. Data are in files what they are in memory, or
`"external32"`; `MPI_Register_datarep` takes representations that need no conversion, and refuses conversion functions
with `MPI_ERR_CONVERSION`.
"""


def sections_of_constants() -> list[tuple[str, list[tuple[str, str]]]]:
    """The numbers of `constants.rs`: of each section what it is about, and its names and values."""
    source = (CRATE / "src" / "constants.rs").read_text()
    sections = re.findall(r"^    /// ([^\n]*)\n    \{\n(.*?)^    \}$", source, re.MULTILINE | re.DOTALL)
    return [(about, re.findall(r"(\w+) = ([-\w]+);", numbers)) for about, numbers in sections]


def error_classes() -> list[tuple[str, str]]:
    """The names and numbers of `error.rs`."""
    source = (CRATE / "src" / "error.rs").read_text()
    return [(name, number) for number, name in re.findall(r'^    \w+ = (\d+), "(\w+)"', source, re.MULTILINE)]


def chapters() -> list[tuple[str, list[str]]]:
    """The prototypes of `functions.h` by chapter."""
    source = (CRATE / "c" / "functions.h").read_text()
    parts = re.split(r"^/\* (.*?) \*/\n", source, flags=re.MULTILINE)[3:]
    return [(title, text.split("\n\n")[0].splitlines()) for title, text in zip(parts[::2], parts[1::2], strict=True)]


def name_of(prototype: str) -> str:
    """The function that a prototype declares."""
    return prototype.split("(")[0].split()[-1]


def numbers() -> str:
    """The constants, as C has them."""
    lines = ["/* Classes of errors. */", ""]
    lines += [f"#define {name} {number}" for name, number in error_classes()]
    for about, constants in sections_of_constants():
        handle = re.fullmatch(r"`(MPI_\w+)`\.", about)
        lines += ["", f"/* {about.split(';')[0].rstrip('.').replace('`', '')}. */", ""]
        for name, value in constants:
            number = f"(({handle[1]}){value})" if handle else f"({value})" if value.startswith("-") else value
            lines.append(f"#define {name} {number}")
    return "\n".join(lines) + "\n"


def prototypes() -> str:
    """The functions, then their twins."""
    lines: list[str] = []
    for title, functions in chapters():
        lines += [f"/* {title}. */", "", *functions, ""]
    lines += ["/* The same for profiling tools. */", ""]
    for _, functions in chapters():
        lines += [re.sub(r"\b(MPIX?_\w+)\(", r"P\1(", function, count=1) for function in functions]
    return "\n".join(lines) + "\n"


def header() -> str:
    """All of `mpi.h`."""
    types = (CRATE / "c" / "types.h").read_text()
    return "\n".join([BEGIN, types, numbers(), prototypes(), END])


def page() -> str:
    """All of `docs/reference/mpi.md`."""
    text = [INTRODUCTION.format(all=sum(len(functions) for _, functions in chapters()))]
    for title, functions in chapters():
        text += [f"## {title}", "", *(f"- `{name_of(function)}`" for function in functions), ""]
    return "\n".join(text)


def main() -> None:
    """Write both."""
    for path, text in ((HEADER, header()), (PAGE, page())):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)


if __name__ == "__main__":
    main()
