"""Finding the scans in a folder by their DICOM headers."""

from __future__ import annotations

import contextlib
import warnings
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pydicom
import pydicom.data
from pydicom import Dataset, FileDataset

#: Pixels a side: what is smaller is a thumbnail.
SMALLEST = 64
#: Those that show a body; the others are plans, doses, masks, reports and test patterns.
MODALITIES = frozenset({"CT", "MR", "NM", "PT", "US", "CR", "DX", "MG", "XA", "RF", "OPT", "IVUS"})

#: Photometric interpretations with one brightness to window; in the others colours carry the meaning.
ONE_BRIGHTNESS = frozenset({"MONOCHROME1", "MONOCHROME2", "YBR_FULL", "YBR_FULL_422"})

#: Bits a pixel below which a narrow window shows only what the compression left.
LEAST_BITS = {"CT": 0.25, "MR": 0.25}


@dataclass(frozen=True)
class Scan:
    """One scan as its header describes it."""

    #: Files that hold it; the first that can be decoded is used.
    copies: tuple[Path, ...]
    modality: str
    #: Modality and body part, as a caption says them.
    title: str
    frames: int
    #: What a decoder must understand.
    encoding: str = ""

    @property
    def name(self) -> str:
        """The file's name without its suffix."""
        return self.copies[0].stem


class Skipped:
    """What was not used and why, to be told at the end."""

    def __init__(self) -> None:
        self._names: defaultdict[str, list[str]] = defaultdict(list)

    def add(self, path: Path, reason: str) -> None:
        """Remember that `path` was left out because of `reason`."""
        self._names[reason].append(path.name)

    @property
    def count(self) -> int:
        """How many files."""
        return sum(map(len, self._names.values()))

    def lines(self) -> list[str]:
        """One line a reason, with how many files and the first of their names."""
        return [f"{len(names)} {reason}: {_first_of(names)}" for reason, names in self._names.items()]


def _first_of(names: list[str]) -> str:
    return ", ".join(names[:3]) + (", …" if len(names) > 3 else "")


@contextlib.contextmanager
def quietly() -> Iterator[None]:
    """Without pydicom's remarks: real files break small rules of the standard all the time."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def shipped_scans() -> Path:
    """The folder of scans inside pydicom's own package; nothing is downloaded."""
    return Path(pydicom.data.__file__).parent / "test_files"


def find_scans(folder: Path, skipped: Skipped) -> list[Scan]:
    """The scans in `folder` and below (or that one file), in the order of their names. Reads headers only."""
    scans: dict[str, Scan] = {}
    for path in sorted(path for path in (folder, *folder.rglob("*")) if path.is_file()):
        found = _scan_in(path, skipped)
        if found is None:
            continue
        identity, scan = found
        if identity in scans:
            skipped.add(path, "copies of another file's scan")
            scan = _joined(scans[identity], scan)
        scans[identity] = scan
    return list(scans.values())


def _joined(scan: Scan, copy: Scan) -> Scan:
    """The scan with one more copy; the shortest name comes first, as the plainest."""
    copies = sorted(scan.copies + copy.copies, key=lambda path: (len(path.name), path))
    return replace(scan, copies=tuple(copies))


def _scan_in(path: Path, skipped: Skipped) -> tuple[str, Scan] | None:
    """The scan and what identifies it among copies, or None and a note."""
    try:
        with quietly():
            header = pydicom.dcmread(path, stop_before_pixels=True)
        if reason := _unfit(header, path.stat().st_size):
            skipped.add(path, reason)
            return None
        part = str(header.get("BodyPartExamined") or "").strip().lower()
        frames = int(header.get("NumberOfFrames") or 1)
    except Exception:  # whatever pydicom raises for a foreign or a broken file, it is no scan
        skipped.add(path, "not readable as DICOM")
        return None
    scan = Scan((path,), header.Modality, f"{header.Modality} {part}".strip(), frames, _encoding(header))
    return str(header.get("SOPInstanceUID") or path), scan


def _encoding(header: FileDataset) -> str:
    syntax = header.file_meta.get("TransferSyntaxUID")
    return f"{syntax} {header.get('BitsStored')} bits {header.get('PhotometricInterpretation')}"


def _unfit(header: Dataset, size: int) -> str | None:
    """Why a file of `size` bytes with this header is of no use here, if it is."""
    rows, columns = int(header.get("Rows") or 0), int(header.get("Columns") or 0)
    if not rows or not columns:
        return "without a picture"
    modality = header.get("Modality") or "unknown"
    colour = header.get("PhotometricInterpretation") or "unknown"
    if modality not in MODALITIES:
        return f"no scan of a body (modality {modality})"
    if colour not in ONE_BRIGHTNESS:
        return f"coloured by the scanner ({colour})"
    if min(rows, columns) < SMALLEST:
        return f"smaller than {SMALLEST} pixels a side"
    bits = 8 * size / (rows * columns * int(header.get("NumberOfFrames") or 1))
    return "compressed until nothing can be diagnosed" if bits < LEAST_BITS.get(modality, 0) else None
