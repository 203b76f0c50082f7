"""phalanx on Windows, as wine plays it: a farm, an executor of a grid, copies, and what is missing there."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import pytest
from api.hubs import Site, site
from skips import require

from laboratory.needs import MINGW, RUST_FOR_WINDOWS, WINE
from laboratory.processes import Process, until
from laboratory.windows import BUILT, PYTHON, Wine, wine

#: Wine starts slowly where other tests keep the cores busy.
SLOW = 120.0
#: Works after a second without a key, which wine never sees.
WHEN_IDLE = ["--when-idle", "--idle-after", "1s", "--on-battery", "--on-metered"]

pytestmark = [pytest.mark.timeout(300), pytest.mark.xdist_group("wine")]


@pytest.fixture(scope="module")
def windows() -> Iterator[Wine]:
    require(MINGW, WINE, RUST_FOR_WINDOWS)
    assert (BUILT / "phalanx" / "_native.pyd").exists(), "make windows builds it"
    with wine() as made:
        yield made


def ran(windows: Wine, tmp_path: Path, source: str) -> str:
    """What a program prints there, which must succeed."""
    file = tmp_path / "program.py"
    file.write_text(dedent(source))
    done = windows.python(file, timeout=SLOW)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def path_of(folder: Path) -> str:
    """A folder of this machine, as wine's programs name it."""
    return "Z:" + str(folder).replace("/", "\\")


class TestAProgram:
    def test_a_farm_computes_prints_and_tells_errors(self, windows: Wine, tmp_path: Path) -> None:
        told = ran(
            windows,
            tmp_path,
            """
            import phalanx as px

            def square(number):
                print("square of", number)
                return number * number

            def fails(number):
                raise ValueError(f"no {number}")

            if __name__ == "__main__":
                with px.Manager(contract=px.ParDegree(2)) as manager:
                    print(sum(manager.compute(px.Farm(square), range(20))))
                    print(len(manager.submit(bytes, 8 << 20).result()))
                    try:
                        manager.submit(fails, 3).result()
                    except ValueError as error:
                        print("error:", error)
            """,
        )
        lines = told.split("\n")
        assert "2470" in lines
        assert str(8 << 20) in lines
        assert "error: no 3" in lines
        assert {f"square of {number}" for number in range(20)} <= {*lines}

    def test_protected_links_carry_the_same(self, windows: Wine, tmp_path: Path) -> None:
        told = ran(
            windows,
            tmp_path,
            """
            import phalanx as px

            if __name__ == "__main__":
                with px.Manager(policy="all", contract=px.ParDegree(1)) as manager:
                    print(list(manager.map(abs, [-1, -2])), manager.summary().interpreters[0].level)
            """,
        )
        assert told.split("\n")[0].startswith("[1, 2]")

    def test_an_interpreter_that_dies_is_replaced_and_its_end_is_told(self, windows: Wine, tmp_path: Path) -> None:
        told = ran(
            windows,
            tmp_path,
            """
            import os
            import phalanx as px

            def ends(number):
                os._exit(7)

            if __name__ == "__main__":
                with px.Manager(contract=px.ParDegree(1)) as manager:
                    try:
                        manager.submit(ends, 1).result()
                    except px.errors.CulpritError as error:
                        print("culprit:", error)
                    print(manager.submit(abs, -5).result())
            """,
        )
        assert "culprit:" in told
        assert "exited with status 7" in told
        assert told.rstrip().endswith("5")

    def test_interpreters_and_what_they_start_end_with_a_program_that_is_killed(
        self, windows: Wine, tmp_path: Path
    ) -> None:
        (tmp_path / "program.py").write_text(
            dedent(
                f"""
                import subprocess, sys, time
                import phalanx as px

                BEATS = "import sys, time\\nwhile True:\\n    open(sys.argv[1], 'a').write('.')\\n    time.sleep(0.05)"

                def begin(folder):
                    subprocess.Popen([sys.executable, "-c", BEATS, folder + "/child"])
                    while True:
                        open(folder + "/task", "a").write(".")
                        time.sleep(0.05)

                if __name__ == "__main__":
                    with px.Manager(contract=px.ParDegree(1)) as manager:
                        task = manager.submit(begin, {path_of(tmp_path)!r})
                        print("begun", flush=True)
                        import os
                        while not os.path.exists({path_of(tmp_path / "end")!r}):
                            time.sleep(0.05)
                        os._exit(1)
                """
            )
        )
        command = windows.piped(tmp_path / "program.py")
        process = Process(command, title="program", files=tmp_path / "said", cwd=tmp_path, env=windows.env)
        beats = [tmp_path / "task", tmp_path / "child"]

        def beat() -> bool:
            assert process.code is None, process.stdout() + process.stderr()
            return all(it.exists() for it in beats)

        until(beat, timeout=SLOW, what="the task and what it has started")
        (tmp_path / "end").touch()
        until(lambda: process.code is not None, timeout=SLOW, what="the end of the program")

        def sizes() -> list[int]:
            return [it.stat().st_size for it in beats]

        def is_quiet() -> bool:
            before = sizes()
            time.sleep(0.5)
            return sizes() == before

        until(is_quiet, timeout=SLOW, what="the end of the interpreter and its child")

    def test_what_is_not_there_says_so(self, windows: Wine, tmp_path: Path) -> None:
        told = ran(
            windows,
            tmp_path,
            """
            import phalanx as px

            for what in (lambda: px.mpirun("python.exe", 2), lambda: px.bsp.begin()):
                try:
                    what()
                except px.errors.PhalanxError as error:
                    print(type(error).__name__, error)
            """,
        )
        assert "LaunchError message passing programs (mpirun, bsprun) start from Linux, and this is Windows" in told
        assert "BspError begin: BSP programs run on Linux, and this is Windows" in told

    def test_the_sensors_of_an_owner(self, windows: Wine, tmp_path: Path) -> None:
        told = ran(
            windows,
            tmp_path,
            """
            import time
            from phalanx._voluntary.sensors import sensors_here

            sensors = sensors_here()
            assert sensors.idle() >= 0
            assert sensors.load(lambda: 0.0) is None
            time.sleep(1.1)
            print(sensors.load(lambda: 0.0) >= 0, sensors.on_battery(), sensors.is_metered(), sensors.lacks())
            """,
        )
        assert told.split() == ["True", "False", "False", "None"]


