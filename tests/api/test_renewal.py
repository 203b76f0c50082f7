"""Renewed certificates: members get them over the links of managers, and use them without a restart."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import phalanx as px
import pytest
from api.members import PATIENCE, Lab
from phalanx import _native

from laboratory.processes import until

# A certificate that is good for so long is taken by an executor that starts, and has ended soon after.
SHORT = 30


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    there = Lab(tmp_path)
    yield there
    there.end()


def has_ended(identity: str) -> bool:
    """Whether the certificate in the text of an identity file has ended."""
    try:
        _native.check_member(identity, "it")
    except px.IdentityError as error:
        return "ended on 20" in str(error)
    return False


def key_in(identity: str) -> list[str]:
    return re.findall("-----BEGIN PRIVATE KEY-----.*-----END PRIVATE KEY-----", identity, re.DOTALL)


def ends(identity: Path) -> str:
    """When the certificate in an identity file ends, as the authority's machine would say it."""
    authority = identity.parent.parent / "grid" / "authority.pem"
    own = identity.read_text().partition("-----END CERTIFICATE-----")
    return _native.issued_certificates("".join(own[:2]), authority.read_text())[0][5]


def test_members_renew_themselves_when_managers_bring_their_certificates(lab: Lab) -> None:
    executor, address = lab.executor("labpc", seconds=SHORT)
    labpc, eve = lab.folder / "labpc" / "identity.pem", lab.issue("user", "eve")
    ada = lab.home / "user.pem"
    before, eves = labpc.read_text(), eve.read_text()
    hosts = [f"labpc = {address}"]
    with px.Grid(hosts, identity=ada).manager(contract=px.ParDegree(1)) as manager:
        assert list(manager.map(abs, [-1])) == [1]
        said = lab.grid("renew", "labpc", "eve", "--days", "400")
        assert "labpc in the role executor: good until 20" in said
        until(lambda: labpc.read_text() != before, timeout=PATIENCE, what="a new certificate at the executor")
        assert list(manager.map(abs, [-2])) == [2]
    assert key_in(labpc.read_text()) == key_in(before)
    until(lambda: has_ended(before), timeout=PATIENCE, what="the end of the certificate at the executor's start")
    # The executor that was not restarted shows the new certificate. It has those of others too.
    with px.Grid(hosts, identity=eve).manager(contract=px.ParDegree(1)) as manager:
        assert list(manager.map(abs, [-3])) == [3]
        until(lambda: eve.read_text() != eves, timeout=PATIENCE, what="a new certificate at eve's")
    assert key_in(eve.read_text()) == key_in(eves)
    assert [file.name for file in eve.parent.glob("identity.pem*")] == ["identity.pem"]
    errors = executor.stderr()
    assert errors.count("the certificate of labpc ends on 20") == 1, "it was near its end from the start"
    assert "ada brought a new certificate of this machine, good until 20" in errors
    assert f"good until {ends(labpc)}" in errors


def test_a_space_in_a_task_works_after_the_executor_was_renewed(lab: Lab) -> None:
    _, address = lab.executor("labpc")
    labpc, ada = lab.folder / "labpc" / "identity.pem", lab.home / "user.pem"
    before, own = labpc.read_text(), ada.read_text()
    grid = px.Grid([f"labpc = {address}"], identity=ada)

    def put(space: px.Space, number: int) -> None:
        space.out("number", number)

    with grid.space("labpc/jobs") as space, grid.manager(contract=px.ParDegree(1)) as manager:
        manager.submit(put, space, 1).result()
        lab.grid("renew", "labpc", "ada", "--days", "400")
        until(lambda: labpc.read_text() != before, timeout=PATIENCE, what="a new certificate at the executor")
        assert ada.read_text() != own
        with pytest.raises(px.PhalanxError):
            manager.submit(os._exit, 1).result()
        # The next interpreter is made over the link that began with the certificates of before.
        manager.submit(put, space, 2).result()
        with grid.manager(contract=px.ParDegree(1)) as another:
            another.submit(put, space, 3).result()
        assert sorted(space.in_("number", int)[1] for _ in range(3)) == [1, 2, 3]


def test_a_member_whose_certificate_has_ended_finds_the_new_one_beside_its_identity_file(lab: Lab) -> None:
    _, address = lab.executor("labpc")
    eve = lab.issue("user", "eve", seconds=0)
    until(lambda: has_ended(eve.read_text()), timeout=PATIENCE, what="the end of the certificate")
    with pytest.raises(px.IdentityError, match=r"certificate of eve ended on 20.*phalanx grid renew eve"):
        px.Grid([f"labpc = {address}"], identity=eve).manager(contract=px.ParDegree(1))
    assert "no certificate" in lab.grid("renew"), "one that has ended is renewed by its name only"
    lab.grid("renew", "eve", "--days", "400")
    (eve.parent / "renewed.pem").write_bytes((lab.home / "renewed.pem").read_bytes())
    with px.Grid([f"labpc = {address}"], identity=eve).manager(contract=px.ParDegree(1)) as manager:
        assert list(manager.map(abs, [-1])) == [1]
    assert not has_ended(eve.read_text())
