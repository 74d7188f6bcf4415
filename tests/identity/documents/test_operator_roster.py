"""Several operators, and one to five members with which the authority's key lies."""

from __future__ import annotations

import msgspec
import pytest

from iriai.identity.certificates.authority import Authority
from iriai.identity.cluster_state import ClusterState
from iriai.identity.documents.cluster_document import document_body
from iriai.identity.documents.operator_key import Operator, OperatorKey, load_key, new_key
from iriai.identity.documents.operator_request import operator_of, request_text
from iriai.identity.documents.operator_roster import (
    NAMED_MAX,
    NamedMember,
    RosterOperator,
    changed,
    named_member,
    open_authority,
    read_roster,
)
from iriai.identity.documents.revocation import Ejection
from iriai.identity.documents.signed_document import DocumentKind
from iriai.model.problem import NotAllowed, NotFound, Problem, Refused, UsageProblem
from tests.identity.test_joining import Lab, refusal

ROSTER = DocumentKind.ROSTER


@pytest.fixture
def lab(tmp_path) -> Lab:
    return Lab(tmp_path)


def follow(lab: Lab, **change) -> None:
    """The lab's machine hears of the roster that follows."""
    raw = changed(lab.state.roster, lab.authority(), lab.clock(), **change)
    assert lab.state.receive_document(ROSTER, raw)


def asked(lab: Lab, name: str) -> tuple[OperatorKey, RosterOperator]:
    """A key of somebody, and what they are to become."""
    key = OperatorKey.generate(name)
    return key, operator_of(request_text(key), lab.authority(), lab.clock())


def opened(state: ClusterState, key: OperatorKey) -> Authority:
    return open_authority(state.roster, state.issuer, key.opening, state.identity.authority)


def ejection(operator: Operator, machine: str, at_s: float) -> bytes:
    return operator.sign(
        DocumentKind.EJECTION, msgspec.msgpack.encode(Ejection(machine, at_s, "gone"))
    )


def test_each_operator_opens_the_authoritys_key(lab: Lab):
    key, bob = asked(lab, "bob")
    assert isinstance(refusal(opened, lab.state, key), NotAllowed)
    follow(lab, add=bob)
    secrets = {
        authority.key.private_bytes_raw() for authority in (lab.authority(), opened(lab.state, key))
    }
    assert len(secrets) == 1
    assert [each.name for each in lab.state.roster.operators] == ["ann", "bob"]


def test_one_who_was_removed_opens_and_signs_nothing_more(lab: Lab):
    key, bob = asked(lab, "bob")
    follow(lab, add=bob)
    operator = Operator(key, _certificate(bob))
    kept = ejection(operator, "momo", lab.clock())
    assert lab.state.receive_document(DocumentKind.EJECTION, kept)
    follow(lab, remove="bob")
    assert refusal(opened, lab.state, key).code == "sealed-to-others"
    for kind, document in (
        (DocumentKind.EJECTION, ejection(operator, "kaki", lab.clock())),
        (DocumentKind.CONFIGURATION, _configuration(operator, 1)),
    ):
        problem = refusal(lab.state.receive_document, kind, document)
        assert problem.code == "not-an-operator-now"
        assert "bob" in problem.message
    again = ClusterState(lab.paths.cluster, lab.clock)
    assert [each.ejection.machine for each in again.trust.ejections] == ["momo"]
    assert again.roster.number == 3


def _certificate(operator: RosterOperator):
    from iriai.identity.certificates.certificate import read_certificate

    return read_certificate(operator.certificate)


def _configuration(operator: Operator, number: int) -> bytes:
    return operator.sign(DocumentKind.CONFIGURATION, document_body(number, 0.0, ""))


def test_there_is_always_an_operator_and_each_has_a_name(lab: Lab):
    _, twin = asked(lab, "ann")
    for change, code in [
        ({"remove": "ann"}, "last-operator"),
        ({"add": twin}, "name-taken"),
    ]:
        assert refusal(lambda c=change: follow(lab, **c)).code == code
    assert isinstance(refusal(lambda: follow(lab, remove="bob")), NotFound)


