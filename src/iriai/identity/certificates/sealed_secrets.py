"""Secrets at rest: sealed to keys of people, to a passphrase, or to another secret.

For a key the construction is that of age (C2SP, age v1, section X25519 recipient): a key of the
moment, X25519, HKDF-SHA256, ChaCha20-Poly1305. For a passphrase scrypt (RFC 7914).
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
"""Operators of one cluster."""
_NONCE = bytes(12)
"""Every key here is used once, so the nonce may be constant, as in age."""


class Recipient(msgspec.Struct, frozen=True):
    """The way in for one holder of a key."""

    name: Name
    ephemeral: KeyBytes
    wrapped: KeyBytes


class SealedToKeys(msgspec.Struct, frozen=True):
    """A secret that each of several keys opens."""

    recipients: Annotated[tuple[Recipient, ...], Many]
    sealed: Document


class SealedToPassphrase(msgspec.Struct, frozen=True):
    """A secret that a passphrase opens."""

    salt: KeyBytes
    n: Count
    sealed: Document


def seal_to_keys(content: bytes, keys: Mapping[str, X25519PublicKey]) -> SealedToKeys:
    """`content` for the holders of `keys`, which are named for people."""
    if not 0 < len(keys) <= RECIPIENTS_MAX:
        raise Refused("too-many-operators", f"{len(keys)} operators; 1 to {RECIPIENTS_MAX} may be")
    file_key = os.urandom(KEY_BYTES)
    recipients = []
    for name, key in keys.items():
        ephemeral = X25519PrivateKey.generate()
        mine = raw_public(ephemeral.public_key())
        wrapping = _wrapping_key(ephemeral.exchange(key), mine, raw_public(key))
        recipients.append(Recipient(name, mine, _encrypt(wrapping, file_key)))
    return SealedToKeys(tuple(recipients), _encrypt(file_key, content))


def open_with_key(sealed: SealedToKeys, key: X25519PrivateKey) -> bytes:
    """What was sealed. Raises `NotAllowed`: not for this key."""
    mine = raw_public(key.public_key())
    for each in sealed.recipients:
        try:
            shared = key.exchange(X25519PublicKey.from_public_bytes(each.ephemeral))
            file_key = _decrypt(_wrapping_key(shared, each.ephemeral, mine), each.wrapped)
            return _decrypt(file_key, sealed.sealed)
        except (InvalidTag, ValueError):
            continue
    names = ", ".join(each.name for each in sealed.recipients)
    raise NotAllowed(
        "sealed-to-others",
        f"this is sealed to other keys than yours: to {names}",
        "do it as one of them, or have one of them name you an operator",
    )


def seal_to_passphrase(content: bytes, passphrase: str) -> SealedToPassphrase:
    """`content`, for whoever knows `passphrase`."""
    salt = os.urandom(SALT_BYTES)
    return SealedToPassphrase(
        salt, SCRYPT_N, _encrypt(_stretched(passphrase, salt, SCRYPT_N), content)
    )


def open_with_passphrase(sealed: SealedToPassphrase, passphrase: str) -> bytes:
    """What was sealed. Raises `NotAllowed`: another passphrase."""
    if not 2 <= sealed.n <= SCRYPT_N * 16:
        raise Refused("bad-seal", f"a seal with n = {sealed.n} is none of ours")
    try:
        return _decrypt(_stretched(passphrase, sealed.salt, sealed.n), sealed.sealed)
    except InvalidTag:
        raise NotAllowed(
            "wrong-passphrase", "this is not the passphrase of that key", "try again"
        ) from None


def seal_to_secret(content: bytes, secret: bytes) -> bytes:
    """`content` for whoever has `secret`, which is random and used for nothing else."""
    return _encrypt(derived(secret, b"iriai sealed to a token"), content)


def open_with_secret(sealed: bytes, secret: bytes) -> bytes:
    """What was sealed. Raises `Refused`: it was altered, or sealed to another."""
    try:
        return _decrypt(derived(secret, b"iriai sealed to a token"), sealed)
    except InvalidTag:
        raise Refused(
            "bad-seal", "what came with the token was altered", "ask for another token"
        ) from None


def derived(secret: bytes, purpose: bytes) -> bytes:
    """A key of 32 bytes for one purpose, from a random secret (RFC 5869)."""
    return HKDF(SHA256(), KEY_BYTES, None, purpose).derive(secret)


def raw_public(key: X25519PublicKey) -> bytes:
    """The 32 bytes of a public key."""
    return key.public_bytes(Encoding.Raw, PublicFormat.Raw)


def _wrapping_key(shared: bytes, ephemeral: bytes, recipient: bytes) -> bytes:
    return HKDF(SHA256(), KEY_BYTES, ephemeral + recipient, b"iriai sealed to a key").derive(shared)


def _stretched(passphrase: str, salt: bytes, n: int) -> bytes:
    return Scrypt(salt, KEY_BYTES, n, 8, 1).derive(passphrase.encode())


def _encrypt(key: bytes, content: bytes) -> bytes:
    return ChaCha20Poly1305(key).encrypt(_NONCE, content, None)


def _decrypt(key: bytes, content: bytes) -> bytes:
    return ChaCha20Poly1305(key).decrypt(_NONCE, content, None)
