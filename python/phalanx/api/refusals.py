"""What the interface answers when it refuses a request: a status, and words (RFC 9457)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Match

from phalanx.errors import (
    AccessError,
    ContractError,
    IdentityError,
    PhalanxError,
    RecruitError,
    SpaceError,
    SpaceFullError,
    SpaceLostError,
    TransactionError,
)
from phalanx.tes.document import DocumentError

#: The status of each error that is raised beneath the interface.
STATUSES: dict[type[Exception], int] = {
    DocumentError: 400,
    ContractError: 400,
    IdentityError: 403,
    AccessError: 403,
    TransactionError: 409,
    SpaceError: 502,
    RecruitError: 503,
    SpaceLostError: 503,
    SpaceFullError: 507,
}


class Refused(PhalanxError):
    """A request that is not done.

    Parameters
    ----------
    status
        The status of HTTP.
    words
        What is wrong, and what to do. For a wrong body they begin with the name of the field.
    headers
        Further headers of the answer.
    """

    def __init__(self, status: int, words: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(words)
        self.status, self.headers = status, headers


def handlers() -> dict[Any, Callable[[Request, Exception], Awaitable[Response]]]:
    """What answers for each exception.

    Returns
    -------
    dict
        For Starlette's ``exception_handlers``.
    """
    return {Refused: _refused, HTTPException: _routed, Exception: _broken, **dict.fromkeys(STATUSES, _raised)}


def problem(status: int, words: str, headers: Mapping[str, str] | None = None) -> Response:
    """An answer that says what is wrong.

    Parameters
    ----------
    status, words, headers
        As for :class:`Refused`.

    Returns
    -------
    Response
    """
    words = words.encode("utf-8", "backslashreplace").decode()  # JSON has no half of a surrogate pair
    told = {"status": status, "title": HTTPStatus(status).phrase, "detail": words}
    return JSONResponse(told, status, headers, "application/problem+json")


async def _refused(_: Request, error: Exception) -> Response:
    assert isinstance(error, Refused)
    return problem(error.status, str(error), error.headers)


async def _routed(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    headers = {"allow": ", ".join(_methods(request))} if error.status_code == 405 else error.headers
    return problem(error.status_code, f"{error.detail}: openapi.json lists what is here", headers)


def _methods(request: Request) -> list[str]:
    """The methods that are there for the path of a request. Several routes may have it."""
    routes = [it for it in request.app.routes if it.matches(request.scope)[0] is not Match.NONE]
    return sorted({method for route in routes for method in route.methods or ()})


async def _raised(_: Request, error: Exception) -> Response:
    return problem(next(STATUSES[it] for it in type(error).__mro__ if it in STATUSES), str(error))


async def _broken(_: Request, error: Exception) -> Response:
    return problem(500, f"the hub has failed: {type(error).__name__}; its log says more")
