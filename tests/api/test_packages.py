"""The user's own packages, staged as a whole: folders, modules and wheels."""

from __future__ import annotations

import io
import os
import signal
import stat
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING, Any

import phalanx as px
import pytest
from api.executors import Executors
from phalanx import _packages, _unpacking
from phalanx._temporary import TemporaryFolder

from laboratory.processes import until

if TYPE_CHECKING:
    from api.conftest import Script

NAME = "shop_for_tests"
PRICES = """
from pathlib import Path

def price(n):
    return n * int(Path(__file__).with_name("rate.txt").read_text())
"""
#: A package with a package beneath it and data.
SENT = {
    "__init__.py": "from shop_for_tests.prices import price\n",
    "prices.py": PRICES,
    "rate.txt": "7",
    "deep/__init__.py": "",
    "deep/below.py": "WHERE = __file__\n",
}
#: Files that stay.
HIDDEN = dict.fromkeys((".git/config", ".env", "__pycache__/prices.cpython-310.pyc", "deep/old.pyc"), "secret")
WHEEL = {
    f"{NAME}/__init__.py": "def price(n):\n    return n * 7\n",
    f"{NAME}-1.0.data/purelib/{NAME}_extra.py": "MORE = 1\n",
    f"{NAME}-1.0.data/scripts/tool": "#!python\n",
    f"{NAME}-1.0.dist-info/METADATA": f"Metadata-Version: 2.1\nName: {NAME}\nVersion: 1.0\n",
    f"{NAME}-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    f"{NAME}-1.0.dist-info/RECORD": "",
}


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def wheel(folder: Path, files: dict[str, str], name: str = f"{NAME}-1.0-py3-none-any.whl") -> Path:
    folder.mkdir(exist_ok=True)
    with zipfile.ZipFile(folder / name, "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)
    return folder / name


@pytest.fixture
def package(tmp_path: Path) -> Path:
    return write(tmp_path / "source" / NAME, SENT | HIDDEN)


def price(number: int) -> int:
    import shop_for_tests  # type: ignore[import-not-found]

    return int(shop_for_tests.price(number))


def found(_: object) -> tuple[str, list[str]]:
    """Where the package is, and all its files."""
    import shop_for_tests

    folder = Path(shop_for_tests.__file__).parent
    return str(folder.parent), sorted(str(it.relative_to(folder)) for it in folder.rglob("*") if it.is_file())


def of_wheel(_: object) -> tuple[str, int]:
    import shop_for_tests_extra  # type: ignore[import-not-found]

    return version("shop_for_tests"), shop_for_tests_extra.MORE


def by_value(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function as one of the main module, which interpreters cannot import."""
    assert isinstance(function, FunctionType)
    copy = FunctionType(function.__code__, {**function.__globals__, "__name__": "__main__"}, function.__name__)
    copy.__module__ = "__main__"
    return copy


@pytest.fixture
def executors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Executors]:
    with Executors(tmp_path_factory.mktemp("grid")) as started:
        started.start("labpc", interpreters=4)
        yield started


@pytest.fixture(params=["here", "there"])
def manager_with(request: pytest.FixtureRequest) -> Callable[..., px.Manager]:
    """Makes a manager of two interpreters with packages: of this machine, and of an executor."""
    if request.param == "here":
        return lambda *packages: px.Manager(contract=px.ParDegree(2), packages=packages)
    executors: Executors = request.getfixturevalue("executors")
    address = executors.started[0].line("listening on ").split()[2]
    return lambda *packages: px.Manager(
        address, identity=executors.identity, contract=px.ParDegree(2), packages=packages, output="off"
    )


def test_a_folder_is_imported_by_interpreters(package: Path, manager_with: Callable[..., px.Manager]) -> None:
    with manager_with(package) as manager:
        assert list(manager.map(by_value(price), range(20))) == list(range(0, 140, 7))
        assert list(manager.compute(by_value(price), [3])) == [21]  # another program, with the same folder
        folders = {folder for folder, _ in manager.map(by_value(found), range(20))}
        assert len(folders) == 1  # both interpreters have one
        folder, files = manager.submit(by_value(found), 0).result()
        assert Path(folder).is_dir()
        assert Path(folder) not in package.parents
        assert sorted(name for name in files if "__pycache__" not in name) == sorted(SENT)
    until(lambda: not Path(folder).exists(), timeout=30, what="the end of the folder")


def test_a_wheel_is_imported_as_installed(tmp_path: Path, manager_with: Callable[..., px.Manager]) -> None:
    with manager_with(str(wheel(tmp_path, WHEEL))) as manager:
        assert manager.submit(by_value(price), 3).result() == 21
        assert manager.submit(by_value(of_wheel), 3).result() == ("1.0", 1)


def test_several_packages_and_a_module(tmp_path: Path, package: Path) -> None:
    module = tmp_path / "more_for_tests.py"
    module.write_text("def more(n):\n    return n + 1\n")

    def both(number: int) -> int:
        import more_for_tests  # type: ignore[import-not-found]
        import shop_for_tests

        return int(more_for_tests.more(shop_for_tests.price(number)))

    with px.Manager(contract=px.ParDegree(1), packages=[package, module]) as manager:
        assert manager.submit(by_value(both), 1).result() == 8


def test_the_users_version_comes_before_the_machines(tmp_path: Path) -> None:
    package = write(tmp_path / "click", {"__init__.py": "__version__ = 'mine'\n"})

    def which() -> str:
        import click

        return str(click.__version__)

    with px.Manager(contract=px.ParDegree(1), packages=package) as manager:
        assert manager.submit(by_value(which)).result() == "mine"


def test_the_initializer_may_import_them(package: Path) -> None:
    def begin() -> None:
        import shop_for_tests

        os.environ["PRICE"] = str(shop_for_tests.price(2))

    with px.Manager(contract=px.ParDegree(1), initializer=by_value(begin), packages=[package]) as manager:
        assert manager.submit(os.getenv, "PRICE").result() == "14"


def test_an_interpreter_that_replaces_another_has_them(package: Path, tmp_path: Path) -> None:
    ended = tmp_path / "ended"

    def end_once(number: int) -> int:
        if not ended.exists():
            ended.touch()
            os._exit(3)
        import shop_for_tests

        return int(shop_for_tests.price(number))

    with px.Manager(contract=px.ParDegree(1), packages=[package]) as manager:
        assert manager.submit(end_once, 2).result() == 14
        assert manager.summary().lost == 1


def test_equal_files_make_equal_archives(package: Path) -> None:
    first = _packages.Packages.read([package])
    os.utime(package / "prices.py", (1, 1))
    (package / ".git" / "more").write_text("other")
    assert _packages.Packages.read([package]) == first
    assert first is not None
    (package / "prices.py").write_text("changed = 1")
    second = _packages.Packages.read([package])
    assert second is not None
    assert second.digest != first.digest
    assert _packages.Packages.read([]) is None


def refused(packages: Any) -> str:
    with pytest.raises(px.errors.StagingError) as caught:
        px.Manager(packages=packages)
    return str(caught.value)


def test_what_is_no_package_is_refused(tmp_path: Path, package: Path) -> None:
    assert "there is no package at" in refused([tmp_path / "missing"])
    (tmp_path / "notes.txt").touch()
    assert "is no folder of a package" in refused([tmp_path / "notes.txt"])
    assert "has no .py file" in refused([write(tmp_path / "empty", {"data.txt": ""})])
    assert "a module cannot be called" in refused([write(tmp_path / "with-dash", {"a.py": ""})])
    assert "would take the place of the module json" in refused([write(tmp_path / "json", {"__init__.py": ""})])
    assert "would take the place of the module phalanx" in refused([write(tmp_path / "phalanx", {"__init__.py": ""})])
    project = write(tmp_path / "project", {"pyproject.toml": "", "src/shop/__init__.py": ""})
    assert "is a project and no package: name the folder of its package" in refused([project])
    compiled = write(tmp_path / "compiled", {"__init__.py": "", "fast.so": ""})
    assert "fast.so, which runs on some machines only" in refused([compiled])
    assert "both have a file" in refused([package, package])
    (package / "linked.py").symlink_to(tmp_path / "notes.txt")
    assert "which the package does not hold" in refused([package])
    (package / "linked.py").unlink()
    (package / "folder").symlink_to(package / "deep")
    assert "which the package does not hold" in refused([package])


def test_links_within_a_package_and_pipes(package: Path) -> None:
    (package / "again.py").symlink_to("prices.py")
    os.mkfifo(package / "pipe")
    read = _packages.Packages.read([package])
    assert read is not None
    names = zipfile.ZipFile(io.BytesIO(read.archive)).namelist()
    assert f"{NAME}/again.py" in names
    assert f"{NAME}/pipe" not in names


@pytest.mark.parametrize(
    "name", ["../out.py", "/etc/out.py", "a/../../out.py", "a\\..\\out.py", "C:out.py", "a" * 1001]
)
def test_nothing_leaves_the_folder(tmp_path: Path, name: str) -> None:
    assert not _unpacking.is_inside(name)
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as made:
        entry = zipfile.ZipInfo("placeholder")
        entry.filename = name
        made.writestr(entry, "1")
    hostile = tmp_path / f"{NAME}-1.0-py3-none-any.whl"
    hostile.write_bytes(archive.getvalue())
    assert "leads out of its folder" in refused([hostile])
    (tmp_path / "inside").mkdir()
    with pytest.raises(ValueError, match="leads out"):
        _unpacking.unpack_into(tmp_path / "inside", archive.getvalue())
    assert sorted(it.name for it in tmp_path.rglob("*")) == ["inside", hostile.name]


def test_damaged_and_foreign_wheels_are_refused(tmp_path: Path) -> None:
    name = f"{NAME}-1.0-py3-none-any.whl"
    (tmp_path / name).write_bytes(b"PK" + os.urandom(100))
    assert "cannot be read" in refused([tmp_path / name])
    whole = wheel(tmp_path / "whole", WHEEL).read_bytes()
    (tmp_path / name).write_bytes(whole[: len(whole) // 2])
    assert "cannot be read" in refused([tmp_path / name])
    native = wheel(tmp_path, WHEEL, f"{NAME}-1.0-cp311-cp311-linux_x86_64.whl")
    assert "is not of pure Python 3" in refused([native])
    old = wheel(tmp_path, WHEEL, f"{NAME}-1.0-py2-none-any.whl")
    assert "is not of pure Python 3" in refused([old])
    assert "is no name of a wheel" in refused([wheel(tmp_path, WHEEL, "shop.whl")])
    with zipfile.ZipFile(tmp_path / name, "w") as archive:
        entry = zipfile.ZipInfo(f"{NAME}/__init__.py")
        entry.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(entry, "/etc/passwd")
    assert "has an entry that is a link" in refused([tmp_path / name])


def test_sizes_are_bounded(package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bomb = tmp_path / f"{NAME}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(f"{NAME}/__init__.py", bytes(_packages.MOST_BYTES + 1))
    assert bomb.stat().st_size < 1 << 20
    assert "has more than 32 MiB, the most that packages may have: send data by px.copy" in refused([bomb])
    with (package / "large.py").open("wb") as file:
        file.truncate(1 << 40)  # is not read whole
    assert "has more than 32 MiB" in refused([package])
    with (package / "large.py").open("wb") as file:
        file.truncate(_packages.MOST_BYTES)
    assert "the packages have more than 32 MiB" in refused([package])
    (package / "large.py").unlink()
    monkeypatch.setattr(_packages, "MOST_FILES", 3)
    assert "the packages have more than 3 files" in refused([package])


def test_a_missing_module_names_the_option(executors: Executors) -> None:
    address = executors.started[0].line("listening on ").split()[2]
    sys.modules["shop_for_tests_away"] = module = type(sys)("shop_for_tests_away")
    exec("def f(n):\n    return n", vars(module))
    try:
        with px.Manager(address, identity=executors.identity, output="off") as manager:
            future = manager.submit(vars(module)["f"], 1)
            with pytest.raises(px.errors.StagingError, match=r"lacks the module .*px.Manager\(packages=\[FOLDER\]\)"):
                future.result()
    finally:
        del sys.modules["shop_for_tests_away"]


def folders() -> set[Path]:
    """The folders of packages on this machine that are there now."""
    parent = Path(tempfile.gettempdir(), f"phalanx-packages-of-user-{os.getuid()}")
    return set(parent.glob("phalanx-packages-*"))


def test_a_program_that_is_killed_leaves_its_folder_to_the_next_one(script: Script, package: Path) -> None:
    source = f"""
        import time
        import phalanx as px

        manager = px.Manager(contract=px.ParDegree(1), packages=[{str(package)!r}])
        print(manager.submit(abs, -1).result(), flush=True)
        time.sleep(1000)
    """
    before = folders()
    program = script(source)
    program.line("1", timeout=60)
    (left,) = folders() - before
    other = TemporaryFolder("packages")
    assert left.exists()  # its program lives
    other.remove()
    program.signal(signal.SIGKILL)
    until(lambda: program.code is not None, timeout=30, what="the end of the program")
    TemporaryFolder("packages").remove()
    assert not left.exists()


def test_a_program_that_ends_without_closing_removes_it(package: Path, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(
        "import phalanx as px\n"
        f"manager = px.Manager(contract=px.ParDegree(1), packages={str(package)!r})\n"
        "print(manager.submit(abs, -1).result())\n"
    )
    before = folders()
    done = subprocess.run([sys.executable, str(tmp_path / "program.py")], capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stdout) == (0, "1\n"), done.stderr
    assert folders() <= before
