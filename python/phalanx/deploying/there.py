"""What ``phalanx deploy`` runs on another machine, with nothing but the Python that is there.

The text of this file travels over ssh and is executed there, so it imports the standard library only, and works with
versions of Python that phalanx itself does not run with: to these it says which version they are.

Everything is in one folder, ``phalanx`` in ``$XDG_DATA_HOME`` or ``~/.local/share``:

- ``environment-…``: the virtual environment, named after the digest of the wheels in it
- ``home``: PHALANX_HOME of the executor: its identity, its durable spaces
- ``executor.log``, ``executor.pid``, ``deployed.json``: what it prints, its process, what was deployed
- ``lock``: held by each call that changes something
"""

from __future__ import annotations

import fcntl
import getpass
import importlib.util
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

#: The unit of systemd's user manager. Users write a unit of their own as ``phalanx-executor.service``.
UNIT = "phalanx-deployed.service"
#: Seconds until an executor that ends is killed, until one that starts listens, and for a command of systemd.
END_PATIENCE, START_PATIENCE, SYSTEMD_PATIENCE = 15.0, 60.0, 30.0
#: Seconds for a command of systemd that stops the unit: longer than ``TimeoutStopSec`` of the unit, after which systemd
#: kills the executor.
STOP_PATIENCE, STOP_TIMEOUT = 60.0, 30
#: Seconds to wait for another deployment of this account to end its step.
LOCK_PATIENCE = 120.0
#: Lines of a log that an error shows.
SHOWN = 8
_PART = 1 << 20
#: What a deployment chooses about its executor, in ``deployed.json``.
_CHOICES = ("digest", "version", "name", "port", "words")
_CERTIFICATE = re.compile("-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----\n?", re.DOTALL)


class Failure(Exception):
    """What cannot be done, in words for the user."""


def serve(order: dict[str, Any]) -> None:
    """Calls the function that an order names, and prints what it returns in one line behind the order's mark."""
    try:
        answer = {"result": CALLS[order["call"]](**order["arguments"])}
    except Failure as failure:
        answer = {"failure": str(failure)}
    except Exception as error:
        answer = {"failure": f"{type(error).__name__}: {error}"}
    sys.stdout.write("\n" + order["mark"] + json.dumps(answer) + "\n")
    sys.stdout.flush()


def facts() -> dict[str, Any]:
    """This machine, its Python, and what was deployed here."""
    base = _base()
    identity = base / "home" / "executor.pem"
    return {
        "python": platform.python_version(),
        "implementation": platform.python_implementation(),
        "free_threaded": bool(sysconfig.get_config_var("Py_GIL_DISABLED")),
        "system": platform.system(),
        "machine": platform.machine(),
        "glibc": _glibc(),
        "host": platform.node(),
        "account": getpass.getuser(),
        "has_venv": all(importlib.util.find_spec(name) is not None for name in ("venv", "ensurepip")),
        "uv": _uv(base),
        "base": str(base),
        "state": _state(base),
        "has_environment": _has_environment(base, _state(base)),
        "runs": _runs(base),
        "certificate": "".join(_CERTIFICATE.findall(identity.read_text())[:1]) if identity.exists() else "",
        "time": time.time(),
    }


def install(digest: str, files: list[tuple[str, int]], uv: str, index: bool) -> None:
    """Makes an environment out of wheels, which arrive on standard input one after the other.

    ``uv``: the path of uv, which is used where Python cannot make environments; ``"sent"``: it arrives before the
    wheels; empty: Python does it. ``index``: further libraries come from a package index.
    """
    base = _base(makes=True)
    with _locked(base):
        wheels, environment = base / "incoming", _environment(base, digest)
        _remove(wheels)
        _remove(environment)
        wheels.mkdir(mode=0o700)
        try:
            for name, size in files:
                _receive(wheels / name, size)
            if uv == "sent":
                (wheels / "uv").chmod(0o700)
                (wheels / "uv").replace(base / "uv")
                uv = str(base / "uv")
            python = str(environment / "bin" / "python")
            found = ["--find-links", str(wheels), *([] if index else ["--no-index"])]
            names = [str(wheels / name) for name, _ in files if name.endswith(".whl")]
            if uv:
                quiet = [uv, "--no-cache", "--quiet"]
                _run([*quiet, "venv", "--python", sys.executable, "--no-python-downloads", str(environment)], "uv")
                _run([*quiet, "pip", "install", "--python", python, "--compile-bytecode", *found, *names], "uv")
            else:
                pip = _pip()
                bare = ["--without-pip"] if pip else []
                _run([sys.executable, "-m", "venv", *bare, str(environment)], "python -m venv")
                quiet = [python, "-m", "pip", "--no-cache-dir", "--disable-pip-version-check", "--quiet", "install"]
                _run([*quiet, *found, *pip, *names], "pip", *pip)
            (environment / "complete").touch()
        finally:
            _remove(wheels)


