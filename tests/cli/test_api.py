"""`phalanx up --tes`: jobs, files and spaces for programs in any language, at a real hub with real executors.

Each answer is checked against the document that the package has.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import http.client
import itertools
import json
import os
import re
import signal
import socket
import ssl
import subprocess
import tempfile
import threading
import time
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import pytest
from api.hubs import PATIENCE, Site, site
from openapi_schema_validator import OAS31Validator
from phalanx.api.application import DOCUMENT
from skips import require

from laboratory.processes import until

pytestmark = [pytest.mark.timeout(600), pytest.mark.xdist_group("tes")]

OVER = ("COMPLETE", "EXECUTOR_ERROR", "SYSTEM_ERROR", "CANCELED")
PREFIX = "/phalanx/v1"
CLIENTS = Path(__file__).parents[2] / "examples" / "other_languages"


class Answer(NamedTuple):
    """What the hub has answered."""

    status: int
    headers: http.client.HTTPMessage
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


class Described:
    """The document, as what answers must be like."""

    def __init__(self) -> None:
        self.document = json.loads(DOCUMENT.read_text())
        self.seen: set[tuple[str, str, int]] = set()

    def check(self, method: str, path: str, answer: Answer) -> None:
        """An answer is one of those that the document lists for its path, and has the form that it says."""
        template = self._template(path)
        if template is None:
            assert answer.status == 404, (path, answer)
            return
        operation = self.document["paths"][template].get(method.lower())
        if operation is None:
            assert answer.status == 405, (method, path, answer)
            return
        described = operation["responses"].get(str(answer.status))
        assert described is not None, f"{method} {template}: {answer.status} is not in the document: {answer.body!r}"
        self.seen.add((method, template, answer.status))
        if "$ref" in described:
            described = self._at(described["$ref"])
        if method == "HEAD":
            return
        kind = answer.headers.get_content_type()
        assert kind in described["content"], f"{method} {template}: {kind}"
        if kind.endswith("json"):
            schema = described["content"][kind]["schema"]
            whole = {**schema, "components": self.document["components"]}
            OAS31Validator(whole).validate(json.loads(answer.body))

    def _template(self, path: str) -> str | None:
        for template in self.document["paths"]:
            pattern = re.sub(r"\\{(path|name)\\}$", ".+", re.escape(template))
            if re.fullmatch(re.sub(r"\\{\w+\\}", "[^/]+", pattern), path):
                return str(template)
        return None

    def _at(self, reference: str) -> Any:
        found = self.document
        for part in reference.removeprefix("#/").split("/"):
            found = found[part]
        return found


class Lab:
    """A grid whose hub has an executor, and the user bob."""

    def __init__(self, found: Site, shared: Path, *options: str) -> None:
        self.site, self.shared, self.described = found, shared, Described()
        (shared / "data").mkdir()
        (shared / "fixed").mkdir()
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        folders = ("--tes-folder", f"{shared}/data:rw", "--tes-folder", f"{shared}/fixed:ro")
        self.first = found.up("--tes", f"{self.port}", *folders, *options)
        found.say("bob", "join", "--name", "bob", found.invite("--role", "user"))
        self.authority = found.say("bob", "token", "--authority").strip()
        self.context = ssl.create_default_context(cafile=self.authority)
        self.bob = self.token("bob")

    def token(self, member: str) -> str:
        return self.site.say(member, "token", "--for", "1h").strip()

    def most_memory(self) -> int:
        """The most bytes of memory that the hub has had."""
        status = Path(f"/proc/{self.site.running['hub'].pid}/status").read_text()
        return int(re.findall(r"VmHWM:\s+(\d+) kB", status)[0]) << 10

    def connection(self) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection("127.0.0.1", self.port, timeout=PATIENCE, context=self.context)

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        token: str | None = None,
        headers: dict[str, str] | None = None,
    ) -> Answer:
        """A request, whose answer is checked against the document."""
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        shown = {"Authorization": f"Bearer {self.bob if token is None else token}"}
        connection = self.connection()
        try:
            connection.request(method, PREFIX + path, data, {**shown, **(headers or {})})
            got = connection.getresponse()
            answer = Answer(got.status, got.headers, got.read())
        finally:
            connection.close()
        self.described.check(method, path.partition("?")[0], answer)
        return answer

    def get(self, path: str, **more: Any) -> Any:
        """The JSON of a path that must be there."""
        answer = self.ask("GET", path, **more)
        assert answer.status == 200, answer
        return answer.json()

    def post(self, path: str, body: Any = None, **more: Any) -> Any:
        """The JSON of what must be done."""
        answer = self.ask("POST", path, body, **more)
        assert answer.status in (200, 201), answer
        return answer.json()

    def refused(self, method: str, path: str, body: Any = None, **more: Any) -> tuple[int, str]:
        """The status and the words of what must be refused."""
        answer = self.ask(method, path, body, **more)
        assert answer.status >= 400, answer
        return answer.status, answer.json()["detail"]

    def submit(self, *command: str, **fields: Any) -> int:
        return int(self.post("/jobs", {"command": [*command], **fields})["id"])

    def ended(self, job: int) -> dict[str, Any]:
        last: dict[str, Any] = {}

        def is_over() -> bool:
            last.update(self.get(f"/jobs/{job}"))
            return last["state"] in OVER

        until(is_over, timeout=PATIENCE, what=f"the end of the job {job}")
        return last

    def events(self, path: str, **headers: str) -> Generator[dict[str, Any], None, None]:
        """Server-Sent Events, until they end."""
        connection = self.connection()
        try:
            shown = {"Authorization": f"Bearer {self.bob}", **headers}
            connection.request("GET", PREFIX + path, headers=shown)
            got = connection.getresponse()
            assert (got.status, got.headers.get_content_type()) == (200, "text/event-stream"), got.read()
            event: dict[str, Any] = {}
            while line := got.readline().decode():
                name, _, value = line.rstrip("\n").partition(": ")
                if name:
                    event[name] = json.loads(value) if name == "data" else value
                elif "data" in event:
                    yield event
                    event = {}
        finally:
            connection.close()


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    folder = tmp_path_factory.mktemp("api")
    rules = folder / "access.toml"
    rules.write_text(
        '[[rule]]\nspace = "open*"\nmay = ["out", "rd", "in", "create"]\n[[rule]]\nspace = "news"\nuser = "bob"\n'
        'may = ["rd", "create"]\n[[rule]]\nspace = "news"\nuser = "eve"\nmay = ["out", "rd", "create"]\n'
    )
    with site(folder) as found, tempfile.TemporaryDirectory(dir="/var/tmp", prefix="phalanx-test-") as shared:
        made = Lab(found, Path(shared), "--access", f"{rules}")
        found.say("eve", "join", "--name", "eve", found.invite("--role", "user"))
        yield made


def test_a_token_is_needed_and_says_whose_it_is(lab: Lab) -> None:
    assert lab.get("/me")["user"] == "bob"
    for token in ("", "phalanx-bearer-x", lab.bob[:-4]):
        status, words = lab.refused("GET", "/me", token=token)
        assert (status, "phalanx token" in words) == (401, True)
    password = base64.b64encode(f"any:{lab.bob}".encode()).decode()
    assert lab.ask("GET", "/me", headers={"Authorization": f"Basic {password}"}).status == 200
    assert lab.ask("GET", "/openapi.json", token="").json() == json.loads(DOCUMENT.read_text())
    assert lab.ask("GET", "/nowhere").status == 404
    assert lab.ask("PATCH", "/jobs").status == 405


def test_a_job_runs_with_its_files_and_leaves_outputs(lab: Lab) -> None:
    (lab.shared / "fixed" / "numbers").write_text("1\n2\n3\n")
    program = "#!/bin/sh\ncat numbers more | awk -v i=\"$PHALANX_INDEX\" '{ s += $1 } END { print s * i }' > sum\n"
    inputs = [
        {"name": "add.sh", "text": program, "executable": True},
        {"name": "numbers", "file": f"{lab.shared}/fixed/numbers"},
        {"name": "more", "base64": base64.b64encode(b"4\n").decode()},
    ]
    document: dict[str, Any] = {"command": ["sh", "-c", "./add.sh; echo $WORD"], "environment": {"WORD": "done"}}
    document["key"] = "once"
    document |= {"name": "sums", "first": 3, "count": 2, "inputs": inputs, "outputs": ["sum"]}
    made = lab.ask("POST", "/jobs", document)
    assert made.status == 201
    job = made.json()["id"]
    assert made.headers["location"] == f"{PREFIX}/jobs/{job}"
    assert lab.post("/jobs", document)["id"] == job, "the same key is the same job"
    others: list[tuple[dict[str, Any], str]] = [
        ({"command": ["true"]}, "command, environment, folder or stdin"),
        ({"count": 3}, "count"),
        ({"retries": 1}, "retries"),
        ({"deadline": 100}, "deadline"),
        ({"needs": {"cores": 1}}, "needs"),
        ({"inputs": [*inputs[:2], {"name": "more", "text": "5\n"}]}, "inputs"),
    ]
    for fields, what in others:
        status, words = lab.refused("POST", "/jobs", document | fields)
        assert (status, words) == (422, f"key: the job {job} was submitted with this key, and differs in its {what}")
    assert lab.post("/jobs", document | {"key": None, "command": ["true"]})["id"] != job
    done = lab.ended(job)
    assert (done["state"], done["name"], done["first"], done["count"]) == ("COMPLETE", "sums", 3, 2)
    assert job in [it["id"] for it in lab.get("/jobs")["jobs"]]
    found = lab.get(f"/jobs/{job}/processes")
    assert [it["index"] for it in found["processes"]] == [3, 4]
    assert found["after"] is None
    assert [it["index"] for it in lab.get(f"/jobs/{job}/processes?after=3")["processes"]] == [4]
    process = lab.get(f"/jobs/{job}/processes/4")
    assert process["result"]["exit"] == {"code": 0}
    assert [it["name"] for it in process["result"]["outputs"]] == ["sum"]
    at = f"/jobs/{job}/processes/4"
    assert lab.ask("GET", f"{at}/outputs/sum").body == b"40\n"
    part = lab.ask("GET", f"{at}/outputs/sum", headers={"Range": "bytes=1-"})
    assert (part.status, part.body, part.headers["content-range"]) == (206, b"0\n", "bytes 1-2/3")
    assert lab.ask("HEAD", f"{at}/outputs/sum").headers["content-length"] == "3"
    assert lab.ask("GET", f"{at}/logs/stdout").body == b"done\n"
    assert lab.refused("GET", f"{at}/outputs/lacking")[0] == 404
    assert lab.refused("GET", f"{at}/logs/other")[0] == 404
    assert lab.refused("GET", f"/jobs/{job}/processes/5")[0] == 404
    assert lab.ask("DELETE", f"/jobs/{job}").status == 200
    assert lab.refused("GET", f"/jobs/{job}")[0] == 404


def test_a_job_is_followed_and_canceled(lab: Lab) -> None:
    job = lab.submit("sh", "-c", "echo 1 ä; echo err >&2; while [ ! -e stop ]; do sleep 0.2; done", name="followed")
    states: list[str] = []

    def follow() -> None:
        states.extend(event["data"]["state"] for event in lab.events(f"/jobs/{job}/events"))

    thread = threading.Thread(target=follow)
    thread.start()
    log = lab.events(f"/jobs/{job}/processes/0/logs/stdout/events")
    first = next(log)
    assert (first["event"], first["data"], first["id"]) == ("output", {"text": "1 ä\n"}, "5")
    # While it runs, the log is there without events too.
    assert lab.ask("GET", f"/jobs/{job}/processes/0/logs/stderr").body == b"err\n"
    assert lab.ask("GET", f"/jobs/{job}/processes/0/logs/stdout?start=2").body == "ä\n".encode()
    assert lab.refused("DELETE", f"/jobs/{job}")[0] == 409
    assert lab.post(f"/jobs/{job}/cancel")["processes"] == 1
    assert lab.ended(job)["state"] == "CANCELED"
    last = [*log][-1]
    assert (last["event"], last["data"]["state"]) == ("end", "CANCELED")
    thread.join(PATIENCE)
    assert states[-1] == "CANCELED"
    assert "RUNNING" in states


def test_the_log_of_an_ended_process_goes_on_where_a_client_was(lab: Lab) -> None:
    job = lab.submit("sh", "-c", "seq 1000; exit 3")
    assert lab.ended(job)["state"] == "EXECUTOR_ERROR"
    expected = "".join(f"{number}\n" for number in range(1, 1001))
    path = f"/jobs/{job}/processes/0/logs/stdout/events"
    *output, end = lab.events(path)
    assert "".join(event["data"]["text"] for event in output) == expected
    assert end["data"] == {"state": "EXECUTOR_ERROR", "exit": {"code": 3}}
    *output, _ = lab.events(path, **{"Last-Event-ID": "100"})
    assert "".join(event["data"]["text"] for event in output) == expected[100:]
    assert lab.refused("GET", f"/jobs/{job}/processes/0/logs/stdout?start=-1")[0] == 400


def test_other_users_jobs_are_not_there(lab: Lab) -> None:
    job, eve = lab.submit("true"), lab.token("eve")
    lab.ended(job)
    at = f"/jobs/{job}"
    for path in (at, f"{at}/processes", f"{at}/processes/0", f"{at}/processes/0/logs/stdout", f"{at}/events"):
        assert lab.refused("GET", path, token=eve)[0] == 404, path
    assert lab.refused("POST", f"{at}/cancel", token=eve)[0] == 404
    assert lab.refused("DELETE", at, token=eve)[0] == 404
    assert lab.get("/jobs", token=eve)["jobs"] == []


@pytest.mark.parametrize(
    ("document", "status", "words"),
    [
        (b"{", 400, "the body is no JSON"),
        (b'{"command": NaN}', 400, "NaN is no number of JSON"),
        (b"[" * 100_000, 400, "the body is no JSON"),
        (b"\xff", 400, "the body is no JSON"),
        ([], 400, "the body: this is no object"),
        ({}, 400, "command: this field is missing"),
        ({"command": []}, 400, "command: a command has at least one word"),
        ({"command": "ls"}, 400, "command: this is no list"),
        ({"command": ["a", 1]}, 400, "command[1]: this is no text"),
        ({"command": ["a\0"]}, 400, "command[0]: the text has a zero byte"),
        ({"command": ["\ud800"]}, 400, "command[0]: the text has half of a surrogate pair"),
        ({"command": ["x"] * 1001}, 400, "command: there are 1001 items"),
        ({"command": ["ls"], "comand": 1}, 400, "comand: this field is not known"),
        ({"command": ["ls"], "\ud800": 1}, 400, "\\ud800: this field is not known"),
        ({"command": ["ls"], "count": 0}, 400, "count: write a whole number from 1 to 100000"),
        ({"command": ["ls"], "count": True}, 400, "count: write a whole number"),
        ({"command": ["ls"], "count": 1e308}, 400, "count: write a whole number"),
        ({"command": ["ls"], "environment": {"A": 1}}, 400, "environment.A: this is no text"),
        ({"command": ["ls"], "inputs": [{"name": "x"}]}, 400, "inputs[0]: an input has one of the fields"),
        ({"command": ["ls"], "inputs": [{"name": "x", "base64": "?"}]}, 400, "inputs[0].base64: this is no base64"),
        ({"command": ["ls"], "inputs": [{"name": "../x", "text": "a"}]}, 400, "leads out of the folder"),
        ({"command": ["ls"], "inputs": [{"name": "x", "file": "/etc/passwd"}]}, 404, "outside of the folders"),
        ({"command": ["ls"], "inputs": [{"name": "x", "file": "passwd"}]}, 400, "is no absolute path"),
        ({"command": ["ls"], "needs": {"cores": -1}}, 400, "needs.cores: write a whole number"),
        ({"command": ["ls"], "needs": {"core": 1}}, 400, "needs.core: this field is not known"),
        ({"command": ["ls"], "priority": 5}, 403, "only owners of the grid"),
        ({"command": ["ls"], "after": [4_000_000]}, 400, "4000000"),
        (b'"' + b"x" * (5 << 20) + b'"', 413, "the body has more than"),
    ],
)
def test_a_job_that_makes_no_sense_is_refused_with_the_name_of_the_field(
    lab: Lab, document: Any, status: int, words: str
) -> None:
    found, said = lab.refused("POST", "/jobs", document)
    assert (found, words in said) == (status, True), said


def test_files_are_written_as_a_whole_and_read_in_parts(lab: Lab) -> None:
    data = lab.shared / "data"
    content, path = os.urandom((3 << 20) + 5), f"/files{data}/new/folder/blob"
    made = lab.ask("PUT", path, content)
    assert (made.status, made.json()) == (201, {"path": f"{data}/new/folder/blob", "bytes": len(content)})
    assert (data / "new" / "folder" / "blob").read_bytes() == content
    whole = lab.ask("GET", path)
    assert hashlib.sha256(whole.body).digest() == hashlib.sha256(content).digest()
    for asked, start, end in [("bytes=0-9", 0, 10), ("bytes=300000-", 300_000, None), ("bytes=-7", -7, None)]:
        part = lab.ask("GET", path, headers={"Range": asked})
        assert (part.status, part.body) == (206, content[start:end]), asked
    assert lab.ask("GET", path, headers={"Range": "bytes=0-1,4-5"}).status == 200, "several ranges are not served"
    beyond = lab.ask("GET", path, headers={"Range": f"bytes={len(content)}-"})
    assert (beyond.status, beyond.headers["content-range"]) == (416, f"bytes */{len(content)}")
    same = {"Range": "bytes=0-0", "If-Range": whole.headers["etag"]}
    assert lab.ask("GET", path, headers=same).status == 206
    assert lab.refused("PUT", path, b"x", headers={"If-None-Match": "*"})[0] == 412
    assert lab.ask("PUT", path, b"").status == 200
    assert lab.ask("GET", path, headers=same).status == 200, "it is another file now"
    assert lab.ask("HEAD", path).headers["content-length"] == "0"
    assert lab.refused("PUT", f"/files{data}/new/folder", b"x")[0] == 409
    assert lab.refused("GET", f"/files{data}/new")[0] == 409
    assert lab.refused("DELETE", f"/files{data}/new")[0] == 409
    assert lab.ask("DELETE", path).status == 200
    assert lab.refused("GET", path)[0] == 404
    assert lab.refused("DELETE", path)[0] == 404
    assert lab.ask("DELETE", f"/files{data}/new/folder").status == 200


def test_a_large_file_is_not_in_the_memory_of_the_hub(lab: Lab) -> None:
    """256 MiB in both directions, which the hub holds in blocks."""
    data, length = lab.shared / "data", 256 << 20
    with (data / "large").open("wb") as file:
        file.truncate(length)
    before, connection = lab.most_memory(), lab.connection()
    shown = {"Authorization": f"Bearer {lab.bob}"}
    connection.request("GET", f"{PREFIX}/files{data}/large", headers=shown)
    answer, count = connection.getresponse(), 0
    while piece := answer.read(1 << 20):
        count += len(piece)
    assert count == length
    pieces = (bytes(1 << 20) for _ in range(length >> 20))
    connection.request("PUT", f"{PREFIX}/files{data}/again", pieces, {**shown, "Content-Length": f"{length}"})
    assert connection.getresponse().status == 201
    connection.close()
    assert (data / "again").stat().st_size == length
    assert lab.most_memory() - before < 96 << 20
    (data / "large").unlink()
    (data / "again").unlink()


def test_folders_are_listed_in_pages(lab: Lab) -> None:
    data = lab.shared / "data" / "listed"
    data.mkdir()
    for name in ("b ü#?", "a", "c"):
        (data / name).write_text(name)
    (data / "d").mkdir()
    (data / "e").symlink_to("/etc/passwd")
    os.mkfifo(data / "f")
    (data / os.fsdecode(b"\xff")).write_text("no text")
    assert {it["path"]: it["writable"] for it in lab.get("/folders")["folders"]} == {
        f"{lab.shared}/data": True,
        f"{lab.shared}/fixed": False,
    }
    found = lab.get(f"/entries{data}")
    kinds = [("a", "file"), ("b ü#?", "file"), ("c", "file"), ("d", "folder"), ("e", "link"), ("f", "other")]
    assert [(it["name"], it["kind"]) for it in found["entries"]] == kinds
    page = lab.get(f"/entries{data}?limit=2&after=a")
    assert ([it["name"] for it in page["entries"]], page["after"]) == (["b ü#?", "c"], "c")
    assert lab.ask("GET", f"/files{data}/{quote('b ü#?')}").body == "b ü#?".encode()
    assert lab.refused("GET", f"/files{data}/f")[0] == 409, "a pipe keeps nobody waiting"
    assert lab.refused("GET", f"/entries{data}/a")[0] == 404
    for limit in ("0", "1001", "000000001999999", "9" * 5000, "²"):
        assert lab.refused("GET", f"/entries{data}?limit={quote(limit)}")[0] == 400, limit
    assert "listed" in [it["name"] for it in lab.get(f"/entries{lab.shared}/data")["entries"]]


def test_nothing_outside_of_the_folders_is_touched(lab: Lab) -> None:
    data = lab.shared / "data"
    (lab.shared / "secret").write_text("secret")
    (data / "out").symlink_to(lab.shared)
    (data / "leak").symlink_to(lab.shared / "secret")
    try:
        for path in ["/etc/passwd", f"{lab.shared}/secret", f"{data}/leak", f"{data}/out/secret", f"{lab.shared}"]:
            assert lab.refused("GET", f"/files{path}")[0] == 404, path
            assert lab.refused("PUT", f"/files{path}", b"x")[0] == 404, path
            assert lab.refused("DELETE", f"/files{path}")[0] == 404, path
        for path in [f"{data}/../secret", f"{data}/%2e%2e/secret", f"{data}/..%2fsecret"]:
            assert lab.refused("GET", f"/files{path}")[0] == 400, path
        assert lab.refused("GET", f"/files{data}/%00")[0] == 404
        assert lab.refused("GET", f"/files{data}/{'x' * 300}")[0] == 404
        assert lab.refused("PUT", f"/files{lab.shared}/fixed/new", b"x")[0] == 403
        assert lab.refused("DELETE", f"/files{lab.shared}/fixed")[0] in (403, 404)
        assert (lab.shared / "secret").read_text() == "secret"
    finally:
        (data / "out").unlink()
        (data / "leak").unlink()


def test_an_upload_that_is_cut_off_leaves_nothing(lab: Lab) -> None:
    folder = lab.shared / "data" / "cut"
    connection = lab.connection()
    connection.putrequest("PUT", f"{PREFIX}/files{folder}/half")
    connection.putheader("Authorization", f"Bearer {lab.bob}")
    connection.putheader("Content-Length", "1000000")
    connection.endheaders()
    connection.send(b"x" * 300_000)
    until(lambda: folder.is_dir() and any(folder.iterdir()), timeout=PATIENCE, what="the upload to begin")
    assert lab.get(f"/entries{folder}")["entries"] == [], "an unfinished file is not listed"
    connection.close()
    until(lambda: not any(folder.iterdir()), timeout=PATIENCE, what="the unfinished file to go")


def test_tuples_of_all_types_go_out_and_come_in(lab: Lab) -> None:
    fields = ["all", 1, 1.5, True, None, {"bytes": "aGk="}, [1, ["x"]], {"tuple": [2, "y"]}, {"float": "NaN"}, 1 << 70]
    at = "/spaces/open"
    assert lab.post(f"{at}/out", {"tuple": fields}) == {"tuples": 1}
    # A program in Python sees the same tuple, and puts one.
    source = """
        space = px.Space("lab/open")
        _, *fields = space.rd("all", *[px.space.ANY] * 9, timeout=10)
        print(fields[:7])
        space.out("from Python", 2.0)
    """
    seen = lab.site.python("bob", source)
    assert seen.strip() == "[1, 1.5, True, None, b'hi', [1, ['x']], (2, 'y')]"
    template: list[Any] = [
        "all",
        {"type": "integer"},
        {"type": "number"},
        {"type": "boolean"},
        {"type": ["null", "integer"]},
    ]
    template += [{"type": "bytes"}, {"type": "list"}, {"tuple": [{"type": "any"}, "y"]}, {"type": "float"}, 1 << 70]
    assert lab.post(f"{at}/count", {"template": template}) == {"count": 1}
    assert lab.post(f"{at}/rdp", {"template": template})["tuple"] == fields
    assert lab.post(f"{at}/rd", {"template": template})["tuple"] == fields
    assert lab.post(f"{at}/in", {"template": template})["tuple"] == fields
    assert lab.post(f"{at}/inp", {"template": template})["tuple"] is None
    assert lab.post(f"{at}/rd", {"template": template, "timeout": 0.2})["tuple"] is None
    exact = ["from Python", {"float": 2}]
    assert lab.post(f"{at}/inp", {"template": ["from Python", 2]})["tuple"] is None, "2 is not 2.0"
    assert lab.post(f"{at}/inp", {"template": exact})["tuple"] == ["from Python", 2.0]
    assert lab.post(f"{at}/out", {"tuples": [["n", 1], ["n", 2]], "lease": 3600}) == {"tuples": 2}
    assert lab.post(f"{at}/count", {"template": ["n", {"type": "integer"}]}) == {"count": 2}
    lab.site.python("bob", 'import numpy; px.Space("lab/open").out("array", numpy.zeros(3))')
    for word in ("rdp", "inp", "in"):
        status, words = lab.refused("POST", f"{at}/{word}", {"template": ["array", {"type": "any"}]})
        assert (status, "has the type ndarray" in words) == (409, True)
    assert lab.post(f"{at}/count", {"template": ["array", {"type": "any"}]}) == {"count": 1}, "it stays there"


def test_a_client_waits_for_a_tuple_that_comes(lab: Lab) -> None:
    got: list[Any] = []
    waiting = threading.Thread(
        target=lambda: got.append(lab.post("/spaces/open/in", {"template": ["later", {"type": "string"}]}))
    )
    waiting.start()
    lab.post("/spaces/open/out", {"tuple": ["later", "now"]})
    waiting.join(PATIENCE)
    assert got == [{"tuple": ["later", "now"]}]


def test_tuples_that_are_put_are_events(lab: Lab) -> None:
    asked = quote(json.dumps(["seen", {"type": "any"}]))
    watched = lab.events(f"/spaces/open/events?template={asked}")
    found: list[dict[str, Any]] = []
    thread = threading.Thread(target=lambda: found.extend(itertools.islice(watched, 3)))
    thread.start()
    source = 'print(px.Space("lab/open").info().watches)'
    until(lambda: int(lab.site.python("bob", source)) == 1, timeout=PATIENCE, what="the watch")
    lab.post("/spaces/open/out", {"tuples": [["seen", 1], ["other", 1], ["seen", {"bytes": "aGk="}]]})
    lab.site.python("bob", 'import numpy; px.Space("lab/open").out("seen", numpy.zeros(1))')
    thread.join(PATIENCE)
    assert [event["event"] for event in found] == ["tuple"] * 3
    assert [event["data"]["tuple"] for event in found] == [["seen", 1], ["seen", {"bytes": "aGk="}], None]
    assert "has the type ndarray" in found[2]["data"]["detail"]
    watched.close()
    until(lambda: int(lab.site.python("bob", source)) == 0, timeout=PATIENCE, what="the watch to end")
    again = lab.events(f"/spaces/open/events?template={asked}", **{"Last-Event-ID": found[0]["id"]})
    assert next(again)["data"]["tuple"] == ["seen", {"bytes": "aGk="}]
    again.close()
    assert lab.refused("GET", "/spaces/open/events") == (
        400,
        "template: this parameter is missing; write a template as JSON",
    )
    assert lab.refused("GET", "/spaces/open/events?template=[")[0] == 400
    assert lab.refused("GET", f"/spaces/hidden/events?template={asked}")[0] == 403


def test_a_taken_tuple_goes_back_unless_it_is_kept(lab: Lab) -> None:
    def count() -> int:
        return int(lab.post("/spaces/open/count", {"template": ["job", {"type": "integer"}]})["count"])

    def take(lease: float) -> Any:
        return lab.post("/spaces/open/in", {"template": ["job", {"type": "integer"}], "lease": lease})

    lab.post("/spaces/open/out", {"tuple": ["job", 1]})
    first = take(300)
    assert (first["tuple"], count()) == (["job", 1], 0)
    eve = lab.token("eve")
    assert lab.refused("POST", f"/taken/{first['taken']}/keep", token=eve)[0] == 404
    lab.post(f"/taken/{first['taken']}/give-back")
    assert count() == 1
    short = take(0.3)  # its client is lost
    until(lambda: count() == 1, timeout=PATIENCE, what="the tuple to be back")
    assert lab.refused("POST", f"/taken/{short['taken']}/keep")[0] == 404
    last = lab.post("/spaces/open/inp", {"template": ["job", 1], "lease": 300})
    lab.post(f"/taken/{last['taken']}/keep")
    assert count() == 0
    assert lab.refused("POST", f"/taken/{last['taken']}/keep")[0] == 404
    assert lab.post("/spaces/open/inp", {"template": ["job", 1], "lease": 300}) == {"tuple": None}


def test_a_client_that_is_gone_takes_no_tuple(lab: Lab) -> None:
    body = json.dumps({"template": ["gone", {"type": "integer"}], "timeout": 60}).encode()
    connections = [lab.connection() for _ in range(5)]
    for connection in connections:
        connection.request("POST", f"{PREFIX}/spaces/open/in", body, {"Authorization": f"Bearer {lab.bob}"})
    source = 'print(px.Space("lab/open").info().takers)'
    until(lambda: int(lab.site.python("bob", source)) >= 5, timeout=PATIENCE, what="five requests that wait")
    for connection in connections:
        connection.close()
    until(lambda: int(lab.site.python("bob", source)) == 0, timeout=PATIENCE, what="none to wait any more")
    lab.post("/spaces/open/out", {"tuple": ["gone", 1]})
    assert lab.post("/spaces/open/inp", {"template": ["gone", 1]})["tuple"] == ["gone", 1]


def test_a_space_knows_the_user_of_the_token_and_not_the_hub(lab: Lab) -> None:
    """The hub has the account of the space's owner, to whom no rules apply."""
    eve = lab.token("eve")
    status, words = lab.refused("POST", "/spaces/news/out", {"tuple": ["x"]})
    assert (status, "not allowed" in words) == (403, True), words
    assert lab.post("/spaces/news/out", {"tuple": ["x"]}, token=eve) == {"tuples": 1}
    assert lab.post("/spaces/news/rdp", {"template": ["x"]})["tuple"] == ["x"]
    assert lab.refused("POST", "/spaces/news/inp", {"template": ["x"]})[0] == 403
    assert lab.refused("POST", "/spaces/hidden/rdp", {"template": ["x"]})[0] == 403


