"""Existing engines as places to run on: each starts, places, restarts and ends executors for one program."""

from __future__ import annotations

from typing import TYPE_CHECKING

from phalanx.pilots._pilot import Pilot as Pilot

if TYPE_CHECKING:
    from typing import Any

    from phalanx.pilots.dask import Dask as Dask
    from phalanx.pilots.kubernetes import Kubernetes as Kubernetes
    from phalanx.pilots.psij import PsiJ as PsiJ
    from phalanx.pilots.ray import Ray as Ray
    from phalanx.pilots.slurm import Slurm as Slurm
    from phalanx.pilots.ssh import Ssh as Ssh

__all__ = ["Dask", "Kubernetes", "Pilot", "PsiJ", "Ray", "Slurm", "Ssh"]

# Each is imported when it is used: a manager of this machine needs none of them.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name not in __all__:
            raise AttributeError(f"module 'phalanx.pilots' has no attribute {name!r}")
        from importlib import import_module

        return getattr(import_module(f"phalanx.pilots.{name.lower()}"), name)
