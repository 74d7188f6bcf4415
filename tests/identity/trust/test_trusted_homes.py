"""Who may say for which users a home speaks, and what a machine keeps of it and of consents."""

from __future__ import annotations

import msgspec
import pytest

from iriai.identity.cluster_state import ClusterState
from iriai.identity.documents.operator_key import Operator
from iriai.identity.documents.revocation import Ejection
from iriai.identity.documents.signed_document import DocumentKind, sign_document
from iriai.identity.storage.cluster_files import ClusterFiles
from iriai.identity.trust.consents import LIFETIME_S_MAX, OF_USER_MAX, Consent, Consents
from iriai.identity.trust.trusted_home import TrustedHome, trust_body
from iriai.model.admission_rules import ALL, OTHERS
from iriai.model.problem import NotFound, Problem, Refused
from tests.identity.test_joining import Lab, refusal

TRUST = DocumentKind.TRUST


@pytest.fixture
def lab(tmp_path) -> Lab:
    return Lab(tmp_path)


def operator_of(lab: Lab) -> Operator:
    return Operator.load(lab.paths.operator, lambda: "")


def say(lab: Lab, home: str, *users: str, at_s: float | None = None) -> bool:
    """An operator says it; whether it is news."""
    body = trust_body(home, users, lab.clock() if at_s is None else at_s)
    return lab.state.receive_document(TRUST, operator_of(lab).sign(TRUST, body))


def test_a_new_cluster_trusts_the_machine_that_made_it_and_no_other(lab: Lab):
    trust = lab.state.home_trust
    assert trust.homes == {OTHERS: (), lab.state.identity.name: (ALL,)}
    assert not trust.is_open


def test_the_later_word_counts_also_after_a_restart(lab: Lab):
    now_s = lab.clock()
    assert say(lab, "momo", "ann", at_s=now_s + 1)
    assert not say(lab, "momo", "bob", at_s=now_s)
    assert lab.state.home_trust.trusts("momo", "ann")
    assert say(lab, "momo", at_s=now_s + 2)
    for state in (lab.state, ClusterState(lab.paths.cluster, lab.clock)):
        assert not state.home_trust.trusts("momo", "ann")


def test_a_home_cannot_say_it_of_itself(lab: Lab):
    """T8c: neither with its own key, nor with that of an issuer."""
    body = trust_body("momo", (ALL,), lab.clock())
    issuer = lab.state.issuer
    assert issuer is not None
    forged = [
        sign_document(TRUST, body, issuer.key, issuer.certificate),
        sign_document(TRUST, body, issuer.key, lab.state.identity.certificate),
        sign_document(TRUST, body, issuer.key, operator_of(lab).certificate),
        operator_of(lab).sign(DocumentKind.EJECTION, body),
    ]
    for document in forged:
        assert isinstance(refusal(lab.state.receive_document, TRUST, document), Refused)
    assert not lab.state.home_trust.trusts("momo", "ann")


@pytest.mark.parametrize(
    "content",
    [
        TrustedHome("Momo", (), 1),
        TrustedHome("momo", ("a b",), 1),
        TrustedHome("momo", (), 0),
        TrustedHome("momo", (), 1 << 60),
        {"home": "momo"},
        [[[1]]],
    ],
    ids=repr,
)
def test_what_is_malformed_is_refused_even_where_an_operator_signed_it(lab: Lab, content):
    document = operator_of(lab).sign(TRUST, msgspec.msgpack.encode(content))
    assert refusal(lab.state.receive_document, TRUST, document).code == "bad-trust"


def test_an_ejection_ends_what_was_said_of_that_machine(lab: Lab):
    say(lab, "momo", ALL)
    body = msgspec.msgpack.encode(Ejection("momo", lab.clock() + 1, "stolen"))
    assert lab.state.home_trust.trusts("momo", "ann")
    lab.state.receive_document(
        DocumentKind.EJECTION, operator_of(lab).sign(DocumentKind.EJECTION, body)
    )
    assert not lab.state.home_trust.trusts("momo", "ann")
    assert [each.home for each in lab.state.trusted()] == [OTHERS, lab.state.identity.name]
    say(lab, "momo", "ann", at_s=lab.clock() + 2)
    assert lab.state.home_trust.trusts("momo", "ann")


def test_who_comes_later_is_told_all_of_it(lab: Lab):
    say(lab, "momo", "ann")
    kinds = [(kind, of) for kind, of, _ in lab.state.spread() if kind is TRUST]
    assert kinds == [(TRUST, OTHERS), (TRUST, "momo"), (TRUST, lab.state.identity.name)]


# --- consents ------------------------------------------------------------------------------------


def consent(
    home: str = "momo", *, now_s: float = 0.0, for_s: float = 60.0, uid: int = 7
) -> Consent:
    return Consent("ann", uid, home, now_s, now_s + for_s)


def test_a_consent_holds_for_that_user_and_home_until_its_end(tmp_path):
    consents = Consents()
    consents.add(consent())
    files = ClusterFiles(tmp_path)
    files.keep_consents(consents)
    held = files.consents()
    assert held.holds("momo", "ann", 7, 59.9)
    assert not held.holds("momo", "ann", 7, 60.0)
    assert not held.holds("ume", "ann", 7, 1.0)
    assert not held.holds("momo", "bob", 7, 1.0)
    assert not held.holds("momo", "ann", 8, 1.0), "the name is somebody else's now"


def test_it_can_be_taken_back_and_is_forgotten_when_it_is_over():
    consents = Consents([consent("momo"), consent("ume", for_s=600)])
    assert [each.home for each in consents.of(7, 100.0)] == ["ume"]
    assert consents.of(8, 100.0) == []
    consents.withdraw("ume", "ann")
    assert not consents.holds("ume", "ann", 7, 100.0)
    with pytest.raises(NotFound):
        consents.withdraw("ume", "ann")


def test_consents_are_bounded_in_time_and_number():
    consents = Consents()
    for wrong in (consent(for_s=0), consent(for_s=LIFETIME_S_MAX + 1), consent(home="*")):
        with pytest.raises(Problem):
            consents.add(wrong)
    for number in range(OF_USER_MAX):
        consents.add(consent(f"m{number}"))
    consents.add(consent("m1"))
    with pytest.raises(Refused, match="32 consents"):
        consents.add(consent("m99"))
    consents.add(consent("m99", now_s=61.0))  # the others are over
