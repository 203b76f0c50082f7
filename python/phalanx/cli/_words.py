"""Options whose value is several words, as a shell splits them."""

from __future__ import annotations

import shlex

import click


def split_words(context: click.Context, option: click.Parameter, text: str) -> tuple[str, ...]:
    """The words of an option's value. A quote without an end is a usage error."""
    try:
        return (*shlex.split(text),)
    except ValueError as error:
        raise click.BadParameter(f"{text!r}: {error}", context, option) from error


def _ssh(context: click.Context, option: click.Parameter, text: str) -> tuple[str, ...]:
    return split_words(context, option, text) or ("ssh",)


SSH = click.option(
    "--ssh",
    default="ssh",
    show_default=True,
    callback=_ssh,
    metavar="COMMAND",
    help="OpenSSH's client with options, like 'ssh -p 2222 -i key'.",
)
