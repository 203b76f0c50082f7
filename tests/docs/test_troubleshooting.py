"""Every public error has its place on the page of errors, with a message as it is really printed."""

from __future__ import annotations

import inspect
import os
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import phalanx as px
import pytest
from click.testing import CliRunner
from docs.pages import matches
from docs.test_links import anchors
from phalanx.cli import MODULES, commands
from phalanx.deploying.wheels import Machine, bundle
from phalanx.errors import PhalanxError, help_for
from phalanx.space import Transaction

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "troubleshooting.md"
#: What `phalanx help` reads: wheels have no documentation.
COPY = ROOT / "python" / "phalanx" / "troubleshooting.md"
NAMES = [name for name, one in vars(px.errors).items() if inspect.isclass(one) and one.__module__ == "phalanx.errors"]
ONE = px.ParDegree(1)


def shown() -> dict[str, str]:
    """The message that the page shows for each error."""
    return dict(re.findall(r"^## (\w+)\n\n```text\n(.*?)\n```$", PAGE.read_text(), re.MULTILINE | re.DOTALL))


@pytest.mark.parametrize("name", NAMES)
def test_every_error_has_an_anchor_a_message_a_meaning_and_a_remedy(name: str) -> None:
    error = getattr(px.errors, name)
    if issubclass(error, PhalanxError):
        assert help_for(error) == f"help: phalanx help {name}"
    assert name.lower() in anchors(PAGE)
    part = re.search(rf"^## {name}\n(.*?)(?=^## |\Z)", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert part
    assert shown()[name]
    assert "\n**Means.** " in part[1]
    assert "\n**Do.** " in part[1]


def test_the_page_explains_no_error_that_there_is_not() -> None:
    assert set(shown()) == set(NAMES)


def computing(function: Callable[[int], object], **options: object) -> None:
    with px.Manager(contract=ONE, **options) as manager:  # type: ignore[arg-type]
        list(manager.compute(function, [1]))


def with_a_lock() -> None:
    lock = threading.Lock()
    computing(lambda number: (lock, number))


def initialize() -> None:
    raise OSError("no licence server")


def too_slowly() -> None:
    with px.Manager(contract=px.Throughput(100_000, at_most=1)) as manager:
        list(manager.compute(lambda _: time.sleep(0.02), range(200)))


def in_a_full_space() -> None:
    with px.Space(most_tuples=1) as space:
        space.out_many([(1,), (2,)])


def in_vain() -> None:
    with px.Space() as space:
        space.in_("z", timeout=0.01)


def too_late() -> None:
    with px.Space() as space:
        transaction = Transaction(space)
        transaction.abort()
        transaction.commit()


def in_conflict() -> None:
    with px.Space() as space:
        space.out("one")
        transaction = Transaction(space, isolation="repeatable read")
        assert space.rd("one", transaction=transaction)
        space.in_("one")
        transaction.commit()


PROVOKED: dict[str, Callable[[], object]] = {
    "ProgramError": lambda: px.Pipeline(42),  # type: ignore[arg-type]
    "ContractError": lambda: px.ParDegree(0) and px.Manager(contract=px.ParDegree(0)),
    "ContractWarning": too_slowly,
    "DeployError": lambda: bundle(Path("wheels"), Machine((3, 11), "x86_64", "2.36"), Path()),
    "PolicyError": lambda: px.Manager(policy="everything"),  # type: ignore[arg-type]
    "StagingError": with_a_lock,
    "CulpritError": lambda: computing(lambda _: os._exit(1)),
    "TaskTimeoutError": lambda: computing(px.options(time.sleep, timeout=0.2)),
    "TransferError": lambda: px.copy("a", "b"),
    "LaunchError": lambda: px.mpirun(["./missing"], n=1),
    "RanksError": lambda: px.mpirun(["sh", "-c", "echo wrong >&2; exit 4"], n=1, capture_output=True),
    "RanksTimeoutError": lambda: px.mpirun(["sleep", "60"], n=1, timeout=0.2),
    "BspError": lambda: px.bsp.sync(),
    "ProfileError": lambda: px.profile.end("x"),
    "InitializerError": lambda: computing(abs, initializer=initialize),
    "RemoteError": lambda: computing(lambda _: sys.exit(3)),
    "SpaceFullError": in_a_full_space,
    "SpaceTimeoutError": in_vain,
    "TransactionError": too_late,
    "TransactionConflictError": in_conflict,
}
#: Messages that only other machines, a lost leader or a broken pipe cause: words of theirs, which the sources have.
ELSEWHERE = {
    "PhalanxError": "a pipe of what was started here, or a connection: ",
    "RecruitError": " listens there (start one with: ",
    "IdentityError": "name yours with --identity or identity=, or put it there; ",
    "RemoteTraceback": "raised at ",
    "LostError": "no interpreter is left, and none can be recruited: ",
    "SpaceError": " listens there (start one with: ",
    "AccessError": "not allowed: ",
    "SpaceLostError": "whether it was done is not known: ",
    "SpaceMovedError": "another member leads the space: ",
    "SpaceForgottenError": "this client is not known here, or not any more: what it asked before is forgotten",
}


@pytest.mark.filterwarnings("always::phalanx.errors.ContractWarning")
@pytest.mark.parametrize("name", PROVOKED)
def test_the_message_is_printed_as_it_is_shown(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PHALANX_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    error = getattr(px.errors, name)
    if issubclass(error, Warning):
        with pytest.warns(error) as warned:
            PROVOKED[name]()
        assert any(matches(shown()[name], str(one.message)) for one in warned)
        return
    with pytest.raises(error) as caught:
        PROVOKED[name]()
    assert type(caught.value) is error
    assert matches(shown()[name], str(caught.value)), str(caught.value)


def sources() -> Iterator[str]:
    """The sources, with the parts of split texts put together."""
    for path in [*ROOT.glob("crates/*/src/**/*.rs"), *ROOT.glob("python/phalanx/**/*.py")]:
        yield re.sub(r"\\\n\s*", "", path.read_text())


@pytest.mark.parametrize("name", ELSEWHERE)
def test_other_messages_have_the_words_of_the_sources(name: str) -> None:
    assert ELSEWHERE[name] in shown()[name]
    assert any(ELSEWHERE[name] in text for text in sources())


def test_the_code_points_to_sections_and_commands_that_there_are() -> None:
    known = {*NAMES, *MODULES}
    for text in sources():
        assert {*re.findall(r"phalanx help (\w+)", text)} <= known
        raised = re.findall(r"""raise\(\s*"(\w+)",""", text)
        assert {*raised} <= set(NAMES)


#: For messages that tests elsewhere provoke: the section that the last line of the command names, and words of the
#: message that this section has.
ANSWERED = {
    "IdentityError": [
        "several grids: say which",
        "has joined no grid",
        "only owners of the grid may",
        "the token is not good here",
        "the token is for the role ",
        " makes one person an owner",
        "is no member of this grid, or was expelled",
        " is the only owner of the grid, which would have none left",
        " was revoked on ",
        " is damaged: ",
        "the hub's disk is full, so that it stores nothing: ",
        " names the root ",
        "other accounts may replace the files in ",
    ],
    "TransferError": ["is no export: write FOLDER:ro or FOLDER:rw", "exported for reading only"],
    "SpaceError": ["is no address of a space", "no executor runs at the hub of the grid "],
    "RecruitError": [
        "places are free",
        "processes were asked for",
        "interpreters of this machine are in use",
        "no executor of the grid ",
        "it does not lead, and knows no hub that does",
        "the hub hung up: ",
    ],
    "PhalanxError": ["there is no compiler ", "is not replicated: it has no members"],
}


@pytest.mark.parametrize("name", ANSWERED)
def test_a_section_answers_the_messages_that_point_to_it(name: str) -> None:
    part = re.search(rf"^## {name}\n(.*?)(?=^## |\Z)", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert part
    for words in ANSWERED[name]:
        assert words in part[1], words
        assert any(words in text for text in sources()), words


def test_each_error_is_provoked_or_looked_up() -> None:
    assert sorted([*PROVOKED, *ELSEWHERE]) == sorted(NAMES)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="notes came with Python 3.11")
def test_an_error_that_nobody_catches_ends_with_where_it_is_explained() -> None:
    program = "import pickle, phalanx as px\nraise pickle.loads(pickle.dumps(px.errors.TransferError('wrong')))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    said = ["phalanx.errors.TransferError: wrong", "help: phalanx help TransferError"]
    assert done.stderr.splitlines()[-2:] == said


def test_a_command_says_where_its_error_is_explained(tmp_path: Path) -> None:
    done = run(tmp_path, "ls", "labpc:/data")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "phalanx: help: phalanx help IdentityError"


@pytest.mark.parametrize("command", ["ls AT/x AT/y", "cat AT/x", "rm AT/x", "cp AT/x here", "cp AT/x AT/y folder/"])
def test_commands_about_files_say_it_once_where_no_executor_listens(command: str, tmp_path: Path) -> None:
    assert run(tmp_path, "grid", "create").returncode == 0
    with socket.socket() as taken:  # bound, and not listening
        taken.bind(("127.0.0.1", 0))
        at = f"127.0.0.1:{taken.getsockname()[1]}:"
        done = run(tmp_path, *command.replace("AT", at).split())
    said = done.stderr.splitlines()
    assert done.returncode == 1
    assert "no executor listens there" in said[0]
    assert [line for line in said if "help: " in line] == said[-1:] == ["phalanx: help: phalanx help TransferError"]


def run(home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PHALANX_HOME": str(home)}
    return subprocess.run(
        [sys.executable, "-m", "phalanx", *words], env=environment, capture_output=True, text=True, cwd=home
    )


def test_the_package_has_a_copy_of_the_page() -> None:
    assert COPY.read_text() == PAGE.read_text(), "cp docs/troubleshooting.md python/phalanx/"


@pytest.mark.parametrize("name", NAMES)
def test_the_command_prints_the_section_of_each_error(name: str) -> None:
    done = CliRunner().invoke(commands, ["help", name.lower()])
    assert done.exit_code == 0, done.output
    assert done.output.startswith(f"{name}\n")
    for part in ("Means. ", "Do. ", shown()[name].split()[0]):
        assert part in done.output
    assert not re.search(r"\]\(|\*\*|^## ", done.output), "it is for a terminal"


def test_help_has_a_list_of_all_errors_and_the_help_of_commands() -> None:
    assert CliRunner().invoke(commands, ["help"]).output.split() == NAMES
    assert "--stripes" in CliRunner().invoke(commands, ["help", "cp"]).output
    missing = CliRunner().invoke(commands, ["help", "recruterror"])
    assert missing.exit_code == 2
    assert "did you mean RecruitError?" in missing.output
    missing = CliRunner().invoke(commands, ["help", "xyz"])
    assert missing.exit_code == 2
    assert "all errors: phalanx help" in missing.output


@pytest.mark.skipif(sys.version_info < (3, 11), reason="notes came with Python 3.11")
def test_notes_are_not_taken_for_messages() -> None:
    class Odd(Exception):
        def __reduce__(self) -> str:
            raise TypeError("it cannot travel")

    def fail(_: int) -> None:
        error = Odd("what happened")
        error.add_note("a note")  # type: ignore[attr-defined,unused-ignore]
        raise error

    with pytest.raises(px.errors.RemoteError, match="Odd: what happened"):
        computing(fail)
    program = "import phalanx as px; px.Pipeline()"
    with pytest.raises(px.errors.RanksError, match=r"at least one stage\nhelp: phalanx help RanksError$"):
        px.mpirun([sys.executable, "-c", program], n=1, capture_output=True)
