"""Files at an executor through fsspec, as pandas, Dask and zarr use it."""

from __future__ import annotations

import csv
import os
import pickle
import random
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import dask.array
import numpy
import pytest
from api.exporters import Exporters
from phalanx.errors import TransferError

fsspec = pytest.importorskip("fsspec")


@pytest.fixture
def place(tmp_path: Path) -> Iterator[tuple[str, Path, dict[str, Any]]]:
    """``phalanx://host``, the folder that is exported there, and storage options."""
    folder = tmp_path / "data"
    folder.mkdir()
    with Exporters(tmp_path) as grid:
        yield f"phalanx://{grid.start('labpc', f'{folder}:rw')}", folder, {"identity": str(grid.identity)}
        for system in [*fsspec.get_filesystem_class("phalanx")._cache.values()]:
            system.files.close()
        fsspec.get_filesystem_class("phalanx").clear_instance_cache()


def noise(size: int) -> bytes:
    return random.Random(size).randbytes(size)


def test_tables_are_written_and_read_by_name(place: tuple[str, Path, dict[str, Any]]) -> None:
    host, folder, options = place
    name = f"{host}{folder}/table.csv"
    with fsspec.open(name, "w", newline="", **options) as file:
        csv.writer(file).writerows([["x", "y"], *([number, number**2] for number in range(1000))])
    with fsspec.open(name, "r", newline="", **options) as file:
        rows = [*csv.DictReader(file)]
    assert len(rows) == 1000
    assert rows[7] == {"x": "7", "y": "49"}
    for packing in ("gzip", "bz2"):
        with fsspec.open(f"{name}.{packing}", "wb", compression=packing, **options) as file:
            file.write(noise(10_000))
        with fsspec.open(f"{name}.{packing}", "rb", compression=packing, **options) as file:
            assert file.read() == noise(10_000)


def test_a_file_is_read_by_parts_and_written_whole(place: tuple[str, Path, dict[str, Any]]) -> None:
    host, folder, options = place
    system, path = fsspec.url_to_fs(f"{host}{folder}/x", **options)
    with system.open(path, "wb", block_size=1 << 20) as file:
        for first in range(0, 5_000_000, 1_000_000):
            file.write(noise(5_000_000)[first : first + 1_000_000])
            assert not (folder / "x").exists(), "it has its name when it is whole"
    assert (folder / "x").read_bytes() == noise(5_000_000)
    with system.open(path) as file:
        assert file.seek(-100, 2) == 4_999_900
        assert file.read() == noise(5_000_000)[-100:]
        file.seek(1_234_567)
        assert file.read(1000) == noise(5_000_000)[1_234_567:1_235_567]
        system.files.close()  # the link ends, and reading goes on
        file.seek(0)
        assert file.read() == noise(5_000_000)
    with suppress(RuntimeError), system.open(f"{folder}/half", "wb") as file:
        file.write(b"half")
        raise RuntimeError
    with suppress(RuntimeError), fsspec.open(f"{host}{folder}/half", "w", **options) as text:
        text.write("half")
        raise RuntimeError
    with suppress(RuntimeError), fsspec.open(f"{host}{folder}/half", "w", compression="gzip", **options) as text:
        text.write("half")
        raise RuntimeError
    dropped = system.open(f"{folder}/half", "wb")
    dropped.write(b"half")
    del dropped
    try:
        raise RuntimeError
    except RuntimeError:
        with fsspec.open(f"{host}{folder}/said", "w", **options) as text:
            text.write("whole")  # what was raised before is no reason
    assert (folder / "said").read_text() == "whole"
    (folder / "said").unlink()
    assert [one.name for one in folder.iterdir()] == ["x"]
    assert system.cat_file(path, 10, 20) == noise(5_000_000)[10:20]
    assert system.cat_file(path, -5) == noise(5_000_000)[-5:]
    parts = system.cat_ranges([path] * 50, range(0, 5000, 100), range(50, 5050, 100))
    assert parts == [noise(5_000_000)[first : first + 50] for first in range(0, 5000, 100)]
    assert isinstance(system.cat_ranges([f"{folder}/no such"], 0, 5)[0], FileNotFoundError)


