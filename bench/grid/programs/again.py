"""A program that starts when a hub is lost. Prints when its first result has come, in seconds since 1970.

It asks again while no executor is known to run: those that were linked to the lost hub come to another one.
"""

from __future__ import annotations

import time
import warnings

import phalanx as px
from phalanx.errors import PhalanxError

warnings.simplefilter("ignore")
while True:
    try:
        with px.Manager("lab", contract=px.ParDegree(1)) as manager:
            assert list(manager.map(abs, [-1])) == [1]
            print("figures", time.time(), flush=True)
            break
    except PhalanxError:
        time.sleep(0.02)
