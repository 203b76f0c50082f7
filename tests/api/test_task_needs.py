"""What functions need where they are fired: which interpreters fire them, and what is said where none can."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import cloudpickle
import phalanx as px
import pytest
from api.executors import PHALANX, Executors
from phalanx.errors import ContractError, ProgramError, RecruitError
from phalanx.requirements import Needs
from skips import require

cloudpickle.register_pickle_by_value(sys.modules[__name__])

#: Begins a command with two graphics processors that are none: a `/dev` of its own has their files. Nothing else stands
#: in for anything.
TWO_GPUS = [
    *("unshare", "--mount", "sh", "-c"),
    """
    set -e
    new=$(mktemp -d)
    mount -t tmpfs none "$new"
    for name in null zero full random urandom tty; do
        touch "$new/$name"
        mount --bind "/dev/$name" "$new/$name"
    done
    mkdir "$new/shm"
    mount --rbind /dev/shm "$new/shm"
    ln -s /proc/self/fd "$new/fd"
    touch "$new/nvidia0" "$new/nvidia1"
    mount --move "$new" /dev
    rmdir "$new"
    exec "$@"
    """,
    "sh",
]


def gpus(seconds: float = 0.2) -> str | None:
    """The graphics processors that libraries of this interpreter see."""
    time.sleep(seconds)
    return os.environ.get("CUDA_VISIBLE_DEVICES")


def gpus_and_process(seconds: float) -> tuple[str | None, int]:
    return gpus(seconds), os.getpid()


def find(name: str) -> str | None:
    time.sleep(0.02)
    return shutil.which(name)


@pytest.fixture
def manager() -> Iterator[px.Manager]:
    with px.Manager(contract=px.ParDegree(2)) as opened:
        yield opened


class TestWords:
    def test_options_show_what_is_needed_and_those_inside_go_first(self) -> None:
        inner = px.options(abs, needs=px.needs(cores=2))
        assert repr(inner) == "options(abs, needs=needs(2 cores))"
        assert inner(-1) == 1
        assert repr(px.options(inner, retries=1)).startswith("options(options(abs, ")

    @pytest.mark.parametrize("wrong", [1, "gpu=1", {"gpu": 1}, (), True, px.needs(gpu=1, wait=5)])
    def test_what_is_no_need_is_refused(self, wrong: object) -> None:
        with pytest.raises(ProgramError, match=r"needs|wait"):
            px.options(abs, needs=wrong)  # type: ignore[call-overload]

    def test_wrong_needs_are_refused_where_they_are_made(self) -> None:
        with pytest.raises(ContractError):
            px.options(abs, needs=px.needs(gpu=-1))


class TestHere:
    def test_what_this_machine_has_is_used(self, manager: px.Manager) -> None:
        needs = px.needs(cores=1, memory="64 MB", software="sh")
        program = px.Pipeline(
            abs, px.options(str, needs=needs), px.Map(px.options(len, needs=needs), split=list, join=sum)
        )
        assert list(manager.compute(program, range(-20, 0))) == [len(str(n)) for n in range(20, 0, -1)]
        assert manager.summary().lost == 0
        assert manager.submit(px.options(abs, needs=needs), -5).result(60) == 5
        assert list(manager.map(px.options(abs, needs=needs, priority=1), [-1, -2])) == [1, 2]

    @pytest.mark.parametrize(
        ("needs", "lacks"),
        [
            (px.needs(software="no-such-program"), "this-machine lacks no-such-program"),
            (px.needs(memory="900 TB"), "this-machine lacks 900000 GB of memory"),
            (px.needs(cores=1 << 40), r"lacks 1099511627776 cores \(it has "),
            (px.needs(label="lab-b"), "lacks the label lab-b"),
            (px.needs(gpu=1000), r"lacks 1000 GPUs \(it has "),
        ],
    )
    def test_what_no_machine_has_is_an_error_that_says_what_is_lacking(
        self, manager: px.Manager, needs: Needs, lacks: str
    ) -> None:
        with pytest.raises(RecruitError, match=lacks):
            manager.submit(px.options(abs, needs=needs), -1).result(60)
        with pytest.raises(RecruitError, match=lacks):
            list(manager.compute(px.Pipeline(abs, px.options(str, needs=needs)), [1, 2]))
        assert manager.submit(abs, -1).result(60) == 1

    def test_each_gpu_belongs_to_one_interpreter_at_a_time(self) -> None:
        require("root")
        program = """
