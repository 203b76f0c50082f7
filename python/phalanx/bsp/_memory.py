"""Memory of other processes: registered arrays are written and read in place.

An array is any object with the buffer protocol, in C order: arrays of numpy and array, bytearrays, memoryviews. Arrays
of Python objects are not supported: send these as messages.
"""

from __future__ import annotations

import re
from pickle import PickleBuffer
from typing import Any, TypeAlias

from phalanx.bsp._program import program
from phalanx.errors import BspError

#: The buffer protocol has no type before Python 3.12.
Buffer: TypeAlias = Any
# Letters in the format of items for an object, a pointer, and a typed pointer. Names of fields stand between colons.
_REFERENCE = re.compile("[OP&]")


def push_reg(array: Buffer) -> None:
    """Registers an array: from the next superstep on others may write and read it.

    All processes register in the same order, each its own array, of its own length, which may be 0. An array is kept
    alive while it is registered. ``put`` and the others name the array of another process by this process's array.

    Parameters
    ----------
    array
        A numpy array, or another writable buffer, of this process.

    Examples
    --------
    >>> import numpy as np
    >>> from phalanx import bsp
    >>> with bsp.begin():
    ...     numbers = np.zeros(2)
    ...     bsp.push_reg(numbers)
    ...     bsp.sync()
    ...     bsp.put(bsp.pid(), np.ones(1), numbers, 1)
    ...     bsp.sync()
    ...     print(numbers)
    [0. 1.]
    """
    program().push_reg(_writable("push_reg", "array", array))


def pop_reg(array: Buffer) -> None:
    """Ends the latest registration of an array, from the next superstep on. All processes do so in the same order.

    Parameters
    ----------
    array
        An array that this process has registered.

    Examples
    --------
    >>> import numpy as np
    >>> from phalanx import bsp
    >>> with bsp.begin():
    ...     numbers = np.zeros(2)
    ...     bsp.push_reg(numbers)
    ...     bsp.sync()
    ...     bsp.pop_reg(numbers)
    ...     bsp.sync()
    """
    program().pop_reg(_raw("pop_reg", "array", _view("pop_reg", "array", array)))


def put(pid: int, source: Buffer, array: Buffer, offset: int = 0) -> None:
    """Writes a copy of ``source`` into the array of a process, from item ``offset`` on, at the next sync.

    Parameters
    ----------
    pid : int
        The process that is written to.
    source
        An array or bytes of this process.
    array
        This process's array in the place of the one that is written.
    offset : int
        The first item of it that is written.

    Raises
    ------
    BspError
        The items are not within the array that the other process registered.

    Examples
    --------
    >>> import numpy as np
    >>> from phalanx import bsp
    >>> with bsp.begin():
    ...     numbers = np.zeros(2)
    ...     bsp.push_reg(numbers)
    ...     bsp.sync()
    ...     bsp.put(bsp.pid(), np.ones(1), numbers, 1)
    ...     bsp.sync()
    ...     print(numbers)
    [0. 1.]
    """
    view, target = _view("put", "source", source), _view("put", "array", array)
    _check_alike("put", view, target)
    data = _raw("put", "source", view) if view.c_contiguous else view.tobytes()
    program().put(pid, data, _raw("put", "array", target), offset * target.itemsize)


def hpput(pid: int, source: Buffer, array: Buffer, offset: int = 0) -> None:
    """As :func:`put`, without a copy of long data. ``source`` may be read, and the array written, at any time until the
    next sync has ended.

    Parameters
    ----------
    pid, source, array, offset
        As for :func:`put`.

    Raises
    ------
    BspError
        As for :func:`put`.

    Examples
    --------
    >>> import numpy as np
    >>> from phalanx import bsp
    >>> with bsp.begin():
    ...     numbers = np.zeros(2)
    ...     bsp.push_reg(numbers)
    ...     bsp.sync()
    ...     bsp.hpput(bsp.pid(), np.ones(1), numbers, 1)
    ...     bsp.sync()
    ...     print(numbers)
    [0. 1.]
    """
    view, target = _view("hpput", "source", source), _view("hpput", "array", array)
    _check_alike("hpput", view, target)
    program().hpput(pid, _raw("hpput", "source", view), _raw("hpput", "array", target), offset * target.itemsize)


def get(pid: int, array: Buffer, into: Buffer, offset: int = 0) -> None:
    """Fills ``into`` from the array of a process, from item ``offset`` on, at the next sync. It gets the values before
    any put of that sync.

    Parameters
    ----------
    pid : int
        The process that is read.
    array
        This process's array in the place of the one that is read.
    into
        A writable array of this process, which is filled as a whole.
    offset : int
        The first item that is read.

    Raises
    ------
    BspError
        The items are not within the array that the other process registered.

    Examples
    --------
    >>> import numpy as np
    >>> from phalanx import bsp
    >>> with bsp.begin():
    ...     numbers = np.zeros(2)
    ...     bsp.push_reg(numbers)
    ...     bsp.sync()
    ...     found = np.ones(1)
    ...     bsp.get(bsp.pid(), numbers, found)
    ...     bsp.sync()
    ...     print(found)
    [0.]
    """
    target, area = _writable("get", "into", into), _view("get", "array", array)
    _check_alike("get", _view("get", "into", into), area)
    program().get(pid, _raw("get", "array", area), offset * area.itemsize, target)


def hpget(pid: int, array: Buffer, into: Buffer, offset: int = 0) -> None:
    """As :func:`get`, without a copy of long data. The array may be read, and ``into`` written, at any time until the
    next sync has ended.

    Parameters
    ----------
    pid, array, into, offset
        As for :func:`get`.

    Raises
    ------
    BspError
        As for :func:`get`.

    Examples
    --------
    >>> import numpy as np
    >>> from phalanx import bsp
    >>> with bsp.begin():
    ...     numbers = np.zeros(2)
    ...     bsp.push_reg(numbers)
    ...     bsp.sync()
    ...     found = np.ones(1)
    ...     bsp.hpget(bsp.pid(), numbers, found)
    ...     bsp.sync()
    ...     print(found)
    [0.]
    """
    target, area = _writable("hpget", "into", into), _view("hpget", "array", array)
    _check_alike("hpget", _view("hpget", "into", into), area)
    program().hpget(pid, _raw("hpget", "array", area), offset * area.itemsize, target)


def _view(call: str, name: str, array: Buffer) -> memoryview:
    try:
        view = memoryview(array)
    except (TypeError, ValueError, BufferError) as error:
        raise BspError(f"{call}: {name} is no array, but {type(array).__name__}: {error}") from None
    if _REFERENCE.search(view.format) and _REFERENCE.search(re.sub(":[^:]*:", "", view.format)):
        raise BspError(
            f"{call}: {name} holds references to objects, which mean nothing elsewhere: send it as a message"
        )
    return view


def _raw(call: str, name: str, view: memoryview) -> memoryview:
    """The bytes of the view as one contiguous view."""
    if not view.c_contiguous:
        raise BspError(f"{call}: {name} is not in C order: its items do not lie in a row")
    return PickleBuffer(view).raw()


def _writable(call: str, name: str, array: Buffer) -> memoryview:
    view = _view(call, name, array)
    if view.readonly:
        raise BspError(f"{call}: {name} cannot be written")
    return _raw(call, name, view)


def _check_alike(call: str, one: memoryview, other: memoryview) -> None:
    """Raises BspError if the items differ in format, because items are not converted."""
    if one.format != other.format:
        raise BspError(f"{call}: items of format {one.format!r} do not go with those of the array, {other.format!r}")
