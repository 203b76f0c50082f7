"""MPI as C programs see it: our header and our library, compiled with `phalanx mpicc`, in a world of one."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from phalanx._commands import LIBRARIES, library_variables
from skips import require

PROGRAMS = Path(__file__).parent / "mpi"
MPICH = Path(sys.prefix) / "mpich"
PHALANX = [str(Path(sys.executable).with_name("phalanx"))]
STRICT = ["-std=c11", "-Wall", "-Wextra", "-Wno-unused-parameter", "-Werror"]
HEADER = (LIBRARIES / "include" / "mpi.h").read_text()
DATATYPES = re.findall(r"#define (MPI_\w+) \(\(MPI_Datatype\)(?!0x200\))0x", HEADER)
ERRORS = re.findall(r"#define (MPI_(?:T_)?ERR_(?!LASTCODE)\w+) \d+$", HEADER, re.MULTILINE)


def run(
    command: list[str], *, env: dict[str, str] | None = None, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=60, env=env, cwd=cwd)


def compile_program(source: Path, program: Path, *options: str, command: str = "mpicc") -> None:
    done = run([*PHALANX, command, *options, str(source), "-o", str(program)])
    assert done.returncode == 0, done.stderr


def test_the_header_has_the_numbers_of_the_standard(tmp_path: Path) -> None:
    compile_program(PROGRAMS / "numbers.c", tmp_path / "numbers.o", *STRICT, "-c")


@pytest.mark.parametrize("name", ["environment", "files", "lenient", "objects"])
def test_a_program_in_a_world_of_one(name: str, tmp_path: Path) -> None:
    compile_program(PROGRAMS / f"{name}.c", tmp_path / name, *STRICT)
    done = run([str(tmp_path / name)])
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_program_alone_and_with_others(tmp_path: Path) -> None:
    program = tmp_path / "ring"
    compile_program(PROGRAMS / "ring.c", program, *STRICT)
    assert run([str(program)]).stdout == "rank 0 of 1: 100 with tag 7\n"
    done = run([*PHALANX, "mpirun", "-n", "3", "--no-prefix", str(program)])
    expected = [f"rank {rank} of 3: {token} with tag 7" for rank, token in enumerate((103, 100, 101))]
    assert sorted(done.stdout.splitlines()) == expected, done.stderr


def test_a_program_that_has_sessions_only(tmp_path: Path) -> None:
    program = tmp_path / "sessions"
    compile_program(PROGRAMS / "sessions.c", program, *STRICT)
    for command in ([], *([*PHALANX, "mpirun", "-n", str(ranks)] for ranks in (1, 3))):
        done = run([*command, str(program)])
        assert (done.returncode, done.stdout, done.stderr) == (0, "", ""), command
    done = run([*PHALANX, "mpirun", "-n", "2", str(program), "3"])
    assert done.returncode == 3
    assert "exited with status 3" in done.stderr


def test_files_of_several_processes(tmp_path: Path) -> None:
    program = tmp_path / "files"
    compile_program(PROGRAMS / "files.c", program, *STRICT)
    done = run([*PHALANX, "mpirun", "-n", "3", "--no-prefix", str(program)])
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["files"]


def test_collective_operations_of_several_numbers_of_ranks(tmp_path: Path) -> None:
    program = tmp_path / "collectives"
    compile_program(PROGRAMS / "collectives.c", program, *STRICT)
    for command in ([], *([*PHALANX, "mpirun", "-n", str(ranks)] for ranks in (2, 3, 4))):
        done = run([*command, str(program)])
        assert (done.returncode, done.stdout, done.stderr) == (0, "", ""), command


def test_windows_lose_nothing_in_shared_memory_and_by_message(tmp_path: Path) -> None:
    program = tmp_path / "windows"
    compile_program(PROGRAMS / "windows.c", program, *STRICT)
    apart = [*PHALANX, "mpirun", "-n", "2", "--transport", "sockets"]
    for command in ([], *([*PHALANX, "mpirun", "-n", str(ranks)] for ranks in (2, 4)), apart):
        done = run([*command, str(program)])
        assert (done.returncode, done.stdout, done.stderr) == (0, "", ""), command


def test_errors_of_requests_go_to_the_handlers_of_their_objects(tmp_path: Path) -> None:
    program = tmp_path / "requests"
    compile_program(PROGRAMS / "requests.c", program, *STRICT)
    for command in ([], [*PHALANX, "mpirun", "-n", "2"]):
        done = run([*command, str(program)], cwd=tmp_path)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", ""), command


def test_communicators_are_made_beside_collective_operations_of_an_intercommunicator(tmp_path: Path) -> None:
    program = tmp_path / "intercommunicators"
    compile_program(PROGRAMS / "intercommunicators.c", program, *STRICT)
    for ranks in (2, 4, 5):
        done = run([*PHALANX, "mpirun", "-n", str(ranks), str(program)])
        assert (done.returncode, done.stdout, done.stderr) == (0, "", ""), ranks


def test_messages_in_partitions_match_in_the_order_in_which_they_were_prepared(tmp_path: Path) -> None:
    program = tmp_path / "partitions"
    compile_program(PROGRAMS / "partitions.c", program, *STRICT)
    for command in ([], *([*PHALANX, "mpirun", "-n", str(ranks)] for ranks in (2, 3))):
        done = run([*command, str(program)])
        assert (done.returncode, done.stdout, done.stderr) == (0, "", ""), command


def test_a_program_in_c_plus_plus(tmp_path: Path) -> None:
    require("c++")
    source = tmp_path / "hello.cc"
    source.write_text(
        "#include <mpi.h>\n#include <iostream>\n"
        "int main() { int size; MPI_Init(nullptr, nullptr); MPI_Comm_size(MPI_COMM_WORLD, &size);"
        " std::cout << size; return MPI_Finalize(); }"
    )
    compile_program(source, tmp_path / "hello", "-Wall", "-Werror", command="mpicxx")
    assert run([str(tmp_path / "hello")]).stdout == "1"


def test_a_program_in_fortran_built_with_mpich(tmp_path: Path) -> None:
    require("mpifort.mpich")
    program = tmp_path / "fortran"
    sources = [str(PROGRAMS / "fortran.f90"), str(PROGRAMS / "fortran.c")]
    done = run(["mpifort.mpich", *sources, "-J", str(tmp_path), "-o", str(program)])
    assert done.returncode == 0, done.stderr
    for command in ([], *([*PHALANX, "mpirun", "-n", str(ranks)] for ranks in (1, 2, 3))):
        done = run([*command, str(program)], env={**os.environ, **library_variables()})
        assert (done.returncode, done.stdout, done.stderr) == (0, "", ""), command


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_a_binary_runs_on_another_library_without_compiling_again(ranks: int, tmp_path: Path) -> None:
    assert MPICH.exists(), "`make test` installs MPICH, whose library has the standard's interface too"
    program = tmp_path / "portable"
    compile_program(PROGRAMS / "portable.c", program, *STRICT)
    here = run([*PHALANX, "mpirun", "-n", str(ranks), "--no-prefix", str(program), "version"])
    variables = {**os.environ, "LD_LIBRARY_PATH": str(MPICH / "lib")}
    # Each rank's own file: MPICH's mpiexec may write what one rank says into a line of another.
    files = ["-outfile-pattern", f"{tmp_path}/%r.out"]
    there = run([str(MPICH / "bin" / "mpiexec"), *files, "-n", str(ranks), str(program), "version"], env=variables)
    theirs = "".join((tmp_path / f"{rank}.out").read_text() for rank in range(ranks))
    assert "library phalanx" in here.stdout, here.stderr
    assert "library MPICH Version" in theirs, there.stderr
    lines = [sorted(line for line in text.splitlines() if re.match(r"\d ", line)) for text in (here.stdout, theirs)]
    assert len(lines[0]) > 10 * ranks
    assert lines[0] == lines[1]


def test_an_error_ends_a_program_that_does_not_ask_for_it(tmp_path: Path) -> None:
    source = tmp_path / "wrong.c"
    source.write_text("#include <mpi.h>\nint main(void) { int n; MPI_Group_size(MPI_GROUP_NULL, &n); return 0; }")
    compile_program(source, tmp_path / "wrong")
    done = run([str(tmp_path / "wrong")])
    assert done.returncode != 0
    assert done.stderr == "phalanx: MPI_Group_size: MPI is not initialized: call MPI_Init first (MPI_ERR_OTHER)\n"


def test_predefined_datatypes_and_errors_are_what_the_header_calls_them(tmp_path: Path) -> None:
    lines = [f'datatype({name}, "{name}");' for name in DATATYPES] + [f'error({name}, "{name}");' for name in ERRORS]
    assert (len(DATATYPES), len(ERRORS)) == (70, 80)
    source = tmp_path / "names.c"
    source.write_text(
        '#include "check.h"\n'
        "static void datatype(MPI_Datatype type, const char *expected) {\n"
        "    char name[MPI_MAX_OBJECT_NAME];\n    int length;\n"
        '    if (MPI_Type_get_name(type, name, &length) || strcmp(name, expected)) printf("%s\\n", expected);\n}\n'
        "static void error(int code, const char *expected) {\n"
        '    if (class_of(code) != code || !says(code, expected)) printf("%s\\n", expected);\n}\n'
        "int main(void) {\n    MPI_Init(0, 0);\n    "
        + "\n    ".join(lines)
        + "\n    return MPI_Finalize() + failed;\n}\n"
    )
    compile_program(source, tmp_path / "names", f"-I{PROGRAMS}")
    done = run([str(tmp_path / "names")])
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


# What mpi4py's released build, which has MPICH's numbers, calls things, and what our library calls them.
NAMES = """
import sys
from mpi4py import MPI
assert "MPICH ABI" in MPI.Get_library_version()
for name in sys.argv[1:]:
    thing = getattr(MPI, name.removeprefix("MPI_"), None)
    if thing == MPI.DATATYPE_NULL:
        print(name)
    elif isinstance(thing, MPI.Datatype):
        assert thing.Get_name() == name, name
    elif thing is not None and 0 <= thing < MPI.ERR_LASTCODE:
        assert MPI.Get_error_string(thing).startswith(name) and MPI.Get_error_class(thing) == thing, name
    else:
        print(name)
