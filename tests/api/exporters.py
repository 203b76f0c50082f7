"""Executors of this process that export folders, and the user of their grid."""

from __future__ import annotations

import resource
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TypeVar

from phalanx import _native
from phalanx.hosts import COMMAND, PYTHON

from laboratory import identities

#: Networks whose links are clear where nothing else is asked for.
TRUSTED = ["127.0.0.0/8"]
F = TypeVar("F", bound="Folders")


class Exporters:
    """A grid of executors, which end with the ``with``. ``identity``: ada's file, in `folder`."""

    def __init__(self, folder: Path) -> None:
        self.authority = _native.create_grid()
        self.identity = folder / "user.pem"
        identities.write(self.identity, _native.issue_member(self.authority, "user", "ada"))
        self._executors: list[_native.Executor] = []

    def start(
        self, name: str, *exports: str, usual: str = "links", trusted: Sequence[str] = (), accepted: Sequence[str] = ()
    ) -> str:
        """The address of one more."""
        executor = _native.Executor(
            "127.0.0.1:0",
            identity_file=_native.issue_member(self.authority, "executor", name),
            revoked=[],
            capacity=1,
            accepted=list(accepted),
            command=COMMAND,
            python=PYTHON,
            policy=(usual, list(trusted), None),
            spaces=None,
            exports=list(exports),
            environment=[],
            log_level="info",
        )
        self._executors.append(executor)
        return executor.address

    def __enter__(self) -> Exporters:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        while self._executors:
            self._executors.pop().close()


#: Which ends of a copy are at an executor: the target, the source, or each at one of its own.
SIDES = ["puts", "gets", "between"]


@dataclass
class Folders:
    """Two folders of this machine, ``names`` as a copy takes them: one of them, or each, is at an executor."""

    source: Path
    target: Path
    names: tuple[str, str]
    identity: Path

    def is_whole(self, name: str = "file") -> bool:
        """Whether the target has this file as the source has it."""
        return (self.source / name).read_bytes() == (self.target / name).read_bytes()


@contextmanager
def folders(path: Path, side: str, kind: type[F], trusted: Sequence[str] = ()) -> Iterator[F]:
    """Two new folders beneath ``path``, and the executors that a side of :data:`SIDES` needs."""
    source, target = path / "one", path / "other"
    source.mkdir()
    target.mkdir()
    with Exporters(path) as grid:
        one = "" if side == "puts" else grid.start("one", f"{source}:rw", trusted=trusted) + ":"
        other = "" if side == "gets" else grid.start("other", f"{target}:rw", trusted=trusted) + ":"
        yield kind(source, target, (f"{one}{source}", f"{other}{target}"), grid.identity)


@contextmanager
def no_file_beyond(size: int) -> Iterator[None]:
    """As on a disk that is full: no file of this process, which is both ends, gets longer."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
