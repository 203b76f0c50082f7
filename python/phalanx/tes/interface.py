"""The HTTP interface of the Task Execution Service (TES 1.1): routes, parameters, and authentication."""

from __future__ import annotations

import base64
import binascii
import logging
import socket
import ssl
import threading
from collections.abc import Callable
from typing import Any, TypeVar
from urllib.parse import parse_qs

import anyio
import h11
import uvicorn
from anyio import to_thread
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from uvicorn.protocols.http.h11_impl import H11Protocol

import phalanx
from phalanx.tes.document import LONGEST, DocumentError
from phalanx.tes.jobs import PARAMETERS
from phalanx.tes.service import MOST_PAGE, PAGE, Service, UnknownTask
from phalanx.tes.store import OPEN, OVER

T = TypeVar("T")

#: Prefixes of the service's URLs: TES 1.1, and the prefix of older clients.
PREFIXES = ("/ga4gh/tes/v1", "/v1")
_VIEWS = ("MINIMAL", "BASIC", "FULL")
_STATES = (*OPEN, *OVER, "UNKNOWN", "PAUSED", "PREEMPTED", "CANCELING")
#: Most connections at a time, and the timeout of a silent connection, in seconds.
_MOST_CONNECTIONS, _PATIENCE = 512, 30
#: Threads that check tokens. A check takes less than 1 ms, and must not wait for slow files of other users.
CHECKING = 8
#: The log of the connections. It has errors only, because anybody can cause the warnings of uvicorn.
_LOG = logging.getLogger("uvicorn.error.phalanx")
_LOG.setLevel(logging.ERROR)


def application(service: Service, authenticate: Callable[[str], Any], about: dict[str, Any]) -> Starlette:
    """The interface of a service.

    Parameters
    ----------
    service
        The service that runs the tasks.
    authenticate
        Returns the user of a token. None: the token is invalid.
    about
        The fields of service-info that depend on the grid: ``id``, ``name``, ``storage``.

    Returns
    -------
    Starlette
    """
    interface = _Interface(service, authenticate, about)
    routes = []
    for prefix in PREFIXES:
        routes += [
            Route(f"{prefix}/service-info", interface.info),
            Route(f"{prefix}/tasks/service-info", interface.old_info),
            Route(f"{prefix}/tasks", interface.list),
            Route(f"{prefix}/tasks", interface.create, methods=["POST"]),
            Route(f"{prefix}/tasks/{{id}}:cancel", interface.cancel, methods=["POST"]),
            Route(f"{prefix}/tasks/{{id}}", interface.show),
        ]
    refused = {DocumentError: _refused, UnknownTask: _unknown, HTTPException: _failed}
    return Starlette(routes=routes, exception_handlers=refused)


