"""Ours: an executor in a process of its own, and copies from this process to it, or by the command `phalanx cp`."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import phalanx as px
from phalanx.words import Level

from bench.peers.processes import tree_cpu_seconds
from bench.transfer import sources
from bench.transfer.sample import Entry, Sample
from bench.transfer.settings import Settings
from bench.transfer.site import Failure, Site
from bench.transfer.sources import big_file, newer, small_files

_TOP = Path(__file__).resolve().parents[2]
_PHALANX = str(Path(sys.executable).with_name("phalanx"))


@dataclass(frozen=True)
class Executor:
    """``address`` of one that exports the site's folder and memory; links to the ``network`` need no protection."""

    address: str
    network: str

    def at(self, path: str | Path) -> str:
        """A path there, as a copy names it."""
        return f"{self.address}:{path}"


def missing() -> str | None:
    """Nothing."""
    return None


@contextmanager
def started(site: Site) -> Iterator[Executor]:
    """An executor for the block, of the grid that this process is of."""
    port, network = site.port(), f"{site.address.rpartition('.')[0]}.0/24"
    listen = [_PHALANX, "executor", "--listen", f"{site.address}:{port}", "--no-spaces", "--trusted", network]
    with site.serve([*listen, "--export", f"{site.folder}:rw", "--export", "memory"], port):
        yield Executor(f"{site.address}:{port}", network)


def _copy(executor: Executor, src: str | Path, dst: str | Path, **options: object) -> Sample:
    before = tree_cpu_seconds()
    report = px.copy(src, dst, trusted=[executor.network], **options)  # type: ignore[arg-type]
    cpu = tree_cpu_seconds() - before
    assert not report.failures, report.failures
    assert report.level == options["level"], report
    gigabytes = report.bytes / 1e9
    rate = None if report.files > 1 else gigabytes / report.seconds
    files = report.files / report.seconds if report.files > 1 else None
    return Sample(rate, cpu / gigabytes, files, report.setup * 1e3)


def memory(level: str, streams: int, threads: int | None = None, *, check: bool = False) -> Entry:
    """Bytes that are made up here and thrown away there."""

    def measure(executor: Executor, site: Site, settings: Settings) -> Sample:
        source, target = f"memory:{settings.gigabytes}G", executor.at("memory")
        return _copy(executor, source, target, level=level, streams=streams, threads=threads, check=check)

    return Entry("phalanx", measure)


def file(level: str, streams: int | None = None) -> Entry:
    """A file of random bytes, to the executor's folder."""

    def measure(executor: Executor, site: Site, settings: Settings) -> Sample:
        source, target = big_file(site, settings), site.folder / "phalanx-target"
        target.unlink(missing_ok=True)
        sample = _copy(executor, source, executor.at(target), level=level, streams=streams, anew=True)
        target.unlink()
        return sample

    return Entry("phalanx", measure)


def version(level: Level) -> Entry:
    """A file of which an older version is at the executor."""

    def measure(executor: Executor, site: Site, settings: Settings) -> Sample:
        target = site.folder / "phalanx-target"
        shutil.copyfile(big_file(site, settings), target)
        source = newer(site, settings)
        report = px.copy(
            source, executor.at(target), level=level, trusted=[executor.network], whole_file=False, anew=True
        )
        assert not report.failures, report.failures
        target.unlink()
        return Sample(report.bytes / 1e9 / report.seconds, crossed=report.crossed / 1e6)

    return Entry("phalanx", measure)


def text(level: str, *, compress: bool | None = None) -> Entry:
    """A file of text to the executor's folder, by the command at the site's own end, with its start."""

    def measure(executor: Executor, site: Site, settings: Settings) -> Sample:
        source, target = sources.text(site, settings), site.folder / "phalanx-target"
        target.unlink(missing_ok=True)
        words = [] if compress is None else ["--compress" if compress else "--no-compress"]
        words += ["--json", "--anew", "--level", level, "--trusted", executor.network]
        run = site.run([_PHALANX, "cp", *words, source, executor.at(target)])
        if target.read_bytes() != source.read_bytes():
            raise Failure("the copy differs")
        target.unlink()
        report = json.loads(run.output)
        return Sample(source.stat().st_size / 1e9 / run.seconds, crossed=report["crossed"] / 1e6)

    return Entry("phalanx", measure)


def small(level: str) -> Entry:
    """Files of 4 KB in ten folders, to a folder that is not there."""

    def measure(executor: Executor, site: Site, settings: Settings) -> Sample:
        source, target = small_files(site, settings), site.folder / "phalanx-small"
        shutil.rmtree(target, ignore_errors=True)
        return _copy(executor, source, executor.at(target), level=level)

    return Entry("phalanx", measure)


def setup(level: str) -> Entry:
    """From the call to the first stream, from a process that has copied before; the median of twenty."""

    def once(executor: Executor) -> float:
        return _copy(executor, "memory:1", executor.at("memory"), level=level).setup or 0.0

    def measure(executor: Executor, site: Site, settings: Settings) -> Sample:
        return Sample(setup=median(once(executor) for _ in range(20)))

    return Entry("phalanx", measure)


def one_byte(level: str) -> Entry:
    """`phalanx cp` of one byte, from start to end."""

    def measure(executor: Executor, site: Site, settings: Settings) -> Sample:
        command = [_PHALANX, "cp", "--json", "--trusted", executor.network, "--level", level]
        run = site.run([*command, "memory:1", executor.at("memory")])
        return Sample(setup=run.seconds * 1e3)

    return Entry("phalanx", measure)


def by_time(level: str, streams: int = 0, threads: int = 0, *, times: float = 1.0) -> Entry:
    """A copy at the site's own end that goes on for `times` as long as others. 0: by itself."""

    def measure(executor: Executor, site: Site, settings: Settings) -> Sample:
        counts = [str(streams), str(threads), str(settings.seconds * times)]
        asked = [executor.at("memory"), executor.network, level, *counts]
        run = site.run([sys.executable, "-m", "bench.transfer.by_time", *asked], {"PYTHONPATH": str(_TOP)})
        return Sample(rate=float(run.output) / 1e9)

    return Entry("phalanx", measure)
