"""How what machines publish reaches all, in simulated worlds of the product's cores."""

from __future__ import annotations

from math import log2

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iriai.model.ids import Account
from iriai.model.records import LedgerRow
from iriai.policy.accounting.decay import Decay, DecayedCounter
from iriai.protocol.directory.directory import (
    ENTRIES_BYTES_MAX,
    MESSAGES_A_PERIOD_MAX,
    ROWS_A_MESSAGE_MAX,
)
from iriai.protocol.directory.publisher import MEMBER_LIFETIME_S
from iriai.protocol.ledger.ledger import BatchRow, Ledger, LedgerBatch, batch_body
from iriai.protocol.messages.effects import Delivered, Part, Send, Wake
from iriai.protocol.messages.entries import Entry, EntryKey, EntryKind, signed_content
from iriai.protocol.messages.gossip import Detail, Entries, Offer, Outline, Wanted
from iriai.protocol.messages.members import MemberState
from iriai.protocol.misbehaviour import PERIODS
from iriai.sim.world.keyed_signatures import KeyedSigner, signed_document
from tests.protocol.ledger_use import use_of
from tests.sim.peer_stories import MEANWHILE_S, codes, have_one_table, joined
from tests.sim.peer_world import PeerWorld, Ways


def publish(world: PeerWorld, name: str, kind: EntryKind, body: bytes) -> None:
    machine = world.machines[name]
    world.perform(machine, machine.member.publish(kind, body, now(world, name)))


def now(world: PeerWorld, name: str = "m0"):
    return world.machines[name].clock.at(world.now_s)


def have(world: PeerWorld, owner: str, kind: EntryKind, body: bytes) -> bool:
    """Whether all that are up hold this body."""
    held = (machine.peers.table.get(EntryKey(owner, kind)) for machine in world.up())
    return all(entry is not None and entry.body == body for entry in held)


@pytest.mark.parametrize("count", [4, 16, 40])
@pytest.mark.parametrize("loss", [0.0, 0.1])
def test_a_change_reaches_all_within_logarithmic_rounds(count, loss):
    world = joined(count, 2, Ways(loss=loss))
    world.run_until(MEANWHILE_S)

    publish(world, "m1", EntryKind.AD, b"changed")
    known_s = world.run_until_true(
        lambda: have(world, "m1", EntryKind.AD, b"changed"), 3 * MEANWHILE_S
    )

    assert known_s is not None
    assert known_s - MEANWHILE_S <= (2 + 20 * loss) * log2(count) + 4


def test_what_is_urgent_is_known_to_all_within_seconds():
    world = joined(40)
    machine = world.machines["m5"]
    ejection = signed_document(world.seed, "m3", EntryKind.EJECT, 1, b"stolen")

    began_s = world.now_s
    world.perform(machine, machine.member.submit(ejection, now(world)))

    known_s = world.run_until_true(
        lambda: have(world, "m3", EntryKind.EJECT, ejection.body), began_s + 10.0
    )
    assert known_s is not None
    assert codes(world) == set()


def test_halves_of_a_table_become_one_after_a_partition():
    world = joined(10)
    world.part({f"m{number}": 1 for number in range(5)})
    for number in range(10):
        publish(world, f"m{number}", EntryKind.AD, b"ad" * number)
    world.run_until(world.now_s + 200.0)
    assert not have_one_table(world)

    world.heal()

    assert world.run_until_true(lambda: have_one_table(world), world.now_s + 150.0)


def test_machines_that_can_only_connect_outwards_do_no_harm():
    world = PeerWorld(3)
    world.add("m0")
    for number in range(1, 30):
        world.add(f"m{number}", ["m0"], is_outward_only=number > 3)
    assert world.run_until_true(lambda: have_one_table(world), MEANWHILE_S)
    began_s = world.now_s

    publish(world, "m20", EntryKind.AD, b"changed")

    known_s = world.run_until_true(
        lambda: have(world, "m20", EntryKind.AD, b"changed"), began_s + MEANWHILE_S
    )
    assert known_s is not None
    assert known_s - began_s <= 2 * log2(30) + 4


