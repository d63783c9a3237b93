"""Keys and certificates for a federation: an authority, a server, and one key a node."""

from __future__ import annotations

import datetime
import ipaddress
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recondite import _validate
from recondite.records.arrays import needed

__all__ = ["Credentials", "issue", "kept"]


@dataclass(frozen=True)
class Credentials:
    """Where the files of a federation are. Private keys can be read by their owner only.

    Attributes:
      authority: Certificate that clients trust.
      certificate: The server's.
      key: The server's private key.
      nodes: Private key of every node (OpenSSH), with its public key beside it (.pub).
      until: When both certificates expire. Keys of nodes do not.
    """

    authority: Path
    certificate: Path
    key: Path
    nodes: tuple[Path, ...]
    until: datetime.datetime


def issue(
    folder: str | os.PathLike[str],
    nodes: int,
    *,
    hosts: Sequence[str] = ("localhost", "127.0.0.1"),
    days: int = 30,
) -> Credentials:
    """Makes new keys (P-384) and certificates; the authority's own key is thrown away.

    Nobody can sign a further certificate in the authority's name, not even its owner: to renew,
    issue everything anew and take the new files to every machine.

    Args:
      folder: Where to write; created for its owner only.
      nodes: How many nodes.
      hosts: Names and addresses by which the server is reached.
      days: How long both certificates are valid, from now.
    """
    needed("cryptography", "cryptography")
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
        PublicFormat,
    )

    _validate.at_least("days", days, 1)
    place = Path(folder)
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    root, server = (ec.generate_private_key(ec.SECP384R1()) for _ in range(2))
    constraint = x509.BasicConstraints(ca=True, path_length=0)
    own = _certificate("recondite authority", root, root, days, [(constraint, True)])
    named = x509.SubjectAlternativeName([_general_name(host) for host in hosts])
    leaf = _certificate("recondite superlink", server, root, days, [(named, False)])
    out = Credentials(
        place / "ca.pem",
        place / "server.pem",
        place / "server.key",
        tuple(
            place / f"node-{index}.key" for index in range(_validate.at_least("nodes", nodes, 1))
        ),
        leaf.not_valid_after_utc,
    )
    out.authority.write_bytes(own.public_bytes(Encoding.PEM))
    out.certificate.write_bytes(leaf.public_bytes(Encoding.PEM))
    _private(out.key, server.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    for path in out.nodes:
        key = ec.generate_private_key(ec.SECP384R1())
        _private(path, key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()))
        public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
        path.with_suffix(".pub").write_bytes(public + b"\n")
    return out


def kept(folder: str | os.PathLike[str], nodes: int) -> Credentials:
    """The files of an earlier :func:`issue`, for nodes that have to stay who they were.

    Raises:
      ValueError: Some are missing, or the certificates have expired.
    """
    needed("cryptography", "cryptography")
    from cryptography import x509

    place = Path(folder)
    keys = tuple(place / f"node-{index}.key" for index in range(nodes))
    files = (place / "ca.pem", place / "server.pem", place / "server.key")
    missing = [path for path in (*files, *keys) if not path.exists()]
    if missing:
        raise ValueError(f"{missing[0]} is missing: these nodes have no keys from an earlier run")
    until = x509.load_pem_x509_certificate(files[1].read_bytes()).not_valid_after_utc
    if until <= datetime.datetime.now(datetime.timezone.utc):
        raise ValueError(f"the certificates in {place} expired on {until:%Y-%m-%d}: issue new ones")
    return Credentials(*files, keys, until)


def _certificate(name: str, key: Any, signer: Any, days: int, extensions: list[Any]) -> Any:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.x509.oid import NameOID

    def called(text: str) -> Any:
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])

    now = datetime.datetime.now(datetime.timezone.utc)
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    authority = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key())
    builder = (
        x509.CertificateBuilder()
        .subject_name(called(name))
        .issuer_name(called("recondite authority"))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=5))
        .not_valid_after(now + datetime.timedelta(days=days))
        .add_extension(identifier, critical=False)
        .add_extension(authority, critical=False)
    )
    for extension, critical in extensions:
        builder = builder.add_extension(extension, critical=critical)
    return builder.sign(signer, hashes.SHA384())


def _general_name(host: str) -> Any:
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _private(path: Path, content: bytes) -> None:
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(descriptor, "wb") as file:
        file.write(content)
