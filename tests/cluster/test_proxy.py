"""Offices whose only way out is an HTTP proxy: executors and users reach the hub through it."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from cluster.grid import Farm

import laboratory.proxy
from laboratory.grid import PHALANX
from laboratory.hub import NAME, PATIENCE, HubGrid, Joined
from laboratory.lab import Host, Lab
from laboratory.processes import Process, until

PORT = 3128
USER = "ada:open sesame"
#: The same in an address.
TYPED = "ada:open%20sesame"


class Office:
    """A hub on the internet, a proxy there, and an office whose router lets connections to the proxy's port through,
    and no others."""

    def __init__(self, lab: Lab, *options: str) -> None:
        self.lab = lab
        self.grid = HubGrid(lab.host("hub"))
        self.place = lab.host("proxy")
        self.proxy = self.place.popen([sys.executable, laboratory.proxy.__file__, str(PORT), *options])
        self.proxy.line("listening")
        self.network = lab.nat("office", ports=[PORT])

    def env(self, user: str = "", **more: str) -> dict[str, str]:
        """The environment of the office's machines."""
        at = f"{user}@" if user else ""
        return {"HTTPS_PROXY": f"http://{at}{self.place.address}:{PORT}", **more}

    def token(self, role: str) -> str:
        """What the owner of the grid sends to the office."""
        return self.grid.token(role)

    def join(self, name: str, user: str = "") -> Joined:
        """An executor in the office."""
        host = self.lab.host(name, self.network)
        donated = ["--interpreters", "2", "--grant", f"{self.grid.granted}:rw", "--env", "PHALANX_TEST_RUN"]
        words: list[str | Path] = [PHALANX, "join", "--name", name, *donated, self.token("executor")]
        process = host.popen(words, env=self.env(user))
        process.line("listening on ")
        self.grid.wait_for(name)
        return Joined(host, process, name)

    def try_to_join(self, env: dict[str, str]) -> Process:
        """A user in the office types the line of the hub; what comes of it."""
        host = self.lab.host(f"desk-{len(self.lab.processes)}", self.network)
        words: list[str | Path] = [PHALANX, "join", "--name", "bob", self.token("user")]
        return host.run(words, env=env, timeout=PATIENCE, check=False)


@dataclass
class InOffice:
    """A user at a desk in the office."""

    office: Office
    desk: Host

    @property
    def env(self) -> dict[str, str]:
        """What the desk's programs know of the proxy."""
        return self.office.env()

    @property
    def granted(self) -> Path:
        """A folder that all executors let users' processes change."""
        return self.office.grid.granted


def user_in(office: Office) -> InOffice:
    """A user in the office, who joins there."""
    desk = office.lab.host("desk", office.network)
    desk.run([PHALANX, "join", "--name", "eve", office.token("user")], env=office.env(), timeout=PATIENCE)
    return InOffice(office, desk)


def test_a_farm_where_the_executor_and_the_user_have_only_the_proxy(lab: Lab) -> None:
    office = Office(lab, "--allow", "443")
    ws7 = office.join("ws7")
    farm = Farm(user_in(office), [], {"joined": NAME, "degree": None})
    assert farm.complete()["tasks"] == 100
    assert {result["machine"] for result in farm.facts("result")} == {"ws7"}
    assert ws7.process.code is None
    assert set(office.proxy.lines()[1:]) == {f"to {office.grid.host.address}:443"}


def test_a_user_elsewhere_reaches_the_executor_through_the_hub(lab: Lab) -> None:
    office = Office(lab, "--user", USER)
    office.join("ws7", TYPED)
    eve = office.grid.user(lab.host("near"))
    assert Farm(eve, [], {"joined": NAME, "degree": None}).complete()["tasks"] == 100
    there = office.grid.members()["ws7"]["address"]
    assert office.place.address not in there, "the proxy's address is none of the executor's"


def test_a_hub_that_needs_no_proxy_is_reached_without_it(lab: Lab) -> None:
    office = Office(lab)
    desk = lab.host("near")
    env = office.env(no_proxy=f"example.org,{office.grid.host.address}")
    desk.run([PHALANX, "join", "--name", "bob", office.token("user")], env=env, timeout=PATIENCE)
    assert office.proxy.lines()[1:] == []


@pytest.mark.parametrize(
    ("options", "user", "said"),
    [
        (["--user", USER], "", "asks for a name and a password (407 Proxy Authentication Required): HTTPS_PROXY=http"),
        (["--user", USER], "ada:wrong", "does not accept the name and the password in HTTPS_PROXY (407"),
        (["--allow", "80"], "", "refuses the connection (403 Filtered): most proxies let connections through to port"),
        (["--says", r"SSH-2.0-OpenSSH\r\n"], "", "what listens there is no HTTP proxy"),
        (["--says", r"HTTP/1.1 200 " + "x" * 9000], "", "what listens there is no HTTP proxy"),
        (["--says", r"HTTP/1.1 500 \x1b[2Jgone\r\n\r\n"], "", r"(500 \x1b[2Jgone)"),
    ],
)
def test_a_refusal_says_what_to_do(lab: Lab, options: list[str], user: str, said: str) -> None:
    office = Office(lab, *options)
    done = office.try_to_join(office.env(user))
    assert done.code != 0
    assert f"the proxy {office.place.address}:{PORT} of HTTPS_PROXY: " in done.stderr(), done.report()
    assert said in done.stderr(), done.report()
    assert "wrong" not in done.stderr()
    assert "\x1b" not in done.stderr()


def test_a_proxy_that_is_not_there_or_says_nothing(lab: Lab) -> None:
    office, silent, other = Office(lab), lab.host("silent"), lab.host("other")
    silent.listen(PORT)
    for host, said in ((silent, "no answer in time"), (other, "nothing listens there")):
        done = office.try_to_join({"HTTPS_PROXY": f"http://{host.address}:{PORT}"})
        assert f"the proxy {host.address}:{PORT} of HTTPS_PROXY: {said}" in done.stderr(), done.report()


def test_the_variable_is_explained_when_it_names_no_proxy(lab: Lab) -> None:
    office = Office(lab)
    done = office.try_to_join({"https_proxy": "socks5://10.0.0.1:1080"})
    assert "the variable https_proxy names no proxy that can be used: socks5 proxies are not supported" in done.stderr()


def test_links_end_and_come_back_with_the_proxy(lab: Lab) -> None:
    office = Office(lab)
    office.join("ws7")
    office.proxy.kill()
    office.grid.wait_for("ws7", is_here=False)
    office.proxy = office.place.popen([sys.executable, laboratory.proxy.__file__, str(PORT)])
    office.grid.wait_for("ws7")
    until(lambda: office.proxy.lines()[1:], timeout=PATIENCE, what="a connection through the new proxy")
