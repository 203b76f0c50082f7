"""Tuple spaces of phalanx at a Redis or Valkey server.

phalanx finds :class:`RedisEngine` through the entry points ``phalanx.spaces`` when a program opens
``phalanx.Space("redis://HOST:PORT/DATABASE/NAME")``. Programs need not import this package.
"""

from __future__ import annotations

from phalanx_redis._engine import RedisEngine

__all__ = ["RedisEngine"]