def test_folders_are_looked_at_and_changed(place: tuple[str, Path, dict[str, Any]], tmp_path: Path) -> None:
    host, folder, options = place
    system = fsspec.filesystem("phalanx", host=host.removeprefix("phalanx://"), **options)
    system.makedirs(f"{folder}/a/b")
    system.pipe({f"{folder}/a/1": b"one", f"{folder}/a/b/2": b"two", f"{folder}/a/x[1]*": b"three"})
    (folder / "link").symlink_to("a/1")
    (folder / "nowhere").symlink_to("no such")
    found = {one["name"]: (one["type"], one["size"]) for one in system.ls(str(folder))}
    assert found == {
        f"{folder}/a": ("directory", 0),
        f"{folder}/link": ("file", 3),
        f"{folder}/nowhere": ("link", None),
    }
    assert system.find(f"{folder}/a") == [f"{folder}/a/1", f"{folder}/a/b/2", f"{folder}/a/x[1]*"]
    assert system.glob(f"{folder}/**/2") == [f"{folder}/a/b/2"]
    assert system.info(f"{host}{folder}/a/1")["size"] == 3
    assert abs(system.modified(f"{folder}/a/1").timestamp() - (folder / "a" / "1").stat().st_mtime) < 1e-3
    assert (system.exists(f"{folder}/a"), system.exists(f"{folder}/z"), system.isdir(f"{folder}/a")) == (
        True,
        False,
        True,
    )
    assert system.unstrip_protocol(f"{folder}/a") == f"{host}{folder}/a"
    system.get(f"{folder}/a", f"{tmp_path}/back", recursive=True)
    assert (tmp_path / "back" / "b" / "2").read_text() == "two"
    assert (tmp_path / "back" / "x[1]*").read_text() == "three"
    system.put(f"{tmp_path}/back/", f"{folder}/again/", recursive=True)
    assert (folder / "again" / "b" / "2").read_text() == "two"
    system.mv(f"{folder}/a/1", f"{folder}/a/one")
    system.cp_file(f"{folder}/a/one", f"{folder}/a/copy")
    assert (folder / "a" / "copy").read_text() == "one"
    with pytest.raises(FileExistsError):
        system.mkdir(f"{folder}/a")
    with pytest.raises(FileNotFoundError):
        system.rm(f"{folder}/no such")
    with pytest.raises(IsADirectoryError):
        system.rm(f"{folder}/a")
    with pytest.raises(OSError, match="not empty"):
        system.rmdir(f"{folder}/a")
    system.rm([f"{folder}/a/one", f"{folder}/nowhere"])
    system.rm(f"{folder}/again", recursive=True)
    assert sorted(path.name for path in folder.rglob("*")) == ["2", "a", "b", "copy", "link", "x[1]*"]
    with pytest.raises(PermissionError):
        system.ls("/etc")
    with pytest.raises(ValueError, match="as a whole"):
        system.open(f"{folder}/a/copy", "r+b")


def test_a_mapping_of_chunks_as_zarr_has_it(place: tuple[str, Path, dict[str, Any]]) -> None:
    host, folder, options = place
    chunks = fsspec.get_mapper(f"{host}{folder}/array", create=True, **options)
    chunks.setitems({f"{row}.{column}": noise(row * 10 + column) for row in range(5) for column in range(5)})
    chunks[".zarray"] = b"{}"
    assert len(chunks) == 26
    assert chunks["3.4"] == noise(34)
    assert chunks.getitems(["0.1", "4.4"]) == {"0.1": noise(1), "4.4": noise(44)}
    del chunks["3.4"]
    assert "3.4" not in chunks
    with pytest.raises(KeyError):
        chunks["3.4"]


def test_a_file_system_travels_to_other_processes(place: tuple[str, Path, dict[str, Any]]) -> None:
    host, folder, options = place
    (folder / "x").write_text("x")
    system, path = fsspec.url_to_fs(f"{host}{folder}/x", **options)
    again = pickle.loads(pickle.dumps(system))
    assert again.cat_file(path) == b"x"


def test_dask_reads_text(place: tuple[str, Path, dict[str, Any]]) -> None:
    bag = pytest.importorskip("dask.bag")
    host, folder, options = place
    for number in range(3):
        (folder / f"{number}.txt").write_text(f"line of {number}\n" * 100)
    lines = bag.read_text(f"{host}{folder}/*.txt", storage_options=options)
    assert lines.frequencies().compute(scheduler="threads") == [(f"line of {number}\n", 100) for number in range(3)]


