"""The order of the layers, and no cycles between modules, in the crates and in the Python packages.

A module stands on one line of the order; it may import what stands on the lines above, and nothing of its own
line. What is inside a module's folder is free, without cycles. A module that does not exist yet is absent.
"""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest
from docs.imports import Graph, python_graph, rust_code, rust_files, rust_graph

ROOT = Path(__file__).parents[2]

# The order, low to high. Whoever adds a module gives it a place here. The root is lib.rs or __init__.py.
MODULES = {
    "phalanx-core": [
        "cage fairness ids level error text voluntary",
        "needs proxy",
        "wire",
        "event",
        "flow hub lan launch space spmd transfer",
        "jobs",
        "root",
    ],
    "phalanx-net": [
        "address copy file_lock pages preamble private_folder sync",
        "forks replace",
        "body",
        "memory seal",
        "connection frames sealed socket",
        "identity",
        "blocks multicast relay runtime tls transport",
        "stream",
        "link",
        "news",
        "bundle dial",
        "root",
    ],
    "phalanx-node": [
        "accounts activity cgroups ending quota threads",
        "limits",
        "cage control credit delegated explain files given known_members lines log tables turn",
        "gpus learned metering scratch",
        "energy",
        "confined dial dialler door journal keeper printing prints recruit rules worked",
        "contents interpreter space",
        "comm interpreter_link lan local membership places remote",
        "asked connect transfer",
        "hub ranks",
        "manager executor",
        "dashboard",
        "root",
    ],
    # A checker. The models in its tests see what is public of the other crates.
    "phalanx-models": ["root"],
    # Message passing: what moves, what programs hold, what they do with it, how worlds begin and end.
    "phalanx-mpi": ["constants error", "process", "objects", "operations", "universe", "bsp", "root"],
    # `c` has MPI's functions, which both interfaces include.
    "phalanx-mpi-standard": ["abi", "c", "root"],
    "phalanx-mpi-mpich": ["abi", "c", "fortran removed", "root"],
    "phalanx-bsp": ["process", "root"],
    "phalanx-py": [
        "errors graph needs owners text turn",
        "absent bsp buffers grid policy",
        "tokens transfer weights",
        "files interpreter manager",
        "comm space",
        "hub lan",
        "asked",
        "executor jobs ranks",
        "root",
    ],
    "python": [
        "_file_locks _native",
        "_atomic _call _copying _progress _shown _temporary _unpacking errors summary words",
        "_course _waiting members",
        "_asynchronous _identities arrays hosts profile requirements security status",
        "_addresses",
        "_pickling _refusals _voluntary lan",
        "_grids",
        "pilots",
        "_jobs _reach",
        "_futures _instructions _output _program _tokens contracts setups",
        "_accounts _commands _folding _staying skeletons",
        "firing",
        "_cage _compile _interpreter _outcomes _prologue _results _stream",
        "_packages _runs _staging",
        "_mapping",
        "_submissions dashboard launching",
        "manager",
        "space bsp transfer",
        "grid",
        "root",
        "adapters demo deploying tes",
        "api",
        "checking",
        "cli",
        "__main__",
    ],
    "phalanx_redis": ["_server", "_waiting", "_engine", "root"],
}
# The wings of a module that is as large as a crate, low to high. The root is the module itself.
WINGS: dict[tuple[str, str], list[str]] = {
    ("phalanx-node", "transfer"): ["system", "patterns", "disk", "endpoint", "client", "files", "server", "root"],
}
# What each crate may depend on.
CRATES: dict[str, set[str]] = {
    "phalanx-core": set(),
    "phalanx-net": {"phalanx-core"},
    "phalanx-node": {"phalanx-core", "phalanx-net"},
    "phalanx-models": {"phalanx-core", "phalanx-net"},
    "phalanx-mpi": {"phalanx-core", "phalanx-net"},
    "phalanx-mpi-standard": {"phalanx-mpi"},
    "phalanx-mpi-mpich": {"phalanx-mpi"},
    "phalanx-bsp": {"phalanx-mpi", "phalanx-net"},
    "phalanx-py": {"phalanx-core", "phalanx-mpi", "phalanx-net", "phalanx-node"},
}
# The sentence for which a crate exists: whose business a library is, and what a crate must not name.
ONLY_IN = {
    "pyo3": "phalanx-py",
    "ring": "phalanx-net",
    "rustls": "phalanx-net",
    "rcgen": "phalanx-net",
    "socket2": "phalanx-net",
    "redb": "phalanx-node",
    "openraft": "phalanx-node",
    "tokio": "phalanx-node",
    "zstd-safe": "phalanx-node",
}
SOCKETS = r"\b(Tcp|Udp|Unix)(Stream|Listener|Socket|Datagram)\b"
MUST_NOT_NAME = {
    "phalanx-core": r"std::(net|fs|thread|process|env|io)\b|\b(Instant|SystemTime)\b",
    **dict.fromkeys(set(CRATES) - {"phalanx-core", "phalanx-net"}, SOCKETS),
}


