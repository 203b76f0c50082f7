"""Certificates for the peers measured over TLS: a CA and one certificate for both ends, in a folder."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import NamedTuple

import trustme


class Certificates(NamedTuple):
    """Paths of PEM files."""

    authority: str
    certificate: str
    key: str


def issue(*addresses: str) -> Certificates:
    """Make a CA, and a certificate for this machine under all its addresses, in a new folder."""
    folder = Path(tempfile.mkdtemp(prefix="bench-certificates-"))
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1", "localhost", *addresses)
    paths = Certificates(*(str(folder / name) for name in ("ca.pem", "certificate.pem", "key.pem")))
    authority.cert_pem.write_to_path(paths.authority)
    issued.private_key_pem.write_to_path(paths.key)
    for number, block in enumerate(issued.cert_chain_pems):
        block.write_to_path(paths.certificate, append=number > 0)
    return paths
