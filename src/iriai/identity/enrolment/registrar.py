"""Lets machines in: tokens checked, names kept apart, certificates signed and renewed.

Of an issuer alone. What is promised is on disk before it is answered.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from iriai.identity.certificates.authority import Issuer, requested_key
from iriai.identity.certificates.certificate import (
    Certificate,
    SubjectKind,
    check_signed_for,
    check_time,
    name_rule,
    read_certificate,
)
from iriai.identity.storage.cluster_files import ClusterFiles, Issued
from iriai.identity.storage.join_tokens import JoinTokens
from iriai.identity.trust.trust import Trust
from iriai.model.problem import Refused, UsageProblem
from iriai.model.token_text import TokenKind
from iriai.model.units import format_duration

CLOCK_OFF_S_MAX = 3600.0
"""A newcomer whose clock is further off is told so instead of being let in: its certificate would
seem to begin in the future to it or others, and its use would be counted at the wrong time."""
ISSUED_MAX = 10_000
"""Machines that one issuer signs."""


class Admitted(NamedTuple):
    """The result of joining."""

    certificate: Certificate
    bundle: bytes
    """An issuer, sealed to the token's secret; empty if the machine is none."""


class Registrar:
    """Signs machines with one issuer. `clock` is wall time."""

    def __init__(
        self,
        files: ClusterFiles,
        issuer: Issuer,
        trust: Trust,
        book: JoinTokens,
        clock: Callable[[], float],
    ) -> None:
        self._files = files
        self._issuer = issuer
        self._trust = trust
        self._book = book
        self._clock = clock
        self._issued = files.issued()

    def join(
        self, token_id: str, secret: bytes, name: str, request: bytes, their_wall_s: float
    ) -> Admitted:
        """Let the machine `name` in, whose key signed `request`.

        Raises:
            Refused: the token is not good, the name is taken, a clock is wrong.
            UsageProblem: that is no name.
        """
        now_s = self._clock()
        key = requested_key(request)
        # An answer that was lost: the same machine asks again, with the same key and token.
        again = self._key_is_noted(name, key)
        entry = self._book.check(TokenKind.JOIN, token_id, secret, now_s, name if again else "")
        if wrong := name_rule(name):
            raise UsageProblem("bad-name", f"'{name}' cannot name a machine", wrong)
        if entry.machine and entry.machine != name:
            raise Refused(
                "token-for-another",
                f"this token is for {entry.machine}, not for {name}",
                "join with --name, or ask for another token",
            )
        check_clocks(name, their_wall_s, now_s)
        self._check_name(name, key)
        certificate = self._issuer.machine(request, name, now_s)
        self._note(name, certificate)
        self._book.use(token_id, name)
        self._files.keep_tokens(self._book)
        return Admitted(certificate, entry.bundle)

    def renew(self, certificate_der: bytes, request: bytes, their_wall_s: float) -> Certificate:
        """A newer certificate for the machine and key of `certificate_der`.

        Raises:
            Refused: it is not of this cluster, over, or ejected; another key signed the request.
        """
        now_s = self._clock()
        held = read_certificate(certificate_der)
        check_signed_for(held, self._trust.authority)
        if held.subject.kind != SubjectKind.MACHINE:
            raise Refused("not-a-machine", f"{held.subject.uri} is not a machine")
        name = held.subject.name
        check_clocks(name, their_wall_s, now_s)
        self._trust.learn(certificate_der)
        check_time(held, now_s)
        if requested_key(request) != held.public_key:
            raise Refused("other-key", f"the request to renew {name} was signed by another key")
        certificate = self._issuer.machine(request, name, now_s)
        self._note(name, certificate)
        return certificate

    def names(self) -> frozenset[str]:
        """Return the machines that this issuer signed."""
        return frozenset(self._issued)

    def _check_name(self, name: str, key: Ed25519PublicKey) -> None:
        """Refuse a name that another machine has and that was not ejected."""
        held = self._issued.get(name)
        until_s = self._trust.ejected_until(name)
        taken = held is not None and not self._key_is_noted(name, key)
        if held is not None and until_s is not None and held.wall_s <= until_s:
            taken = False
        known = self._trust.key_of(name)
        if known is not None and known != key and not self._trust.ejection_words(name):
            taken = True
        if taken:
            raise Refused(
                "name-taken",
                f"there is a machine named {name} in the cluster, with another key",
                "join with another --name; or, if that one is gone for good, ask an operator "
                f"to run 'iriai eject {name}' first",
            )
        if held is None and len(self._issued) >= ISSUED_MAX:
            raise Refused(
                "too-many-machines", f"this issuer has signed {ISSUED_MAX} machines already"
            )

    def _key_is_noted(self, name: str, key: Ed25519PublicKey) -> bool:
        held = self._issued.get(name)
        return held is not None and held.key == key.public_bytes_raw().hex()

    def _note(self, name: str, certificate: Certificate) -> None:
        issued = Issued(certificate.key_bytes.hex(), certificate.issued_wall_s)
        self._issued = self._issued | {name: issued}
        self._files.keep_issued(self._issued)
        self._trust.learn(certificate.der)


def check_clocks(name: str, their_wall_s: float, my_wall_s: float) -> None:
    """Raise `Refused` if the clocks of two machines differ by too much."""
    off_s = their_wall_s - my_wall_s
    if abs(off_s) > CLOCK_OFF_S_MAX:
        way = "ahead of" if off_s > 0 else "behind"
        raise Refused(
            "clock-wrong",
            f"the clock of {name} is {format_duration(abs(off_s))} {way} the other machine's",
            "set the one that is wrong; 'date' shows it",
        )
