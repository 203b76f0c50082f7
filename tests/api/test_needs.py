"""Needs in place of names of machines: what they are, which members meet them, and the errors where none does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import phalanx as px
import pytest
from api.joined import FakeHub, join, row
from click.testing import CliRunner
from phalanx import _grids, _native
from phalanx._grids import JoinedHosts
from phalanx.cli import commands
from phalanx.requirements import Needs, read_labels, read_needs


class Clock(NamedTuple):
    """A clock of the test's own."""

    monotonic: Callable[[], float]
    sleep: Callable[[float], None]


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeHub:
    """A grid ``lab`` that ada has joined, with four executors of which one does not run."""
    home = tmp_path / "home"
    monkeypatch.setenv("PHALANX_HOME", str(home))
    monkeypatch.chdir(tmp_path)
    join(home, _native.issue_member(_native.create_grid(), "user", "ada"))
    found = FakeHub(monkeypatch)
    found.rows = [
        row("ws7", "10.0.0.7:7400", cores="2", memory="2000000000", labels="lab-b quiet"),
        row("ws8", "10.0.0.8:7400", cores="8", memory="16000000000", gpus="2"),
        row("ws9", "10.0.0.9:7400", cores="64", memory="99000000000", gpus="8", is_here=False),
        row("ws7", None, role="user", is_here=False),
        row("odd", "10.0.0.6:7400", cores="-1", memory="1e99", gpus="\x1b[2J", labels="lab-\x00"),
    ]
    found.found = {"ws7": {"ffmpeg": "yes", "sox": "no"}, "ws8": {"ffmpeg": "no"}}
    return found


def machines(needs: Needs) -> list[str]:
    """The names of the machines of the grid that have what is needed."""
    found = px.Grid("lab").reach.meeting(needs).hosts
    assert isinstance(found, JoinedHosts)
    assert (found.growing, found.needs) == ("lab", needs)
    assert set(found.addresses) == {f"{name}.lab.phalanx:7400" for name in found.machines}
    return [*found.machines]


class TestWords:
    def test_needs_are_what_was_given(self) -> None:
        assert px.needs() == Needs()
        assert px.needs(cores=2, memory=5, gpu=1, software="ffmpeg", label=["a", "b", "a"]) == Needs(
            2, 5, 1, ("ffmpeg",), ("a", "b")
        )
        assert str(px.needs()) == "nothing"
        assert str(px.needs(cores=1, memory="512 MiB", gpu=2, label="x")) == (
            "1 core, 536.8 MB of memory, 2 GPUs, the label x"
        )

    @pytest.mark.parametrize(
        ("text", "size"),
        [
            *[("4 GB", 4 * 10**9), ("4GB", 4 * 10**9), ("4g", 4 * 10**9), ("4 GiB", 4 << 30), ("1.5T", 15 * 10**11)],
            *[("512 MiB", 512 << 20), ("7", 7), ("7 B", 7), ("0", 0)],
        ],
    )
    def test_amounts_of_memory(self, text: str, size: int) -> None:
        assert px.needs(memory=text).memory == size

    @pytest.mark.parametrize(
        "wrong",
        [{"cores": -1}, {"cores": 1.5}, {"cores": "2"}, {"cores": True}, {"cores": 1 << 63}, {"gpu": None}]
        + [{"memory": text} for text in ("much", "4 XB", "-1", "", "4 GB RAM", "9" * 13, "1e9", "4 iB", "٤ GB")]
        + [{"software": text} for text in ("/bin/sh", "../x", "a b", "", "-x", "é", "x" * 65, "a\n", ["a", 7])]
        + [{"wait": seconds} for seconds in (-1, "2", None, True, float("nan"))]
        + [{"label": text} for text in ("a b", "a,b", "\x1b[2J", 7, None)]
        + [{"software": [f"a{number}" for number in range(17)]}],
        ids=repr,
    )
    def test_what_is_no_need(self, wrong: dict[str, Any]) -> None:
        with pytest.raises(px.errors.ContractError, match=next(iter(wrong))):
            px.needs(**wrong)

    def test_a_text_has_the_same_needs(self) -> None:
        text = "cores=2, memory=4 GB,gpu=1,software=ffmpeg,software=sox,label=lab-b,wait=60"
        expected = px.needs(cores=2, memory="4 GB", gpu=1, software=["ffmpeg", "sox"], label="lab-b", wait=60)
        assert read_needs(text) == expected
        assert read_needs("") == Needs()

    @pytest.mark.parametrize(
        "text",
        ["cores", "disk=4", "cores=two", "cores=2,cores=3", "cores=-1", "memory=4 XB", "software=/bin/sh", "=", "gpu="],
    )
    def test_a_text_that_has_none(self, text: str) -> None:
        with pytest.raises(px.errors.ContractError):
            read_needs(text)

    def test_labels_of_a_machine_fit_a_fact(self) -> None:
        assert read_labels(["a", "b", "a"]) == ("a", "b")
        with pytest.raises(px.errors.ContractError, match="200 characters"):
            read_labels(["x" * 60 + str(number) for number in range(4)])
        with pytest.raises(px.errors.ContractError, match="label='a b'"):
            read_labels(["a b"])


