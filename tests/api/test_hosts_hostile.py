"""Hosts files of any text: each is understood or refused with the error that says so, and nothing else happens."""

from __future__ import annotations

import random
from pathlib import Path

import phalanx as px
import pytest
from phalanx.hosts import with_port

PIECES = [
    *("ws7", "lab.example.org", "10.0.0.7", "[::1]", "::1", "trusted", "as", "7300", "99999999999999999999"),
    *("=", ":", ",", "<", ">", "[", "]", "#", "/", "-", ".", " ", "  ", "\t", "\n", "\r\n", "\x0b", "\x1c", "\u2028"),
    *("10.1.0.0/16", "é", "\u202e", "\x00", "\x1b[2J", "a" * 300, "٣"),
]
FILES = 500


def hosts_file(numbers: random.Random) -> str:
    return "".join(numbers.choice(PIECES) for _ in range(numbers.randrange(14)))


@pytest.mark.parametrize("seed", range(4))
def test_any_hosts_file_is_understood_or_refused(seed: int, tmp_path: Path) -> None:
    numbers, understood, file = random.Random(seed), 0, tmp_path / "hosts.txt"
    for _ in range(FILES):
        text = hosts_file(numbers)
        file.write_text(text, encoding="utf-8", newline="")
        try:
            hosts = px.Hosts(file)
        except px.RecruitError:
            continue
        understood += 1
        assert hosts.addresses, text
        assert all(with_port(address) == address for address in hosts.addresses), text
        ports = [address.rpartition(":")[2] for address in hosts.addresses]
        assert all(port.isascii() and int(port) < 1 << 16 for port in ports), text
        assert set(hosts.machines.values()) <= set(hosts.addresses), text
        assert set(hosts.certificates) <= set(hosts.addresses), text
    assert 0 < understood < FILES


@pytest.mark.parametrize("seed", range(4))
def test_any_bytes_are_a_hosts_file_or_refused(seed: int, tmp_path: Path) -> None:
    numbers, file = random.Random(seed), tmp_path / "hosts.txt"
    for _ in range(100):
        file.write_bytes(numbers.randbytes(numbers.randrange(60)))
        try:
            px.Hosts(file)
        except px.RecruitError:
            continue
