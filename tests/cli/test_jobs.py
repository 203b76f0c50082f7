"""`phalanx submit`, `jobs`, `logs`, `get` and `cancel`, with real hubs, executors and users on this machine."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from subprocess import DEVNULL, Popen, run
from typing import Any

import pytest
from api.hubs import PATIENCE, PHALANX, Site, site
from skips import require

from laboratory.processes import until

pytestmark = pytest.mark.timeout(300)

#: The beginning of a loop of a shell until a file is there.
WAITS = "while ! test -e"


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A hub with its executor, and the users bob and eve."""
    with site(tmp_path_factory.mktemp("jobs")) as found:
        found.up()
        for user in ("bob", "eve"):
            found.say(user, "join", "--name", user, found.invite("--role", "user"))
        # The executor has a folder for inputs from the first one on, until its end.
        (found.folder / "first").write_text("input" * 1000)
        ended(found, submit(found, "--files", "first", "--", "true"))
        yield found


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Site]:
    """A site without members."""
    with site(tmp_path) as found:
        yield found


def submit(site: Site, *words: str, user: str = "bob") -> int:
    return int(json.loads(site.say(user, "submit", "--json", *words))["job"])


def job(site: Site, number: int, user: str = "bob") -> dict[str, Any]:
    found: dict[str, Any] = json.loads(site.say(user, "jobs", str(number), "--json"))
    return found


def ended(site: Site, number: int, user: str = "bob", patience: float = PATIENCE) -> dict[str, Any]:
    """The job, once it has ended."""
    last: dict[str, Any] = {}

    def is_over() -> bool:
        last.update(job(site, number, user))
        return last["ended"] is not None

    until(is_over, timeout=patience, what=f"the end of the job {number}")
    return last


