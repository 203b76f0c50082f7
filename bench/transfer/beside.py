"""What a copy leaves to programs beside it: `python -m bench.transfer.beside`, as root, from the top.

Two programs that compute beside a private copy from memory to memory with both ends on this machine: with the
copy's threads as they are, and with their priority taken back to that of others, which needs root. All are of one
session, as an executor and its interpreters are: between sessions Linux's autogroups share the cores, whatever the
priorities are.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

from bench.spaces.identities import own_grid

SECONDS = 6
SPIN = f"""
import time
end = time.monotonic() + {SECONDS}
while time.monotonic() < end:
    pass
print(time.process_time())
"""


def executor(stack: ExitStack) -> tuple[str, int]:
    """One that exports memory, for the block: its address and its process."""
    phalanx = str(Path(sys.executable).with_name("phalanx"))
    command = [phalanx, "executor", "--listen", "127.0.0.1:0", "--no-spaces", "--export", "memory"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    stack.callback(process.wait)
    stack.callback(process.terminate)
    assert process.stdout is not None
    return process.stdout.readline().split()[2], process.pid


def computed() -> float:
    """CPU seconds that two programs get."""
    programs = [subprocess.Popen([sys.executable, "-c", SPIN], stdout=subprocess.PIPE, text=True) for _ in range(2)]
    return sum(float(program.communicate()[0]) for program in programs)


def stream_threads(processes: list[int]) -> list[Path]:
    """The threads of these processes that serve streams."""
    tasks = [task for process in processes for task in Path(f"/proc/{process}/task").iterdir()]
    return [task for task in tasks if (task / "comm").read_text().startswith("phalanx-stream")]


def used(threads: list[Path]) -> float:
    """CPU seconds of threads so far (proc(5), fields 14 and 15)."""
    fields = [(thread / "stat").read_text().rpartition(")")[2].split() for thread in threads]
    return sum(int(one[11]) + int(one[12]) for one in fields) / os.sysconf("SC_CLK_TCK")


def main() -> int:
    """Print both figures."""
    with ExitStack() as stack:
        stack.enter_context(own_grid())
        address, there = executor(stack)
        phalanx = str(Path(sys.executable).with_name("phalanx"))
        words = ["cp", "--json", "--level", "private", "memory:2000G", f"{address}:memory"]
        copy = subprocess.Popen([phalanx, *words], stdout=subprocess.DEVNULL)
        stack.callback(copy.wait)
        stack.callback(copy.terminate)
        while len(stream_threads([copy.pid])) < 2:
            time.sleep(0.1)
        threads = stream_threads([copy.pid, there])
        for what in ("as they are", "of equal priority"):
            before = used(threads)
            programs = computed()
            print(f"threads {what}: programs {programs:.1f} CPU s, copy {used(threads) - before:.1f} CPU s", flush=True)
            for thread in threads:
                os.setpriority(os.PRIO_PROCESS, int(thread.name), 0)
    return 0


if __name__ == "__main__":
    sys.exit(main())
