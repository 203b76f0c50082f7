"""A small HTTP proxy that lets connections through (CONNECT), as the only way out of an office.

Usage: `python proxy.py PORT [--user NAME:PASSWORD] [--allow PORT] [--says ANSWER]`. It prints `listening` when it does,
and one line for each connection that it lets through.
"""

from __future__ import annotations

import argparse
import base64
import re
import socket
from contextlib import suppress
from threading import Thread

#: What it answers, in the words of a proxy that is widely used.
OPEN = "HTTP/1.1 200 Connection established\r\nProxy-agent: laboratory\r\n\r\n"
NO_USER = 'HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic realm="lab"\r\n\r\n'
NO_PORT = "HTTP/1.1 403 Filtered\r\nConnection: close\r\n\r\n"
NO_HOST = "HTTP/1.1 502 Bad Gateway\r\n\r\n"


def copy(source: socket.socket, sink: socket.socket) -> None:
    """Copy until one end hangs up."""
    with suppress(OSError):
        while some := source.recv(1 << 16):
            sink.sendall(some)
    for end in (source, sink):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


def read_head(client: socket.socket) -> str:
    """The request, without a byte of what follows."""
    head = b""
    while not head.endswith(b"\r\n\r\n") and len(head) < 8192:
        byte = client.recv(1)
        if not byte:
            break
        head += byte
    return head.decode("latin-1")


def serve(client: socket.socket, options: argparse.Namespace) -> None:
    """Let one connection through, or refuse it."""
    head = read_head(client)
    request = re.match(r"CONNECT (\S+):(\d+) HTTP/1\.1\r\n", head)
    wanted = options.user and "Basic " + base64.b64encode(options.user.encode()).decode()
    given = re.search(r"^Proxy-Authorization: (.*)\r$", head, re.MULTILINE)
    if options.says is not None:
        client.sendall(options.says.encode().decode("unicode_escape").encode("latin-1"))
        return
    if wanted and (given is None or given[1] != wanted):
        client.sendall(NO_USER.encode())
        return
    if request is None or (options.allow and int(request[2]) != options.allow):
        client.sendall(NO_PORT.encode())
        return
    try:
        server = socket.create_connection((request[1].strip("[]"), int(request[2])), timeout=5)
    except OSError:
        client.sendall(NO_HOST.encode())
        return
    server.settimeout(None)
    print(f"to {request[1]}:{request[2]}", flush=True)
    client.sendall(OPEN.encode())
    Thread(target=copy, args=(server, client), daemon=True).start()
    copy(client, server)


def main() -> None:
    """Serve until the process is ended."""
    parser = argparse.ArgumentParser()
    parser.add_argument("port", type=int)
    parser.add_argument("--user")
    parser.add_argument("--allow", type=int)
    parser.add_argument("--says")
    options = parser.parse_args()
    listener = socket.create_server(("", options.port))
    print("listening", flush=True)
    while True:
        client = listener.accept()[0]
        Thread(target=serve, args=(client, options), daemon=True).start()


if __name__ == "__main__":
    main()
