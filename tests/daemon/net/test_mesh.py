"""Machines that find each other by name: links made, kept, given up and made again."""

import asyncio

import pytest
from msgspec.structs import replace

from iriai.daemon.net import mesh as mesh_module
from iriai.links import address_book
from iriai.links import core as core_module
from iriai.links.address_book import relay_order
from iriai.links.peer_connection import RETRY_MIN_S
from iriai.protocol.messages.members import MemberState
from tests.support.loops import until
from tests.support.meshes import Meshed, story


def test_what_is_said_arrives_in_order_and_both_ways(tmp_path):
    async def body(meshes):
        ume, take = meshes.add("ume", "take")
        ume.say("take", *range(100))
        await until(lambda: len(take.heard()) == 100)
        assert take.heard("ume") == list(range(100))
        take.say("ume", 7)
        await until(lambda: ume.heard() == [7])
        assert ume.told() == [("LinkUp", "take")]
        assert take.told() == [("LinkUp", "ume")]

    story(tmp_path, body)


def test_two_that_dial_each_other_at_once_end_with_one_link(tmp_path):
    async def body(meshes):
        names = [f"m{number}" for number in range(6)]
        machines = meshes.add(*names)
        for machine in machines:
            for name in names:
                if name != machine.name:
                    machine.say(name, 1)
        everybody = [(m, [n for n in names if n != m.name]) for m in machines]
        await until(lambda: all(len(m.heard()) == 5 for m, _ in everybody))
        await until(lambda: all(m.is_linked(*others) for m, others in everybody))
        # Nothing was replaced: each was told of each other once.
        for machine, others in everybody:
            assert sorted(machine.told()) == sorted(("LinkUp", name) for name in others)

    story(tmp_path, body)


def test_a_link_that_breaks_is_made_again_and_both_are_told(tmp_path):
    async def body(meshes):
        ume, take = meshes.add("ume", "take")
        ume.say("take", 1)
        await until(lambda: take.heard() == [1])
        ume.link_with("take").end("pulled out")
        up_down_up = [("LinkUp", "take"), ("LinkDown", "take"), ("LinkUp", "take")]
        await until(lambda: ume.told() == up_down_up and take.is_linked("ume"))
        ume.say("take", 2)
        await until(lambda: take.heard() == [1, 2])
        assert take.told()[-1] == ("LinkUp", "ume")

    story(tmp_path, body)


def test_an_idle_link_is_closed_and_nobody_is_told(tmp_path, monkeypatch):
    async def body(meshes):
        ume, take = meshes.add("ume", "take")
        ume.say("take", 1)
        await until(lambda: take.heard() == [1])
        monkeypatch.setattr(core_module, "IDLE_S", 0.0)
        await until(lambda: not ume.is_linked("take") and not take.is_linked("ume"))
        await until(lambda: not ume.mesh.core.parting and not take.mesh.core.parting)
        monkeypatch.undo()
        take.say("ume", 2)
        await until(lambda: ume.heard() == [2])
        assert (ume.told(), take.told()) == ([("LinkUp", "take")], [("LinkUp", "ume")])

    story(tmp_path, body)


def test_what_waits_in_vain_is_lost_and_a_machine_that_comes_later_is_told_of(
    tmp_path, monkeypatch
):
    monkeypatch.setattr("iriai.links.peer_connection.HELD_S", 0.0)

    async def body(meshes):
        ume, take = meshes.add("ume", "take")
        gone = replace(take.member, addresses=("127.0.0.1:1",))
        ume.book.update([gone])
        ume.say("take", 1)
        await until(lambda: not ume.mesh.core.peers["take"].held)
        monkeypatch.undo()
        ume.book.update([take.member])
        ume.mesh.members_changed(["take"])
        ume.say("take", 2)
        await until(take.heard)
        assert take.heard() == [2]
        assert ume.told() == [("LinkUp", "take")]

    story(tmp_path, body)


