"""The manifest of a dossier: the digest of every file, a signature over it, and their check.

``manifest.json`` lists every other file with its SHA-256 and size. ``manifest.sig`` is a detached
Ed25519 signature over the bytes of the manifest, in base64, and ``signer.pem`` the public key it
was made with.

Guarantee: where :func:`verify` with the signer's key from elsewhere finds nothing, every file is
byte for byte what the holder of the private key signed, and none was added or taken away (Ed25519
and SHA-256 taken to be unbroken). Without a key from elsewhere the signature only shows that all
files belong together: whoever changes them can sign again with a key of their own.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from recondite._files import write_atomically
from recondite.records.arrays import needed

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )

__all__ = [
    "Verification",
    "digest",
    "read_private_key",
    "read_public_key",
    "sign",
    "verify",
    "write",
]

MANIFEST, SIGNATURE, SIGNER = "manifest.json", "manifest.sig", "signer.pem"
SCHEMA = "recondite-dossier-manifest/1"
LARGEST = 1 << 22  # bytes of a manifest: far more than any dossier needs


@dataclass(frozen=True)
class Verification:
    """What a check found.

    Attributes:
      problems: What does not verify, one line each; empty where all does.
      files: How many files the manifest lists.
      signed: Whether there is a signature that holds.
      trusted: Whether it was made with the key that was given.
      fingerprint: SHA-256 of the signer's public key; empty without a signature.
    """

    problems: tuple[str, ...]
    files: int
    signed: bool
    trusted: bool
    fingerprint: str


def digest(content: bytes) -> str:
    """SHA-256 in hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def write(folder: Path) -> bytes:
    """Lists every file of the folder, and returns the manifest as it is written."""
    listed = {name: path.read_bytes() for name, path in _files(folder).items()}
    body = {
        "schema": SCHEMA,
        "files": {
            name: {"sha256": digest(content), "bytes": len(content)}
            for name, content in sorted(listed.items())
        },
    }
    content = (json.dumps(body, indent=1, ensure_ascii=False) + "\n").encode()
    write_atomically(folder / MANIFEST, content)
    return content


def sign(folder: Path, manifest: bytes, key: Ed25519PrivateKey) -> str:
    """Signs the manifest, and returns the fingerprint of the signer's public key."""
    public = key.public_key()
    write_atomically(folder / SIGNATURE, base64.b64encode(key.sign(manifest)) + b"\n")
    write_atomically(folder / SIGNER, _pem(public))
    return _fingerprint(public)


def verify(
    folder: str | os.PathLike[str], key: str | os.PathLike[str] | None = None
) -> Verification:
    """Checks every digest, files that are missing or were added, and the signature.

    Args:
      folder: The dossier.
      key: The signer's public key (PEM), from a place that is trusted. With it a dossier without a
        signature does not verify.

    Raises:
      ValueError: In one line, where there is no dossier or the key cannot be read.
    """
    place = Path(folder)
    trusted = None if key is None else read_public_key(key)
    if not (place / MANIFEST).is_file():
        raise ValueError(f"dossier {place} has no {MANIFEST}: give the folder of a dossier")
    if (place / MANIFEST).stat().st_size > LARGEST:
        raise ValueError(f"dossier {place} has a {MANIFEST} of more than {LARGEST} bytes")
    content = (place / MANIFEST).read_bytes()
    problems: list[str] = []
    files = _listed(content, problems)
    there = _files(place)
    problems += [f"{name} is missing" for name in sorted(set(files) - set(there))]
    problems += [f"{name} was added: it is not listed" for name in sorted(set(there) - set(files))]
    for name in sorted(set(files) & set(there)):
        path = there[name]
        if path.is_symlink() or not path.is_file():
            problems.append(f"{name} is no plain file")
        elif digest(path.read_bytes()) != files[name]:
            problems.append(f"{name} was changed: its digest differs")
    signer, wrong = _signature(place, content, trusted)
    problems += wrong
    return Verification(
        problems=tuple(problems),
        files=len(files),
        signed=signer is not None and not wrong,
        trusted=trusted is not None and signer is not None and not wrong,
        fingerprint="" if signer is None else _fingerprint(signer),
    )


