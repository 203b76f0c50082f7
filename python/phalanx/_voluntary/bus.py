"""A small client of D-Bus: single questions, each with a timeout. A bus that is away is tried again later."""

from __future__ import annotations

import time
from typing import Any

try:
    from jeepney import DBusAddress, MessageType, Properties, new_method_call
    from jeepney.io.blocking import DBusConnection, open_dbus_connection

    HAS_JEEPNEY = True
except ImportError:  # the optional packages phalanx-grid[desktop]
    HAS_JEEPNEY = False

#: Seconds for an answer. A service that takes longer counts as away.
_PATIENCE = 0.5
#: Seconds before a bus or a service that did not answer is asked again: each attempt may take as long as the patience.
_REST = 10.0


class Bus:
    """The bus ``SYSTEM`` or ``SESSION``."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._connection: DBusConnection | None = None
        #: When each service may be asked again.
        self._away: dict[str, float] = {}

    def get(self, service: str, path: str, interface: str, name: str) -> Any:
        """A property; None: nothing tells it."""
        if not HAS_JEEPNEY:
            return None
        answer = self._ask(service, Properties(DBusAddress(path, service, interface)).get(name))
        return None if answer is None else answer[0][1]

    def call(self, service: str, path: str, interface: str, method: str) -> Any:
        """The first value that a method without arguments returns; None: nothing answers."""
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
        except Exception:  # jeepney has no family of errors, and a bus may send anything
            self._close()
        self._away[service] = time.monotonic() + _REST
        return None

    def _close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