"""


def test_the_interface_of_mpich_calls_things_the_same() -> None:
    pytest.importorskip("mpi4py", reason="comes with the other tests' requirements")
    done = run([sys.executable, "-c", NAMES, *DATATYPES, *ERRORS], env={**os.environ, **library_variables()})
    assert done.returncode == 0, done.stderr
    unknown = done.stdout.split()
    assert len(unknown) < 40, "mpi4py does not know most of what the header declares"


def test_the_wrapper_shows_what_it_does_and_links_only_programs() -> None:
    shown = shlex.split(run([*PHALANX, "mpicc", "-show", "-O2", "a.c", "-o", "a"]).stdout)
    assert shown[0] == "cc"
    assert {f"-I{LIBRARIES / 'include'}", "-O2", "a.c", str(LIBRARIES / "libmpi_abi.so.1")} <= set(shown)
    assert str(LIBRARIES / "libmpi_abi.so.1") not in run([*PHALANX, "mpicc", "-show", "-c", "a.c"]).stdout
    assert run([*PHALANX, "mpicxx", "-cc=mine", "-show", "a.cc"]).stdout.startswith("mine ")
    missing = run([*PHALANX, "mpicc", "-cc=no-such-compiler", "a.c"])
    assert missing.returncode == 1
    why, where = missing.stderr.splitlines()
    assert "no-such-compiler" in why
    assert "phalanx help " in where
