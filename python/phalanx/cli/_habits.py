"""Options of ``scp`` and ``rsync``, as hands know them: what is done anyway is accepted, others get a hint."""

from __future__ import annotations

from typing import Any

import click

#: What a copy does without being told.
DONE = ["-r", "--recursive", "-p", "-v", "--verbose"]
DONE_BY = {
    "cp": [*DONE, "-R", "-a", "--archive", "-t", "--times"],
    "sync": [*DONE, "-a", "--archive", "--perms", "-t", "--times", "--progress", "--partial"],
}
_COMPRESS = "what compresses is compressed with -z, or by itself on slow lines"
_LIMIT = "for a limit write --limit RATE, as in --limit 10MB/s"
_PORT = "a port stands in the address, as in lab2:7401:/path"
_PATTERNS = "there are no files of patterns: write --exclude PATTERN and --include PATTERN, once for each"
_SHELL = "no shell carries it: the link's level is by policy, see --level and --policy"
#: What others are for, and what there is in their place.
HINTS = {
    "cp": {
        "-P": _PORT,
        "-i": "who you are says your identity: --identity FILE",
        "-F": "machines stand in a file for --hosts",
        "-l": _LIMIT,
        "-3": "between two executors the bytes go straight from one to the other",
        "-q": "for a machine to read, write --json",
        "-C": _COMPRESS,
        "--checksum": "phalanx sync --checksum compares what files contain; cp --anew copies all of them",
    },
    "sync": {
        "-P": f"progress is shown, and what was cut goes on when it is done again, without an option; {_PORT}",
        "-e": _SHELL,
        "--rsh": _SHELL,
        "--filter": _PATTERNS,
        "--exclude-from": _PATTERNS,
        "--include-from": _PATTERNS,
        "--files-from": _PATTERNS,
        "-q": "for a machine to read, write --json",
        "-c": "to compare what files contain: --checksum",
        "--no-times": "by its time a file is known to be there already",
        "-S": "holes stay holes without an option",
        "-l": "links within what is copied stay links without an option",
    },
}


class Habitual(click.Command):
    """A command that understands options of ``scp`` and ``rsync``."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        taken = {name for parameter in self.params for name in parameter.opts}
        names = [name for name in DONE_BY[self.name or ""] if name not in taken]
        self.params.append(click.Option(names, is_flag=True, hidden=True, expose_value=False, multiple=False))

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parses as click does, and adds a hint to the error of an option that scp or rsync has."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            hint = HINTS[self.name or ""].get(error.option_name)
            if hint is None:
                raise
            raise click.UsageError(f"{error.option_name}: {hint}", ctx) from error
