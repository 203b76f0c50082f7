"""``phalanx help``: what an error means and what to do, from a copy of the page of errors that is in the package."""

from __future__ import annotations

import difflib
import re
from importlib.resources import files

import click

from phalanx.cli._examples import examples

#: A link to a section of this page, and one to another page of the documentation.
_HERE = re.compile(r"\[([^\]]+)\]\(#\w+\)")
_ELSEWHERE = re.compile(r"\[([^\]]+)\]\(([\w/.-]+)\.md(?:#[\w-]+)?\)")


@click.command(
    "help",
    epilog=examples(
        "phalanx help RecruitError",
        "phalanx help",
        "phalanx help cp",
    ),
)
@click.argument("name", required=False, metavar="[ERROR|COMMAND]")
@click.pass_context
def help(context: click.Context, name: str | None) -> None:
    """Explain an error, like RecruitError, and say what to do.

    Upper and lower case are the same. Without a name, list all errors. Of a command, print its --help.
    """
    sections = read_sections()
    if name is None:
        click.echo("\n".join(sections))
        return
    if found := {error.lower(): error for error in sections}.get(name.lower()):
        _show(found, sections[found])
        return
    group = context.find_root().command
    command = group.get_command(context, name) if isinstance(group, click.Group) else None
    if command is None:
        close = difflib.get_close_matches(name.lower(), [error.lower() for error in sections], 1)
        like = next((f", did you mean {error}?" for error in sections if [error.lower()] == close), "")
        raise click.UsageError(f"there is no error and no command {name}{like or '; all errors: phalanx help'}")
    click.echo(command.get_help(click.Context(command, context.parent, info_name=name)))


def read_sections() -> dict[str, str]:
    """The section of each error on the page, by the error's name."""
    page = files("phalanx").joinpath("troubleshooting.md").read_text(encoding="utf-8")
    return dict(re.findall(r"^## (\w+)\n\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL))


def _show(error: str, section: str) -> None:
    from rich.markdown import Markdown

    from phalanx.cli._console import console

    text = _ELSEWHERE.sub(r"\1 (docs: \2)", _HERE.sub(r"\1 (phalanx help \1)", section))
    to = console(100)
    with to.capture() as printed:
        to.print(Markdown(text))
    # Lines are padded to the width, which is of no use in a file.
    click.echo("\n".join([error, "", *(line.rstrip() for line in printed.get().strip("\n").split("\n"))]))
