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

EARLIER = [
    ("16bcc57b8544be39f214c61c9483050f", "0000000000000000000000003d25263fe816c9"),
    ("b4e6e3166e969494c7829f1d0785363b", "b4239e551a4064e7fd6dcc3f7dd87539386744"),
]
VALUES: list[Any] = [None, True, 1, 1.0, "1", b"1", 10**30, (1, "a"), [1, 2], -0.0, "x" * 100_000]


@pytest.fixture
def key() -> px.SealingKey:
    return px.SealingKey()


@pytest.mark.parametrize("matched", [True, False])
def test_what_was_sealed_is_opened(key: px.SealingKey, matched: bool) -> None:
    again = px.SealingKey(key.secret)
    how: dict[str, list[int]] = {"matched": [1]} if matched else {"hidden": [1]}
    for value in VALUES:
        opened = again.open_fields(key.seal_fields(("x", value), **how), **how)[1]
        assert type(opened) is type(value)
        assert opened == value
    array_of = key.seal_fields(("x", np.arange(9.0)), **how)
    assert (again.open_fields(array_of, **how)[1] == np.arange(9.0)).all()


def test_a_space_finds_what_it_cannot_read(key: px.SealingKey) -> None:
    with px.Space() as space:
        for value in VALUES:
            space.out(*key.seal_fields(("patient", value, "record"), matched=[1], hidden=[2]))
        for value in VALUES:
            assert space.count("patient", key.seal(value, at=1), px.Sealed) == 1
        fields = space.in_("patient", key.seal("1", at=1), px.Sealed)
        assert key.open_fields(fields, matched=[1], hidden=[2]) == ("patient", "1", "record")
        assert key.open(fields[1], at=1) == "1"
        assert space.rdp("patient", "1", px.ANY) is None
        assert space.rdp("patient", px.SealingKey().seal(1, at=1), px.ANY) is None
        assert space.rdp("patient", key.seal(1, at=2), px.ANY) is None
        assert len({record.ciphertext for _, _, record in space.rd_all("patient", px.Sealed, px.Sealed)}) == 10


def test_nothing_is_readable(key: px.SealingKey) -> None:
    marker = f"{random.getrandbits(256):x}"
    value = (marker, [marker])
    for sealed in key.seal_fields((value, value), matched=[0], hidden=[1]):
        assert marker.encode() not in sealed.fingerprint + sealed.ciphertext
    assert marker not in repr(key)


def test_another_key_and_altered_bytes_are_refused(key: px.SealingKey) -> None:
    sealed = key.seal("value", at=0)
    with pytest.raises(px.SpaceError, match="another key"):
        px.SealingKey().open(sealed, at=0)
    with pytest.raises(px.SpaceError, match="altered"):
        key.open(px.Sealed(sealed.fingerprint, sealed.ciphertext[:-1] + b"?"), at=0)
    for wrong in [px.Sealed(b"", b""), px.Sealed(sealed.fingerprint, b"")]:
        with pytest.raises((px.SpaceError, ValueError)):
            key.open(wrong, at=0)
    with pytest.raises(px.SpaceError, match="no sealed value"):
        key.open("value", at=0)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="32 bytes"):
        px.SealingKey(b"short")
    with px.Space() as space, pytest.raises(ValueError, match="16 bytes"):
        space.out(px.Sealed(b"short", b"ciphertext"))


def salaries(key: px.SealingKey) -> list[tuple[Any, ...]]:
    """Two tuples as somebody finds them who takes both, and has no key."""
    people: list[tuple[Any, ...]] = [("salary", "Ada", 5000, "bank a"), ("salary", "Bob", 100, "bank b")]
    with px.Space() as space:
        for person in people:
            space.out(*key.seal_fields(person, matched=[1], hidden=[2, 3]))
        found = [space.in_("salary", key.seal(name, at=1), px.Sealed, px.Sealed) for name in ("Ada", "Bob")]
    assert [key.open_fields(one, matched=[1], hidden=[2, 3]) for one in found] == people
    return found


