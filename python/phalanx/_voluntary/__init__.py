"""Voluntary machines: sensors, the owner's pause, and the books of what users have used.

The engine that decides is in the native core (``phalanx-core/src/voluntary``). This package asks the system, and keeps
files in the owner's home folder: a pause, and the books of each executor.
"""
