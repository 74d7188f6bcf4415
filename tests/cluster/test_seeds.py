"""Whom a machine begins with after a restart."""

from iriai.cluster.seeds import members_to_keep
from iriai.model.seed import SEEDS_MAX, Seed
from iriai.protocol.messages.members import Member, MemberState


def member(name: str, state: MemberState = MemberState.ALIVE, **other) -> Member:
    known = {"addresses": (f"{name}:6174",)} | other
    return Member(name, 1, state, "lab", **known)


def seed(name: str) -> Seed:
    return Seed(name, (f"{name}:6174",))


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
    assert members_to_keep("ran", [moved], [seed("kiku")]) == [Seed("kiku", ("kiku.new:7000",))]


def test_of_a_large_cluster_each_keeps_as_many_as_are_of_use_and_not_all_the_same():
    everybody = [member(f"m{number:03}") for number in range(500)]
    ours, theirs = (members_to_keep(name, everybody, []) for name in ("ran", "ume"))
    assert len(ours) == len(theirs) == SEEDS_MAX
    assert names(ours) != names(theirs)
