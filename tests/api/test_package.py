"""What the package itself tells."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version

import phalanx as px
import pytest


def run(*words: str) -> str:
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, check=True, timeout=60)
    return done.stdout.strip()


def test_its_version_is_that_of_the_distribution() -> None:
    assert px.__version__ == version("phalanx-grid")


def test_it_runs_as_a_module() -> None:
    assert run("-m", "phalanx", "--version") == f"phalanx, version {px.__version__}"
    assert run("-m", "phalanx", "--help").startswith("Usage: phalanx [OPTIONS] COMMAND")


@pytest.mark.parametrize(
    "name", ["bsp", "errors", "launching", "manager", "profile", "space", "summary", "transfer", "words"]
)
def test_its_parts_are_attributes(name: str) -> None:
    assert run("-c", f"import phalanx as px; print(px.{name}.__name__)") == f"phalanx.{name}"


def test_all_names_are_there_and_no_other_is() -> None:
    assert all(getattr(px, name) is not None for name in px.__all__)
    with pytest.raises(AttributeError, match="no attribute 'Managr'"):
        getattr(px, "Managr")  # noqa: B009


MOVED = {
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


def test_names_that_have_moved_are_still_there_and_not_shown() -> None:
    for home, names in MOVED.items():
        for name in names.split():
            assert getattr(px, name) is getattr(getattr(px, home), name)
            assert name not in px.__all__
    assert set(dir(px)) == {*px.__all__, "__version__"}
    assert len(px.__all__) == len(set(px.__all__)) <= 39


def test_a_manager_imports_nothing_that_only_some_programs_need() -> None:
    code = "import sys; before = set(sys.modules); import phalanx.manager; print(*set(sys.modules) - before)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"asyncio", "html", "inspect", "rich", "tempfile", "zipfile"} & set(done.stdout.split())


def test_commands_that_need_no_manager_import_none() -> None:
    """What is imported with a grid would be paid by each command that takes one."""
    told = run("-c", "import sys, phalanx.cli.ls; print(*sys.modules)").split()
    assert "phalanx.grid" in told
    assert not {"phalanx.manager", "phalanx.space", "phalanx.launching", "cloudpickle"} & {*told}
