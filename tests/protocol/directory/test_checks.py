"""What wrong signatures cost, and whom."""

from __future__ import annotations

import pytest

from iriai.model.instant import Instant
from iriai.protocol.directory.checks import BLOCKED_S, CHECKED, WRONG
from iriai.protocol.directory.entry_slices import SLICE, WAITING_MAX, EntrySlices
from iriai.protocol.directory.entry_table import EntryTable, MergeResult
from iriai.protocol.messages.entries import Carried, Entry, EntryKind, signed_content
from iriai.protocol.misbehaviour import Incidents
from iriai.sim.world.keyed_signatures import KeyedSigner, KeyedVerifier

LIFETIME_S = 3600.0


class Counting(KeyedVerifier):
    """Counts how often a signature was looked at."""

    checked = 0

    def verify(self, machine: str, content: bytes, signature: bytes) -> bool:
        self.checked += 1
        return super().verify(machine, content, signature)


class Held:
    """A table, and what comes to it."""

    def __init__(self) -> None:
        self.verifier = Counting(1)
        self.table = EntryTable("ume", "lab", self.verifier, Incidents())
        self.now = Instant(100.0, 1e9)

    def take(self, sender: str, entry: Entry) -> MergeResult:
        return self.table.merge(Carried(entry, 0.0), sender, self.now)

    def shunned(self) -> list[str]:
        return [each.machine for each in self.table.checks.drain_blocked()]


def signed(machine: str, version: int) -> Entry:
    """A good entry."""
    entry = Entry(machine, EntryKind.AD, "lab", 1, version, LIFETIME_S, b"[]", b"")
    signature = KeyedSigner(1, machine).sign(signed_content(entry))
    return Entry(machine, EntryKind.AD, "lab", 1, version, LIFETIME_S, b"[]", signature)


def forged(machine: str, version: int) -> Entry:
    """One that its owner did not sign."""
    return Entry(machine, EntryKind.AD, "lab", 1, version, LIFETIME_S, b"[]", bytes(64))


def test_wrong_signatures_cost_their_sender_and_nobody_else():
    """T9k: 9,000 of them kept a member busy for 4.7 s, again and again."""
    held = Held()
    for version in range(1, 9_001):
        assert held.take("oni", forged("take", version)) is MergeResult.REFUSED
    assert held.verifier.checked <= WRONG.burst + 1
    assert held.shunned() == ["oni"]
    assert held.take("oni", signed("oni", 1)) is MergeResult.REFUSED
    assert held.take("momo", signed("momo", 1)) is MergeResult.NEW
    held.now = Instant(held.now.steady_s + BLOCKED_S, held.now.wall_s)
    assert held.take("oni", signed("oni", 1)) is MergeResult.NEW


def test_what_was_found_wrong_is_not_checked_again():
    held = Held()
    for _ in range(1_000):
        assert held.take("momo", forged("take", 1)) is MergeResult.REFUSED
    assert held.verifier.checked == 1
    assert held.shunned() == []


def test_it_is_checked_again_when_another_key_is_known():
    held = Held()
    held.take("momo", forged("take", 1))
    body = KeyedSigner(1, "take").certificate
    certificate = Entry("take", EntryKind.CERTIFICATE, "lab", 1, 1, LIFETIME_S, body, b"")
    signature = KeyedSigner(1, "take").sign(signed_content(certificate))
    good = Entry("take", EntryKind.CERTIFICATE, "lab", 1, 1, LIFETIME_S, body, signature)
    assert held.take("momo", good) is MergeResult.NEW
    before = held.verifier.checked
    held.take("momo", forged("take", 1))
    assert held.verifier.checked == before + 1


def test_good_signatures_are_checked_so_many_a_second_too():
    """T9k: a member may sign as many entries as it likes."""
    held = Held()
    for version in range(1, 2 * int(CHECKED.burst)):
        held.take("oni", signed("oni", version))
    assert held.verifier.checked == CHECKED.burst
    assert held.take("momo", signed("momo", 1)) is MergeResult.NEW
    assert held.shunned() == []


def test_what_this_machine_says_itself_has_no_limit():
    held = Held()
    for version in range(1, 2 * int(WRONG.burst)):
        held.take("", forged("take", version))
    assert held.verifier.checked == 2 * WRONG.burst - 1
    assert held.shunned() == []


def test_entries_of_many_come_by_turns_and_certificates_first():
    slices = EntrySlices()
    ads = [Carried(signed("oni", version), 0.0) for version in range(2 * SLICE)]
    certificate = Carried(Entry("oni", EntryKind.CERTIFICATE, "lab", 1, 1, 1.0, b"", b""), 0.0)
    slices.add("oni", [*ads, certificate])
    slices.add("momo", ads[:1])
    taken = [slices.pop() for _ in range(4)]
    assert [(sender, len(entries)) for sender, entries in taken] == [
        ("oni", SLICE),
        ("momo", 1),
        ("oni", SLICE),
        ("oni", 1),
    ]
    assert taken[0][1][0] is certificate
    assert slices.pop() == ("", ())


@pytest.mark.parametrize("senders", [1, 3])
def test_of_each_sender_so_many_wait_and_the_rest_is_dropped(senders: int):
    slices = EntrySlices()
    ad = Carried(signed("oni", 1), 0.0)
    for number in range(senders):
        for _ in range(3):
            slices.add(f"oni{number}", [ad] * WAITING_MAX)
    assert len(slices) == senders * WAITING_MAX
