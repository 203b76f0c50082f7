"""What keeps an executor in a process of another engine: beside a worker of Dask, or in an actor of Ray."""

from __future__ import annotations

from typing import Any

from phalanx.pilots._order import Order, command

#: Seconds that an executor may take to end what it runs. Then it is killed.
_PATIENCE = 5.0
#: Seconds until an executor that was killed is started again.
_PAUSE = 1.0


def keeper(order: Order, python: str | None) -> Any:
    """An object that travels to a process of another engine, and keeps an executor there.

    ``start(name, interpreters)`` starts the executor, ``stop()`` ends it. Both return at once, and ``stop()`` after the
    end. The end of the process, in any way, ends the executor, because its standard input ends.

    The class is inside of this function, so that its code travels with it: the engine's Python need not have phalanx.
    """
    line, code = order.line(), command("python")[2]
    patience, pause = _PATIENCE, _PAUSE

    class Keeper:
        def start(self, name: str, interpreters: int) -> None:
            import threading

            self.ending = threading.Event()
            self.process = self._begin(name, interpreters)
            self.thread = threading.Thread(target=self._keep, args=(name, interpreters), daemon=True)
            self.thread.start()

        def stop(self) -> None:
            import contextlib
            import subprocess

            self.ending.set()
            with contextlib.suppress(OSError):
                self.process.stdin.close()
            try:
                self.process.wait(patience)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
            self.thread.join()

        def _begin(self, name: str, interpreters: int) -> Any:
            import json
            import subprocess
            import sys

            told = json.loads(line)
            told["interpreters"] = told["interpreters"] or interpreters
            told["name"] = name
            words = [python or sys.executable, "-c", code, "pilot", "-"]
            # It writes to the log of the engine. The engine's own standard output may be a protocol.
            process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=2, start_new_session=True)
            assert process.stdin is not None
            process.stdin.write(json.dumps(told).encode() + b"\n")
            process.stdin.flush()
            return process

        def _keep(self, name: str, interpreters: int) -> None:
            """Starts an executor again that a signal has ended. One that ends by itself has lost its program."""
            times = 0
            while self.process.wait() < 0 and not self.ending.wait(pause):
                times += 1
                process = self._begin(f"{name}-{times}", interpreters)
                self.process = process
                if self.ending.is_set():  # it was asked to end meanwhile
                    process.stdin.close()

    return Keeper()
