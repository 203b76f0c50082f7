"""Settings of a private sshd of Debian's OpenSSH."""

from __future__ import annotations

from pathlib import Path

#: Where root's sshd locks itself in before a user is known; Debian's service makes it when it starts.
EMPTY = Path("/run/sshd")
_SETTINGS = """
ListenAddress {address}
Port {port}
HostKey {keys}/host
AuthorizedKeysFile {keys}/user.pub
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
"""


def settings(keys: Path, address: str, port: int, *more: str) -> str:
    """The file of settings of a server whose keys are `host` and `user` in a folder. ``more``: further lines."""
    return _SETTINGS.format(keys=keys, address=address, port=port) + "".join(f"{line}\n" for line in more)