@pytest.mark.xdist_group("jobs")
class TestJobs:
    def test_a_command_runs_and_its_output_is_shown(self, grid: Site) -> None:
        number = submit(grid, "--", "sh", "-c", "echo to out; echo to error >&2")
        assert ended(grid, number)["state"] == "COMPLETE"
        shown = grid.call("bob", "logs", str(number))
        assert (shown.stdout, shown.stderr) == ("to out\n", "to error\n")
        (process,) = job(grid, number)["processes"]
        assert process["outcome"]["exit"] == {"Code": 0}
        assert process["outcome"]["memory"] > 100_000

    def test_files_go_there_and_outputs_come_back(self, grid: Site) -> None:
        data = grid.folder / "data"
        data.mkdir()
        (data / "numbers.txt").write_text("\n".join(map(str, range(1000))))
        program = grid.folder / "sum.sh"
        program.write_text(
            "#!/bin/sh\ntest -x data/run.sh || exit 9\n"
            'echo "index $PHALANX_INDEX of $PHALANX_COUNT in job $PHALANX_JOB"\n'
            "awk -v i=$PHALANX_INDEX '{ s += $1 * i } END { print s }' data/numbers.txt > out-$PHALANX_INDEX.csv\n"
            "mkdir deep && head -c 200000 /dev/zero > deep/large && ln -s /etc/passwd out-9.csv\n"
        )
        program.chmod(0o755)
        (data / "run.sh").write_text("#!/bin/sh\n")
        (data / "run.sh").chmod(0o755)
        words = ("-n", "3", "--files", "data", "--output", "out-*.csv", "--output", "deep/")
        number = submit(grid, *words, "--", "./sum.sh")
        assert ended(grid, number)["state"] == "COMPLETE", grid.call("bob", "logs", str(number))
        grid.say("bob", "get", str(number), "results")
        for index in range(3):
            own = grid.folder / "results" / str(index)
            assert (own / f"out-{index}.csv").read_text().strip() == str(index * sum(range(1000)))
            assert (own / "deep" / "large").read_bytes() == bytes(200_000)
            assert (own / "stdout.log").read_text() == f"index {index} of 3 in job {number}\n"
            assert not (own / "out-9.csv").exists()

    def test_what_fails_is_said_with_its_reason(self, grid: Site) -> None:
        for command, why in [
            (["sh", "-c", "exit 3"], "exit status 3"),
            (["sh", "-c", "kill -9 $$"], "ended by the signal 9"),
            (["no-such-program"], "the program no-such-program is not found on this machine"),
            (["/etc/passwd"], "the program /etc/passwd may not be executed"),
        ]:
            found = ended(grid, submit(grid, "--", *command))
            assert found["state"] == "EXECUTOR_ERROR"
            assert why in found["why"]
        done = grid.call("bob", "submit", "--wait", "--", "false")
        assert done.returncode == 1
        assert "EXECUTOR_ERROR" in done.stderr

    def test_retries_and_limits_of_time(self, grid: Site) -> None:
        number = submit(grid, "--retries", "2", "--", "sh", "-c", "echo $PHALANX_ATTEMPT; test $PHALANX_ATTEMPT = 3")
        assert ended(grid, number)["state"] == "COMPLETE"
        assert grid.say("bob", "logs", str(number)) == "3\n"
        late = ended(grid, submit(grid, "--time-limit", "1s", "--", "sleep", "600"))
        assert "time limit" in late["why"]
        deadline = ended(grid, submit(grid, "--deadline", "1s", "--", "sleep", "600"))
        assert (deadline["state"], deadline["why"]) == ("CANCELED", "its deadline has passed")

    def test_jobs_wait_for_others(self, grid: Site) -> None:
        first = submit(grid, "--", "sh", "-c", "sleep 0.3; date +%s%N")
        second = submit(grid, "--after", str(first), "--", "date", "+%s%N")
        gate = grid.folder / "gate"
        failing = submit(grid, "--after", str(second), "--", "sh", "-c", f"{WAITS} {gate}; do sleep 0.05; done; false")
        never = submit(grid, "--after", str(failing), "--", "true")
        gate.touch()
        assert ended(grid, never)["state"] == "CANCELED"
        times = [int(grid.say("bob", "logs", str(number))) for number in (first, second)]
        assert times[0] < times[1]

    def test_a_message_passing_program_takes_its_places_at_one_machine(self, grid: Site) -> None:
        (grid.folder / "ranks.py").write_text(
            "import os, pathlib, sys\n"
            "from mpi4py import MPI\n"
            "world = MPI.COMM_WORLD\n"
            "table = pathlib.Path(sys.argv[1]).read_text()\n"
            "total = world.allreduce(world.rank + 1)\n"
            "print(world.rank, world.size, total, os.environ['PHALANX_PLACES'], table)\n"
        )
        (grid.folder / "tables").mkdir()
        (grid.folder / "tables" / "one").write_text("table")
        words = ("phalanx", "mpirun", "--no-prefix", "-n", "2", "python", "ranks.py", "tables/one")
        number = submit(grid, "--places", "2", "--", *words)
        # Both places of the machine are taken, so this one begins when that one has ended.
        later = submit(grid, "--", "date", "+%s%3N")
        found = ended(grid, number)
        assert found["state"] == "COMPLETE", (found["why"], grid.call("bob", "logs", str(number)))
        said = grid.say("bob", "logs", str(number)).splitlines()
        assert sorted(said) == ["0 2 3 2 table", "1 2 3 2 table"]
        ended(grid, later)
        assert int(grid.say("bob", "logs", str(later))) >= found["processes"][0]["outcome"]["ended"]

    def test_a_bsp_program_runs_in_a_job(self, grid: Site) -> None:
        (grid.folder / "steps.py").write_text(
            "from phalanx import bsp\n"
            "with bsp.begin():\n"
            "    bsp.sync()\n"
            "    print('pid', bsp.pid(), 'of', bsp.nprocs(), flush=True)\n"
        )
        number = submit(grid, "--places", "2", "--", "phalanx", "bsprun", "--no-prefix", "-n", "2", "./steps.py")
        found = ended(grid, number)
        assert found["state"] == "COMPLETE", (found["why"], grid.call("bob", "logs", str(number)))
        assert sorted(grid.say("bob", "logs", str(number)).splitlines()) == ["pid 0 of 2", "pid 1 of 2"]

    def test_a_job_of_too_many_places_waits_with_words(self, grid: Site) -> None:
        number = submit(grid, "--places", "64", "--", "true")
        until(lambda: "places" in job(grid, number)["why"], timeout=PATIENCE, what="a reason")
        found = job(grid, number)
        assert found["state"] == "QUEUED"
        assert "no machine that is here has 64 places for each of its processes: " in found["why"]
        ended(grid, submit(grid, "--", "true"))
        grid.say("bob", "cancel", str(number))
        assert "4096" in grid.call("bob", "submit", "--places", "4097", "--", "true").stderr

    def test_a_log_is_followed_while_the_process_runs(self, grid: Site) -> None:
        go = grid.folder / "go"
        number = submit(
            grid, "--", "sh", "-c", "echo begun; while ! test -e $0; do sleep 0.05; done; echo ended", str(go)
        )
        until(lambda: "begun" in grid.say("bob", "logs", str(number)), timeout=PATIENCE, what="the first line")
        assert job(grid, number)["state"] == "RUNNING"
        grid.say("bob", "cancel", str(number))
        assert ended(grid, number)["state"] == "CANCELED"
        shown = submit(grid, "--", "sh", "-c", "for i in 1 2 3 4 5; do echo $i; sleep 0.2; done")
        assert grid.say("bob", "logs", "-f", str(shown)).split() == ["1", "2", "3", "4", "5"]

    def test_a_canceled_process_ends_with_all_that_it_has_started(self, grid: Site) -> None:
        number = submit(grid, "-n", "2", "--", "sh", "-c", "setsid sleep 54321 & echo begun; wait")
        until(lambda: "begun" in grid.say("bob", "logs", f"{number}.1"), timeout=PATIENCE, what="the process 1")
        grid.say("bob", "cancel", f"{number}.1")
        until(lambda: job(grid, number)["counts"]["canceled"] == 1, timeout=PATIENCE, what="one canceled process")
        grid.say("bob", "cancel", str(number))
        until(lambda: not _sleepers("54321"), timeout=PATIENCE, what="the end of all that was started")

    def test_other_users_see_nothing_and_owners_do(self, grid: Site) -> None:
        number = submit(grid, "--", "echo", "secret")
        ended(grid, number)
        for words in (["jobs", str(number)], ["logs", str(number)], ["get", str(number)], ["cancel", str(number)]):
            assert f"you have no job {number}" in grid.error("eve", *words)
        assert "secret" not in grid.say("eve", "jobs")
        assert grid.say("hub", "logs", str(number)) == "secret\n"
        assert number in [it["id"] for it in json.loads(grid.say("hub", "jobs", "--all", "--json"))]

    def test_ended_jobs_are_forgotten(self, grid: Site) -> None:
        number = submit(grid, "--", "true")
        ended(grid, number)
        grid.say("bob", "jobs", "--forget", str(number))
        assert "no job" in grid.error("bob", "jobs", str(number))

    def test_a_process_gets_no_key_and_no_file_of_another_one(self, grid: Site) -> None:
        number = submit(grid, "--", "sh", "-c", "env; ls -a; cat /proc/$PPID/environ; ls $PHALANX_HOME")
        ended(grid, number)
        shown = grid.say("bob", "logs", str(number))
        assert "PRIVATE" not in shown
        assert "PHALANX_HOME=" not in shown

    def test_wrong_words_are_refused_with_what_to_do(self, grid: Site) -> None:
        for words, why in [
            (["submit", "--", "./nowhere"], "is not found here"),
            (["submit", "--after", "999", "--", "true"], "you have no job 999"),
            (["submit", "--output", "../x", "--", "true"], "leads out of the folder"),
            (["submit", "--priority", "5", "--", "true"], "only owners"),
            (["submit", "--files", "nowhere", "--", "true"], "is no file and no folder"),
        ]:
            assert why in grid.error("bob", *words)

    @pytest.mark.parametrize(
        "words",
        [
            ["--name", "a\udcffb", "--", "true"],
            ["--", "echo", "a\udcff"],
            ["--env", "X=a\udcff", "--", "true"],
            ["--output", "a\udcff", "--", "true"],
            ["--stdin", "a\udcff", "--", "true"],
            ["--files", "file\udcff", "--", "true"],
        ],
    )
    def test_words_that_are_not_utf8_are_refused(self, grid: Site, words: list[str]) -> None:
        (grid.folder / "file\udcff").write_text("x")
        said = grid.error("bob", "submit", *words)
        (word,) = [word for word in words if "\udcff" in word]
        shown = word.removeprefix("X=").replace("\udcff", "\\udcff")
        assert f"'{shown}' is not UTF-8" in said
        assert "Traceback" not in said
        assert said.endswith("phalanx: help: phalanx help ContractError\n")

    def test_names_are_escaped_where_the_terminal_cannot_show_them(self, grid: Site) -> None:
        submit(grid, "--name", "für alle", "--", "true")
        env = {**grid.env("bob"), "LC_ALL": "C", "PYTHONIOENCODING": "ascii"}
        done = run([PHALANX, "jobs"], env=env, capture_output=True, timeout=PATIENCE)
        assert done.returncode == 0, done.stderr
        assert b"f\\xfcr alle" in done.stdout

    def test_a_waiting_user_is_told_for_what_and_that_the_job_goes_on(self, grid: Site) -> None:
        """The text is for a terminal, so that scripts read the same as before."""
        lead, follow = os.openpty()
        words = [PHALANX, "submit", "--wait", "--places", "64", "--", "true"]
        waiting = Popen(words, env=grid.env("bob"), cwd=grid.folder, stdin=DEVNULL, stdout=follow, stderr=follow)
        os.close(follow)
        said = ""
        try:
            while "64 places" not in said:
                said += os.read(lead, 4096).decode()
            number = int(said.split()[1])
            assert f"job {number}: QUEUED no machine that is here has 64 places" in said
            waiting.send_signal(signal.SIGINT)
            while f"phalanx cancel {number}" not in said:
                said += os.read(lead, 4096).decode()
            assert f"the job {number} goes on: phalanx jobs {number}; to end it: phalanx cancel {number}" in said
            assert waiting.wait(PATIENCE) == 130
        finally:
            waiting.kill()
            waiting.wait()
            os.close(lead)
        assert job(grid, number)["state"] == "QUEUED"
        grid.say("bob", "cancel", str(number))

    def test_a_program_that_is_ended_for_a_limit_leaves_its_log(self, grid: Site) -> None:
        grid.join("small", grid.invite(), "--memory", "512MiB", "--label", "small")
        begins = "open('x1', 'w').close(); print('begun', flush=True)"
        program = f"{begins}; kept = [bytes([1]) * (1 << 20) for _ in range(2000)]"
        number = submit(grid, "--needs", "label=small", "--output", "x*", "--", "python3", "-c", program)
        found = ended(grid, number)
        assert "its program used more than the 268.4 MB of memory that its machine gives it" in found["why"]
        assert grid.call("bob", "logs", str(number)).stdout == "begun\n"
        (process,) = found["processes"]
        assert process["outcome"]["ended"] > process["outcome"]["began"]
        assert [it["name"] for it in process["outcome"]["outputs"]] == ["x1"]
        wide = ("--places", "2", "--needs", "label=small")
        number = submit(grid, *wide, "--", "python3", "-c", "kept = bytes([1]) * (350 << 20)")
        assert ended(grid, number)["state"] == "COMPLETE", "two places have the memory of two"
        grid.kill("small")

    def test_a_program_that_is_refused_processes_reads_why(self, grid: Site) -> None:
        grid.join("few", grid.invite(), "--processes", "64", "--label", "few")
        program = "import os, time\nwhile os.fork() or time.sleep(600): pass"
        number = submit(grid, "--needs", "label=few", "--", "python3", "-c", program)
        found = ended(grid, number)
        # Either the kernel refuses a process, which the log tells, or the watch ends the program.
        told = grid.call("bob", "logs", str(number)).stderr + found["why"]
        assert "phalanx: the program may have 32 processes and threads" in told or "and may have 32" in told, told
        grid.kill("few")


