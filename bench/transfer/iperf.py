"""iperf3: what one process at each end gets through TCP without doing anything with it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

from bench.transfer.sample import Entry, Sample
from bench.transfer.settings import Settings
from bench.transfer.site import Site, absent


def missing() -> str | None:
    """What to install."""
    return absent("iperf3", "iperf3")


@contextmanager
def started(site: Site) -> Iterator[int]:
    """Its server for the block; its port."""
    port = site.port()
    with site.serve(["iperf3", "--server", "--bind", site.address, "--port", str(port)], port):
        yield port


def memory(streams: int, *flags: str, times: float = 1.0) -> Entry:
    """From memory to memory for a given time, `times` as long as others."""

    def measure(port: int, site: Site, settings: Settings) -> Sample:
        seconds = max(1, round(settings.seconds * times))  # it takes whole ones
        where = ["iperf3", "--client", site.address, "--port", str(port), "--json"]
        run = site.run([*where, "--parallel", str(streams), "--time", str(seconds), *flags])
        received = json.loads(run.output)["end"]["sum_received"]
        gigabytes = received["bytes"] / 1e9
        return Sample(rate=received["bits_per_second"] / 8e9, cpu=run.cpu / gigabytes)

    return Entry("iperf3", measure)
