"""Documents of TES tasks: what is taken, and what is refused with words."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from phalanx.tes.document import LONGEST, MOST, DocumentError, read_task
from phalanx.tes.files import Folders, Opened, url_of
from phalanx.tes.jobs import job_of

EXECUTOR = {"image": "debian", "command": ["true"]}


def task(**fields: Any) -> dict[str, Any]:
    return read_task(json.dumps({"executors": [EXECUTOR], **fields}).encode())


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"executors": []}, "executors: a task has at least one"),
        ({"executors": {}}, "executors: a task has at least one"),
        ({"executors": 1}, "executors: this is no array"),
        ({"executors": [EXECUTOR] * (MOST + 1)}, f"executors: there are {MOST + 1}, and may be {MOST}"),
        ({"executors": [{"image": "debian"}]}, "executors[0].command: a command has at least one word"),
        ({"executors": [{"command": ["a\0"]}]}, "executors[0].command[0]: the text has a zero byte"),
        ({"executors": [{"command": [1]}]}, "executors[0].command[0]: this is no text"),
        ({"executors": [{**EXECUTOR, "workdir": "tmp"}]}, "executors[0].workdir: 'tmp' is no absolute path"),
        ({"executors": [{**EXECUTOR, "env": {"A": 1}}]}, "executors[0].env.A: this is no text"),
        ({"inputs": [{"path": "/a"}]}, "inputs[0]: an input has a url or a content"),
        ({"inputs": [{"path": "/a/../b", "url": "file:///x"}]}, "inputs[0].path: '/a/../b' is no absolute path"),
        ({"inputs": [{"path": "/", "url": "file:///x"}]}, "inputs[0].path: the root cannot be a task's own"),
        ({"inputs": [{"path": "/a", "content": "x", "type": "DIRECTORY"}]}, "inputs[0]: a directory has no content"),
        ({"inputs": [{"path": "/a", "content": "x", "type": "LINK"}]}, "inputs[0].type: write FILE or DIRECTORY"),
        ({"outputs": [{"path": "/a"}]}, "outputs[0].url: this is no text"),
        ({"outputs": [{"path": "/a/*", "url": "file:///x"}]}, "outputs[0].path_prefix: /a/* is a pattern, and needs"),
        (
            {"outputs": [{"path": "/a/*", "url": "file:///x", "path_prefix": "/b"}]},
            "outputs[0].path_prefix: /a/* does not begin with /b",
        ),
        ({"resources": {"cpu_cores": -1}}, "resources.cpu_cores: this is no amount"),
        ({"resources": {"ram_gb": True}}, "resources.ram_gb: this is no amount"),
        ({"volumes": ["vol"]}, "volumes[0]: 'vol' is no absolute path"),
        ({"tags": []}, ""),
        ({"tags": ["a"]}, "tags: this is no object"),
        ({"name": "x" * 40_000}, "name: the text has 40000 characters"),
    ],
)
def test_what_is_wrong_is_said(fields: dict[str, Any], words: str) -> None:
    if not words:
        task(**fields)  # an empty array stands for nothing, as some clients write it
        return
    with pytest.raises(DocumentError) as raised:
        task(**fields)
    assert words in str(raised.value)


@pytest.mark.parametrize(
    "text", [b"{", b"[]", b"1", b"\xff", b'{"executors":NaN}', b"[" * 100_000, b"x" * (LONGEST + 1)]
)
def test_what_is_no_task_is_refused(text: bytes) -> None:
    with pytest.raises(DocumentError):
        read_task(text)


def test_what_the_server_fills_in_and_what_is_unknown_is_left_out() -> None:
    read = task(id="mine", state="COMPLETE", logs=[1], creation_time="now", unknown={"a": 1}, name="n", description="d")
    assert read == {
        "name": "n",
        "description": "d",
        "inputs": [],
        "outputs": [],
        "resources": {"zones": [], "backend_parameters": {}},
        "executors": [{**EXECUTOR, "env": {}}],
        "volumes": [],
        "tags": {},
    }


def test_a_job_shows_the_folders_that_the_task_names_and_nothing_of_the_machines() -> None:
    job = job_of(
        task(
            inputs=[{"path": "/data/in/a.txt", "content": "a"}, {"path": "/home/ada/x", "content": "b"}],
            outputs=[
                {"path": "/var/spool/cwl/*.txt", "url": "file:///x", "path_prefix": "/var/spool/cwl"},
                {"path": "/results", "url": "file:///y", "type": "DIRECTORY"},
            ],
            volumes=["/vol"],
            executors=[{**EXECUTOR, "workdir": "/home/ada/work", "stdout": "/tmp/logs/out"}],
            resources={"cpu_cores": 2, "ram_gb": 1.5, "backend_parameters": {"Software": "git, gcc", "label": "lab-b"}},
        )
    )
    assert job.shown == {
        path: f"root{path}" for path in ["/data", "/home/ada", "/results", "/tmp", "/var/spool/cwl", "/vol"]
    }
    assert job.outputs == ["log.json", "root/var/spool/cwl/*.txt", "root/results/**"]
    assert (job.cores, job.memory, job.software, job.label) == (2, 1_500_000_000, ["git", "gcc"], ["lab-b"])


def test_only_served_folders_are_touched(tmp_path: Path) -> None:
    served, other = tmp_path / "served", tmp_path / "other"
    for folder in (served, other):
        folder.mkdir()
        (folder / "file").write_text(folder.name)
    (served / "link").symlink_to(other / "file")
    (served / "away").symlink_to(other)
    folders = Folders([f"{served}:ro"])
    read = {"path": "/tmp/a", "type": "FILE"}
    ((name, given),) = folders.inputs({"inputs": [{**read, "url": f"file://{served}/file"}]})
    assert name == "root/tmp/a"
    assert isinstance(given, Opened)
    with given as descriptor:
        assert os.read(descriptor, 99) == b"served"
    # Between the check and the use, somebody puts a link in place of the file, or of a folder above it.
    (served / "file").rename(served / "moved")
    (served / "file").symlink_to(other / "file")
    with pytest.raises(OSError, match="Too many levels"), given:
        pass
    (served / "file").unlink()
    (served / "moved").rename(served / "file")
    for url in [
        f"file://{other}/file",
        f"file://{served}/link",
        f"file://{served}/../other/file",
        f"file://{served}/%2e%2e/other/file",
        f"file://elsewhere{served}/file",
        f"file://{served}",
        "s3://bucket/file",
        "relative",
    ]:
        with pytest.raises(DocumentError):
            folders.check({"inputs": [{**read, "url": url}], "outputs": []})
    output = {"path": "/tmp/b", "type": "FILE", "url": f"file://{served}/made"}
    with pytest.raises(DocumentError, match="for reading only"):
        folders.check({"inputs": [], "outputs": [output]})
    folders = Folders([f"{served}:rw"])
    assert folders.write(output, "/tmp/b", [b"1", b"2"]) == output["url"]
    assert (served / "made").read_text() == "12"
    with pytest.raises(DocumentError):
        folders.write({**output, "url": f"file://{served}/away/made"}, "/tmp/b", [b"1"])
    (served / "inner").mkdir()
    with pytest.raises(DocumentError, match="is a folder"):
        folders.write({**output, "url": f"file://{served}/inner/"}, "/tmp/b", [b"1"])
    # A whole folder goes into one that is there.
    whole = {"path": "/out", "type": "DIRECTORY", "url": f"file://{served}/inner"}
    folders.check({"inputs": [], "outputs": [whole]})
    assert folders.write(whole, "/out/made", [b"3"]) == f"file://{served}/inner/made"
    assert (served / "inner" / "made").read_text() == "3"
    (served / "inner" / "made").unlink()
    (served / "inner").rmdir()
    assert sorted(it.name for it in other.iterdir()) == ["file"]
    assert sorted(it.name for it in served.iterdir()) == ["away", "file", "link", "made"]


def test_the_url_of_each_file_of_an_output() -> None:
    whole = {"path": "/out", "type": "DIRECTORY", "url": "file:///x/y"}
    assert url_of(whole, "/out/a/b") == "file:///x/y/a/b"
    some = {"path": "/out/*.txt", "path_prefix": "/out", "type": "FILE", "url": "file:///x/"}
    assert url_of(some, "/out/a.txt") == "file:///x/a.txt"
    # What is no part of a path in a URL is written so that it is one.
    assert url_of(whole, "/out/a#1?b%25") == "file:///x/y/a%231%3Fb%2525"
    assert url_of({"path": "/out/a", "type": "FILE", "url": "file:///x/z"}, "/out/a") == "file:///x/z"
