"""What goes into a tuple comes out of it, and equality is exact."""

from __future__ import annotations

import collections.abc
import enum
import math
import numbers
import random
import string
import typing
from abc import ABC
from collections import namedtuple
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any, Generic, NamedTuple, TypeVar
from uuid import UUID

import numpy
import phalanx as px
import pytest
from numpy.typing import NDArray
from phalanx.space import _records


@dataclass
class Task:
    name: str
    size: int = 0
    parts: list[Any] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Urgent:
    reason: str


@dataclass
class Big(Task):
    weight: float = 1.0


class Point(NamedTuple):
    x: int
    y: int


Pair = namedtuple("Pair", "left right")


class Thing:
    """No dataclass: travels as a pickle only."""

    def __init__(self, value: int) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Thing) and self.value == other.value

    __hash__ = None  # type: ignore[assignment]


class SubThing(Thing):
    pass


class Color(enum.IntEnum):
    RED = 1


def there_and_back(space: px.Space, value: Any) -> Any:
    space.out("value", value)
    (_, found) = space.in_("value", px.ANY)
    return found


def same(one: Any, other: Any) -> bool:
    """Equal, of equal types, all the way down."""
    if type(one) is not type(other):
        return False
    if isinstance(one, float):
        return (math.isnan(one) and math.isnan(other)) or (
            one == other and math.copysign(1, one) == math.copysign(1, other)
        )
    if isinstance(one, numpy.ndarray):
        return bool(one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes())
    if isinstance(one, tuple | list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, Task):
        return same(vars(one).copy().popitem(), vars(other).copy().popitem()) and vars(one).keys() == vars(other).keys()
    return bool(one == other)


def some_value(source: random.Random, depth: int = 0) -> Any:
    """A value of any kind that a tuple holds."""
    kinds: list[Any] = [
        lambda: None,
        lambda: source.random() < 0.5,
        lambda: source.randint(-3, 3),
        lambda: source.choice([-1, 1]) * source.getrandbits(source.choice([7, 31, 62, 63, 64, 65, 200, 3000])),
        lambda: source.choice([0.0, -0.0, 1.0, math.nan, math.inf, -math.inf, 5e-324, source.uniform(-1e9, 1e9)]),
        lambda: "".join(source.choices(string.printable + "äλ✓🙂\0", k=source.choice([0, 1, 5, 200]))),
        lambda: source.randbytes(source.choice([0, 1, 17, 300])),
        lambda: some_array(source),
    ]
    if depth < 4:
        kinds += [
            lambda: tuple(some_value(source, depth + 1) for _ in range(source.randrange(4))),
            lambda: [some_value(source, depth + 1) for _ in range(source.randrange(4))],
            lambda: Task(source.choice("abc"), source.randrange(9), [some_value(source, depth + 1)]),
            lambda: Urgent(source.choice("abc")),
            lambda: Point(source.randrange(9), source.randrange(9)),
        ]
    return source.choice(kinds)()