def _signature(
    place: Path, manifest: bytes, trusted: Ed25519PublicKey | None
) -> tuple[Ed25519PublicKey | None, list[str]]:
    """The signer, and what is wrong with the signature."""
    signature, signer = place / SIGNATURE, place / SIGNER
    if not signature.exists() and not signer.exists():
        wrong = [] if trusted is None else ["there is no signature, and a key was given"]
        return None, wrong
    if not (signature.is_file() and (trusted is not None or signer.is_file())):
        return None, [f"{SIGNATURE} and {SIGNER} belong together: one is missing"]
    needed("cryptography", "cryptography")
    from cryptography.exceptions import InvalidSignature

    try:
        public = trusted if trusted is not None else read_public_key(signer)
        public.verify(base64.b64decode(signature.read_bytes().strip(), validate=True), manifest)
    except InvalidSignature:
        by = "this key" if trusted is not None else SIGNER
        return None, [f"{MANIFEST} is not what {by} signed"]
    except ValueError:
        return None, [f"{SIGNATURE} or {SIGNER} cannot be read"]
    return public, []


def _listed(content: bytes, problems: list[str]) -> dict[str, str]:
    """The digests that a manifest states; what is odd about it goes to ``problems``."""
    try:
        body = json.loads(content, object_pairs_hook=_once)
        stated = body["files"]
        if body["schema"] != SCHEMA:
            problems.append(f"{MANIFEST} has schema {str(body['schema'])[:40]!r}, not {SCHEMA!r}")
        return {str(name): str(one["sha256"]) for name, one in stated.items()}
    except (ValueError, KeyError, TypeError, AttributeError):
        problems.append(f"{MANIFEST} cannot be read")
        return {}


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """A JSON object whose keys occur once: two readers of the others could see different files."""
    if len({name for name, _ in pairs}) < len(pairs):
        raise ValueError("a key occurs twice")
    return dict(pairs)


def _files(folder: Path) -> dict[str, Path]:
    """Everything below the folder but the manifest and its signature, by its relative name."""
    own = {MANIFEST, SIGNATURE, SIGNER}
    found = {
        path.relative_to(folder).as_posix(): path
        for path in folder.rglob("*")
        if path.is_symlink() or not path.is_dir()
    }
    return {name: path for name, path in found.items() if name not in own}


def read_private_key(path: str | os.PathLike[str]) -> Ed25519PrivateKey:
    """An Ed25519 private key (PEM, without a password).

    Raises:
      ValueError: In one line.
    """
    needed("cryptography", "cryptography")
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        key = load_pem_private_key(Path(path).read_bytes(), password=None)
    except OSError as error:
        raise ValueError(f"key {path} cannot be read: {error.strerror}") from None
    except TypeError:
        raise ValueError(f"key {path} has a password: give one without") from None
    except Exception:  # whatever a parser of foreign bytes raises
        raise ValueError(f"key {path} is no private key in PEM: {_HOW}") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise ValueError(f"key {path} is no Ed25519 key: {_HOW}")
    return key


def read_public_key(path: str | os.PathLike[str]) -> Ed25519PublicKey:
    """An Ed25519 public key (PEM).

    Raises:
      ValueError: In one line.
    """
    needed("cryptography", "cryptography")
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    try:
        key = load_pem_public_key(Path(path).read_bytes())
    except OSError as error:
        raise ValueError(f"key {path} cannot be read: {error.strerror}") from None
    except Exception:  # whatever a parser of foreign bytes raises
        raise ValueError(f"key {path} is no public key in PEM") from None
    if not isinstance(key, Ed25519PublicKey):
        raise ValueError(f"key {path} is no Ed25519 key")
    return key


_HOW = "openssl genpkey -algorithm ed25519 -out key.pem makes one"


def _pem(public: Ed25519PublicKey) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    return public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def _fingerprint(public: Ed25519PublicKey) -> str:
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    return digest(public.public_bytes(Encoding.Raw, PublicFormat.Raw))