def installed(digest: str) -> dict[str, str]:
    """The versions of what is in an environment; empty for what is not there."""
    code = (
        "import importlib.metadata as m, json, platform\n"
        "def v(name):\n"
        "    try: return m.version(name)\n"
        "    except m.PackageNotFoundError: return ''\n"
        "print(json.dumps({'python': platform.python_version(), 'phalanx': v('phalanx-grid'), 'numpy': v('numpy')}))"
    )
    found = json.loads(_run([str(_environment(_base(), digest) / "bin" / "python"), "-c", code], "python"))
    return {str(name): str(version) for name, version in found.items()}


def request(digest: str, name: str) -> str:
    """Makes a private key here, which stays here, and returns the request for its certificate."""
    base = _base(makes=True)
    with _locked(base):
        folder = base / "home" / "request"
        _remove(folder)
        folder.mkdir(parents=True, mode=0o700)
        (base / "home").chmod(0o700)
        file = folder / "executor.request"
        _phalanx(base, digest, "grid", "request", name, "--out", str(file))
        return file.read_text()


def accept(digest: str, certificate: str) -> None:
    """Puts the signed certificate and the private key together: the identity of the executor.

    The executor that runs has an older identity. So its name leaves ``deployed.json``, and the next deployment starts
    the executor again even if this one is cut before its own start.
    """
    base = _base()
    with _locked(base):
        home, file = base / "home", base / "home" / "request" / "executor.cert"
        file.write_text(certificate)
        _phalanx(base, digest, "grid", "accept", str(file))
        state = _state(base)
        state.pop("name", None)
        _write(base, state)
        file.with_suffix(".pem").replace(home / "executor.pem")
        _remove(home / "request")


def start(digest: str, version: str, name: str, port: int, words: list[str], revoked: str) -> str:
    """Starts the executor, after the end of an older one; returns how it runs, in words.

    ``words``: further options of the executor. ``revoked``: the list of revoked certificates, if there is one.
    """
    base = _base()
    with _locked(base):
        before = _state(base)
        _check_unit(before)
        _stop(base, before)
        _revoke(base / "home" / "revoked.txt", revoked)
        state = {**before, "digest": digest, "version": version, "name": name, "port": port, "words": words}
        try:
            _launch(base, state)
        except Failure as failure:
            raise Failure(f"{failure}\n{_start_again(base, before)}") from None
        for other in base.glob("environment-*"):
            if other != _environment(base, digest):
                _remove(other)
    if state["way"] == "systemd":
        return f"as a unit of systemd, {UNIT}, which starts again after a reboot"
    return "as a process of its own, because no user manager of systemd is here: it does not start after a reboot"


def _launch(base: Path, state: dict[str, Any]) -> None:
    """Starts the executor that a state describes, and waits until it listens."""
    program = str(_environment(base, state["digest"]) / "bin" / "phalanx")
    command = [program, "executor", "--listen", f"0.0.0.0:{state['port']}", *state["words"]]
    (base / "executor.log").write_text("")
    state["way"] = "systemd" if user_manager(state) else "process"
    _write(base, state)
    if state["way"] == "systemd":
        _start_unit(base, command, state)
    else:
        _start_process(base, command)
    _wait_until_it_listens(base, state)


def _start_again(base: Path, before: dict[str, Any]) -> str:
    """Starts the executor from before again, after a newer one did not start. Says what runs now."""
    try:
        state = _state(base)
        _stop(base, state)
        if not (before.get("port") and _has_environment(base, before)):
            return "no executor runs there now"
        for choice in _CHOICES:
            state.pop(choice, None)
        state.update({choice: before[choice] for choice in _CHOICES if choice in before})
        _launch(base, state)
    except Failure as failure:
        return f"no executor runs there now: the one from before does not start again: {failure}"
    return f"the executor from before runs again, phalanx {state.get('version')} at port {state['port']}"


def _revoke(file: Path, text: str) -> None:
    """Writes a list of revoked certificates, unless the one that is there is as new."""
    if text and (not file.exists() or _number_of(file.read_text(errors="replace")) < _number_of(text)):
        new = file.with_suffix(".new")
        new.write_text(text)
        new.replace(file)


def _number_of(revoked: str) -> int:
    """The number of a list of revoked certificates, which grows with each list; -1: the text is no list."""
    found = re.match(r"phalanx revoked (\d+) of ", revoked)
    return int(found[1]) if found else -1