class Server:
    """Serves an application in a separate thread.

    Parameters
    ----------
    application
        The application.
    host, port
        The address to listen on. Port 0: any free port.
    context
        The certificate and its key. None: HTTP without protection.
    """

    def __init__(self, application: Starlette, host: str, port: int, context: ssl.SSLContext | None) -> None:
        self._socket = _Listener(host, port)
        self.port: int = self._socket.getsockname()[1]
        config = uvicorn.Config(
            application,
            log_config=None,
            access_log=False,
            lifespan="off",
            server_header=False,
            http=_Patient,
            limit_concurrency=_MOST_CONNECTIONS,
            timeout_keep_alive=_PATIENCE,
            timeout_graceful_shutdown=1,
            h11_max_incomplete_event_size=64 << 10,
        )
        config.load()
        if context is not None:
            config.ssl = context
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._serve, name="phalanx-http", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stops the server. Pending requests have one second to finish."""
        self._server.should_exit = True
        self._thread.join()

    def _serve(self) -> None:
        self._server.run(sockets=[self._socket])


class _Listener(socket.socket):
    """A listener that takes a bounded number of connections, because each has a descriptor of the hub's process from
    its beginning on, and the handshake of TLS may take a minute."""

    def __init__(self, host: str, port: int) -> None:
        super().__init__(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
        self._taken: list[socket.socket] = []
        try:
            if self.family == socket.AF_INET6:
                self.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            self.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self.bind((host, port))
            self.listen(128)
        except BaseException:
            self.close()
            raise

    def accept(self) -> tuple[socket.socket, Any]:
        """The next connection. Raises ConnectionAbortedError, which event loops pass over, if there are too many."""
        connection, address = super().accept()
        if len(self._taken) > _MOST_CONNECTIONS:
            self._taken = [it for it in self._taken if it.fileno() >= 0]
        if len(self._taken) > _MOST_CONNECTIONS:
            connection.close()
            raise ConnectionAbortedError("too many connections")
        self._taken.append(connection)
        return connection, address


class _Patient(H11Protocol):
    """A connection with a timeout for its first request and for each further one. It is closed at once if there are too
    many connections."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.logger = _LOG

    def connection_made(self, transport: Any) -> None:
        """A client has connected."""
        super().connection_made(transport)
        # The head and the body of an answer are two packets. The system would hold the second one until the client has
        # acknowledged the first, which takes 40 ms. The event loop changes that only for sockets that it has made.
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if len(self.connections) > _MOST_CONNECTIONS:
            transport.abort()
            return
        self.loop.call_later(_PATIENCE, lambda: transport.abort() if self.cycle is None else None)

    def data_received(self, data: bytes) -> None:
        """Some bytes have come. Only a whole head of a request ends the timeout between two requests."""
        pause = self.timeout_keep_alive_task
        super().data_received(data)
        is_over = self.cycle is not None and self.cycle.response_complete
        if pause is not None and is_over and self.timeout_keep_alive_task is None and not self.transport.is_closing():
            self.timeout_keep_alive_task = self.loop.call_at(pause.when(), self.timeout_keep_alive_handler)

    def send_400_response(self, msg: str) -> None:
        """Answers bytes that are no HTTP. After the answer to a request, such bytes only end the connection: h11 would
        raise an exception, and the event loop would log it."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
        else:
            self.transport.close()


class Threads:
    """A bounded number of threads for one kind of work, apart from the threads of other work.

    Parameters
    ----------
    count
        The most threads at a time.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._limiter: anyio.CapacityLimiter | None = None

    async def run(self, work: Callable[..., T], *arguments: Any) -> T:
        """Does the work in one of the threads.

        Parameters
        ----------
        work
            A function.
        *arguments
            Its arguments.

        Returns
        -------
        object
            What ``work`` returns.
        """
        if self._limiter is None:  # it belongs to the event loop, which begins after this object
            self._limiter = anyio.CapacityLimiter(self._count)
        return await to_thread.run_sync(work, *arguments, limiter=self._limiter)


