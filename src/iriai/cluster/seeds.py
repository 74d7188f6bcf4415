"""Members with which this machine begins again after a restart.

The machine through which it joined may be gone for good. Of a large cluster some are enough: from
there on membership knows them all.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from iriai.links.address_book import relay_order
from iriai.model.seed import SEEDS_MAX, Seed
from iriai.protocol.messages.members import Member, MemberState


def members_to_keep(name: str, members: Iterable[Member], before: Sequence[Seed]) -> list[Seed]:
    """Return the members with which the machine `name` starts the next time.

    Online members with an address come first, in an order that differs between machines, so that
    machines of a large cluster store different ones; then those of `before`, unless they left.
    """
    known = {member.name: member for member in members}
    there = [m.name for m in known.values() if m.is_present and m.addresses]
    found = [Seed(each, known[each].addresses) for each in relay_order(name, there)]
    left = {each for each, member in known.items() if member.state is MemberState.LEFT}
    done = {*there, *left, name}
    return [*found, *(seed for seed in before if seed.name not in done)][:SEEDS_MAX]


def seed_member(seed: Seed, cluster: str) -> Member:
    """Return the member for a stored seed, until the machine publishes more of itself."""
    outward = seed.is_outward_only
    return Member(seed.name, 0, MemberState.ALIVE, cluster, seed.addresses, is_outward_only=outward)
