"""Tuple spaces: Linda's ``out``, ``in_``, ``rd``, ``inp``, ``rdp`` and ``eval`` (paper 002)."""
