"""Members known before a restart, with which this machine begins again.

The machine through which it joined may be gone for good. Of a large cluster some are enough: from
there on membership knows them all.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from iriai.daemon.loop.engine import Engine
from iriai.daemon.net.address_book import relay_order
from iriai.identity.storage.cluster_files import SEEDS_MAX, ClusterFiles, SeedMember
from iriai.model.problem import Problem
from iriai.protocol.messages.members import Member, MemberState

log = logging.getLogger(__name__)

PAUSE_S = 60.0
"""Between two writes: who comes and goes within a minute is not worth one each."""


def members_to_keep(
    name: str, members: Iterable[Member], before: Sequence[SeedMember]
) -> list[SeedMember]:
    """Return the members with which the machine `name` starts the next time.

    Online members with an address come first, in an order that differs between machines, so that
    machines of a large cluster store different ones; then those of `before`, unless they left.
    """
    known = {member.name: member for member in members}
    there = [m.name for m in known.values() if m.is_present and m.addresses]
    found = [SeedMember(each, known[each].addresses) for each in relay_order(name, there)]
    kept = {seed.name for seed in found} | {name}
    for seed in before:
        member = known.get(seed.name)
        has_left = member is not None and member.state is MemberState.LEFT
        if seed.name not in kept and not has_left:
            found.append(seed)
    return found[:SEEDS_MAX]


class MemberCache:
    """Stores known members in the cluster's files."""

    def __init__(
        self,
        name: str,
        files: ClusterFiles,
        engine: Engine,
        members: Callable[[], Mapping[str, Member]],
    ) -> None:
        """`members` returns all known members by name, as they are when it is called."""
        self._name = name
        self._files = files
        self._engine = engine
        self._members = members
        self._loop = asyncio.get_running_loop()
        self._kept = files.seeds()
        """As they are on disk."""
        self._writing: asyncio.TimerHandle | None = None

    def changed(self) -> None:
        """Write the members soon: when a large cluster starts they change hundreds of times."""
        if self._writing is None:
            self._writing = self._loop.call_later(PAUSE_S, self._write)

    def close(self) -> None:
        """Write the members now, unless this machine has left the cluster."""
        if self._writing is not None:
            self._writing.cancel()
        wanted = self._wanted()
        if wanted != self._kept and self._files.exist():
            try:
                self._files.keep_seeds(wanted)
            except Problem as problem:
                log.warning("the list of members cannot be stored: %s", problem)

    def _write(self) -> None:
        """Write in a thread, since a disk may be slow."""
        self._writing = None
        wanted = self._wanted()
        if wanted != self._kept:
            self._engine.in_thread(
                lambda: self._files.keep_seeds(wanted), partial(self._written, wanted)
            )

    def _wanted(self) -> list[SeedMember]:
        """Return the members to write; this sorts all members."""
        return members_to_keep(self._name, self._members().values(), self._kept)

    def _written(self, seeds: list[SeedMember], result: asyncio.Future[None]) -> None:
        try:
            result.result()
        except Problem as problem:  # the next change has it tried again
            log.warning("the list of members cannot be stored: %s", problem)
        else:
            self._kept = seeds
