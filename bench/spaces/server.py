"""A process that serves a space with many tuples: `python -m bench.spaces.server COUNT`; ends when its input does."""

from __future__ import annotations

import sys

import phalanx as px

from bench.spaces.timing import fill

#: Links over it are clear where nobody asks for more.
LOOPBACK = "127.0.0.0/8"


def main(count: int) -> None:
    """Print the address when it is ready."""
    with px.Space() as space:
        fill(space, count)
        space.rdp("entry", "no such key", int)  # from now on there is an index
        print(space.serve(trusted=[LOOPBACK]), flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main(int(sys.argv[1]))
