"""The queue of a hub's jobs, for the service. It acts for each user of the grid."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

from phalanx._jobs import STATES
from phalanx.errors import ContractError, IdentityError, RecruitError
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

    def is_member(self, user: str) -> bool:
        """Whether a user is a member of the grid.

        Parameters
        ----------
        user
            The user.

        Returns
        -------
        bool
        """
        with suppress(RecruitError):  # another hub leads, so that this one does not know
            try:
                self.ask(user, "List", before=0, all=False)
            except IdentityError:
                return False
        return True

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
            {"name": path, "content": self.kept(user, given), "executable": False} for path, given in inputs
        ]
        try:
            return str(self.ask(user, "Submit", spec=spec)["job"])
        except ContractError as error:  # a retry would fail too
            raise DocumentError(str(error)) from error

    def kept(self, user: str, given: bytes | Opened) -> Any:
        """Stores an input in the contents of jobs.

        Parameters
        ----------
        user
            The user of the input.
        given
            The bytes, or the file.

        Returns
        -------
        dict
            The content, as the wire has it.
        """
        if isinstance(given, bytes):
            return json.loads(self._native.keep_bytes(user, given))
        with given as descriptor:
            return json.loads(self._native.keep_file(user, descriptor))

    def progress(self, user: str, job: str) -> Progress:
        """The progress of a job."""
        row = self.ask(user, "Show", job=int(job))["row"]
        processes = self.ask(user, "Processes", job=int(job), after=None)["rows"]
        process: dict[str, Any] = processes[0] if processes else {"outcome": None, "executor": None, "why": ""}
        outcome: dict[str, Any] = process["outcome"] or {"began": 0, "ended": 0, "outputs": []}
        return Progress(
            STATES[row["state"]],
            process["why"] or row["why"],
            process["executor"] or "",
            outcome["began"] / 1000,
            outcome["ended"] / 1000,
            {output["name"]: bytes_of(output["content"]) for output in outcome["outputs"]},
        )

    def cancel(self, user: str, job: str) -> None:
        """Cancels a job, unless it has ended."""
        self.ask(user, "Cancel", job=int(job), index=None)

    def read(self, user: str, job: str, name: str) -> Iterator[bytes]:
        """The bytes of an output, in pieces."""
        processes = self.ask(user, "Processes", job=int(job), after=None)["rows"]
        outputs = {output["name"]: output["content"] for output in processes[0]["outcome"]["outputs"]}
        start = 0
        while piece := self.read_content(user, outputs[name], start, _PIECE):
            yield piece
            start += len(piece)

    def read_content(self, user: str, content: dict[str, Any], start: int, most: int) -> bytes:
        """Bytes of a content.

        Parameters
        ----------
        user
            Whose job it belongs to.
        content
            The content, as the wire has it.
        start, most
            The first byte, and how many there may be.

        Returns
        -------
        bytes
        """
        return bytes(self._native.read_for(user, json.dumps(content), start, most))

    def ask(self, user: str, what: str, **request: Any) -> Any:
        """Asks the hub for a user.

        Parameters
        ----------
        user
            The user.
        what
            The request, as `ToHubJobs` in phalanx-core/src/wire/jobs.rs names it.
        **request
            Its fields.

        Returns
        -------
        dict or str
            The fields of the answer; its name, if it has none.

        Raises
        ------
        ContractError
            The request makes no sense, or there is no such job.
        """
        answer = json.loads(self._native.ask_for(user, json.dumps({what: request})))
        return answer if isinstance(answer, str) else next(iter(answer.values()))


def bytes_of(content: dict[str, Any]) -> int:
    """The length of a content.

    Parameters
    ----------
    content
        The content, as the wire has it.

    Returns
    -------
    int
        Bytes.
    """
    return len(content["Here"]) if "Here" in content else int(content["Kept"]["bytes"])
