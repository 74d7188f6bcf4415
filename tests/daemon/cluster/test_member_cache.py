"""Whom a machine begins with after a restart."""

import asyncio

from iriai.daemon.cluster import member_cache as kept_members_module
from iriai.daemon.cluster.member_cache import MemberCache, members_to_keep
from iriai.identity.storage.cluster_files import SEEDS_MAX, SeedMember
from iriai.model.problem import Problem
from iriai.protocol.messages.members import Member, MemberState
from tests.support.loops import in_loop, until


def member(name: str, state: MemberState = MemberState.ALIVE, **other) -> Member:
    known = {"addresses": (f"{name}:6174",)} | other
    return Member(name, 1, state, "lab", **known)


def seed(name: str) -> SeedMember:
    return SeedMember(name, (f"{name}:6174",))


def names(seeds) -> list[str]:
    return sorted(each.name for each in seeds)


def test_those_that_are_there_are_kept_and_the_one_it_joined_through_stays():
    kept = members_to_keep("ran", [member("kiku"), member("matsu")], [seed("ume")])
    assert names(kept) == ["kiku", "matsu", "ume"]
    assert kept[-1] == seed("ume")


def test_where_nobody_can_be_reached_those_of_before_stay():
    dead = [member("ume", MemberState.DEAD), member("kiku", MemberState.DEAD)]
    before = [seed("ume"), seed("kiku")]
    assert members_to_keep("ran", dead, before) == before


def test_who_left_and_who_cannot_be_dialled_is_not_kept():
    known = [
        member("ume", MemberState.LEFT),
        member("kiku", addresses=(), is_outward_only=True),
        member("matsu"),
    ]
    assert names(members_to_keep("ran", known, [seed("ume"), seed("ran")])) == ["matsu"]


def test_an_address_that_changed_is_kept_as_it_is_now():
    moved = member("kiku", addresses=("kiku.new:7000",))
    assert members_to_keep("ran", [moved], [seed("kiku")]) == [
        SeedMember("kiku", ("kiku.new:7000",))
    ]


def test_of_a_large_cluster_each_keeps_as_many_as_are_of_use_and_not_all_the_same():
    everybody = [member(f"m{number:03}") for number in range(500)]
    ours, theirs = (members_to_keep(name, everybody, []) for name in ("ran", "ume"))
    assert len(ours) == len(theirs) == SEEDS_MAX
    assert names(ours) != names(theirs)


class OnDisk:
    """The cluster's files, which can be full."""

    def __init__(self) -> None:
        self.written = []
        self.is_full = False

    def seeds(self) -> list[SeedMember]:
        return self.written[-1] if self.written else []

    def exist(self) -> bool:
        return True

    def keep_seeds(self, seeds) -> None:
        if self.is_full:
            raise Problem("full", "the disk is full")
        self.written.append(seeds)


class AtOnce:
    """Performs what belongs into a thread."""

    def in_thread(self, ask, tell) -> None:
        future = asyncio.get_running_loop().create_future()
        try:
            future.set_result(ask())
        except Problem as problem:
            future.set_exception(problem)
        tell(future)


def test_many_changes_are_one_write_and_one_that_failed_is_made_again(monkeypatch):
    ranked = []

    def counted(name, members, before):
        ranked.append(name)
        return members_to_keep(name, members, before)

    monkeypatch.setattr(kept_members_module, "members_to_keep", counted)
    monkeypatch.setattr(kept_members_module, "PAUSE_S", 0.0)

    async def body() -> None:
        files, members = OnDisk(), {}
        kept = MemberCache("ran", files, AtOnce(), lambda: dict(members))
        for number in range(100):
            members[str(number)] = member(f"m{number:02}")
            kept.changed()
        assert ranked == []
        files.is_full = True
        await until(lambda: ranked)
        files.is_full = False
        kept.changed()
        await until(lambda: files.written)
        assert (len(ranked), len(files.written)) == (2, 1)
        kept.close()  # all is kept: nothing is written
        assert len(files.written) == 1

    in_loop(body)
