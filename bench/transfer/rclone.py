"""rclone over https: `rclone serve http` with a certificate of its own, in Go, whose TLS takes AES-128-GCM here."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.transfer.commands import small, whole_and_empty
from bench.transfer.sample import Entry, Sample
from bench.transfer.settings import Settings
from bench.transfer.site import Site, absent
from bench.transfer.sources import folder
from bench.transfer.sources import one_byte as one_byte_file


@dataclass(frozen=True)
class Rclone:
    """The ``address`` of a server of what is copied, and the certificate to trust."""

    address: str
    certificate: Path

    def command(self, *words: str) -> list[str]:
        """A client's."""
        options = ["--config", "/dev/null", "--ca-cert", str(self.certificate), "--http-url", self.address]
        return ["rclone", *words, *options]


def missing() -> str | None:
    """What to install."""
    return absent("rclone", "rclone") or absent("openssl", "openssl")


@contextmanager
def started(site: Site) -> Iterator[Rclone]:
    """A server for the block."""
    port, key, certificate = site.port(), site.folder / "rclone.key", site.folder / "rclone.pem"
    made = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    names = ["-subj", "/CN=bench", "-addext", f"subjectAltName=IP:{site.address}", "-days", "2"]
    site.run([*made, "-keyout", key, "-out", certificate, *names])
    listen = ["rclone", "serve", "http", "--config", "/dev/null", "--addr", f"{site.address}:{port}"]
    with site.serve([*listen, "--cert", certificate, "--key", key, folder(site)], port):
        yield Rclone(f"https://{site.address}:{port}", certificate)


def cat() -> Entry:
    """`rclone cat … > /dev/null`, from a file in memory."""

    def measure(rclone: Rclone, site: Site, settings: Settings) -> Sample:
        return whole_and_empty(site, settings, lambda path: _cat(rclone, path))

    return Entry("rclone", measure)


def one_byte() -> Entry:
    """The command from start to end."""

    def measure(rclone: Rclone, site: Site, settings: Settings) -> Sample:
        return Sample(setup=site.run(_cat(rclone, one_byte_file(site))).seconds * 1e3)

    return Entry("rclone", measure)


def _cat(rclone: Rclone, path: Path) -> list[str]:
    return ["sh", "-c", f"exec {shlex.join(rclone.command('cat', f':http:{path.name}'))} > /dev/null"]


def file(streams: int) -> Entry:
    """`rclone copyto` of a file in memory to another, in so many streams."""

    def measure(rclone: Rclone, site: Site, settings: Settings) -> Sample:
        target = site.folder / "rclone-target"
        several = ["--multi-thread-streams", str(streams), "--multi-thread-cutoff", "1M"]
        return whole_and_empty(
            site,
            settings,
            lambda path: rclone.command("copyto", f":http:{path.name}", str(target), *several),
            target,
        )

    return Entry("rclone", measure)


def small_files() -> Entry:
    """`rclone copy` of a folder, eight files at a time."""
    return small(
        "rclone",
        "rclone-small",
        lambda rclone, source, target: rclone.command(
            "copy", f":http:{source.name}", str(target), "--transfers", "8", "--checkers", "8"
        ),
    )
