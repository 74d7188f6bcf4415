"""Where machines of other clusters are: who is asked, and who is believed."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import pytest

from iriai.cluster.locator import ASK_S, ASKED_MAX, CONTACTS_MAX, Locator
from iriai.model.instant import Instant
from iriai.protocol.directory.checks import Checks
from iriai.protocol.directory.validation import gateway_body, member_body
from iriai.protocol.membership.gateways import Gateways
from iriai.protocol.messages.entries import Carried, Entry, EntryKind, signed_content
from iriai.protocol.messages.gossip import Located
from iriai.protocol.messages.members import Gateway, Member, MemberState
from iriai.protocol.misbehaviour import Incidents
from iriai.sim.world.keyed_signatures import KeyedSigner, KeyedVerifier

SEED = 1
OWN = Member("own", 1, MemberState.ALIVE, "lab", cluster_name="east")


def at(steady_s: float) -> Instant:
    return Instant(steady_s, 1.8e9 + steady_s)


def described(machine: str, cluster: str = "west", **more) -> Member:
    more = {"addresses": (f"{machine}:1",), "cluster_name": cluster} | more
    return Member(machine, 1, MemberState.ALIVE, "lab", **more)


def signed(machine: str, kind: EntryKind, body: bytes, cluster: str, version=1, by="") -> Carried:
    draft = Entry(machine, kind, cluster, 1, version, 100.0, body, b"")
    signature = KeyedSigner(SEED, by or machine).sign(signed_content(draft))
    return Carried(msgspec.structs.replace(draft, signature=signature), 0.0)


def contact(machine: str, cluster: str = "west", version=1, by="", **more) -> tuple[Carried, ...]:
    """What is told of a machine."""
    body = member_body(described(machine, cluster, **more))
    certificate = KeyedSigner(SEED, machine).certificate
    return (
        signed(machine, EntryKind.CERTIFICATE, certificate, cluster),
        signed(machine, EntryKind.MEMBER, body, cluster, version, by),
    )


class Desk:
    """A locator in the cluster `east`; west has two gateways, north one."""

    def __init__(self) -> None:
        self.incidents = Incidents()
        self.verifier = KeyedVerifier(SEED, needs_certificates=True)
        self.locator = Locator(OWN, self.verifier, Checks(), self.incidents)
        self.gateways = Gateways(OWN)
        for name, cluster in (("w1", "west"), ("w2", "west"), ("n1", "north")):
            body = gateway_body(Gateway(described(name, cluster)))
            self.gateways.changed([signed(name, EntryKind.GATEWAY, body, "lab").entry], ())

    def ask(self, machine: str, at_s: float) -> list[str]:
        return [each.machine for each in self.locator.locate(machine, self.gateways, at(at_s))]

    def told(self, sender: str, entries: Iterable[Carried], at_s: float = 0.5) -> list[Member]:
        return self.locator.located(sender, Located(tuple(entries)), at(at_s))

    @property
    def codes(self) -> list[str]:
        return [code for code, _ in self.incidents.counts]


def test_gateways_of_all_clusters_are_asked_in_turn_and_not_too_often():
    desk = Desk()
    assert desk.ask("ume", 0.0) == ["w1", "n1"]
    assert desk.ask("ume", ASK_S / 2) == []
    assert desk.ask("ume", ASK_S) == ["w2", "n1"]


def test_who_spoke_of_a_machine_is_asked_first():
    desk = Desk()
    desk.locator.hint("ume", "w2")
    assert desk.ask("ume", 0.0) == ["w2"]
    assert desk.ask("ume", ASK_S) == ["w2", "n1"]


def test_what_was_asked_for_is_taken_and_later_entries_replace_it():
    desk = Desk()
    desk.ask("ume", 0.0)
    assert [each.name for each in desk.told("w1", contact("ume"))] == ["ume"]
    assert desk.told("ume", contact("ume")) == [], "no news"
    assert [each.name for each in desk.told("ume", contact("ume", version=2))] == ["ume"]
    assert desk.locator.contact("ume").addresses == ("ume:1",)
    assert not desk.codes


def test_a_machine_says_itself_where_it_is():
    desk = Desk()
    assert [each.name for each in desk.told("ume", contact("ume"))] == ["ume"]


def test_relays_come_with_a_machine_that_was_asked_for():
    desk = Desk()
    desk.ask("ume", 0.0)
    entries = (*contact("ume", is_outward_only=True), *contact("take"))
    assert [each.name for each in desk.told("w1", entries)] == ["ume", "take"]


@pytest.mark.parametrize(
    ("sender", "entries", "code"),
    [
        ("w1", contact("kiku"), ""),
        ("kiku", (*contact("kiku"), *contact("ran")), ""),
        ("w1", contact("ume", "east"), ""),
        ("w1", contact("ume", by="w1"), "forged-entry"),
        ("w1", contact("ume")[1:], "forged-entry"),
        ("w1", (contact("kiku")[0], contact("ume")[1]), "forged-entry"),
        ("w1", contact("ume", steadiness=7.0), "malformed-entry"),
    ],
    ids=[
        *("not asked for", "others beside itself", "of the own cluster", "signed by another"),
        *("without certificate", "with a foreign certificate", "malformed"),
    ],
)
def test_what_nobody_asked_for_or_signed_is_not_taken(sender, entries, code):
    desk = Desk()
    desk.ask("ume", 0.0)
    found = {each.name for each in desk.told(sender, entries)}
    assert found <= {sender}
    assert desk.codes == ([code] if code else [])


def test_contacts_and_questions_are_bounded():
    desk = Desk()
    for number in range(CONTACTS_MAX + 1):
        told = desk.told(f"m{number}", contact(f"m{number}"))
    assert [(each.name, each.state) for each in told] == [
        (f"m{CONTACTS_MAX}", MemberState.ALIVE),
        ("m0", MemberState.LEFT),
    ]
    assert desk.locator.contact("m0") is None
    for number in range(ASKED_MAX + 1):
        desk.ask(f"q{number}", 0.0)
    assert desk.told("w1", contact("q0")) == [], "forgotten that it was asked for"
    assert desk.told("w1", contact("q1")) != []


def test_for_the_name_of_a_newcomer_all_gateways_are_asked_and_its_key_is_learned():
    desk = Desk()
    effects = desk.locator.locate("ume", desk.gateways, at(0.0), is_everywhere=True)
    assert [each.machine for each in effects] == ["w1", "w2", "n1"]
    assert not desk.verifier.knows("ume")
    assert desk.told("w1", contact("ume")[:1]) == [], "it has been away for long"
    assert desk.verifier.knows("ume")
    assert desk.told("w1", contact("kiku")[:1]) == []
    assert not desk.verifier.knows("kiku"), "nobody asked"
