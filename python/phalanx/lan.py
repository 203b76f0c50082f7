"""Executors of a grid on the local network, without a hub and without a list of them."""

from __future__ import annotations

import copy
import logging
from collections.abc import Iterable, Mapping

from phalanx import _native
from phalanx._identities import Dialler
from phalanx.errors import RecruitError, SpaceError
from phalanx.hosts import PORT, Hosts, Lan

#: The end of addresses by which members are called instead of where they are, as in a grid with a hub.
_DOMAIN = ".phalanx"

_log = logging.getLogger("phalanx")


class LanHosts(Hosts):
    """The executors that were found on the local network. ``strangers`` is the number of machines that have answered
    and are not of this grid, or refuse this user."""

    def __init__(self, growing: str, found: Mapping[str, str], strangers: int) -> None:
        self.path, self.trusted, self.growing, self.strangers = None, [], growing, strangers
        self._direct = dict(found)
        self.machines = {name: f"{name}.{growing}{_DOMAIN}:{PORT}" for name in self._direct}
        self.addresses = list(self.machines.values())
        self.certificates = {at: name for name, at in [*self.machines.items(), *self._direct.items()]}

    def to_recruit(self) -> list[str]:
        """The addresses of all executors that were found. Raises RecruitError if there is none."""
        if not self.addresses:
            raise RecruitError(
                f"no executor of your grid announces itself on the local network{self.in_vain()}; start one with: "
                "phalanx executor --lan"
            )
        return self.addresses

    def in_vain(self) -> str:
        """How many machines have answered in vain, as the end of a sentence."""
        if not self.strangers:
            return ""
        one = "1 machine answers that is of another grid, or does not serve you"
        many = f"{self.strangers} machines answer that are of other grids, or do not serve you"
        return f"; {one if self.strangers == 1 else many}"

    def address(self, machine: str) -> str:
        """The address of an executor, or of any ``host:port``. Raises RecruitError for another name."""
        return super().address(machine) if ":" in machine or machine in self.machines else self._known(machine)

    def only(self, names: Iterable[str]) -> LanHosts:
        """The executors with these names. Raises RecruitError for a name of none that was found."""
        chosen, hosts = super().only(names), copy.copy(self)
        hosts.addresses, hosts.machines, hosts.certificates = chosen.addresses, chosen.machines, chosen.certificates
        hosts.growing = None
        return hosts

    def elsewhere(self) -> dict[str, str]:
        """Where all executors were found, for processes that do not look for them: what they are given may be at others
        than those that they run on."""
        return dict(self._direct)

    def space_address(self, space: str) -> str:
        """Raises SpaceError: no machine of a local network is the one where a space is that is named without one."""
        places = ", ".join(f"{name}/{space}" for name in self.machines) or f"MACHINE/{space}"
        raise SpaceError(f"executors on the local network come and go: say where the space is, as in {places}")

    def _known(self, name: str) -> str:
        if name not in self.machines:
            raise RecruitError(
                f"no executor {name!r} of your grid announces itself on the local network; there are: "
                f"{', '.join(self.machines) or 'none'}"
            )
        return self.machines[name]

    def __repr__(self) -> str:
        return f"LanHosts({list(self.machines)!r})"


def find(lan: Lan, dialler: Dialler) -> LanHosts:
    """Finds the executors of the user's grid on the local network; there may be none.

    If fewer are found than are waited for, this logs a warning.

    Parameters
    ----------
    lan : Lan
        How many of them are waited for, and how long.
    dialler : Dialler
        Who the user is.

    Returns
    -------
    LanHosts

    Raises
    ------
    RecruitError
        The network cannot be asked.
    """
    grid, found, strangers, trouble = _native.find_on_lan(dialler, lan.at_least, lan.patience)
    if not found and trouble is not None:
        raise RecruitError(f"the local network cannot be asked for executors: {trouble}")
    hosts = LanHosts(grid, dict(found), strangers)
    if found and len(hosts.machines) < lan.at_least:
        names, others = ", ".join(hosts.machines), hosts.in_vain()
        _log.warning(
            "found %d of %d executors on the local network in %g s: %s%s",
            *(len(hosts.machines), lan.at_least, lan.patience, names, others),
        )
    return hosts