import os, time
import phalanx as px

def gpus(number):
    time.sleep(0.5)
    return os.environ.get("CUDA_VISIBLE_DEVICES", "all")

with px.Manager(contract=px.ParDegree(3)) as manager:
    print(sorted(set(manager.map(px.options(gpus, needs=px.needs(gpu=1)), range(6)))))
    print({*manager.map(gpus, range(12))} >= {"all"})
    try:
        print(manager.submit(px.options(gpus, needs=px.needs(gpu=3)), 0).result(60))
    except px.errors.RecruitError as error:
        print(error)
with px.Manager(contract=px.ParDegree(1)) as manager:
    print(manager.submit(px.options(gpus, needs=px.needs(gpu=2)), 0).result(60))
"""
        done = subprocess.run(
            [*TWO_GPUS, sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=300
        )
        one, shared, lack, both = done.stdout.splitlines() if done.returncode == 0 else [done.stderr] * 4
        assert one == "['0', '1']"
        assert shared == "True"
        assert "no machine of this program has 3 GPUs: this-machine lacks 3 GPUs (it has 2)" in lack
        assert both == "0,1"


@pytest.fixture
def grid(tmp_path: Path) -> Iterator[Executors]:
    with Executors(tmp_path, TWO_GPUS) as grid:
        yield grid


class TestExecutors:
    def test_functions_are_fired_where_a_program_is(self, tmp_path: Path) -> None:
        tools = tmp_path / "tools"
        tools.mkdir()
        (tools / "renderx").write_text("#!/bin/sh\n")
        (tools / "renderx").chmod(0o755)
        with Executors(tmp_path) as grid:
            path = f"{tools}:{os.environ['PATH']}"
            allow = {"PHALANX_ALLOW_ROOT": "1"}
            poor = grid.start("poor", "--accept", "ada", env=allow)
            rich = grid.start("rich", "--accept", "ada", "--grant", f"{tools}:ro", env={**allow, "PATH": path})
            hosts = px.Hosts.known({"poor": poor, "rich": rich}, {})
            render = px.options(find, needs=px.needs(software="renderx"))
            with px.Manager(hosts, identity=grid.identity, contract=px.ParDegree(4)) as manager:
                assert set(manager.map(render, ["renderx"] * 30)) == {str(tools / "renderx")}
                assert None in set(manager.map(find, ["renderx"] * 200))
            # The contract has only one interpreter, which is at the wrong machine or at the right one.
            with px.Manager(hosts, identity=grid.identity, contract=px.ParDegree(1)) as manager:
                assert manager.submit(render, "renderx").result(60) == str(tools / "renderx")
                with pytest.raises(RecruitError, match=r"has no-such: \S+ lacks no-such; \S+ lacks no-such"):
                    manager.submit(px.options(find, needs=px.needs(software="no-such")), "x").result(60)

    def test_gpus_belong_to_one_interpreter_at_a_time_whoever_its_user_is(self, grid: Executors) -> None:
        require("root")
        address = grid.start(
            *("labpc", "--grant", "gpu", "--accept", "ada", "--accept", "eve"),
            interpreters=4,
            env={"PHALANX_ALLOW_ROOT": "1"},
        )
        one = px.options(gpus_and_process, needs=px.needs(gpu=1))
        with px.Manager(address, identity=grid.identity, contract=px.ParDegree(2)) as ada:
            seen = dict(ada.map(one, [0.5] * 8))
            assert set(seen) == {"0", "1"}, PHALANX
            with px.Manager(address, identity=grid.user("eve"), contract=px.ParDegree(1)) as eve:
                waits = eve.submit(one, 0.0)
                # A function that needs none goes on meanwhile, and sees what the machine has.
                assert eve.submit(gpus).result(60) is None
                time.sleep(2)
                assert not waits.done()
                ada.close()
                assert waits.result(60)[0] in {"0", "1"}
