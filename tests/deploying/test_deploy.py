"""`phalanx deploy` over real servers of ssh, from the first connection to the last file that is removed."""

from __future__ import annotations

import getpass
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import phalanx as px
import pytest
from click.testing import CliRunner, Result
from deploying.sshd import BASE, Machines, free_port
from marked import of_this_run
from phalanx import _native
from phalanx.cli import commands
from phalanx.cli.deploy import _serving as serving
from phalanx.cli.grid import Signer
from phalanx.deploying import steps, there
from phalanx.errors import IdentityError

from laboratory.processes import Process, until

pytestmark = pytest.mark.timeout(300)
#: Root's executor needs a word.
ROOT = "--allow-root" if os.geteuid() == 0 else ""


def phalanx(*words: str | Path) -> Result:
    """A command; it succeeds unless the test says otherwise."""
    result = CliRunner().invoke(commands, [str(word) for word in words], standalone_mode=False)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.output
    return result


def deploy(lab: Machines, *words: str | Path, options: str = "") -> Result:
    executor = f"--interpreters 2 --env PHALANX_TEST_RUN {ROOT} {options}"
    return phalanx("deploy", "--ssh", lab.ssh, "--executor", executor, *words)


def is_done(result: Result) -> bool:
    """Whether a command has succeeded: its return value is its exit status."""
    return bool(result.return_value == 0)


@pytest.fixture
def grid(lab: Machines) -> Machines:
    """A user with a grid."""
    assert phalanx("grid", "create", "--user", "ada").exception is None
    return lab


def state(home: Path) -> dict[str, object]:
    found = json.loads((home / ".local/share/phalanx/deployed.json").read_text())
    assert isinstance(found, dict)
    return found


def pid(home: Path) -> int:
    return int((home / ".local/share/phalanx/executor.pid").read_text().split()[0])


def test_an_executor_comes_works_stays_changes_and_goes(grid: Machines, wheel: Path, tmp_path: Path) -> None:
    home, port = grid.add("one"), str(free_port())
    first = deploy(grid, "one", "--name", "ws7", "--port", port, "--wheel", wheel)
    assert is_done(first), first.output
    for step in ("connected: Linux", "installed phalanx_grid-", "joined the grid as ws7", "started the executor"):
        assert re.search(rf"^ +\d+\.\d s  one: {step}", first.output, re.MULTILINE), first.output
    assert (tmp_path / "hosts.txt").read_text() == f"ws7 = 127.0.0.1:{port}\n"
    with px.Grid("hosts.txt").manager(contract=px.ParDegree(1)) as manager:
        assert list(manager.map(abs, [-1, -2])) == [1, 2]
    phalanx("grid", "issue", "--role", "user", "--out", "eve.pem", "eve")
    with pytest.raises(px.TransferError, match="the user eve is not among those accepted"):
        px.Grid("hosts.txt", identity="eve.pem").files("ws7")
    # The private key never leaves the machine.
    key = (home / ".local/share/phalanx/home/executor.pem").read_text().partition("PRIVATE KEY-----")[2][:64]
    assert key
    assert not any(key in it.read_text(errors="replace") for it in tmp_path.glob("identities/*"))
    assert not list(home.rglob("*.key"))

    before = pid(home)
    second = deploy(grid, "one", "--name", "ws7", "--port", port, "--wheel", wheel)
    assert is_done(second), second.output
    assert "nothing to do" in second.output
    assert "installed" not in second.output
    assert pid(home) == before

    looked = phalanx("doctor", "--ssh", grid.ssh, "--hosts", "hosts.txt", f"{getpass.getuser()}@one", "--json")
    assert not looked.output.count('"error"'), looked.output
    assert {it["about"] for it in json.loads(looked.output)} >= {
        "ssh",
        "clock",
        "phalanx",
        "Python",
        "executor",
        "task",
    }

    third = deploy(grid, "one", "--name", "ws7", "--port", port, "--wheel", wheel, options="--no-spaces")
    assert is_done(third), third.output
    assert "started the executor" in third.output
    assert "joined" not in third.output
    assert pid(home) != before

    last = pid(home)
    removed = phalanx("deploy", "--ssh", grid.ssh, "--remove", "one")
    assert is_done(removed), removed.output
    assert "removed ws7 from hosts.txt" in removed.output
    assert list(home.iterdir()) == []
    assert not (tmp_path / "hosts.txt").exists()
    until(lambda: not Path(f"/proc/{last}").exists(), timeout=30, what="the end of the executor")
    again = phalanx("deploy", "--ssh", grid.ssh, "--remove", "one")
    assert is_done(again)
    assert "nothing was deployed there" in again.output


