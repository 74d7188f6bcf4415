"""The request of a future operator: a text to give to an operator; it is not secret."""

from __future__ import annotations

import base64
import binascii

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from iriai.identity.certificates.authority import Authority
from iriai.identity.certificates.certificate import name_rule
from iriai.identity.certificates.sealed_secrets import raw_public
from iriai.identity.documents.operator_key import OperatorKey
from iriai.identity.documents.operator_roster import RosterOperator
from iriai.model.bounds import KeyBytes, Name, decoded
from iriai.model.problem import UsageProblem

PREFIX = "iriai-operator-"
LENGTH_MAX = 512
"""The longest request; genuine ones have about 240 letters."""
_CONTEXT = b"iriai-operator-request-1\0"


class _Request(msgspec.Struct, frozen=True, array_like=True):
    name: Name
    signs: KeyBytes
    opens: KeyBytes
    signature: KeyBytes = b""


def request_text(key: OperatorKey) -> str:
    """Return the request of the holder of `key`; its signature reveals errors of copying."""
    signs = key.signing.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
    opens = raw_public(key.opening.public_key())
    signature = key.signing.sign(_signed(_Request(key.name, signs, opens)))
    packed = msgspec.msgpack.encode(_Request(key.name, signs, opens, signature))
    return PREFIX + base64.urlsafe_b64encode(packed).rstrip(b"=").decode()


def operator_of(word: str, authority: Authority, now_wall_s: float) -> RosterOperator:
    """The operator that `word` asks to become, with a certificate of the authority.

    Raises:
        UsageProblem: it is no such word, or was not copied whole.
    """
    word = word.strip()
    if not word.startswith(PREFIX) or len(word) > LENGTH_MAX:
        raise _bad(f"it begins with {PREFIX}")
    try:
        text = word.removeprefix(PREFIX).encode()
        packed = base64.b64decode(text + b"=" * (-len(text) % 4), altchars=b"-_", validate=True)
        asked = decoded(msgspec.msgpack.Decoder(_Request), packed)
        signs = Ed25519PublicKey.from_public_bytes(asked.signs)
        signs.verify(asked.signature, _signed(msgspec.structs.replace(asked, signature=b"")))
    except (binascii.Error, msgspec.DecodeError, ValueError, InvalidSignature):
        raise _bad("it was altered, or not copied whole") from None
    if len(asked.opens) != len(asked.signs) or name_rule(asked.name):
        raise _bad("it does not name a person")
    certificate = authority.operator(asked.name, signs, now_wall_s)
    return RosterOperator(asked.name, certificate.der, asked.opens)


def _signed(request: _Request) -> bytes:
    return _CONTEXT + msgspec.msgpack.encode(request)


def _bad(why: str) -> UsageProblem:
    return UsageProblem(
        "bad-request",
        f"this is not a word of 'iriai operator request': {why}",
        "the future operator runs 'iriai operator request' and gives you the word that it prints",
    )
