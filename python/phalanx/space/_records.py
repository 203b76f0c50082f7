"""Instances of classes in tuples: named values that a space matches by the names of their classes, and pickles.

The native core asks :func:`describe` once for each class that it meets.
"""

from __future__ import annotations

import dataclasses
import pickle
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

from phalanx import _native
from phalanx.errors import SpaceError

#: For each class that was met: ``("record", beginning of the encoding, names of the fields)``,
#: ``("object", names of its classes)``, or the word alone for what the core knows how to handle.
DESCRIPTIONS: dict[type, tuple[Any, ...]] = {}
#: The classes that records come back as, by their names: those that this process put or named in a template.
KNOWN: dict[str, type] = {}


class Record:
    """Named values of a dataclass or named tuple that this process does not know: ``record.score``.

    It can be put into a space again, and is there what it was before. Templates and queries match it as they would
    match an instance.
    """

    __slots__ = ("_classes", "_values")

    def __init__(self, classes: tuple[str, ...], values: dict[str, Any]) -> None:
        self._classes = classes
        self._values = values

    def _asdict(self) -> dict[str, Any]:
        return dict(self._values)

    def __getattr__(self, name: str) -> Any:
        if name in Record.__slots__:  # not there yet, while it is copied or unpickled
            raise AttributeError(name)
        try:
            return self._values[name]
        except KeyError:
            raise AttributeError(f"a {self._classes[0]} has no {name!r}, it has {', '.join(self._values)}") from None

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._values]

    def __eq__(self, other: object) -> bool:
        same = isinstance(other, Record) and self._classes == other._classes
        return same and self._values == other._values if isinstance(other, Record) else NotImplemented

    def __hash__(self) -> int:
        return hash((self._classes, *self._values.items()))

    def __iter__(self) -> Iterator[Any]:
        return iter(self._values.values())

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={value!r}" for name, value in self._values.items())
        return f"Record {self._classes[0]}({values})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Record, (self._classes, self._values)


class Sealed(NamedTuple):
    """A value that its owner has encrypted: the space matches it by its fingerprint and cannot read it."""

    fingerprint: bytes
    ciphertext: bytes

    def __repr__(self) -> str:
        """Which value it is, in the first 8 digits of its fingerprint, and how many bytes it has."""
        return f"Sealed({bytes(self.fingerprint).hex()[:8]}…, {len(self.ciphertext)} bytes)"


def class_name(class_: type) -> str:
    """What a space knows a class by."""
    return f"{class_.__module__}:{class_.__qualname__}"


def describe(class_: type) -> tuple[Any, ...]:
    """What is to be made of a class's instances; see :data:`DESCRIPTIONS`."""
    found = _describe(class_)
    DESCRIPTIONS[class_] = found
    return found


def _describe(class_: type) -> tuple[Any, ...]:
    if issubclass(class_, bytearray | memoryview):
        return ("buffer",)
    if class_ is Sealed:
        return ("sealed",)
    if class_ is Record:
        return ("named",)
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None and class_ in (numpy.ndarray, numpy.memmap):
        return ("array",)
    if numpy is not None and issubclass(class_, numpy.generic) and _is_plain(numpy, class_):
        return ("scalar",)
    names = field_names(class_)
    if names is None:
        return ("object", tuple(class_name(each) for each in class_.__mro__ if each is not object))
    remember(class_)
    classes = [class_name(each) for each in class_.__mro__ if field_names(each) is not None]
    return "record", _native.record_head(classes, len(names)), names


def _is_plain(numpy: Any, class_: type) -> bool:
    """Whether a class of numpy's scalars has a plain value of Python's for each of its own."""
    plain = (numpy.bool_, numpy.integer, numpy.floating, numpy.str_, numpy.bytes_)
    return issubclass(class_, plain) and not issubclass(class_, numpy.timedelta64 | numpy.longdouble)


def field_names(class_: type) -> tuple[str, ...] | None:
    """The names of the fields, of a dataclass or named tuple; None for other classes."""
    if dataclasses.is_dataclass(class_):
        return tuple(field.name for field in dataclasses.fields(class_))
    names = getattr(class_, "_fields", None)
    return names if issubclass(class_, tuple) and isinstance(names, tuple) else None


def remember(class_: type) -> None:
    """From now on records of this class come back as its instances."""
    KNOWN[class_name(class_)] = class_


def build(classes: tuple[str, ...], values: dict[str, Any]) -> Any:
    """A record that came: an instance if this process knows its class with these very fields, as ``copy`` would make it
    (``__init__`` and ``__post_init__`` are not called); else a :class:`Record`."""
    class_ = KNOWN.get(classes[0])
    if class_ is None or field_names(class_) != tuple(values):
        return Record(classes, values)
    if issubclass(class_, tuple):
        return tuple.__new__(class_, values.values())
    try:
        made = object.__new__(class_)
    except TypeError:  # its memory is not laid out by Python alone, as that of exceptions is
        return Record(classes, values)
    for name, value in values.items():
        object.__setattr__(made, name, value)
    return made


def pickle_object(value: object) -> bytes:
    """A value of a space with ``objects=True``. Raises SpaceError if it cannot be pickled."""
    try:
        return pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)
    except Exception as error:
        raise SpaceError(f"{type(value).__qualname__} cannot be pickled: {error}") from error


def open_object(classes: tuple[str, ...], pickled: bytes, objects: bool) -> Any:
    """A pickled value that came. Raises SpaceError where the space was not made with ``objects=True``: to open a pickle
    is to run what its sender wrote."""
    if not objects:
        raise SpaceError(
            f"a tuple holds a pickled {classes[0]}: open the space with objects=True if you trust its users, and "
            "so the SealingKey of a sealed one"
        )
    try:
        return pickle.loads(pickled)  # who opened the space said that its users are trusted
    except Exception as error:
        raise SpaceError(f"a pickled {classes[0]} cannot be opened: {error}") from error
