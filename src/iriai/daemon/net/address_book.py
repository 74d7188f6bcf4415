"""Addresses of the other machines of the cluster, from membership and join seeds."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from typing import Protocol

from iriai.protocol.messages.members import Member, MemberState

AWAY_MAX = 2_000
"""Machines taken for dead whose addresses are kept: as many as a directory holds (spec 006)."""


class AddressBook(Protocol):
    """Addresses and relays for dialling."""

    def is_member(self, machine: str) -> bool:
        """Whether a machine takes part, by what is known."""
        ...

    def is_known(self, machine: str) -> bool:
        """Whether it takes part, or did until it was taken for dead: it may be there again."""
        ...

    def addresses(self, machine: str) -> tuple[str, ...]:
        """Where it listens, `host:port` each, the best first."""
        ...

    def is_outward_only(self, machine: str) -> bool:
        """Whether it is reached through relays alone."""
        ...

    def is_at(self, host: str) -> bool:
        """Whether another member says that it listens at this host name or address."""
        ...

    def relays(self, machine: str) -> list[str]:
        """Members that may lead to an outward-only machine, in the order in which it takes them."""
        ...


def relay_order(machine: str, members: Iterable[str]) -> list[str]:
    """Members by rendezvous hashing, as everybody computes it (docs/spec/005, section 4).

    Thaler and Ravishankar, "Using name-based mappings to increase hit rates", 1998: a member more
    or less changes the order of the others in nothing.
    """

    def weight(member: str) -> bytes:
        return blake2b(f"{machine}\0{member}".encode(), digest_size=16).digest()

    return sorted((each for each in members if each != machine), key=weight, reverse=True)


class MemberBook:
    """An `AddressBook` filled by membership."""

    def __init__(self, name: str) -> None:
        """`name` is this machine's."""
        self._name = name
        self._members: dict[str, Member] = {}
        self._hosts: frozenset[str] | None = None
        self._away: dict[str, Member] = {}
        """Taken for dead. Their addresses are kept: machines that were cut off from each other take
        each other for dead, and find each other again by being dialled."""

    def update(self, members: Iterable[Member]) -> None:
        """These are as they are now."""
        self._hosts = None
        for member in members:
            self._members.pop(member.name, None)
            self._away.pop(member.name, None)
            if member.is_present:
                self._members[member.name] = member
            elif member.state is MemberState.DEAD:
                self._away[member.name] = member
        for name in list(self._away)[:-AWAY_MAX]:
            del self._away[name]

    @property
    def is_empty(self) -> bool:
        """Whether no other machine is known."""
        return not self._members.keys() - {self._name}

    def is_member(self, machine: str) -> bool:
        """Whether a machine takes part, by what is known."""
        return machine in self._members

    def is_known(self, machine: str) -> bool:
        """Whether it takes part, or did until it was taken for dead."""
        return machine in self._members or machine in self._away

    def addresses(self, machine: str) -> tuple[str, ...]:
        """Where it listens, or did."""
        member = self._find(machine)
        return member.addresses if member else ()

    def is_outward_only(self, machine: str) -> bool:
        """Whether it is reached through relays alone."""
        member = self._find(machine)
        return member is not None and member.is_outward_only

    def is_at(self, host: str) -> bool:
        """Whether another member says that it listens there, or did."""
        if self._hosts is None:
            known = [*self._members.values(), *self._away.values()]
            self._hosts = frozenset(
                address.rpartition(":")[0].strip("[]")
                for member in known
                if member.name != self._name
                for address in member.addresses
            )
        return host in self._hosts

    def _find(self, machine: str) -> Member | None:
        return self._members.get(machine) or self._away.get(machine)

    def relays(self, machine: str) -> list[str]:
        """The members that can be dialled, in the order of `relay_order`."""
        open_ones = [each.name for each in self._members.values() if not each.is_outward_only]
        return relay_order(machine, open_ones)
