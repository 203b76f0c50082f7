import os
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NoReturn, final

__all__ = [
    "Bsp",
    "Executor",
    "Interpreter",
    "Launcher",
    "LocalSpace",
    "Mailbox",
    "Manager",
    "Region",
    "RemoteSpace",
    "SealingKey",
    "SpaceServer",
    "create_grid",
    "decode_fields",
    "encode_fields",
    "explain",
    "issue_member",
    "record_head",
    "space_was_forked",
    "weaker",
]

_Policy = tuple[str, list[str], str | None]

_Target = tuple[int, int] | None
_Instruction = tuple[int, int | None, int, list[_Target], list[_Target], int | None]
_Packed = tuple[int, bytes | bytearray, list[int] | None, list[tuple[int, memoryview]]]

@final
class Region:
    def __len__(self) -> int: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...

@final
class Bsp:
    @staticmethod
    def begin(processes: int | None) -> Bsp | None: ...
    def end(self) -> None: ...
    def pid(self) -> int: ...
    def nprocs(self) -> int: ...
    def time(self) -> float: ...
    def supersteps(self) -> int: ...
    def sync(self) -> None: ...
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
        identity_file: str | None,
        interpreters: int | None,
        throughput: float | None,
        deadline: float | None,
        policy: _Policy,
        command: list[str],
        path: list[str],
        python: str,
        silence: float,
        journal: str | os.PathLike[str] | None,
    ) -> Manager: ...
    @property
    def interpreters(self) -> int: ...
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
    def returned(self, firing: int) -> None: ...

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
        output: str | os.PathLike[str] | None,
        keep_going: bool,
        executors: tuple[list[str], str, _Policy, int | None] | None,
        files: list[tuple[str, str | os.PathLike[str]]],
    ) -> Launcher: ...
    def wait(self, patience: float) -> int | None: ...
    def signal(self, number: int) -> None: ...

@final
class Executor:
    def __new__(
        cls,
        address: str,
        *,
        identity_file: str,
        capacity: int,
        accepted: list[str],
        command: list[str],
        python: str,
        policy: _Policy,
        spaces: dict[str, Any] | None,
        environment: list[tuple[str, str]],
    ) -> Executor: ...
    @property
    def address(self) -> str: ...
    @property
    def name(self) -> str: ...
    def close(self) -> None: ...

_Fields = tuple[Any, ...]
_Place = tuple[int, ...]

@final
class LocalSpace:
    def __new__(
        cls, options: dict[str, Any], objects: bool, directory: str | os.PathLike[str] | None = None
    ) -> LocalSpace: ...
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
    def begin(self, transaction: int, timeout: float, /) -> None: ...
    def prepare(self, transaction: int, /) -> None: ...
    def commit(self, transaction: int, /) -> None: ...
    def abort(self, transaction: int, /) -> None: ...
    def watch(self, template: _Fields, where: Any, since: int | None, nudge: Callable[[], object] | None, /) -> int: ...
    def events(self, watch: int, timeout: float | None, /) -> list[tuple[int, _Fields]]: ...
    def unwatch(self, watch: int, /) -> None: ...
    def info(self) -> dict[str, Any]: ...
    def close(self) -> None: ...

@final
class RemoteSpace:
    def __new__(
        cls,
        address: str,
        options: dict[str, Any],
        objects: bool,
        *,
        identity_file: str | None,
        policy: _Policy,
        create: bool,
        members: list[str],
        seconds: float,
    ) -> RemoteSpace: ...
    @property
    def level(self) -> tuple[str, str, bool]: ...
    @property
    def ended(self) -> bool: ...
    @property
    def members(self) -> list[str]: ...
    def look(self) -> None: ...
    @property
    def created(self) -> bool: ...
    @property
    def secure(self) -> bool: ...
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
    def begin(self, transaction: int, timeout: float, /) -> None: ...
    def prepare(self, transaction: int, /) -> None: ...
    def commit(self, transaction: int, /) -> None: ...
    def abort(self, transaction: int, /) -> None: ...
    def watch(self, template: _Fields, where: Any, since: int | None, nudge: Callable[[], object] | None, /) -> int: ...
    def events(self, watch: int, timeout: float | None, /) -> list[tuple[int, _Fields]]: ...
    def unwatch(self, watch: int, /) -> None: ...
    def info(self) -> dict[str, Any]: ...
    def close(self) -> None: ...

@final
class SpaceServer:
    def __new__(
        cls,
        address: str,
        *,
        identity_file: str | None,
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
def create_grid() -> str: ...
def issue_member(authority: str, role: str, name: str) -> str: ...
def weaker(policy: _Policy) -> list[str]: ...
def explain(policy: _Policy, addresses: list[str], takes: str) -> list[tuple[str, str, str, str | None, str, bool]]: ...

@final
class SealingKey:
    def __new__(cls, secret: bytes) -> SealingKey: ...
    @staticmethod
    def random() -> bytes: ...
    def seal(self, value: Any, matched: bool, objects: bool) -> tuple[bytes, bytes]: ...
    def open(self, fingerprint: bytes, ciphertext: bytes, objects: bool) -> Any: ...

def encode_fields(fields: tuple[Any, ...], objects: bool) -> list[bytes]: ...
def decode_fields(fields: Sequence[bytes], objects: bool) -> tuple[Any, ...]: ...
