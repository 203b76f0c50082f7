"""Tokens as bytes: how tasks, results and code are pickled.

Plain immutable objects, and tuples of them, are pickled together as one list, which costs about 30 ns per object.
All other objects are pickled one by one. So no two tasks of a batch share an object that one of them might change.
Large buffers (arrays) stay outside the pickles (protocol 5) and are sent from where they lie in memory.
"""

from __future__ import annotations

import io
import pickle
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, chain
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from typing import TypeAlias

    from phalanx._native import Region

    #: The number of tokens, the pickles, and their lengths (None: one pickle of a list of all). Then each buffer
    #: outside the pickles, with the index of its token.
    Packed: TypeAlias = tuple[int, bytes, list[int] | None, list[tuple[int, memoryview]]]
    Unpacked: TypeAlias = tuple[int, Region, list[int] | None, list[tuple[int, Region]]]

PROTOCOL = 5
#: Minimum bytes of a buffer outside the pickle. Smaller ones stay inside, because a view would keep the whole batch
#: alive for a small array.
LARGE = 64 << 10

#: Maximum characters of a task's repr in a message.
LONGEST_REPR = 200

#: Stands for a task that its sender has not kept.
UNKNOWN: Any = object()

#: Types of objects that cannot change.
PLAIN = frozenset({int, float, complex, bool, str, bytes, type(None)})


def pack(objects: Sequence[Any]) -> Packed:
    """Objects as tokens. Raises what pickle raises for the first one that cannot be pickled."""
    if are_plain(objects):
        return pack_plain(objects)
    tokens = [item if type(item) is Token else Token(item) for item in objects]
    attached = [(index, buffer) for index, token in enumerate(tokens) for buffer in token.buffers]
    pickles = [token.pickled for token in tokens]
    return len(objects), b"".join(pickles), list(map(len, pickles)), attached


def pack_plain(objects: Sequence[Any]) -> Packed:
    """Objects that :func:`are_plain` as tokens."""
    return len(objects), pickle.dumps(objects, PROTOCOL), None, []


def are_plain(objects: Sequence[Any]) -> bool:
    """Whether all objects are plain, or all are tuples of plain objects."""
    types = set(map(type, objects))
    return types <= PLAIN or (types == {tuple} and PLAIN.issuperset(map(type, chain.from_iterable(objects))))


def pack_separately(objects: Sequence[Any]) -> Packed:
    """Plain objects and :class:`Token` objects as tokens that can be taken out one by one. A graph needs that, because
    its tokens go different ways."""
    attached = [(index, buffer) for index, item in enumerate(objects) if type(item) is Token for buffer in item.buffers]
    pickles = [item.pickled if type(item) is Token else pickle.dumps(item, PROTOCOL) for item in objects]
    return len(objects), b"".join(pickles), list(map(len, pickles)), attached


def pack_each(objects: Sequence[Any]) -> Packed:
    """Objects as tokens that can be taken out one by one. Raises as :func:`pack` does."""
    return pack_separately([item if type(item) in PLAIN or type(item) is Token else Token(item) for item in objects])


class Token:
    """An object pickled alone, as it is now. Only its large ``buffers`` can still change."""

    __slots__ = ("buffers", "pickled")

    def __init__(self, item: Any) -> None:
        self.buffers: list[memoryview] = []
        self.pickled = _dumps(item, self.buffers)


def unpack(tokens: Unpacked, first: int = 0, count: int | None = None, *, read_only: bool = False) -> Iterator[Any]:
    """The objects of tokens, from number ``first`` on. Each is unpickled when the iterator reaches it. If that raises,
    the iterator continues with the next one. ``read_only``: their arrays are not writable."""
    total, pickles, lengths, attached = tokens
    count = total - first if count is None else count
    if lengths is None:
        objects = pickle.loads(pickles)
        return iter(objects if count == total else objects[first : first + count])
    view = memoryview(pickles)
    if not attached:
        ends = list(accumulate(lengths, initial=0))
        parts = (view[ends[index] : ends[index + 1]] for index in range(first, first + count))
        return map(_load, parts)
    return map(_loader(view, lengths, attached, read_only), range(first, first + count))


def dumps(item: Any) -> bytes:
    """Pickles an object, including one that only the main module of this program defines."""
    return _dumps(item, None)


class Code(NamedTuple):
    """Pickled functions, and whether one that they name is marked."""

    pickled: bytes
    marked_code: bool
    marked_data: bool


def dumps_code(code: Any) -> Code:
    """Pickles functions, by value if the other side cannot import them."""
    from phalanx._pickling import Pickler  # imported only here, because cloudpickle is slow to import

    file = io.BytesIO()
    pickler = Pickler(file, PROTOCOL)
    pickler.dump(code)
    return Code(file.getvalue(), "code" in pickler.marks, "data" in pickler.marks)


def short(item: Any) -> str:
    """The shortened repr of an object, for messages."""
    try:
        text = repr(item)
    except Exception:
        text = f"<{type(item).__qualname__} without a repr>"
    return text if len(text) <= LONGEST_REPR else text[:LONGEST_REPR] + "…"


def _loader(view: memoryview, lengths: list[int], attached: list[tuple[int, Region]], read_only: bool) -> Any:
    ends = list(accumulate(lengths, initial=0))
    buffers: dict[int, list[Any]] = {}
    for index, buffer in attached:
        buffers.setdefault(index, []).append(memoryview(buffer).toreadonly() if read_only else buffer)
    return lambda index: _load(view[ends[index] : ends[index + 1]], buffers.get(index, ()))


def _load(pickled: memoryview, buffers: Iterable[Any] = ()) -> Any:
    try:
        return pickle.loads(pickled, buffers=buffers)
    except StopIteration as error:  # would look like the end of the objects to the code that iterates over them
        raise RuntimeError("unpickling raised StopIteration") from error


def _dumps(item: Any, attached: list[memoryview] | None) -> bytes:
    def stays_inside(buffer: pickle.PickleBuffer) -> bool:
        raw = buffer.raw()
        if attached is None or raw.nbytes < LARGE:
            return True
        attached.append(raw)
        return False

    try:
        data = pickle.dumps(item, PROTOCOL, buffer_callback=stays_inside)
        if is_by_reference(data):
            return data
    except Exception:  # any error of a reducer: cloudpickle handles more types, and its error is clearer
        pass
    from phalanx._pickling import dumps_by_value

    if attached is not None:
        attached.clear()
    # Objects of this main module go by value, because the interpreter has another main module.
    return dumps_by_value(item, PROTOCOL, stays_inside)


def is_by_reference(pickled: bytes) -> bool:
    """Whether the other side can unpickle this plain pickle, because it can import everything that the pickle names."""
    return b"__main__" not in pickled and not _needs_pickler(pickled)


def _needs_pickler(pickled: bytes) -> bool:
    """Whether a plain pickle may name something that needs the pickler of phalanx.

    That is a module for which ``cloudpickle.register_pickle_by_value`` was called, or a proxy of a
    :mod:`multiprocessing` manager.
    """
    if "multiprocessing.managers" in sys.modules and b"RebuildProxy" in pickled:
        return True
    cloudpickle = sys.modules.get("cloudpickle")
    registered = cloudpickle.list_registry_pickle_by_value() if cloudpickle is not None else ()
    return bool(registered) and any(name.encode() in pickled for name in registered)
