"""Tuple spaces: Linda's ``out``, ``in_``, ``rd``, ``inp``, ``rdp`` and ``eval`` (paper 002)."""

from phalanx.space._events import Event, Events
from phalanx.space._info import Partition, Replica, SpaceInfo
from phalanx.space._moving import move_tuples
from phalanx.space._records import Record, Sealed
from phalanx.space._sealing import SealingKey
from phalanx.space._select import Selector, fifo, key, label, lifo, priority
from phalanx.space._space import Lease, Space
from phalanx.space._template import ANY
from phalanx.space._transaction import Transaction
from phalanx.space._where import Query, where
from phalanx.words import Isolation

__all__ = [
    "ANY",
    "Event",
    "Events",
    "Isolation",
    "Lease",
    "Partition",
    "Query",
    "Record",
    "Replica",
    "Sealed",
    "SealingKey",
    "Selector",
    "Space",
    "SpaceInfo",
    "Transaction",
    "fifo",
    "key",
    "label",
    "lifo",
    "move_tuples",
    "priority",
    "where",
]
