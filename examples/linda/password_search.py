"""Password search, paper 002, listing 1: find passwords by their digests in a database spread over the crew.

python -m examples.linda.password_search --crew 4 --place processes --passwords 10000
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import md5
from random import Random

import phalanx as px

from examples.linda.places import main, meet
from examples.linda.search import Search

Entry = tuple[str, str]


@dataclass(frozen=True)
class PasswordSearch:
    """``passwords`` entries in total, of which ``searches`` are searched for; ``order`` as in :class:`Search`."""

    passwords: int = 10_000
    searches: int = 100
    order: str = "listing"

    def given(self) -> list[str]:
        """Returns distinct passwords of the database, the same in each run."""
        return [str(number) for number in Random(0).sample(range(self.passwords), self.searches)]

    def portion(self, me: int, crew: int) -> list[Entry]:
        """Returns a member's portion of the database: digests with their passwords."""
        return [(digest(password), password) for password in map(str, range(me, self.passwords, crew))]

    def owner(self, space: px.Space, crew: int, wanted: list[str]) -> dict[str, str]:
        """Puts the tasks and collects the passwords by their digests."""
        for password in wanted:
            space.out("search_task", digest(password), "not_processed")

        found = {}
        for _ in wanted:
            _, hashed, password = space.in_("found_value", str, str)
            found[hashed] = password

        for _ in range(crew):
            space.out("search_task", None, "finished")
        return found

    def crew(self, owner: px.Space, spaces: Sequence[px.Space], me: int, portion: list[Entry]) -> None:
        """Loads its portion, then takes tasks and searches in the spaces of all members."""
        search = Search(spaces, me, self.order, "1")
        for hashed, password in portion:
            search.home.out("hash_set", hashed, password)
        meet(owner, "loaded", me, len(spaces))

        _, hashed, status = owner.in_("search_task", px.space.ANY, str)
        while status != "finished":
            _, _, password = search.rdp(int(hashed[:8], 16), "hash_set", hashed, str)
            owner.out("found_value", hashed, password)
            _, hashed, status = owner.in_("search_task", px.space.ANY, str)

    def check(self, wanted: list[str], found: dict[str, str]) -> None:
        """Raises AssertionError unless all passwords were found, and are right."""
        assert found == {digest(password): password for password in wanted}


def digest(password: str) -> str:
    """The hexadecimal MD5 of a password, as in the paper. It is a key, not a protection."""
    return md5(password.encode(), usedforsecurity=False).hexdigest()


if __name__ == "__main__":
    main(PasswordSearch)
