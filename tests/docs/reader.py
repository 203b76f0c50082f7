"""A reader who types what a page shows: one folder, one shell and one Python for all blocks of the page."""

from __future__ import annotations

import json
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import TextIO

from docs.pages import Block, Command, matches

from laboratory.processes import Process, until

TIMEOUT = 120.0
# Runs block after block in `__main__`, as a script would, and adds a character to a file for each one done.
PYTHON = """
def _read(blocks, done):
    import json, sys
    with open(blocks) as lines, open(done, "w", buffering=1) as count:
        for line in lines:
            exec(compile(*json.loads(line), "exec"), sys.modules["__main__"].__dict__)
            print(file=count)

_read(*__import__("sys").argv[1:])
"""
# Takes over what the last command left, and leaves it to the next: the exported variables and the folder.
STATE = 'trap \'{{ declare -px; printf "cd %q\\n" "$PWD"; }} > {state}\' EXIT'
SHELL = "test -e {state} && . {state}\n{keep}\nset -euo pipefail\n{command}"


class Reader:
    """Runs the blocks of one page below `folder`, and ends what they started when the page ends."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._files, home = folder / "work", folder / "files", folder / "home"
        for made in (self._folder, self._files, home):
            made.mkdir()
        self._started: list[Process] = []
        self._python: tuple[Process, TextIO] | None = None
        self._blocks_of_python = 0
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        self._env = {**os.environ, "PATH": path, "HOME": str(home), "COLUMNS": "110"}
        self._env.pop("PHALANX_HOME", None)

    def read(self, block: Block) -> None:
        """Do what the page says; AssertionError tells where something went another way."""
        if block.how.startswith("no,"):
            return
        if block.file:
            (self._folder / block.file).write_text(block.text)
        elif block.language == "python":
            self._run_python(block)
        elif block.language in ("console", "bash"):
            for command in block.commands:
                self._run(command, block)

    def _run(self, command: Command, block: Block) -> None:
        background = block.how == "background"
        state = self._files / "state"
        keep = "" if background else STATE.format(state=state)
        script = SHELL.format(state=state, keep=keep, command=command.text)
        process = self._start(["bash", "-c", script], block)
        if background:
            self._wait_for_service(process, command, block)
            return
        assert process.wait(timeout=TIMEOUT) == 0, process.report()
        printed = process.stdout() + process.stderr()
        assert not command.output.strip() or matches(command.output, printed), (
            f"the page shows\n{command.output}\nbut it is {process.report()}"
        )

    def _wait_for_service(self, process: Process, command: Command, block: Block) -> None:
        assert command.output.strip(), f"{block.place}: show the line that tells when the service is ready"
        ready = f"{command.output.strip()}…"
        until(
            lambda: process.code is not None or matches(ready, process.stdout()),
            timeout=TIMEOUT,
            what=f"{command.output} from {block.place}",
        )
        assert process.code is None, process.report()

    def _run_python(self, block: Block) -> None:
        blocks, done = self._files / "blocks", self._files / "done"
        if self._python is None:
            os.mkfifo(blocks)
            # Opened for both, so that opening does not wait for the other end.
            pipe = os.fdopen(os.open(blocks, os.O_RDWR), "w")
            self._python = self._start([sys.executable, "-c", PYTHON, str(blocks), str(done)], block), pipe
        process, write = self._python
        # Empty lines before it make the line numbers in a traceback those of the page.
        text = "\n" * (block.line - 1) + block.text
        print(json.dumps([text, str(block.page)]), file=write, flush=True)
        self._blocks_of_python += 1

        def ended() -> bool:
            return process.code is not None or (done.exists() and len(done.read_bytes()) == self._blocks_of_python)

        until(ended, timeout=TIMEOUT, what=block.place)
        assert process.code is None, process.report()

    def _start(self, command: list[str], block: Block) -> Process:
        files = self._files / f"process-{len(self._started)}"
        process = Process(command, title=block.place, files=files, cwd=self._folder, env=self._env)
        self._started.append(process)
        return process

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, error: type[BaseException] | None, _: object, __: TracebackType | None) -> None:
        try:
            if self._python:
                process, write = self._python
                write.close()
                assert error or process.wait(timeout=TIMEOUT) == 0, process.report()
        finally:
            for process in reversed(self._started):
                end(process)


def end(process: Process) -> None:
    """End a process with all that is left of its group: asked first, killed if it does not listen."""

    def gone() -> bool:
        return process.code is not None and not alive(process.pid)

    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            process.signal(number, group=True)
        with suppress(AssertionError):
            until(gone, timeout=30, what=f"the end of {process.title}")
            return


def alive(group: int) -> bool:
    """Whether a process group has members."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True
