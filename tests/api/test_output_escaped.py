"""What tasks elsewhere print neither steers the user's terminal nor looks like the output of others."""

from __future__ import annotations

import io

import pytest
from phalanx import _native
from phalanx._output import shower
from phalanx.cli._streams import printable

STEERING = [
    ("\x1b]0;root@bank\x07", r"\x1b]0;root@bank\x07"),  # a title
    ("\x1b[2J\x1b[H", r"\x1b[2J\x1b[H"),  # clears the screen
    ("50 %\r[b/1] paid", r"50 %\x0d[b/1] paid"),  # writes over its prefix
    ("a\x85[b/1] paid", r"a\x85[b/1] paid"),  # C1: the next line
    ("a\u2028[b/1] paid", r"a\u{2028}[b/1] paid"),
    ("\u202etxt.exe", r"\u{202e}txt.exe"),
    ("\x00\x08\x7f\u2066", r"\x00\x08\x7f\u{2066}"),
]
TEXT = ["", "plain", "tab\there", "äöü ✓ 日本語 עברית", "👩\u200d🔬", r"C:\x1b"]


def shown(text: bytes, *, others: bool = True) -> str:
    """What a function given as ``output=`` is called with."""
    lines: list[str] = []
    made = shower(lines.append, others=others)
    assert made is not None
    made[0]([("a/1", 0, text)])
    return "\n".join(lines)


@pytest.mark.parametrize(("printed", "safe"), STEERING)
def test_what_steers_a_terminal_is_escaped(printed: str, safe: str) -> None:
    assert shown(printed.encode() + b"\n") == f"[a/1] {safe}"
    assert printable(printed) == safe


@pytest.mark.parametrize("text", TEXT)
def test_text_stays_as_it_is(text: str) -> None:
    assert shown(text.encode() + b"\n") == f"[a/1] {text}"
    assert printable(text) == text


def test_lines_end_where_they_do(capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(b"one\r\ntwo\n") == "[a/1] one\r\n[a/1] two"
    for output in ("prefix", "plain"):
        made = shower(output, others=True)
        assert made is not None
        made[0]([("a/1", 0, b"\x1b[2J\n")])
        assert capsys.readouterr().out.endswith("\\x1b[2J\n")


def test_a_file_gets_escaped_lines_too() -> None:
    file = io.StringIO()
    made = shower(file, others=True)
    assert made is not None
    made[0]([("a/1", 1, b"\x9b31m \xff\n")])
    assert file.getvalue() == "[a/1] \\x9b31m \\xff\n"


def test_what_prints_on_the_users_own_machine_is_at_its_terminal() -> None:
    assert shown(b"\x1b[31mred\x1b[0m\n", others=False) == "[a/1] \x1b[31mred\x1b[0m"


def test_a_name_is_one_line_whatever_it_is() -> None:
    assert printable("a\nb\r\nc") == r"a\x0ab\x0d\x0ac"
    assert printable("not\udcff text") == r"not\xff text"
    assert printable("\ud800") == r"\ud800"
    assert _native.escape(b"a\n") == b"a\n"
