"""The interface for programs in any language, as one application: ``/phalanx/v1`` beside the TES of a hub."""

from __future__ import annotations

import itertools
from pathlib import Path

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

import phalanx
from phalanx._grids import Joined
from phalanx.api.acting import Acting
from phalanx.api.copies import Copies, CopyRoutes
from phalanx.api.files import FileRoutes, Served
from phalanx.api.jobs import JobRoutes
from phalanx.api.logs import LogRoutes, Running
from phalanx.api.opened import Spaces
from phalanx.api.refusals import handlers
from phalanx.api.spaces import Linda
from phalanx.api.users import Users
from phalanx.tes.at_hub import AtHub
from phalanx.tes.files import Folders

#: Where clients find it.
PREFIX = "/phalanx/v1"
#: What describes it.
DOCUMENT = Path(__file__).with_name("openapi.json")


class Interface:
    """Jobs, files, copies and spaces of a grid, over HTTP and JSON.

    Parameters
    ----------
    joined
        The grid, whose hub is in this process.
    hub
        The queue of jobs, which knows the users.
    folders
        The folders that are served.
    """

    def __init__(self, joined: Joined, hub: AtHub, folders: Folders) -> None:
        self._joined = joined
        acting = Acting(joined)
        self._spaces, self._copies = Spaces(acting), Copies(acting, hub.is_member)
        users, served = Users(hub.user_of), Served(folders)
        jobs = JobRoutes(users, hub, served)
        parts = [
            jobs.routes(),
            LogRoutes(users, hub, jobs, Running(joined)).routes(),
            FileRoutes(users, served).routes(),
            Linda(users, self._spaces).routes(),
            CopyRoutes(users, self._copies).routes(),
        ]
        own = [Route("/openapi.json", _document, methods=["GET"]), Route("/me", users.of(self._me), methods=["GET"])]
        routes = [*own, *itertools.chain.from_iterable(parts)]
        self.application = Starlette(routes=routes, exception_handlers=handlers())

    def close(self) -> None:
        """Closes the spaces that are open, and cancels the copies."""
        self._copies.close()
        self._spaces.close()

    async def _me(self, _: Request, user: str) -> Response:
        """Whose token it is."""
        return JSONResponse({"user": user, "grid": self._joined.grid, "version": phalanx.__version__})


async def _document(_: Request) -> Response:
    return Response(DOCUMENT.read_bytes(), media_type="application/json")
