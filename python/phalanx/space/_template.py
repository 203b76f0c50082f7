"""Formals: the types and ``ANY`` that a template may hold besides values, as the native core reads them."""

from __future__ import annotations

import numbers
import sys
import types
import typing
from abc import ABCMeta
from typing import Any, Final

from phalanx.errors import SpaceError
from phalanx.space._records import Sealed, class_name, field_names, remember


class Anything:
    """The class of :data:`phalanx.space.ANY`."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "px.ANY"

    def __reduce__(self) -> str:
        return "ANY"


#: The formal that matches any value, including None.
ANY: Final = Anything()

#: A formal for the native core: the kinds of fields as words, the dtype of an array, and its number of dimensions; or
#: the name of a class.
Formal = tuple[tuple[str, ...], str | None, int | None] | str

#: Types whose instances are always values in a template, never formals.
VALUES = {str, int, float, bytes, bool, list, types.NoneType}
#: The types of the keys of :data:`_SEVERAL`.
_TYPING = {type(typing.Any), type, ABCMeta}
#: The type of aliases that Python's ``type`` statement makes (from 3.12 on), such as NDArray of numpy 2.5.
_ALIASES: Any = getattr(typing, "TypeAliasType", ())
_PLAIN: dict[object, str] = {
    bool: "bool",
    int: "int",
    float: "float",
    str: "str",
    bytes: "bytes",
    tuple: "tuple",
    list: "list",
    Sealed: "sealed",
    None: "none",
    types.NoneType: "none",
}
#: Formals that stand for several kinds, or for another one: buffers are put as bytes.
_SEVERAL: dict[object, tuple[str, ...]] = {
    typing.Any: ("any",),
    object: ("any",),
    numbers.Number: ("bool", "int", "float"),
    numbers.Complex: ("bool", "int", "float"),
    numbers.Real: ("bool", "int", "float"),
    numbers.Rational: ("bool", "int"),
    numbers.Integral: ("bool", "int"),
    bytearray: ("bytes",),
    memoryview: ("bytes",),
}


def formal_of(element: Any, objects: bool) -> Formal | None:
    """The formal that an element of a template stands for; None if it is a value. ``objects``: whether the space holds
    pickled objects. Raises SpaceError for a type whose values a space cannot recognise, or cannot hold.

    Formals are ``str``, ``int | float``, ``numbers.Real``, ``numpy.ndarray``, ``numpy.typing.NDArray[numpy.float64]``,
    ``typing.Any``, and any class whose instances have it among their bases.
    """
    kind = type(element)
    if kind in VALUES:
        return None
    if kind is type and (element in _PLAIN or _is_array(element)):
        return (_PLAIN.get(element, "array"),), None, None
    if kind in _TYPING and element in _SEVERAL:
        if objects and element.__module__ == "numbers":
            raise SpaceError(f"{element} is no formal where numbers may be objects: write a class, or int | float")
        return _SEVERAL[element], None, None
    origin = typing.get_origin(element)
    if isinstance(element, typing.NewType):
        return formal_of(element.__supertype__, objects)
    if origin is typing.Annotated:
        return formal_of(element.__origin__, objects)
    if isinstance(element, _ALIASES):
        return formal_of(element.__value__, objects)
    if isinstance(origin, _ALIASES):
        return formal_of(origin.__value__[typing.get_args(element)], objects)
    if isinstance(element, types.UnionType) or origin is typing.Union:
        return _union(typing.get_args(element), objects)
    if _is_array(origin):
        return _array(*typing.get_args(element))
    if origin is typing.Literal:
        raise SpaceError(f"{element} is no formal: write the value itself, or px.where().in_([…]) for several")
    if origin and not _is_by_behaviour(origin):
        raise SpaceError(
            f"{element} is no formal: a template cannot look into it, so write {origin.__name__} or px.ANY"
        )
    if origin or isinstance(element, typing.TypeVar) or typing.is_typeddict(element) or _is_by_behaviour(element):
        raise SpaceError(
            f"{element} is no formal: its values are not told by their class, so write a class, px.ANY or a union of "
            "plain types, as int | str"
        )
    if not isinstance(element, type):
        return None
    if field_names(element) is not None:
        remember(element)
    elif not objects:
        raise SpaceError(
            f"no tuple here holds a {element.__qualname__}: dataclasses and named tuples are in every space, other "
            "classes in one that is made with objects=True"
        )
    return class_name(element)


def _is_by_behaviour(element: Any) -> bool:
    """Whether it is an abstract class defined by behaviour, such as ``collections.abc.Mapping`` or a protocol."""
    if not isinstance(element, ABCMeta) or field_names(element) is not None:
        return False
    if typing.Protocol in element.__mro__:
        return bool(vars(element).get("_is_protocol", False))
    return element.__module__ in ("collections.abc", "numbers", "typing") or "__subclasshook__" in vars(element)


def _union(members: tuple[Any, ...], objects: bool) -> Formal:
    formals = [formal_of(member, objects) for member in members]
    plain = [formal[0] for formal in formals if isinstance(formal, tuple) and formal[1:] == (None, None)]
    if len(plain) < len(formals):
        raise SpaceError("a union in a template joins plain types only, as int | float: write px.ANY and where=")
    return tuple(kind for kinds in plain for kind in kinds), None, None


def _is_array(class_: Any) -> bool:
    numpy: Any = sys.modules.get("numpy")
    return numpy is not None and class_ is numpy.ndarray


def _array(shape: Any, dtype: Any) -> Formal:
    """The formal for ``numpy.ndarray[tuple[int, int], numpy.dtype[numpy.float64]]``: two dimensions of float64."""
    numpy: Any = sys.modules["numpy"]
    items = typing.get_args(dtype)
    named = items[0] if items and isinstance(items[0], type) and items[0] is not numpy.generic else None
    lengths = typing.get_args(shape)
    dimensions = None if not lengths or lengths[-1] is Ellipsis else len(lengths)
    return ("array",), numpy.dtype(named).str if named else None, dimensions
