"""The real GridFTP: Debian's globus-gridftp-server and globus-url-copy, with an authority of their own for GSI."""

from __future__ import annotations

import os
import pwd
import socket
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from bench.transfer.commands import small
from bench.transfer.sample import Entry, Sample
from bench.transfer.settings import Settings
from bench.transfer.site import Failure, Run, Site, absent

#: What protects the data channel. GSI's -dcsafe promises integrity; this version encrypts all the same.
_LEVELS = {"clear": ["-nodcau"], "authenticated": [], "safe": ["-dcsafe"], "private": ["-dcpriv"]}
_POLICY = """access_id_CA X509 '/O=bench/CN=authority'
pos_rights globus CA:sign
cond_subjects globus '"/O=bench/*"'
"""


@dataclass
class GridFtp:
    """Servers at the site, started when they are first needed, two for each number of threads."""

    site: Site
    keys: Path
    stack: ExitStack
    ports: dict[int, tuple[int, int]] = field(default_factory=dict)
    empties: dict[tuple[str, ...], Run] = field(default_factory=dict)

    def prefix(self, site: Site) -> list[str]:
        """In a namespace nobody tells GridFTP the names of machines, without which it does not start: a file does."""
        if not site.there:
            return []
        return ["unshare", "--mount", "sh", "-c", 'mount --bind "$0" /etc/hosts && exec "$@"', str(self.keys / "hosts")]

    def servers(self, threads: int) -> tuple[int, int]:
        """Ports of two servers that have so many threads each; 0: without a pool."""
        if threads not in self.ports:
            self.ports[threads] = (self.serve(self.site, threads), self.serve(self.site, threads))
        return self.ports[threads]

    def client(self, level: str, streams: int, *words: str) -> list[str]:
        """A client's command."""
        command = [*self.prefix(self.site), "globus-url-copy", "-fast", "-p", str(streams)]
        return [*command, *_LEVELS[level], "-s", "/O=bench/CN=server", *words]

    def environment(self, name: str, threads: int = 0) -> dict[str, str]:
        """Who one is, whom one trusts, and for clients the pool of threads."""
        known = {"X509_CERT_DIR": str(self.keys), "GRIDMAP": str(self.keys / "gridmap")}
        own = {"X509_USER_CERT": str(self.keys / f"{name}.pem"), "X509_USER_KEY": str(self.keys / f"{name}.key")}
        pool = {"GLOBUS_THREAD_MODEL": "pthread", "GLOBUS_CALLBACK_POLLING_THREADS": str(threads)} if threads else {}
        return {**known, **own, **pool}

    def empty(self, command: Sequence[str], environment: Mapping[str, str]) -> Run:
        """A copy of nothing, measured once: it takes up to a second."""
        if tuple(command) not in self.empties:
            self.empties[tuple(command)] = self.site.run(command, environment)
        return self.empties[tuple(command)]

    def last_rate(self, port: int) -> float:
        """GB/s of the last transfer to the server there, without the session's set-up: as it says itself."""
        lines = self._log(port).read_text().splitlines()
        facts = dict(word.split("=", 1) for word in lines[-1].split() if "=" in word) if lines else {}
        try:
            begun, ended = (datetime.strptime(facts[name], "%Y%m%d%H%M%S.%f") for name in ("START", "DATE"))
            return int(facts["NBYTES"]) / 1e9 / max((ended - begun).total_seconds(), 1e-6)
        except (KeyError, ValueError):
            raise Failure("the server wrote no record of the transfer") from None

    def _log(self, port: int) -> Path:
        return self.keys / f"transfers-{port}"

    def serve(self, site: Site, threads: int, *words: str) -> int:
        """A server at a site until the stack ends; its port."""
        port, address = site.port(), site.address
        log = ["-log-transfer", str(self._log(port))]
        listen = [*log, "-no-detach", "-control-interface", address, "-data-interface", address, "-p", str(port)]
        command = [
            *self.prefix(site),
            "globus-gridftp-server",
            *listen,
            "-threads",
            str(threads),
            "-allow-root",
            *words,
        ]
        self.stack.enter_context(site.serve(command, port, self.environment("server")))
        return port


