"""``phalanx grid``: a grid's certificate authority and its members."""

from __future__ import annotations

import getpass
import os
import re
from pathlib import Path

import click

from phalanx import _native
from phalanx._reach import home
from phalanx.errors import IdentityError

_HOME = click.option(
    "--home",
    "folder",
    type=click.Path(path_type=Path),
    help="The folder of the grid. [default: $PHALANX_HOME or ~/.phalanx]",
)


@click.group()
def grid() -> None:
    """Create a grid, and issue certificates for its machines."""


@grid.command()
@_HOME
@click.option("--user", help="Your name in the grid. [default: your login name]")
def create(folder: Path | None, user: str | None) -> None:
    """Create a new grid: its certificate authority, and your own certificate."""
    folder = folder or home()
    authority_file = folder / "authority.pem"
    try:
        is_there = authority_file.exists()
    except PermissionError as error:
        raise IdentityError(f"{error}; name another folder with --home") from None
    if is_there:
        raise IdentityError(f"{authority_file} exists: this is a grid already. Name another folder with --home")
    authority = _native.create_grid()
    user = user or re.sub("[^a-z0-9-]+", "-", _login_name().lower()).strip("-")
    member = _native.issue_member(authority, "user", user)
    _write(folder / "user.pem", member)
    _write(authority_file, authority)
    click.echo(f"grid created in {folder}")
    click.echo(f"  authority.pem  makes members; keep it secret\n  user.pem       you, as {user}")
    click.echo("next, for each machine: phalanx grid issue --role executor NAME")


@grid.command()
@click.argument("name")
@click.option("--role", type=click.Choice(["executor", "user"]), default="executor", show_default=True)
@click.option("--out", type=click.Path(path_type=Path), help="The file to write. [default: NAME.pem]")
@_HOME
def issue(name: str, role: str, out: Path | None, folder: Path | None) -> None:
    """Issue a certificate for the machine (or user) NAME."""
    authority_file = (folder or home()) / "authority.pem"
    try:
        authority = authority_file.read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError) as error:
        raise IdentityError(
            f"no grid: {authority_file} cannot be read ({error}); make one with: phalanx grid create"
        ) from None
    out = out or Path(f"{name}.pem")
    _write(out, _native.issue_member(authority, role, name, str(authority_file)))
    click.echo(f"{out} written; it holds a private key, so copy it to {name} over a safe way (scp)")
    if role == "executor":
        click.echo(f"there: phalanx executor --listen 0.0.0.0:7400 --identity {out.name}")


def _login_name() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # KeyError before Python 3.13
        raise IdentityError(f"user {os.getuid()} has no login name on this machine; say --user NAME") from None


def _write(path: Path, text: str) -> None:
    """A new file that only its owner can read, from its first moment on."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(text)
    except OSError as error:
        raise IdentityError(f"{path} cannot be written: {error}") from None
