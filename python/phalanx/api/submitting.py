"""Reads what a client submits, and brings its inputs to the hub."""

from __future__ import annotations

import base64
import binascii
import hashlib
import secrets
import time
from collections.abc import Callable
from typing import Any

from phalanx.api.fields import Fields, encodable, items, text, whole
from phalanx.api.files import Served
from phalanx.api.refusals import Refused
from phalanx.api.rows import MOST_INDEX, MOST_JOB
from phalanx.tes.at_hub import AtHub
from phalanx.tes.files import Opened

#: The bounds of a hub: phalanx-core/src/jobs/check.rs.
_MOST_COUNT, _MOST_PLACES, _MOST_RETRIES, _HIGHEST = 100_000, 4096, 100, 1000
_YEAR = 365 * 24 * 3600
_MOST_MEMORY, _MOST_CORES = 1 << 50, 1 << 20


class Submitting:
    """What makes jobs of documents.

    Parameters
    ----------
    hub
        What keeps their inputs.
    served
        The files that they may name.
    """

    def __init__(self, hub: AtHub, served: Served) -> None:
        self._hub, self._served = hub, served

    def spec(self, user: str, value: Any) -> dict[str, Any]:
        """The job that a document describes. Its inputs are brought to the hub's contents.

        Parameters
        ----------
        user
            Whose it is.
        value
            The document.

        Returns
        -------
        dict
            `Spec` of phalanx-core/src/wire/jobs.rs.

        Raises
        ------
        Refused
            It makes no sense (400), a file is not there (404), or there is no room (507).
        """
        fields = Fields(value)
        key = fields.text("key")
        command = fields.needed("command", lambda value, where: items(value, where, text))
        if not command or not command[0]:
            raise Refused(400, "command: a command has at least one word")
        first = fields.whole("first", 0, least=0, most=MOST_INDEX) or 0
        count = fields.whole("count", 1, least=1, most=_MOST_COUNT) or 1
        deadline = fields.seconds("deadline", most=_YEAR)
        variables: list[tuple[str, str]] = []
        spec: dict[str, Any] = {
            "key": [*(hashlib.sha256(key.encode()).digest()[:16] if key else secrets.token_bytes(16))],
            "name": fields.text("name", ""),
            "commands": [
                {
                    "words": command,
                    "environment": fields.read("environment", _pairs, variables),
                    "folder": fields.text("folder"),
                    "stdin": fields.text("stdin"),
                }
            ],
            "first": first,
            "last": first + count - 1,
            "outputs": [it.rstrip("/") for it in fields.each("outputs", text)],
            "needs": fields.read("needs", _needs, _needs({}, "needs")),
            "after": fields.each("after", lambda value, where: whole(value, where, 1, MOST_JOB)),
            "retries": fields.whole("retries", 0, least=0, most=_MOST_RETRIES),
            "priority": fields.whole("priority", 0, least=-_HIGHEST, most=_HIGHEST),
            "places": fields.whole("places", 1, least=1, most=_MOST_PLACES),
            "time_limit": fields.whole("time_limit", least=1, most=_YEAR),
            "deadline": None if deadline is None else int((time.time() + deadline) * 1000),
        }
        given = fields.each("inputs", self._input)
        fields.end()
        spec["inputs"] = [
            {"name": name, "content": bring(user), "executable": executable} for name, executable, bring in given
        ]
        return spec

    def _input(self, value: Any, where: str) -> tuple[str, bool, Callable[[str], Any]]:
        """An input: its name, whether it may be executed, and what brings its bytes to the hub's contents."""
        fields = Fields(value, where)
        name, executable = fields.needed("name", text), fields.truth("executable")
        ways = [way for way in ("text", "base64", "file") if fields.has(way)]
        if len(ways) != 1:
            raise Refused(400, f"{where}: an input has one of the fields text, base64 and file")
        if ways == ["file"]:
            path = fields.needed("file", text)
            fields.end()
            opened = self._served.input(path, f"{where}.file")
            return name, executable, lambda user: self._kept(user, opened, where)
        given = fields.needed("text", _content) if ways == ["text"] else fields.needed("base64", _base64)
        fields.end()
        return name, executable, lambda user: self._kept(user, given, where)

    def _kept(self, user: str, given: bytes | Opened, where: str) -> Any:
        try:
            return self._hub.kept(user, given)
        except FileNotFoundError:
            raise Refused(404, f"{where}.file: the file is gone") from None
        except OSError as error:
            raise Refused(507, f"{where}: the hub cannot keep it: {error}") from None


def differs(spec: dict[str, Any], before: dict[str, Any]) -> str | None:
    """Tells in what a job differs from the one that was submitted with the same key before.

    Parameters
    ----------
    spec
        The job.
    before
        The other one, as the hub keeps it.

    Returns
    -------
    str or None
        A field; None: it is the same job. A deadline counts from the request on, so only that there is one is compared.

    Examples
    --------
    >>> from phalanx.api.submitting import differs
    >>> differs({"name": "a", "deadline": 5}, {"name": "b", "deadline": 6})
    'name'
    """
    asked = {**spec, "deadline": spec["deadline"] is None}
    kept = {**before, "deadline": before["deadline"] is None}
    return next((field for field in asked if not _is_same(asked[field], kept.get(field))), None)


def _is_same(asked: Any, kept: Any) -> bool:
    """Whether what is asked is what is kept, which may have more fields."""
    if isinstance(asked, dict):
        return isinstance(kept, dict) and all(_is_same(value, kept.get(name)) for name, value in asked.items())
    if isinstance(asked, (list, tuple)):
        return isinstance(kept, list) and len(asked) == len(kept) and all(map(_is_same, asked, kept))
    return bool(asked == kept)


def _pairs(value: Any, where: str) -> list[tuple[str, str]]:
    if not isinstance(value, dict):
        raise Refused(400, f"{where}: this is no object")
    return [(text(name, where), text(value[name], f"{where}.{name:.100}")) for name in value]


def _needs(value: Any, where: str) -> dict[str, Any]:
    fields = Fields(value, where)
    needs = {
        "cores": fields.whole("cores", 0, least=0, most=_MOST_CORES),
        "memory": fields.whole("memory", 0, least=0, most=_MOST_MEMORY),
        "gpus": fields.whole("gpus", 0, least=0, most=_MOST_CORES),
        "software": fields.each("software", text),
        "labels": fields.each("labels", text),
    }
    fields.end()
    return needs


def _content(value: Any, where: str) -> bytes:
    if not isinstance(value, str):
        raise Refused(400, f"{where}: this is no text")
    return encodable(value, where).encode()


def _base64(value: Any, where: str) -> bytes:
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, TypeError, ValueError):
        raise Refused(400, f"{where}: this is no base64") from None
