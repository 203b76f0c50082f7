import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, NoReturn, Protocol, final

from phalanx._copying import CopyOrder

__all__ = [
    "Bsp",
    "Comparison",
    "Copy",
    "Executor",
    "Files",
    "Interpreter",
    "Launcher",
    "Listing",
    "LocalSpace",
    "Mailbox",
    "Manager",
    "NewFile",
    "OpenFile",
    "Region",
    "RemoteSpace",
    "SealedTuple",
    "SealingKey",
    "SpaceServer",
    "Turn",
    "acts_at",
    "acts_for",
    "ask_executors",
    "bytes_if_alone",
    "certificate_of",
    "check_member",
    "create_grid",
    "decode_fields",
    "delegation_lasts",
    "encode_fields",
    "end_spaces",
    "escape",
    "explain",
    "forget_member",
    "how_to_delegate",
    "is_locked_grid",
    "issue_member",
    "known_members",
    "lock_grid",
    "machines_given",
    "mark_given",
    "record_head",
    "request_member",
    "revoke_members",
    "sign_member",
    "space_was_forked",
    "split_fields",
    "weaker",
]

_Decider = tuple[list[str], str, int, bool]
_At = tuple[int, int, int]
_Item = tuple[_At, bytes, float | None, bytes | None, bytes | None, int]
_Policy = tuple[str, list[str], str | None]
_Dialler = tuple[str | None, dict[str, str], str | None, list[str], dict[str, str]]
_KnownMember = tuple[str, str, str]

_Target = tuple[int, int] | None
_Instruction = tuple[int, int | None, int, list[_Target], list[_Target], int | None]
_Packed = tuple[int, bytes | bytearray, list[int] | None, list[tuple[int, memoryview]]]

@final
class Region:
    @staticmethod
    def alone(view: memoryview) -> Region: ...
    def __len__(self) -> int: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...

@final
class Bsp:
    @staticmethod
    def begin(processes: int | None, checkpoint: int) -> Bsp | None: ...
    def end(self) -> None: ...
    def pid(self) -> int: ...
    def nprocs(self) -> int: ...
    def time(self) -> float: ...
    def supersteps(self) -> int: ...
    def sync(self) -> None: ...
    def checkpoint(self) -> bytes | bool: ...
    def save(self, state: bytes) -> None: ...
    def leave_machine(self) -> None: ...
    def push_reg(self, area: memoryview) -> None: ...
    def pop_reg(self, area: memoryview) -> None: ...
    def put(self, pid: int, source: memoryview | bytes, area: memoryview, offset: int) -> None: ...
    def hpput(self, pid: int, source: memoryview | bytes, area: memoryview, offset: int) -> None: ...
    def get(self, pid: int, area: memoryview, offset: int, into: memoryview) -> None: ...
    def hpget(self, pid: int, area: memoryview, offset: int, into: memoryview) -> None: ...
    def tagsize(self) -> int: ...
    def set_tagsize(self, size: int) -> int: ...
    def send(self, pid: int, tag: bytes, payload: bytes) -> None: ...
    def qsize(self) -> tuple[int, int]: ...
    def first_tag(self) -> bytes | None: ...
    def take(self) -> tuple[bytes, bytes] | None: ...
    def note_costs(self, wanted: bool) -> None: ...
    def costs(self) -> list[tuple[float, float, int, int]]: ...
    def everybody_says(self, own: bytes) -> list[bytes]: ...
    def abort(self, text: str) -> NoReturn: ...

@final
class Mailbox:
    def __new__(cls) -> Mailbox: ...
    def nudge(self) -> None: ...