def some_array(source: random.Random) -> NDArray[Any]:
    shape = [source.randrange(4) for _ in range(source.randrange(4))]
    dtype = source.choice(["u1", "<i4", ">i4", "<f8", "<f4", "<c16", "?", "<U3", "S4", "<M8[ms]", "<m8[s]"])
    size = int(numpy.prod(shape)) * numpy.dtype(dtype).itemsize
    letters = [0, 65, 97] if dtype in ("<U3", "S4") else range(2 if dtype == "?" else 256)
    items = bytes(source.choices(letters, k=size))
    if dtype == "<U3":
        items = b"".join(byte.to_bytes(4, "little") for byte in items[: size // 4])
    array: NDArray[Any] = numpy.frombuffer(items, dtype).reshape(shape).copy()
    return array


def test_any_value_comes_back_as_it_was(space: px.Space) -> None:
    source = random.Random(0)
    for number in range(3000):
        fields = tuple(some_value(source) for _ in range(source.randrange(5)))
        space.out(number, *fields)
        found = space.rdp(number, *[px.ANY] * len(fields))
        assert found is not None
        assert same(found, (number, *fields)), fields


def test_any_value_matches_itself_as_an_actual(space: px.Space) -> None:
    source = random.Random(1)
    for _ in range(1000):
        fields = tuple(some_value(source) for _ in range(source.randrange(1, 4)))
        space.out(*fields)
        found = space.inp(*fields)
        assert found is not None
        assert same(found, fields), fields
        assert space.inp(*fields) is None


# No two of these are equal in a space.
DIFFERENT: list[Any] = [
    None,
    False,
    True,
    0,
    1,
    "1",
    b"1",
    1.0,
    0.0,
    -0.0,
    math.nan,
    "",
    b"",
    (),
    [],
    (1,),
    [1],
    (True,),
    ((),),
    2**63,
    -(2**63),
    -(2**63) - 1,
    numpy.array([1]),
    numpy.array(1),
    numpy.array([1], ">i8"),
    numpy.array([[1]]),
    numpy.array([1], numpy.uint8),
    Task("a"),
    Big("a"),
    Task("b"),
    Urgent("a"),
    Point(1, 2),
    Pair(1, 2),
    (1, 2),
]


def test_equality_is_exact(space: px.Space) -> None:
    for value in DIFFERENT:
        space.out(value)
    for value in DIFFERENT:
        assert space.count(value) == 1, value
        found = space.rdp(value)
        assert found is not None
        assert same(found, (value,)), value


FORMALS: list[tuple[Any, list[Any]]] = [
    (bool, [True, False]),
    (int, [0, 1, -5, 2**80]),
    (float, [0.5, math.nan]),
    (str, ["", "a"]),
    (bytes, [b""]),
    (tuple, [(), (1,)]),
    (list, [[], [1]]),
    (numpy.ndarray, [numpy.zeros(3), numpy.zeros((2, 2), "<i4")]),
    (Task, [Task("a"), Big("b")]),
    (Big, [Big("b")]),
    (Urgent, [Urgent("x")]),
    (Point, [Point(1, 2)]),
    (int | float, [0, 1, -5, 2**80, 0.5, math.nan]),
    (str | None, ["", "a", None]),
    (numbers.Real, [True, False, 0, 1, -5, 2**80, 0.5, math.nan]),
    (numbers.Integral, [True, False, 0, 1, -5, 2**80]),
    (str | numbers.Integral, ["", "a", True, False, 0, 1, -5, 2**80]),
    (typing.Annotated[str, "a name"], ["", "a"]),
    (typing.NewType("Name", str), ["", "a"]),
    (bytearray, [b""]),
    (NDArray[numpy.float64], [numpy.zeros(3)]),
    (NDArray[numpy.int32], [numpy.zeros((2, 2), "<i4")]),
    ((int, str), [(7, "x")]),
    ((px.ANY, "x"), [(7, "x")]),
    ((int, px.ANY), [(7, "x")]),
    (None, [None]),
]


@pytest.mark.parametrize(("formal", "matching"), FORMALS, ids=lambda value: repr(value)[:30])
def test_a_formal_matches_the_values_of_its_type_only(space: px.Space, formal: Any, matching: list[Any]) -> None:
    everything: list[Any] = [True, False, 0, 1, -5, 2**80, 0.5, math.nan, "", "a", b"", (), (1,), [], [1], None]
    everything += [numpy.zeros(3), numpy.zeros((2, 2), "<i4"), Task("a"), Big("b"), Urgent("x"), Point(1, 2), (7, "x")]
    for value in everything:
        space.out(value)
    expected = [*matching, *([(7, "x")] if formal is tuple else [])]
    found = [value for (value,) in space.rd_all(formal)]
    assert sorted(map(repr, found)) == sorted(map(repr, expected))
    assert space.count(px.ANY) == len(everything)


T = TypeVar("T")


class Walks(typing.Protocol):
    """What has legs."""

    def walk(self) -> None: ...


@pytest.mark.parametrize("formal", [typing.Any, object, int | typing.Any, (typing.Any, object)], ids=repr)
def test_any_type_is_any_value(space: px.Space, formal: Any) -> None:
    for value in (None, 3, "a", Task("a"), (1, 2), [1]):
        space.out(value)
    assert space.count(formal) == (1 if isinstance(formal, tuple) else 6)


@pytest.mark.parametrize(
    ("formal", "why"),
    [
        (collections.abc.Mapping, "not told by their class"),
        (collections.abc.Sequence[int], "not told by their class"),
        (typing.Hashable, "not told by their class"),
        (typing.TypeVar("T"), "not told by their class"),
        (Walks, "not told by their class"),
        (typing.Literal[1], "write the value itself"),
        (list[int], "write list or px.ANY"),
        (dict, "no tuple here holds a dict: .* objects=True"),
        (enum.Enum, "no tuple here holds a Enum"),
        (int | dict, "no tuple here holds a dict"),
        (int | Task, "joins plain types only"),
    ],
    ids=repr,
)
def test_a_type_whose_values_cannot_be_told_is_refused(space: px.Space, formal: Any, why: str) -> None:
    with pytest.raises(px.SpaceError, match=why):
        space.rdp("a", formal)
    with pytest.raises(px.SpaceError, match=why):
        space.rdp("a", (1, formal))


@dataclass
class Walker(Walks):
    legs: int

    def walk(self) -> None:
        """On them."""


class Box(ABC, Generic[T]):
    """A class of the user's."""


def test_a_record_of_a_protocol_matches_by_its_class(space: px.Space) -> None:
    space.out(Walker(2))
    assert space.rdp(Walker) == (Walker(2),)
    with pytest.raises(px.SpaceError, match=r"write Box or px\.ANY"):
        space.rdp(Box[int])


def test_classes_of_pickled_objects_match_where_there_are_some() -> None:
    with px.Space(objects=True) as space:
        for value in ({"a": 1}, {1}, Decimal("1.5"), datetime(2026, 1, 1), UUID(int=3), Color.RED):
            space.out(value)
            assert space.rdp(type(value)) == (value,)
            assert space.rdp(value) == (value,)
        assert space.rdp(enum.Enum) == (Color.RED,)
        with pytest.raises(px.SpaceError, match="where numbers may be objects"):
            space.rdp(numbers.Number)


def test_what_is_like_a_value_goes_as_that_value(space: px.Space) -> None:
    assert same(there_and_back(space, bytearray(b"ab")), b"ab")
    assert same(there_and_back(space, memoryview(b"abcd")[::2]), b"ac")
    assert same(there_and_back(space, numpy.int64(3)), 3)
    assert same(there_and_back(space, numpy.float32(0.5)), 0.5)
    assert same(there_and_back(space, numpy.bool_(True)), True)
    assert same(there_and_back(space, numpy.str_("a")), "a")


def test_arrays_come_back_as_they_were_and_can_be_changed(space: px.Space) -> None:
    array = numpy.arange(24, dtype=float).reshape(2, 3, 4)
    for view in (array, array.T, array[:, ::2], numpy.asfortranarray(array), numpy.array(3.0), array[:0]):
        found = there_and_back(space, view)
        assert numpy.array_equal(found, view)
        assert found.shape == view.shape
        found[...] = 7
    assert array[0, 0, 1] == 1


def test_instances_come_back_as_their_class_without_running_its_code(space: px.Space) -> None:
    made = Big("a", 3, [Point(1, 2), Urgent("now")], 2.5)
    found = there_and_back(space, made)
    assert type(found) is Big
    assert found == made
    assert type(there_and_back(space, Pair(1, Task("x"))).right) is Task


def test_instances_of_an_unknown_class_come_back_as_records(space: px.Space, monkeypatch: pytest.MonkeyPatch) -> None:
    space.out("task", Task("a", 3))
    monkeypatch.delitem(_records.KNOWN, _records.class_name(Task))
    _, record = space.in_("task", px.ANY)
    assert isinstance(record, px.Record)
    assert (record.name, record.size, record.parts) == ("a", 3, [])
    with pytest.raises(AttributeError, match="has no 'weight', it has name, size, parts"):
        _ = record.weight
    space.out("task", record)
    assert space.rdp("task", record) == ("task", record)
    assert space.rdp("task", Task) == ("task", Task("a", 3))  # naming the class makes it known again


def test_a_class_with_other_fields_than_those_that_came_is_not_filled_in(
    space: px.Space, monkeypatch: pytest.MonkeyPatch
) -> None:
    space.out(Urgent("x"))
    monkeypatch.setitem(_records.KNOWN, _records.class_name(Urgent), Task)
    (record,) = space.in_(px.ANY)
    assert isinstance(record, px.Record)
    assert record._asdict() == {"reason": "x"}


WRONG: list[Any] = [
    {"a": 1},
    {1},
    object(),
    Thing(1),
    Color.RED,
    1j,
    numpy.array([object()]),
    numpy.zeros(2, [("a", "i4")]),
    numpy.ma.masked_array([1]),
    numpy.longdouble(1),
    lambda: None,
    int,
]


@pytest.mark.parametrize("value", WRONG, ids=lambda value: type(value).__name__)
def test_what_a_tuple_does_not_hold_is_refused_by_name(space: px.Space, value: Any) -> None:
    with pytest.raises(TypeError, match=r"objects=True|dtype"):
        space.out("value", value)
    with pytest.raises(TypeError, match=r"objects=True|dtype"):
        space.out("value", [(value,)])
    assert space.info().tuples == 0


def test_limits_of_a_tuple(space: px.Space) -> None:
    with pytest.raises(ValueError, match="4097 fields are more than 4096"):
        space.out(*range(4097))
    with pytest.raises(ValueError, match="fields are more than"):
        space.out([0] * 5000)
    deep: Any = 0
    for _ in range(32):
        deep = (deep,)
    assert same(there_and_back(space, deep), deep)
    with pytest.raises(ValueError, match="inside of each other"):
        space.out((deep,))
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(ValueError, match="inside of each other"):
        space.out(endless)
    with pytest.raises(UnicodeEncodeError):
        space.out("\ud800")
    with px.Space(most_tuple_bytes=1000) as small:
        small.out(bytes(900))
        with pytest.raises(ValueError, match="longer than 1000"):
            small.out(bytes(1100))
        with pytest.raises((ValueError, px.SpaceError), match="1000"):
            small.out(*["a" * 90] * 20)
    assert space.info().tuples == 0


def test_objects_travel_as_pickles_where_that_was_said() -> None:
    with px.Space(objects=True) as space:
        space.out("thing", SubThing(3))
        space.out("set", {1, 2})
        assert space.rdp("thing", Thing) == ("thing", SubThing(3))
        assert space.rdp("thing", SubThing) == ("thing", SubThing(3))
        assert space.rdp("thing", dict) is None
        assert space.rdp("set", set) == ("set", {1, 2})
        with pytest.raises(px.SpaceError, match="cannot be pickled"):
            space.out(lambda: None)


def test_types_in_templates_that_cannot_be_are_refused(space: px.Space) -> None:
    with pytest.raises(px.SpaceError, match="union"):
        space.rdp(int | Task)
    with pytest.raises(TypeError, match="no selector"):
        space.rdp(1, select=("fifo",))  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        space.rdp(1, where=3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="whole tuple"):
        space.rdp(int, where=px.where() > 3)
    with pytest.raises(TypeError, match="positions from 0"):
        px.where(-1)
    with pytest.raises(TypeError, match="truth value"):
        bool(px.where(1) > 3)
    with pytest.raises(TypeError, match="truth value"):
        _ = 1 < px.where(1) < 3
