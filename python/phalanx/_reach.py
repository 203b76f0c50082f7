"""How the machines of a grid are reached: where they are, who the user is to them, and what links to them may be.

A :class:`phalanx.Grid` has one :class:`Reach`. Functions that take ``hosts``, ``identity``, ``policy`` and ``trusted``
make one of these four.
"""

from __future__ import annotations

import atexit
import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from phalanx import _native
from phalanx._grids import JoinedHosts, read_joined, read_machines, with_needs
from phalanx._identities import USER, Dialler, dialler, own_identity, read_identity
from phalanx.hosts import Hosts, Lan, Machines, with_port
from phalanx.pilots import Pilot
from phalanx.requirements import Needs
from phalanx.security import Rules, Words, listed, policy_words
from phalanx.words import Policy, Service, StrPath

_log = logging.getLogger("phalanx")

#: Maximum seconds that the end of this process waits until other members have its news of the grid, and it theirs. A
#: talk takes a few round trips; a longer one is taken up by the next command.
LAST = 2.0


@atexit.register
def _end_process() -> None:
    with suppress(KeyboardInterrupt):
        for unwritten in _native.finish_news(LAST):
            _log.warning("%s; other members bring it again", unwritten)


class Reach(NamedTuple):
    """The machines, the user's identity file, the policy, and trusted networks beside those of the machines."""

    hosts: Hosts | None = None
    identity: StrPath | None = None
    policy: Policy | Rules = "links"
    trusted: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        hosts: Machines | Pilot | None = None,
        identity: StrPath | None = None,
        policy: Policy | Rules = "links",
        trusted: str | Iterable[str] = (),
    ) -> Reach:
        """Reads what the user named. In a grid that the user has joined by a token, the user is whom its hub knows.

        Raises
        ------
        RecruitError
            A machine, or the file of machines, is wrong.
        PolicyError
            The policy is none.
        IdentityError
            The user's certificate in a joined grid has ended, and is not renewed.
        """
        policy_words(policy, ())
        known = hosts.hosts() if isinstance(hosts, Pilot) else read_machines(hosts, identity)
        if isinstance(known, JoinedHosts) and identity is None and _native.acts_at() is None:
            identity = known.joined.user
        if isinstance(hosts, Lan) and hosts.grid is not None and identity is None:
            identity = read_joined(hosts.grid).user
        return cls(known, identity, policy, (*listed(trusted),))

    def meeting(self, needs: Needs | None) -> Reach:
        """The same with only the machines that have what is needed.

        Raises
        ------
        ContractError
            The machines are not those of a joined grid.
        RecruitError
            No machine has it.
        """
        return self._replace(hosts=with_needs(self.hosts, needs, self.identity))

    def newcomers(self) -> Callable[[], tuple[list[str], Dialler]] | None:
        """A function that asks the hub for the machines that run by then, and whom the user expects there. None: the
        machines have no hub, or only some of its machines are meant."""
        hosts = self.hosts
        if not isinstance(hosts, JoinedHosts) or hosts.growing is None:
            return None

        def find() -> tuple[list[str], Dialler]:
            later = self._replace(hosts=hosts.now(self.identity))
            return later.addresses, later.dialler()

        return find

    @property
    def addresses(self) -> list[str]:
        """The addresses of all machines; none if it is this machine only. Raises RecruitError if there should be some,
        and none of them runs."""
        return self.hosts.to_recruit() if self.hosts else []

    def address(self, machine: str) -> str:
        """The address of a machine, from its name, its host, or an address with or without a port. In a process that
        acts for a user, names are those of the user's program unless this names machines."""
        hosts = self.hosts or programs_machines()
        return hosts.address(machine) if hosts else with_port(machine)

    def words(self) -> Words:
        """The policy with all trusted networks, as the native core reads it."""
        known = self.hosts.trusted if self.hosts else ()
        return policy_words(self.policy, dict.fromkeys((*self.trusted, *known)))

    def dialler(self, service: Service | None = None) -> Dialler:
        """The user's identity, and whom it expects; or what the user has delegated to this process of the ``service``
        that it is for. Raises IdentityError if there is none."""
        certificates, file = (self.hosts.certificates, self.hosts.path) if self.hosts else ({}, None)
        if self.identity is None and service is not None and _native.acts_for(service):
            return _acting(certificates)
        found = dialler(read_identity(self.identity, USER, service), self.identity, certificates, file)
        return found._replace(machines=self.hosts.elsewhere() if self.hosts else {})

    def options(self) -> dict[str, Any]:
        """The same as keyword arguments of functions that take all four."""
        return self._asdict()


def _acting(certificates: Mapping[str, str]) -> Dialler:
    """What the user has delegated to this process, which expects the members that the user's program expects."""
    return Dialler(None, {**_native.machines_given()[1], **certificates}, None, [], {}, None)


def programs_machines() -> Hosts | None:
    """The machines that the user's program has named to this process, which acts for the user. None: there are none."""
    machines, certificates = _native.machines_given()
    return Hosts.known(machines, certificates) if machines else None


def dialler_if_any(
    identity: StrPath | None, certificates: Mapping[str, str], hosts: StrPath | None = None
) -> Dialler | None:
    """The same, for spaces; None if the user named no identity file and has none."""
    if identity is None and _native.acts_for("spaces"):
        return _acting(certificates)
    text = read_identity(identity, USER, "spaces") if identity else own_identity(USER)
    return None if text is None else dialler(text, identity, certificates, Path(hosts) if hosts else None)
