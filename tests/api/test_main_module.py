"""Programs that are scripts: what their main module defines is known to interpreters, in tasks, results and errors."""

from __future__ import annotations

from api.conftest import Script
from marked import MARK

PROGRAM = """
    import dataclasses
    import enum
    import functools
    import typing

    import phalanx as px

    OFFSET = 100

    class Kind(enum.Enum):
        CT = 1
        MR = 2

    class Point(typing.NamedTuple):
        x: int
        y: int

    @dataclasses.dataclass
    class Slice:
        number: int
        kind: Kind
        at: Point

        def moved(self):
            return dataclasses.replace(self, at=Point(self.at.x + OFFSET, helper(self.at.y)))

    class TornError(Exception):
        pass

    def helper(number):
        return number + OFFSET

    def move(piece):
        if piece.number == 3:
            raise TornError(piece)
        return piece.moved()

    pieces = [Slice(number, Kind.MR, Point(number, -number)) for number in range(4)]
    manager = px.Manager(contract=px.ParDegree(2))
    with manager:
        for result in manager.compute(px.Pipeline(move, px.Farm(Slice.moved)), pieces[:3]):
            assert type(result) is Slice and type(result.at) is Point and result.kind is Kind.MR
            print(result.number, *result.at)
        try:
            list(manager.compute(move, pieces))
        except TornError as error:
            assert error.args == (pieces[3],)
            print("torn")
        future = manager.submit(Slice.moved, pieces[1])
        print(future.result() == pieces[1].moved())
        print(list(manager.map(helper, [1, 2])))
        print(list(manager.compute(lambda token: [type(token)(1, 2), token], [Point(3, 4)])))
"""
EXPECTED = ["0 200 200", "1 201 199", "2 202 198", "torn", "True", "[101, 102]"]
EXPECTED.append("[[Point(x=1, y=2), Point(x=3, y=4)]]")


def test_what_a_script_defines_travels_with_it(script: Script) -> None:
    program = script(PROGRAM)
    assert program.wait() == 0, program.report()
    assert program.lines() == EXPECTED
    assert program.stderr() == ""


def test_a_module_that_is_run(script: Script) -> None:
    program = script(PROGRAM, python=("-m", "script"))
    assert program.wait() == 0, program.report()
    assert program.lines() == EXPECTED


def test_code_on_the_command_line(script: Script) -> None:
    code = "import phalanx as px; m = px.Manager(); print(list(m.compute(lambda n: n + 1, [1])))"
    program = script("", python=("-c", code))
    assert program.wait() == 0, program.report()
    assert program.lines() == ["[2]"]


def test_importing_the_library_starts_nothing(script: Script) -> None:
    program = script("""
        import threading
        import phalanx as px
        assert px.Pipeline(abs, px.Farm(str)) and px.Manager and px.Summary
        print(threading.active_count())
    """)
    assert program.wait() == 0, program.report()
    assert program.lines() == ["1"]


def test_interpreters_have_the_environment_and_folder_of_their_program(script: Script) -> None:
    program = script(
        f"""
        import os
        import phalanx as px
        with px.Manager(contract=px.ParDegree(1)) as manager:
            print(*manager.compute(os.getenv, ["COLOUR", "{MARK}"]))
            print(os.getcwd() == manager.submit(os.getcwd).result())
        """,
        COLOUR="green",
    )
    assert program.wait() == 0, program.report()
    assert program.lines()[0].startswith("green ")
    assert program.lines()[1] == "True"


def test_a_task_prints_where_its_program_prints(script: Script) -> None:
    program = script("""
        import sys
        import phalanx as px
        def say(number):
            print("said", number)
            print("hinted", number, end="")
            print("warned", number, file=sys.stderr)
        with px.Manager(contract=px.ParDegree(1)) as manager:
            list(manager.compute(say, range(3)))
            print("computed")
    """)
    assert program.wait() == 0, program.report()
    assert "".join(program.stdout().split()) == "said0hinted0said1hinted1said2hinted2computed"
    assert program.stderr().splitlines() == ["warned 0", "warned 1", "warned 2"]


def test_a_task_that_reads_standard_input_finds_its_end(script: Script) -> None:
    program = script("""
        import sys
        import phalanx as px
        with px.Manager(contract=px.ParDegree(1)) as manager:
            print(list(manager.compute(lambda _: sys.stdin.read(), [0])))
    """)
    assert program.wait() == 0, program.report()
    assert program.lines() == ["['']"]


def test_a_program_without_standard_streams(script: Script) -> None:
    program = script("""
        import os, sys
        for standard in (0, 1, 2):
            os.close(standard)
        import phalanx as px
        with px.Manager(contract=px.ParDegree(2)) as manager:
            right = list(manager.compute(abs, range(-100, 0))) == list(range(100, 0, -1))
        os._exit(0 if right else 1)
    """)
    assert program.wait() == 0, program.report()


def test_a_daemon_whose_standard_streams_were_closed_before_it_began(script: Script) -> None:
    program = script("""
        import os, subprocess, sys
        code = (
            "import phalanx as px\\nwith px.Manager(contract=px.ParDegree(1)) as manager:"
            "\\n    assert list(manager.compute(abs, [-1])) == [1]"
        )
        def closed():
            for standard in (0, 1, 2):
                os.close(standard)
        sys.exit(subprocess.run([sys.executable, "-c", code], preexec_fn=closed).returncode)
    """)
    assert program.wait() == 0, program.report()
