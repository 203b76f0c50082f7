"""What the commands of the benchmarks have in common: what they are asked, how far they say they are, how they end."""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NoReturn

from bench.peers.processes import Strangers, disturbance


def say(line: str) -> None:
    """Tell how far it is, apart from the figures."""
    print(line, file=sys.stderr, flush=True)


def parser(description: str, names: Iterable[str] = (), *, kind: str = "ROW") -> argparse.ArgumentParser:
    """With `--only`, any of `names`, each of which is a `kind`; without names there is nothing to choose."""
    made, every = argparse.ArgumentParser(description=description), list(names)
    if every:
        made.add_argument("--only", action=_Only, choices=every, default=every, metavar=kind, help=", ".join(every))
    return made


class _Only(argparse.Action):
    """What is asked for, each once and in the order of asking, instead of everything."""

    def __call__(
        self, _: argparse.ArgumentParser, chosen: argparse.Namespace, value: Any, __: str | None = None
    ) -> None:
        before = [] if chosen.only is self.default else chosen.only
        chosen.only = list(dict.fromkeys([*before, value]))


def table_parser(description: str, rows: Iterable[str] = ()) -> argparse.ArgumentParser:
    """For a command that prints tables: also with `--quick` and `--json`."""
    made = parser(description, rows)
    made.add_argument("--quick", action="store_true", help="one short sample of each, to see that it runs")
    made.add_argument("--json", type=Path, metavar="FILE", help="write every sample there")
    return made


def conclude(report: str, strangers: Strangers, *, rounds: int, file: Path | None, facts: Mapping[str, Any]) -> None:
    """Print what was found, how it was measured and who disturbed; write it with `facts` to `file`."""
    seconds, others = strangers.seconds, sum(strangers.percents())
    print(report)
    print(f"medians of {rounds}, {seconds:.0f} s; others used {others:.0f} % of the cores")
    if disturbed := disturbance(others):
        print(f"Uncertain figures: {disturbed}.")
    if file:
        file.write_text(json.dumps({**facts, "others_percent": others}, indent=1) + "\n")


def run(main: Callable[[], None], *errors: type[Exception]) -> NoReturn:
    """Run the command and exit: `errors` are one line on stderr and code 1, Ctrl-C is code 130."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that what was started ends too
    try:
        main()
    except errors as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
    sys.exit(0)