class TestMembers:
    @pytest.mark.parametrize(
        ("needs", "names"),
        [
            (px.needs(), ["odd", "ws7", "ws8"]),
            (px.needs(cores=2), ["ws7", "ws8"]),
            (px.needs(memory="4 GB"), ["ws8"]),
            (px.needs(gpu=2), ["ws8"]),
            (px.needs(label="lab-b"), ["ws7"]),
            (px.needs(label=["quiet", "lab-b"], cores=1), ["ws7"]),
            (px.needs(software="ffmpeg"), ["ws7"]),
        ],
        ids=str,
    )
    def test_those_that_have_everything_and_run(self, hub: FakeHub, needs: Needs, names: list[str]) -> None:
        assert machines(needs) == names
        assert hub.sought == ([["ffmpeg"]] if needs.software else [])

    def test_some_machines_of_a_grid_stay_these(self, hub: FakeHub) -> None:
        hosts = px.Grid("lab").only("ws7", "ws8").reach.meeting(px.needs(cores=8)).hosts
        assert isinstance(hosts, JoinedHosts)
        assert ([*hosts.machines], hosts.growing) == (["ws8"], None)

    @pytest.mark.parametrize(
        ("needs", "told"),
        [
            (
                px.needs(software="sox"),
                "no executor of the grid lab has sox: odd lacks sox (it has not said); ws7 lacks sox;",
            ),
            (
                px.needs(cores=64),
                "has 64 cores: odd lacks 64 cores (it has 0); ws7 lacks 64 cores (it has 2); ws8",
            ),
            (
                px.needs(label="lab-b", gpu=1),
                "has all of 1 GPU, the label lab-b: odd lacks 1 GPU (it has 0), the",
            ),
            (px.needs(memory="1 TB", gpu=1), "has 1000 GB of memory: "),
        ],
        ids=str,
    )
    def test_where_none_has_it_the_error_says_which_need_is_not_met(
        self, hub: FakeHub, needs: Needs, told: str
    ) -> None:
        calls: list[Callable[[], object]] = [
            lambda: px.Manager("lab", needs=needs),
            lambda: px.Grid("lab").manager(needs=needs),
            lambda: px.mpirun("true", 1, hosts="lab", needs=needs),
            lambda: px.Grid("lab").bsprun("true", n=1, needs=needs),
        ]
        for call in calls:
            with pytest.raises(px.errors.RecruitError) as caught:
                call()
            assert told in str(caught.value)
            assert str(caught.value).endswith("the members are shown by: phalanx members --grid lab")
            assert str(caught.value).isprintable()

    def test_without_a_hub_the_last_answer_tells_facts(self, hub: FakeHub) -> None:
        px.Grid("lab")
        hub.rows = None
        with pytest.warns(UserWarning, match="no hub"):
            assert machines(px.needs(cores=8)) == ["ws8"]
        with pytest.warns(UserWarning, match="no hub"), pytest.raises(px.errors.RecruitError, match="has not said"):
            machines(px.needs(software="ffmpeg"))

    def test_a_program_waits_for_a_machine_and_says_what_each_one_lacks(
        self, hub: FakeHub, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        rows, answers = hub.rows, 0
        assert rows is not None
        large = row("ws4", "10.0.0.4:7400", cores="32", memory="64000000000")
        small = row("ws4", "10.0.0.4:7400", cores="16")

        def sleep(seconds: float) -> None:
            nonlocal answers
            assert 0 < seconds <= 1
            # The same machines, no hub, a machine that has too little, and at last one that has all.
            hub.rows = [rows, None, [*rows, small], [*rows, large]][min(answers, 3)]
            answers += 1

        monkeypatch.setattr(_grids, "time", Clock(lambda: 0.0, sleep))
        assert machines(px.needs(cores=32, wait=60)) == ["ws4"]
        assert answers == 4
        said = [record.getMessage() for record in caplog.records]
        assert len(said) == 2, "once for each change"
        assert said[0].startswith(
            "waiting for a machine, for 60 s at most: no executor of the grid lab has 32 cores: odd"
        )
        assert "ws4 lacks 32 cores (it has 16)" in said[1]

    def test_what_never_comes_is_an_error_after_the_wait(
        self, hub: FakeHub, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        now = 0.0

        def sleep(seconds: float) -> None:
            nonlocal now
            now += seconds

        monkeypatch.setattr(_grids, "time", Clock(lambda: now, sleep))
        with pytest.raises(px.errors.RecruitError, match="has 64 cores: odd lacks 64 cores"):
            machines(px.needs(cores=64, wait=2.5))
        assert now == 2.5
        only = px.Grid("lab").only("ws7").reach
        with pytest.raises(px.errors.RecruitError, match=r"has 8 cores: ws7 lacks 8 cores \(it has 2\); the members"):
            only.meeting(px.needs(cores=8, wait=1))

    @pytest.mark.parametrize("where", [None, "10.0.0.7:7400"])
    def test_needs_are_for_a_grid_with_a_hub(self, hub: FakeHub, where: str | None) -> None:
        for call in (px.Manager, lambda where, needs: px.mpirun("true", hosts=where, needs=needs)):
            with pytest.raises(px.errors.ContractError, match=r"as in px\.Grid\('lab'\)"):
                call(where, needs=px.needs(cores=1))

    def test_what_are_no_needs(self, hub: FakeHub) -> None:
        with pytest.raises(px.errors.ContractError, match=r"write needs=px\.needs"):
            px.Manager("lab", needs="cores=2")  # type: ignore[arg-type]


class TestCommands:
    def test_mpirun_takes_needs_in_a_text(self, hub: FakeHub) -> None:
        done = CliRunner().invoke(commands, ["mpirun", "--grid", "lab", "--needs", "cores=99,label=x", "true"])
        assert isinstance(done.exception, px.errors.RecruitError)
        assert "has 99 cores, or the label x: " in str(done.exception)

    @pytest.mark.parametrize(
        ("words", "told"),
        [
            (["--grid", "lab", "--needs", "disk=4"], "'disk=4' is no need: write one of cores="),
            (["--needs", "cores=2"], "--needs needs --hosts, --grid, --lan or --on"),
        ],
    )
    def test_wrong_needs_are_an_error_of_usage(self, hub: FakeHub, words: list[str], told: str) -> None:
        for command in ("mpirun", "bsprun"):
            done = CliRunner().invoke(commands, [command, *words, "true"])
            assert done.exit_code == 2
            assert told in " ".join(done.output.replace("│", " ").split())

    def test_members_are_shown_with_what_they_have(self, hub: FakeHub) -> None:
        told = CliRunner(env={"COLUMNS": "200"}).invoke(commands, ["members"]).output
        assert "labels lab-b quiet" in told
        assert "2 GPUs" in told
        assert "\x1b" not in told
