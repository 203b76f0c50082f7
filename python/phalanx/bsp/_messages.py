"""Messages: objects, bytes and arrays, each with a tag, in the queue of their receiver for one superstep.

Objects and arrays are pickled; processes of one program trust each other. Nothing else is unpickled.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any, NamedTuple

from phalanx.bsp._program import program
from phalanx.errors import BspError

# The first byte of a tag on the wire says what it and its payload are.
_NO_TAG, _PICKLED_TAG, _BYTES_TAG = range(3)
_BYTES_PAYLOAD = 4


class Message(NamedTuple):
    """A message of the queue.

    Examples
    --------
    >>> from phalanx import bsp
    >>> tag, payload = bsp.Message("numbers", [1, 2])
    >>> payload
    [1, 2]
    """

    tag: Any
    payload: Any


def set_tagsize(size: int | None) -> int | None:
    """From the next superstep on, tags are ``bytes`` of this length, or any objects (None: as it is at first).

    All processes say the same. Gives back what it is until then.

    Parameters
    ----------
    size : int or None
        The length in bytes; None: tags are any objects.

    Returns
    -------
    int or None
        The size until then.

    Raises
    ------
    BspError
        The size is negative.

    Examples
    --------
    >>> from phalanx import bsp
    >>> with bsp.begin():
    ...     before = bsp.set_tagsize(4)
    ...     bsp.sync()
    ...     bsp.send(0, 1, tag=b"four")
    ...     print(before)
    None
    """
    if size is not None and not 0 <= size < 2**32 - 1:
        raise BspError(f"set_tagsize: {size} bytes make no tag")
    return _size(program().set_tagsize(0 if size is None else size + 1))


def _size(number: int) -> int | None:
    """The size of a tag from the number of the native part, where 0 stands for None."""
    return number - 1 if number else None


def send(pid: int, payload: Any, tag: Any = None) -> None:
    """Sends a copy of an object, of bytes or of an array. The receiver finds it in its queue in the next superstep.

    Parameters
    ----------
    pid : int
        The receiver.
    payload
        An object that can be pickled, bytes, or an array.
    tag
        Any object, or bytes of the length that :func:`set_tagsize` said.

    Raises
    ------
    BspError
        The tag has another length, or something cannot be pickled.

    Examples
    --------
    >>> from phalanx import bsp
    >>> with bsp.begin():
    ...     bsp.send(0, [1, 2], tag="numbers")
    ...     bsp.sync()
    ...     print(bsp.hpmove())
    Message(tag='numbers', payload=[1, 2])
    """
    size, kind = _size(program().tagsize()), _NO_TAG
    packed = b""
    if size is not None:
        if not isinstance(tag, bytes) or len(tag) != size:
            raise BspError(f"send: the tag is {tag!r}, but set_tagsize said {size} bytes")
        kind, packed = _BYTES_TAG, tag
    elif tag is not None:
        kind, packed = _PICKLED_TAG, _pickled("tag", tag)
    if type(payload) is bytes:
        kind |= _BYTES_PAYLOAD
    else:
        payload = _pickled("payload", payload)
    program().send(pid, bytes([kind]) + packed, payload)


def _pickled(name: str, value: Any) -> bytes:
    try:
        return pickle.dumps(value, protocol=5)
    except Exception as error:
        raise BspError(f"send: the {name} cannot be pickled: {error}") from error


def qsize() -> tuple[int, int]:
    """How many messages are left in the queue, and the bytes of their payloads.

    Returns
    -------
    tuple of int
        The number of messages, and the bytes of their payloads.

    Examples
    --------
    >>> from phalanx import bsp
    >>> with bsp.begin():
    ...     bsp.send(0, b"four")
    ...     bsp.sync()
    ...     print(bsp.qsize()[0])
    1
    """
    return program().qsize()


def get_tag() -> Any:
    """The tag of the first message of the queue.

    Returns
    -------
    object
        The tag, which stays in the queue with its message.

    Raises
    ------
    BspError
        The queue is empty.

    Examples
    --------
    >>> from phalanx import bsp
    >>> with bsp.begin():
    ...     bsp.send(0, [1, 2], tag="numbers")
    ...     bsp.sync()
    ...     print(bsp.get_tag())
    numbers
    """
    tag = program().first_tag()
    if tag is None:
        raise BspError("get_tag: the queue is empty")
    return _tag(tag)


def _tag(tag: bytes) -> Any:
    kind, packed = tag[0] & ~_BYTES_PAYLOAD, tag[1:]
    if kind == _PICKLED_TAG:
        return pickle.loads(packed)
    return packed if kind == _BYTES_TAG else None


def hpmove() -> Message:
    """Takes the first message out of the queue, with its tag.

    Returns
    -------
    Message
        The tag and the payload.

    Raises
    ------
    BspError
        The queue is empty.

    Examples
    --------
    >>> from phalanx import bsp
    >>> with bsp.begin():
    ...     bsp.send(0, [1, 2], tag="numbers")
    ...     bsp.sync()
    ...     tag, payload = bsp.hpmove()
    ...     print(tag, payload)
    numbers [1, 2]
    """
    taken = program().take()
    if taken is None:
        raise BspError("the queue is empty: qsize says how many messages are left")
    tag, payload = taken
    return Message(_tag(tag), payload if tag[0] & _BYTES_PAYLOAD else pickle.loads(payload))


def move() -> Any:
    """Takes the first message out of the queue and returns its payload.

    Returns
    -------
    object
        The payload.

    Raises
    ------
    BspError
        The queue is empty.

    Examples
    --------
    >>> from phalanx import bsp
    >>> with bsp.begin():
    ...     bsp.send(0, [1, 2], tag="numbers")
    ...     bsp.sync()
    ...     print(bsp.move())
    [1, 2]
    """
    return hpmove().payload


def messages() -> Iterator[Message]:
    """Takes the messages out of the queue one by one, ordered by sender, and for each sender by its calls.

    Yields
    ------
    Message
        The next message, which is out of the queue then.

    Examples
    --------
    >>> from phalanx import bsp
    >>> with bsp.begin():
    ...     bsp.send(0, [1, 2], tag="numbers")
    ...     bsp.sync()
    ...     print([payload for tag, payload in bsp.messages()])
    [[1, 2]]
    """
    while qsize()[0]:
        yield hpmove()