def graph_of(part: str) -> Graph:
    """The modules of a crate, or of a Python package."""
    if part == "python":
        return python_graph(ROOT / "python" / "phalanx")
    if part == "phalanx_redis":
        return python_graph(ROOT / "packages" / "phalanx-redis" / "src" / part, part)
    return rust_graph(ROOT / "crates" / part / "src")


def place(module: str) -> str:
    """`flow::graph` and `flow` stand where `flow` stands; the empty name is the root."""
    return re.split(r"::|\.", module)[0] or "root"


def within(graph: Graph, module: str) -> Graph:
    """The part of a graph inside a module, by names within it."""
    inside = {name for name in graph if name == module or name.startswith(f"{module}::")}
    return {_inner(name, module): {_inner(it, module) for it in graph[name] & inside} for name in inside}


def _inner(name: str, module: str) -> str:
    return name[len(module) :].removeprefix("::")


def misplaced(graph: Graph, order: list[str]) -> list[str]:
    """What breaks the order, as sentences."""
    below = {name: set(" ".join(order[:at]).split()) for at, line in enumerate(order) for name in line.split()}
    found = []
    for module, imported in sorted(graph.items()):
        if place(module) not in below:
            found.append(f"{module} has no place in the order of layers: give it one in {Path(__file__).name}")
            continue
        wrong = {name for name in imported if place(name) not in below[place(module)] | {place(module)}}
        found += [f"{module or 'root'} imports {name or 'root'}, not below it" for name in sorted(wrong)]
    return found


def in_a_cycle(graph: Graph) -> set[str]:
    """Modules that import each other in a ring, and those between two rings.

    A folder and its files count as one, and the root, which gathers what the others have, does not count.
    """

    def counts(one: str, other: str) -> bool:
        a, b = re.split(r"::|\.", one), re.split(r"::|\.", other)
        return bool(one and other) and a[: len(b)] != b and b[: len(a)] != a

    left = {module: {name for name in names if counts(module, name)} for module, names in graph.items()}
    while ends := [name for name in left if not left[name] & left.keys() or name not in set().union(*left.values())]:
        for module in ends:
            del left[module]
    return set(left)


@pytest.mark.parametrize("part", MODULES)
def test_modules_keep_the_order_and_make_no_cycles(part: str) -> None:
    graph = graph_of(part)
    assert graph, "no modules were found"
    found = misplaced(graph, MODULES[part])
    assert not found, "\n".join(found)
    assert not in_a_cycle(graph)


@pytest.mark.parametrize(("part", "module"), WINGS)
def test_wings_keep_their_order(part: str, module: str) -> None:
    graph = within(graph_of(part), module)
    assert len(graph) > 1, "no modules were found"
    found = misplaced(graph, WINGS[part, module])
    assert not found, "\n".join(found)


