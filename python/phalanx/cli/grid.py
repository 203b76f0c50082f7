"""``phalanx grid``: a grid's certificate authority and its members."""

from __future__ import annotations

import getpass
import os
import re
import sys
import threading
from collections import Counter
from datetime import datetime, timezone
from pathlib import Path
from typing import NamedTuple

import click

from phalanx import _native
from phalanx._identities import RENEWED, REVOKED, USER, home, read_private
from phalanx.cli._examples import examples
from phalanx.cli._numbers import Count
from phalanx.cli._suggestions import Suggesting
from phalanx.errors import IdentityError

_HOME = click.option(
    "--home",
    "folder",
    type=click.Path(path_type=Path),
    help="The folder of the grid. [default: $PHALANX_HOME or ~/.phalanx]",
)

#: Beside the authority: what it has issued.
_REGISTER = "issued.txt"

#: Beside the register: the certificates themselves, which are needed to renew them.
_ISSUED = "issued.pem"

#: Beside the register: the last list of revoked certificates that was signed here. A member may bring another one.
_SIGNED = "signed.txt"

#: How many renewed certificates a member keeps: `MOST_RENEWED` in phalanx-net/src/identity/renewals.rs.
_MOST_RENEWED = 700

_ROLE = click.option(
    "--role",
    type=click.Choice(["executor", "user"]),
    default="executor",
    show_default=True,
    help="What the member is: a machine that computes for others, or a person.",
)

#: A hundred years.
MOST_DAYS = 36500

DAYS = click.option(
    "--days",
    type=Count(1, MOST_DAYS),
    default=365,
    show_default=True,
    help=f"How many days the certificate is good for, at most {MOST_DAYS}.",
)

PASSPHRASE = click.option(
    "--passphrase-file",
    type=click.Path(path_type=Path),
    help="A file with the passphrase of the authority in its first line, instead of asking for it.",
)


@click.group(
    cls=Suggesting, epilog=examples("phalanx grid create --user alice", "phalanx grid issue --role executor labpc")
)
def grid() -> None:
    """Create a grid, and issue certificates for its machines."""


@grid.command(
    epilog=examples(
        "phalanx grid create",
        "phalanx grid create --user alice --days 30",
    )
)
@_HOME
@click.option("--user", metavar="NAME", help="Your name in the grid. [default: your login name]")
@DAYS
@PASSPHRASE
def create(folder: Path | None, user: str | None, days: int, passphrase_file: Path | None) -> None:
    """Create a grid: its authority, and your own certificate.

    On a terminal it asks for a passphrase, without which nobody who gets at the authority's file can make members.
    """
    folder = folder or home()
    authority_file = folder / "authority.pem"
    try:
        is_there = authority_file.exists()
    except PermissionError as error:
        raise IdentityError(f"{error}; name another folder with --home") from None
    if is_there:
        raise IdentityError(f"{authority_file} exists: this is a grid already. Name another folder with --home")
    passphrase = _new_passphrase(passphrase_file)
    authority = _native.create_grid(passphrase)
    user = user or re.sub("[^a-z0-9-]+", "-", _login_name().lower()).strip("-")
    member = _native.issue_member(authority, "user", user, str(authority_file), passphrase, days)
    _make_folder(folder)
    with _native.LockedFolder(folder):
        _write(folder / "user.pem", member)
        _write(authority_file, authority)
        _register(str(authority_file), member)
    click.echo(f"grid created in {folder}")
    secret = "locked by your passphrase" if passphrase else "keep it secret, or lock it: phalanx grid lock"
    click.echo(f"  authority.pem  makes members; {secret}\n  user.pem       you, as {user}")
    click.echo("next, for each machine: phalanx grid issue --role executor NAME")


@grid.command(
    epilog=examples(
        "phalanx grid issue --role executor labpc",
        "phalanx grid issue --role user --days 30 --out bob.pem bob",
    )
)
@click.argument("name")
@_ROLE
@DAYS
@click.option("--out", type=click.Path(path_type=Path), help="The file to write. [default: NAME.pem]")
@_HOME
@PASSPHRASE
def issue(name: str, role: str, days: int, out: Path | None, folder: Path | None, passphrase_file: Path | None) -> None:
    """Issue a certificate for the machine (or user) NAME."""
    authority, file, passphrase = _authority(folder, passphrase_file)
    out = out or Path(f"{name}.pem")
    with _native.LockedFolder(Path(file).parent):
        text = _native.issue_member(authority, role, name, file, passphrase, days)
        _hand_out(text, out, file)
    click.echo(f"{out} written; it holds a private key, so copy it to {name} over a safe way (scp)")
    if role == "executor":
        click.echo(f"there: phalanx executor --listen 0.0.0.0:7400 --identity {out.name}")


