"""The arguments of one native copy."""

from __future__ import annotations

import os
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class CopyOrder:
    """A copy between this machine and an executor, or between two executors, as ``_native.Copy`` reads it.

    The executor at ``address`` is the target if the order ``puts``, otherwise the source. With ``source``, the copy
    goes from the executor at that address to the one at ``address``.
    """

    address: str
    source: str | None
    #: Text of the identity file; names in certificates, by address; file of known members; files with lists of revoked
    #: certificates; addresses of machines, by name.
    dialler: tuple[str | None, dict[str, str], str | None, list[str], dict[str, str], str | None]
    #: The default policy, the trusted networks, and the text of a rules file.
    policy: tuple[str, list[str], str | None]
    puts: bool
    #: The path on this machine, or at ``source``. None: ``memory`` bytes, generated or discarded.
    here: str | os.PathLike[str] | None
    #: Whether the copy goes into the folder ``here``, under its own name.
    here_into: bool
    #: The path at the executor at ``address``. None: ``memory`` bytes.
    there: str | os.PathLike[str] | None
    there_into: bool
    memory: int
    level: str | None
    #: None: as many as make the copy faster.
    streams: int | None
    #: None: one more than there are cores.
    threads: int | None
    checked: bool
    anew: bool
    whole_file: bool | None
    compress: bool | None
    include: list[str]
    exclude: list[str]
    links: str | None
    keeps: list[str]
    only: list[str]
    #: Seconds to resume after a cut while no new bytes arrive.
    patience: float
    #: Bytes per second; 0: no limit.
    limit: int
    #: The index and the number of shares, if other machines copy the other shares at the same time.
    share: tuple[int, int] | None
    #: Whether everything is copied after its shares, one of which created the top folder.
    fresh: bool
    #: 16 bytes that all shares of one copy have in common; None: the copy has no shares.
    copy: bytes | None
