"""Laws of the core of links, between two machines."""

from __future__ import annotations

from functools import partial
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from iriai.links.address_book import AddressBook
from iriai.links.attempt import UNREACHED, NotReached
from iriai.links.core import ON_HOST_PAUSE_S, LinkCore, OwnCard
from iriai.links.effects import Dial, LinkEffect, PollIn, Seek
from iriai.model.instant import Instant
from iriai.protocol.messages.effects import LinkUp, Part, Send
from iriai.protocol.messages.gossip import Probe
from iriai.protocol.messages.members import Member, MemberState
from tests.sim.linking import LinkedMachine, LinkWorld

NO_ANSWER_S = 3.0
"""A machine that is no longer at an address does not refuse a connection there."""
MOMENTS_S = st.lists(st.floats(0.0, 0.5), min_size=1, max_size=4)


@settings(max_examples=200, deadline=None)
@given(ours=MOMENTS_S, theirs=MOMENTS_S, delay_s=st.sampled_from([0.001, 0.05, 0.2]))
def test_two_that_dial_each_other_at_any_moments_have_one_link_and_it_never_breaks(
    ours, theirs, delay_s
):
    world = LinkWorld(1, delay_s)
    ann, bob = world.add("ann", "ann:1"), world.add("bob", "bob:1")
    world.meet()
    for moments, one, other in ((ours, ann, bob), (theirs, bob, ann)):
        for at_s in moments:
            world.agenda.at(at_s, partial(one.send, other.name))
    world.agenda.run_until(5.0)
    for one, other, moments in ((ann, bob, theirs), (bob, ann, ours)):
        assert [type(event) for _, event in one.told] == [LinkUp]
        assert len(one.received) == len(moments)
        session = one.core.peers[other.name].link
        assert session is not None
        far = one.ends[session].far
        assert far is not None
        assert far.session is other.core.peers[one.name].link


@settings(deadline=None)
@given(answering=st.lists(st.booleans(), min_size=1, max_size=6).filter(any))
def test_addresses_are_tried_in_turn_and_that_which_answered_first_the_next_time(answering):
    world = LinkWorld(1)
    addresses = [f"take:{port}" for port in range(len(answering))]
    ume, take = world.add("ume"), world.add("take", *addresses)
    for address, answers in zip(addresses, answering, strict=True):
        if not answers:
            del world.at[address]
    world.meet()
    dialled = orders_of(ume)
    ume.send("take")
    world.agenda.run_until(2.0)
    worked = answering.index(True)
    assert [each.address for each in dialled] == addresses[: worked + 1]
    assert len(take.received) == 1
    world.break_connections("ume", "take")
    world.agenda.run_until(4.0)
    assert dialled[worked + 1].address == addresses[worked]


@pytest.mark.parametrize("seed", range(1, 21))
def test_a_machine_that_moved_is_linked_again_while_the_other_dials_its_old_address(seed):
    world = LinkWorld(seed)
    ann, bob = world.add("ann", "ann:1"), world.add("bob", "bob:1")
    world.meet()
    ann.send("bob")
    world.agenda.run_until(1.0)
    del world.at["bob:1"]

    def dial(order: Dial) -> None:
        token = object()
        ann.dials[order.machine] = (token, None)
        world.agenda.after(NO_ANSWER_S, partial(ann._connect, order, token))

    ann._dial = dial  # type: ignore[method-assign]
    world.break_connections("ann", "bob")
    world.agenda.run_until(21.0)
    assert bob.core.peers["ann"].link is not None


def orders_of(machine: LinkedMachine) -> list[Dial]:
    """Each `Dial` that a machine performs from now on."""
    found: list[Dial] = []
    whole = machine._perform

    def perform(order: LinkEffect) -> None:
        if isinstance(order, Dial):
            found.append(order)
        whole(order)

    machine._perform = perform  # type: ignore[method-assign]
    return found


def test_a_front_end_that_restarts_again_and_again_is_dialled_within_seconds():
    """Over a network the pauses grow: a machine that breaks its links at once has a reason."""
    book = AddressBook("b1", {"front": "unix:/links.sock"})
    book.update([Member("front", 1, MemberState.ALIVE, "front")])
    core = LinkCore(OwnCard("b1", "", ""), book, Random(1), is_outward_only=True)
    now, due_s = Instant(0.0, 0.0), list[float]()
    orders = core.poll(now)
    for _ in range(20):
        assert Dial("front", "unix:/links.sock") in orders
        orders = core.missed("front", NotReached(UNREACHED, "nobody listens"), now)
        due_s += [each.delay_s for each in orders if isinstance(each, PollIn)]
        now = Instant(now.steady_s + due_s[-1], 0.0)
        orders = core.poll(now)
    assert max(due_s) <= ON_HOST_PAUSE_S


def test_a_machine_of_another_cluster_is_sought_and_messages_wait_for_it():
    book = AddressBook("own", cluster="east")
    core = LinkCore(OwnCard("own", "", ""), book, Random(1))
    now, send = Instant(0.0, 0.0), Send("oni", Part.MEMBERSHIP, Probe(1))
    assert core.send([send], now) == [], "in a site of one cluster nobody else can have it"
    gateway = Member("w1", 1, MemberState.ALIVE, "lab", ("w1:1",), cluster_name="west")
    book.update([gateway])
    assert Seek("oni") in core.send([send], now)
    book.update([replace(gateway, name="oni", addresses=("oni:1",))])
    assert core.members_changed(["oni"], now) == [Dial("oni", "oni:1")]
    orders = core.missed("oni", NotReached(UNREACHED, "it moved"), now)
    assert Seek("oni") in orders
