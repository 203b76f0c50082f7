"""Parses and checks the document of a task (TES 1.1), as clients send it.

In this package *task* and *executor* are the words of TES: a task has inputs, outputs, and executors, which are
commands that run one after the other. A job runs a task on machines of the grid.

Source: GA4GH, Task Execution Service 1.1, https://ga4gh.github.io/task-execution-schemas/docs/
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Callable
from typing import Any, TypeVar

from phalanx.errors import PhalanxError

T = TypeVar("T")

#: Most bytes of a document.
LONGEST = 4 << 20
#: Most inputs, outputs, executors, volumes, tags, or variables of an executor; most arguments of a command.
MOST = 1000
#: Longest text other than a content, in characters.
LONGEST_TEXT = 32_768
#: The largest amount of a resource.
MOST_AMOUNT = 1_000_000


class DocumentError(PhalanxError):
    """A document is not a valid task, or names something that does not exist."""


def read_task(text: bytes) -> dict[str, Any]:
    """Reads and checks the document of a task.

    Parameters
    ----------
    text
        The JSON document that a client has sent.

    Returns
    -------
    dict
        The task. It has only fields of TES, without those that the server fills in. Missing lists become empty lists.

    Raises
    ------
    DocumentError
        The document is not a valid task. The error names the field.
    """
    if len(text) > LONGEST:
        raise DocumentError(f"the task has {len(text)} bytes, and may have {LONGEST}")
    try:
        document = json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise DocumentError(f"the body is no JSON: {error}") from None
    return _task(_an_object(document, "the task"))


def _no_number(word: str) -> Any:
    raise ValueError(f"{word} is no number of JSON")


def _task(document: dict[str, Any]) -> dict[str, Any]:
    task: dict[str, Any] = {
        "name": _optional(document, "name", _text),
        "description": _optional(document, "description", _text),
        "inputs": _each(document, "inputs", _input),
        "outputs": _each(document, "outputs", _output),
        "resources": _resources(_an_object(document.get("resources") or {}, "resources")),
        "executors": _each(document, "executors", _executor),
        "volumes": _each(document, "volumes", _path),
        "tags": _texts(document, "tags"),
    }
    if not task["executors"]:
        raise DocumentError("executors: a task has at least one")
    return _without_nothing(task)


def _input(value: Any, where: str) -> dict[str, Any]:
    given = _an_object(value, where)
    content = _optional(given, "content", _content, where)
    url = _optional(given, "url", _text, where)
    if not content and not url:
        raise DocumentError(f"{where}: an input has a url or a content")
    result = {
        "name": _optional(given, "name", _text, where),
        "description": _optional(given, "description", _text, where),
        "url": None if content else url,
        "path": _path(given.get("path"), f"{where}.path"),
        "type": _type(given, where),
        "content": content or None,
        "streamable": _optional(given, "streamable", _truth, where),
    }
    if content and result["type"] == "DIRECTORY":
        raise DocumentError(f"{where}: a directory has no content")
    return _without_nothing(result)


def _output(value: Any, where: str) -> dict[str, Any]:
    given = _an_object(value, where)
    path = _path(given.get("path"), f"{where}.path")
    prefix = _optional(given, "path_prefix", _path, where)
    if is_pattern(path):
        if prefix is None:
            raise DocumentError(f"{where}.path_prefix: {path} is a pattern, and needs one")
        if is_pattern(prefix) or posixpath.commonpath([path, prefix]) != prefix:
            raise DocumentError(f"{where}.path_prefix: {path} does not begin with {prefix}")
    return _without_nothing(
        {
            "name": _optional(given, "name", _text, where),
            "description": _optional(given, "description", _text, where),
            "url": _text(given.get("url"), f"{where}.url"),
            "path": path,
            "path_prefix": prefix,
            "type": _type(given, where),
        }
    )


def _executor(value: Any, where: str) -> dict[str, Any]:
    given = _an_object(value, where)
    command = _each(given, "command", _text, where)
    if not command or not command[0]:
        raise DocumentError(f"{where}.command: a command has at least one word")
    return _without_nothing(
        {
            "image": _optional(given, "image", _text, where) or "",
            "command": command,
            "workdir": _optional(given, "workdir", _path, where),
            "stdin": _optional(given, "stdin", _path, where),
            "stdout": _optional(given, "stdout", _path, where),
            "stderr": _optional(given, "stderr", _path, where),
            "env": _texts(given, "env", where),
            "ignore_error": _optional(given, "ignore_error", _truth, where),
        }
    )


def _resources(given: dict[str, Any]) -> dict[str, Any]:
    return _without_nothing(
        {
            "cpu_cores": _optional(given, "cpu_cores", _amount, "resources"),
            "ram_gb": _optional(given, "ram_gb", _amount, "resources"),
            "disk_gb": _optional(given, "disk_gb", _amount, "resources"),
            "preemptible": _optional(given, "preemptible", _truth, "resources"),
            "zones": _each(given, "zones", _text, "resources"),
            "backend_parameters": _texts(given, "backend_parameters", "resources"),
            "backend_parameters_strict": _optional(given, "backend_parameters_strict", _truth, "resources"),
        }
    )


def is_pattern(path: str) -> bool:
    """Whether a path has POSIX wildcards (a glob).

    Parameters
    ----------
    path
        A path of an output.

    Returns
    -------
    bool
    """
    return any(mark in path for mark in "*?[")


def _an_object(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise DocumentError(f"{where}: this is no object")
    return value


def _each(given: dict[str, Any], field: str, check: Callable[[Any, str], T], where: str = "") -> list[T]:
    values, name = given.get(field) or [], f"{where}.{field}".lstrip(".")
    if not isinstance(values, list):
        raise DocumentError(f"{name}: this is no array")
    _check_count(len(values), name)
    return [check(value, f"{name}[{number}]") for number, value in enumerate(values)]


def _texts(given: dict[str, Any], field: str, where: str = "") -> dict[str, str]:
    name = f"{where}.{field}".lstrip(".")
    texts = _an_object(given.get(field) or {}, name)
    _check_count(len(texts), name)
    return {_text(key, name): _text(value, f"{name}.{key}") for key, value in texts.items()}


def _check_count(count: int, name: str) -> None:
    if count > MOST:
        raise DocumentError(f"{name}: there are {count}, and may be {MOST}")


def _optional(given: dict[str, Any], field: str, check: Callable[[Any, str], T], where: str = "") -> T | None:
    value = given.get(field)
    return None if value is None else check(value, f"{where}.{field}".lstrip("."))


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise DocumentError(f"{where}: this is no text")
    if len(value) > LONGEST_TEXT:
        raise DocumentError(f"{where}: the text has {len(value)} characters, and may have {LONGEST_TEXT}")
    if "\0" in value:
        raise DocumentError(f"{where}: the text has a zero byte")
    return _encodable(value, where)


def _content(value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise DocumentError(f"{where}: this is no text")
    return _encodable(value, where)


def _encodable(text: str, where: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise DocumentError(f"{where}: the text has half of a surrogate pair, which is no character") from None
    return text


def _path(value: Any, where: str) -> str:
    path = _text(value, where)
    if not path.startswith("/") or ".." in path.split("/"):
        raise DocumentError(f"{where}: {path!r} is no absolute path without '..'")
    path = posixpath.normpath("/" + path.lstrip("/"))
    if path == "/":
        raise DocumentError(f"{where}: the root cannot be a task's own")
    return path


def _type(given: dict[str, Any], where: str) -> str:
    word = _optional(given, "type", _text, where) or "FILE"
    if word not in ("FILE", "DIRECTORY"):
        raise DocumentError(f"{where}.type: write FILE or DIRECTORY, not {word!r}")
    return word


def _truth(value: Any, where: str) -> bool:
    if not isinstance(value, bool):
        raise DocumentError(f"{where}: write true or false")
    return value


def _amount(value: Any, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= MOST_AMOUNT:
        raise DocumentError(f"{where}: this is no amount")
    return value


def _without_nothing(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}
