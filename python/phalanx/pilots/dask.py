"""Executors beside the workers of a Dask cluster."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from phalanx.errors import RecruitError
from phalanx.pilots._keeper import keeper
from phalanx.pilots._order import Order
from phalanx.pilots._pilot import Pilot
from phalanx.words import Cage

_log = logging.getLogger("phalanx")

#: Schemes of Dask's addresses whose links are protected, or do not leave the machine.
_PROTECTED = ("inproc://", "phalanx://", "tls://", "wss://", "ucxx+tls://")
#: Hosts of addresses that do not leave this machine.
_HERE = ("127.", "localhost", "[::1]")


class Dask(Pilot):
    """An executor beside each worker of a Dask cluster.

    Dask starts it with the worker, also with workers that come later or are started again, and ends it with the worker.
    Tasks of Dask may run at the same time: the executor takes no thread of the worker.

    The order for the executors, with its secret, travels over Dask's links. Use a cluster with TLS where others reach
    the network: a warning in the log says so.

    Parameters
    ----------
    client : distributed.Client
        The client of the cluster. It must not be closed before the pilot.
    python : str, optional
        The Python of the workers that has phalanx. By default that which each worker runs.
    interpreters : int, optional
        How many interpreters each executor offers. By default one for each thread of its worker.
    at_least : int, optional
        The number of executors that are waited for. By default one for each worker that there is.
    wait : float
        Maximum seconds to wait for them. Default: 60.
    address : str or iterable of str
        By which hosts the workers reach this machine. By default by all addresses that it has.
    cage : {"none", "limits", "files", "full"}
        What keeps your processes there from the rest of the account of the worker. Default: ``"none"``.
    export : str or iterable of str
        Folders there that copies may read, or read and write, like ``"/scratch:rw"``. Default: none.

    Raises
    ------
    RecruitError
        The client is none, or an option is wrong.

    Examples
    --------
    >>> import phalanx as px
    >>> from distributed import Client  # doctest: +SKIP
    >>> with Client("tls://lab:8786") as client, px.Manager(px.Dask(client)) as manager:  # doctest: +SKIP
    ...     print(list(manager.map(abs, [-1, 2])))
    [1, 2]
    """

    def __init__(
        self,
        client: Any,
        *,
        python: str | None = None,
        interpreters: int | None = None,
        at_least: int | None = None,
        wait: float = 60.0,
        address: str | Iterable[str] = (),
        cage: Cage = "none",
        export: str | Iterable[str] = (),
    ) -> None:
        if not all(hasattr(client, name) for name in ("register_plugin", "unregister_worker_plugin", "nthreads")):
            raise RecruitError(f"px.Dask takes a distributed.Client, not {client!r:.80}")
        if getattr(client, "asynchronous", False):
            raise RecruitError("px.Dask takes a client of Client(…), and not one with asynchronous=True")
        super().__init__(
            interpreters=interpreters,
            at_least=1 if at_least is None else at_least,
            wait=wait,
            address=address,
            cage=cage,
            export=export,
        )
        self._client, self._python, self._waits_for_all = client, python, at_least is None
        self._name = ""

    def _start(self, order: Order) -> None:
        workers = self._workers()
        if self._waits_for_all:
            self._at_least = max(1, len(workers))
        links = [self._client.scheduler.address, *workers]
        open_to_others = [it for it in links if not it.startswith(_PROTECTED) and not _is_here(it)]
        if open_to_others:
            _log.warning(
                "the secret of the executors travels over Dask's link to %s, which others may read: use tls://",
                open_to_others[0],
            )
        self._name = f"phalanx-{self._started().joined.name}"
        try:
            self._client.register_plugin(_plugin(keeper(order, self._python)), name=self._name)
        except Exception as error:
            raise RecruitError(f"Dask does not start executors: {type(error).__name__}: {error}") from error

    def _end(self) -> None:
        if self._name and self._client.status == "running":
            with suppress(Exception):  # the cluster has ended, and with it the executors
                self._client.unregister_worker_plugin(self._name)

    def _failure(self, here: int) -> str | None:
        if self._client.status != "running":
            return f"Dask's client is {self._client.status}"
        return None

    def _state(self) -> str:
        return f"Dask has {len(self._workers())} workers at {self._client.scheduler.address}"

    def _workers(self) -> dict[str, Any]:
        workers: dict[str, Any] = self._client.nthreads()
        return workers

    def __repr__(self) -> str:
        return f"Dask({self._client!r:.60})"


def _is_here(address: str) -> bool:
    return address.partition("://")[2].startswith(_HERE)


def _plugin(kept: Any) -> Any:
    """A plugin of Dask with a keeper for each worker. Its class is here, so that its code travels."""
    from distributed import WorkerPlugin

    class Beside(WorkerPlugin):  # type: ignore[misc]
        def setup(self, worker: Any) -> None:
            import platform

            # A worker that is started again has another port.
            name = f"{platform.node().partition('.')[0]}-{worker.address.rpartition(':')[2]}"
            kept.start(name, worker.state.nthreads)

        def teardown(self, worker: Any) -> None:
            kept.stop()

    return Beside()
