"""Bulk synchronous parallel programs: processes that compute in supersteps (paper 001, section 4.2).

The functions are those of BSPlib (Hill et al., "BSPlib: the BSP programming library", Parallel Computing 24, 1998), for
arrays and objects. ``phalanx bsprun -n 4 program.py`` starts the processes.

>>> import numpy as np
>>> from phalanx import bsp
>>> with bsp.begin():
...     sums = np.zeros(bsp.nprocs())
...     bsp.push_reg(sums)
...     bsp.sync()
...     for pid in range(bsp.nprocs()):
...         bsp.put(pid, np.array([1.0 + bsp.pid()]), sums, bsp.pid())
...     bsp.sync()
...     print(sums.sum())
1.0
"""

from phalanx.bsp._checkpoints import State, checkpoint, leave_machine
from phalanx.bsp._costs import Costs, Machine, SuperstepCost, costs, note_costs, probe
from phalanx.bsp._memory import get, hpget, hpput, pop_reg, push_reg, put
from phalanx.bsp._messages import Message, get_tag, hpmove, messages, move, qsize, send, set_tagsize
from phalanx.bsp._program import abort, begin, end, nprocs, pid, sync, time
from phalanx.errors import BspError

__all__ = [
    "BspError",
    "Costs",
    "Machine",
    "Message",
    "State",
    "SuperstepCost",
    "abort",
    "begin",
    "checkpoint",
    "costs",
    "end",
    "get",
    "get_tag",
    "hpget",
    "hpmove",
    "hpput",
    "leave_machine",
    "messages",
    "move",
    "note_costs",
    "nprocs",
    "pid",
    "pop_reg",
    "probe",
    "push_reg",
    "put",
    "qsize",
    "send",
    "set_tagsize",
    "sync",
    "time",
]