@grid.command(
    epilog=examples(
        "phalanx grid request labpc",
        "phalanx grid request --role user bob",
    )
)
@click.argument("name")
@_ROLE
@click.option("--out", type=click.Path(path_type=Path), help="The file to write. [default: NAME.request]")
def request(name: str, role: str, out: Path | None) -> None:
    """Make a private key, and a request for its certificate.

    NAME is the machine, or the user. Run the command where the key is used. The key stays in NAME.key; the request
    is no secret.
    """
    out = out or Path(f"{name}.request")
    key, text = _native.request_member(role, name)
    _write(out.with_suffix(".key"), key)
    _write(out, text)
    click.echo(f"{out} written; take it to the grid's authority, and there: phalanx grid sign {out.name}")
    click.echo(f"{out.with_suffix('.key')} is the private key; it stays here")


@grid.command(
    epilog=examples(
        "phalanx grid sign labpc.request",
        "phalanx grid sign --days 90 bob.request",
    )
)
@click.argument("file", type=click.Path(path_type=Path))
@DAYS
@click.option("--out", type=click.Path(path_type=Path), help="The file to write. [default: FILE with the ending .cert]")
@_HOME
@PASSPHRASE
def sign(file: Path, days: int, out: Path | None, folder: Path | None, passphrase_file: Path | None) -> None:
    """Sign a request that `phalanx grid request` has made."""
    authority, authority_file, passphrase = _authority(folder, passphrase_file)
    out = out or file.with_suffix(".cert")
    with _native.LockedFolder(Path(authority_file).parent):
        role, name, certificates = _native.sign_member(authority, _read(file), authority_file, passphrase, days)
        _hand_out(certificates, out, authority_file)
    click.echo(f"{out} written: {name} is a member in the role {role}; if you did not expect that, remove it")
    click.echo(f"take it back to {name}, beside the key, and there: phalanx grid accept {out.name}")


@grid.command(
    epilog=examples(
        "phalanx grid accept labpc.cert",
        "phalanx grid accept --key labpc.key --out ~/.phalanx/executor.pem labpc.cert",
    )
)
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--key", type=click.Path(path_type=Path), help="The private key. [default: FILE with the ending .key]")
@click.option("--out", type=click.Path(path_type=Path), help="The file to write. [default: FILE with the ending .pem]")
def accept(file: Path, key: Path | None, out: Path | None) -> None:
    """Make an identity file of a certificate and its private key."""
    key, out = key or file.with_suffix(".key"), out or file.with_suffix(".pem")
    text = _read(file) + read_private(key, "private key", "it is where the request was made")
    role, name, _ = _native.check_member(text, f"{file} and {key}")
    _write(out, text)
    key.unlink()
    click.echo(f"{out} written: {name} in the role {role}")
    if role == "executor":
        click.echo(f"now: phalanx executor --listen 0.0.0.0:7400 --identity {out}")
    else:
        click.echo(f"now: name it with --identity {out}, or move it to {home() / 'user.pem'}")


@grid.command(
    epilog=examples(
        "phalanx grid renew",
        "phalanx grid renew --days 90 labpc",
        "phalanx grid renew --passphrase-file passphrase",
    )
)
@click.argument("names", metavar="[NAME]...", nargs=-1)
@click.option(
    "--days",
    type=Count(1, MOST_DAYS),
    help=f"How many days the certificates are good for, at most {MOST_DAYS}. [default: as many as those before]",
)
@_HOME
@PASSPHRASE
def renew(names: tuple[str, ...], days: int | None, folder: Path | None, passphrase_file: Path | None) -> None:
    """Renew the certificates of the machines (or users) NAME.

    Members keep their private keys. Without names, the command renews all certificates in the last third of their
    life, except those that have ended or were revoked.

    This writes the new certificates to the file renewed.pem, which everyone may see. Members find it beside their
    identity file or their hosts file, and tell each other over every link of managers, ranks, copies and spaces. A
    member replaces the certificate in its identity file, and needs no restart.
    """
    authority, file, passphrase = _authority(folder, passphrase_file)
    folder = Path(file).parent
    with _native.LockedFolder(folder) as locked:
        newest = _newest(folder, authority)
        chosen = _named(newest, names, folder) if names else [it for it in newest if it.is_near and not it.is_over]
        if not chosen:
            _hand_on(folder, authority, locked)  # what an earlier command has signed that did not come to its end
            click.echo("no certificate is in the last third of its life; name those to renew all the same")
            return
        issued, fingerprints = _read(folder / _ISSUED), {it.fingerprint for it in chosen}
        texts = _native.renew_members(authority, file, passphrase, issued, fingerprints, days)
        before = {it.holder: it for it in newest}
        for text in texts:
            (new,) = _certificates(text, authority)
            if new.until < before[new.holder].until:
                raise IdentityError(f"the certificate of {new.name} is good until {before[new.holder].end} already")
        for text in texts:
            _note(folder, text)
            (new,) = _certificates(text, authority)
            click.echo(f"{new.name} in the role {new.role}: good until {new.end}")
        _hand_on(folder, authority, locked)
    if (folder / USER).exists():
        _native.renew_identity(read_private(folder / USER, "identity", ""), folder / USER, [folder / RENEWED])
    click.echo(f"{folder / RENEWED} has them; your programs and commands carry it to the members that they reach")


