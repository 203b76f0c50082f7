"""Bulk transfer: files and folders between machines, over parallel secured streams (paper 003)."""

from phalanx.transfer._copy import CopyReport, Progress, copy
from phalanx.transfer._files import Entry, Files, Unknown
from phalanx.transfer._sync import Change, SyncReport, sync

__all__ = [
    "Change",
    "CopyReport",
    "Entry",
    "Files",
    "Progress",
    "SyncReport",
    "Unknown",
    "copy",
    "sync",
]
