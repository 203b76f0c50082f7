"""What the package itself tells."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version

import phalanx as px
import pytest


def run(*words: str) -> str:
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, check=True, timeout=60)
    return done.stdout.strip()


def test_its_version_is_that_of_the_distribution() -> None:
    assert px.__version__ == version("phalanx")


def test_it_runs_as_a_module() -> None:
    assert run("-m", "phalanx", "--version") == f"phalanx, version {px.__version__}"
    assert run("-m", "phalanx", "--help").startswith("Usage: phalanx [OPTIONS] COMMAND")


@pytest.mark.parametrize("name", ["bsp", "errors", "profile", "space", "summary"])
def test_its_parts_are_attributes(name: str) -> None:
    assert run("-c", f"import phalanx as px; print(px.{name}.__name__)") == f"phalanx.{name}"


def test_all_names_are_there_and_no_other_is() -> None:
    assert all(getattr(px, name) is not None for name in px.__all__)
    with pytest.raises(AttributeError, match="no attribute 'Managr'"):
        getattr(px, "Managr")  # noqa: B009