@pytest.mark.parametrize(
    ("word", "document", "words"),
    [
        ("out", {}, "tuple: write either tuple"),
        ("out", {"tuple": ["x"], "tuples": []}, "tuple: write either tuple"),
        ("out", {"tuple": "x"}, "tuple: this is no list"),
        ("out", {"tuple": ["x", {"type": "integer"}]}, "tuple[1].type: write"),
        ("out", {"tuple": ["x", {"bytes": "?"}]}, "tuple[1].bytes: this is no base64"),
        ("out", {"tuple": ["x", {"bytes": 1}]}, "tuple[1].bytes: this is no base64"),
        ("out", {"tuple": ["x", {}]}, "tuple[1]: an object has one field"),
        ("out", {"tuple": [{"float": "x"}]}, "tuple[0].float: write a number"),
        ("out", {"tuple": [{"float": 10**400}]}, "tuple[0].float: the number is too large"),
        ("out", {"tuple": json.loads("[" * 40 + "]" * 40)}, "more than 32 lists"),
        ("out", {"tuple": ["\ud800"]}, "tuple[0]: the text has half of a surrogate pair"),
        ("out", {"tuple": [{"\ud800": 1}]}, "tuple[0].\\ud800: write"),
        ("out", {"tuple": [[1] * 60_000, [2] * 60_000]}, "the body: there are 1200"),
        ("out", {"tuple": ["x"], "lease": "1"}, "lease: write a number"),
        ("in", {"template": ["x"], "timeout": 61}, "timeout: write a number from 0 to 60"),
        ("in", {"template": ["x"], "lease": -1}, "lease: write a number"),
        ("rd", {"template": ["x"], "lease": 1}, "lease: this field is not known"),
        ("inp", {"template": ["x"], "timeout": 1}, "timeout: this field is not known"),
        ("rdp", {"template": [{"type": "int"}]}, "template[0].type: write one or several of any, boolean"),
        ("rdp", {"template": [{"type": []}]}, "template[0].type: write one or several"),
        ("count", {}, "template: this field is missing"),
    ],
)
def test_a_tuple_that_makes_no_sense_is_refused_with_the_name_of_the_field(
    lab: Lab, word: str, document: Any, words: str
) -> None:
    status, said = lab.refused("POST", f"/spaces/open/{word}", document)
    assert (status, words in said) == (400, True), said


