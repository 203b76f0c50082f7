"""phalanx turns the machines you already have into one secure parallel computer."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from phalanx.errors import (
        ContractError,
        CulpritError,
        IdentityError,
        LostError,
        PhalanxError,
        PolicyError,
        ProgramError,
        RecruitError,
        RemoteError,
        RemoteTraceback,
        StagingError,
    )
    from phalanx.hosts import Hosts
    from phalanx.manager import Manager, ParDegree
    from phalanx.security import Rules, secure_code, secure_data
    from phalanx.skeletons import Farm, Pipeline
    from phalanx.summary import Bill, BillLine, InterpreterSummary, Results, Summary

_HOMES = {
    "errors": (
        "ContractError CulpritError IdentityError LostError PhalanxError PolicyError ProgramError RecruitError "
        "RemoteError RemoteTraceback StagingError"
    ),
    "hosts": "Hosts",
    "manager": "Manager ParDegree",
    "security": "Rules secure_code secure_data",
    "skeletons": "Farm Pipeline",
    "summary": "Bill BillLine InterpreterSummary Results Summary",
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names.split()}

__all__ = [
    "Bill",
    "BillLine",
    "ContractError",
    "CulpritError",
    "Farm",
    "Hosts",
    "IdentityError",
    "InterpreterSummary",
    "LostError",
    "Manager",
    "ParDegree",
    "PhalanxError",
    "Pipeline",
    "PolicyError",
    "ProgramError",
    "RecruitError",
    "RemoteError",
    "RemoteTraceback",
    "Results",
    "Rules",
    "StagingError",
    "Summary",
    "secure_code",
    "secure_data",
]


def __getattr__(name: str) -> Any:
    # Names are looked up when they are used: an interpreter, which is to be small, needs none of the manager's modules.
    if name not in _HOME_OF:
        raise AttributeError(f"module 'phalanx' has no attribute {name!r}")
    value = getattr(import_module(f"phalanx.{_HOME_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