def test_one_machine_that_fails_does_not_stop_the_others(grid: Machines, wheel: Path, tmp_path: Path) -> None:
    grid.add("one")
    grid.name("gone")
    stranger = grid.add("stranger", is_known=False)
    result = deploy(grid, "gone", "one", "stranger", "--port", str(free_port()), "--wheel", wheel)
    assert result.return_value == 1
    assert re.search(r"^phalanx: gone: .*Connection refused", result.output, re.MULTILINE), result.output
    assert re.search(r"^phalanx: stranger: .*Host key verification failed", result.output, re.MULTILINE | re.DOTALL)
    assert list(stranger.iterdir()) == [], "ssh decides whom it trusts"
    assert "help: phalanx help DeployError" in result.output
    assert len(px.Hosts("hosts.txt").machines) == 1
    removed = phalanx("deploy", "--ssh", grid.ssh, "--remove", "one")
    assert is_done(removed), removed.output


def test_durable_spaces_are_not_removed_without_a_word(grid: Machines, wheel: Path) -> None:
    home = grid.add("one")
    assert is_done(deploy(grid, "one", "--name", "ws7", "--port", str(free_port()), "--wheel", wheel))
    with px.Grid("hosts.txt").space("ws7/jobs", durable=True) as space:
        space.out("job", 1)
    refused = phalanx("deploy", "--ssh", grid.ssh, "--remove", "one")
    assert refused.return_value == 1
    assert "it keeps durable spaces in" in refused.output
    assert state(home)["name"] == "ws7"
    assert is_done(phalanx("deploy", "--ssh", grid.ssh, "--remove", "--with-spaces", "one"))
    assert list(home.iterdir()) == []


def test_an_executor_that_ends_at_once_is_told_with_its_last_words(grid: Machines, wheel: Path) -> None:
    grid.add("one")
    result = deploy(grid, "one", "--wheel", wheel, "--port", str(free_port()), options="--export /no/such/folder:ro")
    assert result.return_value == 1
    assert "the executor ended at once" in result.output
    assert "/no/such/folder" in result.output
    removed = phalanx("deploy", "--ssh", grid.ssh, "--remove", "one")
    assert is_done(removed), removed.output


def test_what_a_machine_says_reaches_the_terminal_escaped(grid: Machines, wheel: Path, tmp_path: Path) -> None:
    lying = tmp_path / "lying"
    lying.mkdir()
    python = f"python3.{sys.version_info.minor}"
    (lying / python).write_text("#!/bin/sh\nprintf '\\033]0;mine\\007\\033[2Jgone\\n' >&2\nexit 3\n")
    (lying / python).chmod(0o755)
    grid.add("one", path=(lying,))
    result = deploy(grid, "one", "--wheel", wheel)
    assert result.return_value == 1
    assert "gone" in result.output
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f]", result.output), repr(result.output)


def test_words_of_shells_do_not_disturb(grid: Machines, tmp_path: Path) -> None:
    """What start files print, and a home folder with a space and a quote."""
    chatty = tmp_path / "chatty"
    chatty.mkdir()
    python = f"python3.{sys.version_info.minor}"
    (chatty / python).write_text(f"#!/bin/sh\necho 'welcome {{}}'\nexec {BASE / python} \"$@\"\n")
    (chatty / python).chmod(0o755)
    strange = tmp_path / "it's a \\ $HOME"
    strange.mkdir()
    grid.add("one", path=(chatty,), XDG_DATA_HOME=str(strange).replace("\\", "\\\\"))
    removed = phalanx("deploy", "--ssh", grid.ssh, "--remove", "one")
    assert is_done(removed), removed.output
    looked = phalanx("doctor", "--ssh", grid.ssh, f"{getpass.getuser()}@one")
    assert f"nothing is in {strange}/phalanx" in looked.output.replace("\\\\", "\\"), looked.output


