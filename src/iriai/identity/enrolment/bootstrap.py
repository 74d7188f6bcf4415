"""Creation of a cluster, and of a machine's place in it: written whole or not at all."""

from __future__ import annotations

import shutil
from pathlib import Path

from iriai.identity.certificates.authority import Authority
from iriai.identity.certificates.certificate import Subject, SubjectKind, read_certificate
from iriai.identity.certificates.machine_identity import Enrolment, MachineIdentity
from iriai.identity.certificates.sealed_secrets import open_with_secret
from iriai.identity.documents.cluster_document import read_cluster_document
from iriai.identity.documents.operator_key import Operator
from iriai.identity.documents.operator_roster import make_roster, named_member, read_roster
from iriai.identity.documents.signed_document import DocumentKind
from iriai.identity.storage.cluster_files import (
    DOCUMENT_FILE,
    EJECTIONS_FILE,
    FRONT_END_FILE,
    HOST_ONLY_FILE,
    ISSUER_FILE,
    ROSTER_FILE,
    SEEDS_FILE,
    TRUST_FILE,
    bundle_of,
    encode_documents,
    encode_seeds,
    read_bundle,
)
from iriai.identity.trust.trusted_home import read_trusted_home, trust_body
from iriai.model.admission_rules import ALL, OTHERS
from iriai.model.paths import StatePaths
from iriai.model.problem import Refused
from iriai.model.token_text import Token
from iriai.system.atomic_files import Owner
from iriai.wire.joining import Joined

ALREADY_MEMBER = "already-member"
"""Code of the refusal for a machine that is in a cluster already."""


def found_cluster(
    paths: StatePaths,
    *,
    cluster: str,
    machine: str,
    operator: str,
    now_wall_s: float,
    daemon: Owner | None = None,
    passphrase: str = "",
    is_host_only: bool = False,
) -> MachineIdentity:
    """A new cluster, with this machine as its first member and issuer, and its first operator.

    `daemon` are the ids of the user who is to read the machine's files. `is_host_only`: until it
    is opened, its members are machines of this host.

    Raises:
        Refused: the machine is in a cluster already, or files cannot be written. Nothing was.
    """
    if Path(paths.cluster).exists():
        raise already_member(paths)
    authority = Authority.create(cluster, now_wall_s)
    issuer = authority.issuer(machine, now_wall_s)
    enrolment = Enrolment.begin(machine)
    certificate = issuer.machine(enrolment.request(), machine, now_wall_s)
    first = Operator.create(paths.operator, operator, authority, now_wall_s, passphrase=passphrase)
    named = named_member(machine, issuer, now_wall_s)
    roster = make_roster(authority, 1, now_wall_s, [first.as_listed], [named])
    try:
        return MachineIdentity.create(
            paths.cluster,
            enrolment,
            certificate,
            authority.certificate,
            more={
                ISSUER_FILE: bundle_of(issuer),
                ROSTER_FILE: roster,
                TRUST_FILE: _first_trust(first, machine, now_wall_s),
                **({HOST_ONLY_FILE: b""} if is_host_only else {}),
            },
            owner=daemon,
        )
    except Refused:
        shutil.rmtree(paths.operator, ignore_errors=True)  # of a cluster that is not
        raise


def _first_trust(operator: Operator, machine: str, now_wall_s: float) -> bytes:
    """Return the first statements: only the first machine speaks for users of other machines."""
    bodies = (
        trust_body(home, users, now_wall_s) for home, users in ((OTHERS, ()), (machine, (ALL,)))
    )
    return encode_documents(operator.sign(DocumentKind.TRUST, body) for body in bodies)


def enter_cluster(
    paths: StatePaths,
    enrolment: Enrolment,
    token: Token,
    admission: Joined,
    daemon: Owner | None = None,
    front_end: str = "",
) -> MachineIdentity:
    """Write down what a newcomer was given, after a look at all of it.

    `front_end` is the machine whose back end it becomes; empty: it becomes none.

    Raises:
        Refused: it does not fit the token or the machine, or files cannot be written. Nothing was.
    """
    authority = read_certificate(admission.authority)
    if authority.fingerprint != token.fingerprint:
        raise Refused(
            "foreign-authority",
            f"cluster {authority.subject.name} is not the one of the token",
            "check the address, and ask for another token",
        )
    certificate = read_certificate(admission.certificate)
    expected = Subject(authority.subject.cluster_id, SubjectKind.MACHINE, enrolment.name)
    if certificate.subject != expected or certificate.public_key != enrolment.key.public_key():
        raise Refused("bad-answer", "the received certificate is not for this machine")
    more = {
        SEEDS_FILE: encode_seeds(admission.members),
        EJECTIONS_FILE: encode_documents(admission.ejections),
    }
    if front_end:
        more[FRONT_END_FILE] = front_end.encode()
    if admission.trusted:
        for document in admission.trusted:
            read_trusted_home(document, admission.authority)
        more[TRUST_FILE] = encode_documents(admission.trusted)
    if admission.roster:
        read_roster(admission.roster, admission.authority)
        more[ROSTER_FILE] = admission.roster
    if admission.document:
        read_cluster_document(admission.document, admission.authority)
        more[DOCUMENT_FILE] = admission.document
    if admission.bundle:
        issuer = open_with_secret(admission.bundle, token.secret)
        read_bundle(issuer)
        more[ISSUER_FILE] = issuer
    return MachineIdentity.create(
        paths.cluster, enrolment, certificate, authority, more=more, owner=daemon
    )


def already_member(paths: StatePaths) -> Refused:
    """Return the refusal for a machine that is in a cluster already."""
    return Refused(
        ALREADY_MEMBER,
        f"this machine is in a cluster already ({paths.cluster})",
        "see which with 'iriai cluster show'; leave it with 'iriai leave'",
    )
