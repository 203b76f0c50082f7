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
