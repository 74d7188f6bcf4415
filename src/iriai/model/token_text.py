"""Tokens as text: one word with its purpose, its machine or user, addresses, and a secret.

`iriai-join-...` lets one machine in, `iriai-user-...` lets a person ask from elsewhere. The word
carries the fingerprint of the cluster's authority, so whoever has it knows whom to believe, and the
addresses of a machine. docs/spec/004-identity.md, section 3.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, NamedTuple
from zlib import crc32

import msgspec

from iriai.model.bounds import KeyBytes, Name, decoded
from iriai.model.problem import UsageProblem

TOKEN_TEXT_LENGTH_MAX = 1280
"""Ours have some 150 to 200 letters; the longest names of machines would make 1,150."""
SECRET_BYTES = 16
"""128 bits: too many to guess one, even without a limit on the rate of attempts."""
ID_BYTES = 4
"""Bytes of the id, which names a token without showing it."""
RANDOM_BYTES = ID_BYTES + SECRET_BYTES
"""The number of random bytes for a new token."""
FINGERPRINT_BYTES = 32
"""SHA-256."""
_CHECK_BYTES = 4
NOT_WHOLE = "the token was not copied whole"
TOLD_MAX = 3
"""Addresses in a token: it stays short enough to be copied."""


class TokenKind(StrEnum):
    """The purpose of a token."""

    JOIN = "join"
    USER = "user"


class _Packed(msgspec.Struct, frozen=True, array_like=True):
    id: KeyBytes
    secret: KeyBytes
    fingerprint: KeyBytes
    addresses: Annotated[tuple[Name, ...], msgspec.Meta(min_length=1, max_length=TOLD_MAX)]


class Token(NamedTuple):
    """A token as its holder knows it."""

    kind: TokenKind
    id: str
    """Eight hexadecimal digits; no secret."""
    secret: bytes
    fingerprint: str
    """The fingerprint of the authority's certificate: SHA-256 in hexadecimal digits."""
    addresses: tuple[str, ...]
    """`HOST:PORT` of a machine that knows it: at most `TOLD_MAX`, the best first."""

    @classmethod
    def make(
        cls, kind: TokenKind, randomness: bytes, fingerprint: str, addresses: Sequence[str]
    ) -> Token:
        """Make a new token; `randomness` are `RANDOM_BYTES` that are secret."""
        if len(randomness) != RANDOM_BYTES:
            raise ValueError(f"a secret of {len(randomness)} bytes, not {RANDOM_BYTES}")
        number, secret = randomness[:ID_BYTES].hex(), randomness[ID_BYTES:]
        return cls(kind, number, secret, fingerprint, tuple(addresses[:TOLD_MAX]))

    @property
    def text(self) -> str:
        """Return the token as one word."""
        packed = msgspec.msgpack.encode(
            _Packed(
                bytes.fromhex(self.id),
                self.secret,
                bytes.fromhex(self.fingerprint),
                self.addresses,
            )
        )
        checked = packed + _check(self.kind, packed)
        return f"{_prefix(self.kind)}{base64.urlsafe_b64encode(checked).rstrip(b'=').decode()}"


def token_kind(word: str) -> TokenKind:
    """Return the kind that `word` names; raise `UsageProblem` if there is none."""
    if word not in frozenset(TokenKind):
        raise UsageProblem("bad-token-kind", f"there are no tokens for '{word}'")
    return TokenKind(word)


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
    except ValueError:
        raise _bad(NOT_WHOLE) from None
    content = checked[:-_CHECK_BYTES]
    if checked[-_CHECK_BYTES:] != _check(kind, content):
        raise _bad(NOT_WHOLE)
    try:
        packed = decoded(msgspec.msgpack.Decoder(_Packed), content)
    except msgspec.DecodeError:
        raise _bad("another version of iriai made the token") from None
    sizes = (len(packed.id), len(packed.secret), len(packed.fingerprint))
    if sizes != (ID_BYTES, SECRET_BYTES, FINGERPRINT_BYTES):
        raise _bad(NOT_WHOLE)
    return Token(kind, packed.id.hex(), packed.secret, packed.fingerprint.hex(), packed.addresses)


def _prefix(kind: TokenKind) -> str:
    return f"iriai-{kind}-"


def _check(kind: TokenKind, packed: bytes) -> bytes:
    """Against slips of the hand; secrecy needs none."""
    return crc32(kind.encode() + packed).to_bytes(_CHECK_BYTES, "big")


def _bad(why: str) -> UsageProblem:
    return UsageProblem("bad-token", why, "copy it again as 'iriai token' printed it, as one word")
