"""mpi4py's communicators for programs that go on when ranks are lost (ULFM, user-level failure mitigation).

mpi4py's wheels for MPICH do not call the functions of that proposal, though the library has them.
``Intracomm(MPI.COMM_WORLD)`` and ``Intercomm(comm)`` are the same communicators with mpi4py's methods for it:
``Revoke``, ``Is_revoked``, ``Get_failed``, ``Ack_failed``, ``Agree``, ``Iagree``, ``Shrink``, ``Ishrink``.
What is made of them has them too.

``ERR_PROC_FAILED``, ``ERR_PROC_FAILED_PENDING`` and ``ERR_REVOKED`` are the classes of errors
(``MPI.Exception.Get_error_class``).
"""

# ruff: noqa: N802  (the names are mpi4py's)

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any, TypeVar

try:
    from mpi4py import MPI
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(f"{error}: pip install mpi4py", name=error.name) from None

if TYPE_CHECKING:
    from mpi4py.typing import Buffer

Own = TypeVar("Own", bound=MPI.Comm)

# mpi4py says MPI_ERR_UNKNOWN for a class that its build does not know.
_KNOWN = MPI.ERR_PROC_FAILED != MPI.ERR_UNKNOWN
ERR_PROC_FAILED: int = MPI.ERR_PROC_FAILED if _KNOWN else 101
ERR_PROC_FAILED_PENDING: int = MPI.ERR_PROC_FAILED_PENDING if _KNOWN else 102
ERR_REVOKED: int = MPI.ERR_REVOKED if _KNOWN else 103

_LIBRARY = ctypes.CDLL(MPI.__file__)  # and what it is linked with
_HANDLE = ctypes.c_int if MPI._sizeof(MPI.Comm) == ctypes.sizeof(ctypes.c_int) else ctypes.c_void_p


def _call(name: str, comm: MPI.Comm, *arguments: Any) -> None:
    """Call a function of the library; raises MPI.Exception, and NotImplementedError where the library lacks it."""
    try:
        function = getattr(_LIBRARY, name)
    except AttributeError:
        raise NotImplementedError(f"the MPI library has no {name}: start the program with phalanx mpirun") from None
    code = function(_HANDLE.from_address(MPI._addressof(comm)), *arguments)
    if code != MPI.SUCCESS:
        raise MPI.Exception(code)


def _handle(made: MPI.Comm | MPI.Group | MPI.Request) -> ctypes.c_void_p:
    """Where the library writes the handle of a new object."""
    return ctypes.c_void_p(MPI._addressof(made))


class _Request(MPI.Request):
    """Keeps what the operation works on."""

    lent: object


class _Mitigating(MPI.Comm):
    """The methods, with the names and meanings of mpi4py (MPI.Comm)."""

    def Revoke(self) -> None:
        """Revokes the communicator: operations under way and later ones fail with ERR_REVOKED at all its ranks."""
        _call("MPIX_Comm_revoke", self)

    def Is_revoked(self) -> bool:
        """Whether a rank has revoked the communicator, as far as this rank knows."""
        flag = ctypes.c_int()
        _call("MPIX_Comm_is_revoked", self, ctypes.byref(flag))
        return bool(flag.value)

    def Get_failed(self) -> MPI.Group:
        """The group of lost ranks, as far as this rank knows, in the order in which it heard of them."""
        group = MPI.Group()
        _call("MPIX_Comm_get_failed", self, _handle(group))
        return group

    def Ack_failed(self, num_to_ack: int | None = None) -> int:
        """Acknowledges the first ``num_to_ack`` lost ranks (all by default). Receives from any source go on without
        them, and ``Agree`` does not fail because of them. Returns how many lost ranks are acknowledged now."""
        count = ctypes.c_int()
        _call("MPIX_Comm_ack_failed", self, 2**31 - 1 if num_to_ack is None else num_to_ack, ctypes.byref(count))
        return count.value

    def Agree(self, flag: int) -> int:
        """The bits that all surviving ranks have set in ``flag``. All get the same, also in a revoked communicator.

        Raises MPI.Exception with ERR_PROC_FAILED, at all of them, while one does not know of a loss (``Ack_failed``).
        """
        own = ctypes.c_int(flag)
        _call("MPIX_Comm_agree", self, ctypes.byref(own))
        return own.value

    def Iagree(self, flag: Buffer) -> MPI.Request:
        """As ``Agree``, without blocking. ``flag`` is one C int, which is read now and written at the end."""
        view = memoryview(flag)  # type: ignore[arg-type]  # TypeError for what is none
        if view.format != "i" or view.nbytes != ctypes.sizeof(ctypes.c_int):
            raise ValueError("flag: expecting int buffer of length one")
        request = _Request()
        request.lent = own = ctypes.c_int.from_buffer(view)
        _call("MPIX_Comm_iagree", self, ctypes.byref(own), _handle(request))
        return request

    def Shrink(self: Own) -> Own:
        """A communicator of the surviving ranks, in their order, the same for all. Works on a revoked one too."""
        made = type(self)()
        _call("MPIX_Comm_shrink", self, _handle(made))
        return made

    def Ishrink(self: Own) -> tuple[Own, MPI.Request]:
        """As ``Shrink``, without blocking. The communicator may be used when the request is done."""
        made, request = type(self)(), _Request()
        request.lent = made
        _call("MPIX_Comm_ishrink", self, _handle(made), _handle(request))
        return made, request


class Intracomm(_Mitigating, MPI.Intracomm):
    """``Intracomm(comm)``: an intracommunicator of mpi4py, with these methods."""


class Intercomm(_Mitigating, MPI.Intercomm):
    """``Intercomm(comm)``: an intercommunicator of mpi4py, with these methods."""