OTHER_PYTHON = "import platform\nplatform.python_version = lambda: '3.99.1'\n"


def test_another_python_is_an_error_and_a_warning_if_it_is_named(grid: Machines, wheel: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "sitecustomize.py").write_text(OTHER_PYTHON)
    home = grid.add("one", PYTHONPATH=str(other))
    result = deploy(grid, "one", "--wheel", wheel)
    assert result.return_value == 1
    assert "functions travel as bytecode, between equal versions only; install python3." in result.output
    named = deploy(grid, "one", "--wheel", wheel, "--python", "python3")
    assert "warning: " in named.output
    assert re.search(r"no wheel of phalanx-grid for Python 3\.99", named.output), named.output
    assert list(home.iterdir()) == []


def test_a_machine_gets_no_name_of_another_one(grid: Machines, wheel: Path, tmp_path: Path) -> None:
    home = grid.add("one")
    hosts = tmp_path / "hosts.txt"
    hosts.write_text("one = 10.0.0.7:7400\n")
    refused = deploy(grid, "one", "--wheel", wheel, "--port", str(free_port()))
    assert refused.return_value == 1
    assert "hosts.txt has another machine of the name one, at 10.0.0.7:7400: say --name NAME" in refused.output
    assert list(home.iterdir()) == []
    # What it says its name is decides about no other machine's line, and files of others stay.
    base = home / ".local/share/phalanx"
    base.mkdir(parents=True)
    (base / "deployed.json").write_text(json.dumps({"name": "one"}))
    (base / "precious").touch()
    removed = phalanx("deploy", "--ssh", grid.ssh, "--remove", "one")
    assert is_done(removed), removed.output
    assert "left one in hosts.txt" in removed.output
    assert hosts.read_text() == "one = 10.0.0.7:7400\n"
    assert [it.name for it in base.iterdir()] == ["precious"]


def test_two_machines_of_one_name_are_refused() -> None:
    result = CliRunner().invoke(commands, ["deploy", "lab.north.example", "ada@lab.south.example"])
    assert result.exit_code == 2
    assert "two machines would have one name" in result.output


def installing_for_ever(grid: Machines, wheel: Path, tmp_path: Path) -> Process:
    """A deploy whose wheels arrive, at a machine that installs them for ever. Its temporary files are in `tmp_path`."""
    slow = tmp_path / "slow"
    slow.mkdir()
    (slow / "sitecustomize.py").write_text("import sys, time\n'-m' in sys.orig_argv and time.sleep(1000)\n")
    home = grid.add("one", PYTHONPATH=str(slow))
    words = ["deploy", "--ssh", grid.ssh, "--wheel", str(wheel), "one"]
    command = [str(Path(sys.executable).with_name("phalanx")), *words]
    process = Process(
        command, title="deploy", files=tmp_path / "deploy", cwd=tmp_path, env={**os.environ, "TMPDIR": str(tmp_path)}
    )
    incoming = home / ".local/share/phalanx/incoming"
    until(incoming.exists, timeout=60, what=f"the wheels to arrive: {process.report()}")
    return process


def test_ctrl_c_ends_it_and_its_connection(grid: Machines, wheel: Path, tmp_path: Path) -> None:
    process = installing_for_ever(grid, wheel, tmp_path)
    process.signal(signal.SIGINT)
    assert process.wait(timeout=60) == 130, process.report()
    until(lambda: "ssh -F" not in processes(), timeout=30, what="the end of ssh")


def processes() -> str:
    """The command lines of this test run's processes of ssh."""
    lines = []
    for folder in of_this_run():
        with suppress(OSError):
            lines.append((folder / "cmdline").read_bytes().replace(b"\0", b" ").decode())
    return "\n".join(lines)


#: Hides a module from all Pythons that have it in PYTHONPATH.
HIDDEN = """
import sys

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name == "ensurepip":
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Hidden())
import importlib.util
found = importlib.util.find_spec
importlib.util.find_spec = lambda name, *more: None if name == "ensurepip" else found(name, *more)
"""


