"""How much to measure. A full run takes less than six minutes on two cores, a quick one less than 90 s."""

from __future__ import annotations

from dataclasses import dataclass, replace

KIB = 1 << 10


def shown_size(count: float) -> str:
    """Bytes in the units that messages have."""
    return f"{count / KIB:g}K" if count < KIB * KIB else f"{count / (KIB * KIB):g}M"


@dataclass(frozen=True)
class Settings:
    """Sizes are bytes in one direction; an instruction gives back as much as it takes."""

    #: Samples of each point; all figures are medians of them.
    rounds: int
    #: One sample lasts about so many seconds, but has at least `least` instructions for each interpreter: with few of
    #: them, one that waits behind another at the end of the stream weighs too much.
    seconds: float
    least: int
    #: How many interpreters, for the speedups.
    degrees: tuple[int, ...]
    #: Grains of figure 3, and those of figure 4, right: the paper's.
    grains: tuple[int, ...]
    iso_grains: tuple[int, ...]
    #: Data of an instruction in the speedups.
    data: int
    #: Message sizes of figure 4, left.
    messages: tuple[int, ...]
    #: Figure 5: interpreters in all, what their instructions take, and what they transfer.
    mixed: int
    mixed_seconds: float
    small: int
    large: int
    #: The same without the limit of the LAN.
    huge: int


FULL = Settings(
    rounds=3,
    seconds=0.4,
    least=8,
    degrees=(1, 2, 4, 8, 16),
    grains=(1, 3, 10, 70),
    iso_grains=(70, 300),
    data=16 * KIB,
    messages=tuple(4**power * KIB for power in range(7)),
    mixed=8,
    mixed_seconds=0.01,
    small=KIB,
    large=128 * KIB,
    huge=2048 * KIB,
)
QUICK = replace(
    FULL,
    rounds=1,
    seconds=0.2,
    least=4,
    degrees=(1, 2, 8),
    grains=(1, 10, 70),
    messages=(KIB, 64 * KIB, 1024 * KIB),
    mixed=4,
)
#: For the test: does every part of it work?
TINY = replace(
    QUICK,
    seconds=0.05,
    least=2,
    degrees=(1, 2, 3),
    grains=(1, 10),
    iso_grains=(5, 10),
    messages=(KIB, 64 * KIB),
    mixed=2,
    mixed_seconds=0.002,
    large=64 * KIB,
    huge=256 * KIB,
)
SIZES = {"full": FULL, "quick": QUICK, "tiny": TINY}
