"""Sealed fields: a space compares what it cannot read."""

from __future__ import annotations

import pickle
import random
from typing import Any

import numpy as np
import phalanx as px
import pytest

VALUES: list[Any] = [None, True, 1, 1.0, "1", b"1", 10**30, (1, "a"), [1, 2], -0.0, "x" * 100_000]


@pytest.fixture
def key() -> px.SealingKey:
    return px.SealingKey()


@pytest.mark.parametrize("matched", [True, False])
def test_what_was_sealed_is_opened(key: px.SealingKey, matched: bool) -> None:
    again = px.SealingKey(key.secret)
    for value in VALUES:
        opened = again.open(key.seal(value, matched=matched))
        assert type(opened) is type(value)
        assert opened == value
    assert (again.open(key.seal(np.arange(9.0), matched=matched)) == np.arange(9.0)).all()


def test_a_space_finds_what_it_cannot_read(key: px.SealingKey) -> None:
    with px.Space() as space:
        for value in VALUES:
            space.out("patient", key.seal(value), key.seal("record", matched=False))
        for value in VALUES:
            assert space.count("patient", key.seal(value), px.Sealed) == 1
        _, name, record = space.in_("patient", key.seal("1"), px.Sealed)
        assert (key.open(name), key.open(record)) == ("1", "record")
        assert space.rdp("patient", "1", px.ANY) is None
        assert space.rdp("patient", px.SealingKey().seal(1), px.ANY) is None
        assert len({record.ciphertext for _, _, record in space.rd_all("patient", px.Sealed, px.Sealed)}) == 10


def test_nothing_is_readable(key: px.SealingKey) -> None:
    marker = f"{random.getrandbits(256):x}"
    for matched in (True, False):
        sealed = key.seal((marker, [marker]), matched=matched)
        assert marker.encode() not in sealed.fingerprint + sealed.ciphertext
    assert marker not in repr(key)


def test_another_key_and_altered_bytes_are_refused(key: px.SealingKey) -> None:
    sealed = key.seal("value")
    with pytest.raises(px.SpaceError, match="another key"):
        px.SealingKey().open(sealed)
    with pytest.raises(px.SpaceError, match="altered"):
        key.open(px.Sealed(sealed.fingerprint, sealed.ciphertext[:-1] + b"?"))
    for wrong in [px.Sealed(b"", b""), px.Sealed(sealed.fingerprint, b"")]:
        with pytest.raises((px.SpaceError, ValueError)):
            key.open(wrong)
    with pytest.raises(px.SpaceError, match="no sealed value"):
        key.open("value")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="32 bytes"):
        px.SealingKey(b"short")
    with px.Space() as space, pytest.raises(ValueError, match="16 bytes"):
        space.out(px.Sealed(b"short", b"ciphertext"))


def test_a_key_does_not_travel(key: px.SealingKey) -> None:
    with pytest.raises(TypeError, match="secret"):
        pickle.dumps(key)
