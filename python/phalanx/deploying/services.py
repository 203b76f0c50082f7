"""Services of this machine that keep a grid's hub or executor running: units of systemd, and texts for others.

``services`` in the home folder has a record of each service, ``GRID.json``, and what it prints, ``GRID.log``.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import escape

from phalanx._identities import home
from phalanx.deploying import there
from phalanx.errors import DeployError

#: Where units of the whole machine are.
_SYSTEM_UNITS = Path("/etc/systemd/system")
#: Seconds until a service that was started prints what tells that it is ready.
PATIENCE = 60.0
_PAUSE = 0.05


class Service(NamedTuple):
    """What is to run for a grid.

    ``command``: its words. ``is_system``: it is a service of the machine, started by root; else of this account.
    """

    grid: str
    command: tuple[str, ...]
    is_system: bool

    @property
    def unit(self) -> str:
        """The name of its unit."""
        return f"phalanx-{self.grid}.service"

    @property
    def file(self) -> Path:
        """The file of its unit."""
        if self.is_system:
            return _SYSTEM_UNITS / self.unit
        return there.unit_file(self.unit)

    @property
    def record(self) -> Path:
        """The file that tells what was installed."""
        return _folder() / f"{self.grid}.json"

    @property
    def log(self) -> Path:
        """The file to which it prints."""
        return _folder() / f"{self.grid}.log"


def systemd(service: Service) -> str:
    """The text of a unit."""
    wanted_by = "multi-user.target" if service.is_system else "default.target"
    description = f"phalanx, the grid {service.grid}"
    return there.unit_of(description, [*service.command], home().absolute(), service.log, wanted_by)


def launchd(service: Service) -> str:
    """The text of a service of launchd, for ``~/Library/LaunchAgents`` or ``/Library/LaunchDaemons``."""
    words = "".join(f"    <string>{escape(word)}</string>\n" for word in service.command)
    return f"""<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<plist version="1.0">
<dict>
  <key>Label</key><string>phalanx.{escape(service.grid)}</string>
  <key>EnvironmentVariables</key><dict><key>PHALANX_HOME</key><string>{escape(str(home().absolute()))}</string></dict>
  <key>ProgramArguments</key>
  <array>
{words}  </array>
  <key>RunAtLoad</key><true/>
  <key>KeepAlive</key><dict><key>SuccessfulExit</key><false/></dict>
  <key>ThrottleInterval</key><integer>5</integer>
  <key>StandardOutPath</key><string>{escape(str(service.log))}</string>
  <key>StandardErrorPath</key><string>{escape(str(service.log))}</string>
</dict>
</plist>
"""


def windows(service: Service) -> str:
    """The commands of PowerShell that make a task which starts with the machine."""
    program, *words = service.command
    arguments = subprocess.list2cmdline(words).replace("'", "''")
    return f"""$action = New-ScheduledTaskAction -Execute '{program.replace("'", "''")}' -Argument '{arguments}'
