"""A server that answers as the API server of a cluster of Kubernetes, over HTTPS, and runs pods as processes.

Its answers have the forms that Kubernetes' published schemas and documentation tell. Objects that it gets, and answers
that it gives, must keep to the schemas, as a server with strict field validation demands. A pod is a process of this
machine with a host name of its own: no container, no other account, no limits.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import signal
import ssl
import subprocess
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from pilots.schemas import complaints

from laboratory.grid import PHALANX

Object = dict[str, Any]

TOKEN, NAMESPACE, IMAGE = "token-of-ada", "lab", "registry.example.org/phalanx:1"
#: Seconds between two looks of the controller at its jobs.
_LOOK = 0.05
#: Seconds until a pod is started again that has failed. Those of Kubernetes are 10, then 20, and so on.
_BACKOFF = 1.0


class Refused(Exception):
    """A request that is answered with a status other than 200 and 201."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.code, self.reason = code, reason


class Pod:
    """A pod, and its process. Without an image there is no process."""

    def __init__(self, cluster: Cluster, job: Object, index: int) -> None:
        name = job["metadata"]["name"]
        self.index, self.folder = index, cluster.folder / f"pod-{uuid.uuid4().hex[:8]}"
        self.folder.mkdir()
        self.name, self.job, self.spec = (
            f"{name}-{index}-{self.folder.name[-5:]}",
            name,
            job["spec"]["template"]["spec"],
        )
        self.labels = job["spec"]["template"]["metadata"]["labels"]
        self.owner = job["metadata"]["uid"]
        self.is_disrupted = self.is_deleted = False
        self.began = time.monotonic()
        self.container = self.spec["containers"][0]
        self.process: subprocess.Popen[bytes] | None = None
        if cluster.has_room and self.container["image"] in cluster.images:
            self._run(cluster, f"{name}-{index}")
        self.reason = None if self.process else "ImagePullBackOff" if cluster.has_room else "Unschedulable"

    def _run(self, cluster: Cluster, host: str) -> None:
        """Runs the container's command. Its folder of the Secret is another one here."""
        words = self.container["command"]
        for mount in self.container["volumeMounts"]:
            volume = next(it for it in self.spec["volumes"] if it["name"] == mount["name"])["secret"]
            folder = self.folder / mount["name"]
            folder.mkdir()
            for file, text in cluster.objects["secrets", volume["secretName"]]["data"].items():
                (folder / file).write_bytes(base64.b64decode(text))
                (folder / file).chmod(volume["defaultMode"] & 0o700)  # the container has this account here
            words = [word.replace(mount["mountPath"], str(folder)) for word in words]
        if os.geteuid() == 0 and shutil.which("unshare"):
            words = ["unshare", "--uts", "sh", "-c", 'hostname "$0"; exec "$@"', host, *words]
        env = {**os.environ, "JOB_COMPLETION_INDEX": str(self.index), "HOSTNAME": host}
        env["PATH"] = f"{Path(PHALANX).parent}:{env['PATH']}"
        with (self.folder / "log").open("wb") as log:
            self.process = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env, start_new_session=True
            )

    @property
    def code(self) -> int | None:
        """The exit code of its container, if that has ended."""
        return None if self.process is None else self.process.poll()

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal to its first process."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(number)

    def evict(self) -> None:
        """Ends it, as a node that is drained does."""
        self.is_disrupted = True
        self.signal(signal.SIGTERM)

    def end(self) -> None:
        """Ends it, and returns when it has ended."""
        self.is_deleted = True
        self.signal(signal.SIGTERM)
        if self.process is not None:
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def object(self) -> Object:
        """The pod, as the server shows it."""
        metadata = _metadata(self.name, {"labels": self.labels})
        metadata["ownerReferences"] = [
            {"apiVersion": "batch/v1", "kind": "Job", "name": self.job, "uid": self.owner, "controller": True}
        ]
        metadata["annotations"] = {"batch.kubernetes.io/job-completion-index": str(self.index)}
        return {"metadata": metadata, "spec": self.spec, "status": self._status()}

    def _status(self) -> Object:
        if self.reason == "Unschedulable":
            message = "0/3 nodes are available: 3 Insufficient cpu. preemption: 0/3 nodes are available."
            condition = {"type": "PodScheduled", "status": "False", "reason": self.reason, "message": message}
            return {"phase": "Pending", "conditions": [condition], "qosClass": "Burstable"}
        code, image = self.code, self.container["image"]
        scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": _now()}
        state: Object = {"running": {"startedAt": _now()}}
        if self.reason:
            state = {"waiting": {"reason": self.reason, "message": f'Back-off pulling image "{image}"'}}
        elif code is not None:
            ended = code if code >= 0 else 128 - code
            state = {"terminated": {"exitCode": ended, "reason": "Error" if ended else "Completed"}}
        container = {"name": "executor", "image": image, "imageID": "", "restartCount": 0, "state": state}
        phase = "Pending" if self.reason else "Running" if code is None else "Failed" if code else "Succeeded"
        conditions = [scheduled]
        if self.is_disrupted:
            why = {"reason": "EvictionByEvictionAPI", "message": "Eviction API: evicting"}
            conditions.append({"type": "DisruptionTarget", "status": "True", "lastTransitionTime": _now(), **why})
        statuses = [{**container, "ready": phase == "Running"}]
        return {"phase": phase, "conditions": conditions, "containerStatuses": statuses, "podIP": "127.0.0.1"}


