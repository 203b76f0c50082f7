"""Executors in pods of Kubernetes."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from phalanx.errors import RecruitError
from phalanx.pilots._manifest import CONTAINER, MOST_NODES, Object, job, owned_by, pods_of, secret, service
from phalanx.pilots._order import Order
from phalanx.pilots._orders import last_lines
from phalanx.pilots._pilot import Pilot
from phalanx.words import Cage

_log = logging.getLogger("phalanx")

#: Seconds that an answer of Kubernetes may take.
_PATIENCE = 30
#: Lines that an error shows of what an executor has printed.
_SHOWN = 3
#: Where a pod finds its namespace.
_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
#: The status of an answer that tells that there is no such object.
_NOT_THERE = 404


class Kubernetes(Pilot):
    """Executors in the pods of an Indexed Job, which Kubernetes places, starts again and ends.

    The job has a headless Service, by which its pods have names, and a Secret with the order for the executors. Both
    belong to the job, and are removed with it. A pod that is evicted or preempted hands back its work within 30 s.
    Kubernetes starts it again, and the new executor is recruited. Pods keep to the restricted profile of the Pod
    Security Standards, and get no token of a service account.

    The pods must reach this program: it runs in the cluster, or on a machine to which pods can connect. The program
    needs rights to create, get, patch and delete jobs, to create services, to create and patch secrets, to list pods,
    and to read their logs. The library is the official client: ``pip install kubernetes``.

    Parameters
    ----------
    image : str
        The image of the container. It has phalanx, and Python of the same minor version as this program.
    nodes : int
        The number of pods.
    namespace : str, optional
        The namespace. By default that of the context, or of this program's own pod.
    context : str, optional
        The context of the file of contexts (``KUBECONFIG`` or ``~/.kube/config``). By default the current one. Without
        such a file, the service account of this program's own pod.
    cores : float, optional
        The cores of each pod, requested and at most. By default as the namespace says.
    memory : str, optional
        The memory of each pod, requested and at most, like ``"8Gi"``.
    resources : mapping, optional
        Others, like ``{"nvidia.com/gpu": 1}``.
    time : str or float, optional
        The time limit of the job: ``"1:30:00"``, ``"2-00:00:00"``, or minutes as a number. By default none.
    user : int, optional
        The account's number under which the container runs. Default: 10001. None leaves it to the image and the
        namespace, as OpenShift demands. 0 is root, which the restricted profile forbids.
    pod, container : mapping, optional
        Further fields of the pod's spec and of its container, as Kubernetes' reference has them:
        ``pod={"nodeSelector": {"disk": "ssd"}}``. Mappings are merged, lists are joined, other values replace ours.
    python : str, optional
        The Python of the image that has phalanx. By default the image's ``phalanx`` command.
    interpreters : int, optional
        How many interpreters each executor offers. By default one for each core of its container.
    at_least : int
        The number of executors that are waited for. Others are recruited as they come. Default: 1.
    at_most : int, optional
        The most pods. With it, the manager asks for one more while its contract lacks interpreters, and gives pods
        back where it has had none for 30 s, down to ``at_least``. By default ``nodes``, and the number stays.
    wait : float
        Maximum seconds to wait for them. Default: 600.
    address : str or iterable of str
        By which hosts pods reach this machine. By default by all addresses that it has.
    cage : {"none", "limits", "files", "full"}
        What keeps your processes in the pods from their executor. Default: ``"none"``.
    export : str or iterable of str
        Folders there that copies may read, or read and write, like ``"/scratch:rw"``. Default: none.

    Raises
    ------
    RecruitError
        An option is wrong.

    Examples
    --------
    >>> import phalanx as px
    >>> with px.Manager(px.Kubernetes("registry/phalanx:1", nodes=4, cores=2)) as manager:  # doctest: +SKIP
    ...     print(sum(manager.map(abs, range(-1000, 0))))
    500500
    """

    def __init__(
        self,
        image: str,
        nodes: int = 1,
        *,
        namespace: str | None = None,
        context: str | None = None,
        cores: float | None = None,
        memory: str | None = None,
        resources: Mapping[str, int | str] | None = None,
        time: str | float | None = None,
        user: int | None = 10001,
        pod: Mapping[str, Any] | None = None,
        container: Mapping[str, Any] | None = None,
        python: str | None = None,
        interpreters: int | None = None,
        at_least: int = 1,
        at_most: int | None = None,
        wait: float = 600.0,
        address: str | Iterable[str] = (),
        cage: Cage = "none",
        export: str | Iterable[str] = (),
    ) -> None:
        super().__init__(
            interpreters=interpreters,
            at_least=at_least,
            at_most=at_most,
            wait=wait,
            address=address,
            cage=cage,
            export=export,
        )
        self._pods = pods_of(
            image,
            nodes,
            cores=cores,
            memory=memory,
            resources=resources,
            time=time,
            user=user,
            python=python,
            pod=pod,
            container=container,
        )
        self._check_places("nodes", nodes, MOST_NODES)
        self._context, self._namespace = context, namespace
        self._cluster: _Cluster | None = None
        self._job: str | None = None
        self._asked = 0

    def _start(self, order: Order) -> None:
        name = f"phalanx-{self._started().joined.name.rpartition('-')[2]}"
        self._cluster = cluster = _Cluster(self._context, self._namespace)
        # The job comes first, because the others belong to it: so nothing is left behind if this program is killed
        # between two requests. Its pods begin when all of it is there.
        uid = cluster.create_job(job(name, self._pods, is_suspended=True))
        self._job, self._asked = name, self._pods.nodes
        owner = owned_by(name, uid)
        cluster.create_secret(secret(name, order, owner))
        cluster.create_service(service(name, owner))
        cluster.patch_job(name, {"spec": {"suspend": False}})

    def _more(self, order: Order) -> None:
        assert self._cluster is not None
        self._asked += 1
        # A pod that was given back has its index done. The next one has another.
        number = {"completions": self._asked, "parallelism": self._asked}
        self._cluster.patch_job(str(self._job), {"spec": number})

    def _renew(self, order: Order) -> None:
        assert self._cluster is not None
        name = str(self._job)
        self._cluster.patch_secret(name, {"data": secret(name, order)["data"]})

    def _left(self) -> int:
        assert self._cluster is not None
        return self._asked - (self._cluster.job_status(str(self._job)).succeeded or 0)

    def _end(self) -> None:
        cluster, name, self._cluster, self._job = self._cluster, self._job, None, None
        if cluster is None:
            return
        try:
            if name is not None:
                cluster.delete_job(name)
        except RecruitError as error:
            _log.warning("the job %s ends when its executors miss this program: %s", name, error)
        finally:
            cluster.close()

    def _failure(self, here: int) -> str | None:
        assert self._cluster is not None
        try:
            status = self._cluster.job_status(str(self._job))
        except _Gone:
            return f"the job {self._job} is not there any more"
        except RecruitError:  # a server that is away for a moment is asked again
            return None
        for condition in status.conditions or ():
            if condition.type in ("Complete", "Failed") and condition.status == "True":
                why = ": ".join(it for it in (condition.reason, condition.message) if it)
                return f"the job {self._job} has ended{f' ({why})' if why else ''}{self._said()}"
        if not here and (status.failed or 0) >= self._pods.nodes:
            return f"the pods of the job {self._job} fail{self._said()}"
        return None

    def _state(self) -> str:
        assert self._cluster is not None
        try:
            words = dict.fromkeys(_state_of(it) for it in self._cluster.pods(str(self._job)))
        except RecruitError as error:
            return f"the job {self._job} was created, and then: {error}"
        return f"the pods of the job {self._job} are {', '.join(words) or 'not there yet'}{self._said()}"

    def _said(self) -> str:
        """The last lines that an executor has printed that has ended, as the end of a sentence."""
        assert self._cluster is not None
        try:
            ended = [it for it in self._cluster.pods(str(self._job)) if it.status.phase in ("Failed", "Succeeded")]
            shown = last_lines(self._cluster.log(ended[-1].metadata.name)) if ended else ""
        except RecruitError:  # the program may have no right to read logs
            return ""
        return f"; an executor has printed: {shown}" if shown else ""

    def __repr__(self) -> str:
        return f"Kubernetes({self._pods.image!r}, nodes={self._pods.nodes})"


class _Gone(RecruitError):
    """Kubernetes has no such object."""


class _Cluster:
    """The requests that a pilot makes, by the official client. Each raises RecruitError if Kubernetes refuses it, or
    does not answer."""

    def __init__(self, context: str | None, namespace: str | None) -> None:
        self._client, found = _client(context)
        from kubernetes import client

        self._batch, self._core = client.BatchV1Api(self._client), client.CoreV1Api(self._client)
        self._namespace = namespace or found

    def create_job(self, body: Object) -> str:
        """Creates a job. Returns its identifier."""
        return str(self._ask(self._batch.create_namespaced_job, body=body).metadata.uid)

    def create_secret(self, body: Object) -> None:
        self._ask(self._core.create_namespaced_secret, body=body)

    def create_service(self, body: Object) -> None:
        self._ask(self._core.create_namespaced_service, body=body)

    def patch_job(self, name: str, body: Object) -> None:
        self._ask(self._batch.patch_namespaced_job, name=name, body=body)

    def patch_secret(self, name: str, body: Object) -> None:
        self._ask(self._core.patch_namespaced_secret, name=name, body=body)

    def delete_job(self, name: str) -> None:
        """Has Kubernetes remove a job with all that belongs to it, unless it is gone already."""
        with suppress(_Gone):
            self._ask(self._batch.delete_namespaced_job, name=name, propagation_policy="Background")

    def job_status(self, name: str) -> Any:
        return self._ask(self._batch.read_namespaced_job, name=name).status

    def pods(self, name: str) -> list[Any]:
        selector = f"app.kubernetes.io/instance={name}"
        return list(self._ask(self._core.list_namespaced_pod, label_selector=selector).items)

    def log(self, pod: str) -> str:
        return str(self._ask(self._core.read_namespaced_pod_log, name=pod, container=CONTAINER, tail_lines=_SHOWN))

    def close(self) -> None:
        self._client.close()

    def _ask(self, request: Callable[..., Any], **arguments: Any) -> Any:
        from kubernetes.client.exceptions import ApiException
        from urllib3.exceptions import HTTPError

        try:
            return request(namespace=self._namespace, _request_timeout=_PATIENCE, **arguments)
        except ApiException as error:
            kind = _Gone if error.status == _NOT_THERE else RecruitError
            raise kind(f"Kubernetes refuses: {_message(error)}") from error
        except HTTPError as error:
            host = self._client.configuration.host
            raise RecruitError(f"Kubernetes does not answer at {host}: {last_lines(str(error))}") from error


def _client(context: str | None) -> tuple[Any, str]:
    """A client of the cluster, and the namespace that the user's settings name."""
    try:
        from kubernetes import client, config
    except ImportError:
        raise RecruitError("px.Kubernetes needs the official client: pip install kubernetes") from None
    settings = client.Configuration()
    try:
        if context is None and _NAMESPACE.exists() and not _has_contexts(config):
            config.load_incluster_config(client_configuration=settings)
            return client.ApiClient(settings), _NAMESPACE.read_text().strip()
        config.load_kube_config(context=context, client_configuration=settings)
        named, current = config.list_kube_config_contexts()
        found = current if context is None else next(it for it in named if it["name"] == context)
        return client.ApiClient(settings), found["context"].get("namespace") or "default"
    except (config.ConfigException, OSError, ValueError) as error:
        raise RecruitError(f"there is no cluster of Kubernetes: {last_lines(str(error))}") from error


