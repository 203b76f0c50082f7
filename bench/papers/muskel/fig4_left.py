"""Figure 4, left: bandwidth by message size, and the length of the encoding."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any

from bench.papers.muskel import drawing
from bench.papers.muskel.curves import Say
from bench.papers.muskel.places import LEVELS, Place
from bench.papers.muskel.sampling import bandwidth, sent_bytes, stream_seconds
from bench.papers.muskel.settings import KIB, Settings, shown_size
from bench.papers.muskel.work import random_data, size

#: Sent to compare the encodings, in bytes and messages.
_ENCODED = (64 * KIB, 200)


@dataclass
class Bandwidths:
    """Of one level on one line: bytes/s by message size, samples."""

    level: str
    line: str
    messages: list[int]
    samples: list[list[float]]

    @property
    def medians(self) -> list[float]:
        """One for each message size."""
        return [median(samples) for samples in self.samples]


@dataclass
class Bandwidth:
    """`encoded`: bytes on the wire for each byte of messages, by level."""

    title = "Bandwidth by message size"
    size = (11.0, 5.0)
    measurements: list[Bandwidths]
    rates: dict[str, float | None]
    encoded: dict[str, float] = field(default_factory=dict)

    @classmethod
    def measured(cls, place: Place, settings: Settings, say: Say) -> Bandwidth:
        """All levels on all lines, in turn."""
        sizes = list(settings.messages)
        found = [Bandwidths(level, line.title, sizes, [[] for _ in sizes]) for line in place.lines for level in LEVELS]
        made = cls(found, {line.title: line.rate for line in place.lines})
        for line in place.lines:
            line.lay()
            for number in range(settings.rounds):
                say(f"round {number + 1} of {settings.rounds}: {line.title}")
                for each in (each for each in found if each.line == line.title):
                    made._sample(place, settings, each)
        return made

    def _sample(self, place: Place, settings: Settings, each: Bandwidths) -> None:
        with place.manager(place.local[:1], level=each.level, degree=1) as manager:
            for samples, message in zip(each.samples, each.messages, strict=True):
                samples.append(bandwidth(manager, message, settings.seconds / 2))
            if each.level not in self.encoded:
                message, count = _ENCODED
                before = sent_bytes()
                stream_seconds(manager, size, [random_data(message)] * count)
                self.encoded[each.level] = (sent_bytes() - before) / (message * count)

    def tables(self) -> list[list[list[str]]]:
        """Rows, the heads first."""
        sizes = [shown_size(message) for message in self.measurements[0].messages]
        head = ["MB/s", "", *sizes]
        lines = [[each.line, each.level, *(f"{rate / 1e6:.3g}" for rate in each.medians)] for each in self.measurements]
        clear = self.encoded["plain"]
        encoding = [[level, f"{bytes_ / clear - 1:+.2%}"] for level, bytes_ in self.encoded.items()]
        return [[head, *lines], [["encoding", "longer than plain"], *encoding, ["the paper, SSL", "about +10%"]]]

    def words(self) -> list[str]:
        """What one must know to read it."""
        return [
            "A stream of messages to one interpreter, which gives back their sizes; small messages travel together.",
            f"Encoding: bytes on the wire for messages of {shown_size(_ENCODED[0])}, headers of TCP included.",
        ]

    def to_json(self) -> dict[str, Any]:
        """Every sample."""
        return {
            "rates": self.rates,
            "wire_bytes_per_byte": self.encoded,
            "bandwidth": [asdict(each) for each in self.measurements],
        }

    def draw(self, canvas: Any) -> None:
        """A panel for each line."""
        panels = canvas.subplots(1, len(self.rates), squeeze=False)[0]
        for axes, (line, rate) in zip(panels, self.rates.items(), strict=True):
            drawing.bandwidth_axes(axes, self.measurements[0].messages, title=line[0].upper() + line[1:], rate=rate)
            for each in (each for each in self.measurements if each.line == line):
                drawing.bandwidth(axes, each.messages, each.medians, each.level)
            axes.set_ylim(bottom=0)
            drawing.legend(axes, "lower right")