def missing() -> str | None:
    """What to install."""
    return (
        absent("globus-gridftp-server-progs", "globus-gridftp-server")
        or absent("globus-gass-copy-progs", "globus-url-copy")
        or absent("openssl", "openssl")
    )


@contextmanager
def started(site: Site, names: Mapping[str, str] | None = None) -> Iterator[GridFtp]:
    """An authority, and servers for the block. `names` of further machines, by their addresses."""
    keys = Path(tempfile.mkdtemp(prefix="gsi-", dir=site.folder))
    authority, key = keys / "authority.pem", keys / "authority.key"
    request = ["openssl", "req", "-newkey", "rsa:2048", "-nodes"]
    site.run([*request, "-x509", "-days", "2", "-subj", "/O=bench/CN=authority", "-keyout", key, "-out", authority])
    for name in ("server", "user"):
        site.run([*request, "-subj", f"/O=bench/CN={name}", "-keyout", keys / f"{name}.key", "-out", keys / "request"])
        signed: list[str | Path] = [
            "-CA",
            authority,
            "-CAkey",
            key,
            "-CAcreateserial",
            "-days",
            "1",
            "-out",
            keys / f"{name}.pem",
        ]
        site.run(["openssl", "x509", "-req", "-in", keys / "request", *signed])
        (keys / f"{name}.key").chmod(0o400)
    number = site.run(["openssl", "x509", "-hash", "-noout", "-in", authority]).output.strip()
    (keys / f"{number}.0").write_bytes(authority.read_bytes())
    (keys / f"{number}.signing_policy").write_text(_POLICY)
    (keys / "gridmap").write_text(f'"/O=bench/CN=user" {pwd.getpwuid(os.geteuid()).pw_name}\n')
    further = "".join(f"{address} {name}\n" for address, name in (names or {}).items())
    (keys / "hosts").write_text(f"127.0.0.1 localhost\n{site.address} there {socket.gethostname()}\n{further}")
    with ExitStack() as stack:
        yield GridFtp(site, keys, stack)


def memory(level: str, streams: int, threads: int = 0, *, third_party: bool = False) -> Entry:
    """From `/dev/zero` to `/dev/null`; `third_party`: between two servers, as in the paper, instead of from the client.

    `threads` are at both ends. As many bytes as of ours, or half of them where that takes long.
    """

    def measure(gridftp: GridFtp, site: Site, settings: Settings) -> Sample:
        one, other = gridftp.servers(threads)
        source = f"gsiftp://{site.address}:{one}/dev/zero" if third_party else "file:///dev/zero"
        usual = settings.gigabytes * (1 if level in ("clear", "authenticated") else 0.5)
        size = int(usual * 1e9)
        urls = [source, f"gsiftp://{site.address}:{other}/dev/null"]
        # Who only directs needs no pool; with one, this client crashes now and then.
        environment = gridftp.environment("user", 0 if third_party else threads)
        empty = gridftp.empty(gridftp.client(level, streams, "-len", "1", *urls), environment)
        whole = site.run(gridftp.client(level, streams, "-len", str(size), *urls), environment)
        cpu = max(whole.cpu - empty.cpu, 0.0) / (size / 1e9)
        return Sample(rate=gridftp.last_rate(other), cpu=cpu, setup=empty.seconds * 1e3)

    return Entry("gridftp", measure)


def one_byte(level: str) -> Entry:
    """The command from start to end."""

    def measure(gridftp: GridFtp, site: Site, settings: Settings) -> Sample:
        urls = ["-len", "1", "file:///dev/zero", f"gsiftp://{site.address}:{gridftp.servers(0)[0]}/dev/null"]
        return Sample(setup=site.run(gridftp.client(level, 1, *urls), gridftp.environment("user")).seconds * 1e3)

    return Entry("gridftp", measure)


def small_files(level: str) -> Entry:
    """`globus-url-copy -r`, four files at a time."""

    def words(gridftp: GridFtp, source: Path, target: Path) -> list[str]:
        urls = [f"file://{source}/", f"gsiftp://{gridftp.site.address}:{gridftp.servers(0)[0]}{target}/"]
        environment = [f"{name}={value}" for name, value in gridftp.environment("user").items()]
        return ["env", *environment, *gridftp.client(level, 1, "-r", "-cd", "-cc", "4", "-pp", *urls)]

    return small("gridftp", "gridftp-small", words)
