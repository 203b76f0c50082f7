"""`phalanx up --tes` with clients of TES that others wrote: py-tes, two versions of it, and Snakemake."""

from __future__ import annotations

import json
import os
import socket
import ssl
import subprocess
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
import tes
from api.hubs import PATIENCE, Site, site
from skips import require

from laboratory.processes import until

pytestmark = [pytest.mark.timeout(600), pytest.mark.xdist_group("tes")]

#: The environment with Snakemake: requirements/workflows.txt.
WORKFLOWS = Path(__file__).parents[2] / ".venv" / "workflows"
#: The ends of a task.
OVER = ("COMPLETE", "EXECUTOR_ERROR", "SYSTEM_ERROR", "CANCELED")


class Lab:
    """A grid with a hub that takes tasks, and the user bob."""

    def __init__(self, site: Site, shared: Path) -> None:
        self.site, self.shared = site, shared
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.first = self.up()
        site.say("bob", "join", "--name", "bob", site.invite("--role", "user"))
        self.url = f"https://127.0.0.1:{self.port}"

    def up(self) -> str:
        return self.site.up("--hub-only", "--tes", f"{self.port}", "--tes-folder", f"{self.shared}:rw")

    def token(self, member: str = "bob") -> str:
        return self.site.say(member, "token", "--for", "1h").strip()

    def authority(self) -> str:
        return self.site.say("bob", "token", "--authority").strip()

    def ask(self, path: str, token: str, document: Any = None) -> Any:
        """A request without a client's library."""
        data = None if document is None else json.dumps(document).encode()
        asked = Request(f"{self.url}/ga4gh/tes/v1/{path}", data, {"Authorization": f"Bearer {token}"})
        context = ssl.create_default_context(cafile=self.authority())
        with urlopen(asked, timeout=PATIENCE, context=context) as answer:
            return json.load(answer)

    def refused(self, path: str, token: str, document: Any = None) -> tuple[int, str]:
        """The status and the words of a request that must fail."""
        with pytest.raises(HTTPError) as raised:
            self.ask(path, token, document)
        with raised.value as error:
            return error.code, json.load(error)["detail"]

    def ended(self, id_: str, token: str, view: str = "FULL") -> Any:
        last: dict[str, Any] = {}

        def is_over() -> bool:
            last.update(self.ask(f"tasks/{id_}?view={view}", token))
            return last["state"] in OVER

        until(is_over, timeout=PATIENCE, what=f"the end of the task {id_}")
        return last


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    # Not in /tmp, which each task has for itself.
    with site(tmp_path) as found, tempfile.TemporaryDirectory(dir="/var/tmp", prefix="phalanx-test-") as shared:
        yield Lab(found, Path(shared))


def task(*command: str, **fields: Any) -> dict[str, Any]:
    return {"executors": [{"image": "debian", "command": [*command]}], **fields}


