"""Secrets at rest: sealed to keys of people, to a passphrase, or to another secret.

For a key by HPKE (RFC 9180: X25519, HKDF-SHA256, ChaCha20-Poly1305). For a passphrase by a key that
scrypt (RFC 7914) makes of it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Annotated

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from iriai.model.bounds import Count, Document, KeyBytes, Many, Name
from iriai.model.problem import NotAllowed, Refused

KEY_BYTES = 32
SALT_BYTES = 16
SCRYPT_N = 1 << 16
"""64 MiB and some 0.2 s for each guess at a passphrase (RFC 7914 asks for 2^14 for logins; a file
that is kept for years should cost more)."""
RECIPIENTS_MAX = 64
"""The most keys that a secret is sealed to."""
SEAL_VERSION = 2
"""Of `SealedToKeys`. 1 was the format of age, with the key of the moment in a field of its own."""
_HPKE = Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.CHACHA20_POLY1305)
_PURPOSE = b"iriai sealed to a key"
_NONCE = bytes(12)
"""Every key here is used once, so the nonce may be constant."""


class Recipient(msgspec.Struct, frozen=True):
    """A holder of a key that opens the secret."""

    name: Name
    wrapped: KeyBytes
    """The secret's key, by HPKE."""


class SealedToKeys(msgspec.Struct, frozen=True, kw_only=True):
    """A secret that any of several keys opens."""

    version: Count = 1
    recipients: Annotated[tuple[Recipient, ...], Many]
    sealed: Document


class SealedToPassphrase(msgspec.Struct, frozen=True):
    """A secret that a passphrase opens."""

    salt: KeyBytes
    n: Count
    sealed: Document


def seal_to_keys(content: bytes, keys: Mapping[str, X25519PublicKey]) -> SealedToKeys:
    """Seal `content` to each of `keys`, which are named for people."""
    if not 0 < len(keys) <= RECIPIENTS_MAX:
        raise Refused(
            "too-many-operators", f"there are {len(keys)} operators; the limit is {RECIPIENTS_MAX}"
        )
    secret_key = os.urandom(KEY_BYTES)
    recipients = tuple(Recipient(name, _wrapped(secret_key, name, keys[name])) for name in keys)
    return SealedToKeys(
        version=SEAL_VERSION, recipients=recipients, sealed=_encrypt(secret_key, content)
    )


def open_with_key(sealed: SealedToKeys, key: X25519PrivateKey) -> bytes:
    """What was sealed.

    Raises:
        NotAllowed: not for this key.
        Refused: another version of iriai sealed it.
    """
    if sealed.version != SEAL_VERSION:
        raise Refused(
            "seal-version",
            f"the key of the authority was sealed in format {sealed.version}, and this iriai opens "
            f"format {SEAL_VERSION} alone",
            "use the iriai that sealed it, or found the cluster anew: 'iriai leave' on each "
            "machine, then 'iriai cluster create'",
        )
    for each in sealed.recipients:
        try:
            return _decrypt(_HPKE.decrypt(each.wrapped, key, _PURPOSE), sealed.sealed)
        except (InvalidTag, ValueError):
            continue
    names = ", ".join(each.name for each in sealed.recipients)
    raise NotAllowed(
        "sealed-to-others",
        f"this is sealed for other keys than yours: for {names}",
        "run the command as one of them, or ask one of them to make you an operator",
    )


def seal_to_passphrase(content: bytes, passphrase: str) -> SealedToPassphrase:
    """Seal `content` to a passphrase."""
    salt = os.urandom(SALT_BYTES)
    return SealedToPassphrase(
        salt, SCRYPT_N, _encrypt(_stretched(passphrase, salt, SCRYPT_N), content)
    )


def open_with_passphrase(sealed: SealedToPassphrase, passphrase: str) -> bytes:
    """Return the sealed content; raise `NotAllowed` if the passphrase is wrong."""
    if not 2 <= sealed.n <= SCRYPT_N * 16:
        raise Refused("bad-seal", f"a seal with n = {sealed.n} was not made by iriai")
    try:
        return _decrypt(_stretched(passphrase, sealed.salt, sealed.n), sealed.sealed)
    except InvalidTag:
        raise NotAllowed(
            "wrong-passphrase", "the passphrase is not that of the key", "try again"
        ) from None


def seal_to_secret(content: bytes, secret: bytes) -> bytes:
    """Seal `content` to `secret`, which is random and used for nothing else."""
    return _encrypt(derived(secret, b"iriai sealed to a token"), content)


def open_with_secret(sealed: bytes, secret: bytes) -> bytes:
    """Return the sealed content; raise `Refused` if it was altered or sealed to another secret."""
    try:
        return _decrypt(derived(secret, b"iriai sealed to a token"), sealed)
    except InvalidTag:
        raise Refused(
            "bad-seal", "the part that came with the token was altered", "ask for another token"
        ) from None


def derived(secret: bytes, purpose: bytes) -> bytes:
    """Derive a key of 32 bytes for one purpose from a random secret (RFC 5869)."""
    return HKDF(SHA256(), KEY_BYTES, None, purpose).derive(secret)


def raw_public(key: X25519PublicKey) -> bytes:
    """Return the 32 bytes of a public key."""
    return key.public_bytes(Encoding.Raw, PublicFormat.Raw)


def _wrapped(secret_key: bytes, name: str, key: X25519PublicKey) -> bytes:
    try:
        return _HPKE.encrypt(secret_key, key, _PURPOSE)
    except ValueError:  # a point of small order: all would share one secret with it
        raise Refused(
            "bad-key", f"nothing can be sealed to the key of {name}", "have a new key made"
        ) from None


def _stretched(passphrase: str, salt: bytes, n: int) -> bytes:
    return Scrypt(salt, KEY_BYTES, n, 8, 1).derive(passphrase.encode())


def _encrypt(key: bytes, content: bytes) -> bytes:
    return ChaCha20Poly1305(key).encrypt(_NONCE, content, None)


def _decrypt(key: bytes, content: bytes) -> bytes:
    return ChaCha20Poly1305(key).decrypt(_NONCE, content, None)