def test_without_venv_there_uv_makes_the_environment(
    grid: Machines, wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    (hidden / "sitecustomize.py").write_text(HIDDEN)
    home = grid.add("one", PYTHONPATH=str(hidden))
    with monkeypatch.context() as patch:
        patch.setattr(steps, "_own_uv", lambda kind: None)
        without = deploy(grid, "one", "--wheel", wheel, "--port", str(free_port()))
        assert without.return_value == 1
        assert re.search(r"apt-get install python3\.\d+-venv.*--uv FILE", without.output), without.output
    uv = Path(sys.executable).with_name("uv")
    result = deploy(grid, "one", "--wheel", wheel, "--uv", uv, "--port", str(free_port()))
    assert is_done(result), result.output
    assert "libraries with uv" in result.output
    removed = phalanx("deploy", "--ssh", grid.ssh, "--remove", "one")
    assert is_done(removed), removed.output
    assert list(home.iterdir()) == []


#: A user manager, as far as deploying calls it: starts the command of a unit, and ends it.
SYSTEMCTL = """#!{python}
import json, os, pathlib, shlex, signal, subprocess, sys
words, here = sys.argv[2:], pathlib.Path(os.environ["HOME"])
unit, running = here / ".config/systemd/user/phalanx-deployed.service", here / "running"
if words[0] == "enable":
    lines = dict(line.split("=", 1) for line in unit.read_text().splitlines() if "=" in line)
    env = dict(os.environ, PHALANX_HOME=shlex.split(lines["Environment"])[0].split("=", 1)[1])
    log = open(lines["StandardOutput"].removeprefix("append:"), "ab")
    command = [word.replace("$$", "$").replace("%%", "%") for word in shlex.split(lines["ExecStart"])]
    streams = dict(stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    process = subprocess.Popen(command, env=env, start_new_session=True, **streams)
    running.write_text(str(process.pid))
elif words[0] == "disable":
    os.kill(int(running.read_text()), signal.SIGTERM)
    running.unlink()
elif words[0] == "is-active":
    sys.exit(not running.exists())
"""


def test_where_systemd_has_a_user_manager_the_executor_is_its_unit(grid: Machines, wheel: Path, tmp_path: Path) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "systemctl").write_text(SYSTEMCTL.format(python=BASE / "python3"))
    (programs / "loginctl").write_text('#!/bin/sh\necho "$@" >> "$HOME/lingering"\n')
    for program in programs.iterdir():
        program.chmod(0o755)
    home, port = grid.add("one", path=(programs,)), str(free_port())
    result = deploy(grid, "one", "--name", "ws7", "--wheel", wheel, "--port", port)
    assert is_done(result), result.output
    assert "as a unit of systemd" in result.output
    assert (home / "lingering").read_text() == "enable-linger\n"
    same = deploy(grid, "one", "--name", "ws7", "--wheel", wheel, "--port", port)
    assert "nothing to do" in same.output, same.output
    removed = phalanx("deploy", "--ssh", grid.ssh, "--remove", "one")
    assert is_done(removed), removed.output
    assert [it.name for it in home.iterdir()] == ["lingering"]
    assert (home / "lingering").read_text() == "enable-linger\ndisable-linger\n"


def test_systemd_reads_the_unit(tmp_path: Path) -> None:
    text = there.unit(tmp_path / 'a "b" %c $d', ["/bin/echo", "it's", '"%n"', "$HOME", "\\"])
    unit = tmp_path / "phalanx-deployed.service"
    unit.write_text(text)
    assert 'ExecStart="/bin/echo" "it\'s" "\\"%%n\\"" "$$HOME" "\\\\"' in text
    program = Path("/usr/bin/systemd-analyze")
    if program.exists():
        verified = subprocess.run([program, "verify", "--man=no", unit], capture_output=True, text=True)
        about = [line for line in verified.stderr.splitlines() if "phalanx-deployed" in line]
        assert about == [], verified.stderr