class _Interface:
    def __init__(self, service: Service, authenticate: Callable[[str], Any], about: dict[str, Any]) -> None:
        self._service, self._authenticate, self._about = service, authenticate, about
        self._checking = Threads(CHECKING)

    async def info(self, request: Request) -> Response:
        await self._user(request)
        return JSONResponse(
            {
                "type": {"group": "org.ga4gh", "artifact": "tes", "version": "1.1.0"},
                "organization": {"name": "phalanx", "url": "https://phalanx.invalid"},
                "version": phalanx.__version__,
                "tesResources_backend_parameters": [*PARAMETERS],
                **self._about,
            }
        )

    async def old_info(self, request: Request) -> Response:
        """The answer for clients of TES 1.0, with the fields that they understand."""
        await self._user(request)
        return JSONResponse({name: self._about[name] for name in ("name", "storage")})

    async def create(self, request: Request) -> Response:
        user = await self._user(request)
        text = await read_body(request, LONGEST, HTTPException)
        return JSONResponse({"id": await run_in_threadpool(self._service.create, user, text)})

    async def list(self, request: Request) -> Response:
        user = await self._user(request)
        asked = parse_qs(request.url.query, keep_blank_values=True, max_num_fields=1000)
        keys, values = asked.get("tag_key", []), asked.get("tag_value", [])
        tags = dict(zip(keys, [*values, *[""] * len(keys)], strict=False))
        state = _one_of(asked, "state", _STATES, None)
        size = min(_number(asked, "page_size") or PAGE, MOST_PAGE)
        tasks, following = await run_in_threadpool(
            lambda: self._service.tasks(
                user,
                _view(asked),
                before=_number(asked, "page_token"),
                size=size,
                name_prefix=asked.get("name_prefix", [""])[0],
                state=state,
                tags=tags,
            )
        )
        return JSONResponse({"tasks": tasks, **({"next_page_token": str(following)} if following else {})})

    async def show(self, request: Request) -> Response:
        user = await self._user(request)
        view = _view(parse_qs(request.url.query))
        return JSONResponse(await run_in_threadpool(self._service.show, user, request.path_params["id"], view))

    async def cancel(self, request: Request) -> Response:
        user = await self._user(request)
        await run_in_threadpool(self._service.cancel, user, request.path_params["id"])
        return JSONResponse({})

    async def _user(self, request: Request) -> str:
        token = token_of(request.headers.get("authorization", ""))
        user = await self._checking.run(self._authenticate, token) if token else None
        if user is None:
            raise HTTPException(401, "show a token of this grid: phalanx token", {"WWW-Authenticate": "Bearer"})
        return str(user)


async def read_body(request: Request, longest: int, refuse: Callable[[int, str], Exception]) -> bytes:
    """The body of a request, which has a bound and must come within a time.

    Parameters
    ----------
    request
        The request.
    longest
        Its most bytes.
    refuse
        Makes the exception of a status and of words.

    Returns
    -------
    bytes

    Raises
    ------
    Exception
        The one that ``refuse`` makes: the body is too long (413), or too slow (408).
    """
    text = bytearray()
    with anyio.move_on_after(_PATIENCE) as scope:
        async for piece in request.stream():
            text += piece
            if len(text) > longest:
                raise refuse(413, f"the body has more than {longest} bytes; put large contents into files")
    if scope.cancelled_caught:
        raise refuse(408, f"the body did not come within {_PATIENCE} s")
    return bytes(text)


def token_of(header: str) -> str | None:
    """The token of a request. Clients that support only passwords send it as the password of any user."""
    scheme, _, word = header.partition(" ")
    if scheme.lower() == "bearer":
        return word.strip() or None
    if scheme.lower() != "basic":
        return None
    try:
        return base64.b64decode(word, validate=True).decode().partition(":")[2] or None
    except (binascii.Error, UnicodeDecodeError):
        return None


def _view(asked: dict[str, list[str]]) -> str:
    return _one_of(asked, "view", _VIEWS, "MINIMAL") or "MINIMAL"


def _one_of(asked: dict[str, list[str]], name: str, words: Any, default: str | None) -> str | None:
    word = asked.get(name, [""])[0]
    if not word:
        return default
    if word not in words:
        raise HTTPException(400, f"{name}: write one of {', '.join(words)}")
    return str(word)


def _number(asked: dict[str, list[str]], name: str) -> int | None:
    word = asked.get(name, [""])[0]
    if not word:
        return None
    if not word.isascii() or not word.isdigit() or len(word) > 18 or int(word) == 0:
        raise HTTPException(400, f"{name}: this is no number")
    return int(word)


def _answer(status: int, words: str, headers: Any = None) -> Response:
    words = words.encode("utf-8", "backslashreplace").decode()  # JSON has no half of a surrogate pair
    return JSONResponse({"status": status, "msg": words, "detail": words}, status, headers)


async def _refused(_: Request, error: Exception) -> Response:
    return _answer(400, str(error))


async def _unknown(_: Request, error: Exception) -> Response:
    return _answer(404, str(error))


async def _failed(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return _answer(error.status_code, error.detail, error.headers)