def _named(newest: list[_Certificate], names: tuple[str, ...], folder: Path) -> list[_Certificate]:
    """The certificates of members with these names."""
    wanted = [name.lower() for name in names]
    for name in wanted:
        if not any(it.name == name for it in newest):
            why = f"no certificate of {name} can be renewed: {folder / _REGISTER} has none that is not revoked"
            if any(entry[2] == name for entry in _issued(folder / _REGISTER)):
                why += f", or {_ISSUED} beside it lacks it"
            raise IdentityError(f"{why}; make a new one with: phalanx grid issue, phalanx grid sign")
    return [it for it in newest if it.name in wanted]


def _hand_on(folder: Path, authority: str, locked: _native.LockedFolder) -> None:
    """Writes the file of renewed certificates: the newest one of each member that was renewed."""
    issued = folder / _ISSUED
    counts = Counter(it.holder for it in _certificates(_read(issued) if issued.exists() else "", authority))
    renewed = [it for it in _newest(folder, authority) if counts[it.holder] > 1 and not it.is_over]
    if len(renewed) > _MOST_RENEWED:
        click.echo(f"members keep {_MOST_RENEWED} renewed certificates, and these are {len(renewed)}", err=True)
    file = folder / RENEWED
    found = _read(file) if file.exists() else ""
    if any(it.text not in found for it in renewed):
        _replace(locked, file, "".join(it.text for it in renewed), mode=0o644)


class _Certificate(NamedTuple):
    """A certificate that the authority has issued. ``text`` is PEM."""

    role: str
    name: str
    fingerprint: str
    key: str
    until: int
    end: str
    is_near: bool
    is_over: bool
    text: str

    @property
    def holder(self) -> tuple[str, str, str]:
        """Whose it is. A certificate is renewed for the same holder."""
        return self.role, self.name, self.key

    @property
    def rank(self) -> tuple[int, str]:
        """The order of a holder's certificates: the one with the higher rank counts, as at members."""
        return self.until, self.fingerprint


def _certificates(text: str, authority: str) -> list[_Certificate]:
    """The certificates in a text."""
    rows = _native.issued_certificates(text, authority)
    return [_Certificate(*row, text=pem) for row, pem in zip(rows, _pems(text), strict=True)]


def _pems(text: str) -> list[str]:
    """The certificates in a text, as PEM."""
    return [
        f"{pem}\n" for pem in re.findall("-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", text, re.DOTALL)
    ]


def _newest(folder: Path, authority: str) -> list[_Certificate]:
    """The newest certificate of each member in the register, without those that were revoked."""
    file = folder / _ISSUED
    revoked = _revoked(folder / REVOKED) or ""
    registered = {entry[3] for entry in _issued(folder / _REGISTER)}
    newest = dict[tuple[str, str, str], _Certificate]()
    for it in _certificates(_read(file), authority) if file.exists() else []:
        is_good = it.fingerprint in registered and it.fingerprint not in revoked
        if is_good and (it.holder not in newest or newest[it.holder].rank < it.rank):
            newest[it.holder] = it
    return list(newest.values())


@grid.command(
    "list",
    epilog=examples(
        "phalanx grid list",
        "phalanx grid list --home /srv/grid",
    ),
)
@_HOME
def members(folder: Path | None) -> None:
    """List the certificates that this grid's authority has issued.

    A line has the time, the role, the name and the fingerprint, and says whether the certificate was revoked.
    """
    folder = folder or home()
    revoked, signed = (_revoked(folder / name) or "" for name in (REVOKED, _SIGNED))
    entries = _issued(folder / _REGISTER)
    for entry in entries:
        click.echo("  ".join([*entry, *(["revoked"] if entry[-1] in revoked else [])]))
    for name in sorted({name for _, _, name, one in entries if one in signed and one not in revoked}):
        why = f"{name} was revoked here, but {folder / REVOKED}, which a member has brought, lacks {name}"
        click.echo(f"{why}; once more: phalanx grid revoke {name}", err=True)