@pytest.mark.parametrize("name", ["x" * 101, quote("é" * 51), "a%2Bb%20c", "%0A", "a%23"])
def test_a_name_that_no_space_has_is_refused(lab: Lab, name: str) -> None:
    status, said = lab.refused("POST", f"/spaces/{name}/count", {"template": []})
    assert (status, "space: a name has letters, digits and" in said) == (400, True), said


def test_a_space_may_have_a_name_of_any_language(lab: Lab) -> None:
    status, said = lab.refused("POST", f"/spaces/{quote('zählung-東京.1')}/out", {"tuple": ["x"], "lease": None})
    assert (status, said) == (403, "not allowed: nothing in the space zählung-東京.1")  # by the rules of the server


def test_a_path_tells_all_methods_that_it_has(lab: Lab) -> None:
    answer = lab.ask("DELETE", "/jobs")
    assert (answer.status, answer.headers["allow"]) == (405, "GET, HEAD, POST")


def test_a_path_with_a_line_end_is_not_found_in_the_words_of_the_interface(lab: Lab) -> None:
    status, said = lab.refused("GET", "/entries/%0Ax")
    assert (status, "openapi.json lists what is here" in said) == (404, True), said


def test_a_body_for_a_space_has_a_bound(lab: Lab) -> None:
    assert lab.refused("POST", "/spaces/open/out", {"tuple": ["x" * (1 << 20)]})[0] == 413


