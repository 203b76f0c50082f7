"""A grid, said once: its machines by name, who the user is to them, and what links to them may be."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from phalanx import _native
from phalanx._grids import JoinedHosts, find_members, read_status
from phalanx._reach import Reach
from phalanx.errors import RecruitError, SpaceError
from phalanx.hosts import Hosts, Machines, is_file
from phalanx.lan import LanHosts
from phalanx.pilots import Pilot
from phalanx.security import Rules
from phalanx.words import Level, Placement, Policy, StrPath

# Each method imports its module when it is called: a command that lists files needs no manager.
if TYPE_CHECKING:
    from typing_extensions import Unpack

    from phalanx.launching import BspOptions, LaunchResult, MpiOptions
    from phalanx.manager import Manager, ManagerOptions
    from phalanx.members import Member
    from phalanx.space import Space
    from phalanx.space._option_types import GridSpaceOptions
    from phalanx.status import GridStatus
    from phalanx.transfer import CopyReport, Files, SyncReport
    from phalanx.transfer._copy import CopyOptions
    from phalanx.transfer._sync import SyncOptions


class Grid:
    """Machines by name, who the user is to them, and what links to them may be.

    Managers, spaces, copies and message passing programs of a grid need none of these again. The functions without a
    grid, as :func:`phalanx.copy` and :class:`phalanx.Manager`, are the same with the arguments that a grid would have.

    Parameters
    ----------
    hosts : path, Hosts, Lan, str or iterable of str, optional
        The machines: a hosts file, ``"one:7400,other:7400"``, or a list. A line or entry may begin with a name, as in
        ``ws7 = 10.0.0.7:7300``: the machine there must prove this name with its certificate, or another one that the
        entry tells, as in ``fast = 10.0.0.7:7300 as ws7``. Or the name of a grid that this account has joined: its
        machines are the executors that run now, as its hub names them. An existing file comes first, then a text with a
        comma or a colon, then a joined grid. :class:`Lan` finds executors on the local network. A pilot that is
        started, as :class:`Slurm` in a ``with`` statement, has those that its engine has placed. Without ``hosts``, the
        grid is this machine.
    identity : path, optional
        The user's identity file, by default user.pem in ``$PHALANX_HOME`` or ``~/.phalanx``, or that of a joined grid.
    policy : {"links", "marked", "all"} or Rules
        Which links are private, as for :class:`phalanx.Manager`.
    trusted : str or iterable of str
        Networks whose links need no protection, beside those that the hosts file names.

    Raises
    ------
    RecruitError
        The hosts file cannot be read, a line is no machine, or two machines have one name.
        Or no hub of a joined grid answers, and none did before.
    PolicyError
        ``policy`` is none of these.
    IdentityError
        The user's certificate in a joined grid has ended, and is not renewed; or a file of the grid is damaged.

    Examples
    --------
    >>> import phalanx as px
    >>> grid = px.Grid(["ws7 = 10.0.0.7:7300", "lab"], trusted="10.0.0.0/8")
    >>> grid.machines
    {'ws7': '10.0.0.7:7300', 'lab': 'lab:7400'}
    >>> grid.only("lab")
    Grid(['lab'])
    """

    def __init__(
        self,
        hosts: Machines | Pilot | None = None,
        *,
        identity: StrPath | None = None,
        policy: Policy | Rules = "links",
        trusted: str | Iterable[str] = (),
    ) -> None:
        self._reach = Reach.of(hosts, identity, policy, trusted)

    @property
    def reach(self) -> Reach:
        """The four parts, as functions without a grid take them."""
        return self._reach

    @property
    def machines(self) -> dict[str, str]:
        """The address of each machine by its name; empty if the grid is this machine."""
        return {} if self._reach.hosts is None else dict(self._reach.hosts.machines)

    @property
    def certificates(self) -> dict[str, str]:
        """The name that the machine at each address must prove with its certificate. Machines without a name are not
        there: the first member that answers at their address is remembered."""
        return {} if self._reach.hosts is None else dict(self._reach.hosts.certificates)

    def members(self) -> list[Member]:
        """The members of a joined grid, as its hub names them now: also those that do not run.

        Returns
        -------
        list of phalanx.members.Member
            By role and name. If no hub answers, the members that one named last, with a warning.

        Raises
        ------
        RecruitError
            This grid has no hub; or no hub answers, and none did before.

        Examples
        --------
        >>> import phalanx as px
        >>> [member.name for member in px.Grid("lab").members() if member.is_here]  # doctest: +SKIP
        ['ws7', 'ws8']
        """
        return find_members(self._joined().joined, self._reach.identity)

    def status(self) -> GridStatus:
        """What the machines of a joined grid run now, for whom, and which links its hub relays.

        Executors tell their hub what they run when it changes, at most once a second. ``phalanx status --json`` prints
        the same.

        Returns
        -------
        phalanx.status.GridStatus

        Raises
        ------
        RecruitError
            This grid has no hub, or none answers.

        Examples
        --------
        >>> import phalanx as px
        >>> status = px.Grid("lab").status()  # doctest: +SKIP
        >>> sum(it.used or 0 for it in status.executors)  # doctest: +SKIP
        2
        """
        return read_status(self._joined().joined, self._reach.identity)

    def _joined(self) -> JoinedHosts:
        """The machines, if these are those of a joined grid."""
        hosts = self._reach.hosts
        if not isinstance(hosts, JoinedHosts):
            raise RecruitError("this grid has no hub that knows its members: name a joined one, as in px.Grid('lab')")
        return hosts

    def address(self, machine: str) -> str:
        """The address of a machine.

        Parameters
        ----------
        machine : str
            Its name, or any ``host:port``. The default port is 7400.

        Returns
        -------
        str
            ``host:port``.

        Raises
        ------
        RecruitError
            In a joined grid: no executor has this name, or it does not run.
        """
        return self._reach.address(machine)

    def only(self, *machines: str) -> Grid:
        """The grid of only these machines, with the same identity, policy and trusted networks.

        Parameters
        ----------
        *machines : str
            Their names.

        Returns
        -------
        Grid

        Raises
        ------
        RecruitError
            No machine has such a name. The error lists the names.

        Examples
        --------
        >>> import phalanx as px
        >>> px.Grid(["ws7 = 10.0.0.7", "ws8 = 10.0.0.8"]).only("ws8").machines
        {'ws8': '10.0.0.8:7400'}
        """
        if self._reach.hosts is None:
            raise RecruitError("this grid is this machine and names no other one: write px.Grid(hosts)")
        grid = Grid.__new__(Grid)
        grid._reach = self._reach._replace(hosts=self._reach.hosts.only(machines))
        return grid

    def manager(self, **options: Unpack[ManagerOptions]) -> Manager:
        """A manager that recruits from all machines.

        Parameters
        ----------
        **options
            ``contract``, ``patience``, ``journal``, ``initializer``, ``initargs``, ``output``, ``delegate``, ``needs``,
            ``packages``, ``wait`` and ``memory``, as for :class:`phalanx.Manager`, which also tells what is raised.

        Returns
        -------
        Manager

        Examples
        --------
        >>> import phalanx as px
        >>> with px.Grid().manager(contract=px.ParDegree(1)) as manager:
        ...     list(manager.map(abs, [-1]))
        [1]
        """
        from phalanx.manager import Manager

        hosts, identity, policy, trusted = self._reach
        return Manager(hosts, identity=identity, policy=policy, trusted=trusted, **options)

    def space(
        self,
        name: str | Iterable[str | Space],
        *,
        placement: Placement | None = None,
        **options: Unpack[GridSpaceOptions],
    ) -> Space:
        """A tuple space of the grid.

        Parameters
        ----------
        name : str or iterable
            ``"ws7/jobs"`` is the space ``jobs`` at the machine ``ws7``. ``"jobs"`` is at the first machine, or in a
            joined grid at the hub's; with ``placement`` one space is spread over all machines, with ``replicas`` the
            first machines keep copies of it. Several names, or open spaces, are the members of a spread space.
        placement : {"local", "owner"} or str, optional
            Where a spread space puts a tuple, as for :class:`phalanx.Space`.
        **options
            As for :class:`phalanx.Space`, which also tells what is raised.

        Returns
        -------
        Space

        Raises
        ------
        SpaceError
            A space of another server is among the names, or the grid names no machine.

        Examples
        --------
        >>> import phalanx as px
        >>> grid = px.Grid(["ws7 = 10.0.0.7", "ws8 = 10.0.0.8"])
        >>> grid.space_address("jobs"), grid.space_address("ws8/jobs")
        ('10.0.0.7:7400/jobs', '10.0.0.8:7400/jobs')
        """
        from phalanx.space import Space
        from phalanx.space._elsewhere import is_elsewhere

        if not isinstance(name, str):
            named = list(name)
            if any(isinstance(one, str) and is_elsewhere(one) for one in named):
                raise SpaceError("spaces at other servers are no members of a grid's space: open them with px.Space")
            members = [self.space_address(one) if isinstance(one, str) else one for one in named]
            return Space(members, placement=placement or "local", **self.links(), **options)
        if is_elsewhere(name):
            return Space(name, **options)
        if placement is not None and "/" not in name:
            everywhere = [f"{address}/{name}" for address in self._addresses(name)]
            return Space(everywhere, placement=placement, **self.links(), **options)
        options = self._with_members(name, options)
        return Space(self.space_address(name), placement=placement or "local", **self.links(), **options)

    def space_address(self, name: str) -> str:
        """The address of a space: of ``"ws7/jobs"`` at the machine ``ws7``, of ``"jobs"`` at the first machine,
        or in a joined grid at the hub's.

        Parameters
        ----------
        name : str
            ``"MACHINE/SPACE"``, or ``"SPACE"``.

        Returns
        -------
        str
            Like ``"10.0.0.7:7400/jobs"``.

        Raises
        ------
        SpaceError
            The name has no machine, and the grid names none; or the hub's machine has no executor that runs.
        """
        from phalanx.space._elsewhere import is_at_machine

        machine, slash, space = name.rpartition("/")
        if not slash and isinstance(self._reach.hosts, JoinedHosts | LanHosts) and is_at_machine(name):
            return self._reach.hosts.space_address(name)
        names_file = slash and machine not in self.machines and is_file(machine)
        if names_file or not is_at_machine(name):
            return name
        return f"{self.address(machine) if slash else self._addresses(name)[0]}/{space}"

    def copy(self, src: StrPath, dst: StrPath, **options: Unpack[CopyOptions]) -> CopyReport:
        """Copies a file or a folder, as :func:`phalanx.copy`; ``ws7:/path`` is at the machine ``ws7``.

        Parameters
        ----------
        src, dst
            Paths, of which at least one is at a machine of the grid.
        **options
            As for :func:`phalanx.copy`, which also tells what is raised.

        Returns
        -------
        CopyReport
        """
        from phalanx.transfer import copy

        return copy(src, dst, **self._reach.options(), **options)

    def sync(self, src: StrPath, dst: StrPath, **options: Unpack[SyncOptions]) -> SyncReport:
        """Makes a folder like another one, as :func:`phalanx.sync`; ``ws7:/path`` is at the machine ``ws7``.

        Parameters
        ----------
        src, dst
            Paths, of which at least one is at a machine of the grid.
        **options
            As for :func:`phalanx.sync`, which also tells what is raised.

        Returns
        -------
        SyncReport
        """
        from phalanx.transfer import sync

        return sync(src, dst, **self._reach.options(), **options)

    def files(self, machine: str, *, level: Level | None = None) -> Files:
        """The files that a machine exports.

        Parameters
        ----------
        machine : str
            Its name, or ``host:port``.
        level : {"clear", "authenticated", "safe", "private"}, optional
            The protection of the link. By default the policy decides. At ``"authenticated"`` both ends prove who they
            are once, and afterwards an attacker on the wire can read and change everything.

        Returns
        -------
        phalanx.Files
            A link, which is to be closed.
        """
        from phalanx.transfer import Files

        return Files(machine, level=level, **self._reach.options())

    def mpirun(
        self, program: StrPath | Sequence[StrPath], n: int | None = None, **options: Unpack[MpiOptions]
    ) -> LaunchResult:
        """Runs an MPI program on the machines and waits for its end, as :func:`phalanx.mpirun`.

        Parameters
        ----------
        program, n, **options
            As for :func:`phalanx.mpirun`, which also tells what is raised.

        Returns
        -------
        LaunchResult

        Examples
        --------
        >>> import phalanx as px
        >>> px.Grid().mpirun(["echo", "hello"], n=1, capture_output=True).stdout
        'hello\\n'
        """
        from phalanx.launching import mpirun

        return mpirun(program, n, **self._reach.options(), **options)

    def bsprun(
        self, program: StrPath | Sequence[StrPath], n: int | None = None, **options: Unpack[BspOptions]
    ) -> LaunchResult:
        """Runs a BSP program on the machines and waits for its end, as :func:`phalanx.bsprun`.

        Parameters
        ----------
        program, n, **options
            As for :func:`phalanx.bsprun`, which also tells what is raised.

        Returns
        -------
        LaunchResult
        """
        from phalanx.launching import bsprun

        return bsprun(program, n, **self._reach.options(), **options)

    def _addresses(self, name: str) -> list[str]:
        """The addresses of all machines, for a space that is named without one."""
        if self._reach.hosts is None:
            raise SpaceError(f"no machine is named for the space {name}: write MACHINE/{name}, or px.Grid(hosts)")
        if isinstance(self._reach.hosts, LanHosts):
            return [self._reach.hosts.space_address(name)]
        return list(dict.fromkeys(self._reach.addresses))

    def _with_members(self, name: str, options: GridSpaceOptions) -> GridSpaceOptions:
        """The options, with the addresses of a replicated space's other members."""
        replicas, members = options.get("replicas"), [self.address(one) for one in options.get("members", ())]
        if replicas is not None and not members and "/" not in name:
            members = self._addresses(name)[1:replicas]
        return {**options, "members": members} if members else options

    def links(self) -> dict[str, Any]:
        """The identity, the policy, all trusted networks, and the names in certificates by address, as a
        :class:`phalanx.Space` takes them.

        Returns
        -------
        dict
            Options for a :class:`phalanx.Space`.
        """
        hosts, identity, policy, trusted = self._reach
        networks = (*trusted, *(hosts.trusted if hosts else ()))
        links = {"identity": identity, "policy": policy, "trusted": networks, "certificates": self.certificates}
        return {**links, "hosts_file": hosts.path} if hosts and hosts.path else links

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (self._reach,)

    def __repr__(self) -> str:
        return f"Grid({list(self.machines)!r})" if self._reach.hosts else "Grid()"


def _again(reach: Reach) -> Grid:
    """A grid where it is unpickled. A process at an executor does not have the user's identity file. It acts for the
    user as far as the user's program has delegated, and knows where members are, but no hub and no local network."""
    grid = Grid.__new__(Grid)
    grid._reach = reach
    if _native.acts_at() is not None:
        hosts = reach.hosts
        if isinstance(hosts, JoinedHosts | LanHosts):
            hosts = Hosts.known(hosts.elsewhere(), hosts.certificates)
        grid._reach = reach._replace(identity=None, hosts=hosts)
    return grid
