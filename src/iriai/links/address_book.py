"""Addresses of the other machines of the cluster, from membership and join seeds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import blake2b

from iriai.protocol.messages.members import Member, MemberState

DEAD_MAX = 2_000
"""Dead machines whose addresses are kept: as many as a directory holds (spec 006)."""


def relay_order(machine: str, members: Iterable[str]) -> list[str]:
    """Return the other members by rendezvous hashing, alike everywhere (docs/spec/005, section 4).

    Thaler and Ravishankar, "Using name-based mappings to increase hit rates", 1998: the
    order of the others stays when a member comes or goes.
    """

    def weight(member: str) -> bytes:
        return blake2b(f"{machine}\0{member}".encode(), digest_size=16).digest()

    return sorted((each for each in members if each != machine), key=weight, reverse=True)


class AddressBook:
    """Addresses and relays for dialling, from the membership."""

    def __init__(
        self, name: str, on_host: Mapping[str, str] | None = None, *, cluster: str = ""
    ) -> None:
        """`name` is this machine's, `cluster` what its part of the site is called.

        `on_host` are addresses of machines within its host.
        """
        self._name = name
        self._cluster = cluster
        self._on_host = on_host or {}
        self._members: dict[str, Member] = {}
        self._elsewhere: dict[str, None] = {}
        """The members that are of other clusters: their gateways, and those that were located."""
        self._hosts: frozenset[str] | None = None
        self._reached: dict[str, str] = {}
        """The address at which each was reached last."""
        self._dead: dict[str, Member] = {}
        """Dead members. Their addresses stay, because machines that were cut off from one another
        see each other as dead, and meet again only by dialling."""

    def begin(self, seeds: Iterable[Member]) -> None:
        """Begin with the members of an earlier start, each address in the order to try it."""
        for seed in seeds:
            self.update((seed,))
            for address in seed.addresses[:1]:
                self.reached(seed.name, address)

    def update(self, members: Iterable[Member]) -> None:
        """Replace what is known of these members."""
        self._hosts = None
        for member in members:
            self._members.pop(member.name, None)
            self._elsewhere.pop(member.name, None)
            self._dead.pop(member.name, None)
            if member.is_present:
                self._members[member.name] = member
                if not self._is_of(member, self._cluster):
                    self._elsewhere[member.name] = None
            elif member.state is MemberState.DEAD:
                self._dead[member.name] = member
            else:
                self._reached.pop(member.name, None)
        for name in list(self._dead)[:-DEAD_MAX]:
            del self._dead[name]
            self._reached.pop(name, None)

    def is_member(self, machine: str) -> bool:
        """Whether a machine is a member, as far as known here."""
        return machine in self._members

    def is_known(self, machine: str) -> bool:
        """Whether a machine is a member, or was one until it was seen as dead; it may come back."""
        return machine in self._members or machine in self._dead

    def is_elsewhere(self, machine: str) -> bool:
        """Whether a machine is of another cluster, as far as known: it may have moved since."""
        is_own = machine in self._members and machine not in self._elsewhere
        return bool(self._elsewhere) and not is_own

    def may_reach(self, machine: str) -> bool:
        """Whether a machine is known, or may be of another cluster that can be asked for it."""
        return self.is_known(machine) or self.is_elsewhere(machine)

    def addresses(self, machine: str) -> tuple[str, ...]:
        """Return where a machine listens or listened, `host:port` each, the best first.

        That is the one at which it was reached last, if it still tells that one. A machine within
        this host is reached there alone.
        """
        if machine in self._on_host:
            return (self._on_host[machine],)
        member = self._find(machine)
        told = member.addresses if member else ()
        best = self._reached.get(machine)
        return (best, *(each for each in told if each != best)) if best in told else told

    def reached(self, machine: str, address: str) -> None:
        """Note the address at which a machine was reached."""
        self._reached[machine] = address

    def is_on_host(self, machine: str) -> bool:
        """Whether a machine is dialled within this host."""
        return machine in self._on_host

    def is_outward_only(self, machine: str) -> bool:
        """Whether a machine is reached through relays alone."""
        member = self._find(machine)
        return member is not None and member.is_outward_only

    def is_at(self, host: str) -> bool:
        """Whether another member lists, or listed, this host among its addresses."""
        if self._hosts is None:
            known = [*self._members.values(), *self._dead.values()]
            self._hosts = frozenset(
                address.rpartition(":")[0].strip("[]")
                for member in known
                if member.name != self._name
                for address in member.addresses
            )
        return host in self._hosts

    def _find(self, machine: str) -> Member | None:
        return self._members.get(machine) or self._dead.get(machine)

    def relays(self, machine: str) -> list[str]:
        """Return the members of its cluster that can be dialled, in `relay_order` for it."""
        member = self._find(machine)
        cluster = member.cluster_called if member and member.incarnation else self._cluster
        dialled = [
            each.name
            for each in self._members.values()
            if not each.is_outward_only and self._is_of(each, cluster)
        ]
        return relay_order(machine, dialled)

    @staticmethod
    def _is_of(member: Member, cluster: str) -> bool:
        """Whether a member is of a cluster; of a stored seed that is not known yet."""
        return not (cluster and member.incarnation) or member.cluster_called == cluster
