"""Acts for the users whose tokens the hub has checked: with identities that the hub's issuer signs, for a short time.

A space's server knows a user by a certificate of the grid, and a token has none. So the hub makes a key and signs a
certificate with the user's name, as it does when the user joins. The key never leaves this process.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence

from phalanx import _native
from phalanx._grids import Joined, JoinedHosts, machines_of
from phalanx._identities import Dialler, known_members, read_private, revoked_lists
from phalanx.api.refusals import Refused
from phalanx.api.tuples import LONGEST_READ
from phalanx.errors import RecruitError, SpaceError
from phalanx.members import is_name
from phalanx.security import policy_words
from phalanx.space._replicas import Replicas

#: The file of the hub's key that signs certificates of members.
ISSUER = "issuer.pem"
#: Hours for which such an identity is good, and seconds after which there is a new one.
_HOURS, FRESH = 1.0, 1800.0
#: Seconds after which the hub is asked anew for its machines: usually, and where one is not found.
_KNOWN, _NEWS = 10.0, 0.5
#: Seconds within which a replicated space must be found.
_PATIENCE = 10.0

Engine = _native.RemoteSpace | Replicas


class Acting:
    """Opens spaces for users, and names them to the machines of their copies.

    Parameters
    ----------
    joined
        The grid, whose hub is in this process.
    """

    def __init__(self, joined: Joined) -> None:
        self._joined = joined
        self._made: dict[str, tuple[float, str]] = {}
        self._lock, self._asking = threading.Lock(), threading.Lock()
        self._machines: tuple[float, JoinedHosts] | None = None

    def open(self, user: str, machine: str, name: str) -> Engine:
        """Opens a space in the name of a user. A space that is missing is made.

        Parameters
        ----------
        user
            The user.
        machine
            The executor that has it; empty: that of the hub's machine.
        name
            The name of the space there.

        Returns
        -------
        Engine

        Raises
        ------
        Refused
            There is no such machine, or it does not run (404).
        SpaceError
            The server cannot be reached, or refuses.
        """
        if machine and not is_name(machine):  # an address could lead anywhere
            raise Refused(400, f"machine: {machine!r:.80} is no name of a member; names are shown by: phalanx members")
        hosts = self._hosts(_KNOWN)
        try:
            place = _place(hosts, machine, name)
        except (RecruitError, SpaceError):  # it may have come since
            hosts = self._hosts(_NEWS)
            try:
                place = _place(hosts, machine, name)
            except (RecruitError, SpaceError) as error:
                raise Refused(404, f"machine: {error}") from None
        engine = self._reach(user, hosts, place, seconds=_PATIENCE)
        if not engine.members:
            return engine

        def again(seconds: float, lost: _native.RemoteSpace) -> _native.RemoteSpace:
            members = sorted(lost.members, key=lambda member: member == lost.place)  # the former leader is asked last
            return self._reach(user, self._hosts(_NEWS), place, members, seconds=seconds)

        return Replicas(engine, again)

    def reach(self, user: str, machines: Mapping[str, str]) -> tuple[Dialler, dict[str, str]]:
        """What a user needs to copy between machines.

        Parameters
        ----------
        user
            The user.
        machines
            The names of the machines, by the fields that name them.

        Returns
        -------
        tuple
            The user's identity with what it expects, and the addresses of the machines, by the same fields.

        Raises
        ------
        Refused
            There is no such machine, or it does not run (404).
        """
        hosts = self._hosts(_KNOWN)
        for field, machine in machines.items():
            try:
                hosts.address(machine)
            except RecruitError:  # it may have come since
                hosts = self._hosts(_NEWS)
                try:
                    hosts.address(machine)
                except RecruitError as error:
                    raise Refused(404, f"{field}: {error}") from None
        addresses = {field: hosts.address(machine) for field, machine in machines.items()}
        return self._dialler(user, hosts)._replace(machines=hosts.elsewhere()), addresses

    def _hosts(self, seconds: float) -> JoinedHosts:
        """The machines of the grid so many seconds ago at most. The hub tells them to its owner, whose identity lies
        beside its own."""
        with self._asking:
            if self._machines is None or time.monotonic() - self._machines[0] > seconds:
                self._machines = time.monotonic(), machines_of(self._joined.name)
            return self._machines[1]

    def _reach(
        self, user: str, hosts: JoinedHosts, place: str, members: Sequence[str] = (), *, seconds: float
    ) -> _native.RemoteSpace:
        engine = _native.RemoteSpace(
            place,
            {},
            False,  # what a user has pickled is never unpickled here
            dialler=self._dialler(user, hosts),
            # A server on this machine has the same account. It would take a clear link for its owner's, who may do
            # everything. A private link shows the user's certificate.
            policy=policy_words("all", ()),
            create=not members,
            members=[*members],
            seconds=seconds,
        )
        engine.refuse_longer(LONGEST_READ)
        if engine.peer is None:
            engine.close()
            raise SpaceError(f"the server at {place} has shown no certificate, so it would not know the user {user}")
        return engine

    def _dialler(self, user: str, hosts: JoinedHosts) -> Dialler:
        own, certificates = self._joined.user, dict(hosts.certificates)
        return Dialler(self._identity(user), certificates, f"{known_members(own)}", revoked_lists(own), {}, None)

    def _identity(self, user: str) -> str:
        now = time.monotonic()
        with self._lock:
            self._made = {name: made for name, made in self._made.items() if now - made[0] < FRESH}
            if user not in self._made:
                file = self._joined.hub / ISSUER
                issuer = read_private(file, "issuer", f"the hub of {self._joined.name} is on another machine")
                self._made[user] = now, _native.found_member(issuer, "user", user, _HOURS)
            return self._made[user][1]


def _place(hosts: JoinedHosts, machine: str, name: str) -> str:
    """The address of a space. Raises RecruitError or SpaceError if its machine does not run."""
    return f"{hosts.address(machine)}/{name}" if machine else hosts.space_address(name)
