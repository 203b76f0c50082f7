"""A plugin of pytest: the tests of comms of Dask's distributed, on phalanx's links.

The tests ask for the comms ``tcp`` and ``tls``. Here both are phalanx's, under those schemes: ``tcp`` with the default
policy, ``tls`` with the policy that makes every link private. A certificate of the tests stands for an identity: that
of a member of one grid, or that of a stranger.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from types import MappingProxyType, ModuleType, SimpleNamespace
from typing import Any, NamedTuple

import dask
import distributed.comm.tcp
import distributed.utils_test
import pytest
from distributed.comm.registry import backends
from distributed.protocol import utils_test
from phalanx import _native
from phalanx.adapters.distributed import PhalanxBackend, PhalanxComm, PhalanxConnector, PhalanxListener
from suites import distributed_tests

_folder = tempfile.TemporaryDirectory(prefix="phalanx-comms-")
_IDENTITY = "PHALANX_TEST_COMM_IDENTITY"
_host_array = utils_test.get_host_array


class Shown(NamedTuple):
    """Stands for an ``ssl.SSLContext`` of the tests."""

    identity: str


def _args(connection_args: dict[str, Any]) -> dict[str, Any]:
    shown = connection_args.get("ssl_context")
    identity = shown.identity if isinstance(shown, Shown) else os.environ[_IDENTITY]
    return {"extra_conn_args": {"identity": identity, "policy": "all"}}


class TCP(PhalanxComm):
    """With what the tests do to Dask's own comm: ``extra_info`` is empty, and a write of its stream can fail."""

    extra_info: Any = MappingProxyType({})

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.stream = SimpleNamespace(write=lambda data: None)

    def _send(self, link: _native.Comm, frames: Any) -> None:
        self.stream.write(b"")
        super()._send(link, frames)


class TCPConnector(PhalanxConnector):
    comm_class = TCP
    prefix = "tcp://"


class TCPListener(PhalanxListener):
    comm_class = TCP
    prefix = "tcp://"


class TCPBackend(PhalanxBackend):
    _connector_class = TCPConnector
    _listener_class = TCPListener


class TLSConnector(PhalanxConnector):
    prefix = "tls://"

    async def connect(self, address: str, deserialize: bool = True, **connection_args: Any) -> PhalanxComm:
        return await super().connect(address, deserialize, **_args(connection_args))


class TLSListener(PhalanxListener):
    prefix = "tls://"

    def __init__(self, address: str, comm_handler: Any, deserialize: bool = True, **connection_args: Any) -> None:
        super().__init__(address, comm_handler, deserialize, **_args(connection_args))


class TLSBackend(PhalanxBackend):
    _connector_class: Any = TLSConnector
    _listener_class: Any = TLSListener


def put_in() -> None:
    """Puts phalanx's comms in the place of Dask's."""
    names = {"TCP": TCP, "TLS": PhalanxComm, "TCPConnector": TCPConnector, "TCPListener": TCPListener}
    names |= {
        "TCPBackend": TCPBackend,
        "TLSConnector": TLSConnector,
        "TLSListener": TLSListener,
        "TLSBackend": TLSBackend,
    }
    for name, value in names.items():
        setattr(distributed.comm.tcp, name, value)
    backends["tcp"], backends["tls"] = TCPBackend(), TLSBackend()


put_in()  # also in a process that a nanny starts, which imports this module first


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--runslow", action="store_true", help="also what Dask calls slow")


def pytest_configure(config: pytest.Config) -> None:
    distributed.utils_test.certs_dir = str(distributed_tests.FOLDER / distributed_tests.CERTIFICATES)
    folder = Path(_folder.name)
    for grid, names in (("own", ["lab"]), ("strange", ["stranger"])):
        authority = _native.create_grid()
        for name in names:
            file = folder / f"{grid}-{name}.pem"
            file.touch(mode=0o600)
            file.write_text(_native.issue_member(authority, "executor", name))
    os.environ[_IDENTITY] = str(folder / "own-lab.pem")
    # What nannies start gets phalanx's comms too. Each test begins with this configuration.
    dask.config.set(
        {"distributed.worker.preload": ["suites.comm_plugin"]}, config=distributed.utils_test.original_config
    )


def pytest_unconfigure() -> None:
    _folder.cleanup()


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> pytest.Module:
    return _Module.from_parent(parent, path=module_path)


class _Module(pytest.Module):
    def _getobj(self) -> ModuleType:
        module: ModuleType = super()._getobj()  # type: ignore[no-untyped-call]
        replaced: dict[str, Any] = {"check_tls_extra": check_tls_extra, "get_host_array": get_host_array}
        replaced |= {"get_client_ssl_context": context, "get_server_ssl_context": context}
        for name, value in replaced.items():
            if hasattr(module, name):
                setattr(module, name, value)
        return module


def context(certificate: str = "tls-cert.pem", *_: Any, **__: Any) -> Shown:
    """The identity that stands for a certificate."""
    name = "strange-stranger" if "self-signed" in certificate else "own-lab"
    return Shown(str(Path(_folder.name) / f"{name}.pem"))


def check_tls_extra(info: dict[str, Any]) -> None:
    """What a comm tells of its protection."""
    assert info["level"] == "private"
    assert info["peer"] == "lab"


def get_host_array(array: Any) -> Any:
    """The memory that an array lies in, which may be that of a part of a message."""
    try:
        return _host_array(array)
    except TypeError:
        found = array
        while not isinstance(found, _native.Region):
            found = found.obj if isinstance(found, memoryview) else found.base
        return _helds.setdefault(id(found), _Held(found, len(found)))


class _Held(NamedTuple):
    """A part of a message, with the size that an array would have."""

    region: _native.Region
    nbytes: int


_helds: dict[int, _Held] = {}
