"""Trusted homes: for which users each speaks elsewhere (spec 004, section 11).

One document for each home, and one for all others; of two of one home the later counts. An operator
signs them, so that a home which is taken over cannot say it of itself.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Annotated, NamedTuple

import msgspec

from iriai.identity.documents.signed_document import DocumentKind, read_document
from iriai.model.admission_rules import OTHERS
from iriai.model.bounds import Count, Document, KeyBytes, Many, Name, Word, Words, decoded
from iriai.model.home_trust import HomeTrust, check_home, check_users
from iriai.model.problem import Problem, Refused

HOMES_MAX = 10_000
"""Listed homes, as many as ejections: more are not plausible."""
MOMENT_MS_MAX = 1 << 53
"""The highest number that a directory entry can have (spec 006)."""

EjectedUntil = Callable[[str], float | None]
"""Returns until when certificates of a machine are refused; None if it was never ejected."""


class TrustedHome(msgspec.Struct, frozen=True):
    """The body of a document on a home."""

    home: Name
    """`*` stands for all homes without a document."""
    users: Annotated[tuple[Words, ...], Many]
    moment_ms: Count
    """The time of signing (wall clock); of two documents of one home the later counts."""

    @property
    def wall_s(self) -> float:
        """The time of signing."""
        return self.moment_ms / 1000


class SignedTrust(NamedTuple):
    """A document on a home with a valid signature."""

    trusted: TrustedHome
    operator: Name
    document: Document
    key: KeyBytes
    """The operator's public key."""
    digest: Word
    """SHA-256 of the document; of two of one time the smaller counts."""


def trust_body(home: str, users: tuple[str, ...], now_wall_s: float, after_ms: int = 0) -> bytes:
    """Encode the body of a document, dated later than `after_ms`. Raises `UsageProblem`."""
    check_home(home)
    check_users(users)
    moment_ms = max(round(now_wall_s * 1000), after_ms + 1)
    return msgspec.msgpack.encode(TrustedHome(home, users, moment_ms))


def read_trusted_home(document: bytes, authority_der: bytes) -> SignedTrust:
    """The statement that `document` holds, signed by an operator of this cluster.

    Raises:
        Refused: it is malformed, or nobody who may say so signed it.
    """
    read = read_document(document, DocumentKind.TRUST, authority_der)
    try:
        trusted = decoded(msgspec.msgpack.Decoder(TrustedHome), read.body)
        check_home(trusted.home)
        check_users(trusted.users)
    except (msgspec.DecodeError, Problem) as error:
        raise Refused(
            "bad-trust", f"the document of {read.operator} about a home is malformed: {error}"
        ) from None
    if not 0 < trusted.moment_ms < MOMENT_MS_MAX:
        raise Refused("bad-trust", f"a home is trusted at {trusted.moment_ms} ms: out of range")
    digest = hashlib.sha256(document).hexdigest()
    return SignedTrust(trusted, read.operator, document, read.key, digest)


class TrustedHomes:
    """All trusted homes known to this machine."""

    def __init__(self) -> None:
        self._by_home: dict[str, SignedTrust] = {}

    def rows(self) -> list[SignedTrust]:
        """Return all statements, by home."""
        return [self._by_home[home] for home in sorted(self._by_home)]

    def add(self, signed: SignedTrust) -> bool:
        """Take `signed` in; returns whether it says anything new.

        Raises:
            Refused: there are too many already.
        """
        home = signed.trusted.home
        held = self._by_home.get(home)
        if held is not None and not _wins(signed, held):
            return False
        if held is None and home != OTHERS and len(self._by_home) > HOMES_MAX:
            raise Refused(
                "too-many-homes", f"{HOMES_MAX} homes are listed already, which is the limit"
            )
        self._by_home[home] = signed
        return True

    def in_force(self, ejected_until: EjectedUntil) -> list[TrustedHome]:
        """Return the statements in force: for an ejected machine only later ones."""
        found = []
        for each in self.rows():
            until_s = ejected_until(each.trusted.home)
            if until_s is None or each.trusted.wall_s > until_s:
                found.append(each.trusted)
        return found

    def trust(self, ejected_until: EjectedUntil) -> HomeTrust:
        """Return the statements in force, for lookups."""
        return HomeTrust({each.home: each.users for each in self.in_force(ejected_until)})


def _wins(one: SignedTrust, other: SignedTrust) -> bool:
    """Return whether `one` takes precedence over `other`."""
    ours, theirs = (-one.trusted.moment_ms, one.digest), (-other.trusted.moment_ms, other.digest)
    return ours < theirs