@grid.command(
    epilog=examples(
        "phalanx grid revoke labpc",
        "phalanx grid revoke --role user bob",
    )
)
@click.argument("name")
@click.option("--role", type=click.Choice(["executor", "user"]), help="Only those in this role. [default: both]")
@_HOME
@PASSPHRASE
def revoke(name: str, role: str | None, folder: Path | None, passphrase_file: Path | None) -> None:
    """Take back all certificates of the machine (or user) NAME.

    This writes the list revoked.txt, which the authority signs and everyone may see. Members find the list beside
    their identity file or their hosts file. Within two seconds they refuse NAME, and end their links with it.
    Members tell each other, over every link of managers, ranks, copies and spaces. A certificate that is issued to
    NAME later is good.
    """
    authority, file, passphrase = _authority(folder, passphrase_file)
    register, revoked, signed = (Path(file).with_name(name) for name in (_REGISTER, REVOKED, _SIGNED))
    with _native.LockedFolder(register.parent) as locked:
        named = [entry[1:] for entry in _issued(register) if entry[2] == name.lower() and role in (None, entry[1])]
        if not named:
            raise IdentityError(f"the register {register} has no certificate of {name}{f' as {role}' if role else ''}")
        entries = [(_now(), *entry) for entry in named]
        # After the folder came back from a backup, a member may have brought a list with a higher number that lacks
        # what was revoked since. The new list follows both.
        earlier = [text for text in (_revoked(revoked), _revoked(signed)) if text]
        text = _native.revoke_members(authority, file, passphrase, earlier, entries)
        _replace(locked, signed, text, mode=0o600)
        _replace(locked, revoked, text, mode=0o644)
    click.echo(f"{revoked} names {name} now; your programs and commands carry it to the members that they reach")


@grid.command(
    epilog=examples(
        "phalanx grid lock",
        "phalanx grid lock --passphrase-file old --new-passphrase-file new",
    )
)
@_HOME
@PASSPHRASE
@click.option("--new-passphrase-file", type=click.Path(path_type=Path), help="The new passphrase, instead of asking.")
def lock(folder: Path | None, passphrase_file: Path | None, new_passphrase_file: Path | None) -> None:
    """Lock the authority's key by a passphrase, or change it."""
    _, file, passphrase = _authority(folder, passphrase_file)
    new = _new_passphrase(new_passphrase_file, asks=True)
    with _native.LockedFolder(Path(file).parent) as locked:
        authority = _read(Path(file))  # another command may have changed the passphrase meanwhile
        _replace(locked, Path(file), _native.lock_grid(authority, file, passphrase, new), mode=0o600)
    click.echo(f"{file} is locked by your passphrase" if new else f"{file} is not locked any more")


class Signer:
    """Signs requests of machines with the authority in the grid's folder, for ``phalanx deploy``.

    ``reads``: whether it reads the authority at once, and asks for the passphrase of a locked one.
    """

    def __init__(self, passphrase_file: Path | None, *, days: int, reads: bool) -> None:
        self._days = days
        self._text, self._file, self._passphrase = _authority(None, passphrase_file) if reads else ("", "", None)
        self._signing = threading.Lock()

    def sign(self, request: str, role: str, name: str) -> str:
        """The certificate for a request. Raises IdentityError if the request is for another role or name: the machine
        that made it asked for more than it was to have."""
        with self._signing, _native.LockedFolder(Path(self._file).parent):
            asked, of, text = _native.sign_member(self._text, request, self._file, self._passphrase, self._days)
            if (asked, of) != (role, name):
                raise IdentityError(f"a request for {name} in the role {role} was expected, and {of} asks for {asked}")
            _register(self._file, text)
        return text

    def is_good(self, certificate: str, name: str) -> bool:
        """Whether this authority has issued a certificate to this executor, which is not revoked and not near its
        end."""
        folder = Path(self._file).parent
        revoked = _revoked(folder / REVOKED) or ""
        try:
            [it] = _certificates(certificate, self._text)
        except (IdentityError, ValueError):
            return False
        registered = {entry[3] for entry in _issued(folder / _REGISTER)}
        is_known = it.fingerprint in registered and it.fingerprint not in revoked
        return is_known and (it.role, it.name) == ("executor", name) and not (it.is_near or it.is_over)

    def is_taken(self, certificate: str, name: str) -> bool:
        """Whether the register has good certificates of this executor, and none for the key of this certificate."""
        newest = _newest(Path(self._file).parent, self._text)
        keys = {it.key for it in newest if (it.role, it.name) == ("executor", name) and not it.is_over}
        try:
            own = {it.key for it in _certificates(certificate, self._text)}
        except (IdentityError, ValueError):
            own = set()
        return bool(keys) and not keys & own


