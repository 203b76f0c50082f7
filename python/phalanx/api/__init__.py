"""Jobs, files and tuple spaces of a grid over HTTPS and JSON, for programs in any language: ``phalanx up --tes PORT``.

``openapi.json`` describes the interface. Each request is made for the user whose token it shows.
"""