def test_a_newcomer_gets_a_large_table_in_messages_of_bounded_size():
    world = joined(1)
    m0 = world.machines["m0"]
    for number in range(900):
        name = f"gone{number}"
        draft = Entry(name, EntryKind.AD, "lab", 1, 1, 1e6, bytes(1500), b"")
        signature = KeyedSigner(world.seed, name).sign(signed_content(draft))
        m0.peers.table.put(msgspec.structs.replace(draft, signature=signature), now(world))
    sent = []
    world.on_send = lambda machine, send: sent.append(send)
    world.add("newcomer", ["m0"])

    took_s = world.run_until_true(lambda: have_one_table(world), world.now_s + 15.0)

    assert took_s is not None
    largest = max(len(msgspec.msgpack.encode(send.message)) for send in sent)
    assert largest <= 1.2 * ENTRIES_BYTES_MAX
    assert max(len(each.rows) for each in messages(sent, Wanted)) <= ROWS_A_MESSAGE_MAX
    assert max(len(each.rows) for each in messages(sent, Detail)) <= ROWS_A_MESSAGE_MAX
    assert len(messages(sent, Entries)) > 4


def messages(sent: list[Send], kind: type) -> list:
    return [send.message for send in sent if isinstance(send.message, kind)]


def test_once_all_is_known_only_checksums_pass():
    world = joined(12)
    world.run_until(60.0)
    sent = []
    world.on_send = lambda machine, send: sent.append(send)

    world.run_until(120.0)

    told = [send.message for send in sent if send.part is Part.DIRECTORY]
    assert told == [Offer(world.machines["m0"].peers.table.digest.checksum)] * len(told)
    assert len(told) == pytest.approx(12 * 60, rel=0.02)


def test_a_flood_is_cut_off_and_named_and_others_are_served():
    world = joined(3)
    world.run_until(60.0)
    m0 = world.machines["m0"]
    offer = Delivered("m2", Part.DIRECTORY, Offer(1))

    answers = [len(sends(m0.peers.handle(offer, now(world)))) for _ in range(5000)]

    assert sum(answers) <= MESSAGES_A_PERIOD_MAX * PERIODS
    assert m0.peers.incidents.counts["flood", "m2"] > 4000
    other = Delivered("m1", Part.DIRECTORY, Offer(1))
    assert sends(m0.peers.handle(other, now(world)))


def sends(effects) -> list[Send]:
    return [effect for effect in effects if isinstance(effect, Send)]


def test_nobody_may_fetch_everything_for_ever():
    world = joined(2)
    m0 = world.machines["m0"]
    publish(world, "m0", EntryKind.AD, bytes(48 << 10))
    world.run_until(world.now_s + 20.0)
    row = m0.peers.table.digest.row(EntryKey("m0", EntryKind.AD))
    ask = Delivered("m1", Part.DIRECTORY, Wanted((row,) * ROWS_A_MESSAGE_MAX))

    sent_bytes = 0
    for _ in range(100):
        for send in sends(m0.peers.handle(ask, now(world))):
            sent_bytes += len(msgspec.msgpack.encode(send.message))

    assert sent_bytes <= 21 << 20


def test_an_outline_of_another_shape_is_named():
    world = joined(2)
    m0 = world.machines["m0"]
    m0.peers.handle(Delivered("m1", Part.DIRECTORY, Outline((1, 2, 3))), now(world))
    assert ("malformed-outline", "m1") in m0.peers.incidents.counts