def test_a_machine_that_asks_for_more_than_its_own_name_gets_nothing(grid: Machines, tmp_path: Path) -> None:
    signer = Signer(None, days=90, reads=True)
    register = tmp_path / "identities" / "issued.txt"
    before = register.read_text()
    for role, name in (("user", "ws7"), ("executor", "ws8")):
        _, request = _native.request_member(role, name)
        with pytest.raises(IdentityError, match="a request for ws7 in the role executor was expected"):
            signer.sign(request, "executor", "ws7")
    assert register.read_text() == before
    good = signer.sign(_native.request_member("executor", "ws7")[1], "executor", "ws7")
    head = "".join(good.partition("-----END CERTIFICATE-----\n")[:2])
    assert signer.is_good(head, "ws7")
    assert not signer.is_good(head, "ws8")
    assert not signer.is_good("", "ws7")
    assert phalanx("grid", "revoke", "ws7").exception is None
    assert not signer.is_good(head, "ws7")


@pytest.mark.parametrize("machine", ["-oProxyCommand=touch x", "two words", "a\x1bb"])
def test_what_is_no_machine_is_refused_before_ssh_sees_it(machine: str) -> None:
    result = CliRunner().invoke(commands, ["deploy", "--", machine])
    assert result.exit_code == 2
    assert "is no machine" in result.output


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--no-such-option", "No such option"),
        ("--interpreters many", "--interpreters"),
        ("more", "takes options only"),
    ],
)
def test_a_wrong_option_of_the_executor_is_refused_at_once(options: str, said: str, grid: Machines) -> None:
    result = CliRunner().invoke(commands, ["deploy", "--executor", options, "one"])
    assert result.exit_code == 2
    assert said in result.output


def test_an_option_that_is_the_value_of_another_does_not_open_the_executor(grid: Machines, tmp_path: Path) -> None:
    user = tmp_path / "identities" / "user.pem"
    assert serving(("--directory", "--accept"), user) == ("--directory", "--accept", "--accept", "ada")
    assert serving(("--accept=bob",), user) == ("--accept=bob",)


@pytest.mark.parametrize(
    "answer",
    [
        '{"result": {}}',
        '{"result": ',
        '{"result": [1]}',
        "[]",
        "{}",
        '{"result": {"state": {"port": "x"}}}',
    ],
)
def test_an_answer_that_makes_no_sense_is_an_error_of_this_machine(answer: str, grid: Machines, tmp_path: Path) -> None:
    lying = tmp_path / "lying"
    lying.mkdir()
    python = lying / f"python3.{sys.version_info.minor}"
    code = "import json, sys; print(json.loads(sys.stdin.readline())['mark'] + sys.argv[1])"
    python.write_text(f"#!/bin/sh\nexec {BASE / 'python3'} -c {shlex.quote(code)} {shlex.quote(answer)}\n")
    python.chmod(0o755)
    grid.add("one", path=(lying,))
    result = deploy(grid, "one")
    assert result.return_value == 1
    assert "phalanx: one: its answer to facts makes no sense" in result.output


def test_a_name_that_another_machine_has_is_refused(grid: Machines, wheel: Path) -> None:
    assert phalanx("grid", "issue", "one").exception is None
    home = grid.add("one")
    result = deploy(grid, "one", "--wheel", wheel)
    assert result.return_value == 1
    assert "another executor has a good certificate as one: say --name" in result.output
    assert list(home.iterdir()) == []


def test_a_name_that_no_member_can_have_is_refused_before_ssh(grid: Machines) -> None:
    result = CliRunner().invoke(commands, ["deploy", "--name", "A_b", "one"])
    assert result.exit_code == 2
    assert "is no name for a member" in result.output


def test_ssh_ends_with_a_process_that_is_killed(grid: Machines, wheel: Path, tmp_path: Path) -> None:
    process = installing_for_ever(grid, wheel, tmp_path)
    folders = set(re.findall(r"ControlPath=(\S+)/socket", processes()))
    process.signal(signal.SIGKILL)
    process.wait(timeout=60)
    until(lambda: "ssh -M" not in processes(), timeout=30, what="the end of the shared ssh")
    for folder in folders:
        shutil.rmtree(folder)
