"""Options and examples of commands, from click, in place of comments of a page: ``<!-- options: phalanx cp -->``."""

from __future__ import annotations

import re
from collections.abc import Iterator

import click
from phalanx.cli import commands
from phalanx.cli._examples import examples_in

COMMENT = re.compile(r"^<!-- options: (phalanx(?: [\w-]+)*) -->$", re.MULTILINE)


def with_options(text: str) -> str:
    """A page in which each comment that asks for the options of a command is replaced by them."""
    return COMMENT.sub(lambda asked: "\n".join(_reference(asked[1])), text)


def leaves(group: click.Group = commands, name: str = "phalanx") -> Iterator[str]:
    """The names of all commands that are not only groups of others, like ``phalanx grid create``."""
    context = click.Context(group)
    for each in group.list_commands(context):
        command = group.get_command(context, each)
        if isinstance(command, click.Group):
            yield from leaves(command, f"{name} {each}")
        else:
            yield f"{name} {each}"


def _found(name: str) -> click.Context:
    """The context of a command by its full name."""
    context = click.Context(commands, info_name="phalanx", **commands.context_settings)
    for part in name.split()[1:]:
        assert isinstance(context.command, click.Group)
        command = context.command.get_command(context, part)
        assert command, f"there is no {name}"
        context = click.Context(command, info_name=part, parent=context, **command.context_settings)
    return context


def _reference(name: str) -> Iterator[str]:
    context = _found(name)
    usage = " ".join(context.command.collect_usage_pieces(context))
    yield from ["```text", f"{name} {usage}", "```", ""]
    for paragraph in (context.command.help or "").replace("\b", "").split("\n\n"):
        yield from [_plain(" ".join(paragraph.split())), ""]
    records = (parameter.get_help_record(context) for parameter in context.command.get_params(context))
    rows = [record for record in records if record and record[1]]  # arguments are in the usage
    yield from ["| option | meaning |", "|---|---|"]
    yield from (f"| <code>{_plain(names)}</code> | {_plain(meaning)} |" for names, meaning in rows)
    yield from ["", "```console", *(f"$ {example}" for example in examples_in(context.command.epilog)), "```", ""]


def _plain(text: str) -> str:
    """Text of click, in which Markdown sees no signs of its own."""
    return re.sub(r"[&<>*_|`\[\]~]", lambda sign: f"&#{ord(sign[0])};", text)
