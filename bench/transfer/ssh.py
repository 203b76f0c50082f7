"""A private sshd of Debian's OpenSSH, and what copies over it: scp, rsync, tar, and a plain pipe. AES-128-GCM."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from bench.transfer import sources
from bench.transfer.commands import small, whole_and_empty
from bench.transfer.sample import Entry, Sample
from bench.transfer.settings import Settings
from bench.transfer.site import Failure, Site, absent
from laboratory.sshd import EMPTY, settings

_CLIENT = """
Host there
  HostName {address}
  Port {port}
  IdentityFile {keys}/user
  IdentitiesOnly yes
  UserKnownHostsFile {keys}/known
  GlobalKnownHostsFile none
  StrictHostKeyChecking accept-new
  Ciphers aes128-gcm@openssh.com
  BatchMode yes
  LogLevel ERROR
"""


@dataclass(frozen=True)
class Ssh:
    """A client's configuration, in which the server is called ``there``."""

    config: Path

    @property
    def command(self) -> list[str]:
        """`ssh` to the server."""
        return ["ssh", "-F", str(self.config), "there"]


def missing() -> str | None:
    """What to install."""
    return absent("openssh-server", "ssh", "scp", "ssh-keygen", "/usr/sbin/sshd")


@contextmanager
def started(site: Site) -> Iterator[Ssh]:
    """A server for the block, with keys and settings of its own."""
    keys, port = Path(tempfile.mkdtemp(prefix="ssh-", dir=site.folder)), site.port()
    for name in ("host", "user"):
        site.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", keys / name])
    server, client = keys / "server", keys / "client"
    server.write_text(settings(keys, site.address, port, "Subsystem sftp internal-sftp"))
    client.write_text(_CLIENT.format(address=site.address, port=port, keys=keys))
    with _locked_in(), site.serve(["/usr/sbin/sshd", "-D", "-e", "-f", server], port):
        yield Ssh(client)


@contextmanager
def _locked_in() -> Iterator[None]:
    made = os.geteuid() == 0 and not EMPTY.exists()
    if made:
        EMPTY.mkdir(mode=0o755)
    try:
        yield
    finally:
        if made:
            with suppress(OSError):  # of a service that was started meanwhile
                EMPTY.rmdir()


def pipe() -> Entry:
    """`ssh there "cat > /dev/null"`, from a file in memory."""

    def measure(ssh: Ssh, site: Site, settings: Settings) -> Sample:
        return whole_and_empty(site, settings, lambda path: _pipe(ssh, path))

    return Entry("ssh", measure)


def one_byte() -> Entry:
    """The pipe from start to end."""

    def measure(ssh: Ssh, site: Site, settings: Settings) -> Sample:
        return Sample(setup=site.run(_pipe(ssh, sources.one_byte(site))).seconds * 1e3)

    return Entry("ssh", measure)


def _pipe(ssh: Ssh, path: Path) -> list[str]:
    return ["sh", "-c", f"exec {shlex.join([*ssh.command, 'cat > /dev/null'])} < {path}"]


def scp() -> Entry:
    """`scp` of a file in memory to another."""

    def measure(ssh: Ssh, site: Site, settings: Settings) -> Sample:
        target = site.folder / "scp-target"
        return whole_and_empty(site, settings, lambda path: _scp(ssh, path, target), target)

    return Entry("ssh", measure)


def scp_text() -> Entry:
    """`scp -C` of a file of text."""

    def measure(ssh: Ssh, site: Site, settings: Settings) -> Sample:
        source = sources.text(site, settings)
        program, *words = _scp(ssh, source, site.folder / "scp-target")
        return Sample(source.stat().st_size / 1e9 / site.run([program, "-C", *words]).seconds)

    return Entry("ssh", measure)


