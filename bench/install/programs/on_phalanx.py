"""The first result of a farm of phalanx on this machine."""

import phalanx as px


def double(number: int) -> int:
    """The task."""
    return 2 * number


if __name__ == "__main__":
    with px.Manager(contract=px.ParDegree(2)) as manager:
        for result in manager.map(double, range(10)):
            print(result, flush=True)
