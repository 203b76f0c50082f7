"""The machines that a manager recruits from."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

from phalanx import _native
from phalanx.errors import IdentityError, RecruitError

#: The command line that starts an interpreter. Its first messages come over standard input. `python -c` puts the
#: current directory first on the import path. It is removed, because others may be able to write modules there.
_START = f"import sys; sys.path.pop(0); sys.path.append({str(Path(__file__).parents[1])!r}); "
COMMAND = [sys.executable, "-c", _START + "from phalanx._interpreter import main; main()"]
#: The version of this Python. Code travels only between equal versions.
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"

_LINE = re.compile(r"<?\s*(?P<host>\[[^\]]+\]|[^\s,<>:]+)(?:\s*[,:\s]\s*(?P<port>\d+))?\s*>?")

_TRUSTED = re.compile(r"trusted\s+(?P<network>[0-9a-fA-F.:]+(?:/\d+)?)")


class Hosts:
    """Executors that a hosts file names, one ``machine port`` per line (paper 000, section 2, version 1.0).

    A line may also be ``machine:port`` or ``<machine, port>``. The default port is 7400. A line ``trusted 10.1.0.0/16``
    declares a network trusted: links to machines there need no protection. Text after ``#`` is a comment.

    Parameters
    ----------
    path : str or path
        The hosts file.

    Raises
    ------
    RecruitError
        The file cannot be read, has a line that is none of these, or names no machine.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import phalanx as px
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "hosts.txt"
    >>> _ = file.write_text("labpc1 7400\\nlabpc2  # the default port\\n")
    >>> px.Hosts(file).addresses
    ['labpc1:7400', 'labpc2:7400']
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        try:
            text = self.path.read_text(encoding="utf-8-sig")  # editors on Windows begin files with a byte order mark
        except (OSError, UnicodeDecodeError) as error:
            raise RecruitError(f"the hosts file {self.path} cannot be read: {error}") from None
        said = [(number, line) for number, line in enumerate(text.splitlines(), 1) if _said(line)]
        networks = [_TRUSTED.fullmatch(_said(line)) for _, line in said]
        self.trusted = [match["network"] for match in networks if match]
        self.addresses = [self._address(*one) for one, match in zip(said, networks, strict=True) if not match]
        if not self.addresses:
            raise RecruitError(f"the hosts file {self.path} names no machine; write a line for each: machine port")

    def _address(self, number: int, line: str) -> str:
        match = _LINE.fullmatch(_said(line))
        if match is None:
            wanted = "trusted NETWORK" if _said(line).split()[0] == "trusted" else "machine port"
            raise RecruitError(f"{self.path}, line {number}: {line.strip()!r} is not: {wanted}")
        return f"{match['host']}:{match['port'] or 7400}"

    def __repr__(self) -> str:
        return f"Hosts({str(self.path)!r})"


def _said(line: str) -> str:
    return line.partition("#")[0].strip()


def home() -> Path:
    """The folder of identity files: $PHALANX_HOME, or ~/.phalanx.

    Raises
    ------
    IdentityError
        The user has no home folder: $HOME is not set, and the system has no account for the user ID. That happens in
        containers that are started with an arbitrary user ID.
    """
    if named := os.environ.get("PHALANX_HOME"):
        return Path(named)
    try:
        return Path.home() / ".phalanx"
    except RuntimeError:
        advice = "name a folder for identities: export PHALANX_HOME=FOLDER"
        raise IdentityError(f"user {os.getuid()} has no home folder on this machine; {advice}") from None


def own_identity(default: str) -> str | None:
    """The text of the identity file ``default`` in :func:`home`; None if the user has none."""
    try:
        there = (home() / default).exists()
    except PermissionError:  # the home folder belongs to another user, or there is none
        return None
    return read_identity(None, default) if there else None


def read_identity(path: str | os.PathLike[str] | None, default: str) -> str:
    """The text of an identity file. Without a path, it is the file ``default`` in :func:`home`."""
    file = Path(path) if path is not None else home() / default
    try:
        text = file.read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        advice = (
            "name yours with --identity or identity=, or put it there; whoever keeps the grid makes one with: phalanx "
            f"grid issue --role {default.removesuffix('.pem')} NAME, and a grid with: phalanx grid create"
        )
        raise IdentityError(f"no identity in {file} ({why}); {advice}") from None
    _native.check_member(text, os.fspath(file))
    return text
