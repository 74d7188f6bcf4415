"""Stores what this machine begins with the next time: other members, and its measured uptime."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from functools import partial

from msgspec.structs import replace

from iriai.cluster.seeds import members_to_keep
from iriai.cluster.uptime import Uptime
from iriai.daemon.loop.engine import Engine
from iriai.identity.storage.cluster_files import ClusterFiles
from iriai.model.availability import Steadiness
from iriai.model.problem import Problem
from iriai.model.seed import Seed
from iriai.protocol.messages.members import Member
from iriai.system.clock import now as read_clocks

log = logging.getLogger(__name__)

LOOK_S = 60.0
"""Between two looks: who comes and goes within a minute is not worth a write each."""


class ClusterMemory:
    """What is stored of the cluster across restarts, apart from documents and keys."""

    def __init__(
        self,
        files: ClusterFiles,
        engine: Engine,
        name: str,
        members: Callable[[], Mapping[str, Member]],
        addresses: Callable[[str], tuple[str, ...]],
        on_uptime: Callable[[], None],
    ) -> None:
        """`members` returns all known members, `addresses` those of one, in the order to try them.

        `on_uptime` is called when `uptime.told` changes.
        """
        self.uptime = Uptime(files.availability(), read_clocks("uptime").wall_s)
        self._files = files
        self._engine = engine
        self._name = name
        self._members = members
        self._addresses = addresses
        self._on_uptime = on_uptime
        self._stored = files.seeds()
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """Look every `LOOK_S`."""
        self._timer = asyncio.get_running_loop().call_later(LOOK_S, self._look)

    def close(self) -> None:
        """Look once more, and store what is known."""
        if self._timer is not None:
            self._timer.cancel()
        self.uptime.look(read_clocks("uptime").wall_s)
        try:
            self._store(self._wanted(), self.uptime.known)
        except Problem as problem:
            log.warning("what is known of the cluster cannot be stored: %s", problem)

    def _look(self) -> None:
        if self.uptime.look(read_clocks("uptime").wall_s):
            self._on_uptime()
        seeds = self._wanted()
        if self.uptime.is_due() or seeds != self._stored:  # in a thread, since a disk may be slow
            store = partial(self._store, seeds, self.uptime.known)
            self._engine.in_thread(store, _warn_if_failed)
        self.begin()

    def _wanted(self) -> list[Seed]:
        kept = members_to_keep(self._name, self._members().values(), self._stored)
        return [
            replace(each, addresses=self._addresses(each.name) or each.addresses) for each in kept
        ]

    def _store(self, seeds: list[Seed], known: Steadiness) -> None:
        """Write both, unless this machine has left the cluster. Raises a `Problem`."""
        if not self._files.exist():
            return
        self._files.keep_availability(known)
        if seeds != self._stored:
            self._files.keep_seeds(seeds)
            self._stored = seeds


def _warn_if_failed(result: asyncio.Future[None]) -> None:
    try:
        result.result()
    except Problem as problem:  # the next look tries it again
        log.warning("what is known of the cluster cannot be stored: %s", problem)
