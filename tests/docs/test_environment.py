"""The page of environment variables has all that the code reads, and no others that begin with PHALANX."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "operations" / "environment.md"
#: Where a name stands by itself in the code: a variable of phalanx's own, or one that says how many threads there are.
OWN = re.compile(r'"(PHALANX_[A-Z_]+|[A-Z]+_(?:NUM|MAXIMUM)_THREADS)"')
READ = re.compile(
    r'(?:environ(?:\.get\(|\.pop\(|\[)|getenv\(|env::var(?:_os)?\()"([A-Z_]+)"|"([A-Z_]+)" (?:not )?in os\.environ'
)
#: Read by libraries, by a function that does not name them.
BY_LIBRARIES = {"Path.home()": "HOME", "std::env::temp_dir()": "TMPDIR"}


def read() -> set[str]:
    """The variables that the sources name, except those of their own tests."""
    rust = [path for path in ROOT.glob("crates/*/src/**/*.rs") if "tests" not in path.parts and path.stem != "tests"]
    found = set()
    for path in [*rust, *ROOT.glob("python/phalanx/**/*.py"), *ROOT.glob("packages/*/src/**/*.py")]:
        text = path.read_text()
        found |= set(OWN.findall(text)) | {one or other for one, other in READ.findall(text)}
        found |= {name for call, name in BY_LIBRARIES.items() if call in text}
    return found


def named() -> set[str]:
    """The variables that the page names."""
    return set(re.findall(r"`([A-Z][A-Z_]+)`", PAGE.read_text()))


def test_the_page_has_all_variables() -> None:
    found = read()
    assert {"PHALANX_HOME", "XDG_RUNTIME_DIR", "NO_COLOR", "PHALANX_RANK", "OMP_NUM_THREADS", "TMPDIR"} <= found
    assert found - named() == set()


def test_the_page_has_no_variable_that_nothing_reads() -> None:
    of_tests = {"PHALANX_WRITE_VECTORS"}
    assert {name for name in named() if name.startswith("PHALANX_")} - read() - of_tests == set()


def test_the_allow_list_of_cages_is_that_of_the_code() -> None:
    source = (ROOT / "crates/phalanx-node/src/cage/environment.rs").read_text()
    lists = re.findall(r"const (?:NAMES|PREFIXES): &\[&str\] = &\[(.*?)\]", source, re.DOTALL)
    names = re.findall(r'"([A-Z0-9_]+)"', "".join(lists))
    page = PAGE.read_text()
    assert len(names) > 20
    assert [name for name in names if f"`{name}`" not in page and f"`{name}…`" not in page] == []
