"""Writes the man pages, one for each command, from the commands' help texts.

``python tests/docs/man.py`` writes all; a test proves that they are up to date. Wheels install them to ``share/man``,
where man(1) looks for a command in the ``bin`` beside it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click
from phalanx.cli import commands
from phalanx.cli._examples import examples_in

FOLDER = Path(__file__).parents[2] / "distribution" / "data" / "data" / "share" / "man" / "man1"
_HEAD = '.\\" Generated from the help texts; `make fix` writes it.\n.TH "{title}" "1" "" "phalanx" "phalanx"\n'


def pages() -> dict[str, str]:
    """The text of each page, by the name of its file."""
    return {f"{context.command_path.replace(' ', '-')}.1": _page(context) for context in _contexts()}


def _contexts() -> Iterator[click.Context]:
    todo = [click.Context(commands, info_name="phalanx", **commands.context_settings)]
    while todo:
        context = todo.pop()
        yield context
        command = context.command
        if isinstance(command, click.Group):
            for name in command.list_commands(context):
                inner = command.get_command(context, name)
                assert inner is not None
                todo.append(click.Context(inner, info_name=name, parent=context, **inner.context_settings))


def _page(context: click.Context) -> str:
    command, path = context.command, context.command_path
    name = path.replace(" ", "-")
    text = _HEAD.format(title=name.upper())
    text += f".SH NAME\n{_roff(name)} \\- {_roff(command.get_short_help_str(200).rstrip('.'))}\n"
    usage = " ".join(command.collect_usage_pieces(context))
    text += f".SH SYNOPSIS\n.B {_roff(path)}\n{_roff(usage)}\n.SH DESCRIPTION\n{_description(command.help or '')}"
    options = [it for it in command.get_params(context) if isinstance(it, click.Option)]
    text += _list("OPTIONS", [record for it in options if (record := it.get_help_record(context))])
    names = command.list_commands(context) if isinstance(command, click.Group) else []
    inner = [command.get_command(context, name) for name in names] if isinstance(command, click.Group) else []
    text += _list("COMMANDS", [(name, it.get_short_help_str(200)) for name, it in zip(names, inner, strict=True) if it])
    text += ".SH EXAMPLES\n.nf\n" + "".join(f"{_roff(one)}\n" for one in examples_in(command.epilog)) + ".fi\n"
    pages_of_names = [f".BR {_roff(f'{path} {name}'.replace(' ', '-'))} (1)\n" for name in names]
    return text + "".join([".SH SEE ALSO\n", *pages_of_names] if names else [])


def _description(help_text: str) -> str:
    """Paragraphs; one that click leaves as it is, behind a backspace, is shown so."""
    text = ""
    for paragraph in re.sub(r"(?m)^ +", "", help_text).strip().split("\n\n"):
        if paragraph.startswith("\b\n"):
            text += f".PP\n.nf\n{_roff(paragraph[2:])}\n.fi\n"
        else:
            text += f".PP\n{_roff(' '.join(paragraph.split()))}\n"
    return text


def _list(title: str, rows: list[tuple[str, str]]) -> str:
    entries = [f".TP\n.B {_roff(head)}\n{_roff(' '.join(body.split()))}\n" for head, body in rows]
    return f".SH {title}\n" + "".join(entries) if entries else ""


def _roff(text: str) -> str:
    """Text as troff shows it unchanged: no line of it is a request, and hyphens can be pasted into a shell."""
    return re.sub(r"(?m)^(?=[.'])", r"\\&", text.replace("\\", "\\e").replace("-", "\\-"))


def write() -> None:
    """Writes all pages, and removes those of commands that are gone."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for path in FOLDER.glob("*.1"):
        path.unlink()
    for name, text in pages().items():
        (FOLDER / name).write_text(text)


if __name__ == "__main__":
    write()