def test_a_space_is_at_a_member_of_the_grid_and_nowhere_else(lab: Lab) -> None:
    lab.site.join("ws7", lab.site.invite())
    lab.site.await_members(ws7=True)
    assert lab.post("/spaces/open/out?machine=ws7", {"tuple": ["here", 7]}) == {"tuples": 1}
    assert lab.post("/spaces/open/rdp", {"template": ["here", 7]})["tuple"] is None
    assert lab.site.python("bob", 'print(px.Space("lab/ws7/open").rdp("here", int))') == "('here', 7)\n"
    for machine, status in [("ws99", 404), ("127.0.0.1:22", 400), ("/etc", 400)]:
        path = f"/spaces/open/rdp?machine={quote(machine)}"
        assert lab.refused("POST", path, {"template": ["x"]})[0] == status
    lab.site.kill("ws7")
    found = lab.ask("POST", "/spaces/open/rdp?machine=ws7", {"template": ["here", 7]})
    assert found.status in (404, 502, 503)


def test_a_tuple_that_is_too_long_stays_where_it_is_and_is_not_in_the_hubs_memory(lab: Lab) -> None:
    lab.site.join("ws8", lab.site.invite())
    lab.site.await_members(ws8=True)
    asked = quote(json.dumps(["long", {"type": "any"}]))
    watched = lab.events(f"/spaces/open/events?machine=ws8&template={asked}")
    found: list[dict[str, Any]] = []
    thread = threading.Thread(target=lambda: found.extend(itertools.islice(watched, 2)))
    thread.start()
    source = 'print(px.Space("lab/ws8/open").info().watches)'
    until(lambda: int(lab.site.python("bob", source)) == 1, timeout=PATIENCE, what="the watch")
    before = lab.most_memory()
    length = 256 << 20
    put = f'space = px.Space("lab/ws8/open"); space.out("long", b"x" * {length}); space.out("long", "short")'
    lab.site.python("bob", put)
    template = {"template": ["long", {"type": "bytes"}]}
    for word, more in [("rdp", {}), ("inp", {}), ("rd", {"timeout": 5}), ("in", {"timeout": 5}), ("in", {"lease": 60})]:
        status, words = lab.refused("POST", f"/spaces/open/{word}?machine=ws8", template | more)
        assert (status, f"and may have {16 << 20} here" in words) == (409, True), words
        count = functools.partial(lab.post, "/spaces/open/count?machine=ws8", template)
        until(lambda count=count: count()["count"] == 1, timeout=PATIENCE, what="the tuple to be there")  # type: ignore[misc]
    thread.join(PATIENCE)
    watched.close()
    assert [event["data"]["tuple"] for event in found] == [None, ["long", "short"]]
    assert "more than 16777216 bytes" in found[0]["data"]["detail"]
    assert lab.most_memory() - before < length / 4
    lab.site.kill("ws8")


