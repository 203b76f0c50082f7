"""Serves the Task Execution Service at a hub, over HTTPS, with a certificate of the grid."""

from __future__ import annotations

import os
import re
import ssl
import tempfile
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from starlette.routing import Mount
from starlette.types import ASGIApp

from phalanx.errors import PhalanxError
from phalanx.tes.at_hub import AtHub
from phalanx.tes.files import Folders
from phalanx.tes.interface import Server, application
from phalanx.tes.service import Service
from phalanx.tes.store import Store

#: The file of the tasks, in the folder of a hub.
TASKS = "tasks.db"
#: Validity of a certificate in days, and the interval of its renewal in seconds.
_DAYS, _RENEWED = 7, 24 * 3600.0


class Serving:
    """The service of a hub.

    Parameters
    ----------
    hub
        The hub of this process.
    folder
        The hub's folder, which keeps the tasks.
    grid
        The name of the grid.
    address
        The host and port to listen on. Port 0: any free port.
    names
        Host names and addresses by which clients reach the service.
    folders
        The served folders of this machine, each as ``FOLDER:ro`` or ``FOLDER:rw``.
    beside
        Makes what is served beside it, by paths, with the same jobs, users and folders.

    Raises
    ------
    OSError
        The port is in use, or a folder does not exist.
    ValueError
        A folder has another form.
    """

    def __init__(
        self,
        hub: Any,
        folder: Path,
        grid: str,
        address: tuple[str, int],
        names: list[str],
        folders: Iterable[str],
        beside: Callable[[AtHub, Folders], Mapping[str, ASGIApp]] = lambda jobs, folders: {},
    ) -> None:
        served, jobs = Folders(folders), AtHub(hub)
        self._certificate = _Certificate(lambda: hub.serving(names, _DAYS))
        about = {
            "id": f"org.phalanx.{grid}",
            "name": grid,
            "description": f"Idle machines of the grid {grid}, which run a task with their own programs",
            "storage": [it.path.as_uri() for it in served.all],
        }
        self._service = Service(jobs, Store(folder / TASKS), served)
        try:
            app = application(self._service, jobs.user_of, about)
            for path, other in beside(jobs, served).items():
                mount = Mount(path, other)
                mount.path_regex = re.compile(mount.path_regex.pattern, re.DOTALL)  # paths may have line ends
                app.routes.append(mount)
            self._server = Server(app, *address, self._certificate.context)
        except BaseException:
            self.close()
            raise
        self.url = f"https://{_in_url(names[0])}:{self._server.port}"

    def close(self) -> None:
        """Ends the service. Tasks continue as jobs. The next start follows them."""
        if hasattr(self, "_server"):
            self._server.close()
        self._service.close()
        self._certificate.close()


class _Certificate:
    """A certificate that is renewed before it expires. New connections get the new one."""

    def __init__(self, made: Callable[[], str]) -> None:
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        self._made = made
        self._load()
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._renew, name="phalanx-https", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ends the thread."""
        self._ends.set()
        self._thread.join()

    def _load(self) -> None:
        """Loads a new certificate through a temporary file, because the ssl module reads certificates and keys from
        files only."""
        descriptor, name = tempfile.mkstemp(prefix="phalanx-https-")
        try:
            with os.fdopen(descriptor, "w", encoding="ascii") as file:
                file.write(self._made())
            self.context.load_cert_chain(name)
        finally:
            Path(name).unlink()

    def _renew(self) -> None:
        while not self._ends.wait(_RENEWED):
            try:
                self._load()
            except (PhalanxError, OSError):
                continue  # the old certificate is valid for some more days


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host
