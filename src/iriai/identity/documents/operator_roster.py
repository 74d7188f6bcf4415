"""The roster: operators, named members, and the sealed key of the authority.

A numbered document that the authority itself signs, so whoever made it had its key open. It goes to
every member. Within, the key is sealed to the operators, and that once more to the named members:
what others hold of it is of no use to an operator whose key was lost. docs/spec/004, section 10.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from typing import Annotated, NamedTuple

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from iriai.identity.certificates.authority import Authority, Issuer
from iriai.identity.certificates.certificate import read_certificate
from iriai.identity.certificates.sealed_secrets import (
    SealedToKeys,
    derived,
    open_with_key,
    raw_public,
    seal_to_keys,
)
from iriai.identity.documents.signed_document import (
    DocumentKind,
    read_body,
    read_document,
    sign_document,
)
from iriai.model.bounds import Count, Document, KeyBytes, Many, Name, Seconds
from iriai.model.problem import NotFound, Refused

NAMED_MAX = 5
"""Members with which the authority's key lies, and who sign machines: each is one more whose disk
matters, and two or three are enough for one to break."""
OPERATORS_MAX = 32
"""Operators of a cluster: the document must fit into a directory entry (48 KiB)."""
NUMBER_MAX = 1 << 53
"""The highest number, as for the configuration."""


class RosterOperator(msgspec.Struct, frozen=True):
    """One operator."""

    name: Name
    certificate: Document
    opens: KeyBytes
    """The public key (X25519) that the authority's key is sealed to."""


class NamedMember(msgspec.Struct, frozen=True):
    """A member that signs machines and stores the authority's key."""

    machine: Name
    opens: KeyBytes
    named_wall_s: Seconds


class _Body(msgspec.Struct, frozen=True):
    number: Count
    made_wall_s: Seconds
    operators: Annotated[tuple[RosterOperator, ...], Many]
    named: Annotated[tuple[NamedMember, ...], Many]
    sealed: Document


class Roster(NamedTuple):
    """A roster with a valid signature."""

    number: int
    operators: tuple[RosterOperator, ...]
    named: tuple[NamedMember, ...]
    sealed: bytes
    digest: str
    """SHA-256 of the body; of two rosters of one number the smaller is in force."""
    raw: bytes

    @property
    def keys(self) -> frozenset[bytes]:
        """The public keys by which operators sign."""
        return frozenset(read_certificate(each.certificate).key_bytes for each in self.operators)


def wins(one: Roster, other: Roster) -> bool:
    """Return whether `one` takes precedence over `other`."""
    return (-one.number, one.digest) < (-other.number, other.digest)


def named_key(issuer: Issuer) -> X25519PrivateKey:
    """Return the key that opens a named member's share, derived from its issuer's key."""
    secret = issuer.key.private_bytes_raw()
    return X25519PrivateKey.from_private_bytes(derived(secret, b"iriai named member opens"))


def named_member(machine: str, issuer: Issuer, now_wall_s: float) -> NamedMember:
    """Return the row of the member `machine` that stores `issuer`."""
    return NamedMember(machine, raw_public(named_key(issuer).public_key()), now_wall_s)


def make_roster(
    authority: Authority,
    number: int,
    now_wall_s: float,
    operators: Iterable[RosterOperator],
    named: Iterable[NamedMember],
) -> bytes:
    """Create a signed roster; raise `Refused` if there are too many of either, or none."""
    operators, named = tuple(operators), tuple(named)
    if not 0 < len(operators) <= OPERATORS_MAX:
        raise Refused(
            "too-many-operators" if operators else "last-operator",
            f"a cluster has 1 to {OPERATORS_MAX} operators, not {len(operators)}",
            "remove one that is not needed first" if operators else "add another one first",
        )
    if not 0 < len(named) <= NAMED_MAX:
        names = ", ".join(each.machine for each in named)
        raise Refused(
            "too-many-issuers",
            f"the authority's key is stored on 1 to {NAMED_MAX} named members, not on "
            f"{len(named)}: {names}",
            "an ejected one ('iriai eject') does not count; members that are not named sign "
            "just as well",
        )
    inner = _sealed(authority.key.private_bytes_raw(), ((o.name, o.opens) for o in operators))
    sealed = _sealed(inner, ((each.machine, each.opens) for each in named))
    body = msgspec.msgpack.encode(_Body(number, now_wall_s, operators, named, sealed))
    return sign_document(DocumentKind.ROSTER, body, authority.key, authority.certificate)


def read_roster(raw: bytes, authority_der: bytes) -> Roster:
    """Verify and decode a roster; raise `Refused` if it is malformed or not by the authority."""
    signed = read_document(raw, DocumentKind.ROSTER, authority_der)
    body = read_body(_Body, signed.body, "bad-document", "the roster")
    if not 0 < body.number <= NUMBER_MAX:
        raise Refused("bad-document", f"roster number {body.number} is out of range")
    digest = hashlib.sha256(signed.body).hexdigest()
    return Roster(body.number, body.operators, body.named, body.sealed, digest, raw)


def open_authority(
    roster: Roster, issuer: Issuer, operator: X25519PrivateKey, authority_der: bytes
) -> Authority:
    """The authority with its key: by an operator's key, on a named member.

    Raises:
        NotAllowed: the roster names neither this operator nor this member.
        Refused: it is damaged.
    """
    inner = open_with_key(_read_sealed(roster.sealed), named_key(issuer))
    raw = open_with_key(_read_sealed(inner), operator)
    return Authority(Ed25519PrivateKey.from_private_bytes(raw), read_certificate(authority_der))


def changed(
    roster: Roster,
    authority: Authority,
    now_wall_s: float,
    *,
    add: RosterOperator | None = None,
    remove: str = "",
    name: NamedMember | None = None,
    is_ejected: Callable[[NamedMember], bool] = lambda _: False,
) -> bytes:
    """The next roster: an operator or a named member more, or an operator less.

    Named members of whom `is_ejected` says so are left out.

    Raises:
        Refused: there would be too many, or no operator.
        NotFound: nobody has the name that is to be removed.
    """
    operators = [each for each in roster.operators if each.name != remove]
    if remove and len(operators) == len(roster.operators):
        there = ", ".join(each.name for each in operators)
        raise NotFound("no-such-operator", f"there is no operator {remove}", f"use one of: {there}")
    if add is not None:
        if any(each.name == add.name for each in operators):
            raise Refused(
                "name-taken",
                f"there is an operator {add.name} already",
                "'iriai operator request --name' sets another name; if that key is no longer "
                f"used, run 'iriai operator remove {add.name}' first",
            )
        operators.append(add)
    named = [each for each in roster.named if not is_ejected(each)]
    if name is not None:
        named = [*(each for each in named if each.machine != name.machine), name]
    return make_roster(authority, roster.number + 1, now_wall_s, operators, named)


def _sealed(content: bytes, keys: Iterable[tuple[str, bytes]]) -> bytes:
    to = {name: X25519PublicKey.from_public_bytes(key) for name, key in keys}
    return msgspec.msgpack.encode(seal_to_keys(content, to))


def _read_sealed(content: bytes) -> SealedToKeys:
    return read_body(SealedToKeys, content, "bad-seal", "the roster's seal")