def test_sealed_values_cannot_be_swapped_between_tuples(key: px.SealingKey) -> None:
    ada, bob = salaries(key)
    ada_too = key.seal_fields(("salary", "Ada", 1, "bank c"), matched=[1], hidden=[2, 3])
    for forged in [
        (*ada[:2], *bob[2:]),
        (*ada[:2], bob[2], ada[3]),
        (*ada[:3], bob[3]),
        (ada[0], bob[1], *ada[2:]),
        ("bonus", *ada[1:]),
        (*ada[:2], ada[3], ada[2]),
        (*ada[:3], ada_too[3]),  # a tuple with the same open and matched fields
        (*ada, "more"),
        ada[:3],
        (None, *ada),
        (ada[0], ada[2], ada[1], ada[3]),
        (ada[0], key.open(ada[1], at=1), *ada[2:]),
    ]:
        with pytest.raises(px.SpaceError, match=r"another key, for another place, or altered|from different tuples"):
            key.open_fields(forged)


def test_what_was_replaced_by_a_value_of_another_kind_is_refused(key: px.SealingKey) -> None:
    ada, _ = salaries(key)
    others = key.seal_fields(("salary", "Ada", 100, "bank"), matched=[1, 2, 3])
    for forged, words in [
        ((*ada[:2], 100, "bank"), "field 2 .* is not sealed as a hidden value"),
        (others, "field 2 .* is sealed as a matched value"),
        (("salary", "Ada", *ada[2:]), "field 1 .* is not sealed as a matched value"),
    ]:
        with pytest.raises(px.SpaceError, match=words):
            key.open_fields(forged, matched=[1], hidden=[2, 3])


def test_a_hidden_value_is_opened_with_its_tuple_only(key: px.SealingKey) -> None:
    ada, _ = salaries(key)
    with pytest.raises(px.SpaceError, match="open the whole tuple, with open_fields"):
        key.open(ada[2], at=2)


def test_values_of_another_context_do_not_open(key: px.SealingKey) -> None:
    patients, staff = (px.SealingKey(key.secret, context=name) for name in ("patients", "staff"))
    for how in ({"matched": [1]}, {"hidden": [1]}):
        sealed = patients.seal_fields(("name", "Meier"), **how)
        assert px.SealingKey(key.secret, context="patients").open_fields(sealed) == ("name", "Meier")
        for other in (staff, key):
            with pytest.raises(px.SpaceError, match="for another place"):
                other.open_fields(sealed)
    assert patients.seal("Meier", at=1) != staff.seal("Meier", at=1)
    assert patients.context == "patients"
    with pytest.raises(TypeError, match="a context is a text, not bytes"):
        px.SealingKey(context=b"patients")  # type: ignore[arg-type]


def test_fields_of_every_kind_are_bound_as_they_come_back(key: px.SealingKey) -> None:
    seen: list[Any] = [
        *VALUES,
        *(float("nan"), bytearray(b"x"), memoryview(b"xy"), np.float32(1.5), np.arange(6).reshape(2, 3).T),
        *(np.arange(3, dtype=">i2"), Patient("Meier"), (Patient("Huber"), [1, (2.0, None)])),
        key.seal("matched", at=0),
    ]
    with px.Space() as space:
        for value in seen:
            space.out(*key.seal_fields((value, "hidden"), hidden=[1]))
            assert key.open_fields(space.in_(px.ANY, px.Sealed), hidden=[1])[1] == "hidden", value
    with px.Space(objects=True) as space:
        space.out(*key.seal_fields(({"a": {1, 2}}, [{}], "hidden"), hidden=[2]))
        assert key.open_fields(space.in_(px.ANY, px.ANY, px.Sealed), hidden=[2])[2] == "hidden"


def test_what_an_earlier_version_sealed_is_refused_by_name() -> None:
    """Made by the version before fields were bound, with the secret of 32 times 7: one matched, one hidden value."""
    key = px.SealingKey(bytes([7] * 32))
    for fingerprint, ciphertext in EARLIER:
        sealed = px.Sealed(bytes.fromhex(fingerprint), bytes.fromhex(ciphertext))
        with pytest.raises(px.SpaceError, match=r"sealed by an earlier version of phalanx.*seal it anew"):
            key.open(sealed, at=1)
        with pytest.raises(px.SpaceError, match=r"field 1 .* sealed by an earlier version of phalanx"):
            key.open_fields(("patient", sealed))