def test_files_are_copied_from_one_machine_to_another(lab: Lab) -> None:
    source, target = lab.shared / "source", lab.shared / "target"
    for folder in (source / "inner", target):
        folder.mkdir(parents=True)
    (source / "inner" / "numbers").write_text("1\n2\n")
    (source / "word").write_text("word")
    lab.site.join("from1", lab.site.invite(), "--export", f"{source}:ro")
    lab.site.join("to1", lab.site.invite(), "--export", f"{target}:rw")
    lab.site.await_members(from1=True, to1=True)

    def ended(copy: dict[str, Any]) -> dict[str, Any]:
        *_, last = lab.events(f"/copies/{copy['id']}/events")
        assert last["event"] == "copy"
        return dict(last["data"])

    ends = {"from": f"from1:{source}", "to": f"to1:{target}/copied"}
    made = lab.ask("POST", "/copies", ends)
    assert made.status == 201
    copy = made.json()
    assert made.headers["location"] == f"{PREFIX}/copies/{copy['id']}"
    done = ended(copy)
    assert (done["state"], done["why"], done["files"], done["failed"], done["bytes"]) == ("COMPLETE", "", 2, 0, 8), done
    assert (target / "copied" / "inner" / "numbers").read_text() == "1\n2\n"
    assert lab.get(f"/copies/{copy['id']}") == done
    assert lab.post(f"/copies/{copy['id']}/cancel") == done, "it has ended"
    again = ended(lab.post("/copies", ends))
    assert (done["kept"], again["state"], again["kept"]) == (0, "COMPLETE", 2), "all is there"
    assert [it["id"] for it in lab.get("/copies")["copies"]][-1] == copy["id"]
    eve = lab.token("eve")
    assert lab.get("/copies", token=eve) == {"copies": []}
    for method, path in [("GET", ""), ("POST", "/cancel"), ("GET", "/events")]:
        assert lab.refused(method, f"/copies/{copy['id']}{path}", token=eve)[0] == 404
    lacking = ended(lab.post("/copies", ends | {"from": f"from1:{source}/lacking"}))
    assert (lacking["state"], "lacking" in lacking["why"]) == ("FAILED", True), lacking
    outside = ended(lab.post("/copies", ends | {"to": "to1:/etc/phalanx-test"}))
    assert outside["state"] == "FAILED", outside
    assert not Path("/etc/phalanx-test").exists()
    with (source / "large").open("wb") as file:
        file.truncate(8 << 30)
    large = lab.post("/copies", {"from": f"from1:{source}/large", "to": f"to1:{target}/large"})
    until(lambda: lab.get(f"/copies/{large['id']}")["bytes"] > 0, timeout=PATIENCE, what="the first bytes")
    lab.post(f"/copies/{large['id']}/cancel")
    canceled = ended(large)
    assert (canceled["state"], canceled["why"]) == ("CANCELED", "bob has canceled it")
    assert not (target / "large").exists()
    for machine in ("from1", "to1"):
        lab.site.kill(machine)


