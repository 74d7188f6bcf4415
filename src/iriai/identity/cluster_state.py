"""All state of the cluster on a machine, read from disk and stored when it changes."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from iriai.identity.certificates.authority import RENEW_SHARE
from iriai.identity.certificates.certificate import read_certificate
from iriai.identity.certificates.machine_identity import MachineIdentity
from iriai.identity.documents.cluster_document import (
    CONFLICTS_KEPT_MAX,
    ClusterDocument,
    ClusterDocuments,
    read_cluster_document,
)
from iriai.identity.documents.operator_roster import NamedMember, Roster, read_roster, wins
from iriai.identity.documents.signed_document import DocumentKind
from iriai.identity.enrolment.registrar import Registrar
from iriai.identity.storage.cluster_files import ClusterFiles, read_bundle
from iriai.identity.storage.join_tokens import IssuedToken, digest_of
from iriai.identity.trust.consents import Consent
from iriai.identity.trust.trust import Trust
from iriai.identity.trust.trusted_home import SignedTrust, TrustedHome, read_trusted_home
from iriai.model.home_trust import HomeTrust
from iriai.model.problem import Refused
from iriai.model.token_text import Token

RENEWAL_LATE_S = 60 * 86_400.0
"""Remaining validity at which people are warned; renewal has then failed for half a year."""


class ClusterState:
    """The state of one machine in its cluster. `clock` is wall time."""

    def __init__(self, directory: str | Path, clock: Callable[[], float] = time.time) -> None:
        """Read `directory`. Raises `Refused` where something in it is damaged."""
        self.files = ClusterFiles(directory)
        self.is_host_only = self.files.is_host_only
        """Whether it is a cluster of machines of this host alone."""
        self.front_end = self.files.front_end()
        """The machine whose back end this one is; empty: it is none."""
        self.identity = MachineIdentity.load(directory)
        self.trust = Trust(self.identity.authority, clock)
        self.trust.learn_own(self.identity.certificate)
        self.files.read_ejections(self.trust)
        self.documents = ClusterDocuments(self.files.document(self.identity.authority))
        self.documents.conflicts = self.files.conflicts()
        self.roster = self.files.roster(self.identity.authority)
        if self.roster is not None:
            self.trust.operators = self.roster.keys
        self._homes = self.files.trusted_homes(self.identity.authority)
        self._home_trust: HomeTrust | None = None
        self.consents = self.files.consents()
        self.tokens = self.files.tokens()
        self.seeds = self.files.seeds()
        self.issuer = self.files.issuer()
        self.registrar: Registrar | None = None
        if self.issuer is not None:
            self.registrar = Registrar(self.files, self.issuer, self.trust, self.tokens, clock)
        self.refused: list[str] = []
        """Refused documents, described for people, the newest last."""
        self._clock = clock

    @classmethod
    def load(
        cls, directory: str | Path, clock: Callable[[], float] = time.time
    ) -> ClusterState | None:
        """Load `directory`; return None if this machine is in no cluster. Raises `Refused`."""
        return cls(directory, clock) if ClusterFiles(directory).exist() else None

    @property
    def document(self) -> ClusterDocument | None:
        """The cluster's configuration in force."""
        return self.documents.held

    @property
    def home_trust(self) -> HomeTrust:
        """The users for whom each home speaks on other machines."""
        if self._home_trust is None:
            self._home_trust = self._homes.trust(self.trust.ejected_until)
        return self._home_trust

    @property
    def trusted_homes(self) -> list[SignedTrust]:
        """Signed statements on homes, by name, including those of machines ejected since."""
        return self._homes.rows()

    def trusted(self) -> list[TrustedHome]:
        """Return the statements on homes that are in force."""
        return self._homes.in_force(self.trust.ejected_until)

    @property
    def is_ejected(self) -> str:
        """Who ejected this machine, and why; empty if nobody did."""
        return self.trust.ejection_words(self.identity.name)

    def wants_renewal(self) -> bool:
        """Return whether the certificate is old enough to be renewed."""
        certificate = self.identity.certificate
        life_s = certificate.ends_wall_s - certificate.issued_wall_s
        return self._clock() >= certificate.issued_wall_s + RENEW_SHARE * life_s

    def renewed(self, certificate_der: bytes) -> None:
        """Store and use a renewed certificate. Raises `Refused`."""
        self.identity = self.identity.renewed(read_certificate(certificate_der))

    def renew_by_itself(self) -> None:
        """Renew the certificate of an issuer's own machine. Raises `Refused`."""
        mine = self.identity
        registrar = self.require_registrar()
        self.renewed(registrar.renew(mine.certificate.der, mine.request(), self._clock()).der)

    def receive_document(self, kind: DocumentKind, raw: bytes) -> bool:
        """Take in what an operator signed, from whoever brought it; whether it is news.

        Raises:
            Problem: nobody who may signed it, or it is of no use here. Nothing was changed.
        """
        before = self.documents.conflicts
        is_news = self._receive(kind, raw)
        if self.documents.conflicts != before:
            self.files.keep_conflicts(self.documents.conflicts)
        return is_news

    def receive_next(self, raw: bytes) -> bool:
        """Take in a configuration if its number is above that in force; whether it is.

        Raises as `receive_document`.
        """
        document, held = self._read_configuration(raw), self.document
        if held is not None and document.number <= held.number:
            return False
        return self.receive_configuration(raw)

    def receive_configuration(self, raw: bytes) -> bool:
        """Take in a configuration; see `receive_document`."""
        return self.receive_document(DocumentKind.CONFIGURATION, raw)

    def is_in_force(self, raw: bytes) -> bool:
        """Return whether a configuration is that in force; raises as `receive_document`."""
        document, held = self._read_configuration(raw), self.document
        return held is not None and (document.number, document.digest) == (held.number, held.digest)

    def _read_configuration(self, raw: bytes) -> ClusterDocument:
        document = read_cluster_document(raw, self.identity.authority)
        self.trust.check_operator(document.operator, document.key)
        return document

    def _receive(self, kind: DocumentKind, raw: bytes) -> bool:
        if kind is DocumentKind.EJECTION:
            if self.trust.receive_ejection(raw) is None:
                return False
            self.files.keep_ejections(self.trust)
            self._home_trust = None
            return True
        if kind is DocumentKind.TRUST:
            return self._receive_trust(read_trusted_home(raw, self.identity.authority))
        if kind is DocumentKind.ROSTER:
            return self._receive_roster(read_roster(raw, self.identity.authority))
        document = self._read_configuration(raw)
        if not self.documents.receive(document):
            return False
        self.files.keep_document(document)
        return True

    def _receive_trust(self, signed: SignedTrust) -> bool:
        self.trust.check_operator(signed.operator, signed.key)
        if not self._homes.add(signed):
            return False
        self.files.keep_trusted_homes(self._homes)
        self._home_trust = None
        return True

    def _receive_roster(self, roster: Roster) -> bool:
        held = self.roster
        if held is not None and roster.number == held.number and roster.digest != held.digest:
            self.documents.report(
                f"two rosters have the number {held.number} ({held.digest[:12]} and "
                f"{roster.digest[:12]}): the one with the smaller digest is in force; repeat "
                "the additions and removals of the other"
            )
        if held is not None and not wins(roster, held):
            return False
        self.files.keep_roster(roster)
        self.roster, self.trust.operators = roster, roster.keys
        return True

    def refused_document(self, words: str) -> None:
        """Remember a refused document, for people."""
        if words not in self.refused:
            self.refused = [*self.refused, words][-CONFLICTS_KEPT_MAX:]

    def trouble(self) -> list[str]:
        """Return problems, for `status` and `doctor`."""
        found = [*self.documents.conflicts, *(f"refused: {words}" for words in self.refused)]
        if self.is_ejected:
            found.append(f"this machine was ejected from the cluster {self.is_ejected}")
        left_s = self.identity.certificate.ends_wall_s - self._clock()
        if left_s < RENEWAL_LATE_S:
            days = max(left_s, 0.0) / 86_400
            found.append(
                f"the certificate of this machine expires in {days:.0f} days, and no issuer has "
                "renewed it: check that one is up and reachable"
            )
        return found

    def machines(self) -> list[str]:
        """Return the names of all known members."""
        names = {self.identity.name, *self.trust.names(), *(seed.name for seed in self.seeds)}
        if self.registrar is not None:
            names |= self.registrar.names()
        return sorted(names)

    def named(self) -> list[NamedMember]:
        """Return the named members that have not been ejected since."""
        return (
            [each for each in self.roster.named if not self.was_ejected(each)]
            if self.roster
            else []
        )

    def was_ejected(self, named: NamedMember) -> bool:
        """Return whether a member was ejected after it was named."""
        until_s = self.trust.ejected_until(named.machine)
        return until_s is not None and named.named_wall_s <= until_s

    def spread(self) -> list[tuple[DocumentKind, str, bytes]]:
        """Return (kind, subject, document) of each document that all members should have."""
        found = [
            (DocumentKind.EJECTION, each.ejection.machine, each.document)
            for each in self.trust.ejections
        ]
        found += [
            (DocumentKind.TRUST, each.trusted.home, each.document) for each in self.trusted_homes
        ]
        if self.roster is not None:
            found.append((DocumentKind.ROSTER, "", self.roster.raw))
        if self.document is not None:
            found.append((DocumentKind.CONFIGURATION, "", self.document.raw))
        return found

    def issue(
        self,
        token: Token,
        made_by: str,
        user: str,
        machine: str,
        bundle: bytes,
        now_wall_s: float,
        ends_wall_s: float,
    ) -> None:
        """Store a token that `made_by` gives out; `bundle` is an issuer's keys, or empty.

        They are sealed so that only the joining machine can read them. Raises a `Problem`.
        """
        if bundle:
            from iriai.identity.certificates.sealed_secrets import seal_to_secret

            read_bundle(bundle)
            bundle = seal_to_secret(bundle, token.secret)
        digest = digest_of(token.secret)
        whose = (made_by, user, machine)
        entry = IssuedToken(
            token.id, token.kind, digest, now_wall_s, ends_wall_s, *whose, bundle=bundle
        )
        self.tokens.add(entry, now_wall_s)
        self.files.keep_tokens(self.tokens)

    def revoke(self, token_id: str, by: str | None) -> None:
        """Revoke a token and store that; see `JoinTokens.revoke`."""
        self.tokens.revoke(token_id, by)
        self.files.keep_tokens(self.tokens)

    def consent(self, user: str, uid: int, home: str, now_wall_s: float, lifetime_s: float) -> None:
        """Store that a user lets `home` run tasks in their name here; `lifetime_s` 0: no longer."""
        if lifetime_s:
            self.consents.add(Consent(user, uid, home, now_wall_s, now_wall_s + lifetime_s))
        else:
            self.consents.withdraw(home, user)
        self.files.keep_consents(self.consents)

    def require_registrar(self) -> Registrar:
        """Return the registrar; raise `Refused` if this machine is not an issuer."""
        if self.registrar is None:
            raise Refused(
                "not-an-issuer",
                f"{self.identity.name} does not sign machines for the cluster",
                "ask a member that does: see 'iriai cluster show' there; the machine where the "
                "cluster was created does",
            )
        return self.registrar
