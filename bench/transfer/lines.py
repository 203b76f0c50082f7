"""Shaped lines between two network namespaces, one for each end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

from bench.transfer.site import Failure, Site
from laboratory.lab import Lab
from laboratory.namespaces import inside, ip, obstacle

#: GB/s that pass, the headers of Ethernet, IP and TCP included.
TEN_GIGABIT, LONG, SLOW = 1.25, 0.125, 0.0125


@contextmanager
def local(folder: Path) -> Iterator[Site]:
    """No line: both ends on this machine's loopback interface."""
    yield Site(folder)


@contextmanager
def ten_gigabit(folder: Path) -> Iterator[Site]:
    """10 Gbit/s towards the far end, kept by the kernel."""
    with machines(folder, 1) as (_, (site,)):
        narrow(site, TEN_GIGABIT)
        yield site


@contextmanager
def slow(folder: Path) -> Iterator[Site]:
    """100 Mbit/s towards the far end, kept by the kernel."""
    with machines(folder, 1) as (_, (site,)):
        narrow(site, SLOW)
        yield site


def long(folder: Path) -> AbstractContextManager[Site]:
    """1 Gbit/s, 50 ms each way, and each way one packet in a thousand lost, by a program of ours.

    TCP's congestion control is reno, which every Linux has and lets machines have, whatever this machine's own is.
    """
    return _long(folder, "reno")


def long_with_bbr(folder: Path) -> AbstractContextManager[Site]:
    """The same, where BBR is everybody's congestion control."""
    return _long(folder, "bbr")


@contextmanager
def _long(folder: Path, control: str) -> Iterator[Site]:
    with machines(folder, 1) as (lab, (site,)):
        with _refusals():
            for host in lab.hosts:
                with inside(host.namespace):
                    Path("/proc/sys/net/ipv4/tcp_congestion_control").write_text(control)
            lab.hosts[0].cable.shape(delay=0.05, rate=LONG * 1e9, loss=0.001)
        yield site


def narrow(site: Site, rate: float) -> None:
    """Let at most `rate` GB/s, headers included, out of the near end; by the kernel, which costs next to nothing."""
    assert site.here
    words = ["rate", f"{rate * 8:g}gbit", "burst", "512kb", "latency", "5ms"]
    with _refusals():
        ip("qdisc", "add", "dev", "eth0", "root", "tbf", *words, namespace=site.here, program="tc")


@contextmanager
def machines(folder: Path, pairs: int) -> Iterator[tuple[Lab, list[Site]]]:
    """So many near machines, each with a far one, in network namespaces; Failure where there cannot be any."""
    if reason := obstacle():
        raise Failure(reason)
    with ExitStack() as stack:
        with _refusals():
            lab = stack.enter_context(Lab(quiet=True))
            near = [lab.host(f"near{number}") for number in range(pairs)]
            far = [lab.host(f"far{number}") for number in range(pairs)]
        yield lab, [Site(folder, b.address, a.namespace, b.namespace) for a, b in zip(near, far, strict=True)]


@contextmanager
def _refusals() -> Iterator[None]:
    """What a system does not have: a kind of queue, namespaces in a container, the program `tc`."""
    try:
        yield
    except (RuntimeError, OSError) as error:
        raise Failure(str(error)) from error