@pytest.mark.parametrize(
    ("document", "status", "words"),
    [
        ({"to": "ws7:/b"}, 400, "from: this field is missing"),
        ({"from": "ws7:/a", "to": "/b"}, 400, "to: '/b' is no MACHINE:/path"),
        ({"from": "ws7:a", "to": "ws7:/b"}, 400, "from: 'ws7:a' is no MACHINE:/path"),
        ({"from": "127.0.0.1:22:/a", "to": "ws7:/b"}, 400, "is no MACHINE:/path"),
        ({"from": "nobody:/a", "to": "ws7:/b"}, 404, "from: "),
        ({"from": "ws7:/a", "to": "ws7:/b", "level": "clear"}, 400, "level: this field is not known"),
        ({"from": "ws7:/a\0", "to": "ws7:/b"}, 400, "from: the text has a zero byte"),
    ],
)
def test_a_copy_that_makes_no_sense_is_refused(lab: Lab, document: Any, status: int, words: str) -> None:
    got, said = lab.refused("POST", "/copies", document)
    assert (got, words in said) == (status, True), said


def test_a_program_in_java_uses_the_grid(lab: Lab) -> None:
    require("javac")
    command = [
        "java",
        f"{CLIENTS}/Grid.java",
        f"https://127.0.0.1:{lab.port}",
        lab.authority,
        f"{lab.shared}/data/java",
    ]
    env = {**os.environ, "PHALANX_TOKEN": lab.bob}
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "the sum of the squares from 1 to 4 is 30" in done.stdout, done.stdout
    assert (lab.shared / "data" / "java" / "squares.txt").read_text() == "1\n4\n9\n16\n"


