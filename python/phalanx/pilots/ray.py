"""Executors in actors of a Ray cluster."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from phalanx.errors import RecruitError
from phalanx.pilots._keeper import keeper
from phalanx.pilots._order import Order, check_count
from phalanx.pilots._pilot import Pilot
from phalanx.words import Cage

#: Seconds that an actor may take to end its executor. Then Ray kills it, and the executor hears of it.
_PATIENCE = 10.0


class Ray(Pilot):
    """Executors in actors of a Ray cluster, which Ray spreads over its nodes.

    Ray reserves the cores of an actor, places it when there is room, also on nodes that an autoscaler adds, and starts
    it again elsewhere when its node is lost. Ray ends it with the program. The program calls ``ray.init`` before, or
    this connects to the cluster that Ray finds.

    The order for the executors, with its secret, travels over Ray's links. Use Ray's TLS where others reach the
    network.

    Parameters
    ----------
    executors : int
        The number of executors.
    cores : int
        The number of cores of each, which Ray keeps free for it. Default: 1.
    gpus : float
        The number of graphics processors of each. Default: 0.
    resources : dict of str to float, optional
        Further resources of each, as Ray names them.
    python : str, optional
        The Python of the nodes that has phalanx. By default that of Ray's workers.
    interpreters : int, optional
        How many interpreters each executor offers. By default as many as it has cores.
    at_least : int
        The number of executors that are waited for. Others are recruited as they come. Default: 1.
    wait : float
        Maximum seconds to wait for them. Default: 600.
    address : str or iterable of str
        By which hosts the nodes reach this machine. By default by all addresses that it has.
    cage : {"none", "limits", "files", "full"}
        What keeps your processes there from the rest of the account of Ray's workers. Default: ``"none"``.
    export : str or iterable of str
        Folders there that copies may read, or read and write, like ``"/scratch:rw"``. Default: none.

    Raises
    ------
    RecruitError
        An option is wrong.

    Examples
    --------
    >>> import phalanx as px
    >>> with px.Manager(px.Ray(4, cores=8)) as manager:  # doctest: +SKIP
    ...     print(list(manager.map(abs, [-1, 2])))
    [1, 2]
    """

    def __init__(
        self,
        executors: int = 1,
        *,
        cores: int = 1,
        gpus: float = 0,
        resources: dict[str, float] | None = None,
        python: str | None = None,
        interpreters: int | None = None,
        at_least: int = 1,
        wait: float = 600.0,
        address: str | Iterable[str] = (),
        cage: Cage = "none",
        export: str | Iterable[str] = (),
    ) -> None:
        super().__init__(
            interpreters=interpreters, at_least=at_least, wait=wait, address=address, cage=cage, export=export
        )
        self._count, self._cores = check_count("executors", executors), check_count("cores", cores)
        if at_least > executors:
            raise RecruitError(f"at_least={at_least} is more than executors={executors}")
        self._resources = resources or {}
        self._options: dict[str, Any] = {"num_cpus": cores, "num_gpus": gpus, "resources": self._resources}
        self._python = python
        self._actors: list[Any] = []
        self._asked: list[Any] = []

    def _start(self, order: Order) -> None:
        ray = _ray()
        try:
            if not ray.is_initialized():
                ray.init(address="auto", log_to_driver=False)
            options = {**self._options, "max_restarts": -1, "max_concurrency": 2, "scheduling_strategy": "SPREAD"}
            kept = keeper(order, self._python)  # inline, so that actors that are started again have it
            actor = ray.remote(**options)(_actor())
            self._actors = [actor.remote(kept, self._cores) for _ in range(self._count)]
            self._asked = [it.is_there.remote() for it in self._actors]
        except Exception as error:
            raise RecruitError(f"Ray does not start executors: {type(error).__name__}: {error}") from error

    def _end(self) -> None:
        actors, self._actors, self._asked = self._actors, [], []
        ray = _ray()
        if not actors or not ray.is_initialized():
            return  # Ray has ended its actors
        with suppress(Exception):  # of actors that have no place yet, or have lost it
            ray.wait([actor.stop.remote() for actor in actors], num_returns=len(actors), timeout=_PATIENCE)
        for actor in actors:
            with suppress(Exception):
                ray.kill(actor)

    def _failure(self, here: int) -> str | None:
        ray = _ray()
        if not ray.is_initialized():
            return "Ray was shut down"
        failed, _ = ray.wait(self._asked, num_returns=self._count, timeout=0)
        for answer in failed:
            try:
                ray.get(answer)
            except Exception as error:
                return f"Ray's actor has failed: {str(error).strip().splitlines()[-1]}"
        return None

    def _state(self) -> str:
        ray = _ray()
        has = ray.available_resources() if ray.is_initialized() else {}
        free = ", ".join(f"{has.get(name, 0):g} {name}" for name in ("CPU", "GPU", *self._resources))
        return f"Ray has free: {free}; each of {self._count} executors needs {self._cores} CPU"

    def __repr__(self) -> str:
        return f"Ray({self._count}, cores={self._cores})"


def _ray() -> Any:
    try:
        import ray
    except ImportError:
        raise RecruitError("px.Ray needs Ray: pip install ray") from None
    return ray


def _actor() -> Any:
    """The class of actors. It is inside of this function, so that its code travels."""

    class Beside:
        def __init__(self, kept: Any, cores: int) -> None:
            import os
            import platform

            # An actor that is started again is another process.
            kept.start(f"{platform.node().partition('.')[0]}-{os.getpid()}", cores)
            self.kept = kept

        def is_there(self) -> bool:
            return True

        def stop(self) -> None:
            self.kept.stop()

    return Beside