def test_crates_keep_the_order() -> None:
    command = ["cargo", "metadata", "--no-deps", "--offline", "--format-version", "1"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
    for package in json.loads(done.stdout)["packages"]:
        name = package["name"]
        for needed in {dependency["name"] for dependency in package["dependencies"]}:
            assert needed not in CRATES or needed in CRATES[name], f"{name} must not depend on {needed}"
            assert ONLY_IN.get(needed, name) == name, f"{name} must not depend on {needed}"


@pytest.mark.parametrize("crate", sorted(MUST_NOT_NAME))
def test_a_crate_names_only_what_is_its_business(crate: str) -> None:
    for path in rust_files(ROOT / "crates" / crate / "src"):
        named = re.search(MUST_NOT_NAME[crate], rust_code(path))
        assert named is None, f"{path.relative_to(ROOT)} names {named[0]}"


RUST = {
    "lib.rs": "pub mod ids; pub mod flow; pub mod wire;",
    "ids.rs": "use crate::flow::{run::{Run, Walk}, graph}; // use crate::wire::X;",
    "wire.rs": "pub(crate) fn f() -> crate::ids::Id {}\nmod unix {\n    use super::f;\n}\n"
    "#[cfg(test)]\nmod tests { use crate::flow::x; }",
    "flow/mod.rs": "mod run; mod graph; pub use run::Run;",
    "flow/run.rs": "use super::{graph::Graph, Run};",
    "flow/graph.rs": "use super::super::wire; use super::run::Run;",
}
PYTHON = {
    "__init__.py": "from .manager import Manager",
    "errors.py": "from phalanx import _native, Manager",
    "manager.py": "def f():\n    from . import errors\n    import phalanx.cli.demo",
    "cli/__init__.py": "from .demo import main",
    "cli/demo.py": "from ..errors import Wrong\nfrom . import table\nimport sys",
    "cli/table.py": "from phalanx.cli import demo",
}


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def test_imports_of_rust_are_seen(tmp_path: Path) -> None:
    graph = rust_graph(write(tmp_path, RUST))
    assert graph["ids"] == {"flow::run", "flow::graph"}
    assert graph["wire"] == {"ids"}
    assert graph["flow::run"] == {"flow::graph", "flow"}
    assert graph["flow::graph"] == {"wire", "flow::run"}
    assert misplaced(graph, ["ids", "wire", "flow", "root"]) == [
        "ids imports flow::graph, not below it",
        "ids imports flow::run, not below it",
    ]
    assert in_a_cycle(graph) == {"flow::graph", "flow::run", "ids", "wire"}
    assert within(graph, "flow") == {"": set(), "run": {"graph", ""}, "graph": {"run"}}
    assert misplaced(within(graph, "flow"), ["graph", "run", "root"]) == [
        "graph imports run, not below it",
        "run imports root, not below it",
    ]


def test_folders_that_a_crate_includes_are_its_modules(tmp_path: Path) -> None:
    call = "use super::window; use crate::abi::X;"
    files = {"mod.rs": "pub mod call;", "call.rs": call, "window.rs": "use super::call::Y;"}
    write(tmp_path / "shared", files)
    own = {"lib.rs": '#[macro_use]\n#[path = "../shared/mod.rs"]\nmod c;\nmod abi;', "abi.rs": ""}
    graph = rust_graph(write(tmp_path / "own", own))
    assert graph["c::call"] == {"c::window", "abi"}
    assert misplaced(graph, ["abi", "c", "root"]) == []
    assert in_a_cycle(graph) == {"c::call", "c::window"}


def test_imports_of_python_are_seen(tmp_path: Path) -> None:
    graph = python_graph(write(tmp_path, PYTHON))
    assert graph["errors"] == {"_native", ""}
    assert graph["manager"] == {"errors", "cli.demo"}
    assert graph["cli.demo"] == {"errors", "cli.table"}
    assert graph["cli.table"] == {"cli.demo"}
    assert misplaced(graph, ["_native", "errors", "manager", "root"]) == [
        "cli has no place in the order of layers: give it one in test_layers.py",
        "cli.demo has no place in the order of layers: give it one in test_layers.py",
        "cli.table has no place in the order of layers: give it one in test_layers.py",
        "errors imports root, not below it",
        "manager imports cli.demo, not below it",
    ]
    assert misplaced(graph, ["_native", "errors", "manager", "root", "cli"])[-1:] == [
        "manager imports cli.demo, not below it"
    ]
    assert in_a_cycle(graph) == {"cli.demo", "cli.table"}