def test_a_program_in_c_uses_the_grid(lab: Lab, tmp_path: Path) -> None:
    """Compiled with all warnings as errors, and run under AddressSanitizer, which finds leaks too."""
    require("curl-config", "cjson/cJSON.h")
    program, checked = tmp_path / "squares", ["-fsanitize=address,undefined", "-fno-sanitize-recover"]
    strict = ["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]
    sources = [f"{CLIENTS}/{name}.c" for name in ("squares", "phalanx")]
    subprocess.run(["cc", *strict, *checked, "-o", program, *sources, "-lcurl", "-lcjson"], check=True, timeout=300)
    command: list[str | Path] = [program, f"https://127.0.0.1:{lab.port}", lab.authority, f"{lab.shared}/data/in c"]

    def run(token: str) -> subprocess.CompletedProcess[str]:
        env = {**os.environ, "PHALANX_TOKEN": token}
        return subprocess.run(command, env=env, capture_output=True, text=True, timeout=300)

    done = run(lab.bob)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "this is the grid as bob sees it" in done.stdout
    assert re.search(r"job \d+ is COMPLETE\n", done.stdout), done.stdout
    assert "its first process has written: squared\n" in done.stdout
    assert "the sum of the squares from 1 to 4 is 30" in done.stdout, done.stdout
    assert (lab.shared / "data" / "in c" / "squares.txt").read_text() == "1\n4\n9\n16\n"
    refused = run("phalanx-bearer-x")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr.startswith("status 401: show a token of this grid"), refused.stderr


def test_a_user_who_was_expelled_is_not_served(lab: Lab) -> None:
    lab.site.say("carl", "join", "--name", "carl", lab.site.invite("--role", "user"))
    carl = lab.token("carl")
    lab.post("/spaces/open/out", {"tuple": ["carl"]}, token=carl)
    template = quote(json.dumps(["never"]))
    watch = lab.events(f"/spaces/open/events?template={template}", Authorization=f"Bearer {carl}")
    seen: list[dict[str, Any]] = []
    watching = threading.Thread(target=lambda: seen.extend(watch))
    watching.start()
    waited: list[Answer] = []
    ask = functools.partial(lab.ask, "POST", "/spaces/open/in", {"template": ["never"], "timeout": 60}, token=carl)
    waiting = threading.Thread(target=lambda: waited.append(ask()))
    waiting.start()
    source = 'print(px.Space("lab/open").info().takers)'
    until(lambda: int(lab.site.python("bob", source)) == 1, timeout=PATIENCE, what="the request to wait")
    lab.site.say("hub", "expel", "--yes", "carl")
    began = time.monotonic()
    waiting.join(PATIENCE)
    assert [it.status for it in waited] == [401], waited
    assert time.monotonic() - began < 20, "it is not served until its 60 s are over"
    until(lambda: int(lab.site.python("bob", source)) == 0, timeout=PATIENCE, what="none to wait any more")
    for path in ("/spaces/open/inp", "/spaces/open/in"):
        assert lab.refused("POST", path, {"template": ["carl"]}, token=carl)[0] == 401
    assert lab.refused("GET", "/jobs", token=carl)[0] == 401
    watching.join(PATIENCE)
    assert [it["event"] for it in seen] == ["error"], "the watch ends with the membership"


def test_the_hub_ends_while_clients_wait(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    with site(tmp_path) as found:
        lab = Lab(found, shared)
        lab.post("/spaces/open/out", {"tuple": ["left", 1]})
        lab.post("/spaces/open/in", {"template": ["left", 1], "lease": 300})
        waiting = lab.connection()
        body = json.dumps({"template": ["never"], "timeout": 60}).encode()
        waiting.request("POST", f"{PREFIX}/spaces/open/in", body, {"Authorization": f"Bearer {lab.bob}"})
        source = 'print(px.Space("lab/open").info().takers)'
        until(lambda: int(found.python("bob", source)) == 1, timeout=PATIENCE, what="the request to wait")
        process = found.running["hub"]
        process.signal(signal.SIGINT)
        assert process.wait(timeout=PATIENCE) == 0, process.report()
        waiting.close()
