"""The licences of all crates in one text, each text once."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from phalanx_build.crates import Crate

NAME = "THIRD-PARTY-LICENSES.txt"
_FILES = re.compile(r"(?i)(un)?licen[cs]e|copying|copyright|notice")
#: Sources that are named after a licence, but are none.
_CODE = {".rs", ".c", ".h", ".py", ".toml", ".json"}
_RULE = "\n" + "=" * 100 + "\n"
_HEAD = """\
The libraries of phalanx contain code of these crates, under the licences that are named beside them. Texts follow, each
once, behind the crates that come with it. A crate that comes with no text is under the licences of phalanx, whose texts
are beside this file. Rust's standard library is part of each library: it is under MIT OR Apache-2.0, too.

"""


def text(crates: Iterable[Crate]) -> str:
    """The names and licences of crates of others, then the texts. Raises SystemExit where one has no licence."""
    others = [crate for crate in crates if crate.checksum]
    _check(others)
    texts: dict[str, list[str]] = {}
    for crate in others:
        for body in licences(crate.folder):
            texts.setdefault(body, []).append(f"{crate.name} {crate.version}")
    names = "".join(f"{crate.name} {crate.version}: {crate.licence}\n" for crate in others)
    return _HEAD + names + "".join(f"{_RULE}{_wrapped(of)}\n\n{body}\n" for body, of in texts.items())


def _check(crates: Iterable[Crate]) -> None:
    own = re.compile(r"\b(MIT|Apache-2\.0)\b")
    for crate in crates:
        if not crate.licence:
            raise SystemExit(f"phalanx: the crate {crate.name} names no licence")
        if not own.search(crate.licence) and not any(licences(crate.folder)):
            raise SystemExit(f"phalanx: the crate {crate.name} comes without the text of {crate.licence}")


def licences(folder: Path) -> Iterator[str]:
    """The texts of licences that are in a crate, also those of code of others within it."""
    for path in sorted(folder.rglob("*")):
        if _FILES.match(path.name) and path.suffix not in _CODE and path.is_file():
            yield path.read_text("utf-8", "replace").replace("\r\n", "\n").strip()


def _wrapped(names: list[str]) -> str:
    lines = [""]
    for name in names:
        if len(lines[-1]) + len(name) > 98:
            lines.append("")
        lines[-1] += f"{name}, "
    return "\n".join(line.strip() for line in lines).removesuffix(",")
