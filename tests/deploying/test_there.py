"""What is called at the other machine, called here in a folder of its own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from phalanx.deploying import there


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder as a deployment has made it."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setattr(there, "systemctl", lambda *words, **patience: False)
    folder = there._base(makes=True)
    assert folder == tmp_path / "phalanx"
    return folder


def write(base: Path, **state: object) -> None:
    (base / "deployed.json").write_text(json.dumps(state))


def test_a_folder_that_another_machine_shares_is_refused(base: Path) -> None:
    assert there.facts()["base"] == str(base)
    write(base, machine="another", host="labpc9")
    with pytest.raises(there.Failure, match=r"was deployed by another machine, labpc9.*XDG_DATA_HOME"):
        there.facts()
    with pytest.raises(there.Failure, match="labpc9"):
        there.remove(with_spaces=True)
    assert (base / "deployed.json").exists()


def test_a_folder_that_others_can_change_is_refused(base: Path) -> None:
    base.chmod(0o770)
    with pytest.raises(there.Failure, match=r"other accounts may change .*mode 770.*chmod go-w"):
        there.facts()


def test_a_second_deployment_waits_for_the_first(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(there, "LOCK_PATIENCE", 0.0)
    with there._locked(base), pytest.raises(there.Failure, match="another phalanx deploy works in"):
        there.remove(with_spaces=False)
    assert there.remove(with_spaces=False) == ["the executor", str(base)]
    assert not base.exists()


def test_without_a_record_nothing_is_removed(base: Path) -> None:
    (base / "deployed.json").unlink()
    (base / "home").mkdir()
    assert there.remove(with_spaces=True) == []
    assert (base / "home").exists()


def test_an_older_list_of_revoked_certificates_does_not_replace_a_newer_one(tmp_path: Path) -> None:
    file = tmp_path / "revoked.txt"
    old, new = "phalanx revoked 9 of abc\n", "phalanx revoked 10 of abc\n"
    for text in (old, "", new, old):
        there._revoke(file, text)
    assert file.read_text() == new


def test_a_unit_of_the_user_is_neither_overwritten_nor_removed(base: Path, tmp_path: Path) -> None:
    unit = tmp_path / "config" / "systemd" / "user" / there.UNIT
    unit.parent.mkdir(parents=True)
    unit.write_text("mine")
    with pytest.raises(there.Failure, match="phalanx deploy has not written it"):
        there.start("00", "0.1.0", "ws7", 7400, [], "")
    there.remove(with_spaces=False)
    assert unit.read_text() == "mine"


def test_an_executor_that_does_not_end_is_not_removed(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(base, way="systemd", unit=there.UNIT)
    monkeypatch.setattr(there, "systemctl", lambda *words, **patience: True)
    with pytest.raises(there.Failure, match="systemd does not stop"):
        there.remove(with_spaces=True)
    assert (base / "deployed.json").exists()


def test_an_executor_that_does_not_start_brings_back_the_one_before(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = []

    def launch(base: Path, state: dict[str, object]) -> None:
        started.append(state["digest"])
        there._write(base, state)
        if state["digest"] == "new":
            raise there.Failure("it ends")

    monkeypatch.setattr(there, "_launch", launch)
    (base / "environment-old").mkdir()
    (base / "environment-old" / "complete").touch()
    write(base, digest="old", version="0.1.0", name="ws7", port=7400, words=[])
    with pytest.raises(there.Failure, match=r"it ends\nthe executor from before runs again, phalanx 0\.1\.0"):
        there.start("new", "0.2.0", "ws7", 7500, [], "")
    assert started == ["new", "old"]
    assert (base / "environment-old" / "complete").exists()
    assert json.loads((base / "deployed.json").read_text())["port"] == 7400
