"""Peers whose command starts for each copy: what it takes to start is measured too, and is not in the rate."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bench.transfer.sample import Entry, Sample
from bench.transfer.settings import Settings
from bench.transfer.site import Failure, Run, Site
from bench.transfer.sources import big_file, one_byte, small_files


def whole_and_empty(
    site: Site, settings: Settings, command: Callable[[Path], Sequence[str]], target: Path | None = None
) -> Sample:
    """A large file and one of one byte by `command`, which is given their paths; `target` is removed before."""

    def copied(path: Path) -> Run:
        if target:
            target.unlink(missing_ok=True)
        return site.run(command(path))

    source, empty = big_file(site, settings), copied(one_byte(site))
    whole, size = copied(source), source.stat().st_size
    if target:
        if target.stat().st_size != size:
            raise Failure(f"{target.name} has {target.stat().st_size} of {size} bytes")
        target.unlink()
    # Where a copy is hardly longer than an empty one, there is little to subtract from.
    seconds, cpu = max(whole.seconds - empty.seconds, 0.1 * whole.seconds), max(whole.cpu - empty.cpu, 0.0)
    return Sample(rate=size / 1e9 / seconds, cpu=cpu / (size / 1e9), setup=empty.seconds * 1e3)


def small(peer: str, name: str, command: Callable[[Any, Path, Path], Sequence[str]]) -> Entry:
    """A folder of small files, with the start: `command` is given who serves, the folder, and a new one's `name`."""

    def measure(server: Any, site: Site, settings: Settings) -> Sample:
        source, target = small_files(site, settings), site.folder / name
        shutil.rmtree(target, ignore_errors=True)
        run = site.run(command(server, source, target))
        copied = sum(1 for path in target.rglob("*") if path.is_file())
        if copied != settings.files:
            raise Failure(f"{name} has {copied} of {settings.files} files")
        shutil.rmtree(target)
        return Sample(files=settings.files / run.seconds)

    return Entry(peer, measure)