def test_machines_that_can_only_dial_are_reached_and_reach_each_other(tmp_path):
    async def body(meshes):
        ume, take, matsu = meshes.add("ume", "take", "matsu")
        kiku, ran = meshes.add("kiku", "ran", is_outward_only=True)
        ume.say("kiku", 1)
        kiku.say("ume", 2)
        kiku.say("ran", 3)
        ran.say("kiku", 4)
        await until(lambda: sorted(kiku.heard()) == [1, 4])
        await until(lambda: ume.heard() == [2] and ran.heard() == [3])
        assert ran.mesh.core.peers["kiku"].is_direct is False
        carried = [m.mesh.core.circuits.relay.carried_bytes for m in (ume, take, matsu)]
        assert sum(carried) > 0

    story(tmp_path, body)


def test_when_a_relay_dies_another_one_serves(tmp_path):
    async def body(meshes):
        machines = {m.name: m for m in meshes.add("ume", "take", "matsu")}
        kiku, ran = meshes.add("kiku", "ran", is_outward_only=True)
        ran.say("kiku", 1)
        await until(lambda: kiku.heard() == [1])
        carrying = [m for m in machines.values() if m.mesh.core.circuits.relay.circuits]
        for machine in carrying:
            machine.mesh.close()
            dead = replace(machine.member, state=MemberState.DEAD)
            for other in (*machines.values(), kiku, ran):
                other.book.update([dead])
        await until(lambda: ("LinkDown", "kiku") in ran.told())
        await until(lambda: ran.is_linked("kiku"))
        ran.say("kiku", 2)
        await until(lambda: kiku.heard()[-1] == 2)

    story(tmp_path, body)


def test_a_machine_that_can_only_dial_keeps_links_with_its_relays(tmp_path, monkeypatch):
    monkeypatch.setattr(core_module, "IDLE_S", 0.0)

    async def body(meshes):
        open_ones = meshes.add(*(f"m{number}" for number in range(5)))
        [kiku] = meshes.add("kiku", is_outward_only=True)
        relays = relay_order("kiku", [each.name for each in open_ones])[:2]
        await until(lambda: kiku.is_linked(*relays))
        others = [each.name for each in open_ones if each.name not in relays]
        kiku.say(others[0], 1)
        await until(lambda: meshes.machines[others[0]].heard() == [1])
        await until(lambda: not kiku.is_linked(others[0]))  # idle, and no relay of its own
        assert kiku.is_linked(*relays)

    story(tmp_path, body)


def test_the_order_of_relays_changes_in_nothing_when_a_member_comes():
    members = [f"m{number}" for number in range(50)]
    before = relay_order("kiku", members)
    after = relay_order("kiku", [*members, "new"])
    assert [name for name in after if name != "new"] == before
    assert relay_order("kiku", reversed(members)) == before
    firsts = {relay_order(f"out{number}", members)[0] for number in range(200)}
    assert len(firsts) > 40  # the work is spread


def test_a_machine_that_started_again_is_told_of(tmp_path):
    async def body(meshes):
        ume, take = meshes.add("ume", "take")
        ume.say("take", 1)
        await until(lambda: take.heard() == [1])
        take.mesh.close()
        reborn = Meshed(take.trusted, is_outward_only=False, instance="take-2")
        meshes.machines["take"] = reborn
        reborn.mesh.begin()
        meshes.meet(meshes.machines.values())
        ume.mesh.members_changed(["take"])
        await until(lambda: ume.told().count(("LinkUp", "take")) == 2)
        ume.say("take", 2)
        await until(lambda: reborn.heard() == [2])

    story(tmp_path, body)


def test_two_of_one_name_break_each_others_links_ever_more_slowly(tmp_path):
    async def body(meshes):
        ume, take = meshes.add("ume", "take")
        copy = Meshed(take.trusted, is_outward_only=False, instance="copy")
        copy.book.update([ume.member])
        try:
            take.say("ume", 1)
            await until(lambda: ume.heard() == [1])
            copy.say("ume", 2)
            both = [each.mesh.core.peers["ume"] for each in (take, copy)]
            # Links are made all the time: that alone is no reason to be quick again.
            await until(lambda: all(each.pause_s >= 8 * RETRY_MIN_S for each in both))
        finally:
            copy.mesh.close()

    story(tmp_path, body)


