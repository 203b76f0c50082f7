"""What a process of Dask keeps to on ``phalanx://``: its identity, the policy, and who belongs to the cluster."""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import dask
from dask.utils import parse_bytes, parse_timedelta
from distributed.system import MEMORY_LIMIT

from phalanx import _native
from phalanx._identities import EXECUTOR, USER, has_identity, identity_file, read_identity, revoked_lists
from phalanx.errors import PolicyError
from phalanx.security import Rules, Words, listed, policy_words, read_policy

#: Where Dask's configuration has what is for phalanx.
SECTION = "distributed.comm.phalanx"
#: The settings, and what stands for them.
DEFAULTS: dict[str, Any] = {
    "identity": None,
    "policy": "links",
    "trusted": (),
    "members": (),
    "largest-message": None,
}


def rules(connection_args: Mapping[str, Any]) -> _native.CommRules:
    """What Dask's configuration, ``extra_conn_args`` and ``require_encryption`` say.

    Raises
    ------
    PolicyError
        A setting is unknown or wrong.
    IdentityError
        The identity file cannot be used.
    """
    said = _settings(connection_args)
    policy = said["policy"]
    policy = "all" if connection_args.get("require_encryption") else policy
    policy = read_policy(os.fspath(policy)) if not isinstance(policy, Rules) else policy
    largest = said["largest-message"]
    most = parse_bytes(largest) if largest else int(MEMORY_LIMIT / 2)  # as Dask's own comms
    silence = parse_timedelta(dask.config.get("distributed.comm.timeouts.tcp"), default="seconds")
    file = _identity_file(said["identity"])
    changed = file.stat().st_mtime_ns if file is not None and file.exists() else 0
    words = policy_words(policy, said["trusted"])
    named = None if said["identity"] is None else os.fspath(said["identity"])
    members = tuple(listed(said["members"]))
    return _made(named, file, changed, (words[0], tuple(words[1]), words[2]), members, most, float(silence))


def _settings(connection_args: Mapping[str, Any]) -> dict[str, Any]:
    given = {**(dask.config.get(SECTION, None) or {}), **(connection_args.get("extra_conn_args") or {})}
    given = {name.replace("_", "-"): value for name, value in given.items()}
    if unknown := sorted(given.keys() - DEFAULTS.keys()):
        known = ", ".join(DEFAULTS)
        raise PolicyError(f"{SECTION}.{unknown[0]} is no setting: {known} are")
    return {**DEFAULTS, **{name: value for name, value in given.items() if value is not None}}


def _identity_file(named: Any) -> Path | None:
    """The identity file: the named one, or that of the machine, or that of the user. None: there is none."""
    if named is not None:
        return Path(named).absolute()
    found = next((name for name in (EXECUTOR, USER) if has_identity(name)), None)
    return None if found is None else identity_file(None, found).absolute()


@functools.lru_cache(maxsize=16)
def _made(
    named: str | None,
    file: Path | None,
    changed: int,
    policy: tuple[str, Sequence[str], str | None],
    members: Sequence[str],
    most: int,
    silence: float,
) -> _native.CommRules:
    words: Words = (policy[0], list(policy[1]), policy[2])
    text = None if file is None else read_identity(file, EXECUTOR)
    return _native.CommRules(
        text=text,
        file=None if file is None else os.fspath(file),
        revoked=[] if file is None else revoked_lists(named),
        policy=words,
        members=list(members),
        most=most,
        silence=silence,
    )
