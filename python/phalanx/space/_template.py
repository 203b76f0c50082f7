"""What a template may hold besides values: types and :data:`phalanx.ANY`; and what the native core knows of them."""

from __future__ import annotations

import sys
import types
import typing
from typing import Any, Final

from phalanx.errors import SpaceError
from phalanx.space._records import Sealed, class_name, field_names, remember


class Anything:
    """The class of :data:`phalanx.ANY`."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "px.ANY"

    def __reduce__(self) -> str:
        return "ANY"


#: Any value, also None.
ANY: Final = Anything()

#: A formal for the native core: the kinds of fields as words, an array's dtype, and its number of dimensions; or the
#: name of a class.
Formal = tuple[tuple[str, ...], str | None, int | None] | str

#: Types whose values stand for nothing but themselves.
VALUES = {str, int, float, bytes, bool, list, types.NoneType}
#: The type of what Python's ``type`` statement makes (from 3.12 on), as NDArray of numpy 2.5.
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


def formal_of(element: Any) -> Formal | None:
    """The formal that an element of a template stands for; None: it is a value. Raises SpaceError.

    Formals are ``str``, ``int | float``, ``numpy.ndarray``, ``numpy.typing.NDArray[numpy.float64]``, and any class.
    """
    kind = type(element)
    if kind in VALUES:
        return None
    if kind is type and (element in _PLAIN or _is_array(element)):
        return (_PLAIN.get(element, "array"),), None, None
    origin = typing.get_origin(element)
    if isinstance(element, _ALIASES):
        return formal_of(element.__value__)
    if isinstance(origin, _ALIASES):
        return formal_of(origin.__value__[typing.get_args(element)])
    if isinstance(element, types.UnionType) or origin is typing.Union:
        return _union(typing.get_args(element))
    if _is_array(origin):
        return _array(*typing.get_args(element))
    if origin:
        raise SpaceError(
            f"{element} is no formal: a template cannot look into it, so write {origin.__name__} or px.ANY"
        )
    if not isinstance(element, type):
        return None
    if field_names(element) is not None:
        remember(element)
    return class_name(element)


def _union(members: tuple[Any, ...]) -> Formal:
    formals = [formal_of(member) for member in members]
    kinds = [formal[0][0] for formal in formals if isinstance(formal, tuple) and formal[1:] == (None, None)]
    if len(kinds) < len(formals):
        raise SpaceError("a union in a template joins plain types only, as int | float: write px.ANY and where=")
    return tuple(kinds), None, None


def _is_array(class_: Any) -> bool:
    numpy: Any = sys.modules.get("numpy")
    return numpy is not None and class_ is numpy.ndarray


def _array(shape: Any, dtype: Any) -> Formal:
    """``numpy.ndarray[tuple[int, int], numpy.dtype[numpy.float64]]``: two dimensions of these."""
    numpy: Any = sys.modules["numpy"]
    items = typing.get_args(dtype)
    named = items[0] if items and isinstance(items[0], type) and items[0] is not numpy.generic else None
    lengths = typing.get_args(shape)
    dimensions = None if not lengths or lengths[-1] is Ellipsis else len(lengths)
    return ("array",), numpy.dtype(named).str if named else None, dimensions
