"""A group of commands that suggests the name which a user may have meant."""

from __future__ import annotations

import click


class Suggesting(click.Group):
    """Suggests commands, as click suggests options. No version of click suggests commands that are imported late."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that the first word names; an unknown word is an error with similar names."""
        names = self.list_commands(ctx)
        if args and args[0] not in names and not args[0].startswith("-") and not ctx.resilient_parsing:
            raise click.UsageError(f"No such command {args[0]!r}.{_similar(args[0], names)}", ctx)
        return super().resolve_command(ctx, args)


def _similar(word: str, names: list[str]) -> str:
    from difflib import get_close_matches

    found = get_close_matches(word, names)
    return f" Did you mean {' or '.join(repr(name) for name in found)}?" if found else ""
