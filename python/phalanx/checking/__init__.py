"""What ``phalanx doctor`` looks at: this machine, and executors and machines elsewhere.

- :mod:`phalanx.checking.findings`: what was found, and how bad it is.
- :mod:`phalanx.checking.here`: this machine.
- :mod:`phalanx.checking.executors`: an executor at an address.
- :mod:`phalanx.checking.machines`: a machine that is reached over ssh.
"""
