"""What Kubernetes gets: a Job whose pods are executors, the Service that names them, and the Secret with the order."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from phalanx.errors import RecruitError
from phalanx.pilots._order import Order, check_count, check_time, command

#: An object of Kubernetes, as JSON has it.
Object = dict[str, Any]

#: The folder of the Secret in a pod, and the file in it.
_FOLDER, _FILE = "/run/phalanx", "order.json"
#: The container of a pod that is an executor.
CONTAINER = "executor"
#: Failures that a job may have, for each of its pods, until Kubernetes gives it up. A pod that fails is started again
#: after 10 s, then 20 s, at last 6 minutes. Pods that Kubernetes has evicted or preempted do not count.
_FAILURES = 10
#: Seconds that a pod may take to hand back its work. It is Kubernetes' own default.
_GRACE = 30
#: Seconds until Kubernetes removes a job that has ended, with its Service and Secret, if its program was killed.
_KEPT = 300
#: Most pods of one job. An Indexed Job could have 100 000.
MOST_NODES = 65536
_NAME = re.compile(r"[a-z]([a-z0-9-]{0,48}[a-z0-9])?")
_QUANTITY = re.compile(r"[0-9]{1,15}(\.[0-9]{1,9})?([KMGTPE]i|[mkMGTPE])?")
#: What YAML reads as this text without quotes, and as nothing else.
_PLAIN = re.compile(r"[A-Za-z/][A-Za-z0-9/_.-]*")
_NOT_TEXT = {"true", "false", "yes", "no", "on", "off", "null", "y", "n"}


class Pods(NamedTuple):
    """What the pods of a job are.

    Parameters
    ----------
    image
        The container's image, which has phalanx.
    nodes
        The number of pods.
    cores, memory, resources
        What each pod gets: it is the request and the limit.
    seconds
        The time limit of the job.
    user
        The number under which the container runs; None: as the image or the namespace says.
    python
        The Python of the image that has phalanx; None: its ``phalanx`` command.
    pod, container
        Further fields of the pod's spec, and of its container.
    """

    image: str
    nodes: int = 1
    cores: float | None = None
    memory: str | None = None
    resources: Mapping[str, int | str] = {}
    seconds: int | None = None
    user: int | None = 10001
    python: str | None = None
    pod: Mapping[str, Any] = {}
    container: Mapping[str, Any] = {}


def pods_of(
    image: str,
    nodes: int,
    *,
    cores: float | None,
    memory: str | None,
    resources: Mapping[str, int | str] | None,
    time: str | float | None,
    user: int | None,
    python: str | None,
    pod: Mapping[str, Any] | None = None,
    container: Mapping[str, Any] | None = None,
) -> Pods:
    """What users' options mean. Raises RecruitError if one is wrong."""
    if not isinstance(image, str) or not image.isprintable() or not image or " " in image:
        raise RecruitError(f"image is the name of a container's image that has phalanx, not {image!r:.80}")
    check_count("nodes", nodes, MOST_NODES)
    if cores is not None and (type(cores) not in (int, float) or not 0.001 <= cores <= 4096):
        raise RecruitError(f"cores is a number from 0.001 to 4096, not {cores!r:.40}")
    for name, amount in {"memory": memory, **(resources or {})}.items():
        if amount is not None and (isinstance(amount, bool) or not _QUANTITY.fullmatch(str(amount))):
            raise RecruitError(f"{name!r:.40} is an amount like 2 or '8Gi', not {amount!r:.40}")
    if user is not None and (type(user) is not int or not 0 <= user < 2**31):
        raise RecruitError(f"user is the number of an account, or None, not {user!r:.40}")
    for option, given in (("pod", pod), ("container", container)):
        if given is not None and not isinstance(given, Mapping):
            raise RecruitError(f"{option} has fields of Kubernetes, like {{'nodeSelector': {{…}}}}, not {given!r:.40}")
    seconds = None if time is None else check_time(time)
    return Pods(
        image, nodes, cores, memory, resources or {}, seconds, user, python, dict(pod or {}), dict(container or {})
    )


def check_name(name: str) -> str:
    """The name of a job. Raises RecruitError if Kubernetes does not take it for the Job, its pods and its Service."""
    if not _NAME.fullmatch(name):
        raise RecruitError(f"{name!r:.80} is no name of a job: it has small letters, digits and hyphens, 50 at most")
    return name


def job(name: str, pods: Pods, *, is_suspended: bool = False) -> Object:
    """The Job. One that is suspended has no pods until that is changed."""
    spec: Object = {
        "completionMode": "Indexed",
        "completions": pods.nodes,
        "parallelism": pods.nodes,
        "backoffLimit": _FAILURES * pods.nodes,
        "podFailurePolicy": {
            "rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]
        },
        "ttlSecondsAfterFinished": _KEPT,
        "template": {"metadata": {"labels": _labels(name)}, "spec": _merged(_pod(name, pods), pods.pod)},
    }
    if pods.seconds is not None:
        spec["activeDeadlineSeconds"] = pods.seconds
    if is_suspended:
        spec["suspend"] = True
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": _metadata(name), "spec": spec}