class Cluster:
    """A cluster. ``KUBECONFIG`` names its file of contexts.

    ``images`` are those that can be pulled; ``has_room`` tells whether pods find a node. ``refused`` are requests that
    the user has no right to, like ``"post secrets"``. ``requests`` are those that were made, in the same words.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder, self.contexts = folder, folder / "config"
        self.images, self.has_room = {IMAGE}, True
        self.refused: set[str] = set()
        self.requests: list[str] = []
        self.objects: dict[tuple[str, str], Object] = {}
        self.pods: list[Pod] = []
        self._lock, self._ending = threading.RLock(), threading.Event()
        certificate, key = _certificate()
        (folder / "server.pem").write_bytes(certificate + key)
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / "server.pem")
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.contexts.write_text(json.dumps(self._settings(certificate)))  # YAML reads JSON
        self._threads = [threading.Thread(target=it, daemon=True) for it in (self._serve, self._control)]
        for thread in self._threads:
            thread.start()

    def _settings(self, certificate: bytes) -> Object:
        address = f"https://127.0.0.1:{self._server.server_port}"
        authority = base64.b64encode(certificate).decode()
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "here", "cluster": {"server": address, "certificate-authority-data": authority}}],
            "users": [{"name": "ada", "user": {"token": TOKEN}}, {"name": "eve", "user": {"token": "wrong"}}],
            "contexts": [
                {"name": "ada", "context": {"cluster": "here", "user": "ada", "namespace": NAMESPACE}},
                {"name": "eve", "context": {"cluster": "here", "user": "eve"}},
            ],
            "current-context": "ada",
        }

    def _serve(self) -> None:
        self._server.serve_forever(_LOOK)

    def close(self) -> None:
        """Ends the server, and all pods."""
        self._ending.set()
        self._server.shutdown()
        self._server.server_close()
        for thread in self._threads:
            thread.join()
        for pod in self.pods:
            pod.end()

    def running(self) -> list[Pod]:
        """The pods whose containers run."""
        return [pod for pod in self.pods if pod.process is not None and pod.code is None]

    def of(self, kind: str) -> list[Object]:
        """The objects of a kind, like ``"secrets"``."""
        return [it for (found, _), it in self.objects.items() if found == kind]

    # What the server answers.

    def answer(self, method: str, kind: str, name: str, more: str, query: dict[str, str], body: Object | None) -> Any:
        """The answer to a request for an object of the namespace."""
        with self._lock:
            self.requests.append(f"{method} {kind}{f'/{more}' if more else ''}")
            if self.requests[-1] in self.refused:
                raise Refused(403, "Forbidden", f'{kind} is forbidden: User "ada" cannot {method} resource "{kind}"')
            if method == "post":
                return self._create(kind, body or {})
            if (kind, method) == ("pods", "get"):
                return self._log(name, query) if more == "log" else self._list(query)
            if (kind, name) not in self.objects:
                raise Refused(404, "NotFound", f'{kind}.batch "{name}" not found')
            if method == "patch":
                for part, fields in (body or {}).items():
                    self.objects[kind, name][part] |= fields
            return self._delete(name, query) if method == "delete" else self.objects[kind, name]

    def _create(self, kind: str, body: Object) -> Object:
        if wrong := complaints(body):
            raise Refused(400, "BadRequest", f"strict decoding error: {wrong}")
        name = body["metadata"]["name"]
        if (kind, name) in self.objects:
            raise Refused(409, "AlreadyExists", f'{kind} "{name}" already exists')
        for owner in body["metadata"].get("ownerReferences", ()):
            assert self.objects["jobs", owner["name"]]["metadata"]["uid"] == owner["uid"]
        self.objects[kind, name] = body | {"metadata": _metadata(name, body["metadata"])}
        if kind == "jobs":
            self.objects[kind, name]["status"] = {}
        return self.objects[kind, name]

    def _list(self, query: dict[str, str]) -> Object:
        label, _, value = query["labelSelector"].partition("=")
        found = [pod.object() for pod in self.pods if pod.labels[label] == value]
        return {"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "7"}, "items": found}

    def _log(self, name: str, query: dict[str, str]) -> str:
        pod = next(it for it in self.pods if it.name == name)
        lines = (pod.folder / "log").read_text().splitlines(keepends=True)
        return "".join(lines[-int(query["tailLines"]) :])

    def _delete(self, name: str, query: dict[str, str]) -> Object:
        """Deletes a job. In the background, what belongs to it goes after it; by default it would stay."""
        gone = self.objects.pop(("jobs", name))["metadata"]["uid"]
        if query.get("propagationPolicy") == "Background":
            for key, owned in [*self.objects.items()]:
                if any(it["uid"] == gone for it in owned["metadata"].get("ownerReferences", ())):
                    del self.objects[key]
            for pod in self.pods:
                if pod.owner == gone:
                    pod.is_deleted = True
                    pod.signal(signal.SIGTERM)
        details = {"name": name, "group": "batch", "kind": "jobs", "uid": gone}
        return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}

    # What its controller of jobs does.

    def _control(self) -> None:
        while not self._ending.wait(_LOOK):
            with self._lock:
                for job in self.of("jobs"):
                    if not job["spec"].get("suspend") and not job["status"].get("conditions"):
                        self._look_at(job)

    def _look_at(self, job: Object) -> None:
        spec, status = job["spec"], job["status"]
        status.setdefault("startTime", _now())
        pods = [pod for pod in self.pods if pod.owner == job["metadata"]["uid"]]
        succeeded = {pod.index for pod in pods if pod.code == 0}
        failed = [pod for pod in pods if pod.code not in (None, 0) and not pod.is_disrupted]
        active = {pod.index for pod in pods if pod.code is None}
        status |= {"active": len(active), "succeeded": len(succeeded), "failed": len(failed)}
        limit = spec.get("activeDeadlineSeconds")
        if limit and datetime.fromisoformat(status["startTime"].replace("Z", "+00:00")) < datetime.now(
            timezone.utc
        ) - timedelta(seconds=limit):
            self._finish(job, "Failed", "DeadlineExceeded", "Job was active longer than specified deadline")
        elif len(failed) > spec["backoffLimit"]:
            self._finish(job, "Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit")
        elif len(succeeded) == spec["completions"]:
            self._finish(job, "Complete", "CompletionsReached", "Reached expected number of succeeded pods")
        else:
            late = {pod.index for pod in failed if time.monotonic() - pod.began < _BACKOFF}
            for index in range(spec["completions"]):
                if index not in active | succeeded | late:
                    self.pods.append(Pod(self, job, index))
            for pod in pods:  # a job with fewer indexes than before
                if pod.index >= spec["completions"] and not pod.is_deleted:
                    pod.is_deleted = pod.is_disrupted = True
                    pod.signal(signal.SIGTERM)

    def _finish(self, job: Object, kind: str, reason: str, message: str) -> None:
        at = {"lastProbeTime": _now(), "lastTransitionTime": _now()}
        job["status"]["conditions"] = [{"type": kind, "status": "True", "reason": reason, "message": message, **at}]
        for pod in self.pods:
            if pod.owner == job["metadata"]["uid"]:
                pod.signal(signal.SIGTERM)


@contextmanager
def cluster(folder: Path) -> Iterator[Cluster]:
    """A cluster for the block."""
    found = Cluster(folder)
    try:
        yield found
    finally:
        found.close()


def _handler(cluster: Cluster) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._answer("get")

        def do_POST(self) -> None:
            self._answer("post")

        def do_PATCH(self) -> None:
            self._answer("patch")

        def do_DELETE(self) -> None:
            self._answer("delete")

        def log_message(self, *_: object) -> None:
            """Says nothing."""

        def _answer(self, method: str) -> None:
            text = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            try:
                code, answer = 201 if method == "post" else 200, self._found(method, text)
            except Refused as error:
                code = error.code
                answer = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": code}
                answer |= {"message": str(error), "reason": error.reason}
            kind = "text/plain" if isinstance(answer, str) else "application/json"
            if isinstance(answer, dict):
                assert complaints(answer) == []
            sent = (answer if isinstance(answer, str) else json.dumps(answer)).encode()
            with suppress(OSError):
                self.send_response(code)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(sent)))
                self.end_headers()
                self.wfile.write(sent)

        def _found(self, method: str, text: bytes) -> Any:
            scheme, _, token = self.headers.get("Authorization", "").partition(" ")
            if (scheme.lower(), token) != ("bearer", TOKEN):
                raise Refused(401, "Unauthorized", "Unauthorized")
            url = urlsplit(self.path)
            api, _, rest = url.path.partition("/namespaces/")
            space, kind, name, more, *_ = [*rest.split("/"), "", "", ""]
            if api != {"jobs": "/apis/batch/v1"}.get(kind, "/api/v1") or space != NAMESPACE:
                raise Refused(404, "NotFound", "the server could not find the requested resource")
            query = {it: values[-1] for it, values in parse_qs(url.query).items()}
            return cluster.answer(method, kind, name, more, query, json.loads(text) if text else None)

    return Handler


def _metadata(name: str, told: Object) -> Object:
    more = {"namespace": NAMESPACE, "uid": str(uuid.uuid4()), "creationTimestamp": _now(), "resourceVersion": "7"}
    return {**told, "name": name, **more}


def _now() -> str:
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def _certificate() -> tuple[bytes, bytes]:
    """A certificate for 127.0.0.1 that signs itself, and its key."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(timezone.utc)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "kubernetes")])
    built = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    built = built.serial_number(x509.random_serial_number()).not_valid_before(now - timedelta(days=1))
    built = built.not_valid_after(now + timedelta(days=1))
    built = built.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    built = built.add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
    built = built.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    signed = built.sign(key, hashes.SHA256())
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return signed.public_bytes(pem), private