def _has_contexts(config: Any) -> bool:
    """Whether the user has a file of contexts, which comes before the pod's own account."""
    paths = str(config.KUBE_CONFIG_DEFAULT_LOCATION).split(":")
    return any(Path(path).expanduser().exists() for path in paths if path)


def _message(error: Any) -> str:
    """What Kubernetes says of a request that it refuses."""
    try:
        return last_lines(json.loads(error.body)["message"])
    except (TypeError, ValueError, KeyError):
        return last_lines(f"{error.status} {error.reason}")


def _state_of(pod: Any) -> str:
    """The state of a pod, and why it is not another one."""
    for status in pod.status.container_statuses or ():
        waiting, ended = status.state and status.state.waiting, status.state and status.state.terminated
        if waiting and waiting.reason:
            return _with_reason("waiting", waiting.reason, waiting.message)
        if ended:
            return _with_reason("ended", ended.reason or "Error", ended.message)
    for condition in pod.status.conditions or ():
        if condition.type == "PodScheduled" and condition.status == "False":
            return _with_reason("pending", condition.reason, condition.message)
    return str(pod.status.phase or "unknown").lower()


def _with_reason(state: str, reason: str | None, message: str | None) -> str:
    why = ": ".join(last_lines(it) for it in (reason, message) if it)
    return f"{state} ({why})" if why else state
