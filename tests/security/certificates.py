"""A certificate authority of a test, and what it signs: files in PEM, keys as brokers read them (PKCS #8)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import trustme
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate's file and its key's."""

    certificate: str
    key: str


class Authority:
    """Signs certificates; ``file`` is its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._ca = trustme.CA(key_type=trustme.KeyType.RSA)
        self.file = str(folder / "ca.pem")
        self._ca.cert_pem.write_to_path(self.file)

    def of_server(self, *hosts: str) -> Pair:
        """One for these host names and addresses."""
        return self._write("server-" + hosts[0], self._ca.issue_cert(*hosts, key_type=trustme.KeyType.RSA))

    def of_client(self, role: str) -> Pair:
        """One with this common name, which is the role that a broker takes it for."""
        leaf = self._ca.issue_cert(f"{role}@example.org", common_name=role, key_type=trustme.KeyType.RSA)
        return self._write("client-" + role, leaf)

    def _write(self, name: str, leaf: trustme.LeafCert) -> Pair:
        certificate, key = self._folder / f"{name}.pem", self._folder / f"{name}.key"
        certificate.write_bytes(b"".join(blob.bytes() for blob in leaf.cert_chain_pems))
        own = load_pem_private_key(leaf.private_key_pem.bytes(), None)
        key.write_bytes(own.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        return Pair(str(certificate), str(key))
