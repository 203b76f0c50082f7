"""fsspec's own tests of file systems, on files at an executor."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from api.exporters import Exporters

fsspec = pytest.importorskip("fsspec")
abstract = pytest.importorskip("fsspec.tests.abstract")


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, str]]:
    """The file system of an executor, and the folder that is exported there."""
    folder = tmp_path_factory.mktemp("exported")
    with Exporters(tmp_path_factory.mktemp("grid")) as grid:
        address = grid.start("labpc", f"{folder}:rw")
        system = fsspec.filesystem("phalanx", host=address, identity=str(grid.identity))
        assert system.isdir(str(folder))  # the link is there before the first test
        yield system, str(folder)
        system.files.close()
        type(system).clear_instance_cache()


class Place(abstract.AbstractFixtures):  # type: ignore[misc,name-defined]
    """A folder that an executor exports."""

    @pytest.fixture
    def fs(self, exported: tuple[Any, str]) -> Any:
        """The file system."""
        return exported[0]

    @pytest.fixture
    def fs_path(self, exported: tuple[Any, str], request: pytest.FixtureRequest) -> str:
        """A folder for the test."""
        path = Path(exported[1], str(abs(hash(request.node.nodeid))))
        path.mkdir()
        return str(path)


class TestCopy(abstract.AbstractCopyTests, Place):  # type: ignore[misc,name-defined]
    """`cp`, within the executor."""


class TestGet(abstract.AbstractGetTests, Place):  # type: ignore[misc,name-defined]
    """`get`."""


class TestOpen(abstract.AbstractOpenTests, Place):  # type: ignore[misc,name-defined]
    """`open`."""


class TestPipe(abstract.AbstractPipeTests, Place):  # type: ignore[misc,name-defined]
    """`pipe`."""


class TestPut(abstract.AbstractPutTests, Place):  # type: ignore[misc,name-defined]
    """`put`."""
