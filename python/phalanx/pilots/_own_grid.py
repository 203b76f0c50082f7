"""The grid of one program: its hub runs in the program's process, and ends with it."""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import stat
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from phalanx import _native
from phalanx._addresses import free_port, machine_hosts
from phalanx._grids import (
    HUB,
    HUB_IDENTITY,
    MOST_ADDRESSES,
    Joined,
    JoinedHosts,
    ask_members,
    dialler_of,
    fingerprint_of_root,
    make_folder,
    replace,
)
from phalanx._identities import USER
from phalanx.errors import RecruitError
from phalanx.members import Member, is_address

#: How the names of the grids' folders begin.
_PREFIX = "phalanx-grid-"
#: Hours that the user's certificate and the executors' token are good: the longest time of an invitation. A program
#: that runs for longer recruits no more executors.
_HOURS = 30 * 24
#: Most executors that join with the token of a grid: each one that is started again joins anew.
_MOST_JOINS = 100_000
#: The file, in a grid's folder, that tells which process of which machine made it.
_MAKER = "process"
#: The user of the grid, who is the only one.
_NAME = "me"


class OwnGrid:
    """A certificate authority, a hub in this process, and the user of the program as the only user.

    The key of the root is forgotten at once. Keys of executors are made where they are used: each one joins with the
    token.

    Parameters
    ----------
    hosts : sequence of str
        By which hosts executors reach this machine; none: by all addresses that it has.

    Raises
    ------
    RecruitError
        A host is none.
    IdentityError
        The folder of identities cannot be written.
    """

    def __init__(self, hosts: Sequence[str] = ()) -> None:
        _remove_left()
        name = f"pilot-{secrets.token_hex(4)}"
        port = free_port("0.0.0.0", 0)
        addresses = [f"{host}:{port}" for host in (hosts or machine_hosts())][:MOST_ADDRESSES]
        if wrong := [address for address in addresses if not is_address(address)]:
            raise RecruitError(f"{wrong[0].rpartition(':')[0]!r} is no host by which executors reach this machine")
        self.folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=_runtime_folder()))
        make_folder(self.folder / HUB)
        try:
            write_maker(self.folder)
            root = self._found()
            self._hub = _native.Hub(self.folder, grid=name, owners=[_NAME], addresses=addresses, log_level="warning")
            self._server = _native.HubServer(f"0.0.0.0:{port}", self._hub, "warning")
        except BaseException:
            shutil.rmtree(self.folder, ignore_errors=True)
            raise
        self.joined = Joined(name, self.folder, name, (f"127.0.0.1:{port}",), root)
        self._pid = os.getpid()

    def _found(self) -> str:
        """Writes the identities of the hub and the user. Returns the fingerprint of the root."""
        issuer, hub = _native.found_grid(_native.create_grid(), "the grid of this program", None, HUB)
        replace(self.folder / HUB / "issuer.pem", issuer)
        replace(self.folder / HUB / HUB_IDENTITY, hub)
        replace(self.folder / USER, _native.found_member(issuer, "user", _NAME, _HOURS))
        return fingerprint_of_root(hub)

    def token(self) -> str:
        """A secret with which executors become members, as long as this program runs."""
        return self._hub.invite(_NAME, "executor", _MOST_JOINS, _HOURS * 3600)

    def executors(self) -> list[Member]:
        """The executors that are here now."""
        return [it for it in ask_members(self.joined) if it.role == "executor" and it.is_here and it.address]

    def expel(self, name: str) -> None:
        """Takes an executor out of the grid, which ends it."""
        _native.hub_expel(*dialler_of(self.joined), name)

    def hosts(self) -> JoinedHosts:
        """The executors that are here now, and those that come later, for managers and others."""
        hosts = JoinedHosts(self.joined, self.executors())
        who, hubs = dialler_of(self.joined)
        _native.guide_to(who, self.joined.name, hubs, hosts.elsewhere())
        return hosts

    def close(self) -> None:
        """Ends the hub, and removes all that the grid had here. In a fork it does nothing."""
        if os.getpid() == self._pid:
            self._server.close()
            self._hub.close()
            shutil.rmtree(self.folder, ignore_errors=True)


def _remove_left() -> None:
    """Removes the folders of grids whose processes were killed on this machine."""
    remove_left(Path(_runtime_folder()).glob(f"{_PREFIX}*"))


def remove_left(folders: Iterable[Path]) -> None:
    """Removes those of these folders of this account whose makers, processes of this machine, have ended."""
    for folder in folders:
        with suppress(OSError, ValueError):
            found = folder.lstat()  # first: in a folder of another account, a pipe could keep the reader for ever
            if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o022:
                continue
            host, pid = (folder / _MAKER).read_text().split()
            if host == socket.gethostname() and not _runs(int(pid)):
                shutil.rmtree(folder, ignore_errors=True)


def write_maker(folder: Path) -> None:
    """Says in a folder that this process has made it."""
    replace(folder / _MAKER, f"{socket.gethostname()} {os.getpid()}\n")


def _runtime_folder() -> str:
    """Where files are that end with this session: in memory, if there is such a folder. A hub waits for the disk at
    each change."""
    named = os.environ.get("XDG_RUNTIME_DIR", "")
    for folder in (named, "/dev/shm"):
        if folder and os.access(folder, os.W_OK | os.X_OK):
            return folder
    return tempfile.gettempdir()


def _runs(pid: int) -> bool:
    """Whether a process runs. One that has ended, and that its parent has not waited for, does not."""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except ProcessLookupError:
        return False
    except OSError:  # another account's; or the system has no such file
        return True
