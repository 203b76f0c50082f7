"""The oldest Rust that Cargo.toml promises, which is Debian 13's, is new enough for every library in Cargo.lock.

Some libraries do not say which Rust they need: only compiling them with the oldest one proves these.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
WORKSPACES = ["Cargo.toml", "fuzz/Cargo.toml"]


def packages(manifest: str) -> list[dict[str, Any]]:
    """All that a workspace is compiled from, as `cargo metadata` tells it."""
    command = ["cargo", "metadata", "--locked", "--format-version", "1", "--manifest-path", manifest]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)["packages"]
    return found


def version(text: str) -> tuple[int, ...]:
    """`1.85` and `1.85.0` are the same."""
    major, minor, *_ = text.split(".")
    return int(major), int(minor)


@pytest.mark.parametrize("manifest", WORKSPACES)
def test_no_library_needs_a_newer_rust_than_we_promise(manifest: str) -> None:
    found = packages(manifest)
    (oldest,) = {package["rust_version"] for package in found if package["source"] is None}
    newer = {
        f"{package['name']} {package['version']} needs Rust {package['rust_version']}"
        for package in found
        if package["rust_version"] and version(package["rust_version"]) > version(oldest)
    }
    assert len(found) > 10
    assert not newer, f"we promise Rust {oldest}: {sorted(newer)}"