@final
class Manager:
    def __new__(
        cls,
        *,
        addresses: list[str] | None,
        dialler: _Dialler | None,
        program: bytes,
        interpreters: int | None,
        throughput: float | None,
        deadline: float | None,
        policy: _Policy,
        command: list[str],
        path: list[str],
        python: str,
        silence: float,
        patience: float,
        journal: str | os.PathLike[str] | None,
        show: tuple[Callable[[list[tuple[str, int, bytes]]], None], bool] | None,
        gives: bool,
    ) -> Manager: ...
    @property
    def interpreters(self) -> int: ...
    def delegate(self, service: str, names: list[str] | None) -> None: ...
    def stage(self, instructions: int, code: bytes, marked_code: bool, marked_data: list[tuple[bool, bool]]) -> int: ...
    def stage_graph(
        self,
        entry: list[_Target],
        instructions: list[_Instruction],
        code: bytes,
        marked_code: bool,
        marked_data: list[tuple[bool, bool]],
    ) -> int: ...
    def forget(self, program: int) -> None: ...
    def open(
        self,
        program: int,
        mailbox: Mailbox,
        *,
        ordered: bool,
        ahead: float,
        spare: int,
        stragglers: bool,
        contract: bool,
        size: int | None,
    ) -> int: ...
    def room(self, run: int, patience: float) -> int: ...
    def feed(self, run: int, tasks: _Packed) -> None: ...
    def finish(self, run: int) -> None: ...
    def close_run(self, run: int) -> None: ...
    def take(self, mailbox: Mailbox, patience: float, eager: bool) -> list[tuple[int, str, int, Any]]: ...
    def summary(self) -> dict[str, Any]: ...
    def close(self) -> None: ...

@final
class Interpreter:
    HEAVY: ClassVar[int]
    @staticmethod
    def begin() -> Interpreter: ...
    @property
    def machine(self) -> str: ...
    @property
    def path(self) -> list[str]: ...
    @property
    def opened(self) -> tuple[list[Path], list[Path]] | None: ...
    @property
    def account(self) -> int | None: ...
    def next(self) -> tuple[Any, ...]: ...
    def fired(
        self,
        firing: int,
        results: _Packed,
        ways: Sequence[int | None],
        busy: int,
        stayed: Sequence[tuple[int, int]] = ...,
    ) -> None: ...
    def ahead(self, firing: int, parts: _Packed, stayed: int = 0) -> None: ...
    def failed(self, firing: int, error: bytes, busy: int) -> None: ...
    def turn(self, objects: Iterator[Any], slice: float) -> Turn: ...
    def end_turn(self) -> None: ...

@final
class Turn:
    def __iter__(self) -> Turn: ...
    def __next__(self) -> Any: ...

@final
class Launcher:
    def __new__(
        cls,
        programs: list[tuple[int | None, list[bytes]]],
        *,
        environment: list[tuple[bytes, bytes]],
        prefix: bool,
        terminals: tuple[bool, bool],
        colours: bool,
        shown: bool,
        input: bool,
        folder: bytes | None,
        output: str | os.PathLike[str] | None,
        keep_going: bool,
        executors: tuple[list[str], _Dialler, bytes, _Policy, int | None, list[str]] | None,
        files: list[tuple[str, str | os.PathLike[str]]],
        apart: str | None,
        checkpoints: tuple[int | None, int] | None,
        move_slow: tuple[float, int] | None,
        patience: float | None,
    ) -> Launcher: ...
    def wait(self, patience: float) -> int | None: ...
    def report(self) -> tuple[list[str], list[tuple[int, int | None, str]], list[str]]: ...
    def signal(self, number: int) -> None: ...