def service(name: str, owner: Object | None = None) -> Object:
    """The headless Service, by which pods have names: ``NAME-0.NAME`` and so on."""
    # Pods have their names before they are ready, because they begin to talk before.
    spec = {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": _labels(name)}
    return {"apiVersion": "v1", "kind": "Service", "metadata": _metadata(name, owner), "spec": spec}


def secret(name: str, order: Order, owner: Object | None = None) -> Object:
    """The Secret with the order of the executors."""
    line = base64.b64encode(order.line()).decode()
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": _metadata(name, owner),
        "type": "Opaque",
        "data": {_FILE: line},
    }


def owned_by(name: str, uid: str) -> Object:
    """What makes Kubernetes remove an object with a job."""
    return {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": uid}


def to_yaml(documents: Sequence[Object]) -> str:
    """Documents as kubectl takes them."""
    return "---\n".join("\n".join(_lines(it)) + "\n" for it in documents)


def _labels(name: str) -> dict[str, str]:
    return {"app.kubernetes.io/name": "phalanx", "app.kubernetes.io/instance": name}


def _metadata(name: str, owner: Object | None = None) -> Object:
    return {"name": name, "labels": _labels(name)} | ({"ownerReferences": [owner]} if owner else {})


def _pod(name: str, pods: Pods) -> Object:
    """The spec of a pod, which keeps to the restricted profile of Kubernetes' Pod Security Standards."""
    security: Object = {"seccompProfile": {"type": "RuntimeDefault"}}
    if pods.user is not None:
        security |= {"runAsUser": pods.user, "runAsGroup": pods.user}
    if pods.user != 0:
        security["runAsNonRoot"] = True
    if pods.user:
        security["fsGroup"] = pods.user  # so that the container may read the order
    # An order of root's own must be readable for root only: others are refused.
    mode = 0o400 if pods.user == 0 else 0o440
    return {
        "restartPolicy": "Never",
        "subdomain": name,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": _GRACE,
        "securityContext": security,
        "containers": [_merged(_container(pods), pods.container)],
        "volumes": [{"name": "order", "secret": {"secretName": name, "defaultMode": mode}}],
    }


def _container(pods: Pods) -> Object:
    amounts: dict[str, str] = {it: str(amount) for it, amount in pods.resources.items()}
    amounts |= {"cpu": f"{pods.cores:g}"} if pods.cores is not None else {}
    amounts |= {"memory": pods.memory} if pods.memory is not None else {}
    start = ["phalanx", "pilot"] if pods.python is None else command(pods.python)
    return {
        "name": CONTAINER,
        "image": pods.image,
        "command": [*start, f"{_FOLDER}/{_FILE}"],
        "resources": {"requests": amounts, "limits": amounts} if amounts else {},
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        "volumeMounts": [{"name": "order", "mountPath": _FOLDER, "readOnly": True}],
    }


def _merged(ours: Object, more: Mapping[str, Any]) -> Object:
    """Fields of ours and of the user's: mappings are merged, lists are joined, other values are the user's."""
    merged = dict(ours)
    for name, value in more.items():
        before = merged.get(name)
        if isinstance(before, dict) and isinstance(value, Mapping):
            merged[name] = _merged(before, value)
        elif isinstance(before, list) and isinstance(value, list | tuple):
            merged[name] = [*before, *value]
        else:
            merged[name] = value
    return merged


def _lines(value: Any) -> Iterator[str]:
    """The lines of a value in YAML, without indentation."""
    if isinstance(value, Mapping) and value:
        for name, inner in value.items():
            yield from _entry(f"{_scalar(name)}:", inner, "  " if isinstance(inner, Mapping) else "")
    elif isinstance(value, list | tuple) and value:
        for inner in value:
            first, *rest = _lines(inner)
            yield f"- {first}"
            yield from (f"  {line}" for line in rest)
    else:
        yield _scalar(value)


def _entry(name: str, value: Any, indentation: str) -> Iterator[str]:
    if isinstance(value, Mapping | list | tuple) and value:
        yield name
        yield from (f"{indentation}{line}" for line in _lines(value))
    else:
        yield f"{name} {_scalar(value)}"


def _scalar(value: Any) -> str:
    """A scalar, or an empty mapping or list: YAML reads JSON."""
    if isinstance(value, str) and _PLAIN.fullmatch(value) and value.lower() not in _NOT_TEXT:
        return value
    return json.dumps(list(value) if isinstance(value, tuple) else value)
