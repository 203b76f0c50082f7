"""phalanx turns the machines you already have into one secure parallel computer.

The names here are those that most programs need. Errors are in :mod:`phalanx.errors`, templates, selectors and
transactions in :mod:`phalanx.space`, reports of copies in :mod:`phalanx.transfer`, and the totals of a manager in
:mod:`phalanx.summary`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

    from phalanx import bsp as bsp
    from phalanx import errors as errors
    from phalanx import launching as launching
    from phalanx import manager as manager
    from phalanx import profile as profile
    from phalanx import space as space
    from phalanx import summary as summary
    from phalanx import transfer as transfer
    from phalanx import words as words
    from phalanx.arrays import read_only
    from phalanx.contracts import Deadline, ParDegree, Throughput
    from phalanx.errors import AccessError as AccessError
    from phalanx.errors import ContractError as ContractError
    from phalanx.errors import ContractWarning as ContractWarning
    from phalanx.errors import CulpritError as CulpritError
    from phalanx.errors import IdentityError as IdentityError
    from phalanx.errors import InitializerError as InitializerError
    from phalanx.errors import LaunchError as LaunchError
    from phalanx.errors import LostError as LostError
    from phalanx.errors import PhalanxError as PhalanxError
    from phalanx.errors import PolicyError as PolicyError
    from phalanx.errors import ProfileError as ProfileError
    from phalanx.errors import ProgramError as ProgramError
    from phalanx.errors import RanksError as RanksError
    from phalanx.errors import RanksTimeoutError as RanksTimeoutError
    from phalanx.errors import RecruitError as RecruitError
    from phalanx.errors import RemoteError as RemoteError
    from phalanx.errors import RemoteTraceback as RemoteTraceback
    from phalanx.errors import SpaceError as SpaceError
    from phalanx.errors import SpaceFullError as SpaceFullError
    from phalanx.errors import SpaceLostError as SpaceLostError
    from phalanx.errors import SpaceTimeoutError as SpaceTimeoutError
    from phalanx.errors import StagingError as StagingError
    from phalanx.errors import TransactionConflictError as TransactionConflictError
    from phalanx.errors import TransactionError as TransactionError
    from phalanx.errors import TransferError as TransferError
    from phalanx.firing import options
    from phalanx.grid import Grid
    from phalanx.hosts import Hosts, Lan
    from phalanx.launching import LaunchResult as LaunchResult
    from phalanx.launching import RankResult as RankResult
    from phalanx.launching import bsprun, mpirun
    from phalanx.manager import Manager
    from phalanx.manager import Results as Results
    from phalanx.pilots import Dask, Kubernetes, PsiJ, Ray, Slurm, Ssh
    from phalanx.requirements import needs
    from phalanx.security import Rules, secure_code, secure_data
    from phalanx.setups import per_interpreter
    from phalanx.skeletons import Farm, Graph, Loop, Map, Pipeline, Reduce, Scan
    from phalanx.space import ANY as ANY
    from phalanx.space import Event as Event
    from phalanx.space import Lease as Lease
    from phalanx.space import Record as Record
    from phalanx.space import Sealed as Sealed
    from phalanx.space import SealingKey as SealingKey
    from phalanx.space import Space
    from phalanx.space import SpaceInfo as SpaceInfo
    from phalanx.space import Transaction as Transaction
    from phalanx.space import fifo as fifo
    from phalanx.space import key as key
    from phalanx.space import label as label
    from phalanx.space import lifo as lifo
    from phalanx.space import move_tuples as move_tuples
    from phalanx.space import priority as priority
    from phalanx.space import where as where
    from phalanx.summary import Bill as Bill
    from phalanx.summary import BillLine as BillLine
    from phalanx.summary import ContractSummary as ContractSummary
    from phalanx.summary import InterpreterSummary as InterpreterSummary
    from phalanx.summary import Summary as Summary
    from phalanx.transfer import CopyReport as CopyReport
    from phalanx.transfer import Files, copy, sync
    from phalanx.transfer import SyncReport as SyncReport

__version__: str
#: Where each public name is.
_HOMES = {
    "arrays": "read_only",
    "contracts": "Deadline ParDegree Throughput",
    "firing": "options",
    "grid": "Grid",
    "hosts": "Hosts Lan",
    "launching": "bsprun mpirun",
    "manager": "Manager",
    "pilots": "Dask Kubernetes PsiJ Ray Slurm Ssh",
    "requirements": "needs",
    "security": "Rules secure_code secure_data",
    "setups": "per_interpreter",
    "skeletons": "Farm Graph Loop Map Pipeline Reduce Scan",
    "space": "Space",
    "transfer": "Files copy sync",
}
#: Where each name is that was here before and has moved. It goes on working here.
_MOVED = {
    "errors": (
        "AccessError ContractError ContractWarning CulpritError IdentityError InitializerError LaunchError LostError "
        "PhalanxError PolicyError ProfileError ProgramError RanksError RanksTimeoutError RecruitError RemoteError "
        "RemoteTraceback SpaceError SpaceFullError SpaceLostError SpaceTimeoutError StagingError "
        "TransactionConflictError TransactionError TransferError"
    ),
    "launching": "LaunchResult RankResult",
    "manager": "Results",
    "space": (
        "ANY Event Lease Record Sealed SealingKey SpaceInfo Transaction fifo key label lifo move_tuples priority where"
    ),
    "summary": "Bill BillLine ContractSummary InterpreterSummary Summary",
    "transfer": "CopyReport SyncReport",
}
#: Modules that are attributes of this one.
_MODULES = {"bsp", "errors", "launching", "manager", "profile", "space", "summary", "transfer", "words"}
_HOME_OF = {name: module for homes in (_HOMES, _MOVED) for module, names in homes.items() for name in names.split()}

__all__ = [
    "Dask",
    "Deadline",
    "Farm",
    "Files",
    "Graph",
    "Grid",
    "Hosts",
    "Kubernetes",
    "Lan",
    "Loop",
    "Manager",
    "Map",
    "ParDegree",
    "Pipeline",
    "PsiJ",
    "Ray",
    "Reduce",
    "Rules",
    "Scan",
    "Slurm",
    "Space",
    "Ssh",
    "Throughput",
    "bsp",
    "bsprun",
    "copy",
    "errors",
    "mpirun",
    "needs",
    "options",
    "per_interpreter",
    "profile",
    "read_only",
    "secure_code",
    "secure_data",
    "space",
    "summary",
    "sync",
]

# Type checkers do not see it: to them, a name that is neither here nor moved is an error.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        # Names are looked up when they are used: an interpreter, which is to be small, needs none of the manager's
        # modules.
        if name in _MODULES:
            return import_module(f"phalanx.{name}")
        if name == "__version__":
            from importlib.metadata import version

            return version("phalanx-grid")
        if name not in _HOME_OF:
            raise AttributeError(f"module 'phalanx' has no attribute {name!r}")
        value = getattr(import_module(f"phalanx.{_HOME_OF[name]}"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
