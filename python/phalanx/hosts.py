"""The machines that a manager recruits from."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

from phalanx import _native
from phalanx.errors import IdentityError, RecruitError

#: Starts an interpreter; its first words come over its standard input. What `-c` puts first on the path, the current
#: directory, is taken off: whoever can write there must not be imported from.
_START = f"import sys; sys.path.pop(0); sys.path.append({str(Path(__file__).parents[1])!r}); "
COMMAND = [sys.executable, "-c", _START + "from phalanx._interpreter import main; main()"]
#: Code travels between equal versions of Python only.
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"

_LINE = re.compile(r"<?\s*(?P<host>\[[^\]]+\]|[^\s,<>:]+)(?:\s*[,:\s]\s*(?P<port>\d+))?\s*>?")

_TRUSTED = re.compile(r"trusted\s+(?P<network>[0-9a-fA-F.:]+(?:/\d+)?)")


class Hosts:
    """Executors named in a file, one ``machine port`` a line (paper 000, section 2, version 1.0).

    Also ``machine:port`` and ``<machine, port>``; without a port, 7400. A line ``trusted 10.1.0.0/16`` declares a
    network trusted: links to machines there need no protection. What follows ``#`` is a comment.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        try:
            text = self.path.read_text(encoding="utf-8-sig")  # editors of Windows put a mark before it
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
        The user has no home folder: there is no $HOME, and the system has no account for the user's number, as in a
        container that was started with any number.
    """
    if named := os.environ.get("PHALANX_HOME"):
        return Path(named)
    try:
        return Path.home() / ".phalanx"
    except RuntimeError:
        advice = "name a folder for identities: export PHALANX_HOME=FOLDER"
        raise IdentityError(f"user {os.getuid()} has no home folder on this machine; {advice}") from None


def own_identity(default: str) -> str | None:
    """The text of the identity file ``default`` in :func:`home`; None where the user has none."""
    try:
        there = (home() / default).exists()
    except PermissionError:  # no home folder, or that of another user
        return None
    return read_identity(None, default) if there else None


def read_identity(path: str | os.PathLike[str] | None, default: str) -> str:
    """The text of an identity file; without a path, of ``default`` in :func:`home`."""
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
