"""``phalanx completion``: what a shell needs to complete commands and options."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from phalanx.cli._examples import examples


@click.command(
    epilog=examples(
        'eval "$(phalanx completion bash)"',
        "phalanx completion fish > ~/.config/fish/completions/phalanx.fish",
    )
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print a script with which a shell completes commands.

    \b
    bash: echo 'eval "$(phalanx completion bash)"' >> ~/.bashrc
    zsh:  echo 'eval "$(phalanx completion zsh)"' >> ~/.zshrc
    fish: phalanx completion fish > ~/.config/fish/completions/phalanx.fish

    Each new shell then completes commands, options and files. bash must be 4.4 or newer.
    """
    kind = get_completion_class(shell)
    assert kind is not None  # click knows these three
    click.echo(kind(click.Group(), {}, "phalanx", "_PHALANX_COMPLETE").source())