$settings = New-ScheduledTaskSettingsSet -RestartCount 999 -RestartInterval (New-TimeSpan -Minutes 1)
Register-ScheduledTask -TaskName 'phalanx-{service.grid}' -Action $action -Settings $settings `
    -Trigger (New-ScheduledTaskTrigger -AtStartup)
"""


def install(service: Service) -> None:
    """Writes the unit, and starts it now and after each start of the machine.

    Raises
    ------
    DeployError
        There is a unit of this name that was not installed by phalanx, or systemd is not here, or does not start it.
    """
    if service.file.exists() and not service.record.exists():
        raise DeployError(f"{service.file} is there, and phalanx service has not written it: move it away")
    before = _read(service.record)
    state: dict[str, object] = {"lingers": before.get("lingers", False), "made": before.get("made", [])}
    _check_manager(service, state)
    _folder().mkdir(parents=True, exist_ok=True, mode=0o700)
    made = [] if service.is_system else there.make_folders(service.file.parent)
    earlier = state["made"] if isinstance(state["made"], list) else []
    told = {"command": [*service.command], "is_system": service.is_system, "lingers": state["lingers"]}
    service.record.write_text(json.dumps({**told, "made": [*earlier, *made]}, indent=2))
    service.log.write_text("")
    service.log.chmod(0o600)
    service.file.write_text(systemd(service))
    if not (_systemctl(service, "daemon-reload") and _systemctl(service, "enable", service.unit)):
        raise DeployError(f"systemd does not enable {service.unit}; look there with: {_look(service)}")
    if not _systemctl(service, "restart", service.unit):
        raise DeployError(f"systemd does not start {service.unit}; look there with: {_look(service)}")


def wait_until_ready(service: Service, is_ready: Callable[[str], bool]) -> str:
    """Waits until what a service has printed tells that it is ready, and returns that. Raises DeployError if it does
    not come so far."""
    until = time.monotonic() + PATIENCE
    while True:
        text = service.log.read_text(errors="replace")
        if is_ready(text):
            return text
        if time.monotonic() > until or "\nphalanx: help: " in f"\n{text}":
            raise DeployError(f"the service of the grid {service.grid} is not ready; it says:\n{text.strip()}")
        time.sleep(_PAUSE)


def uninstall(service: Service) -> list[str]:
    """Ends a service, and removes all that belongs to it. Returns what was removed."""
    state = _read(service.record)
    _systemctl(service, "disable", "--now", service.unit)
    if _systemctl(service, "is-active", "--quiet", service.unit):
        raise DeployError(f"systemd does not stop {service.unit}; look there with: {_look(service)}")
    removed = []
    for file in (service.file, service.log, service.record):
        if file.exists():
            file.unlink()
            removed.append(str(file))
    _systemctl(service, "daemon-reload")
    if state.get("lingers") and not [*installed()]:
        there.succeeds(["loginctl", "disable-linger"])
        removed.append("lingering of the account, as loginctl calls it")
    made = state.get("made")
    for folder in [_folder(), *map(Path, reversed(made if isinstance(made, list) else []))]:
        with suppress(OSError):  # others use it too
            folder.rmdir()
    return removed


def installed() -> Iterator[Service]:
    """The services that this account has installed."""
    for file in sorted(_folder().glob("*.json")):
        state = _read(file)
        command = state.get("command")
        if isinstance(command, list):
            yield Service(file.stem, (*map(str, command),), bool(state.get("is_system")))


def _check_manager(service: Service, state: dict[str, object]) -> None:
    """Raises DeployError if no systemd is here that starts services of this kind. Makes an account linger, so that its
    services run when nobody is logged in."""
    lingered = state["lingers"]
    if service.is_system:
        if os.geteuid() != 0:
            raise DeployError("--system needs the rights of root; without it, the service is one of your account")
        if not _systemctl(service, "show-environment"):
            raise DeployError("systemd does not answer here; for other systems: phalanx service install --print KIND")
    elif not there.user_manager(state):
        raise DeployError(
            "no user manager of systemd is here that goes on when you log out; as root, install a service of the "
            "machine with --system; for other systems: phalanx service install --print KIND"
        )
    state["lingers"] = bool(lingered or state["lingers"])


def _systemctl(service: Service, *words: str) -> bool:
    if service.is_system:
        return there.succeeds(["systemctl", *words], there.STOP_PATIENCE)
    return there.systemctl(*words, patience=there.STOP_PATIENCE)


def _look(service: Service) -> str:
    return f"systemctl {'' if service.is_system else '--user '}status {service.unit}"


def _folder() -> Path:
    return home().absolute() / "services"


def _read(record: Path) -> dict[str, object]:
    try:
        state = json.loads(record.read_text())
    except (OSError, ValueError):
        return {}
    return state if isinstance(state, dict) else {}