def rsync_text(*flags: str) -> Entry:
    """`rsync` of a file of text that is not there."""

    def measure(ssh: Ssh, site: Site, settings: Settings) -> Sample:
        _needs_rsync()
        source, target = sources.text(site, settings), site.folder / "rsync-target"
        target.unlink(missing_ok=True)
        run = site.run(["rsync", *flags, "--stats", "--rsh", shlex.join(ssh.command[:-1]), source, f"there:{target}"])
        if target.read_bytes() != source.read_bytes():
            raise Failure("rsync's copy differs")
        target.unlink()
        return Sample(source.stat().st_size / 1e9 / run.seconds, crossed=_crossed(run.output))

    return Entry("ssh", measure)


def scp_of(rate: float) -> Entry:
    """`scp` of what a line that gives it `rate` GB/s carries in a sample's time, with its start."""

    def measure(ssh: Ssh, site: Site, settings: Settings) -> Sample:
        source, target = site.folder / "scp-source", site.folder / "scp-target"
        source.write_bytes(os.urandom(int(rate * settings.seconds * 1e9)))
        run = site.run(_scp(ssh, source, target))
        return Sample(rate=source.stat().st_size / run.seconds / 1e9)

    return Entry("ssh", measure)


def _scp(ssh: Ssh, path: Path, target: Path) -> list[str]:
    return ["scp", "-q", "-F", str(ssh.config), str(path), f"there:{target}"]


def rsync() -> Entry:
    """`rsync --whole-file` of a file in memory to another."""

    def measure(ssh: Ssh, site: Site, settings: Settings) -> Sample:
        _needs_rsync()
        target = site.folder / "rsync-target"
        flags = ["rsync", "--whole-file", "--inplace", "--rsh", shlex.join(ssh.command[:-1])]
        return whole_and_empty(site, settings, lambda path: [*flags, str(path), f"there:{target}"], target)

    return Entry("ssh", measure)


def rsync_version() -> Entry:
    """`rsync --no-whole-file` of a file of which an older version is there, with its start."""

    def measure(ssh: Ssh, site: Site, settings: Settings) -> Sample:
        _needs_rsync()
        source, target = sources.newer(site, settings), site.folder / "rsync-target"
        shutil.copyfile(sources.big_file(site, settings), target)
        flags = ["--no-whole-file", "--ignore-times", "--stats", "--rsh", shlex.join(ssh.command[:-1])]
        run = site.run(["rsync", *flags, str(source), f"there:{target}"])
        if target.read_bytes() != source.read_bytes():
            raise Failure("rsync's copy differs")
        target.unlink()
        return Sample(source.stat().st_size / 1e9 / run.seconds, crossed=_crossed(run.output))

    return Entry("ssh", measure)


def _crossed(told: str) -> float:
    """MB that `rsync --stats` counts, both ways."""
    sides = re.findall(r"^Total bytes (?:sent|received): ([\d,.]+)$", told, re.MULTILINE)
    return sum(int(re.sub(r"\D", "", side)) for side in sides) / 1e6


def small_tar() -> Entry:
    """`tar c | ssh there tar x`."""

    def command(ssh: Ssh, source: Path, target: Path) -> list[str]:
        there = shlex.join([*ssh.command, f"mkdir {target} && tar xf - -C {target}"])
        return ["sh", "-c", f"tar cf - -C {source} . | {there}"]

    return small("ssh", "tar-small", command)


def small_rsync() -> Entry:
    """`rsync -a --whole-file`."""

    def command(ssh: Ssh, source: Path, target: Path) -> list[str]:
        _needs_rsync()
        flags = ["-a", "--whole-file", "--rsh", shlex.join(ssh.command[:-1])]
        return ["rsync", *flags, f"{source}/", f"there:{target}"]

    return small("ssh", "rsync-small", command)


def _needs_rsync() -> None:
    if reason := absent("rsync", "rsync"):
        raise Failure(reason)


def small_scp() -> Entry:
    """`scp -r`."""
    return small(
        "ssh",
        "scp-small",
        lambda ssh, source, target: ["scp", "-q", "-r", "-F", str(ssh.config), str(source), f"there:{target}"],
    )
