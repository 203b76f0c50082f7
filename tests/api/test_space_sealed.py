"""Sealed fields: a space compares what it cannot read."""

from __future__ import annotations

import copy
import pickle
import random
import typing
from array import array
from collections.abc import Mapping
from dataclasses import dataclass
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


@dataclass
class Patient:
    name: str


@pytest.mark.parametrize("secret", [32, 0, True, "x" * 32, [0] * 32, tuple(range(32)), np.zeros(32, np.uint8), 1.0])
def test_what_is_no_bytes_makes_no_key(secret: Any) -> None:
    with pytest.raises(TypeError, match=r"a secret is 32 bytes, not .*px.SealingKey\(\) makes a new one"):
        px.SealingKey(secret)


@pytest.mark.parametrize("length", [0, 1, 16, 31, 33, 64])
def test_a_secret_of_another_length_makes_no_key(length: int) -> None:
    with pytest.raises(ValueError, match=f"a secret has 32 bytes, not {length}"):
        px.SealingKey(bytes(length))
    with pytest.raises(ValueError, match="a secret has 32 bytes, not 256"):
        px.SealingKey(memoryview(array("d", [0.0] * 32)))  # 32 items


def test_bytes_of_every_kind_make_the_same_key(key: px.SealingKey) -> None:
    sealed = key.seal("value")
    secrets: list[Any] = [bytearray(key.secret), memoryview(key.secret), memoryview(b"12" + key.secret)[2:]]
    for secret in secrets:
        assert px.SealingKey(secret).open(sealed) == "value"


def test_nothing_shows_a_key(key: px.SealingKey) -> None:
    for shown in [repr(key), str(key), f"{key}", repr([key])]:
        assert "SealingKey(…)" in shown
        assert not any(text in shown for text in (repr(key.secret), key.secret.hex(), str(list(key.secret))))
    with pytest.raises(TypeError):
        vars(key)
    with pytest.raises(TypeError, match="secret"):
        copy.copy(key)
    with px.Space(objects=True) as space, pytest.raises(px.SpaceError, match="hand on its secret"):
        space.out("key", key)


@pytest.mark.parametrize("objects", [False, True])
@pytest.mark.parametrize(
    "formal",
    [
        *(str, int, Patient, px.Sealed, object, dict, px.ANY, px.where(), px.where() > 3, px.where("name") == "x"),
        *(int | str, list[int], typing.Any, Mapping, ("x", int), ["x", (px.ANY,)], typing.Literal["x"]),
    ],
)
def test_formals_are_not_sealed(objects: bool, formal: Any) -> None:
    """They would find nothing, in silence: a space cannot look into a sealed field."""
    key = px.SealingKey(objects=objects)
    with pytest.raises(TypeError, match=r"is a formal, and cannot be sealed.*px\.Sealed"):
        key.seal(formal)


def test_what_types_and_queries_find_of_sealed_fields(key: px.SealingKey) -> None:
    with px.Space() as space:
        space.out("patient", key.seal("Meier"))
        some: list[Any] = [px.Sealed, px.Sealed | None, px.ANY, object, typing.Annotated[px.Sealed, "name"]]
        for formal in some:
            assert space.count("patient", formal) == 1
        none: list[Any] = [str, bytes, tuple, list, None, Patient, str | bytes, (bytes, bytes), (px.ANY, px.ANY)]
        for formal in none:
            assert space.count("patient", formal) == 0
        for query in [px.where() == key.seal("Meier"), px.where().in_([key.seal("Huber"), key.seal("Meier")])]:
            assert space.count("patient", query) == 1
        for query in [px.where() > "A", px.where().starts_with("M"), px.where() == "Meier", px.where(0) == "Meier"]:
            assert space.count("patient", query) == 0
        assert space.count("patient", px.ANY, where=px.where(1) == key.seal("Meier", matched=False)) == 0


def test_objects_are_sealed_where_the_key_says_so(key: px.SealingKey) -> None:
    trusting = px.SealingKey(key.secret, objects=True)
    values: list[Any] = [{"name": "Meier"}, Patient("Meier"), {1, 2}]
    with px.Space() as space:
        for value in values:
            space.out("object", trusting.seal(value))
            assert trusting.open(space.in_("object", px.Sealed)[1]) == value
    assert key.open(key.seal(Patient("Meier"))) == Patient("Meier"), "a dataclass is no object"
    with pytest.raises(TypeError, match="objects=True"):
        key.seal({"name": "Meier"})
    with pytest.raises(px.SpaceError, match=r"pickled builtins:dict: open .* objects=True .* SealingKey"):
        key.open(trusting.seal({"name": "Meier"}))


def test_an_error_names_the_field_and_the_tuple(key: px.SealingKey) -> None:
    marker = f"{random.getrandbits(128):x}"
    fields = ("patient", 7, key.seal(marker), key.seal([marker], matched=False))
    assert key.open_fields(fields) == ("patient", 7, marker, [marker])
    assert key.open_fields(()) == ()
    altered = px.Sealed(fields[3].fingerprint, fields[3].ciphertext[:-1] + bytes([fields[3].ciphertext[-1] ^ 1]))
    other = px.SealingKey()
    for opener, wrong, at in [
        (other, fields, 2),
        (key, (*fields[:3], other.seal(marker)), 3),
        (key, (*fields[:3], altered), 3),
        (key, (*fields[:3], px.Sealed(b"short", b"bytes")), 3),
        (key, (*fields[:3], px.Sealed(b"", b"")), 3),
        (key, (*fields[:3], px.Sealed("no", 3)), 3),  # type: ignore[arg-type]
    ]:
        with pytest.raises(px.SpaceError, match=rf"field {at} of the tuple \('patient', 7, Sealed\(") as caught:
            opener.open_fields(wrong)
        for secret in (marker, opener.secret.hex(), repr(opener.secret), repr(fields[2].ciphertext)):
            assert secret not in str(caught.value)


def test_a_sealed_value_shows_which_it_is_and_not_all_of_it(key: px.SealingKey) -> None:
    one, other = key.seal("x" * 100_000), key.seal("y")
    assert repr(one).startswith(f"Sealed({one.fingerprint.hex()[:8]}…, 100")
    assert repr(one) != repr(other)
    assert len(repr(one)) < 60
