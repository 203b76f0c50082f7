"""The second implementation makes and opens the bytes of tests/vectors/link.json, which the library has made."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from cryptography.exceptions import InvalidTag
from second.aegis import mac
from second.link import (
    CHECKSUM,
    HEAD,
    KEY_UPDATE,
    MAGIC,
    RECORDS_PER_SECRET,
    Direction,
    Refused,
    effective,
    is_offered,
    length_of,
    tls_exporter,
)

VECTORS: dict[str, Any] = json.loads((Path(__file__).parents[1] / "vectors" / "link.json").read_text())
LINKS = {link["name"]: link for link in VECTORS["links"]}


@pytest.mark.parametrize("case", VECTORS["handshakes"], ids=lambda case: case["name"])
def test_what_the_keys_depend_on(case: dict[str, Any]) -> None:
    begins, bound = bytes.fromhex(case["preamble"]), bytes.fromhex(case["bound"])
    assert begins[:6] == MAGIC
    assert len(begins) == 23
    assert bound == begins
    levels = case["levels"]
    assert bytes.fromhex(case["choice"]) == bytes(levels) + hashlib.sha256(bound).digest()
    offer = bytes.fromhex(case["offer"])
    assert is_offered(levels, offer)
    has_news = case["name"] not in ("data", "rank", "join")
    number, digest = 0x0102030405060708 * has_news, bytes(0xA0 + at if has_news else 0 for at in range(16))
    assert offer[3:] == number.to_bytes(8, "little") + digest
    assert bytes.fromhex(case["context"]) == bytes(effective(levels)) + bound


def test_the_exporter_of_tls() -> None:
    case = VECTORS["exporter"]
    secret, context = bytes.fromhex(case["secret"]), bytes.fromhex(case["context"])
    exported = tls_exporter(secret, case["label"].encode(), context, 64)
    assert exported.hex() == case["client"] + case["server"]


def direction(block: dict[str, Any]) -> Direction:
    """Before this block."""
    return Direction(bytes.fromhex(block["traffic"]), bytes.fromhex(block["exported"]), block["number"])


def payload_of(block: dict[str, Any]) -> bytes:
    return bytes([block["fill"]]) * block["count"] if "fill" in block else bytes.fromhex(block["payload"])


@pytest.mark.parametrize("name", LINKS)
def test_keys_and_blocks(name: str) -> None:
    blocks = LINKS[name]["blocks"]
    sends, receives = direction(blocks[0]), direction(blocks[0])
    for block in blocks:
        assert (sends.traffic.hex(), sends.exported.hex()) == (block["traffic"], block["exported"])
        assert sends.number == block["number"]
        keys = (sends.private, sends.private_iv, sends.safe, sends.safe_iv)
        names = ("key_private", "iv_private", "key_safe", "iv_safe")
        assert [key.hex() for key in keys] == [block[name] for name in names]
        if "message" in block:
            assert bytes.fromhex(block["message"]) == KEY_UPDATE
            payload, wire = b"", sends.update()
        else:
            payload = payload_of(block)
            wire = sends.seal(block["level"], payload)
        assert hashlib.sha256(wire).hexdigest() == block["sha256"]
        assert wire.hex() == block.get("wire", wire.hex())
        assert length_of(wire[:HEAD]) == (block["level"], len(wire) - HEAD)
        assert receives.open(wire[:HEAD], wire[HEAD:]) == payload


def test_a_link_goes_on_behind_an_update() -> None:
    blocks = LINKS["update"]["blocks"]
    assert len({block["traffic"] for block in blocks}) == len({block["exported"] for block in blocks}) == 2
    assert [block["number"] for block in blocks if "message" in block] == [RECORDS_PER_SECRET + 1]
    assert LINKS["checksums"]["blocks"][0]["exported"] == CHECKSUM.hex()


@pytest.mark.parametrize("name", ["safe", "private"])
def test_what_was_altered_does_not_open(name: str) -> None:
    link = LINKS[name]
    block = next(block for block in link["blocks"] if 0 < len(block.get("wire", "")) < 200)
    wire = bytes.fromhex(block["wire"])
    for at in range(len(wire)):
        altered = wire[:at] + bytes([wire[at] ^ 1]) + wire[at + 1 :]
        with pytest.raises((Refused, InvalidTag)):
            opens(direction(block), altered, block["level"])
    with pytest.raises((Refused, InvalidTag)):
        opens(direction({**block, "number": block["number"] + 1}), wire, block["level"])


def opens(by: Direction, wire: bytes, least: int) -> bytes:
    """The payload of a block that is all there."""
    _, behind = length_of(wire[:HEAD], least)
    if behind != len(wire) - HEAD:
        raise Refused("bytes are missing, or left")
    return by.open(wire[:HEAD], wire[HEAD:])


def test_the_mac_is_the_one_of_the_draft() -> None:
    """From draft-irtf-cfrg-aegis-aead, the test vector of AEGISMAC-128X2 with a tag of 128 bits."""
    key, nonce = bytes.fromhex("1001" + "00" * 14), bytes.fromhex("100002" + "00" * 13)
    assert mac(key, nonce, bytes(range(35))).hex() == "6873ee34e6b5c59143b6d35c5e4f2c6e"