@pytest.fixture(scope="module")
def grid(windows: Wine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A hub here, and a Windows desktop that has joined, which serves its user and exports a folder."""
    if f"{sys.version_info.major}.{sys.version_info.minor}" != PYTHON:
        pytest.skip(f"needs Python {PYTHON}, as there is for Windows")
    with site(tmp_path_factory.mktemp("site")) as found:
        exported = found.folder / "exported"
        exported.mkdir()
        token = found.up()
        words = [
            "join",
            "--name",
            "desk",
            "--listen",
            "127.0.0.1:0",
            "--interpreters",
            "2",
            "--label",
            "desks",
            "--export",
        ]
        user = json.loads(found.say("hub", "grids", "--json"))[0]["user"]
        words += [f"{path_of(exported)}:rw", "--accept", user, "--allow-root", *WHEN_IDLE, token]
        process = Process(
            windows.piped("-m", "phalanx", *words),
            title="desk: phalanx join",
            files=found.folder / "desk",
            cwd=found.folder,
            env=windows.env | {"PHALANX_HOME": path_of(found.home("desk"))},
        )
        found.started.append(process)
        process.line("listening on ", timeout=SLOW)
        found.await_members(desk=True)
        yield found


class TestAnExecutor:
    def test_it_computes_for_a_user_of_another_system(self, grid: Site) -> None:
        program = """
        import sys

        def system(number):
            print("on", sys.platform)
            return sys.platform, number

        with px.Grid("lab").only("desk").manager(contract=px.ParDegree(2)) as manager:
            assert list(manager.map(system, range(10))) == [("win32", number) for number in range(10)]
            print({it.machine for it in manager.summary().interpreters})
        """
        told = grid.python("hub", program)
        assert "{'desk'}" in told
        assert "on win32" in told

    def test_it_tells_what_it_is(self, grid: Site) -> None:
        facts = grid.members()["desk"]["facts"]
        assert facts["system"].startswith("Windows")
        assert facts["interpreters"] == "2"

    def test_copies_both_ways(self, grid: Site) -> None:
        sent, back = grid.folder / "sent", grid.folder / "back"
        (sent / "inner").mkdir(parents=True)
        (sent / "a.bin").write_bytes(os.urandom(3 << 20))
        (sent / "inner" / "b.txt").write_text("hello\n")
        there = f"desk:/{path_of(grid.folder / 'exported').replace(chr(92), '/')}"
        grid.say("hub", "cp", "--grid", "lab", f"{sent}/", f"{there}/copy")
        assert (grid.folder / "exported" / "copy" / "a.bin").read_bytes() == (sent / "a.bin").read_bytes()
        grid.say("hub", "cp", "--grid", "lab", f"{there}/copy/", f"{back}")
        assert (back / "inner" / "b.txt").read_text() == "hello\n"
        assert (back / "a.bin").read_bytes() == (sent / "a.bin").read_bytes()

    def test_a_name_that_is_a_device_there_is_refused(self, grid: Site) -> None:
        file = grid.folder / "nul.txt"
        file.write_text("x")
        there = f"desk:/{path_of(grid.folder / 'exported').replace(chr(92), '/')}"
        assert "cannot exist on Windows" in grid.call("hub", "cp", "--grid", "lab", str(file), f"{there}/").stderr

    def test_tuples_of_its_spaces(self, grid: Site) -> None:
        program = """
        with px.Grid("lab").space("desk/words") as space:
            space.out("word", 1)
            print(space.in_("word", int))
        """
        assert "('word', 1)" in grid.python("hub", program)

    def test_an_eval_runs_there(self, grid: Site) -> None:
        program = """
        import sys

        grid = px.Grid("lab").only("desk")
        with grid.manager(contract=px.ParDegree(1)) as manager, grid.space("desk/words", manager=manager) as space:
            space.eval(lambda: ("system", sys.platform))
            print(space.in_("system", str))
        """
        assert "('system', 'win32')" in grid.python("hub", program)

    def test_ranks_are_refused_with_the_reason(self, grid: Site) -> None:
        program = """
        try:
            px.mpirun("true", 1, hosts="lab", needs=px.needs(label="desks"))
        except px.errors.PhalanxError as error:
            print(error)
        """
        assert "message passing programs run on Linux" in grid.python("hub", program)
