"""A small D-Bus client: single calls, each with a timeout. The client retries an absent bus later."""

from __future__ import annotations

import time
from typing import Any

try:
    from jeepney import DBusAddress, MessageType, Properties, new_method_call
    from jeepney.io.blocking import DBusConnection, open_dbus_connection

    HAS_JEEPNEY = True
except ImportError:  # the optional packages phalanx-grid[desktop]
    HAS_JEEPNEY = False

#: Timeout for an answer, in seconds. A slower service counts as absent.
_PATIENCE = 0.5
#: Pause before the retry of an absent bus or service, in seconds, because each attempt may take the whole timeout.
_REST = 10.0


class Bus:
    """A connection to the bus ``SYSTEM`` or ``SESSION``."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._connection: DBusConnection | None = None
        #: The time of the next retry of each absent service.
        self._away: dict[str, float] = {}

    def get(self, service: str, path: str, interface: str, name: str) -> Any:
        """A property. None: no service answers."""
        if not HAS_JEEPNEY:
            return None
        answer = self._ask(service, Properties(DBusAddress(path, service, interface)).get(name))
        return None if answer is None else answer[0][1]

    def call(self, service: str, path: str, interface: str, method: str) -> Any:
        """The first value that a method without arguments returns. None: no service answers."""
        if not HAS_JEEPNEY:
            return None
        answer = self._ask(service, new_method_call(DBusAddress(path, service, interface), method))
        return answer[0] if answer else None

    def _ask(self, service: str, message: Any) -> tuple[Any, ...] | None:
        if time.monotonic() < self._away.get(service, 0.0):
            return None
        try:
            if self._connection is None:
                self._connection = open_dbus_connection(self._kind, auth_timeout=_PATIENCE)
            answer = self._connection.send_and_get_reply(message, timeout=_PATIENCE)
            if answer.header.message_type is MessageType.method_return:
                body: tuple[Any, ...] = answer.body
                return body
        except Exception:  # jeepney has no base class of errors, and a bus may send anything
            self._close()
        self._away[service] = time.monotonic() + _REST
        return None

    def _close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
