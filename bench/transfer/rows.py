"""What is measured: each row with its entries, ours and the peers', and with what phalanx wants to reach."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from bench.transfer import gridftp, iperf, lines, phalanx, rclone, ssh
from bench.transfer.sample import Entry
from bench.transfer.site import Site


class Peer(NamedTuple):
    """``missing``: why it cannot be measured. ``started``: its server at a site, for a block."""

    missing: Callable[[], str | None]
    started: Callable[[Site], AbstractContextManager[Any]]


PEERS = {
    "phalanx": Peer(phalanx.missing, phalanx.started),
    "iperf3": Peer(iperf.missing, iperf.started),
    "gridftp": Peer(gridftp.missing, gridftp.started),
    "rclone": Peer(rclone.missing, rclone.started),
    "ssh": Peer(ssh.missing, ssh.started),
}


class Claim(NamedTuple):
    """``reach`` is of ours over the best of ``theirs``, or of ours alone; ``figure`` is a field of `Sample`."""

    what: str
    ours: str
    theirs: tuple[str, ...]
    reach: float
    relative: bool = True
    figure: str = "rate"


@dataclass(frozen=True)
class Row:
    """Entries are measured in turn at the site that ``where`` makes in a folder."""

    entries: dict[str, Entry]
    claims: tuple[Claim, ...]
    where: Callable[[Path], AbstractContextManager[Site]] = lines.local


_CLEAR = {"clear, 2 streams": phalanx.memory("clear", 2)}
_GRIDFTP = {
    level: {
        f"GridFTP {level}, 2 streams": gridftp.memory(level, 2),
        f"GridFTP {level}, 2 streams, pool of 3 threads": gridftp.memory(level, 2, threads=3),
    }
    for level in ("clear", "authenticated", "safe", "private")
}
_IPERF = {
    "iperf3, 1 stream": iperf.memory(1),
    "iperf3, 2 streams": iperf.memory(2),
    "iperf3, 1 stream, zero copy": iperf.memory(1, "--zerocopy"),
}
_RCLONE = {"rclone https, cat": rclone.cat()}
_SSH = {"ssh, a pipe": ssh.pipe(), "scp, file to file": ssh.scp()}


def _long_line(control: str, scp: float, where: Callable[[Path], AbstractContextManager[Site]]) -> Row:
    """1 Gbit/s, 100 ms and 0.1 % lost. ``control``: what names tell of the congestion control; ``scp``: the GB/s that
    are expected of it."""
    ours, stream = f"private, long line{control}", f"one TCP stream (iperf3), long line{control}"
    their_scp, what = f"scp, long line{control}", f"1 Gbit/s, 100 ms, 0.1 % lost{control}"
    return Row(
        {
            ours: phalanx.by_time("private", times=10),
            f"private, 1 stream, long line{control}": phalanx.by_time("private", 1, times=5),
            stream: iperf.memory(1, times=5),
            their_scp: ssh.scp_of(scp),
        },
        (
            Claim(f"{what}: 80 % of the wire", ours, (), 0.8 * lines.LONG, False),
            Claim(f"the same / one TCP stream, scp{control}", ours, (stream, their_scp), 1.0),
        ),
        where,
    )


ROWS: dict[str, Row] = {
    "clear": Row(
        {
            **_CLEAR,
            "clear, 1 stream": phalanx.memory("clear", 1),
            "clear with checksums, 2 streams": phalanx.memory("clear", 2, check=True),
            **_IPERF,
            **_GRIDFTP["clear"],
        },
        (
            Claim("clear / iperf3's best", "clear, 2 streams", tuple(_IPERF), 1.0),
            Claim("clear / GridFTP clear", "clear, 2 streams", tuple(_GRIDFTP["clear"]), 1.8),
        ),
    ),
    "private": Row(
        {
            **_CLEAR,
            "clear, 1 stream": phalanx.memory("clear", 1),
            "private, 1 stream": phalanx.memory("private", 1),
            "private, 2 streams": phalanx.memory("private", 2),
            "private, 2 streams, 1 thread": phalanx.memory("private", 2, threads=1),
            "private, 2 streams, 2 threads": phalanx.memory("private", 2, threads=2),
            "private, 4 streams": phalanx.memory("private", 4),
            **_GRIDFTP["private"],
            **_RCLONE,
            **_SSH,
        },
        (
            Claim("private / clear, 2 streams", "private, 2 streams", tuple(_CLEAR), 0.62),
            Claim("private, 2 streams, both ends' CPU a GB", "private, 2 streams", (), 0.5, False, "cpu"),
            Claim("private / clear, 1 stream", "private, 1 stream", ("clear, 1 stream",), 0.75),
            Claim("private / GridFTP private", "private, 2 streams", tuple(_GRIDFTP["private"]), 3.4),
            Claim("private / rclone https", "private, 2 streams", tuple(_RCLONE), 2.5),
            Claim("private / scp, or a pipe over ssh", "private, 2 streams", tuple(_SSH), 4.0),
        ),
    ),
    "safe": Row(
        {
            **_CLEAR,
            "safe, 1 stream": phalanx.memory("safe", 1),
            "safe, 2 streams": phalanx.memory("safe", 2),
            **_GRIDFTP["safe"],
        },
        (
            Claim("safe / clear, 2 streams", "safe, 2 streams", tuple(_CLEAR), 0.72),
            Claim("safe / GridFTP safe, which encrypts", "safe, 2 streams", tuple(_GRIDFTP["safe"]), 4.0),
        ),
    ),
    "authenticated": Row(
        {
            **_CLEAR,
            "authenticated, 1 stream": phalanx.memory("authenticated", 1),
            "authenticated, 2 streams": phalanx.memory("authenticated", 2),
            **_GRIDFTP["authenticated"],
        },
        (
            Claim("authenticated / clear, 2 streams", "authenticated, 2 streams", tuple(_CLEAR), 0.95),
            Claim("authenticated / GridFTP's", "authenticated, 2 streams", tuple(_GRIDFTP["authenticated"]), 1.0),
        ),
    ),
    "setup": Row(
        {
            "set-up, clear": phalanx.setup("clear"),
            "set-up, private": phalanx.setup("private"),
            "phalanx cp of one byte": phalanx.one_byte("private"),
            "globus-url-copy of one byte, private": gridftp.one_byte("private"),
            "rclone cat of one byte": rclone.one_byte(),
            "ssh, a pipe of one byte": ssh.one_byte(),
        },
        (
            Claim("session set-up, private", "set-up, private", (), 2, False, "setup"),
            Claim(
                "the command for one byte / GridFTP's",
                "phalanx cp of one byte",
                ("globus-url-copy of one byte, private",),
                1.0,
                True,
                "setup",
            ),
        ),
    ),
    "file": Row(
        {
            "file to file, clear": phalanx.file("clear"),
            "file to file, private": phalanx.file("private"),
            "rclone https, 4 streams": rclone.file(4),
            "rclone https, 1 stream": rclone.file(1),
            "rsync over ssh": ssh.rsync(),
            "scp": ssh.scp(),
        },
        (
            Claim("file to file in memory, private", "file to file, private", (), 1.8, False),
            Claim(
                "the same / rclone https",
                "file to file, private",
                ("rclone https, 4 streams", "rclone https, 1 stream"),
                1.4,
            ),
            Claim("the same / rsync over ssh", "file to file, private", ("rsync over ssh",), 2.2),
        ),
    ),
    "versions": Row(
        {"an older version there, private": phalanx.version("private"), "rsync over ssh": ssh.rsync_version()},
        (
            Claim(
                "MB that cross for a changed one / rsync",
                "an older version there, private",
                ("rsync over ssh",),
                1.5,
                True,
                "crossed",
            ),
            Claim("a file with a changed MB / rsync", "an older version there, private", ("rsync over ssh",), 1.0),
        ),
    ),
    "compression": Row(
        {
            "text, 100 Mbit/s, private": phalanx.text("private"),
            "the same with --no-compress": phalanx.text("private", compress=False),
            "rsync -z of text": ssh.rsync_text("-z"),
            "rsync of text": ssh.rsync_text(),
            "scp -C of text": ssh.scp_text(),
        },
        (
            Claim(
                "text over 100 Mbit/s / rsync -z, scp -C",
                "text, 100 Mbit/s, private",
                ("rsync -z of text", "scp -C of text"),
                1.0,
            ),
        ),
        lines.slow,
    ),
    "small": Row(
        {
            "small files, clear": phalanx.small("clear"),
            "small files, private": phalanx.small("private"),
            "tar over ssh": ssh.small_tar(),
            "rsync over ssh": ssh.small_rsync(),
            "scp -r": ssh.small_scp(),
            "rclone https": rclone.small_files(),
            "GridFTP private": gridftp.small_files("private"),
        },
        (
            Claim("files of 4 KB, private", "small files, private", (), 50_000, False, "files"),
            Claim(
                "the same / the best of the others",
                "small files, private",
                ("tar over ssh", "rsync over ssh", "scp -r", "rclone https", "GridFTP private"),
                1.0,
                True,
                "files",
            ),
        ),
    ),
    "ten-gigabit": Row(
        {
            "clear, 2 streams, 10 Gbit/s": phalanx.by_time("clear", 2),
            "private, 2 streams, 10 Gbit/s": phalanx.by_time("private", 2),
            "iperf3, 1 stream, 10 Gbit/s": iperf.memory(1),
            "GridFTP private, 2 streams, 10 Gbit/s": gridftp.memory("private", 2),
        },
        (
            Claim(
                "private / clear on 10 Gbit/s", "private, 2 streams, 10 Gbit/s", ("clear, 2 streams, 10 Gbit/s",), 0.99
            ),
            Claim(
                "clear on 10 Gbit/s: 95 % of the wire",
                "clear, 2 streams, 10 Gbit/s",
                (),
                0.95 * lines.TEN_GIGABIT,
                False,
            ),
            Claim(
                "private on 10 Gbit/s: 95 % of the wire",
                "private, 2 streams, 10 Gbit/s",
                (),
                0.95 * lines.TEN_GIGABIT,
                False,
            ),
            Claim(
                "private / iperf3 on 10 Gbit/s", "private, 2 streams, 10 Gbit/s", ("iperf3, 1 stream, 10 Gbit/s",), 1.0
            ),
        ),
        lines.ten_gigabit,
    ),
    "long": _long_line("", 0.004, lines.long),
    "long-bbr": _long_line(", BBR for all", 0.02, lines.long_with_bbr),
}
