"""Instances of classes in tuples: records, which a space matches by the names of their classes, and pickled objects.

The native core calls :func:`describe` once for each class that it meets.
"""

from __future__ import annotations

import dataclasses
import pickle
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

from phalanx import _native
from phalanx.errors import SpaceError

#: By class: ``("record", beginning of the encoding, names of the fields)``, ``("object", names of its classes)``, or
#: a word alone for a class that the core handles itself.
DESCRIPTIONS: dict[type, tuple[Any, ...]] = {}
#: By name: the classes whose records come back as instances. This process has put them or named them in a template.
KNOWN: dict[str, type] = {}


class Record:
    """The named values of a dataclass or named tuple whose class this process does not know: ``record.score``.

    It can be put into a space again and keeps its class there. Templates and queries match it like an instance.

    Examples
    --------
    >>> record = space.rd("run", px.space.ANY)[1]  # doctest: +SKIP
    >>> record.score  # doctest: +SKIP
    2.5
    """

    __slots__ = ("_classes", "_values")

    def __init__(self, classes: tuple[str, ...], values: dict[str, Any]) -> None:
        self._classes = classes
        self._values = values

    def _asdict(self) -> dict[str, Any]:
        return dict(self._values)

    def __getattr__(self, name: str) -> Any:
        if name in Record.__slots__:  # the slots are empty while the record is copied or unpickled
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
    """A value that its owner has encrypted: the space matches it by its fingerprint and cannot read it.

    Examples
    --------
    >>> import phalanx as px
    >>> key = px.space.SealingKey(context="patients")
    >>> with px.Space() as space:
    ...     space.out(*key.seal_fields(("patient", "Meier"), matched=[1]))
    ...     space.count("patient", px.space.Sealed)
    1
    """

    fingerprint: bytes
    ciphertext: bytes

    def __repr__(self) -> str:
        """The first 8 digits of the fingerprint, and the number of bytes."""
        return f"Sealed({bytes(self.fingerprint).hex()[:8]}…, {len(self.ciphertext)} bytes)"


def class_name(class_: type) -> str:
    """The name by which a space knows a class."""
    return f"{class_.__module__}:{class_.__qualname__}"


def describe(class_: type) -> tuple[Any, ...]:
    """How the instances of a class are encoded; see :data:`DESCRIPTIONS`."""
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
    """Whether every value of a numpy scalar class has an equal plain Python value."""
    plain = (numpy.bool_, numpy.integer, numpy.floating, numpy.str_, numpy.bytes_)
    return issubclass(class_, plain) and not issubclass(class_, numpy.timedelta64 | numpy.longdouble)


def field_names(class_: type) -> tuple[str, ...] | None:
    """The field names of a dataclass or named tuple; None for other classes."""
    if dataclasses.is_dataclass(class_):
        return tuple(field.name for field in dataclasses.fields(class_))
    names = getattr(class_, "_fields", None)
    return names if issubclass(class_, tuple) and isinstance(names, tuple) else None


def remember(class_: type) -> None:
    """Lets records of this class come back as its instances from now on."""
    KNOWN[class_name(class_)] = class_


def build(classes: tuple[str, ...], values: dict[str, Any]) -> Any:
    """Builds a received record. It is an instance if this process knows its class with exactly these fields, made as
    ``copy`` makes it, without calling ``__init__`` or ``__post_init__``. Else it is a :class:`Record`."""
    class_ = KNOWN.get(classes[0])
    if class_ is None or field_names(class_) != tuple(values):
        return Record(classes, values)
    if issubclass(class_, tuple):
        return tuple.__new__(class_, values.values())
    try:
        made = object.__new__(class_)
    except TypeError:  # a class with a memory layout of its own, such as an exception
        return Record(classes, values)
    for name, value in values.items():
        object.__setattr__(made, name, value)
    return made


def pickle_object(value: object) -> bytes:
    """Pickles a value for a space with ``objects=True``. Raises SpaceError if it cannot be pickled."""
    try:
        return pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)
    except Exception as error:
        raise SpaceError(f"{type(value).__qualname__} cannot be pickled: {error}") from error


def open_object(classes: tuple[str, ...], pickled: bytes, objects: bool) -> Any:
    """Unpickles a received value. Raises SpaceError if the space was not opened with ``objects=True``, because opening
    a pickle runs code that its sender wrote."""
    if not objects:
        raise SpaceError(
            f"a tuple holds a pickled {classes[0]}: open the space with objects=True if you trust its users, and "
            "so the SealingKey of a sealed one"
        )
    try:
        return pickle.loads(pickled)  # objects=True says that the users of the space are trusted
    except Exception as error:
        raise SpaceError(f"a pickled {classes[0]} cannot be opened: {error}") from error