def test_a_sixth_member_is_not_named_until_one_was_ejected(lab: Lab):
    for number in range(2, NAMED_MAX + 1):
        follow(lab, name=_named(lab, f"m{number}"))
    problem = refusal(lambda: follow(lab, name=_named(lab, "m6")))
    assert (problem.code, problem.exit_code) == ("too-many-issuers", 3)
    assert "m5" in problem.message
    follow(lab, name=_named(lab, "m6"), is_ejected=lambda each: each.machine == "m3")
    names = [each.machine for each in lab.state.roster.named]
    assert names == ["ume", "m2", "m4", "m5", "m6"]


def _named(lab: Lab, machine: str) -> NamedMember:
    return named_member(machine, lab.authority().issuer(machine, lab.clock()), lab.clock())


def test_a_named_member_that_was_ejected_is_none(lab: Lab):
    follow(lab, name=_named(lab, "momo"))
    operator = Operator.load(lab.paths.operator, lambda: "")
    lab.state.receive_document(DocumentKind.EJECTION, ejection(operator, "momo", lab.clock()))
    assert [each.machine for each in lab.state.named()] == ["ume"]


def test_what_a_member_that_is_not_named_holds_opens_nothing(lab: Lab):
    """Neither to an operator."""
    other = lab.authority().issuer("momo", lab.clock())
    operator = Operator.load(lab.paths.operator, lambda: "")
    state = lab.enter("momo")
    assert state.roster == lab.state.roster
    problem = refusal(
        open_authority, state.roster, other, operator.key.opening, state.identity.authority
    )
    assert problem.code == "sealed-to-others"


def test_only_the_authority_signs_a_roster(lab: Lab):
    operator = Operator.load(lab.paths.operator, lambda: "")
    body = msgspec.msgpack.encode({"number": 9})
    problem = refusal(lab.state.receive_document, ROSTER, operator.sign(ROSTER, body))
    assert "not the authority" in problem.message


def test_of_two_rosters_of_one_number_all_go_by_the_same_and_say_so(lab: Lab):
    first = lab.state.roster
    rivals = [
        changed(first, lab.authority(), lab.clock(), add=asked(lab, name)[1])
        for name in ("bob", "cho")
    ]
    seen = []
    for order in (rivals, rivals[::-1]):
        lab.state.roster = first
        for raw in order:
            lab.state.receive_document(ROSTER, raw)
        seen.append(lab.state.roster.digest)
        assert any("two rosters have the number 2" in words for words in lab.state.trouble())
    assert len(set(seen)) == 1
    assert seen[0] == min(read_roster(raw, first_authority(lab)).digest for raw in rivals)


def first_authority(lab: Lab) -> bytes:
    return lab.state.identity.authority


def test_a_word_that_was_altered_makes_nobody_an_operator(lab: Lab):
    word = request_text(OperatorKey.generate("bob"))
    for wrong in (word[:-3], word[:40] + "A" + word[41:], "iriai-join-x", word * 3):
        problem = refusal(operator_of, wrong, lab.authority(), lab.clock())
        assert isinstance(problem, UsageProblem)


def test_a_key_becomes_an_operators_when_the_roster_names_it(lab: Lab):
    place = str(lab.directory / "bob")
    key = new_key(place, "bob", "plum")
    assert refusal(Operator.load, place, lambda: "plum").code == "no-operator-yet"
    fresh = operator_of(request_text(key), lab.authority(), lab.clock())
    follow(lab, add=fresh)
    for listed in (lab.state.roster.operators, ()):  # the certificate is kept
        operator = Operator.load(place, lambda: "plum", listed)
        assert operator.name == "bob"
    document = ejection(operator, "momo", lab.clock())
    assert lab.state.receive_document(DocumentKind.EJECTION, document)
    with pytest.raises(Problem):
        load_key(place, lambda: "peach")


def test_too_many_operators_are_refused(lab: Lab, monkeypatch):
    monkeypatch.setattr("iriai.identity.documents.operator_roster.OPERATORS_MAX", 1)
    with pytest.raises(Refused, match="1 to 1 operators"):
        follow(lab, add=asked(lab, "bob")[1])