def test_a_new_file_takes_no_place(place: tuple[str, Path, dict[str, Any]], tmp_path: Path) -> None:
    host, folder, options = place
    system, path = fsspec.url_to_fs(f"{host}{folder}/x", **options)
    late = system.open(path, "xb")
    late.write(b"mine")
    (folder / "x").write_text("theirs")
    with pytest.raises(FileExistsError):
        late.close()
    with pytest.raises(FileExistsError):
        system.open(path, "xb")
    (tmp_path / "own").write_text("mine")
    with pytest.raises(FileExistsError):
        system.put_file(tmp_path / "own", path, mode="create")
    assert (folder / "x").read_text() == "theirs"
    system.put_file(tmp_path / "own", f"{path}.new", mode="create")
    assert (folder / "x.new").read_text() == "mine"


def test_nobody_knows_what_is_there_when_nobody_answers(
    place: tuple[str, Path, dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    host, folder, options = place
    system, path = fsspec.url_to_fs(f"{host}{folder}/x", **options)
    (folder / "x").touch()
    assert system.exists(path)
    assert not system.exists(f"{path}y")
    assert not system.exists("/etc/passwd")
    system.files.close()
    monkeypatch.setattr(system, "host", "127.0.0.1:1")
    with pytest.raises(TransferError, match="no executor listens"):
        system.exists(path)


def test_a_fork_goes_on_reading_over_a_link_of_its_own(place: tuple[str, Path, dict[str, Any]]) -> None:
    host, folder, options = place
    (folder / "x").write_bytes(noise(3_000_000))
    system, path = fsspec.url_to_fs(f"{host}{folder}/x", **options)
    with system.open(path, block_size=1 << 20) as file:
        assert file.read(10) == noise(3_000_000)[:10]
        child = os.fork()
        if child == 0:
            code = 1
            with suppress(BaseException):
                file.seek(2_500_000)
                code = 0 if file.read(10) == noise(3_000_000)[2_500_000:2_500_010] else 2
            os._exit(code)
        assert os.waitpid(child, 0)[1] == 0
        file.seek(2_000_000)
        assert file.read() == noise(3_000_000)[2_000_000:], "and so does the parent"


def test_links_are_named_and_not_entered(place: tuple[str, Path, dict[str, Any]]) -> None:
    host, folder, options = place
    system, path = fsspec.url_to_fs(f"{host}{folder}", **options)
    (folder / "a").mkdir()
    (folder / "a" / "x").touch()
    (folder / "a" / "loop").symlink_to(".")
    (folder / "way").symlink_to("a")
    assert system.find(path) == [f"{path}/a/x"]
    assert system.find(path, withdirs=True) == [f"{path}{one}" for one in ("", "/a", "/a/loop", "/a/x", "/way")]
    assert system.find(f"{path}/way") == [f"{path}/way/x"], "one that is named is meant"
    for topdown in (True, False):
        assert {one for one, _, _ in system.walk(path, topdown=topdown)} == {path, f"{path}/a"}


def test_what_cannot_be_looked_at_is_not_left_out_in_silence(
    place: tuple[str, Path, dict[str, Any]], tmp_path: Path
) -> None:
    host, folder, options = place
    system, path = fsspec.url_to_fs(f"{host}{folder}", **options)
    (folder / "a").mkdir()
    (folder / "a" / "x").touch()
    (folder / "out").symlink_to("/etc")
    assert system.find(path) == [f"{path}/a/x", f"{path}/out"]
    assert system.find(f"{path}/no such") == []
    assert system.glob(f"{path}/no such/*") == []
    assert system.glob(f"{path}/*/x") == [f"{path}/a/x"]
    with pytest.raises(OSError, match="not in a folder that is exported"):
        system.find("/etc")
    with pytest.raises(OSError, match="not in a folder that is exported"):
        system.get("/etc", str(tmp_path / "got"), recursive=True)


def test_a_file_is_appended_to(place: tuple[str, Path, dict[str, Any]]) -> None:
    host, folder, options = place
    name = f"{host}{folder}/new/log.txt"
    for line in ("one\n", "two\n", noise(3_000_000).hex()):
        with fsspec.open(name, "a", **options) as file:
            file.write(line)
    assert (folder / "new" / "log.txt").read_text() == "one\ntwo\n" + noise(3_000_000).hex()
    with suppress(KeyError), fsspec.open(name, "a", **options) as file:
        file.write("lost")
        raise KeyError
    assert (folder / "new" / "log.txt").stat().st_size == 8 + 6_000_000


def test_what_is_copied_there_does_not_come_here(
    place: tuple[str, Path, dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    host, folder, options = place
    system, path = fsspec.url_to_fs(f"{host}{folder}/x", **options)
    (folder / "x").write_bytes(noise(3_000_000))
    monkeypatch.setattr(system.files, "open", lambda path: pytest.fail(f"{path} is read"))
    system.cp_file(path, f"{folder}/new/y")
    assert (folder / "new" / "y").read_bytes() == noise(3_000_000)


def test_a_copy_to_another_executor_does_not_come_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    kind = fsspec.get_filesystem_class("phalanx")
    with Exporters(tmp_path) as grid:
        one, other = grid.start("labpc", f"{here}:rw"), grid.start("farpc", f"{there}:rw")
        system = fsspec.filesystem("phalanx", host=one, identity=str(grid.identity))
        for name, size in [("small[1]", 10), ("large", 3_000_000), ("empty", 0)]:
            (here / name).write_bytes(noise(size))
            (here / name).chmod(0o640)
            os.utime(here / name, ns=(1_500_000_000_123_456_789,) * 2)
            monkeypatch.setattr(system.files, "open", lambda path: pytest.fail(f"{path} is read"))
            system.cp_file(f"{here}/{name}", f"phalanx://{other}{there}/new/{name}")
            copied = (there / "new" / name).stat()
            assert (there / "new" / name).read_bytes() == noise(size)
            assert (stat.S_IMODE(copied.st_mode), copied.st_mtime_ns) == (0o640, 1_500_000_000_123_456_789)
        system.copy(f"{here}/large", f"phalanx://{other}{there}/new/")
        system.cp_file(f"phalanx://{other}{there}/new/large", f"{here}/back")
        assert (here / "back").read_bytes() == noise(3_000_000)
        with pytest.raises(IsADirectoryError):
            system.cp_file(f"{here}/large", f"phalanx://{other}{there}/new")
        for each in [*kind._cache.values()]:
            each.files.close()
        kind.clear_instance_cache()
    assert sorted(path.name for path in here.iterdir()) == ["back", "empty", "large", "small[1]"]


@pytest.fixture(scope="module")
def zarr() -> Any:
    """The module, whose own thread has begun, which keeps two sockets to the end of the process."""
    module: Any = pytest.importorskip("zarr")
    assert module.zeros(1)[0] == 0
    return module


def test_zarr_writes_and_reads(place: tuple[str, Path, dict[str, Any]], zarr: Any) -> None:
    host, folder, options = place
    values = numpy.arange(10_000.0).reshape(100, 100)
    store = {"store": f"{host}{folder}/fresh/array.zarr", "storage_options": options}
    zarr.save_array(store["store"], values, storage_options=options)
    assert numpy.array_equal(zarr.open_array(**store, mode="r")[:], values)
    opened = zarr.open_array(**store, mode="r+")
    opened[3:7] = 1
    values[3:7] = 1
    assert numpy.array_equal(zarr.open_array(**store, mode="r")[2:8], values[2:8])
    lazy = dask.array.from_array(values, chunks=(30, 40))
    lazy.to_zarr(f"{host}{folder}/dask.zarr", storage_options=options)
    back = dask.array.from_zarr(f"{host}{folder}/dask.zarr", storage_options=options)
    assert numpy.array_equal(back.compute(scheduler="threads"), values)


def test_pyarrow_writes_and_reads(place: tuple[str, Path, dict[str, Any]]) -> None:
    arrow: Any = pytest.importorskip("pyarrow")
    parquet: Any = pytest.importorskip("pyarrow.parquet")
    dataset: Any = pytest.importorskip("pyarrow.dataset")
    host, folder, options = place
    system, path = fsspec.url_to_fs(f"{host}{folder}/tables/one.parquet", **options)
    table = arrow.table({"x": [*range(1000)], "part": [number % 3 for number in range(1000)]})
    parquet.write_table(table, path, filesystem=system)
    assert parquet.read_table(path, filesystem=system).equals(table)
    dataset.write_dataset(table, f"{folder}/parts", filesystem=system, format="parquet", partitioning=["part"])
    read = dataset.dataset(f"{folder}/parts", filesystem=system, format="parquet", partitioning=["part"])
    assert sorted(read.to_table()["x"].to_pylist()) == [*range(1000)]
