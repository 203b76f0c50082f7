"""The build backend: what it adds to maturin's wheel, its words where it cannot. `make dist` checks whole wheels."""

from __future__ import annotations

import ctypes
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from phalanx_build import contents, crates, libraries, materials, needs, notices, wheels
from phalanx_build.libraries import Options

ROOT = Path(__file__).parents[2]
HERE = Options(None, "dist")


@pytest.fixture(scope="module")
def found() -> list[crates.Crate]:
    """The crates of this workspace's libraries."""
    return crates.read(ROOT, HERE)


def command(folder: Path, name: str, text: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


@pytest.mark.parametrize(
    ("cargo", "compiler", "words"),
    [
        (None, True, "there is no cargo, Rust's package manager"),
        ("echo cargo 1.84.9", True, "its Rust is too old, cargo 1.84.9"),
        ("echo no toolchain >&2; exit 1", True, "`cargo --version` fails: no toolchain"),
        ("echo cargo 1.85.0", False, "there is no C compiler 'cc'"),
    ],
)
def test_a_machine_that_cannot_build_is_told_what_to_do(
    cargo: str | None, compiler: bool, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if cargo:
        command(tmp_path, "cargo", cargo)
    if compiler:
        command(tmp_path, "cc", "exit 0")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    with pytest.raises(SystemExit) as ended:
        needs.check()
    assert str(ended.value).startswith(f"phalanx cannot be built here: {words}. A wheel needs neither")


def test_pip_shows_these_words(tmp_path: Path) -> None:
    script = "import phalanx_build; phalanx_build.get_requires_for_build_wheel()"
    env = {"PATH": str(tmp_path), "PYTHONPATH": str(ROOT / "distribution" / "backend")}
    done = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True)
    assert done.returncode == 1
    assert "apt-get install cargo rustc gcc" in done.stderr


def test_options_follow_maturin_and_cargo(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CARGO_BUILD_TARGET", raising=False)
    assert Options.read([]) == HERE
    assert Options.read(["--target", "a-b", "--profile=dev"]) == Options("a-b", "dev")
    monkeypatch.setenv("CARGO_BUILD_TARGET", "c-d")
    assert Options.read(["--strip"]) == Options("c-d", "dist")


def compiled(*packages: str) -> set[str]:
    """What cargo compiles for packages: other crates with their features."""
    command = ["cargo", "tree", "--locked", "--edges", "normal,build", "--prefix", "none", "--format", "{p} [{f}]"]
    command += [word for package in packages for word in ("-p", package)]
    told = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout
    return {line.removesuffix(" (*)") for line in told.splitlines() if line and f"({ROOT}" not in line}


def test_libraries_are_made_of_the_crates_of_the_extension() -> None:
    """With other features, a build from the sources compiles syn, serde and what uses them twice: see
    crates/phalanx-net/Cargo.toml."""
    assert compiled(*libraries.CRATES) - compiled(crates.EXTENSION) == set()


def test_libraries_that_cargo_did_not_build_are_named() -> None:
    with pytest.raises(SystemExit, match=r"no libmpi\.so\.12, libmpi_abi\.so\.1, libphalanx_bsp\.so"):
        libraries._artifacts('{"reason": "build-finished"}')


def test_debians_name_loads_the_other_library(tmp_path: Path) -> None:
    library = tmp_path / "libmpi.so.12"
    (tmp_path / "it.c").write_text("int MPI_Answer(void) { return 42; }")
    build = ["cc", "-shared", "-fPIC", "-Wl,-soname,libmpi.so.12", str(tmp_path / "it.c"), "-o", str(library)]
    subprocess.run(build, check=True)
    made = libraries.link_debian_name(library, HERE, tmp_path)
    assert made.name == "libmpich.so.12"
    assert made.stat().st_size < 50_000
    assert ctypes.CDLL(str(made)).MPI_Answer() == 42


def test_every_crate_of_others_is_named_with_its_licence(found: list[crates.Crate]) -> None:
    others = [crate for crate in found if crate.checksum]
    assert {"ring", "aegis", "zstd-sys", "pyo3", "tokio"} <= {crate.name for crate in others}
    assert not {"proptest", "windows-sys"} & {crate.name for crate in others}
    text = notices.text(found)
    assert all(f"\n{crate.name} {crate.version}: {crate.licence}\n" in text for crate in others)
    assert "ISC License" in text or "Permission to use, copy, modify, and/or distribute" in text


def test_a_crate_without_a_licence_stops_the_build(tmp_path: Path) -> None:
    crate = crates.Crate("odd", "1.0.0", "", tmp_path, "0" * 64, None, ())
    with pytest.raises(SystemExit, match="the crate odd names no licence"):
        notices.text([crate])
    lacking = crates.Crate("odd", "1.0.0", "BSD-3-Clause", tmp_path, "0" * 64, None, ())
    with pytest.raises(SystemExit, match="the crate odd comes without the text of BSD-3-Clause"):
        notices.text([lacking])


def test_the_bill_covers_all_libraries_and_says_what_each_is_made_of(found: list[crates.Crate]) -> None:
    names = [
        "phalanx/_native.abi3.so",
        *(f"phalanx/_mpi/{it}" for it in (*libraries.CRATES.values(), libraries.DEBIAN)),
    ]
    text = materials.bill("1.2.3", found, {name: name.encode() for name in names})
    assert text == materials.bill("1.2.3", found, {name: name.encode() for name in reversed(names)})
    bill = json.loads(text)
    edges = {it["ref"]: it["dependsOn"] for it in bill["dependencies"]}
    assert edges["pkg:pypi/phalanx-grid@1.2.3"] == sorted(names)
    refs = {it["bom-ref"] for it in bill["components"]}
    assert {ref for needed in edges.values() for ref in needed} <= refs
    version = next(crate.version for crate in found if crate.name == "phalanx-py")
    assert f"pkg:cargo/phalanx-py@{version}" in edges[names[0]]
    assert edges[f"phalanx/_mpi/{libraries.DEBIAN}"] == ["phalanx/_mpi/libmpi.so.12"]


def test_a_wheel_is_completed_and_equal_each_time(tmp_path: Path, found: list[crates.Crate]) -> None:
    about = "phalanx_grid-1.2.3.dist-info/"
    maturins = tmp_path / "maturins"
    with zipfile.ZipFile(maturins, "w") as archive:
        archive.writestr(about + "METADATA", "Version: 1.2.3\nLicense-File: LICENSE-MIT\nRequires-Python: >=3.10\n")
        archive.writestr("phalanx/_native.abi3.so", "extension")
        archive.writestr(about + "RECORD", "")
    added = contents.Contents({"phalanx/_mpi/libmpi.so.12": b"library"}, found)
    whole, again = tmp_path / "whole.whl", tmp_path / "again.whl"
    wheels.complete(maturins, whole, added)
    wheels.complete(maturins, again, added)
    assert whole.read_bytes() == again.read_bytes()
    with zipfile.ZipFile(whole) as archive:
        names = archive.namelist()
        assert names[-1] == about + "RECORD"
        assert [line.split(",")[0] for line in archive.read(names[-1]).decode().splitlines()] == names
        metadata = archive.read(about + "METADATA").decode()
        assert "License-File: LICENSE-MIT\nLicense-File: THIRD-PARTY-LICENSES.txt\nRequires" in metadata
        assert archive.getinfo("phalanx/_mpi/libmpi.so.12").external_attr >> 16 == 0o100755
        assert {about + "sboms/phalanx-grid.cdx.json", about + "licenses/THIRD-PARTY-LICENSES.txt"} <= set(names)
