"""Somebody who dials the machines of a cluster with a certificate that they are to refuse."""

from __future__ import annotations

import asyncio
import ssl
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from random import Random

from iriai import __version__
from iriai.daemon.net.credentials import Credentials
from iriai.daemon.net.dialer import dial_address
from iriai.identity.cluster_state import ClusterState
from iriai.links.address_book import AddressBook
from iriai.links.attempt import UNPROVED, NotReached
from iriai.links.core import LinkCore, OwnCard
from iriai.links.greeting import ClientGreeting
from iriai.model.instant import Instant
from tests.endtoend.network import Networked
from tests.endtoend.switch import enter
from tests.support.trusted import TrustedCluster
from tests.support.waiting import until

PAUSE_S = 0.1
"""Between two attempts at one machine."""
BELIEVED = "not-wanted"
"""What an attempt ends with that got through: it does not go on to a link, so that nothing of the
cluster is disturbed."""


class NoLinks(LinkCore):
    """Nothing goes on to a link."""

    def is_wanted(self, machine: str, now: Instant) -> bool:
        return False


class Intruder:
    """Dials from a place in the network, from its making until all have refused."""

    def __init__(
        self,
        passport: Credentials,
        namespace: str,
        addresses: Mapping[str, str],
        refusal: str,
        *,
        believes_all: bool = False,
    ) -> None:
        """`addresses` are those of members, by name; `refusal` is the code of a refusal."""
        self.refused_s: dict[str, float] = {}
        """By machine when it first refused, on the monotonic clock."""
        self.believed: set[str] = set()
        """Machines that have taken it for what it says."""
        self._passport = passport
        self._namespace = namespace
        self._addresses = addresses
        self._refusal = refusal
        self._believes_all = believes_all
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def await_belief(self) -> None:
        """Return when each has taken it for the machine at least once."""
        until(lambda: self.believed == self._addresses.keys(), "all to believe it")

    def await_refusal(self) -> dict[str, float]:
        """Return when each has refused it: since when, by machine."""
        until(lambda: self.refused_s.keys() == self._addresses.keys(), "all to refuse it")
        self._thread.join()
        return self.refused_s

    def _run(self) -> None:
        enter(self._namespace)
        asyncio.run(self._dial_all())

    async def _dial_all(self) -> None:
        await asyncio.gather(*(self._dial(name) for name in self._addresses))

    async def _dial(self, name: str) -> None:
        passport = self._passport
        if self._believes_all:
            passport = replace(passport, check_peer=lambda _: name)
        while name not in self.refused_s:
            try:
                own = OwnCard(passport.name, passport.instance, __version__)
                greeting = ClientGreeting(NoLinks(own, AddressBook(own.name), Random(1)), name)
                await dial_address(self._addresses[name], passport, greeting)
            except NotReached as missed:
                if missed.code == self._refusal:
                    self.refused_s[name] = time.monotonic()
                elif missed.code == BELIEVED:
                    self.believed.add(name)
            await asyncio.sleep(PAUSE_S)


def ejected_one(machine: Networked, addresses: Mapping[str, str]) -> Intruder:
    """Whoever has the identity of a member, which must not run any more."""
    state = ClusterState(machine.paths.cluster)
    passport = Credentials.of(state.identity, state.trust)
    return Intruder(passport, machine.namespace, addresses, "ejected")


def foreign_one(directory: Path, namespace: str, addresses: Mapping[str, str]) -> Intruder:
    """Whoever made an authority of their own, and a certificate with it.

    Their own side believes everybody: the refusal is that of the members.
    """
    passport = Credentials.of(*TrustedCluster(directory).machine("oni"))
    passport.client_context.verify_mode = ssl.CERT_NONE
    return Intruder(passport, namespace, addresses, UNPROVED, believes_all=True)