def test_certificates_travel_before_what_they_prove():
    world = PeerWorld(1, needs_certificates=True)
    for number in range(6):
        world.add(f"m{number}", ["m0"] if number else [])
        certificate = KeyedSigner(world.seed, f"m{number}").certificate
        publish(world, f"m{number}", EntryKind.CERTIFICATE, certificate)

    assert world.run_until_true(
        lambda: all(len(machine.peers.members) == 5 for machine in world.up()), MEANWHILE_S
    )
    assert have_one_table(world)


def test_publishing_again_and_again_is_paced():
    world = joined(2)
    m0 = world.machines["m0"]
    before = m0.peers.table.get(EntryKey("m0", EntryKind.MEMBER)).version
    for number in range(100):
        publish(world, "m0", EntryKind.AD, b"%d" % number)
        world.run_until(world.now_s + 0.1)
    world.run_until(world.now_s + 6.0)

    assert have(world, "m0", EntryKind.AD, b"99")
    assert m0.peers.table.get(EntryKey("m0", EntryKind.AD)).version - before <= 4  # one each 5 s


def test_an_ad_is_refreshed_and_one_of_a_dead_machine_vanishes_by_itself():
    world = joined(3)
    publish(world, "m1", EntryKind.AD, b"one")
    publish(world, "m2", EntryKind.AD, b"two")
    world.run_until(world.now_s + 10.0)
    world.crash("m2")
    world.run_until(world.now_s + 1900.0)

    m0 = world.machines["m0"].peers
    assert m0.table.get(EntryKey("m1", EntryKind.AD)) is not None
    assert m0.table.get(EntryKey("m2", EntryKind.AD)) is None
    assert m0.members["m2"].state is MemberState.DEAD
    hours_later = world.machines["m0"].clock.at(world.now_s + MEMBER_LIFETIME_S)
    m0.handle(Wake(Part.DIRECTORY), hours_later)
    assert "m2" not in m0.members


def test_usage_is_known_to_all_and_outlives_the_machine_that_counted():
    world = joined(6)
    ann = Account("lab", "ann")
    wall_s = now(world).wall_s
    usage = DecayedCounter(604_800.0).charged(3600.0, 0.0, wall_s)
    row = LedgerRow(ann, usage.counter, usage.epoch_wall_s, 1, 3600.0)
    batch = LedgerBatch(0, wall_s, (BatchRow.of(row),))
    publish(world, "m2", EntryKind.LEDGER, batch_body(batch))
    world.run_until(world.now_s + 10.0)

    world.crash("m2")
    world.run_until(world.now_s + 300.0)
    world.add("late", ["m4"])
    world.run_until(world.now_s + 10.0)

    peers = world.machines["late"].peers
    ledger = Ledger(Decay(604_800.0))
    for entry in filter(lambda each: each.kind is EntryKind.LEDGER, peers.table):
        age_s = peers.table.carried(entry.key, now(world)).age_s
        assert ledger.merge_entry(entry.machine, entry.body, age_s, now(world)).code == ""
    assert use_of(ledger, wall_s).get(ann, 0.0) == pytest.approx(3600.0)


@given(
    st.lists(st.tuples(st.integers(0, 5), st.binary(max_size=40), st.floats(0, 4)), max_size=20),
    st.integers(0, 1000),
    st.sampled_from([0.0, 0.2]),
)
@settings(max_examples=15, deadline=None)
def test_whatever_is_published_all_tables_become_one(published, seed, loss):
    world = PeerWorld(seed, Ways(loss=loss, through_wire=True))
    for number in range(6):
        world.add(f"m{number}", ["m0"] if number else [], is_outward_only=number == 5)
    last = {}
    for number, body, pause_s in published:
        publish(world, f"m{number}", EntryKind.AD, body)
        last[f"m{number}"] = body
        world.run_until(world.now_s + pause_s)
    world.run_until(world.now_s + 6.0)  # the pace of ads

    assert world.run_until_true(lambda: have_one_table(world), world.now_s + 60.0)
    for name, body in last.items():
        assert have(world, name, EntryKind.AD, body)
    assert codes(world) == set()
