"""A member of a cluster that lies, with a good certificate, and what it comes to (T8a, T8b)."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from itertools import count

import msgspec
import pytest

from iriai.client import Client
from iriai.protocol.directory.validation import member_body
from iriai.protocol.ledger.ledger import BatchRow, LedgerBatch, batch_body
from iriai.protocol.membership import doubts
from iriai.protocol.messages.entries import EntryKind
from iriai.protocol.messages.gossip import Doubt, News, Probe
from iriai.protocol.messages.members import Member, MemberState
from tests.endtoend.bad_peer import Lab, Peer, lab_of_two
from tests.endtoend.installation import Installation
from tests.endtoend.test_identity import say
from tests.support.waiting import until

LIES = 5
"""Of each kind: more than it takes to be proposed for ejection."""


@pytest.fixture(scope="module")
def lab(people, tmp_path_factory) -> Iterator[Lab]:
    """Two honest machines, of which ann uses the first."""
    with lab_of_two(people.ann, tmp_path_factory.mktemp("liars")) as lab:
        yield lab


def _liar(lab: Lab, name: str) -> Peer:
    """A member that is linked with the first machine, and says that it is there."""
    peer = Peer(lab.member(name), lab.address)
    peer.begin()
    incarnation = int(time.time()) + 2
    its = Member(name, incarnation, MemberState.ALIVE, peer.identity.cluster, instance="oni")
    entry = peer.entry(EntryKind.MEMBER, member_body(its), version=2)
    its = msgspec.structs.replace(its, incarnation=entry.incarnation)
    peer.publish(peer.entry(EntryKind.MEMBER, member_body(its), version=2))
    return peer


def _see_each_other(lab: Lab) -> bool:
    """Whether each takes the other for alive, and both follow one broker."""
    reports = {}
    for installation in (lab.ume, lab.take):
        if not installation.answers():
            return False
        with Client.connect(installation.state, follow=False) as client:
            reports[installation] = client.status()
    followed = {report.broker for report in reports.values()}
    others = ((lab.ume, "take"), (lab.take, "ume"))
    alive = [
        any(m.name == other and m.state == "alive" for m in reports[installation].members)
        for installation, other in others
    ]
    return all(alive) and len(followed) == 1 and followed <= {"ume", "take"}


def _incarnation(lab: Lab, name: str) -> int:
    """As the first machine has it of another."""
    with Client.connect(lab.ume.state, follow=False) as client:
        return next(m.incarnation for m in client.status().members if m.name == name)


def _runs_on(installation: Installation, name: str) -> bool:
    with installation.client() as client:
        wanted = {"output": os.devnull, "requirements": f'Machine == "{name}"'}
        job = client.submit(installation.draft("true", **wanted)).id
        return client.wait([job])[0].cause == "completed"


def _signed(peer: Peer, doubt: Doubt) -> Doubt:
    content = doubts.signed_content(doubt)
    return msgspec.structs.replace(doubt, signature=peer.identity.sign(content))


def test_doubts_remove_no_machine_whatever_incarnation_they_name(lab: Lab):
    """T8a: it was gone for good, also after its restart, and there were two brokers."""
    oni = _liar(lab, "oni-doubts")
    for huge in (2**53 - 1, 2**60, 2**63):
        doubt = _signed(oni, Doubt("take", huge, True, oni.identity.name))
        oni.say(Probe(1, News((), (doubt,))), part="membership")
    for number in range(LIES):
        true = _signed(oni, Doubt("take", _incarnation(lab, "take"), True, oni.identity.name))
        oni.say(Probe(2 + number, News((), (true,))), part="membership")
        time.sleep(0.5)
    until(lambda: _see_each_other(lab), "the honest machines to see each other still")
    assert _incarnation(lab, "take") < time.time() + 3600.0
    assert _runs_on(lab.ume, "ume")
    lab.take.stop_processes()
    lab.take.start()
    until(lambda: _see_each_other(lab), "a machine that began again to be seen")
    oni.socket.close()


def test_a_doubt_in_the_name_of_another_is_refused_and_named(lab: Lab):
    """T8a."""
    oni = _liar(lab, "oni-forges")
    for number in range(LIES):
        doubt = Doubt("take", _incarnation(lab, "take"), True, "ume", b"no signature")
        forged = msgspec.structs.replace(doubt, by="oni-doubts")
        oni.say(Probe(number, News((), (forged,))), part="membership")
    lab.says(oni.identity.name, "without its signature (forged-doubt)")
    assert _see_each_other(lab)
    oni.socket.close()


def test_use_that_no_machine_can_have_counted_counts_for_nothing(lab: Lab):
    """T8b: all believed it, and ann had no turn for months."""
    oni = _liar(lab, "oni-counts")
    assert _runs_on(lab.ume, "ume")
    with lab.ume.client() as client:
        account = client.shares().rows[0]
    versions = count(1)

    def is_proposed() -> bool:
        now_s = time.time()
        row = BatchRow(account.group, account.user, 1e12, now_s, 1, 1.0)
        body = batch_body(LedgerBatch(0, now_s, (row,), 4.0))
        oni.publish(oni.entry(EntryKind.LEDGER, body, version=next(versions)))
        return bool(_proposals(lab, oni))

    until(is_proposed, "operators to be told", 0.1)
    lab.says(oni.identity.name, "more use than was known", "(use-beyond-size)")
    with lab.ume.client() as client:
        assert all(each.usage_s < 1e6 for each in client.shares().rows)
    shown = say(lab.ume, "cluster", "show")
    assert any(oni.identity.name in line for line in shown["noticed"])
    [proposal] = _proposals(lab, oni)
    assert f"iriai eject {oni.identity.name}" in proposal
    findings = say(lab.ume, "doctor")["findings"]
    assert proposal in [each["message"] for each in findings]

    say(lab.ume, "eject", oni.identity.name, "--reason", "it lies", "--anyway")

    until(lambda: not _proposals(lab, oni), "nothing to be proposed any more", 0.1)
    assert _see_each_other(lab)
    oni.socket.close()


def _proposals(lab: Lab, peer: Peer) -> list[str]:
    lines = say(lab.ume, "cluster", "show")["proposals"]
    return [line for line in lines if peer.identity.name in line]