def test_tasks_run_at_machines_and_their_files_come_back(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.site.join("ws7", lab.first)
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", lab.authority())
    client = tes.HTTPClient(lab.url, token=lab.token())
    (lab.shared / "numbers").write_text("1\n2\n3\n")
    asked = tes.Task(
        name="sum",
        inputs=[tes.Input(url=f"file://{lab.shared}/numbers", path="/data/in/numbers")],
        outputs=[tes.Output(url=f"file://{lab.shared}/results/sum", path="/data/out/sum")],
        executors=[
            tes.Executor(image="debian", command=["mkdir", "-p", "/data/out"]),
            tes.Executor(
                image="debian",
                command=["sh", "-c", "paste -sd+ /data/in/numbers; echo $NAME >&2"],
                env={"NAME": "a sum"},
                stdout="/data/out/sum",
            ),
        ],
    )
    id_ = client.create_task(asked)
    client.wait(id_, timeout=PATIENCE)
    found = client.get_task(id_, view="FULL")
    assert found.state == "COMPLETE", found
    assert (lab.shared / "results" / "sum").read_text() == "1+2+3\n"
    (log,) = found.logs
    assert [it.exit_code for it in log.logs] == [0, 0]
    assert log.logs[1].stderr == "a sum\n"
    assert [(it.path, it.size_bytes) for it in log.outputs] == [("/data/out/sum", 6)]
    assert not Path("/data/out").exists()
    assert [it.id for it in client.list_tasks().tasks] == [id_]


def test_what_fails_and_what_is_canceled_is_said(lab: Lab) -> None:
    lab.site.join("ws7", lab.first)
    token = lab.token()
    failed = lab.ask("tasks", token, task("sh", "-c", "echo why >&2; exit 7"))["id"]
    found = lab.ended(failed, token)
    assert found["state"] == "EXECUTOR_ERROR"
    assert [(it["exit_code"], it["stderr"]) for it in found["logs"][0]["logs"]] == [(7, "why\n")]
    endless = lab.ask("tasks", token, task("sleep", "54322"))["id"]
    until(lambda: lab.ask(f"tasks/{endless}", token)["state"] == "RUNNING", timeout=PATIENCE, what="the task to run")
    lab.ask(f"tasks/{endless}:cancel", token, {})
    assert lab.ended(endless, token)["state"] == "CANCELED"
    lacking = task("true", outputs=[{"url": f"file://{lab.shared}/x", "path": "/out/x"}])
    found = lab.ended(lab.ask("tasks", token, lacking)["id"], token)
    assert found["state"] == "SYSTEM_ERROR"
    assert "has not made its output /out/x" in found["logs"][0]["system_logs"][-1]


@pytest.mark.parametrize("written", ["'[1]'", "'no JSON'", "'[' * 100_000"])
def test_a_task_that_writes_the_log_of_its_runner_ends_without_one(lab: Lab, written: str) -> None:
    lab.site.join("ws7", lab.first)
    token = lab.token()
    source = (
        f"import os, signal; open(os.environ['HOME'] + '/log.json', 'w').write({written}); os.kill(os.getppid(), 9)"
    )
    id_ = lab.ask("tasks", token, task("python3", "-c", source))["id"]
    found = lab.ended(id_, token)
    assert (found["state"], found["logs"][0]["logs"]) == ("EXECUTOR_ERROR", [])
    assert lab.ask(f"tasks/{id_}?view=BASIC", token)["state"] == "EXECUTOR_ERROR"


def test_what_a_hub_would_refuse_of_a_task_is_said_at_once(lab: Lab) -> None:
    token = lab.token()
    outputs = [{"url": f"file://{lab.shared}/{number}", "path": f"/out/{number}"} for number in range(100)]
    for wrong, why in [
        (task("true", outputs=outputs), "may be 99"),
        (task("true", volumes=["/usr/local/data"]), "is needed by programs"),
        (task("true", volumes=[f"/data{number}/in" for number in range(65)]), "and may in 64"),
        (task("true", resources={"ram_gb": 1e308}), "this is no amount"),
        (task("true", volumes=["/data/" + "x" * 1000]), "at most 990 bytes"),
    ]:
        code, words = lab.refused("tasks", token, wrong)
        assert (code, why in words) == (400, True), words


def test_the_log_of_a_job_shows_what_its_task_prints(lab: Lab) -> None:
    lab.site.join("ws7", lab.first)
    token = lab.token()
    id_ = lab.ask("tasks", token, task("sh", "-c", "echo to out; echo to error >&2; sleep 600 & exit 3"))["id"]
    (log,) = lab.ended(id_, token)["logs"][0]["logs"]
    assert (log["stdout"], log["stderr"], log["exit_code"]) == ("to out\n", "to error\n", 3)
    job = json.loads(lab.site.say("bob", "jobs", "--json"))[-1]
    shown = lab.site.call("bob", "logs", str(job["id"]))
    assert (shown.stdout, shown.stderr) == ("to out\n", "to error\n")


def test_silent_connections_are_ended_and_others_are_served(lab: Lab) -> None:
    token = lab.token()
    context = ssl.create_default_context(cafile=lab.authority())
    plain = [socket.create_connection(("127.0.0.1", lab.port)) for _ in range(50)]
    opened = [context.wrap_socket(one, server_hostname="127.0.0.1") for one in plain]
    try:
        assert lab.ask("tasks", token)["tasks"] == []
        for one in opened:
            one.settimeout(2 * PATIENCE)
        assert [one.recv(1) for one in opened] == [b""] * 50
    finally:
        for one in opened:
            one.close()


def test_only_users_of_the_grid_are_served_and_see_their_own(lab: Lab) -> None:
    lab.site.say("eve", "join", "--name", "eve", lab.site.invite("--role", "user"))
    bob, eve = lab.token(), lab.token("eve")
    own = lab.ask("tasks", bob, task("true"))["id"]
    assert [it["id"] for it in lab.ask("tasks", bob)["tasks"]] == [own]
    assert lab.ask("tasks", eve)["tasks"] == []
    assert lab.refused(f"tasks/{own}", eve) == (404, f"you have no task {own}")
    assert lab.refused("tasks", bob[:-4])[0] == 401
    outside = task("true", inputs=[{"url": "file:///etc/shadow", "path": "/in/x"}])
    assert "is outside of the folders that are served" in lab.refused("tasks", bob, outside)[1]
    lab.site.say("hub", "expel", "--yes", "eve")
    assert lab.refused("tasks", eve)[0] == 401


def test_tasks_outlive_the_hub(lab: Lab) -> None:
    """The hub is killed while tasks wait, and while they run. None is lost, and none becomes two jobs."""
    token = lab.token()
    ids = [lab.ask("tasks", token, task("sh", "-c", f"sleep 1; echo {number}"))["id"] for number in range(6)]
    lab.site.kill("hub")
    lab.up()
    ids += [lab.ask("tasks", token, task("sh", "-c", f"sleep 1; echo {number}"))["id"] for number in range(6, 8)]
    lab.site.join("ws7", lab.first)
    until(
        lambda: lab.ask(f"tasks/{ids[0]}", token)["state"] in ("RUNNING", *OVER), timeout=PATIENCE, what="a task to run"
    )
    lab.site.kill("hub")
    lab.up()
    found = [lab.ended(id_, token) for id_ in ids]
    assert [it["state"] for it in found] == ["COMPLETE"] * 8
    assert [it["logs"][0]["logs"][0]["stdout"] for it in found] == [f"{number}\n" for number in range(8)]
    jobs = json.loads(lab.site.say("bob", "jobs", "--json"))
    assert len(jobs) == 8


#: Each sample is read, worked on and summed up. Machines have the folder of the storage, as they have a bucket.
SNAKEFILE = """
SAMPLES = range({count})

rule sum:
    input: expand("squares/{{sample}}.txt", sample=SAMPLES)
    output: "sums.txt"
    shell: "cat {{input}} | awk '{{{{ s += $1 }}}} END {{{{ printf \\"%d\\\\n\\", s }}}}' > {{output}}"

rule make:
    output: "raw/{{sample}}.txt"
    shell: "seq {{wildcards.sample}} 100 > {{output}}"

rule square:
    input: "raw/{{sample}}.txt"
    output: "squares/{{sample}}.txt"
    shell: "awk '{{{{ print $1 * $1 }}}}' {{input}} > {{output}}"
"""


def test_snakemake_runs_its_workflow_while_machines_are_killed(lab: Lab) -> None:
    require("rsync")  # with which Snakemake copies files
    assert (WORKFLOWS / "installed").exists(), f"make {WORKFLOWS / 'installed'}"
    # Two jobs for each sample, and one for all. CI has the smaller workflow.
    count = int(os.environ.get("PHALANX_TEST_SAMPLES", "4"))
    path = f"{WORKFLOWS / 'bin'}:{os.environ['PATH']}"
    options = ("--grant", f"{WORKFLOWS}:ro", "--grant", f"{lab.shared}:rw")

    def join(machine: str, token: str) -> None:
        words = ["--interpreters", "2", *options, *([] if token == "lab" else ["--name", machine])]
        lab.site.start(machine, "join", *words, token, env={"PATH": path})

    join("ws7", lab.first)
    join("ws8", lab.site.invite())
    folder = lab.site.folder / "workflow"
    folder.mkdir()
    (folder / "Snakefile").write_text(SNAKEFILE.format(count=count))
    storage = lab.shared / "storage"
    storage.mkdir()
    command = [f"{WORKFLOWS}/bin/snakemake", "--executor", "tes", "--tes-url", lab.url, "--jobs", "8"]
    storing = ["--default-storage-provider", "fs", "--default-storage-prefix", f"{storage}"]
    # Each job would install the plugin for the storage. The machines have it.
    more = ["--seconds-between-status-checks", "1", "--shared-fs-usage", "none", "--precommand", "pip() { true; }"]
    env = {
        **os.environ,
        "PATH": path,
        "HOME": f"{folder}",
        "SNAKEMAKE_TES_TOKEN": lab.token(),
        "REQUESTS_CA_BUNDLE": lab.authority(),
        "GITHUB_WORKSPACE": f"{folder}",  # where the client looks for a log when a task fails
    }
    (folder / "funnel.log").touch()
    log = folder / "log"
    with log.open("wb") as out:
        engine = subprocess.Popen([*command, *storing, *more], cwd=folder, env=env, stdout=out, stderr=out)
    try:
        for machine in ("ws7", "ws8"):  # each is killed while it runs a task
            until(partial(_runs_or_has_ended, lab, machine, engine), timeout=240, what=machine)
            assert engine.poll() is None, _told(lab, log)
            lab.site.kill(machine)
            join(machine, "lab")
        assert engine.wait(timeout=540) == 0, _told(lab, log)
    finally:
        engine.kill()
        engine.wait()
    expected = sum(number * number for sample in range(count) for number in range(sample, 101))
    assert (storage / "sums.txt").read_text() == f"{expected}\n"
    jobs = json.loads(lab.site.say("bob", "jobs", "--json"))
    assert sum(job["state"] == "COMPLETE" for job in jobs) == 2 * count + 1
    assert len(jobs) == 2 * count + 1


def _told(lab: Lab, log: Path) -> str:
    """What the engine has said, and its tasks that have failed."""
    token = lab.token()
    failed = [it for it in lab.ask("tasks?view=FULL", token)["tasks"] if it["state"] != "COMPLETE"]
    return log.read_text()[-2000:] + json.dumps([it["logs"] for it in failed], indent=1)[-6000:]


def _runs_or_has_ended(lab: Lab, machine: str, engine: subprocess.Popen[bytes]) -> bool:
    """Whether a machine runs a task, or the engine has ended."""
    if engine.poll() is not None:
        return True
    jobs = json.loads(lab.site.say("bob", "jobs", "--json"))
    running = [job["id"] for job in jobs if job["state"] == "RUNNING"]
    shown = [json.loads(lab.site.say("bob", "jobs", str(job), "--json")) for job in running]
    return any(process["executor"] == machine for job in shown for process in job["processes"])
