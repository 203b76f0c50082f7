"""What must be on a machine that builds phalanx from source, and the words where it is not."""

from __future__ import annotations

import os
import re
import shutil
import subprocess

#: As in Cargo.toml, whose `rust-version` cargo reads too late for a clear message.
OLDEST_RUST = (1, 85)
REMEDY = (
    "A wheel needs neither: `pip install phalanx-grid` takes one on Linux x86-64 and aarch64. To build from source, "
    "install Rust 1.85 or newer and a C compiler (Debian 13: apt-get install cargo rustc gcc)."
)


def check() -> None:
    """Exits with words where something is lacking."""
    if lacking := problem():
        raise SystemExit(f"phalanx cannot be built here: {lacking}. {REMEDY}")


def problem() -> str | None:
    """What is lacking; None where nothing is."""
    if shutil.which("cargo") is None:
        return "there is no cargo, Rust's package manager"
    told = subprocess.run(["cargo", "--version"], capture_output=True, text=True)
    if not (version := re.match(r"cargo (\d+)\.(\d+)", told.stdout)):
        return f"`cargo --version` fails: {(told.stderr or told.stdout).strip()}"
    if (int(version[1]), int(version[2])) < OLDEST_RUST:
        return f"its Rust is too old, {told.stdout.strip()}"
    compiler = os.environ.get("CC", "cc").split()[0]
    if shutil.which(compiler) is None:
        return f"there is no C compiler {compiler!r}"
    return None
