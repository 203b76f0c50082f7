"""A member of a crew as a separate process: ``places.py`` starts ``python -m examples.linda.member ORDER``."""

from __future__ import annotations

import json
import sys
from contextlib import ExitStack
from importlib import import_module

import phalanx as px

from examples.linda.places import be_of_the_crew, opened


def main(order: str) -> None:
    """Opens the member's space, finds the others', does the work, and keeps the space until all members are done."""
    said = json.loads(order)
    module, _, kind = said["program"].partition(":")
    program = getattr(import_module(module), kind)(**said["parameters"])
    with ExitStack() as stack:
        owner = stack.enter_context(px.Space(said["owner"]))
        me = said["me"]
        local, address = opened(stack, said["redis"], f"{said['name']}-{me}", True, said["listen"])
        owner.out("place", "address", me, address)
        spaces = []
        for other in range(said["crew"]):
            _, _, _, where = owner.rd("place", "address", other, str)
            spaces.append(local if other == me else stack.enter_context(px.Space(where)))
        be_of_the_crew(program, owner, spaces, me, bool(said["figures"]))
        if said["figures"]:
            px.profile.save(said["figures"])
        owner.rd("place", "end")


if __name__ == "__main__":
    main(sys.argv[1])
