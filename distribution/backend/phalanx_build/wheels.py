"""Wheels: zip files whose RECORD lists every file with its hash."""

from __future__ import annotations

import base64
import hashlib
import re
import zipfile
from pathlib import Path

from phalanx_build import contents, notices

#: The oldest time that a zip file can say. Equal files make equal wheels.
_WHEN = (1980, 1, 1, 0, 0, 0)


def complete(incomplete: Path, wheel: Path, added: contents.Contents) -> None:
    """Writes the wheel that has the files of an incomplete one, and what is added."""
    files = _read(incomplete)
    record = next(path for path in files if path.endswith(".dist-info/RECORD"))
    about = record.removesuffix("RECORD")
    del files[record]
    version = re.findall(r"(?m)^Version: (.+)$", files[about + "METADATA"].decode())[0]
    extension = {path: content for path, content in files.items() if contents.is_library(path)}
    files |= added.files
    files |= {about + path: content for path, content in added.about(version, extension).items()}
    files[about + "METADATA"] = _with_licence(files[about + "METADATA"])
    # Installers read the metadata first, so it is last in the file, as the specification recommends.
    ordered = dict(sorted(files.items(), key=lambda file: (file[0].startswith(about), file[0])))
    _write(wheel, ordered | {record: _record(ordered, record)})


def _read(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist() if not name.endswith("/")}


def _with_licence(metadata: bytes) -> bytes:
    """Metadata that name the text of others' licences behind our own."""
    return re.sub(
        rb"((?:License-File: .*\n)+)", rb"\1License-File: " + notices.NAME.encode() + b"\n", metadata, count=1
    )


def _record(files: dict[str, bytes], record: str) -> bytes:
    lines = [f"{path},sha256={_digest(content)},{len(content)}\n" for path, content in files.items()]
    return "".join([*lines, f"{record},,\n"]).encode()


def _digest(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


def _write(wheel: Path, files: dict[str, bytes]) -> None:
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for path, content in files.items():
            info = zipfile.ZipInfo(path, _WHEN)
            info.external_attr = (0o100755 if contents.is_library(path) else 0o100644) << 16
            archive.writestr(info, content, zipfile.ZIP_DEFLATED)
