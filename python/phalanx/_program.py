"""The token by which executors know a program, whose models share the places that it has there."""

from __future__ import annotations

import os
import re
import secrets
from threading import Lock

#: Processes that the program starts inherit it, so what they start counts as the same program.
VARIABLE = "PHALANX_PROGRAM"

_lock = Lock()


def program_token() -> bytes:
    """The 16 bytes of this program's token, which is made when it is first asked for.

    It is no secret: an executor reads it together with the name in the user's certificate.
    """
    with _lock:
        token = os.environ.get(VARIABLE, "")
        if not re.fullmatch("[0-9a-f]{32}", token):
            token = os.environ[VARIABLE] = secrets.token_hex(16)
        return bytes.fromhex(token)
