"""Somebody with the identity of a machine of a cluster, who dials the others until they refuse."""

from __future__ import annotations

import asyncio
import secrets
import threading
import time
from collections.abc import Mapping

from harness.live_network import Network, switch_kit, until
from iriai.daemon.dialling import NotReached, dial_address
from iriai.daemon.passport import Passport
from iriai.identity.cluster_state import ClusterState
from iriai.identity.tls import client_context, server_context
from iriai.model.paths import StatePaths

PAUSE_S = 0.1
"""Between two attempts at one machine."""
EJECTED = "ejected"


class Intruder:
    """Dials from the machine's place in the network, from its making until all have refused."""

    def __init__(self, machine: Network, addresses: Mapping[str, str]) -> None:
        """`machine` must not run any more; `addresses` are those of others, by name."""
        self.refused_s: dict[str, float] = {}
        """By machine when it first refused, on the monotonic clock."""
        self._believed: set[str] = set()
        self._addresses = addresses
        state = ClusterState(StatePaths(str(machine.state)).cluster)
        self._passport = Passport(
            state.identity.name,
            secrets.token_hex(16),
            server_context(state.identity, state.trust),
            client_context(state.identity, state.trust),
            state.trust.check_peer,
        )
        self._namespace = machine.namespace
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def await_belief(self) -> None:
        """Return when each has taken it for the machine at least once."""
        until(lambda: self._believed == self._addresses.keys(), "all to believe it")

    def await_refusal(self) -> dict[str, float]:
        """Return when each has refused it: since when, by machine."""
        until(lambda: self.refused_s.keys() == self._addresses.keys(), "all to refuse it")
        self._thread.join()
        return self.refused_s

    def _run(self) -> None:
        switch_kit.enter(self._namespace)
        asyncio.run(self._dial_all())

    async def _dial_all(self) -> None:
        await asyncio.gather(*(self._dial(name) for name in self._addresses))

    async def _dial(self, name: str) -> None:
        while name not in self.refused_s:
            try:
                # Believed, but it does not go on to a link: nothing of the cluster is disturbed.
                await dial_address(self._addresses[name], name, self._passport, lambda _: False)
            except NotReached as missed:
                if missed.code == EJECTED:
                    self.refused_s[name] = time.monotonic()
                elif missed.code == "not-wanted":
                    self._believed.add(name)
            await asyncio.sleep(PAUSE_S)
