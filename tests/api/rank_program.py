"""Speaks the launcher's language as the library does, for programs of the tests: `python rank_program.py VERB...`.

Each verb is done in its turn. `2:die` is done by rank 2 only.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import sys
import time

SEAT = dict(pair.split("=", 1) for pair in os.environ["PHALANX_RANK"].split())
RANK = int(SEAT["rank"])
#: That were heard and not yet waited for.
rings: list[int] = []
JOINED, FINALIZED = b"\0\0", b"\1"
# At port 250 of any address, with a certificate of four letters.
LISTENS = b"\0\1\0" + b"\0\0\0\0" + b"\xfa\x01" + b"\4cert"


def say(message: bytes) -> None:
    control = socket.socket(fileno=os.dup(int(SEAT["control"])))
    control.sendall(len(message).to_bytes(4, "little") + message)
    control.close()


def ring(bell: int) -> None:
    os.eventfd_write(int(SEAT["bells"].split(",")[bell - int(SEAT["first"])]), 1)


def heard() -> None:
    """Wait for a message of the launcher, and print its kind, what of it is text, and all of it."""
    control = int(SEAT["control"])
    length = int.from_bytes(os.read(control, 4), "little")
    message = os.read(control, length)
    kind = ["table", "lost", "abort"][message[0]]
    print(f"{kind} {''.join(chr(byte) for byte in message if 32 <= byte < 127)} {message.hex()}", flush=True)


def do(verb: str) -> None:
    name, _, value = verb.partition("=")
    if name == "join":
        say(JOINED)
    elif name == "listen":
        say(LISTENS)
    elif name == "finalize":
        say(FINALIZED)
    elif name == "abort":
        code, text = int(value), b"a reason"
        say(b"\2" + bytes([2 * code, len(text)]) + text)
    elif name == "nonsense":
        say(b"\7\7\7")
    elif name == "hear":
        heard()
    elif name == "print":
        print(value, flush=True)
    elif name == "exit":
        os._exit(int(value))
    elif name == "die":
        os.kill(os.getpid(), signal.Signals[value])
    elif name == "ring":  # the next rank's bell, then wait for one's own
        ring((RANK + 1) % int(SEAT["size"]))
        own = int(SEAT["bells"].split(",")[RANK - int(SEAT["first"])])
        while not rings:  # one read takes all that were rung
            select.select([own], [], [])
            rings.extend([own] * os.eventfd_read(own))
        rings.pop()
    elif name == "segment":
        at = 64 * RANK
        os.pwrite(int(SEAT["segment"]), b"%d" % RANK, at)
    elif name == "read":
        values = [os.pread(int(SEAT["segment"]), 1, 64 * rank).decode() for rank in range(int(SEAT["size"]))]
        print("segment", *values, flush=True)
    elif name == "sleep":
        time.sleep(float(value))
    elif name == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        print("stubborn", flush=True)
        time.sleep(1000)
    else:
        raise ValueError(verb)


for word in sys.argv[1:]:
    who, colon, verb = word.rpartition(":")
    if not colon or int(who) == RANK:
        do(verb)
