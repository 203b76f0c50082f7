"""The MAC of AEGIS-128X2, after appendix A of docs/security/link-protocol.md. Slow, and its time depends on the key."""

from __future__ import annotations

from struct import Struct


def _times(a: int, b: int) -> int:
    """The product in AES's field (FIPS 197, section 4.2)."""
    product = 0
    while b:
        product ^= a if b & 1 else 0
        a, b = (a << 1) ^ (0x11B if a & 0x80 else 0), b >> 1
    return product


def _substitute(byte: int) -> int:
    """AES's S-box (FIPS 197, section 5.1.1)."""
    inverse = next((other for other in range(256) if _times(byte, other) == 1), 0)
    turned = 0
    for by in range(5):
        turned ^= inverse << by | inverse >> (8 - by)
    return turned & 255 ^ 0x63


_BOX = [_substitute(byte) for byte in range(256)]
#: What a byte in a row contributes to its column after SubBytes and MixColumns, as a number of 32 bits.
_FIRST = [_times(box, 2) | box << 8 | box << 16 | _times(box, 3) << 24 for box in _BOX]
_ROWS = [[(column << 8 * row | column >> 32 - 8 * row) & 0xFFFFFFFF for column in _FIRST] for row in range(4)]
_COLUMNS = Struct("<4I")

_C0 = int.from_bytes(bytes.fromhex("000101020305080d1522375990e97962"), "little")
_C1 = int.from_bytes(bytes.fromhex("db3d18556dc22ff12011314273b528dd"), "little")
#: Bytes that a state takes at once.
RATE = 64

Pair = tuple[int, int]
State = list[Pair]


def _round(block: int, key: int) -> int:
    """AESRound. Blocks are numbers of 128 bits, little endian."""
    b = block.to_bytes(16, "little")
    one, two, three, four = _ROWS
    columns = (
        one[b[c]] ^ two[b[(c + 5) % 16]] ^ three[b[(c + 10) % 16]] ^ four[b[(c + 15) % 16]] for c in (0, 4, 8, 12)
    )
    return int.from_bytes(_COLUMNS.pack(*columns), "little") ^ key


def _xor(*pairs: Pair) -> Pair:
    first, second = 0, 0
    for one, other in pairs:
        first, second = first ^ one, second ^ other
    return first, second


def _update(v: State, m0: Pair, m1: Pair) -> State:
    keys = [*v]
    keys[0], keys[4] = _xor(v[0], m0), _xor(v[4], m1)
    return [(_round(v[i - 1][0], keys[i][0]), _round(v[i - 1][1], keys[i][1])) for i in range(8)]


def _absorb(v: State, data: bytes) -> State:
    a, b, c, d = (int.from_bytes(data[at : at + 16], "little") for at in range(0, RATE, 16))
    return _update(v, (a, b), (c, d))


def _stir(v: State, low: int, high: int) -> State:
    u = low | high << 64
    t = _xor(v[2], (u, u))
    for _ in range(7):
        v = _update(v, t, t)
    return v


def mac(key: bytes, nonce: bytes, data: bytes) -> bytes:
    """The tag of 128 bits."""
    k, n = ((number, number) for number in (int.from_bytes(key, "little"), int.from_bytes(nonce, "little")))
    c0, c1 = (_C0, _C0), (_C1, _C1)
    v = [_xor(k, n), c1, c0, c1, _xor(k, n), _xor(k, c0), _xor(k, c1), _xor(k, c0)]
    for _ in range(10):
        v[3], v[7] = _xor(v[3], (0x0100, 0x0101)), _xor(v[7], (0x0100, 0x0101))
        v = _update(v, n, k)
    for at in range(0, len(data), RATE):
        v = _absorb(v, data[at : at + RATE].ljust(RATE, b"\0"))
    v = _stir(v, 8 * len(data), 128)
    first, second = _xor(*v[:7])
    v = _update(v, (first, 0), (second, 0))
    return _xor(*_stir(v, 2, 128)[:7])[0].to_bytes(16, "little")
