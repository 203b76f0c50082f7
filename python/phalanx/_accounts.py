"""Accounts for the users of an executor that runs as root: which there can be, and what they must be able to read."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from phalanx.errors import PolicyError
from phalanx.words import StrPath

if sys.platform != "win32":
    import grp
    import pwd

#: Beyond what systems give to accounts, services and containers by themselves.
_EXAMPLE = "1900000000-1900000031"
#: What a process of an account may read of this process's environment, beside Python's own variables.
_NEEDED = {"LANG", "LD_LIBRARY_PATH", "PATH", "TMPDIR", "VIRTUAL_ENV"}
#: Files with the numbers that users may give to processes in namespaces of their own.
_SUBORDINATE = (Path("/etc/subuid"), Path("/etc/subgid"))
#: Whose entry in ``/etc/subuid`` keeps the accounts for executors.
_OWN = "phalanx"
#: The largest number stands for no account.
_LARGEST = 2**32 - 2
#: Prints the first of its arguments that it may not use: a folder `enter PATH`, another path `read PATH`.
_PROBE = """
while [ $# -gt 1 ]; do
    case $1 in
        enter) [ -x "$2" ] ;;
        *) [ -r "$2" ] && { [ ! -d "$2" ] || [ -x "$2" ]; } ;;
    esac || { printf %s "$2"; exit; }
    shift 2
done
"""


def read_accounts(word: str) -> tuple[int, int]:
    """The first and the last account of ``"FIRST-LAST"``.

    Raises
    ------
    ValueError
        The word is no range; or one of the numbers is that of an account or a group of this machine, or is given to
        somebody's containers in ``/etc/subuid`` or ``/etc/subgid``, unless that is to ``phalanx``.
    """
    match = re.fullmatch(r"([0-9]{1,10})-([0-9]{1,10})", word)
    first, last = (int(match[1]), int(match[2])) if match else (0, 0)
    if not 1 <= first <= last <= _LARGEST:
        raise ValueError(f"{word!r} is no range of accounts: write FIRST-LAST, like {_EXAMPLE}")
    named = {user.pw_uid: f"account {user.pw_uid} is {user.pw_name}'s" for user in pwd.getpwall()}
    named |= {group.gr_gid: f"group {group.gr_gid} is {group.gr_name}" for group in grp.getgrall()}
    if taken := min((number for number in named if first <= number <= last), default=None):
        raise ValueError(f"{named[taken]}: name accounts that nothing else on this machine has, like {_EXAMPLE}")
    for file, owner, start, end in _given_to_containers():
        if owner != _OWN and start <= last and first < end:
            raise ValueError(
                f"{file} gives {start} to {end - 1} to the containers of {owner}: name accounts that nothing else on "
                f"this machine has, like {_EXAMPLE}"
            )
    return first, last


def _given_to_containers() -> Iterator[tuple[Path, str, int, int]]:
    """The ranges of numbers in these files: the file, the owner, the first number, and the one after the last."""
    for file in _SUBORDINATE:
        with suppress(OSError):
            for line in file.read_text(errors="replace").splitlines():
                owner, start, count = (*line.split(":"), "", "")[:3]
                if start.isdecimal() and count.isdecimal():
                    yield file, owner, int(start), int(start) + int(count)


def check_accounts(accounts: tuple[int, int], folders: Iterable[StrPath]) -> None:
    """Check that processes of the accounts can run this Python.

    Parameters
    ----------
    accounts
        The first and the last account.
    folders
        What interpreters import from. Folders that are not there are left out.

    Raises
    ------
    PolicyError
        This process is not root; or the accounts cannot be used, cannot read a folder, or cannot run Python. The
        message names the path.
    """
    if os.geteuid() != 0:
        raise PolicyError("--accounts needs root: no other account can start processes under other ones")
    needed = [*(Path(folder) for folder in folders if folder), Path(sys.executable), Path(__file__).parent]
    checks = [word for path in _existing(needed) for word in _checks(path, "read")]
    checks += _checks(Path(tempfile.gettempdir()).resolve(), "enter")
    for account in dict.fromkeys(accounts):
        if unreadable := _run(account, "/bin/sh", "-c", _PROBE, "sh", *checks).stdout:
            raise PolicyError(
                f"account {account} cannot open {unreadable}, which interpreters need: let every account open it "
                "(chmod a+rX), or install Python and phalanx where every account can, as in /opt, and start the "
                "executor with a TMPDIR that every account can enter"
            )
    import_all = "import phalanx._interpreter"
    done = _run(accounts[0], sys.executable, "-c", import_all)
    if done.returncode != 0:
        why = (done.stderr.strip().splitlines() or ["it was ended"])[-1]
        raise PolicyError(f'account {accounts[0]} cannot run {sys.executable} -c "{import_all}": {why}')


def _existing(paths: Iterable[Path]) -> Iterator[Path]:
    """The paths that are there, each as it is written and without symbolic links."""
    for path in dict.fromkeys(paths):
        if path.exists():
            yield from dict.fromkeys((Path(os.path.abspath(path)), path.resolve()))  # noqa: PTH100 links are kept


def _checks(path: Path, how: str) -> list[str]:
    """What the probe is to look at: the folders on the way, from the top, and the path."""
    return [word for folder in reversed(path.parents) for word in ("enter", str(folder))] + [how, str(path)]


def _run(account: int, *command: str) -> subprocess.CompletedProcess[str]:
    """Runs a command under an account, which reads nothing of this process's environment but what it needs to start."""
    env = {name: value for name, value in os.environ.items() if name in _NEEDED or name.startswith("PYTHON")}
    try:
        return subprocess.run(
            command,
            user=account,
            group=account,
            extra_groups=[],
            env=env,
            cwd="/",
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise PolicyError(f"no process can be started under account {account} here: {error}") from error