@final
class Executor:
    def __new__(
        cls,
        address: str,
        *,
        identity_file: str,
        revoked: list[str],
        capacity: int,
        accepted: list[str],
        command: list[str],
        python: str,
        policy: _Policy,
        spaces: dict[str, Any] | None,
        exports: list[str],
        environment: list[tuple[str, str]],
        cage: dict[str, Any] | None = None,
        log_level: str,
    ) -> Executor: ...
    @property
    def address(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def cage(self) -> str: ...
    def close(self) -> None: ...

@final
class Copy:
    def __new__(cls, order: CopyOrder) -> Copy: ...
    def progress(self) -> tuple[int, int, bool]: ...
    def wait(self, patience: float) -> dict[str, Any] | None: ...
    def is_cut(self) -> bool: ...
    def cancel(self) -> None: ...

#: Kind, size, mode, time in nanoseconds, what a link says.
_Facts = tuple[str, int, int | None, int, str | None]
_Tried = tuple[int, int, list[tuple[str, str, str | None]]]

@final
class Files:
    def __new__(cls, address: str | None, *, dialler: _Dialler | None, policy: _Policy, level: str | None) -> Files: ...
    @property
    def level(self) -> tuple[str, str]: ...
    @property
    def peer(self) -> str | None: ...
    @property
    def closed(self) -> bool: ...
    def close(self) -> None: ...
    def entries(
        self,
        path: str | os.PathLike[str],
        depth: int,
        include: list[str],
        exclude: list[str],
        matching: list[str],
    ) -> Listing: ...
    def look(self, path: str | os.PathLike[str], follows: bool) -> _Facts | None: ...
    def locate(self, path: str | os.PathLike[str]) -> tuple[bool, list[bytes]]: ...
    def remove(self, folder: str | os.PathLike[str], names: list[str | os.PathLike[str]], whole: bool) -> _Tried: ...
    def make_folder(self, path: str | os.PathLike[str], above: bool) -> None: ...
    def rename(self, old: str | os.PathLike[str], new: str | os.PathLike[str]) -> None: ...
    def set_times(
        self,
        folder: str | os.PathLike[str],
        times: list[tuple[str | os.PathLike[str], int, tuple[int, int] | None]],
    ) -> _Tried: ...
    def digests(
        self, folder: str | os.PathLike[str], names: list[str | os.PathLike[str]]
    ) -> list[tuple[bytes | None, str]]: ...
    def open(self, path: str | os.PathLike[str]) -> OpenFile: ...
    def create(self, path: str | os.PathLike[str], new: bool) -> NewFile: ...

@final
class Listing:
    def page(self) -> list[tuple[str, _Facts | None, str]] | None: ...

_Difference = tuple[str, _Facts | None, _Facts | None, str, str, bool]

@final
class Comparison:
    def __new__(
        cls,
        source: tuple[Files, str | os.PathLike[str]],
        target: tuple[Files, str | os.PathLike[str]] | None,
        *,
        include: list[str],
        exclude: list[str],
        keeps: list[str],
        skips_links: bool,
        contents: bool,
        special: bool,
        most: int,
    ) -> Comparison: ...
    def page(self) -> list[_Difference] | None: ...
    def counts(self) -> tuple[int, int, int, int, int, int]: ...

@final
class OpenFile:
    @property
    def facts(self) -> _Facts: ...
    def read(self, offset: int, length: int) -> bytes: ...
    def next(self) -> bytes | None: ...
    def settle(self) -> None: ...

@final
class NewFile:
    def write(self, bytes: bytes) -> None: ...
    def commit(self) -> None: ...

_Fields = tuple[Any, ...]
_Place = tuple[int, ...]

#: What both spaces have. A space of another process takes a few more arguments.
class _Space(Protocol):
    def out(
        self,
        fields: _Fields,
        lease: float | None,
        key: Any,
        label: Any,
        priority: int | None,
        transaction: int | None,
        /,
    ) -> int: ...
    def out_many(
        self,
        tuples: Sequence[_Fields],
        lease: float | None,
        label: Any,
        priority: int | None,
        transaction: int | None,
        /,
    ) -> None: ...
    def get(
        self,
        template: _Fields,
        take: bool,
        select: tuple[Any, ...],
        where: Any,
        transaction: int | None,
        /,
    ) -> _Fields | None: ...
    def get_many(
        self,
        template: _Fields,
        take: bool,
        select: tuple[Any, ...],
        where: Any,
        transaction: int | None,
        limit: int,
        after: _Place | None,
        /,
    ) -> tuple[list[_Fields], _Place | None]: ...
    def wait(
        self,
        template: _Fields,
        take: bool,
        select: tuple[Any, ...],
        where: Any,
        transaction: int | None,
        timeout: float | None,
        /,
    ) -> _Fields | None: ...
    def begin_wait(
        self,
        template: _Fields,
        take: bool,
        select: tuple[Any, ...],
        where: Any,
        transaction: int | None,
        timeout: float | None,
        done: Callable[[_Fields | BaseException | None], object],
        /,
    ) -> int: ...
    def cancel(self, request: int, /) -> bool: ...
    def settle(self, request: int, kept: bool, /) -> None: ...
    def count(self, template: _Fields, where: Any, transaction: int | None, /) -> int: ...
    def renew(self, number: int, lease: float | None, /) -> bool: ...
    def begin(self, transaction: int, timeout: float, repeatable: bool, /) -> None: ...
    def prepare(self, transaction: int, coordinator: _Decider | None = None, /) -> None: ...
    def go_by(self, card: bytes, replaces: bytes | None = None, /) -> bytes | None: ...
    def browse(self, after: _At | None, /) -> tuple[list[_Item], _At | None]: ...
    def withdraw(self, spots: Sequence[_At], transaction: int, /) -> list[_Item]: ...
    def put_whole(
        self,
        tuples: Sequence[bytes],
        lease: float | None,
        key: bytes | None,
        label: bytes | None,
        priority: int,
        transaction: int | None,
        /,
    ) -> None: ...
    def commit(self, transaction: int, /) -> None: ...
    def abort(self, transaction: int, /) -> None: ...
    def watch(self, template: _Fields, where: Any, since: int | None, nudge: Callable[[], object] | None, /) -> int: ...
    def events(self, watch: int, timeout: float | None, /) -> list[tuple[int, _Fields]]: ...
    def unwatch(self, watch: int, /) -> None: ...
    def info(self) -> dict[str, Any]: ...
    def close(self) -> None: ...

@final
class LocalSpace(_Space):
    def __new__(
        cls,
        options: dict[str, Any],
        objects: bool,
        directory: str | os.PathLike[str] | None = None,
        *,
        dialler: _Dialler | None = None,
    ) -> LocalSpace: ...

@final
class RemoteSpace(_Space):
    def __new__(
        cls,
        address: str,
        options: dict[str, Any],
        objects: bool,
        *,
        dialler: _Dialler | None,
        policy: _Policy,
        create: bool,
        members: list[str],
        seconds: float,
    ) -> RemoteSpace: ...
    @property
    def level(self) -> tuple[str, str, bool]: ...
    @property
    def peer(self) -> str | None: ...
    def server_name(self) -> str: ...
    @property
    def ended(self) -> bool: ...
    @property
    def members(self) -> list[str]: ...
    def look(self) -> None: ...
    @property
    def place(self) -> str: ...
    @property
    def coordinator(self) -> _Decider: ...
    def decision(self, transaction: int, age: float, /) -> str | None: ...
    @property
    def created(self) -> bool: ...
    @property
    def secure(self) -> bool: ...
    def register(self, client: int, /) -> None: ...
    def change_members(self, add: Sequence[str], remove: Sequence[str], /) -> None: ...
    def out(
        self,
        fields: _Fields,
        lease: float | None,
        key: Any,
        label: Any,
        priority: int | None,
        transaction: int | None,
        once: tuple[int, int, int] | None = None,
        /,
    ) -> int: ...
    def out_many(
        self,
        tuples: Sequence[_Fields],
        lease: float | None,
        label: Any,
        priority: int | None,
        transaction: int | None,
        once: tuple[int, int, int] | None = None,
        /,
    ) -> None: ...
    def get(
        self,
        template: _Fields,
        take: bool,
        select: tuple[Any, ...],
        where: Any,
        transaction: int | None,
        patience: float | None = None,
        /,
    ) -> _Fields | None: ...
    def get_many(
        self,
        template: _Fields,
        take: bool,
        select: tuple[Any, ...],
        where: Any,
        transaction: int | None,
        limit: int,
        after: _Place | None,
        patience: float | None = None,
        /,
    ) -> tuple[list[_Fields], _Place | None]: ...
    def begin_wait(
        self,
        template: _Fields,
        take: bool,
        select: tuple[Any, ...],
        where: Any,
        transaction: int | None,
        timeout: float | None,
        done: Callable[[_Fields | BaseException | None], object],
        patience: float | None = None,
        /,
    ) -> int: ...
    def count(
        self, template: _Fields, where: Any, transaction: int | None, patience: float | None = None, /
    ) -> int: ...
    def begin(self, transaction: int, timeout: float, repeatable: bool, patience: float | None = None, /) -> None: ...
    def commit(self, transaction: int, once: tuple[int, int, int] | None = None, /) -> None: ...
    def leave(self, seconds: float) -> bool: ...

@final
class SpaceServer:
    def __new__(
        cls,
        address: str,
        *,
        identity_file: str | None,
        revoked: list[str],
        policy: _Policy,
        serving: dict[str, Any],
        says: bool,
    ) -> SpaceServer: ...
    @property
    def address(self) -> str: ...
    @property
    def name(self) -> str | None: ...
    def add(self, name: str, space: LocalSpace) -> None: ...
    def close(self) -> None: ...

def record_head(classes: list[str], fields: int) -> bytes: ...
def space_was_forked() -> None: ...
def end_spaces(seconds: float) -> bool: ...
def escape(text: bytes, *, one: bool = False) -> bytes: ...
def create_grid(passphrase: str | None = None) -> str: ...
def is_locked_grid(authority: str) -> bool: ...
def lock_grid(authority: str, file: str, passphrase: str | None, new: str | None) -> str: ...
def issue_member(
    authority: str,
    role: str,
    name: str,
    file: str = "authority.pem",
    passphrase: str | None = None,
    days: int | None = None,
) -> str: ...
def request_member(role: str, name: str) -> tuple[str, str]: ...
def revoke_members(
    authority: str, file: str, passphrase: str | None, earlier: str | None, revoked: list[tuple[str, ...]]
) -> str: ...
def sign_member(
    authority: str, request: str, file: str, passphrase: str | None, days: int | None = None
) -> tuple[str, str, str]: ...
def certificate_of(text: str) -> tuple[str, str, str]: ...
def check_member(text: str, file: str) -> tuple[str, str, bool]: ...
def acts_at() -> str | None: ...
def acts_for(service: str, /) -> bool: ...
def delegation_lasts() -> int: ...
def how_to_delegate(word: str, /) -> str: ...
def machines_given() -> tuple[dict[str, str], dict[str, str]]: ...
def mark_given(spaces: set[str], /) -> str: ...
def known_members(file: str | os.PathLike[str]) -> list[_KnownMember]: ...
def forget_member(file: str | os.PathLike[str], address: str) -> list[_KnownMember]: ...
def bytes_if_alone(holder: list[Any]) -> int | None: ...
def weaker(policy: _Policy) -> list[str]: ...
def ask_executors(
    addresses: list[str], dialler: _Dialler
) -> list[tuple[str, int, str, str, bool, list[str]] | str]: ...
def explain(policy: _Policy, addresses: list[str], takes: str) -> list[tuple[str, str, str, str | None, str, bool]]: ...

@final
class SealedTuple:
    def __new__(cls, fields: tuple[Any, ...], hidden: list[int], number: bytes | None = None) -> SealedTuple: ...
    @staticmethod
    def number_of(ciphertext: bytes) -> bytes | None: ...

@final
class SealingKey:
    def __new__(cls, secret: bytes, context: bytes) -> SealingKey: ...
    @staticmethod
    def random() -> bytes: ...
    def seal(
        self, value: Any, position: int, objects: bool, tuple: SealedTuple | None = None
    ) -> tuple[bytes, bytes]: ...
    def open(
        self, fingerprint: bytes, ciphertext: bytes, position: int, objects: bool, tuple: SealedTuple | None = None
    ) -> Any: ...

def split_fields(tuple: bytes) -> list[bytes]: ...
def encode_fields(fields: tuple[Any, ...], objects: bool) -> list[bytes]: ...
def decode_fields(fields: Sequence[bytes], objects: bool) -> tuple[Any, ...]: ...
