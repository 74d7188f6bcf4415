"""Tokens as text: one word with its purpose, its machine or user, an address, and a secret.

`iriai-join-...` lets one machine in, `iriai-user-...` lets a person ask from elsewhere. The word
carries the fingerprint of the cluster's authority, so whoever has it knows whom to believe, and an
address. docs/spec/004-identity.md, section 3.
"""

from __future__ import annotations

import base64
from enum import StrEnum
from typing import NamedTuple
from zlib import crc32

import msgspec

from iriai.model.bounds import KeyBytes, Name, decoded
from iriai.model.problem import UsageProblem

TOKEN_TEXT_LENGTH_MAX = 512
"""Ours have about 150 letters."""
SECRET_BYTES = 16
"""128 bits: too many to guess one, even without a limit on the rate of attempts."""
ID_BYTES = 4
"""Bytes of the id, which names a token without showing it."""
RANDOM_BYTES = ID_BYTES + SECRET_BYTES
"""The number of random bytes for a new token."""
FINGERPRINT_BYTES = 32
"""SHA-256."""
_CHECK_BYTES = 4


class TokenKind(StrEnum):
    """The purpose of a token."""

    JOIN = "join"
    USER = "user"


class _Packed(msgspec.Struct, frozen=True, array_like=True):
    id: KeyBytes
    secret: KeyBytes
    fingerprint: KeyBytes
    address: Name


class Token(NamedTuple):
    """A token as its holder knows it."""

    kind: TokenKind
    id: str
    """Eight hexadecimal digits; no secret."""
    secret: bytes
    fingerprint: str
    """The fingerprint of the authority's certificate: SHA-256 in hexadecimal digits."""
    address: str
    """`HOST:PORT` of a machine that knows it."""

    @classmethod
    def make(cls, kind: TokenKind, randomness: bytes, fingerprint: str, address: str) -> Token:
        """Make a new token; `randomness` are `RANDOM_BYTES` that are secret."""
        assert len(randomness) == RANDOM_BYTES, "a secret of another size"
        number, secret = randomness[:ID_BYTES].hex(), randomness[ID_BYTES:]
        return cls(kind, number, secret, fingerprint, address)

    @property
    def text(self) -> str:
        """Return the token as one word."""
        packed = msgspec.msgpack.encode(
            _Packed(
                bytes.fromhex(self.id), self.secret, bytes.fromhex(self.fingerprint), self.address
            )
        )
        checked = packed + _check(self.kind, packed)
        return f"{_prefix(self.kind)}{base64.urlsafe_b64encode(checked).rstrip(b'=').decode()}"


def parse_token(text: str, kind: TokenKind) -> Token:
    """The token that `text` is.

    Raises:
        UsageProblem: it is none, or one for something else, or was not copied whole.
    """
    text = text.strip()
    other = next((each for each in TokenKind if text.startswith(_prefix(each))), None)
    if other is not None and other != kind:
        raise _bad(f"this token is for '{other}', not for '{kind}'")
    if other is None or len(text) > TOKEN_TEXT_LENGTH_MAX:
        raise _bad(f"a token begins with {_prefix(kind)}")
    word = text.removeprefix(_prefix(kind)).encode()
    try:
        checked = base64.b64decode(word + b"=" * (-len(word) % 4), b"-_", validate=True)
        packed = decoded(msgspec.msgpack.Decoder(_Packed), checked[:-_CHECK_BYTES])
    except (ValueError, msgspec.DecodeError):
        raise _bad("the token was not copied whole") from None
    sizes = (len(packed.id), len(packed.secret), len(packed.fingerprint))
    if sizes != (ID_BYTES, SECRET_BYTES, FINGERPRINT_BYTES) or checked[-_CHECK_BYTES:] != _check(
        kind, checked[:-_CHECK_BYTES]
    ):
        raise _bad("the token was not copied whole")
    return Token(kind, packed.id.hex(), packed.secret, packed.fingerprint.hex(), packed.address)


def _prefix(kind: TokenKind) -> str:
    return f"iriai-{kind}-"


def _check(kind: TokenKind, packed: bytes) -> bytes:
    """Against slips of the hand; secrecy needs none."""
    return crc32(kind.encode() + packed).to_bytes(_CHECK_BYTES, "big")


def _bad(why: str) -> UsageProblem:
    return UsageProblem("bad-token", why, "copy it again as 'iriai token' printed it, as one word")