def _authority(folder: Path | None, passphrase_file: Path | None) -> tuple[str, str, str | None]:
    """The text of the authority's file, the file, and the passphrase if it is locked."""
    file = (folder or home()) / "authority.pem"
    text = read_private(file, "grid", "make one with: phalanx grid create")
    if not _native.is_locked_grid(text):
        return text, str(file), None
    if passphrase_file is None and not _is_asked():
        raise IdentityError(f"{file} is locked, and there is no terminal to ask on; name a file with --passphrase-file")
    asked = _passphrase_in(passphrase_file) if passphrase_file else click.prompt("Passphrase", hide_input=True)
    return text, str(file), asked


def _register(authority_file: str, text: str) -> None:
    """Notes in the register that a certificate was issued, and warns of others with its role and name that are good.

    The folder must be locked.
    """
    register = Path(authority_file).with_name(_REGISTER)
    role, name, _ = _native.certificate_of(text)
    revoked = _revoked(register.with_name(REVOKED)) or ""
    before = [when for when, *of, one in _issued(register) if of == [role, name] and one not in revoked]
    if before:
        click.echo(f"{name} was issued before, on {', '.join(before)}: who has that key can be {name} too", err=True)
    _note(register.parent, text)


def _note(folder: Path, text: str) -> None:
    """Notes in the register that a certificate was issued. The folder must be locked."""
    role, name, fingerprint = _native.certificate_of(text)
    _append(folder / _ISSUED, _pems(text)[0])
    _append(folder / _REGISTER, f"{_now()} {role} {name} {fingerprint}\n")


def _append(register: Path, text: str) -> None:
    try:
        descriptor = os.open(register, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(text)
    except OSError as error:
        raise IdentityError(f"the register {register} cannot be written: {error}") from None


def _now() -> str:
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def _revoked(file: Path) -> str | None:
    """The list of revoked certificates so far; None if there is none."""
    return _read(file) if file.exists() else None


def _issued(register: Path) -> list[list[str]]:
    """The entries of the register: when, role, name, fingerprint."""
    if not register.exists():
        return []
    entries = [line.split() for line in _read(register).splitlines()]
    for number, entry in enumerate(entries, 1):
        if len(entry) != 4:
            raise IdentityError(f"line {number} of the register {register} is no entry; mend or remove it")
    return entries


def _new_passphrase(file: Path | None, *, asks: bool = False) -> str | None:
    """A new passphrase; None if there is to be none. Without a terminal it is asked for only if ``asks``."""
    if file:
        return _passphrase_in(file)
    if not (asks or _is_asked()):
        return None
    words = "New passphrase for the grid's authority (none: Enter)"
    return click.prompt(words, hide_input=True, confirmation_prompt=True, default="", show_default=False) or None


def _is_asked() -> bool:
    """Whether somebody sits at a terminal."""
    return sys.stdin is not None and sys.stdin.isatty()


def _passphrase_in(file: Path) -> str:
    """The first line of a file."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise IdentityError(f"{file} cannot be read: {error}") from None
    if not lines or not lines[0]:
        raise IdentityError(f"{file} has no passphrase in its first line")
    return lines[0]


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError) as error:
        raise IdentityError(f"{file} cannot be read: {error}") from None


def _login_name() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # KeyError before Python 3.13
        user = "this user" if sys.platform == "win32" else f"user {os.getuid()}"
        raise IdentityError(f"{user} has no login name on this machine; say --user NAME") from None


def _replace(locked: _native.LockedFolder, path: Path, text: str, *, mode: int) -> None:
    """A new file in place of an older one, whole at every moment."""
    locked.replace(path, text)
    path.chmod(mode)


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise IdentityError(f"{folder} cannot be made: {error}") from None


def _hand_out(text: str, out: Path, authority_file: str) -> None:
    """Registers a certificate that was just signed, then writes it: nobody has one that cannot be revoked.

    The folder must be locked.
    """
    if out.exists():
        raise IdentityError(f"{out} cannot be written: it exists already")
    _register(authority_file, text)
    _write(out, text)


def _write(path: Path, text: str) -> None:
    """A new file that only its owner can read, from its first moment on."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(text)
    except OSError as error:
        raise IdentityError(f"{path} cannot be written: {error}") from None