@pytest.mark.parametrize(
    ("matched", "hidden", "words"),
    [
        ([3], [], "a tuple of 3 fields has no position 3"),
        ([], [-1], "-1 is no position"),
        ([1, 1], [], "named twice"),
        ([1], [1], "position 1 is matched or hidden, not both"),
        (["1"], [], "'1' is no position"),
    ],
)
def test_positions_that_are_none_are_refused(key: px.SealingKey, matched: Any, hidden: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        key.seal_fields((1, 2, 3), matched=matched, hidden=hidden)


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
    sealed = key.seal("value", at=0)
    secrets: list[Any] = [bytearray(key.secret), memoryview(key.secret), memoryview(b"12" + key.secret)[2:]]
    for secret in secrets:
        assert px.SealingKey(secret).open(sealed, at=0) == "value"


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
        key.seal(formal, at=1)
    with pytest.raises(TypeError, match=r"is a formal, and cannot be sealed"):
        key.seal_fields(("x", formal), hidden=[1])


def test_what_types_and_queries_find_of_sealed_fields(key: px.SealingKey) -> None:
    meier = key.seal("Meier", at=1)
    with px.Space() as space:
        space.out("patient", meier)
        some: list[Any] = [px.Sealed, px.Sealed | None, px.ANY, object, typing.Annotated[px.Sealed, "name"]]
        for formal in some:
            assert space.count("patient", formal) == 1
        none: list[Any] = [str, bytes, tuple, list, None, Patient, str | bytes, (bytes, bytes), (px.ANY, px.ANY)]
        for formal in none:
            assert space.count("patient", formal) == 0
        for query in [px.where() == meier, px.where().in_([key.seal("Huber", at=1), meier])]:
            assert space.count("patient", query) == 1
        for query in [px.where() > "A", px.where().starts_with("M"), px.where() == "Meier", px.where(0) == "Meier"]:
            assert space.count("patient", query) == 0
        assert space.count("patient", px.ANY, where=px.where(1) == meier) == 1
        hidden = key.seal_fields(("patient", "Meier"), hidden=[1])[1]
        assert space.count("patient", px.ANY, where=px.where(1) == hidden) == 0


def test_objects_are_sealed_where_the_key_says_so(key: px.SealingKey) -> None:
    trusting = px.SealingKey(key.secret, objects=True)
    values: list[Any] = [{"name": "Meier"}, Patient("Meier"), {1, 2}]
    with px.Space() as space:
        for value in values:
            space.out("object", trusting.seal(value, at=1))
            assert trusting.open(space.in_("object", px.Sealed)[1], at=1) == value
    assert key.open(key.seal(Patient("Meier"), at=1), at=1) == Patient("Meier"), "a dataclass is no object"
    with pytest.raises(TypeError, match="objects=True"):
        key.seal({"name": "Meier"}, at=1)
    with pytest.raises(px.SpaceError, match=r"pickled builtins:dict: open .* objects=True .* SealingKey"):
        key.open(trusting.seal({"name": "Meier"}, at=1), at=1)


def test_an_error_names_the_field_and_the_tuple(key: px.SealingKey) -> None:
    marker = f"{random.getrandbits(128):x}"
    fields = key.seal_fields(("patient", 7, marker, [marker]), matched=[2], hidden=[3])
    assert key.open_fields(fields) == ("patient", 7, marker, [marker])
    assert key.open_fields(()) == ()
    altered = px.Sealed(fields[3].fingerprint, fields[3].ciphertext[:-1] + bytes([fields[3].ciphertext[-1] ^ 1]))
    other = px.SealingKey()
    for opener, wrong, at in [
        (other, fields, 2),
        (key, (*fields[:3], other.seal(marker, at=3)), 3),
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
    one, other = key.seal("x" * 100_000, at=0), key.seal("y", at=0)
    assert repr(one).startswith(f"Sealed({one.fingerprint.hex()[:8]}…, 100")
    assert repr(one) != repr(other)
    assert len(repr(one)) < 60