def _sleepers(word: str) -> list[str]:
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if word.encode() in (process / "cmdline").read_bytes().split(b"\0"):
                found.append(process.name)
        except OSError:
            continue
    return found


class TestLosses:
    def test_the_queue_outlives_the_hub(self, lab: Site) -> None:
        """The hub is killed while processes run elsewhere. They go on, and their results count once."""
        lab.join("ws7", lab.up("--hub-only"))
        marks = lab.folder / "marks"
        marks.mkdir()
        # The process leaves a mark outside of its folder at each start. An executor without Landlock allows that.
        script = f"echo $PHALANX_INDEX >> {marks}/started; sleep 2; echo done $PHALANX_INDEX"
        number = submit(lab, "-n", "6", "--", "sh", "-c", script, user="hub")
        until(lambda: job(lab, number, "hub")["counts"]["running"] == 2, timeout=PATIENCE, what="two processes")
        lab.kill("hub")
        lab.up("--hub-only")
        found = ended(lab, number, "hub")
        assert (found["state"], found["counts"]["complete"]) == ("COMPLETE", 6)
        assert [process["losses"] for process in found["processes"]] == [0] * 6
        assert lab.say("hub", "logs", str(number)).split() == [it for index in range(6) for it in ("done", str(index))]

    def test_the_runs_of_a_lost_executor_run_again(self, lab: Site) -> None:
        token = lab.up("--hub-only")
        lab.join("ws7", token)
        number = submit(lab, "-n", "4", "--", "sh", "-c", "sleep 3.0321; echo $PHALANX_INDEX", user="hub")
        until(lambda: job(lab, number, "hub")["counts"]["running"] == 2, timeout=PATIENCE, what="two processes")
        lab.kill("ws7")
        lab.join("ws7", "lab")
        found = ended(lab, number, "hub")
        assert (found["state"], found["counts"]["complete"]) == ("COMPLETE", 4)
        assert sum(process["losses"] for process in found["processes"]) == 2
        assert lab.say("hub", "logs", str(number)).split() == ["0", "1", "2", "3"]
        assert not _sleepers("3.0321")

    @pytest.mark.parametrize("seed", [1, 2])
    def test_every_process_has_one_result_whatever_is_killed(self, lab: Site, seed: int) -> None:
        """Hubs and executors are killed at random moments. In the end, each process has its own result, once."""
        chance = random.Random(seed)
        token = lab.up("--hub-only")
        lab.join("ws7", token)
        lab.join("ws8", lab.invite())
        number = submit(
            lab, "-n", "60", "--", "sh", "-c", "sleep 0.$((PHALANX_INDEX % 4)); echo $PHALANX_INDEX", user="hub"
        )
        for _ in range(6):
            time.sleep(chance.uniform(0.1, 1.5))
            victim = chance.choice(["hub", "ws7", "ws8"])
            lab.kill(victim)
            if victim == "hub":
                lab.up("--hub-only")
            else:
                lab.join(victim, "lab")
        found = ended(lab, number, "hub")
        assert (found["state"], found["counts"]["complete"]) == ("COMPLETE", 60), found["why"]
        assert [process["index"] for process in found["processes"]] == [*range(60)]
        assert lab.say("hub", "logs", str(number)).split() == [str(index) for index in range(60)]

    def test_a_process_runs_elsewhere_when_its_machine_stays_away(self, lab: Site) -> None:
        token = lab.up("--hub-only")
        lab.join("ws7", token)
        gate = lab.folder / "gate"
        number = submit(lab, "--", "sh", "-c", f"{WAITS} {gate}; do sleep 0.05; done", user="hub")
        until(lambda: job(lab, number, "hub")["counts"]["running"] == 1, timeout=PATIENCE, what="the process")
        lab.kill("ws7")
        gate.touch()
        lab.join("ws8", lab.invite())
        # ws7 stays away: its run is lost after 45 s, and ws8 runs it.
        found = ended(lab, number, "hub", patience=2 * PATIENCE)
        assert found["processes"][0]["executor"] == "ws8"
        assert found["processes"][0]["losses"] == 1

    def test_a_hub_without_room_for_outputs_ends_the_process_in_words(self, lab: Site) -> None:
        require("root")
        lab.home("hub").mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=12m", "phalanx", str(lab.home("hub"))], check=True)
        try:
            lab.join("ws7", lab.up("--hub-only"))
            script = "head -c 20000000 /dev/zero > big; echo said"
            number = submit(lab, "--output", "big", "--", "sh", "-c", script, user="hub")
            found = ended(lab, number, "hub", patience=2 * PATIENCE)
            assert (found["state"], "the hub: " in found["why"]) == ("EXECUTOR_ERROR", True), found
            assert len(found["processes"]) == 1
            assert found["processes"][0]["attempts"] == 1
            assert lab.say("hub", "logs", str(number)) == "said\n"
        finally:
            lab.end()
            subprocess.run(["umount", "--lazy", str(lab.home("hub"))], check=True)
