"""Accounts for the users of an executor that runs as root: which there can be, and what they must be able to read."""

from __future__ import annotations

import grp
import os
import pwd
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from phalanx.errors import PolicyError
from phalanx.words import StrPath

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
        The word is no range, or an account or a group of this machine has one of the numbers.
    """
    match = re.fullmatch(r"([0-9]{1,10})-([0-9]{1,10})", word)
    first, last = (int(match[1]), int(match[2])) if match else (0, 0)
    if not 1 <= first <= last <= _LARGEST:
        raise ValueError(f"{word!r} is no range of accounts: write FIRST-LAST, like 100000-100031")
    named = {user.pw_uid: f"account {user.pw_uid} is {user.pw_name}'s" for user in pwd.getpwall()}
    named |= {group.gr_gid: f"group {group.gr_gid} is {group.gr_name}" for group in grp.getgrall()}
    if taken := min((number for number in named if first <= number <= last), default=None):
        raise ValueError(f"{named[taken]}: name accounts that nothing else on this machine has, like 100000-100031")
    return first, last


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
    """Runs a command under an account, with the environment in which interpreters import."""
    try:
        return subprocess.run(
            command,
            user=account,
            group=account,
            extra_groups=[],
            cwd="/",
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise PolicyError(f"no process can be started under account {account} here: {error}") from error
