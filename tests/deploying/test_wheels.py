"""Which wheels fit a machine, and where they come from."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from phalanx.deploying import wheels
from phalanx.deploying.wheels import Machine, bundle, fits, packed
from phalanx.errors import DeployError

LAB = Machine((3, 12), "x86_64", "2.36")
STEM = "phalanx_grid-0.1.0"


@pytest.mark.parametrize(
    "tags",
    [
        "cp311-abi3-manylinux_2_28_x86_64",
        "cp312-cp312-linux_x86_64",
        "cp312-cp312-manylinux_2_36_x86_64",
        "cp38-abi3-manylinux2014_x86_64.manylinux_2_17_x86_64",
        "py3-none-any",
        "py2.py3-none-any",
    ],
)
def test_a_wheel_fits(tags: str) -> None:
    assert fits(f"{STEM}-{tags}.whl", LAB)


@pytest.mark.parametrize(
    "tags",
    [
        "cp313-abi3-manylinux_2_28_x86_64",
        "cp311-cp311-linux_x86_64",
        "cp311-abi3-manylinux_2_28_aarch64",
        "cp311-abi3-manylinux_2_37_x86_64",
        "cp311-abi3-musllinux_1_2_x86_64",
        "cp312-cp312t-linux_x86_64",
        "py2-none-any",
    ],
)
def test_a_wheel_does_not_fit(tags: str) -> None:
    assert not fits(f"{STEM}-{tags}.whl", LAB)


def test_no_wheel_of_glibc_fits_a_machine_without_it() -> None:
    assert not fits(f"{STEM}-cp311-abi3-manylinux_2_28_x86_64.whl", LAB._replace(glibc=""))


def test_an_installed_library_is_packed_again_and_can_be_installed(tmp_path: Path) -> None:
    wheel = packed("click", tmp_path)
    assert wheel is not None
    assert fits(wheel.name, LAB)
    other = tmp_path / "other"
    other.mkdir()
    again = packed("click", other)
    assert again is not None
    assert again.read_bytes() == wheel.read_bytes(), "equal wheels make equal environments"
    target = tmp_path / "target"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--target", str(target)]
    subprocess.run([*pip, str(wheel)], check=True)
    code = "import click, sys; sys.exit(not click.__file__.startswith(sys.argv[1]))"
    subprocess.run([sys.executable, "-c", code, str(target)], env={"PYTHONPATH": str(target)}, check=True)


def test_an_installation_from_a_source_tree_has_no_wheel(tmp_path: Path) -> None:
    assert packed("phalanx-grid", tmp_path) is None
    assert packed("no-such-distribution", tmp_path) is None


def made(folder: Path, version: str, tags: str, *needs: str, name: str = "phalanx_grid") -> Path:
    """A wheel with metadata only."""
    wheel = folder / f"{name}-{version}-{tags}.whl"
    lines = "".join(f"Requires-Dist: {need}\n" for need in needs)
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(f"{name}-{version}.dist-info/METADATA", f"Name: {name}\n{lines}\nRequires-Dist: no-header\n")
    return wheel


def test_of_several_wheels_the_newest_that_fits_is_taken_with_its_libraries(tmp_path: Path) -> None:
    made(tmp_path, "0.1.9", "cp311-abi3-manylinux_2_28_x86_64")
    newest = made(tmp_path, "0.1.10", "cp311-abi3-manylinux_2_28_x86_64", "click>=8", "zarr; extra == 'storage'")
    made(tmp_path, "0.1.11", "cp311-abi3-manylinux_2_28_aarch64")
    beside = made(tmp_path, "9.9", "py3-none-any", "rich", name="click")
    rich = made(tmp_path, "9.9", "py3-none-any", "no-such-distribution; python_version < '3'", name="rich")
    (tmp_path / "made").mkdir()
    found = bundle(tmp_path, LAB, tmp_path / "made")
    assert (found.version, found.files, found.needs_index) == ("0.1.10", [newest, beside, rich], False)


def test_a_library_that_cannot_be_sent_comes_from_the_index(tmp_path: Path) -> None:
    made(tmp_path, "0.1.0", "cp311-abi3-manylinux_2_28_x86_64", "click", "numpy")  # numpy runs on one kind of machine
    (tmp_path / "made").mkdir()
    found = bundle(tmp_path, Machine((3, 99), "x86_64", "2.28"), tmp_path / "made")
    assert [it.name.partition("-")[0] for it in found.files] == ["phalanx_grid", "click"]
    assert found.needs_index


def test_without_a_wheel_the_error_says_how_to_get_one(tmp_path: Path) -> None:
    made(tmp_path, "0.1.0", "cp311-abi3-manylinux_2_28_aarch64")
    with pytest.raises(DeployError, match=r"only phalanx_grid-0\.1\.0-.*make dist.*pip download.*--wheel"):
        bundle(tmp_path, LAB, tmp_path)
    with pytest.raises(DeployError, match=r"none at all"):
        bundle(tmp_path / "nowhere", LAB, tmp_path)


def test_equal_wheels_have_one_digest(tmp_path: Path) -> None:
    wheel = made(tmp_path, "0.1.0", "py3-none-any")
    one = wheels.Bundle("0.1.0", [wheel], False)
    assert one.digest == wheels.Bundle("0.1.0", [wheel], False).digest
    assert one.digest != wheels.Bundle("0.1.0", [wheel], True).digest


def test_the_folder_dist_of_where_the_user_is_does_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "dist").mkdir()
    made(tmp_path / "dist", "99.0.0", "py3-none-any")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(wheels, "_DIST", tmp_path / "tree")
    with pytest.raises(DeployError, match="none at all"):
        bundle(None, LAB, tmp_path)


def test_a_damaged_wheel_is_told(tmp_path: Path) -> None:
    wheel = tmp_path / f"{STEM}-py3-none-any.whl"
    wheel.write_bytes(b"no zip")
    with pytest.raises(DeployError, match="is no wheel"):
        bundle(wheel, LAB, tmp_path)