def test_after_a_link_that_lasted_attempts_begin_anew(tmp_path, monkeypatch):
    async def body(meshes):
        ume, take = meshes.add("ume", "take")
        ume.say("take", 1)
        await until(lambda: take.heard() == [1])
        neighbour = ume.mesh.core.peers["take"]
        neighbour.pause_s = 10.0
        monkeypatch.setattr("iriai.links.peer_connection.LASTED_S", 0.0)
        ume.link_with("take").end("pulled out")
        await until(lambda: ume.is_linked("take"))
        assert neighbour.pause_s < 10.0  # else it would be doubled

    story(tmp_path, body)


def test_an_ejected_machine_is_cut_off_and_stays_out(tmp_path):
    async def body(meshes):
        ume, take = meshes.add("ume", "take")
        ume.say("take", 1)
        await until(lambda: take.heard() == [1])

        def refuse(certificate):
            raise mesh_module.Problem("ejected", "take was ejected by ann")

        object.__setattr__(ume.passport, "check_peer", refuse)
        ume.mesh.trust_changed()
        await until(lambda: not ume.is_linked("take"))
        take.say("ume", 2)
        await until(lambda: "ejected by ann" in take.mesh.core.peers["ume"].problem)
        assert ume.heard() == []
        assert any("ejected" in row for row in ume.mesh.core.violations.rows(0.0))

    story(tmp_path, body)


@pytest.mark.parametrize("size", [10, 3_000_000])
def test_texts_travel_through_relays_too(tmp_path, size):
    from iriai.model.text_digest import digest_of
    from tests.daemon.net.test_link import run as run_message

    text = bytes(range(256)) * (size // 256 + 1)
    digest = digest_of(text)

    async def body(meshes):
        meshes.add("ume", "take")
        kiku, ran = meshes.add("kiku", "ran", is_outward_only=True)
        kiku.store[digest] = text
        send = run_message(1, script=digest)
        kiku.mesh.send([mesh_module.Send("ran", send.part, send.message)])
        await until(lambda: ran.events and ran.texts)
        assert ran.texts == [("kiku", ((digest, text),), False)]
        await asyncio.sleep(0)

    story(tmp_path, body)


def test_who_was_taken_for_dead_is_dialled_when_there_is_something_to_say(tmp_path):
    async def body(meshes):
        ume, take, matsu = meshes.add("ume", "take", "matsu")
        dead = replace(take.member, state=MemberState.DEAD)
        left = replace(matsu.member, state=MemberState.LEFT)
        ume.book.update([dead, left])
        assert not ume.book.is_member("take")
        assert not ume.book.is_known("matsu")
        ume.say("matsu", 1)
        ume.say("take", 1)
        await until(lambda: take.heard() == [1])
        assert not ume.is_linked("matsu")

    story(tmp_path, body)


def test_the_addresses_of_very_many_dead_machines_are_not_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(address_book, "DEAD_MAX", 2)

    async def body(meshes):
        (ume,) = meshes.add("ume")
        ume.book.update(
            replace(ume.member, name=name, state=MemberState.DEAD) for name in ("a", "b", "c")
        )
        assert [name for name in "abc" if ume.book.is_known(name)] == ["b", "c"]

    story(tmp_path, body)


def test_an_address_that_nobody_could_look_up_is_no_address(tmp_path):
    async def body(meshes):
        ume, take = meshes.add("ume", "take")
        unspeakable = (f"{'x' * 64}.lab:6174", "a..b:6174")
        ume.book.update([replace(take.member, addresses=unspeakable)])
        ume.say("take", 1)
        await until(lambda: "is not an address" in ume.mesh.core.peers["take"].problem)
        ume.book.update([take.member])
        ume.mesh.members_changed(["take"])
        await until(take.heard)

    story(tmp_path, body)
