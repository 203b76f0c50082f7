"""Brings phalanx to other machines over ssh, and takes it away again: what ``phalanx deploy`` does.

- :mod:`phalanx.deploying.ssh`: one shared connection to a machine, over which functions are called there.
- :mod:`phalanx.deploying.there`: these functions. They need nothing but the Python of that machine.
- :mod:`phalanx.deploying.wheels`: which wheels fit a machine, and where they come from.
- :mod:`phalanx.deploying.steps`: the order of all steps on one machine.
- :mod:`phalanx.deploying.hosts_file`: the machine's line in a hosts file.
"""
