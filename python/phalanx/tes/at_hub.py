"""The queue of a hub's jobs, for the service. It acts for each user of the grid."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from phalanx._jobs import STATES
from phalanx.errors import ContractError, IdentityError
from phalanx.tes.document import DocumentError
from phalanx.tes.files import Opened
from phalanx.tes.jobs import Job, Progress

#: Bytes per read of a file.
_PIECE = 1 << 20
#: Longest name of a job, in characters, because a character has at most 4 bytes and a name at most 200.
_LONGEST_NAME = 50
#: The only index of a job that is not an array.
_INDEX = 0


class AtHub:
    """The queue of a hub.

    Parameters
    ----------
    native
        The hub, which runs in this process.
    """

    def __init__(self, native: Any) -> None:
        self._native = native

    def user_of(self, token: str) -> str | None:
        """The user of a token. None: the token is invalid.

        Parameters
        ----------
        token
            The token that a client has presented.

        Returns
        -------
        str or None
        """
        try:
            return str(self._native.bearer(token))
        except IdentityError:
            return None

    def submit(self, user: str, name: str, key: bytes, job: Job, inputs: Iterable[tuple[str, Any]]) -> str:
        """Puts a job into the queue."""
        spec = {
            "key": list(key),
            "name": name[:_LONGEST_NAME],
            "commands": [{"words": job.command}],
            "first": _INDEX,
            "last": _INDEX,
            "outputs": job.outputs,
            "shown": [*job.shown.items()],
            "needs": {"cores": job.cores, "memory": job.memory, "software": job.software, "labels": job.label},
        }
        spec["inputs"] = [
            {"name": path, "content": self._kept(user, given), "executable": False} for path, given in inputs
        ]
        try:
            return str(self._ask(user, "Submit", spec=spec)["job"])
        except ContractError as error:  # a retry would fail too
            raise DocumentError(str(error)) from error

    def _kept(self, user: str, given: bytes | Opened) -> Any:
        """Stores an input in the contents of jobs."""
        if isinstance(given, bytes):
            return json.loads(self._native.keep_bytes(user, given))
        with given as descriptor:
            return json.loads(self._native.keep_file(user, descriptor))

    def progress(self, user: str, job: str) -> Progress:
        """The progress of a job."""
        row = self._ask(user, "Show", job=int(job))["row"]
        processes = self._ask(user, "Processes", job=int(job), after=None)["rows"]
        process: dict[str, Any] = processes[0] if processes else {"outcome": None, "executor": None, "why": ""}
        outcome: dict[str, Any] = process["outcome"] or {"began": 0, "ended": 0, "outputs": []}
        return Progress(
            STATES[row["state"]],
            process["why"] or row["why"],
            process["executor"] or "",
            outcome["began"] / 1000,
            outcome["ended"] / 1000,
            {output["name"]: _bytes_of(output["content"]) for output in outcome["outputs"]},
        )

    def cancel(self, user: str, job: str) -> None:
        """Cancels a job, unless it has ended."""
        self._ask(user, "Cancel", job=int(job), index=None)

    def read(self, user: str, job: str, name: str) -> Iterator[bytes]:
        """The bytes of an output, in pieces."""
        processes = self._ask(user, "Processes", job=int(job), after=None)["rows"]
        outputs = {output["name"]: output["content"] for output in processes[0]["outcome"]["outputs"]}
        content, start = json.dumps(outputs[name]), 0
        while piece := self._native.read_for(user, content, start, _PIECE):
            yield piece
            start += len(piece)

    def _ask(self, user: str, what: str, **request: Any) -> Any:
        return next(iter(json.loads(self._native.ask_for(user, json.dumps({what: request}))).values()))


def _bytes_of(content: dict[str, Any]) -> int:
    return len(content["Here"]) if "Here" in content else int(content["Kept"]["bytes"])