def log() -> str:
    """The last lines that the executor printed."""
    return _tail(_base() / "executor.log")


def remove(with_spaces: bool) -> list[str]:
    """Ends the executor, and removes all that was deployed. Returns what was removed, in words."""
    base = _base()
    if not _state(base):
        return []
    with _locked(base):
        _check_spaces(base, with_spaces)
        state = _state(base)
        _stop(base, state)
        _check_spaces(base, with_spaces, "; the executor is stopped")  # a user may have made one meanwhile
        removed = ["the executor", str(base)]
        if state.get("unit") == UNIT and _unit().exists():
            _unit().unlink()
            removed.append(str(_unit()))
            systemctl("daemon-reload")
        if state.get("lingers"):
            succeeds(["loginctl", "disable-linger"])
            removed.append("lingering of the account, as loginctl calls it")
        # What others have put there stays, and the folder with it.
        own = ("environment-*", "home", "incoming", "uv", "executor.log", "executor.pid", "deployed.json*", "lock")
        for path in [found for pattern in own for found in base.glob(pattern)]:
            _remove(path)
        for folder in [str(base), *reversed(state.get("made", [])), *_sockets()]:
            with suppress(OSError):  # others use it too
                Path(folder).rmdir()
    return removed


def _check_spaces(base: Path, with_spaces: bool, more: str = "") -> None:
    """Raises Failure if there are durable spaces that are not to be removed."""
    if _spaces(base) and not with_spaces:
        kept = f"it keeps durable spaces in {base / 'home' / 'spaces'}{more}"
        raise Failure(f"{kept}; copy them if they are needed, then add --with-spaces, which removes them")


def _sockets() -> list[str]:
    """The folder of unix sockets of this account, where there is no runtime folder of the session."""
    return [str(Path(os.environ.get("TMPDIR") or "/tmp") / f"phalanx-of-user-{os.getuid()}")]


def _base(makes: bool = False) -> Path:
    """The folder of all that is deployed. ``makes``: it is made if it is missing, and the folders above it."""
    data = os.environ.get("XDG_DATA_HOME") or ""
    base = (Path(data) if os.path.isabs(data) else Path.home() / ".local" / "share") / "phalanx"  # noqa: PTH117
    if makes and not base.exists():
        made = make_folders(base.parent)
        with suppress(FileExistsError):  # another deployment has just made it
            base.mkdir(mode=0o700)
            _write(base, {"made": made})
    if base.exists():
        _check_base(base)
    return base


def _check_base(base: Path) -> None:
    """Raises Failure if others can change what is in the folder, or another machine has deployed there."""
    found = base.stat()
    if found.st_uid != os.getuid() or found.st_mode & 0o022:
        mode, mend = f"{found.st_mode & 0o777:03o}", f"chown {getpass.getuser()} {base}; chmod go-w {base}"
        raise Failure(f"other accounts may change {base} (owner {found.st_uid}, mode {mode}); mend that with: {mend}")
    state = _state(base)
    machine = state.get("machine")
    if machine and machine != _machine():
        raise Failure(
            f"{base} was deployed by another machine, {state.get('host')}, and this is {platform.node()}: they share "
            "this home folder; give each machine a folder of its own in XDG_DATA_HOME"
        )


def _machine() -> str:
    """What tells this machine from others that see the same files."""
    try:
        return Path("/etc/machine-id").read_text().strip() or platform.node()
    except OSError:
        return platform.node()


