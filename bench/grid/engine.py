"""The hub's engine in grids of 10 to 100 000 members: `make bench-hub`, or `python -m bench.grid.engine`."""

from __future__ import annotations

import json
import subprocess

_COMMAND = ["cargo", "bench", "--quiet", "--locked", "-p", "phalanx-core", "--bench", "hub"]
#: The size with full pages that the others are compared with, and the growth of the largest that is still flat.
_FULL, _FLAT = "1000", 1.5


def main() -> None:
    """Measure, and print a row for each kind of event."""
    sizes = json.loads(subprocess.run(_COMMAND, check=True, stdout=subprocess.PIPE).stdout)
    before, largest = list(sizes)[-2:]
    shown = "".join(f"{size:>12}" for size in sizes)
    print(f"{'µs for an event, by members':34}{shown}{'to ' + _FULL:>12}{'to ' + before:>12}")
    for kind in sizes[largest]:
        values = "".join(f"{times[kind] / 1e3:12.2f}" for times in sizes.values())
        ratios = [sizes[largest][kind] / sizes[size][kind] for size in (_FULL, before)]
        missed = "  not flat" if ratios[-1] > _FLAT else ""
        print(f"{kind:34}{values}" + "".join(f"{ratio:10.2f} ×" for ratio in ratios) + missed)
    mixes = {size: 1e9 / times["mix of a day"] for size, times in sizes.items()}
    print("events a second, mix of a day: " + ", ".join(f"{size}: {rate:.0f}" for size, rate in mixes.items()))


if __name__ == "__main__":
    main()
