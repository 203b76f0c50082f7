"""phalanx turns the machines you already have into one secure parallel computer."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from phalanx import bsp as bsp
    from phalanx import errors as errors
    from phalanx import profile as profile
    from phalanx import space as space
    from phalanx import summary as summary
    from phalanx._results import Results
    from phalanx.arrays import read_only
    from phalanx.contracts import Deadline, ParDegree, Throughput
    from phalanx.errors import (
        AccessError,
        ContractError,
        ContractWarning,
        CulpritError,
        IdentityError,
        InitializerError,
        LaunchError,
        LostError,
        PhalanxError,
        PolicyError,
        ProfileError,
        ProgramError,
        RanksError,
        RanksTimeoutError,
        RecruitError,
        RemoteError,
        RemoteTraceback,
        SpaceError,
        SpaceFullError,
        SpaceLostError,
        SpaceTimeoutError,
        StagingError,
        TransactionConflictError,
        TransactionError,
        TransferError,
    )
    from phalanx.transfer import CopyReport, Files, SyncReport, copy, sync
    from phalanx.grid import Grid
    from phalanx.hosts import Hosts
    from phalanx.launching import LaunchResult, RankResult, bsprun, mpirun
    from phalanx.manager import Manager
    from phalanx.security import Rules, secure_code, secure_data
    from phalanx.skeletons import Farm, Graph, Loop, Map, Pipeline, Reduce, Scan
    from phalanx.space import (
        ANY,
        Event,
        Lease,
        Record,
        Sealed,
        SealingKey,
        Space,
        SpaceInfo,
        Transaction,
        fifo,
        key,
        label,
        lifo,
        move_tuples,
        priority,
        where,
    )
    from phalanx.summary import Bill, BillLine, ContractSummary, InterpreterSummary, Summary

__version__: str
#: The public names of each module.
_HOMES = {
    "_results": "Results",
    "arrays": "read_only",
    "contracts": "Deadline ParDegree Throughput",
    "errors": (
        "AccessError ContractError ContractWarning CulpritError IdentityError InitializerError LaunchError LostError "
        "PhalanxError PolicyError ProfileError ProgramError RanksError RanksTimeoutError RecruitError RemoteError "
        "RemoteTraceback SpaceError SpaceFullError SpaceLostError SpaceTimeoutError StagingError "
        "TransactionConflictError TransactionError TransferError"
    ),
    "grid": "Grid",
    "hosts": "Hosts",
    "launching": "LaunchResult RankResult bsprun mpirun",
    "manager": "Manager",
    "security": "Rules secure_code secure_data",
    "skeletons": "Farm Graph Loop Map Pipeline Reduce Scan",
    "space": (
        "ANY Event Lease Record Sealed SealingKey Space SpaceInfo Transaction fifo key label lifo move_tuples priority "
        "where"
    ),
    "transfer": "CopyReport Files SyncReport copy sync",
    "summary": "Bill BillLine ContractSummary InterpreterSummary Summary",
}
_MODULES = {"bsp", "errors", "profile", "space", "summary"}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names.split()}

__all__ = [
    "ANY",
    "AccessError",
    "Bill",
    "BillLine",
    "ContractError",
    "ContractSummary",
    "ContractWarning",
    "CopyReport",
    "CulpritError",
    "Deadline",
    "Event",
    "Farm",
    "Files",
    "Graph",
    "Grid",
    "Hosts",
    "IdentityError",
    "InitializerError",
    "InterpreterSummary",
    "LaunchError",
    "LaunchResult",
    "Lease",
    "Loop",
    "LostError",
    "Manager",
    "Map",
    "ParDegree",
    "PhalanxError",
    "Pipeline",
    "PolicyError",
    "ProfileError",
    "ProgramError",
    "RankResult",
    "RanksError",
    "RanksTimeoutError",
    "Record",
    "RecruitError",
    "Reduce",
    "RemoteError",
    "RemoteTraceback",
    "Results",
    "Rules",
    "Scan",
    "Sealed",
    "SealingKey",
    "Space",
    "SpaceError",
    "SpaceFullError",
    "SpaceInfo",
    "SpaceLostError",
    "SpaceTimeoutError",
    "StagingError",
    "Summary",
    "SyncReport",
    "Throughput",
    "Transaction",
    "TransactionConflictError",
    "TransactionError",
    "TransferError",
    "bsprun",
    "copy",
    "fifo",
    "key",
    "label",
    "lifo",
    "move_tuples",
    "mpirun",
    "priority",
    "profile",
    "read_only",
    "secure_code",
    "secure_data",
    "sync",
    "where",
]


def __getattr__(name: str) -> Any:
    # Names are looked up when they are used: an interpreter, which is to be small, needs none of the manager's modules.
    if name in _MODULES:
        return import_module(f"phalanx.{name}")
    if name == "__version__":
        from importlib.metadata import version

        return version("phalanx")
    if name not in _HOME_OF:
        raise AttributeError(f"module 'phalanx' has no attribute {name!r}")
    value = getattr(import_module(f"phalanx.{_HOME_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