@contextmanager
def _locked(base: Path) -> Iterator[None]:
    """Holds the lock of the folder. Other deployments of this account wait."""
    until = time.monotonic() + LOCK_PATIENCE
    while True:
        with (base / "lock").open("a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                if time.monotonic() > until:
                    raise Failure(f"another phalanx deploy works in {base}; run this one again after it") from None
                time.sleep(0.1)
                continue
            if _is_at(base / "lock", lock.fileno()):
                yield
                return


def _is_at(file: Path, descriptor: int) -> bool:
    """Whether an open file is still at its path. A removal removes the lock with the folder."""
    try:
        return os.path.samestat(file.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def make_folders(folder: Path) -> list[str]:
    """Makes a folder and those above it; returns the new ones, which a removal removes again."""
    missing = [it for it in [folder, *folder.parents] if not it.exists()][::-1]
    for it in missing:
        it.mkdir()
    return [str(it) for it in missing]


def _environment(base: Path, digest: str) -> Path:
    return base / f"environment-{digest[:16]}"


def _has_environment(base: Path, state: dict[str, Any]) -> bool:
    """Whether the environment that was deployed is complete."""
    digest = state.get("digest", "")
    return bool(digest) and (_environment(base, digest) / "complete").exists()


def _state(base: Path) -> dict[str, Any]:
    try:
        state = json.loads((base / "deployed.json").read_text())
    except (OSError, ValueError):
        return {}
    return state if isinstance(state, dict) else {}


def _write(base: Path, state: dict[str, Any]) -> None:
    new = base / "deployed.json.new"
    new.write_text(json.dumps({**state, "machine": _machine(), "host": platform.node()}, indent=2))
    new.replace(base / "deployed.json")


def _spaces(base: Path) -> list[str]:
    """The files of durable spaces."""
    return [str(it) for it in (base / "home" / "spaces").rglob("*") if it.is_file()]


def _receive(file: Path, size: int) -> None:
    source: BinaryIO = sys.stdin.buffer
    with file.open("wb") as target:
        while size:
            part = source.read(min(size, _PART))
            if not part:
                raise Failure(f"the connection ended while {file.name} arrived")
            target.write(part)
            size -= len(part)


def _glibc() -> str:
    try:
        return (os.confstr("CS_GNU_LIBC_VERSION") or "").partition(" ")[2]
    except (AttributeError, OSError, ValueError):  # musl has none
        return ""


def _uv(base: Path) -> str:
    own = [str(Path.home() / folder / "bin") for folder in (".local", ".cargo")]
    return shutil.which("uv", path=os.pathsep.join([str(base), os.environ.get("PATH", os.defpath), *own])) or ""


def _pip() -> list[str]:
    """The wheel of pip that this Python brings; none: it has another way. A wheel can run itself, so that one run of
    pip installs pip and all else: half of the time that venv takes to install pip first."""
    import ensurepip

    own = sysconfig.get_config_var("WHEEL_PKG_DIR") or str(Path(ensurepip.__file__).with_name("_bundled"))
    return [str(wheel) for wheel in sorted(Path(own).glob("pip-*.whl"))[-1:]]


def _run(command: list[str], what: str, *path: str) -> str:
    """What a command prints. Raises Failure with the end of that where the command fails.

    ``path``: from which its Python imports first.
    """
    env = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")}
    if path:
        env["PYTHONPATH"] = os.pathsep.join(path)
    done = subprocess.run(command, env=env, stdin=subprocess.DEVNULL, capture_output=True)
    told, said = (text.decode(errors="replace") for text in (done.stdout, done.stderr))
    if done.returncode:
        last = "\n".join((told + said).strip().splitlines()[-SHOWN:])
        raise Failure(f"{what} failed: {last}")
    return told


def _phalanx(base: Path, digest: str, *words: str) -> str:
    return _run([str(_environment(base, digest) / "bin" / "phalanx"), *words], f"phalanx {' '.join(words[:2])}")


def succeeds(command: list[str], patience: float = SYSTEMD_PATIENCE) -> bool:
    """Whether a command of the system succeeds."""
    try:
        nothing = subprocess.DEVNULL
        env = {"XDG_RUNTIME_DIR": f"/run/user/{os.getuid()}", **os.environ}
        done = subprocess.run(command, env=env, stdin=nothing, stdout=nothing, stderr=nothing, timeout=patience)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def systemctl(*words: str, patience: float = SYSTEMD_PATIENCE) -> bool:
    """Whether a command of systemd's user manager succeeds."""
    return succeeds(["systemctl", "--user", *words], patience)


def user_manager(state: dict[str, Any]) -> bool:
    """Whether systemd's user manager is here, and goes on when nobody is logged in."""
    if not systemctl("show-environment"):
        return False
    if Path("/var/lib/systemd/linger", getpass.getuser()).exists():
        return True
    state["lingers"] = succeeds(["loginctl", "enable-linger"])
    return bool(state["lingers"])


def _unit() -> Path:
    return unit_file(UNIT)


def unit_file(unit: str) -> Path:
    """Where a unit of the account is."""
    config = os.environ.get("XDG_CONFIG_HOME") or ""
    return (Path(config) if os.path.isabs(config) else Path.home() / ".config") / "systemd" / "user" / unit  # noqa: PTH117


def unit(base: Path, command: list[str]) -> str:
    """The text of the unit."""
    return unit_of("phalanx executor", command, base / "home", base / "executor.log", "default.target")


def unit_of(description: str, command: list[str], home: Path, log: Path, wanted_by: str) -> str:
    """The text of a unit that runs a command with this PHALANX_HOME, and appends what it prints to a log."""
    appends = str(log).replace("%", "%%")
    return "\n".join(
        [
            "[Unit]",
            "Description=" + description,
            "",
            "[Service]",
            "Environment=" + quoted("PHALANX_HOME=" + str(home)),
            "ExecStart=" + " ".join(quoted(word).replace("$", "$$") for word in command),
            "Restart=on-failure",
            "RestartSec=5",
            "Delegate=yes",  # the executor makes control groups for the programs of its users
            f"TimeoutStopSec={STOP_TIMEOUT}",
            "StandardOutput=append:" + appends,
            "StandardError=append:" + appends,
            "",
            "[Install]",
            "WantedBy=" + wanted_by,
            "",
        ]
    )


def quoted(word: str) -> str:
    """A word as systemd reads it."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("\n", "\\n")
    return '"' + escaped + '"'


def _check_unit(state: dict[str, Any]) -> None:
    """Raises Failure if the unit's file is there and no deployment has written it."""
    if state.get("unit") != UNIT and _unit().exists():
        raise Failure(f"{_unit()} is there, and phalanx deploy has not written it: move it away")


def _start_unit(base: Path, command: list[str], state: dict[str, Any]) -> None:
    made = make_folders(_unit().parent)
    state["made"] = [*state.get("made", []), *made]
    state["unit"] = UNIT
    _write(base, state)
    _unit().write_text(unit(base, command))
    if not (systemctl("daemon-reload") and systemctl("enable", "--now", UNIT)):
        raise Failure(f"systemd does not start {UNIT}; look there with: systemctl --user status {UNIT}")


def _start_process(base: Path, command: list[str]) -> None:
    """Starts a process in a session of its own, which goes on after the ssh connection."""
    env = dict(os.environ, PHALANX_HOME=str(base / "home"))
    for name in ("SSH_CONNECTION", "SSH_CLIENT", "SSH_TTY", "SSH_AUTH_SOCK"):
        env.pop(name, None)
    with (base / "executor.log").open("ab") as log:
        process = subprocess.Popen(
            command, cwd="/", env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
    (base / "executor.pid").write_text(f"{process.pid} {_began(process.pid)}\n")


def _began(process: int) -> str:
    """When a process began, as the kernel counts; empty if there is none. A number may be that of a later process."""
    try:
        stat = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if stat[0] in "ZX" else stat[19]


def _process(base: Path) -> int:
    """The process of the executor that was started without systemd; 0 if it does not run."""
    try:
        number, began = (base / "executor.pid").read_text().split()
    except (OSError, ValueError):
        return 0
    return int(number) if began and _began(int(number)) == began else 0


def _runs(base: Path) -> bool:
    if _state(base).get("way") == "systemd":
        return systemctl("is-active", "--quiet", UNIT)
    return _process(base) != 0


def _stop(base: Path, state: dict[str, Any]) -> None:
    """Ends the executor. What it runs for users ends with it. Raises Failure if it still runs."""
    if state.get("way") == "systemd" and state.get("unit") == UNIT:
        systemctl("disable", "--now", UNIT, patience=STOP_PATIENCE)
        if systemctl("is-active", "--quiet", UNIT):
            raise Failure(f"systemd does not stop {UNIT}; look there with: systemctl --user status {UNIT}")
    process = _process(base)
    for number in (signal.SIGTERM, signal.SIGKILL):
        if process:
            with suppress(ProcessLookupError):
                os.kill(process, number)
            _wait(lambda: _process(base) == 0, END_PATIENCE)
            process = _process(base)
    if process:
        raise Failure(f"the executor, process {process}, does not end; end it there, then try again")
    with suppress(OSError):
        (base / "executor.pid").unlink()


def _wait(condition: Any, patience: float) -> bool:
    until = time.monotonic() + patience
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True


def _wait_until_it_listens(base: Path, state: dict[str, Any]) -> None:
    log = base / "executor.log"

    def listens() -> bool:
        if "listening on " in log.read_text(errors="replace"):
            return True
        if state["way"] == "process" and _process(base) == 0:
            raise Failure("the executor ended at once: " + _tail(log))
        return False

    if not _wait(listens, START_PATIENCE):
        raise Failure("the executor does not listen: " + _tail(log))


def _tail(log: Path) -> str:
    try:
        return "\n".join(log.read_text(errors="replace").strip().splitlines()[-SHOWN:])
    except OSError:
        return ""


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(str(path))
    elif path.exists() or path.is_symlink():
        path.unlink()


CALLS: dict[str, Any] = {
    "facts": facts,
    "install": install,
    "installed": installed,
    "request": request,
    "accept": accept,
    "start": start,
    "log": log,
    "remove": remove,
}
