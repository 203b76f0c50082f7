"""The words that options take: each set is a type, and a tuple to check against when a program runs."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias, get_args

#: A path of a file or a folder on this machine.
StrPath: TypeAlias = str | os.PathLike[str]

#: The protection of a link, from the weakest to the strongest (paper 003). At ``"authenticated"`` both ends prove who
#: they are once; afterwards an attacker on the wire can read and change everything, and send code in their names.
Level: TypeAlias = Literal["clear", "authenticated", "safe", "private"]
#: Which links are private: those that leave trusted networks, those of marked code and data, or all.
Policy: TypeAlias = Literal["links", "marked", "all"]
#: What a mark protects: data, code, or both.
Mark: TypeAlias = Literal["data", "code", "both"]
#: Which of several matching tuples comes first.
Order: TypeAlias = Literal["any", "fifo", "lifo", "priority"]
#: Where a spread space puts a tuple: one of the two words, or positions as in ``"hash(0,1)"``.
Placement: TypeAlias = Literal["local", "owner"] | str
#: The isolation of a transaction, in the words of SQL.
Isolation: TypeAlias = Literal["read committed", "repeatable read"]
#: What a copy makes of symbolic links.
Links: TypeAlias = Literal["keep", "follow", "skip"]
#: What a copy keeps beside contents, permissions and times.
Kept: TypeAlias = Literal["owner", "group", "numeric-ids", "xattrs", "acls", "hard-links"]
#: How ranks on one machine exchange messages.
Transport: TypeAlias = Literal["shared", "sockets"]
#: What an executor keeps from the processes of its users. Each word includes the one before it: environments and core
#: dumps; system calls; files; signals and unix sockets.
Cage: TypeAlias = Literal["none", "limits", "files", "full"]
#: What interpreters of other machines may do in the user's name. They may always use the spaces that the program was
#: given; further words add nothing, all spaces, copies, or both.
Delegate: TypeAlias = Literal["given", "spaces", "copies", "all"]
#: What the ranks of a program may do in the user's name: use all spaces, copy, or both. A program that is launched is
#: given texts only, so that there is no ``"given"``.
RanksDelegate: TypeAlias = Literal["spaces", "copies", "all"]
#: What can be delegated to them.
Service: TypeAlias = Literal["spaces", "copies"]
#: Where the lines go that tasks print.
OutputWord: TypeAlias = Literal["prefix", "plain", "off"]

LEVELS: tuple[Level, ...] = get_args(Level)
#: What the level promises whose name may be taken for more. It is shown wherever the level is chosen.
AUTHENTICATED = (
    "authenticated: both ends prove who they are once; afterwards an attacker on the wire can read and change "
    "everything, and send code in their names."
)
POLICIES: tuple[Policy, ...] = get_args(Policy)
ORDERS: tuple[Order, ...] = get_args(Order)
ISOLATIONS: tuple[Isolation, ...] = get_args(Isolation)
LINKS: tuple[Links, ...] = get_args(Links)
KEPT: tuple[Kept, ...] = get_args(Kept)
TRANSPORTS: tuple[Transport, ...] = get_args(Transport)
CAGES: tuple[Cage, ...] = get_args(Cage)
DELEGATES: tuple[Delegate, ...] = get_args(Delegate)
RANKS_DELEGATES: tuple[RanksDelegate, ...] = get_args(RanksDelegate)
#: The services that each word delegates as a whole.
SERVICES_OF: Mapping[Delegate, tuple[Service, ...]] = {
    "given": (),
    "spaces": ("spaces",),
    "copies": ("copies",),
    "all": ("spaces", "copies"),
}
OUTPUTS: tuple[OutputWord, ...] = get_args(OutputWord)


def check_word(option: str, word: object, words: Sequence[str], error: type[Exception]) -> None:
    """Raises ``error``, which lists ``words``, if ``word`` is none of them."""
    if word not in words:
        raise error(f"{word!r} is no {option}: write {', '.join(map(repr, words))}")
